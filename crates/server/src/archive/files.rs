//! Writing files of the archive: one in a tick, by the leader.
//!
//! The name is taken down first, then the file is made, put, read back and compared; only then the store is told, and lets
//! the letters go. After a crash at any point the next tick ends what was begun: a file of which the store does not know
//! that it was verified is removed, one that was verified is gone through again.

use std::time::Duration;

use bytes::Bytes;
use lazaret_core::id::FileId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::archive::{ArchiveFile, Entry, FileState, ShelvedRow, Waiting};
use sha2::{Digest, Sha256};

use super::ArchiveError;
use super::parse;
use super::place::ArchivePlace;
use super::read::{self, blocking};
use super::row::Row;
use super::write::{Made, Writer, WrittenRow};
use crate::app::App;
use crate::kill;
use crate::operations::Progress;

/// How long it rests between two commits, so that capture goes first.
const YIELD: Duration = Duration::from_millis(5);

/// Ends one file that was begun, or writes one if enough letters wait. What goes wrong outside of the store is told, taken
/// down and tried again later: nothing is lost, letters wait.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let now = app.clock.now();
    if app.archive.rests(now) {
        return Ok(Progress::Idle);
    }
    let place = match app.archive.place() {
        Ok(place) => place,
        Err(ArchiveError::NoPlace) => {
            app.archive.tell_homeless(app.store.archive_waiting().await?.letters);
            return Ok(Progress::Idle);
        }
        Err(error) => {
            app.archive.failed(&error, now);
            return Ok(Progress::Idle);
        }
    };
    match step(app, place).await {
        // That something begun could be taken back says nothing about the next file.
        Ok(Step::EndedBegun) => Ok(Progress::More),
        Ok(Step::Wrote) => {
            app.archive.went_well();
            Ok(Progress::More)
        }
        Ok(Step::NothingToDo) => {
            app.archive.went_well();
            Ok(Progress::Idle)
        }
        Err(ArchiveError::Store(error)) => Err(error),
        Err(error) => {
            app.archive.failed(&error, now);
            Ok(Progress::Idle)
        }
    }
}

enum Step {
    EndedBegun,
    Wrote,
    NothingToDo,
}

async fn step(app: &App, place: &ArchivePlace) -> Result<Step, ArchiveError> {
    for file in app.store.unfinished_files().await? {
        // One with a problem waits for a person; a check that finds it whole takes the problem away.
        if file.problem.is_none() {
            end_begun(app, place, &file).await?;
            return Ok(Step::EndedBegun);
        }
    }
    let waiting = app.store.archive_waiting().await?;
    if !is_due(app, waiting, app.clock.now()) {
        return Ok(Step::NothingToDo);
    }
    write_file(app, place).await?;
    Ok(Step::Wrote)
}

/// Whether what waits is worth a file, or has waited long enough.
fn is_due(app: &App, waiting: Waiting, now: Time) -> bool {
    let config = &app.config.archive;
    let waited = waiting.since.is_some_and(|since| now.since(since) >= config.file_age_ms);
    waiting.letters > 0
        && (waited || waiting.letters >= config.file_letters || waiting.bytes >= limits::ARCHIVE_FILE_BYTES)
}

/// Ends a file that an earlier process, or an earlier leader, had begun.
async fn end_begun(app: &App, place: &ArchivePlace, file: &ArchiveFile) -> Result<(), ArchiveError> {
    match file.state {
        FileState::Writing => {
            place.remove(&file.path).await?;
            if !app.store.drop_file(file.id).await? {
                tracing::warn!(file.id = %file.id, "file {} of the archive is in use and stays", file.id);
            }
            Ok(())
        }
        FileState::Written => match rows_of(app, file).await {
            Ok(rows) => shelve(app, file.id, rows).await,
            Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                tracing::error!(file.id = %file.id, "{error}");
                let problem = Some(error.to_string());
                app.store.file_checked(file.id, problem, app.clock.now()).await?;
                Ok(())
            }
            Err(error) => Err(error),
        },
        FileState::Kept => Ok(()),
    }
}

/// What the store has to know of the rows of a file.
async fn rows_of(app: &App, file: &ArchiveFile) -> Result<Vec<ShelvedRow>, ArchiveError> {
    let content = read::fetch(app, file).await?;
    let read = blocking(move || {
        let mut rows = Vec::new();
        parse::each(content, |number, row| {
            rows.push(row.shelved(number));
            Ok(())
        })?;
        Ok(rows)
    });
    read.await?.map_err(|problem| read::damaged(app, file, problem))
}

