//! Migrations: forward only, numbered, each in its own transaction, never edited once they are out.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::Mode;
use crate::StoreError;

/// In order; the number in the name is the format of the store after it.
const MIGRATIONS: &[(u32, &str)] = &[
    (1, include_str!("migrations/0001_letters.sql")),
    (2, include_str!("migrations/0002_understand.sql")),
    (3, include_str!("migrations/0003_regrouping.sql")),
    (4, include_str!("migrations/0004_jobs.sql")),
    (5, include_str!("migrations/0005_trash.sql")),
    (6, include_str!("migrations/0006_workers.sql")),
    (7, include_str!("migrations/0007_redrive.sql")),
];

/// Marks the file as ours: "LZRT".
const APPLICATION_ID: i32 = 0x4c5a_5254;

/// Reads the format of the store, or says why it must not be touched. Writes nothing: the file may be somebody else's.
pub(super) fn recognise(conn: &Connection, path: &Path) -> Result<u32, StoreError> {
    let application: i32 = match conn.query_row("pragma application_id", [], |row| row.get(0)) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        other => other?,
    };
    let found: u32 = conn.query_row("pragma user_version", [], |row| row.get(0))?;
    let tables: u32 = conn.query_row("select count(*) from sqlite_schema", [], |row| row.get(0))?;
    let fresh = application == 0 && found == 0 && tables == 0;
    if !fresh && application != APPLICATION_ID {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    let known = MIGRATIONS.last().map_or(0, |(number, _)| *number);
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    Ok(found)
}

/// Brings the store from the format that was found to the newest.
pub(super) fn migrate(conn: &mut Connection, found: u32) -> Result<(), StoreError> {
    for (number, sql) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        let step = conn.transaction()?;
        step.execute_batch(sql)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", number)?;
        step.commit()?;
        tracing::info!(format = number, "the store was brought to format {number}");
    }
    Ok(())
}

/// Writes down what a new store is for; one that was made for something else is not opened.
pub(super) fn keep_mode(conn: &Connection, mode: Mode) -> Result<(), StoreError> {
    let word = match mode {
        Mode::Real => "real",
        Mode::Test => "test",
    };
    conn.execute("insert into meta (key, value) values ('mode', ?1) on conflict (key) do nothing", [word])?;
    let kept: String = conn.query_row("select value from meta where key = 'mode'", [], |row| row.get(0))?;
    match (mode, kept == word) {
        (_, true) => Ok(()),
        (Mode::Test, false) => {
            Err(StoreError::WrongMode("this store was made for real use: test mode does not open it"))
        }
        (Mode::Real, false) => {
            Err(StoreError::WrongMode("this store was made in test mode: only test mode opens it"))
        }
    }
}
