//! Capture keys, and the letters that they stand for.
//!
//! A key is a hash: an index by keys would write a page of its own for every letter. So the rows stand in the order of
//! their arrival, and `key_index` follows some thousand keys behind, in which neighbours are written together. Keys that
//! are not in it yet are found in memory, where they are read into when the store opens. What memory says is a place to
//! look at, never an answer: the row there is compared with the whole key, and one that was never committed is not there.
//! So nothing has to be undone in memory when a commit fails.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use rusqlite::{Connection, OptionalExtension, Row};

use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::failure::FailurePoint;

/// How a key begins.
type Hash = [u8; 8];

/// The keys that may not be in the index yet: how each begins, and the number of its row.
#[derive(Debug, Default)]
pub(super) struct Keys {
    recent: Mutex<BTreeSet<(Hash, i64)>>,
}

/// A row of a key.
pub(super) struct KeyRow {
    pub number: i64,
    pub generation: u32,
    pub letter: LetterId,
    pub place: Place,
}

const REACHED: &str = "select value from meta where key = 'keys'";

const REACH: &str = "insert or replace into meta (key, value) values ('keys', ?1)";

const BEHIND: &str = "select count(*), max(number) from letter_keys where number > ?1";

const INDEX_ALL: &str = "
insert or ignore into key_index (hash, number)
select substr(key, 1, 8), number
  from letter_keys
 where number > ?1
 order by 1";

const UNINDEXED: &str = "select substr(key, 1, 8), number from letter_keys where number > ?1";

impl Keys {
    /// Reads the keys that are not in the index. Of a store that was just upgraded or copied these are all: they are
    /// indexed now.
    pub fn open(conn: &Connection) -> Result<Keys, StoreError> {
        let reached: Option<String> = conn.query_row(REACHED, [], |row| row.get(0)).optional()?;
        let mut reached: i64 = reached.and_then(|text| text.parse().ok()).unwrap_or(0);
        let (behind, last): (usize, Option<i64>) =
            conn.query_row(BEHIND, [reached], |row| Ok((row.get::<_, i64>(0)? as usize, row.get(1)?)))?;
        if let Some(last) = last.filter(|_| behind > 2 * limits::UNINDEXED_KEYS_MAX) {
            let transaction = conn.unchecked_transaction()?;
            conn.execute(INDEX_ALL, [reached])?;
            conn.execute(REACH, [last.to_string()])?;
            transaction.commit()?;
            reached = last;
        }
        let mut statement = conn.prepare(UNINDEXED)?;
        let recent = statement.query_map([reached], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Keys { recent: Mutex::new(recent.collect::<Result<_, _>>()?) })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Hash, i64)>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of rows whose keys begin like this.
    fn candidates(&self, hash: Hash) -> Vec<i64> {
        self.lock().range((hash, i64::MIN)..=(hash, i64::MAX)).map(|(_, number)| *number).collect()
    }

    /// All rows of a key, the newest generation first.
    pub fn rows(&self, conn: &Connection, key: &CaptureKey) -> Result<Vec<KeyRow>, StoreError> {
        let hash = beginning(key);
        let mut found = Vec::new();
        // Memory first: what is indexed meanwhile leaves it only after the commit.
        let candidates = self.candidates(hash);
        if !candidates.is_empty() {
            let mut statement = conn.prepare_cached(BY_NUMBER)?;
            for number in &candidates {
                let mut rows = statement.query((number, key.0))?;
                while let Some(row) = rows.next()? {
                    found.push(read(row)?);
                }
            }
        }
        let mut statement = conn.prepare_cached(BY_INDEX)?;
        let mut rows = statement.query((hash, key.0))?;
        while let Some(row) = rows.next()? {
            let row = read(row)?;
            if !candidates.contains(&row.number) {
                found.push(row);
            }
        }
        found.sort_by_key(|row| std::cmp::Reverse(row.generation));
        Ok(found)
    }

