//! Reading letters back: from the store while they wait there, else from their files.
//!
//! A file is read whole and has to have the hash on record before anything in it is believed.

use std::collections::BTreeMap;

use bytes::Bytes;
use lazaret_core::id::{FileId, LetterId};
use lazaret_core::limits;
use lazaret_store::archive::{ArchiveFile, Archived, FileRow};
use lazaret_store::transfer::Exported;
use sha2::{Digest, Sha256};

use super::ArchiveError;
use super::parse;
use super::row::Row;
use crate::app::App;

/// Reads an archived or deleted letter whole, with the lives that went before the others.
pub async fn read_letter(app: &App, letter: LetterId) -> Result<Option<Exported>, ArchiveError> {
    for _ in 0..limits::ARCHIVE_LOOKS_MAX {
        let Some(archived) = app.store.archived_letter(letter).await? else { return Ok(None) };
        let last = match &archived.file {
            Some(at) => Opened::default().rows(app, at.file, &[&archived]).await?.pop().map(|(_, row)| row),
            None => app.store.waiting_letter(letter).await?.map(|waiting| Ok(Row::of(waiting))),
        };
        // It went into a file between the two looks, or came back.
        let Some(last) = last else { continue };
        let last = last?.exported;
        let first_life = last.lives.first().map_or(1, |(life, _)| life.life);
        let mut older = Vec::new();
        for at in app.store.older_lives(letter).await? {
            if at.last_life < first_life {
                older.extend(older_row(app, letter, &at).await?);
            }
        }
        return Ok(Some(joined(older, last)));
    }
    Ok(None)
}

/// Reads the lives of a letter that stand in files, oldest first, each with the attempts of its time.
pub async fn read_older(app: &App, letter: LetterId) -> Result<Vec<Exported>, ArchiveError> {
    let mut older = Vec::new();
    for at in app.store.older_lives(letter).await? {
        older.extend(older_row(app, letter, &at).await?);
    }
    Ok(older)
}

/// What was read of one letter; a file that is missing or damaged spoils its own letters alone.
pub type Read<T> = Vec<(LetterId, Result<T, ArchiveError>)>;

/// Reads the last lives of archived letters, each file once. Letters that are not in the archive any more are left out.
pub async fn read_many(app: &App, letters: &[Archived]) -> Result<Read<Exported>, ArchiveError> {
    let mut opened = Opened::default();
    let mut found: BTreeMap<LetterId, Result<Exported, ArchiveError>> = BTreeMap::new();
    for (file, wanted) in by_file(letters) {
        for chunk in wanted.chunks(limits::ARCHIVE_LETTERS_PER_READ) {
            match opened.rows(app, file, chunk).await {
                Ok(rows) => found.extend(rows.into_iter().map(|(id, row)| (id, row.map(|row| row.exported)))),
                Err(error) => spoil(&mut found, chunk, error)?,
            }
        }
    }
    for archived in letters.iter().filter(|archived| archived.file.is_none()) {
        let id = archived.letter.id;
        match app.store.waiting_letter(id).await? {
            Some(waiting) => {
                found.insert(id, Ok(Row::of(waiting).exported));
            }
            None => match read_letter(app, id).await {
                Ok(Some(exported)) => {
                    found.insert(id, Ok(exported));
                }
                Ok(None) => {}
                Err(ArchiveError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    found.insert(id, Err(error));
                }
            },
        }
    }
    let in_order = letters.iter().map(|archived| archived.letter.id);
    Ok(in_order.filter_map(|id| found.remove(&id).map(|read| (id, read))).collect())
}

/// Letters of an index that stand in files, by file and row.
pub(super) fn by_file(letters: &[Archived]) -> BTreeMap<FileId, Vec<&Archived>> {
    let mut files: BTreeMap<FileId, Vec<&Archived>> = BTreeMap::new();
    for archived in letters {
        if let Some(at) = &archived.file {
            files.entry(at.file).or_default().push(archived);
        }
    }
    for wanted in files.values_mut() {
        wanted.sort_by_key(|archived| archived.file.as_ref().map(|at| at.row));
        wanted.dedup_by_key(|archived| archived.letter.id);
    }
    files
}

/// Says of each of these letters what is wrong with its file; an error of the store is for all.
pub(super) fn spoil<T>(
    found: &mut BTreeMap<LetterId, Result<T, ArchiveError>>,
    letters: &[&Archived],
    error: ArchiveError,
) -> Result<(), ArchiveError> {
    for archived in letters {
        match error.again() {
            Some(again) => found.insert(archived.letter.id, Err(again)),
            None => return Err(error),
        };
    }
    Ok(())
}

