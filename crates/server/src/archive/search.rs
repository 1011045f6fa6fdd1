//! Searching the archive: by its index where that can answer, else by opening letters one by one, bounded in time and bytes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_store::archive::{ArchivePage, ArchiveQuery, Archived, Entry};
use lazaret_store::search::Scan;
use lazaret_store::transfer::Exported;

use super::ArchiveError;
use super::read::{Opened, by_file, read_many};
use crate::app::App;

/// Letters of the index that are opened together.
const LETTERS_PER_LOOK: usize = 64;

/// A page of the archive, the last removed first. Where the filter asks for content, `scan` says how many letters were opened
/// and whether the page ends before it is full; the next one goes on from there.
pub async fn search(app: &App, query: ArchiveQuery) -> Result<ArchivePage, ArchiveError> {
    if !query.filter.needs_content() {
        return Ok(app.store.archived(query).await?);
    }
    let until = Instant::now() + Duration::from_millis(limits::ARCHIVE_SCAN_MS_MAX);
    let mut opened = Opened::default();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut before = query.before;
    loop {
        let look = ArchiveQuery { before, limit: LETTERS_PER_LOOK, ..query.clone() };
        let page = app.store.archived(look).await?;
        let contents = contents(app, &mut opened, &page.letters).await?;
        for archived in page.letters {
            let entry = archived.entry;
            looked_at += 1;
            if holds(&query, contents.get(&archived.letter.id)) {
                found.push(archived);
            }
            if found.len() == query.limit {
                let next = more_behind(app, &query, entry).await?;
                return Ok(answer(found, next, looked_at, false));
            }
        }
        let Some(next) = page.next else { return Ok(answer(found, None, looked_at, false)) };
        if Instant::now() > until || opened.bytes > limits::ARCHIVE_SCAN_BYTES_MAX {
            return Ok(answer(found, Some(next), looked_at, true));
        }
        before = Some(next);
    }
}

fn answer(letters: Vec<Archived>, next: Option<Entry>, looked_at: u64, cut_short: bool) -> ArchivePage {
    ArchivePage { letters, next, scan: Some(Scan { letters: looked_at, cut_short }) }
}

/// As among live letters the last life counts.
fn holds(query: &ArchiveQuery, content: Option<&Exported>) -> bool {
    let last = content.and_then(|exported| exported.lives.last());
    last.is_some_and(|(_, envelope)| query.filter.matches_content(envelope))
}

/// Opens letters. One that cannot be read is an error: an answer without it would be taken for a whole one.
async fn contents(
    app: &App,
    opened: &mut Opened,
    letters: &[Archived],
) -> Result<BTreeMap<LetterId, Exported>, ArchiveError> {
    let mut contents = BTreeMap::new();
    for (file, wanted) in by_file(letters) {
        for (letter, row) in opened.rows(app, file, &wanted).await? {
            contents.insert(letter, row?.exported);
        }
    }
    let waiting: Vec<Archived> = letters.iter().filter(|it| it.file.is_none()).cloned().collect();
    for (letter, exported) in read_many(app, &waiting).await? {
        contents.insert(letter, exported?);
    }
    Ok(contents)
}

/// Where the next page begins, if there is a letter behind this one that the index knows of.
async fn more_behind(app: &App, query: &ArchiveQuery, entry: Entry) -> Result<Option<Entry>, ArchiveError> {
    let look = ArchiveQuery { before: Some(entry), limit: 1, ..query.clone() };
    let page = app.store.archived(look).await?;
    Ok((!page.letters.is_empty() || page.next.is_some()).then_some(entry))
}
