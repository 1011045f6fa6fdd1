//! Lists and the message index follow capture.
//!
//! A dozen indexes on a letter are most of what its capture would write: a page each, for a few bytes. So a new letter is
//! stored with `listed = 0` and stands in none of them, nor in the message index, until some hundred are listed at once.
//! Whoever reads a list has what came in before listed first, so nobody misses what he wrote; inside the writer whoever
//! selects letters does. A crash in between loses nothing: what is not listed is listed when the store opens.

use std::sync::atomic::{AtomicI64, Ordering};

use lazaret_core::filter::words::indexed_text;
use lazaret_core::limits;
use rusqlite::{Connection, OptionalExtension};

use super::numbers::Numbers;
use super::words;
use super::writer::Write;
use crate::StoreError;
use crate::failure::FailurePoint;

/// How far listing has come: every letter up to this number is listed.
#[derive(Debug, Default)]
pub(super) struct Listing {
    reached: AtomicI64,
}

const REACHED: &str = "select value from meta where key = 'listed'";

const REACH: &str = "insert or replace into meta (key, value) values ('listed', ?1)";

const LIST: &str = "
update dead_letter_queue
   set listed = 1
 where letter > ?1
   and listed = 0
returning letter, type, error_type, error_message";

const ADD_WORDS: &str = "insert or replace into letter_words (rowid, words) values (?1, ?2)";

impl Listing {
    /// Lists what a process that was killed left, and begins from there.
    pub fn open(conn: &Connection, numbers: &Numbers) -> Result<Listing, StoreError> {
        let reached: Option<String> = conn.query_row(REACHED, [], |row| row.get(0)).optional()?;
        let reached = reached.and_then(|text| text.parse().ok()).unwrap_or(0);
        let last = numbers.last_letter();
        if reached < last {
            let transaction = conn.unchecked_transaction()?;
            list(conn, reached, last)?;
            transaction.commit()?;
        }
        Ok(Listing { reached: AtomicI64::new(last) })
    }

    /// Whether letters may have come in that are not listed.
    pub fn is_behind(&self, numbers: &Numbers) -> bool {
        self.reached.load(Ordering::Acquire) < numbers.last_letter()
    }

    /// Notes how far a commit came.
    pub fn reach(&self, letter: i64) {
        self.reached.store(letter, Ordering::Release);
    }
}

/// Lists all letters up to one that are behind another.
fn list(conn: &Connection, behind: i64, last: i64) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(LIST)?;
    let mut found = statement.query([behind])?;
    let mut new: Vec<(i64, String)> = Vec::new();
    while let Some(row) = found.next()? {
        let text = |at| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
        new.push((row.get(0)?, indexed_text(text(1)?, text(2)?, text(3)?)));
    }
    drop(found);
    // Numbers that were given in a commit that failed are nobody's.
    if new.is_empty() {
        return Ok(());
    }
    let mut add = conn.prepare_cached(ADD_WORDS)?;
    for (letter, words) in &new {
        add.execute((letter, words))?;
    }
    conn.prepare_cached(REACH)?.execute([last.to_string()])?;
    words::merge(conn)
}

/// Lists everything that came in so far, in the present transaction.
pub(super) fn catch_up(write: &mut Write) -> Result<(), StoreError> {
    let (reached, last) = (reached(write), write.numbers.last_letter());
    if reached < last {
        list(&write.conn, reached, last)?;
        write.listed = Some(last);
        write.failures.at(FailurePoint::List)?;
    }
    Ok(())
}

/// Lists everything that came in so far, if that is much.
pub(super) fn catch_up_if_due(write: &mut Write) -> Result<(), StoreError> {
    match write.numbers.last_letter() - reached(write) >= limits::UNLISTED_LETTERS_MAX {
        true => catch_up(write),
        false => Ok(()),
    }
}

fn reached(write: &Write) -> i64 {
    write.listed.unwrap_or_else(|| write.listing.reached.load(Ordering::Acquire))
}