/// The file that was read last: those who read many letters read one file after the other.
#[derive(Debug, Default)]
pub(super) struct Opened {
    last: Option<(ArchiveFile, Bytes)>,
    /// Bytes of all files that were read.
    pub bytes: u64,
}

impl Opened {
    /// Reads letters of one file, which are in the order of their rows.
    pub(super) async fn rows(
        &mut self,
        app: &App,
        file: FileId,
        wanted: &[&Archived],
    ) -> Result<Read<Row>, ArchiveError> {
        let at: Vec<FileRow> = wanted.iter().filter_map(|archived| archived.file.clone()).collect();
        let (file, rows) = self.numbered(app, file, at.iter().map(|at| at.row).collect()).await?;
        let read = wanted.iter().zip(&at).zip(rows).map(|((archived, at), row)| {
            let letter = archived.letter.id;
            if row.exported.letter.id == letter && row.entry == archived.entry {
                return (letter, Ok(row));
            }
            let problem = format!("row {} does not hold letter {letter}", at.row);
            (letter, Err(damaged(app, &file, problem)))
        });
        Ok(read.collect())
    }

    /// Reads rows of one file, in ascending order.
    async fn numbered(
        &mut self,
        app: &App,
        file: FileId,
        numbers: Vec<u64>,
    ) -> Result<(ArchiveFile, Vec<Row>), ArchiveError> {
        let (file, content) = match self.last.take().filter(|(last, _)| last.id == file) {
            Some(last) => last,
            None => {
                let on_record = app.store.file(file).await?;
                let unknown = || ArchiveError::Missing { file, path: "it is not on record".to_owned() };
                let file = on_record.ok_or_else(unknown)?;
                let content = fetch(app, &file).await?;
                self.bytes += content.len() as u64;
                (file, content)
            }
        };
        self.last = Some((file.clone(), content.clone()));
        let rows = blocking(move || parse::some(content, &numbers)).await?;
        Ok((file.clone(), rows.map_err(|problem| damaged(app, &file, problem))?))
    }
}

/// The row of older lives, which has to be the one that the store speaks of.
async fn older_row(app: &App, letter: LetterId, at: &FileRow) -> Result<Option<Exported>, ArchiveError> {
    let (file, mut rows) = Opened::default().numbered(app, at.file, vec![at.row]).await?;
    let Some(row) = rows.pop() else { return Ok(None) };
    if row.exported.letter.id == letter && row.lives() == (at.first_life, at.last_life) {
        return Ok(Some(row.exported));
    }
    Err(damaged(app, &file, format!("row {} does not hold lives of letter {letter}", at.row)))
}

/// Reads a file and compares it with what is on record of it.
pub(super) async fn fetch(app: &App, file: &ArchiveFile) -> Result<Bytes, ArchiveError> {
    let place = app.archive.place()?;
    let Some(content) = place.get(&file.path).await? else {
        return Err(ArchiveError::Missing { file: file.id, path: place.shown_path(&file.path) });
    };
    if content.len() as u64 != file.bytes {
        let problem = format!("it has {} bytes instead of {}", content.len(), file.bytes);
        return Err(damaged(app, file, problem));
    }
    let hashed = content.clone();
    let sha256: [u8; 32] = blocking(move || Sha256::digest(&hashed).into()).await?;
    if sha256 != file.sha256 {
        return Err(damaged(app, file, "its bytes were changed: it does not have its SHA-256".to_owned()));
    }
    Ok(content)
}

pub(super) fn damaged(app: &App, file: &ArchiveFile, problem: String) -> ArchiveError {
    let path = match app.archive.place() {
        Ok(place) => place.shown_path(&file.path),
        Err(_) => file.path.clone(),
    };
    ArchiveError::Damaged { file: file.id, path, problem }
}

/// Unpacking and hashing megabytes takes too long for the threads that serve everyone.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ArchiveError> {
    let failed = |error: tokio::task::JoinError| ArchiveError::Away {
        doing: "working on a file",
        why: error.to_string(),
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// A letter with the lives and attempts of its earlier times before the last ones.
fn joined(older: Vec<Exported>, mut last: Exported) -> Exported {
    if older.is_empty() {
        return last;
    }
    let (mut lives, mut attempts) = (Vec::new(), Vec::new());
    for exported in older {
        lives.extend(exported.lives);
        attempts.extend(exported.attempts);
    }
    lives.append(&mut last.lives);
    attempts.append(&mut last.attempts);
    lives.sort_by_key(|(life, _)| life.life);
    attempts.sort_by_key(|attempt| attempt.ordinal);
    Exported { lives, attempts, ..last }
}
