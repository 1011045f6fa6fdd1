//! The body index: the words of bodies and headers, in a file of its own beside the letters.
//!
//! A tick fills it behind capture, and a writer of its own does so without making the letters' writer wait. It is never
//! the truth: it names candidates, each of which is looked into, and lives that it does not hold yet are looked into
//! one by one. So it may lag, be deleted, or be made anew, and searches still find the same letters.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lazaret_core::envelope::Envelope;
use lazaret_core::filter::words::content_words;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::numbers::Numbers;
use super::readers::Readers;
use crate::StoreError;
use crate::packing::{open_body, open_headers};
use crate::search::BodyIndex;

const SCHEMA: &str = "
create table if not exists reached (
  one integer primary key check (one = 1),
  life integer not null,
  captured_at integer,
  lives integer not null
);
insert or ignore into reached (one, life, captured_at, lives) values (1, 0, null, 0);
create virtual table if not exists body_words using fts5 (
  words, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);";

/// The writer of the index.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    conn: Arc<Mutex<Connection>>,
}

impl Bodies {
    /// Opens the index, and makes it anew if it cannot be read: it can always be filled again.
    pub fn open(path: &Path, letters: &Connection, numbers: &Numbers) -> Result<Bodies, StoreError> {
        let conn = match connect(path) {
            Ok(index) if is_foreign(&index, letters, numbers)? => {
                drop(index);
                tracing::warn!("the body index is of other letters and is made anew");
                connect_anew(path)?
            }
            Ok(index) => index,
            Err(error) => {
                tracing::warn!(error = %error, "the body index cannot be read and is made anew");
                connect_anew(path)?
            }
        };
        Ok(Bodies { conn: Arc::new(Mutex::new(conn)) })
    }

    /// Puts the next lives into the index.
    pub async fn index(&self, readers: &Readers, lives: usize) -> Result<BodyIndex, StoreError> {
        let next = readers.read(move |conn| next_lives(conn, lives)).await?;
        let bodies = self.clone();
        tokio::task::spawn_blocking(move || bodies.add(&next)).await.unwrap_or_else(|error| {
            Err(StoreError::Unavailable { doing: "indexing bodies", source: Some(Box::new(error)) })
        })?;
        readers.read(|conn| state(conn)).await
    }

    fn add(&self, next: &Next) -> Result<(), StoreError> {
        let mut conn = self.conn.lock().unwrap_or_else(|broken| broken.into_inner());
        let batch = conn.transaction()?;
        {
            let mut add = batch.prepare_cached("insert into body_words (rowid, words) values (?1, ?2)")?;
            for (document, words) in &next.lives {
                add.execute((document, words))?;
            }
        }
        if let Some((life, captured_at)) = next.last {
            batch
                .prepare_cached("update reached set life = ?1, captured_at = ?2, lives = lives + ?3")?
                .execute((life, captured_at, next.lives.len() as i64))?;
        }
        batch.commit()?;
        Ok(())
    }

    /// Forgets everything, of which `last` was the last life.
    pub fn empty(&self, last: i64) -> Result<(), StoreError> {
        let mut conn = self.conn.lock().unwrap_or_else(|broken| broken.into_inner());
        let batch = conn.transaction()?;
        batch.execute("insert into body_words (body_words) values ('delete-all')", [])?;
        batch.execute("update reached set life = ?1, captured_at = null, lives = 0", [last])?;
        batch.commit()?;
        Ok(())
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let conn = Connection::open(path)?;
    // After a loss of power the newest part may be missing, together with the note of how far it had come.
    conn.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = normal; pragma busy_timeout = 5000;
         pragma cache_size = -8000; pragma temp_store = memory; pragma journal_size_limit = 67108864;",
    )?;
    conn.execute_batch(SCHEMA)?;
    Ok(conn)
}

