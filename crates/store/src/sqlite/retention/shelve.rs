//! Letters leave the store for a verified file: which row of it holds each is put on record, and their content is dropped.

use lazaret_core::id::FileId;
use lazaret_core::limits;
use rusqlite::{Connection, OptionalExtension};

use super::super::writer::Write;
use super::super::{numbers, trash};
use crate::StoreError;
use crate::archive::{FileState, ShelvedRow};
use crate::failure::FailurePoint;

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