    /// The row that a key stands for. That is the one that is not deleted, which after a restore need not be the newest;
    /// else the newest.
    pub fn latest(&self, conn: &Connection, key: &CaptureKey) -> Result<Option<KeyRow>, StoreError> {
        let mut rows = self.rows(conn, key)?;
        let at = rows.iter().position(|row| row.place != Place::Deleted).unwrap_or(0);
        Ok((at < rows.len()).then(|| rows.swap_remove(at)))
    }
}

const BY_NUMBER: &str =
    "select number, generation, id, place from letter_keys where number = ?1 and key = ?2";

const BY_INDEX: &str = "
select k.number, k.generation, k.id, k.place
  from key_index x
  cross join letter_keys k on k.number = x.number
 where x.hash = ?1
   and k.key = ?2";

fn read(row: &Row<'_>) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        number: row.get(0)?,
        generation: row.get(1)?,
        letter: LetterId::from_bytes(row.get(2)?),
        place: rows::place(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?,
    })
}

fn beginning(key: &CaptureKey) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&key.0[..8]);
    hash
}

const ADD: &str = "
insert into letter_keys (number, key, generation, id, place)
values (?1, ?2, ?3, ?4, ?5)";

/// Writes the key of a new live letter, under the letter's number.
pub(super) fn add(
    write: &Write,
    number: i64,
    key: &CaptureKey,
    generation: u32,
    letter: LetterId,
) -> Result<(), StoreError> {
    let place = Place::Live.name();
    write.conn.prepare_cached(ADD)?.execute((number, key.0, generation, letter.bytes(), place))?;
    write.keys.lock().insert((beginning(key), number));
    Ok(())
}

/// Keys on their way into the index, in its order.
#[derive(Debug)]
pub(super) struct Filing {
    entries: Vec<(Hash, i64)>,
    /// How many were committed.
    done: usize,
    /// How many the present transaction adds to them.
    adding: usize,
    /// Every key up to this number is among them, or in the index.
    last: i64,
}

const INDEX: &str = "insert or ignore into key_index (hash, number) values (?1, ?2)";

/// Puts the next keys into the index, in the present transaction, if there are many that are not. A commit of many letters
/// puts more of them there, so that it keeps up.
pub(super) fn file(write: &mut Write, letters: usize) -> Result<(), StoreError> {
    if write.filing.is_none() {
        let recent = write.keys.lock();
        if recent.len() < limits::UNINDEXED_KEYS_MAX {
            return Ok(());
        }
        let entries = recent.iter().copied().collect();
        drop(recent);
        write.filing = Some(Filing { entries, done: 0, adding: 0, last: write.numbers.last_letter() });
    }
    let Some(filing) = &mut write.filing else { return Ok(()) };
    let next = filing.entries.get(filing.done..).unwrap_or_default();
    let next = &next[..next.len().min(limits::KEYS_INDEXED_PER_COMMIT.max(2 * letters))];
    let mut index = write.conn.prepare_cached(INDEX)?;
    for (hash, number) in next {
        index.execute((hash, number))?;
    }
    filing.adding = next.len();
    if filing.done + filing.adding == filing.entries.len() {
        write.conn.prepare_cached(REACH)?.execute([filing.last.to_string()])?;
    }
    write.failures.at(FailurePoint::IndexKeys)
}

/// Forgets what a transaction added that is rolled back.
pub(super) fn begin(write: &mut Write) {
    if let Some(filing) = &mut write.filing {
        filing.adding = 0;
    }
}

/// Notes that the transaction is committed: keys that are in the index need not be in memory.
pub(super) fn committed(write: &mut Write) {
    let Some(filing) = &mut write.filing else { return };
    filing.done += std::mem::take(&mut filing.adding);
    if filing.done == filing.entries.len() {
        let mut recent = write.keys.lock();
        for entry in &filing.entries {
            recent.remove(entry);
        }
        drop(recent);
        write.filing = None;
    }
}