fn connect_anew(path: &Path) -> Result<Connection, StoreError> {
    for end in ["", "-wal", "-shm"] {
        let mut file = PathBuf::from(path).into_os_string();
        file.push(end);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Path { path: file.into(), source: error });
            }
            Ok(()) | Err(_) => {}
        }
    }
    connect(path)
}

/// Whether the index was made over other letters: a store that was put back from a copy gives the numbers of lives that
/// are indexed to others. That shows when the store is opened, before it gives any: the index has come further than the
/// store, or the last life in it was captured at another time. One that was deleted since proves nothing.
fn is_foreign(index: &Connection, letters: &Connection, numbers: &Numbers) -> Result<bool, StoreError> {
    let (life, captured_at): (i64, Option<i64>) =
        index.query_row("select life, captured_at from reached", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let here: Option<i64> = letters
        .query_row("select captured_at from lives where rowid = ?1", [life], |row| row.get(0))
        .optional()?;
    Ok(life > numbers.last_life() || here.is_some_and(|here| captured_at != Some(here)))
}

/// What is to be added.
#[derive(Default)]
struct Next {
    /// Documents and their words.
    lives: Vec<(i64, String)>,
    /// The last life, and when it was captured: by that it is known again.
    last: Option<(i64, i64)>,
}

/// The number under which a life is indexed: the letter can be read off it without looking the life up.
fn document(letter: i64, life: u32) -> i64 {
    (letter << LIFE_BITS) | i64::from(life).min((1 << LIFE_BITS) - 1)
}

/// A letter that dies more often shares a number with its earlier lives, and is found by the words of all of them.
pub(super) const LIFE_BITS: u32 = 16;

/// How far the index has come, as a reader sees it.
struct Reached {
    life: i64,
    lives: i64,
}

fn reached(conn: &Connection) -> Result<Reached, StoreError> {
    let mut statement = conn.prepare_cached("select life, lives from search.reached")?;
    Ok(statement.query_row([], |row| Ok(Reached { life: row.get(0)?, lives: row.get(1)? }))?)
}

/// The last life that is in the index.
pub(super) fn last_indexed(conn: &Connection) -> Result<i64, StoreError> {
    Ok(reached(conn)?.life)
}

const NEXT_LIVES: &str = "
select rowid, captured_at, letter, life, content_type, headers, body
  from lives
 where rowid > ?1
 order by rowid
 limit ?2";

fn next_lives(conn: &Connection, lives: usize) -> Result<Next, StoreError> {
    let reached = reached(conn)?;
    let mut next = Next::default();
    let mut statement = conn.prepare_cached(NEXT_LIVES)?;
    let mut found = statement.query((reached.life, lives as i64))?;
    while let Some(row) = found.next()? {
        let (life, captured_at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let document = document(row.get(2)?, row.get(3)?);
        next.lives.push((document, content_words(&envelope(row, 4)?).join(" ")));
        next.last = Some((life, captured_at));
    }
    Ok(next)
}

/// Reads an envelope from content type, headers and body, from the column `from` on; without its origin.
pub(super) fn envelope(row: &rusqlite::Row<'_>, from: usize) -> Result<Envelope, StoreError> {
    let headers: Option<String> = row.get(from + 1)?;
    let body = row.get_ref(from + 2)?.as_blob().map_err(rusqlite::Error::from)?;
    let content_type: String = row.get(from)?;
    Ok(Envelope::seal(open_body(body)?, content_type, open_headers(headers.as_deref())?))
}

const BEHIND: &str = "
select (select max(rowid) from lives),
       (select captured_at from lives where rowid > ?1 order by rowid limit 1)";

pub(super) fn state(conn: &Connection) -> Result<BodyIndex, StoreError> {
    let reached = reached(conn)?;
    let (last, since): (Option<i64>, Option<i64>) =
        conn.prepare_cached(BEHIND)?.query_row([reached.life], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(BodyIndex {
        indexed: reached.lives.max(0) as u64,
        behind: (last.unwrap_or(0) - reached.life).max(0) as u64,
        behind_since: since.map(Time::from_ms),
    })
}