async fn write_file(app: &App, place: &ArchivePlace) -> Result<(), ArchiveError> {
    let now = app.clock.now();
    let id = FileId::mint(now, app.entropy.take().map_err(ArchiveError::Store)?);
    let path = path_of(id, now);
    app.store.open_file(id, path.clone(), now).await?;
    kill::reach(app, "archive_opened");
    let made = make(app, id).await?;
    if made.rows.is_empty() {
        // They came back meanwhile.
        app.store.drop_file(id).await?;
        return Ok(());
    }
    place.put(&path, made.content.clone()).await?;
    kill::reach(app, "archive_put");
    let Made { content, rows, written } = made;
    // What is read back is compared with what was to be in it; our own copy is not needed for that.
    drop(content);
    let wrong = match place.get(&path).await? {
        None => Err("it is not there after it was written".to_owned()),
        Some(found) => {
            let (sha256, expected) = (written.sha256, rows.clone());
            blocking(move || compare(found, sha256, &expected)).await?
        }
    };
    if let Err(problem) = wrong {
        place.remove(&path).await?;
        app.store.drop_file(id).await?;
        return Err(ArchiveError::Damaged { file: id, path: place.shown_path(&path), problem });
    }
    kill::reach(app, "archive_verified");
    let (letters, bytes) = (written.letters, written.bytes);
    app.store.file_written(id, written, app.clock.now()).await?;
    kill::reach(app, "archive_written");
    shelve(app, id, rows.into_iter().map(|row| row.shelved).collect()).await?;
    tracing::info!(file.id = %id, letters, bytes, "{letters} letters written to archive file {id}");
    Ok(())
}

/// Whether a file that was read back is the one that was written, and every letter in it is whole.
fn compare(found: Bytes, sha256: [u8; 32], expected: &[WrittenRow]) -> Result<(), String> {
    if Sha256::digest(&found).as_slice() != sha256 {
        return Err("what was read back is not what was written".to_owned());
    }
    let read = parse::each(found, |number, row| {
        let expected = usize::try_from(number).ok().and_then(|number| expected.get(number));
        match expected {
            Some(expected) if expected.digest == row.digest() => Ok(()),
            Some(_) | None => Err(format!("row {number} is not what was written")),
        }
    })?;
    if read == expected.len() as u64 { Ok(()) } else { Err("rows are missing".to_owned()) }
}

/// Reads waiting letters, oldest first, until they fill a file, and packs them.
async fn make(app: &App, id: FileId) -> Result<Made, ArchiveError> {
    let failed = |why: String| ArchiveError::Away { doing: "making a file", why };
    let config = &app.config.archive;
    let mut writer = Writer::new(id).map_err(|error| failed(error.to_string()))?;
    let mut after: Option<Entry> = None;
    while writer.letters() < config.file_letters && writer.body_bytes() < limits::ARCHIVE_FILE_BYTES {
        let room = config.file_letters - writer.letters();
        let limit = usize::try_from(room).unwrap_or(usize::MAX).min(limits::ARCHIVE_LETTERS_PER_READ);
        let waiting = app.store.waiting_letters(after, limit).await?;
        let Some(last) = waiting.last() else { break };
        after = Some(last.archived.entry);
        let packed = blocking(move || {
            let rows: Vec<Row> = waiting.into_iter().map(Row::of).collect();
            writer.add(rows).map_err(|error| error.to_string())?;
            Ok(writer)
        });
        writer = packed.await?.map_err(failed)?;
    }
    blocking(move || writer.finish().map_err(|error| error.to_string())).await?.map_err(failed)
}

/// Lets letters go that stand in a verified file, a few in each commit.
async fn shelve(app: &App, file: FileId, rows: Vec<ShelvedRow>) -> Result<(), ArchiveError> {
    for chunk in rows.chunks(limits::SHELVED_PER_WRITE) {
        app.store.shelve(file, chunk.to_vec()).await?;
        kill::reach(app, "archive_shelved");
        tokio::time::sleep(YIELD).await;
    }
    app.store.file_kept(file).await?;
    kill::reach(app, "archive_kept");
    Ok(())
}

/// Files of a day stand together: `letters/2026/11/15/<id>.parquet`.
fn path_of(id: FileId, at: Time) -> String {
    let date = at.to_string();
    let day = date.split('T').next().unwrap_or_default().replace('-', "/");
    format!("letters/{day}/{id}.parquet")
}
