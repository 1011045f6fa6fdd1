//! Files of the archive: their names before they are written, what they hold, and which letters stand in them.

use lazaret_core::id::{FileId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row};

use super::super::rows::unknown;
use super::super::writer::Write;
use super::super::{numbers, trash};
use crate::StoreError;
use crate::archive::{ArchiveFile, FileRow, FileState, ShelvedRow, WrittenFile};
use crate::failure::FailurePoint;

const OPEN: &str = "
insert into archive_files (id, path, state, opened_at)
values (?1, ?2, ?3, ?4)
on conflict (id) do nothing";

pub(in crate::sqlite) fn open(write: &Write, id: FileId, path: &str, at: Time) -> Result<(), StoreError> {
    write.conn.prepare_cached(OPEN)?.execute((id.bytes(), path, FileState::Writing.name(), at.ms()))?;
    Ok(())
}

const WRITTEN: &str = "
update archive_files
   set state = ?3, letters = ?4, bytes = ?5, sha256 = ?6, first_died_at = ?7, last_died_at = ?8, checked_at = ?9,
       problem = null
 where id = ?1
   and state = ?2";

pub(in crate::sqlite) fn written(
    write: &Write,
    id: FileId,
    file: &WrittenFile,
    at: Time,
) -> Result<(), StoreError> {
    let changed = write.conn.prepare_cached(WRITTEN)?.execute((
        id.bytes(),
        FileState::Writing.name(),
        FileState::Written.name(),
        file.letters as i64,
        file.bytes as i64,
        file.sha256,
        file.first_died_at.map(Time::ms),
        file.last_died_at.map(Time::ms),
        at.ms(),
    ))?;
    expect_one(changed, id, "being written")
}

pub(in crate::sqlite) fn kept(write: &Write, id: FileId) -> Result<(), StoreError> {
    let changed = write
        .conn
        .prepare_cached("update archive_files set state = ?3 where id = ?1 and state = ?2")?
        .execute((id.bytes(), FileState::Written.name(), FileState::Kept.name()))?;
    expect_one(changed, id, "written")
}

fn expect_one(changed: usize, id: FileId, state: &str) -> Result<(), StoreError> {
    match changed {
        1 => Ok(()),
        _ => Err(StoreError::Corrupt(format!("file {id} of the archive is not {state}"))),
    }
}

const IS_ON_RECORD: &str = "select exists (select 1 from archive_rows where file = ?1)";

/// Forgets a file of which nothing is on record; says whether that is so.
pub(in crate::sqlite) fn forget(write: &Write, id: FileId) -> Result<bool, StoreError> {
    let held: bool = write.conn.prepare_cached(IS_ON_RECORD)?.query_row([id.bytes()], |row| row.get(0))?;
    if !held {
        write.conn.prepare_cached("delete from archive_files where id = ?1")?.execute([id.bytes()])?;
    }
    Ok(!held)
}

pub(in crate::sqlite) fn checked(
    write: &Write,
    id: FileId,
    problem: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update archive_files set checked_at = ?2, problem = ?3 where id = ?1")?
        .execute((id.bytes(), at.ms(), problem))?;
    Ok(())
}

const COLUMNS: &str = "
id, path, state, letters, bytes, sha256, first_died_at, last_died_at, opened_at, checked_at, problem";

fn read(row: &Row<'_>) -> Result<ArchiveFile, StoreError> {
    let state: String = row.get(2)?;
    Ok(ArchiveFile {
        id: FileId::from_bytes(row.get(0)?),
        path: row.get(1)?,
        state: FileState::parse(&state).ok_or_else(|| unknown("state of a file", &state))?,
        letters: row.get::<_, i64>(3)? as u64,
        bytes: row.get::<_, i64>(4)? as u64,
        sha256: row.get::<_, Option<[u8; 32]>>(5)?.unwrap_or_default(),
        first_died_at: row.get::<_, Option<i64>>(6)?.map(Time::from_ms),
        last_died_at: row.get::<_, Option<i64>>(7)?.map(Time::from_ms),
        opened_at: Time::from_ms(row.get(8)?),
        checked_at: row.get::<_, Option<i64>>(9)?.map(Time::from_ms),
        problem: row.get(10)?,
    })
}

/// Ids are minted in the order of time, so that theirs is the order in which the files were opened.
pub(in crate::sqlite) fn files(
    conn: &Connection,
    after: Option<FileId>,
    limit: usize,
) -> Result<Vec<ArchiveFile>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS}
           from archive_files
          where ?1 is null or id > ?1
          order by id
          limit ?2"
    ))?;
    let mut found = statement.query((after.as_ref().map(FileId::bytes), limit as i64))?;
    let mut files = Vec::new();
    while let Some(row) = found.next()? {
        files.push(read(row)?);
    }
    Ok(files)
}

