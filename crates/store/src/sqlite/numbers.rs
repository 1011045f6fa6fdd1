//! Numbers of letters and lives, each given once and never again.
//!
//! SQLite gives the numbers of the newest rows a second time when these are deleted. But the body index knows letters
//! by their numbers, deleted letters keep theirs, and both the index and regrouping take the number of a life for the
//! order of capture. So the writer counts by itself, and writes down how far it came whenever rows go.

use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OptionalExtension};

use super::writer::Write;
use crate::StoreError;

/// The highest numbers that were ever given. Those given in a commit that failed are lost, which does no harm.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    letters: AtomicI64,
    lives: AtomicI64,
}

const HIGHEST: &str = "
select max(coalesce((select max(letter) from dead_letter_queue), 0), coalesce((select max(letter) from trash), 0),
           coalesce((select max(number) from letter_keys), 0)),
       coalesce((select max(rowid) from lives), 0)";

const KEPT: &str = "select value from meta where key = 'numbers'";

impl Numbers {
    pub fn read(conn: &Connection) -> Result<Numbers, StoreError> {
        let (letters, lives): (i64, i64) =
            conn.query_row(HIGHEST, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let kept: Option<String> = conn.query_row(KEPT, [], |row| row.get(0)).optional()?;
        let (kept_letters, kept_lives): (i64, i64) = match &kept {
            Some(text) => serde_json::from_str(text).map_err(|error| {
                StoreError::Corrupt(format!("the highest numbers cannot be read: {error}"))
            })?,
            None => (0, 0),
        };
        Ok(Numbers {
            letters: AtomicI64::new(letters.max(kept_letters)),
            lives: AtomicI64::new(lives.max(kept_lives)),
        })
    }

    pub fn next_letter(&self) -> i64 {
        self.letters.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn last_letter(&self) -> i64 {
        self.letters.load(Ordering::Acquire)
    }

    pub fn next_life(&self) -> i64 {
        self.next_lives(1)
    }

    /// The first of so many numbers.
    pub fn next_lives(&self, count: i64) -> i64 {
        self.lives.fetch_add(count, Ordering::Relaxed) + 1
    }

    pub fn last_life(&self) -> i64 {
        self.lives.load(Ordering::Relaxed)
    }
}

/// Writes the highest numbers down. Whoever deletes letters calls it in the same commit.
pub(super) fn keep(write: &Write) -> Result<(), StoreError> {
    let numbers = &write.numbers;
    let text = format!("[{},{}]", numbers.last_letter(), numbers.last_life());
    write
        .conn
        .prepare_cached("insert or replace into meta (key, value) values ('numbers', ?1)")?
        .execute([text])?;
    Ok(())
}
