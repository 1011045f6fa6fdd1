//! The index of the archive: which letters are there, and where each of them is.
//!
//! One value of a column that has an index is found by it. Anything else that a filter asks for is asked of one row after
//! the other, for a while; whoever asks goes on from where it stopped.

use std::time::Instant;

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::lifecycle::Place;

use super::super::conn::{Binds, Conn};
use super::super::filter::Where;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Archived, Entry};
use crate::engine::archive::index::{ARCHIVED_COLUMNS, ARCHIVED_JOINS, read};
use crate::page::PageQuery;
use crate::seam::Row;
use crate::search::Scan;

/// Rows that are asked one after the other, before it is asked how long it took.
const STRETCH: usize = 1_000;

/// A page of the archive, the last removed first. Asked within a snapshot.
pub(super) async fn page(conn: &Conn, query: &ArchiveQuery) -> Result<ArchivePage, StoreError> {
    let (found_by, rest) = divide(query);
    match rest {
        None => answered(conn, query, &found_by).await,
        Some(rest) => looked_for(conn, query, &found_by, &rest).await,
    }
}

async fn answered(conn: &Conn, query: &ArchiveQuery, found_by: &Asked) -> Result<ArchivePage, StoreError> {
    let mut letters = stretch(conn, query, found_by, query.before, query.limit + 1).await?;
    let more = letters.len() > query.limit;
    letters.truncate(query.limit);
    let next = letters.last().filter(|_| more).map(|letter| letter.entry);
    Ok(ArchivePage { letters, next, scan: None })
}

/// A page of rows that have to be looked at one by one: it ends when it is full or when the time is over.
async fn looked_for(
    conn: &Conn,
    query: &ArchiveQuery,
    found_by: &Asked,
    rest: &Asked,
) -> Result<ArchivePage, StoreError> {
    let until = Instant::now() + PageQuery::SCAN_MAX;
    let mut letters = Vec::new();
    let mut scan = Scan { letters: 0, cut_short: false };
    let mut last = query.before;
    loop {
        // One more tells whether there is anything behind them.
        let mut next = stretch(conn, query, found_by, last, STRETCH + 1).await?;
        let more = next.len() > STRETCH;
        next.truncate(STRETCH);
        let count = next.len();
        for (archived, n) in next.into_iter().zip(1..) {
            scan.letters += 1;
            last = Some(archived.entry);
            if rest.filter.matches(&archived.letter, query.now)
                && rest.place.is_none_or(|place| place == archived.letter.place)
            {
                letters.push(archived);
            }
            if letters.len() >= query.limit {
                return Ok(ArchivePage {
                    letters,
                    next: last.filter(|_| more || n < count),
                    scan: Some(scan),
                });
            }
        }
        if !more {
            return Ok(ArchivePage { letters, next: None, scan: Some(scan) });
        }
        if Instant::now() > until {
            scan.cut_short = true;
            return Ok(ArchivePage { letters, next: last, scan: Some(scan) });
        }
    }
}

/// What is asked of letters: fields, and the place.
#[derive(PartialEq, Default)]
struct Asked {
    filter: Filter,
    place: Option<Place>,
}

/// Divides what is asked for into what an index finds, and the rest, if there is any. Columns that tell fewer letters
/// apart come later; what is inside of letters is asked by whoever opens them.
fn divide(query: &ArchiveQuery) -> (Asked, Option<Asked>) {
    let mut rest = Asked { filter: query.filter.clone(), place: query.place };
    let filter = &mut rest.filter;
    (filter.body, filter.contains) = Default::default();
    (filter.path, filter.header_path) = Default::default();
    let mut found_by = Asked::default();
    if is_one_value(&filter.event_id) {
        found_by.filter.event_id = std::mem::take(&mut filter.event_id);
    } else if filter.incident.include.len() == 1 && filter.incident.exclude.is_empty() {
        found_by.filter.incident = std::mem::take(&mut filter.incident);
    } else if is_one_value(&filter.error_type) {
        found_by.filter.error_type = std::mem::take(&mut filter.error_type);
    } else if is_one_value(&filter.letter_type) {
        found_by.filter.letter_type = std::mem::take(&mut filter.letter_type);
    } else if is_one_value(&filter.queue) {
        found_by.filter.queue = std::mem::take(&mut filter.queue);
    } else if is_one_value(&filter.source) {
        found_by.filter.source = std::mem::take(&mut filter.source);
    } else {
        found_by.place = rest.place.take();
    }
    let more = rest != Asked::default();
    (found_by, more.then_some(rest))
}

fn is_one_value(patterns: &Patterns) -> bool {
    let exact = patterns.include.first().is_some_and(|pattern| pattern.exact().is_some());
    patterns.include.len() == 1 && patterns.exclude.is_empty() && exact
}

/// The next letters that an index finds, behind an entry.
async fn stretch(
    conn: &Conn,
    query: &ArchiveQuery,
    found_by: &Asked,
    before: Option<Entry>,
    rows: usize,
) -> Result<Vec<Archived>, StoreError> {
    let mut binds = Binds::default();
    let asked = Where::of_archive(conn, &found_by.filter, query.now, &mut binds).await?;
    let mut sql = format!("select {ARCHIVED_COLUMNS} from archive l {ARCHIVED_JOINS} where {}", asked.sql);
    if let Some(place) = found_by.place {
        sql.push_str(&format!(" and l.place = {}", binds.text(place.name())));
    }
    if let Some(before) = before {
        sql.push_str(&format!(" and l.entry < {}", binds.long(before)));
    }
    sql.push_str(&format!(" order by l.entry desc limit {}", binds.long(rows as i64)));
    conn.ask(&sql, &binds).await?.iter().map(|row| read(&Row::of_postgres(row))).collect()
}