pub(in crate::sqlite) fn file(conn: &Connection, id: FileId) -> Result<Option<ArchiveFile>, StoreError> {
    let mut statement = conn.prepare_cached(&format!("select {COLUMNS} from archive_files where id = ?1"))?;
    let mut found = statement.query([id.bytes()])?;
    found.next()?.map(read).transpose()
}

/// There is one, or one for each crash that nobody has cleared up after.
pub(in crate::sqlite) fn unfinished(conn: &Connection) -> Result<Vec<ArchiveFile>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS}
           from archive_files indexed by archive_files_unfinished
          where state <> 'kept'
          order by id"
    ))?;
    let mut found = statement.query([])?;
    let mut files = Vec::new();
    while let Some(row) = found.next()? {
        files.push(read(row)?);
    }
    Ok(files)
}

const ROWS: &str = "
select letter, row, first_life, last_life
  from archive_rows indexed by archive_rows_by_file
 where file = ?1
 order by row";

pub(in crate::sqlite) fn rows(conn: &Connection, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError> {
    let mut statement = conn.prepare_cached(ROWS)?;
    let rows = statement.query_map([id.bytes()], |row| {
        let of_file = FileRow {
            file: id,
            row: row.get::<_, i64>(1)? as u64,
            first_life: row.get(2)?,
            last_life: row.get(3)?,
        };
        Ok((LetterId::from_bytes(row.get(0)?), of_file))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What one commit made of rows that were to be shelved.
pub(in crate::sqlite) struct Shelved {
    /// How many were looked at: of large ones only a few.
    pub looked_at: usize,
    pub letters: u64,
}

const STATE: &str = "select state from archive_files where id = ?1";

/// Puts letters on record as those of a verified file and drops their content.
pub(in crate::sqlite) fn shelve(
    write: &Write,
    file: FileId,
    rows: &[ShelvedRow],
) -> Result<Shelved, StoreError> {
    let state: Option<String> =
        write.conn.prepare_cached(STATE)?.query_row([file.bytes()], |row| row.get(0)).optional()?;
    // Content goes only for what was read back: a file that may not be there holds nothing.
    if state.as_deref().and_then(FileState::parse) != Some(FileState::Written) {
        return Err(StoreError::Corrupt(format!("file {file} of the archive is not verified")));
    }
    let (mut shelved, mut bytes) = (Shelved { looked_at: 0, letters: 0 }, 0);
    for row in rows {
        if bytes >= limits::CONTENT_BYTES_DROPPED_PER_WRITE as i64 {
            break;
        }
        shelved.looked_at += 1;
        if let Some(dropped) = shelve_one(write, file, row)? {
            shelved.letters += 1;
            bytes += dropped;
        }
    }
    numbers::keep(write)?;
    Ok(shelved)
}

/// A letter that came back, or came back and went again, has another entry or waits no more.
const SHELVE: &str = "
update archive
   set waiting = 0
 where id = ?1
   and entry = ?2
   and waiting = 1";

const CONTENT: &str = "
select t.letter, min(v.life), max(v.life),
       sum(octet_length(v.body))
       + (select coalesce(sum(octet_length(a.detail)), 0) from trash_attempts a where a.letter = t.letter)
  from trash t
  join trash_lives v on v.letter = t.letter
 where t.id = ?1
 group by t.letter";

const ADD_ROW: &str = "
insert into archive_rows (letter, first_life, last_life, file, row, attempts)
values (?1, ?2, ?3, ?4, ?5, ?6)";

/// Returns how much was dropped; nothing if the letter is not the one that was written.
fn shelve_one(write: &Write, file: FileId, row: &ShelvedRow) -> Result<Option<i64>, StoreError> {
    let (conn, id) = (&write.conn, row.letter.bytes());
    if conn.prepare_cached(SHELVE)?.execute((id, row.entry))? == 0 {
        return Ok(None);
    }
    let (number, first, last, bytes): (i64, u32, u32, i64) = conn
        .prepare_cached(CONTENT)?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    if (first, last) != (row.first_life, row.last_life) {
        return Err(StoreError::Corrupt(format!(
            "lives {first} to {last} of letter {} wait, but lives {} to {} were written",
            row.letter, row.first_life, row.last_life
        )));
    }
    let attempts = identities(conn, number)?;
    conn.prepare_cached(ADD_ROW)?.execute((id, first, last, file.bytes(), row.row as i64, attempts))?;
    write.failures.at(FailurePoint::Shelve)?;
    trash::drop_content(conn, number)?;
    Ok(Some(bytes))
}

/// What tells the attempts of a waiting letter apart, one behind the other.
fn identities(conn: &Connection, row: i64) -> Result<Vec<u8>, StoreError> {
    let mut statement =
        conn.prepare_cached("select identity from trash_attempts where letter = ?1 order by ordinal")?;
    let mut found = statement.query([row])?;
    let mut identities = Vec::new();
    while let Some(row) = found.next()? {
        identities.extend_from_slice(&row.get::<_, [u8; 16]>(0)?);
    }
    Ok(identities)
}
