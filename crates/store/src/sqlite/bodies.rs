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
    pub fn open(path: &Path) -> Result<Bodies, StoreError> {
        let conn = connect(path).or_else(|error| {
            tracing::warn!(error = %error, "the body index cannot be read and is made anew");
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
        })?;
        Ok(Bodies { conn: Arc::new(Mutex::new(conn)) })
    }

    /// Puts the next lives into the index.
    pub async fn index(&self, readers: &Readers, lives: usize) -> Result<BodyIndex, StoreError> {
        let next = readers.read(move |conn| next_lives(conn, lives)).await?;
        let bodies = self.clone();
        tokio::task::spawn_blocking(move || bodies.add(&next)).await.unwrap_or_else(|error| {
            Err(StoreError::Unavailable { doing: "indexing bodies", source: Some(Box::new(error)) })
        })?;
        readers.read(state).await
    }

    fn add(&self, next: &Next) -> Result<(), StoreError> {
        let mut conn = self.conn.lock().unwrap_or_else(|broken| broken.into_inner());
        let batch = conn.transaction()?;
        if next.begins_anew {
            batch.execute_batch(
                "insert into body_words (body_words) values ('delete-all');
                 update reached set life = 0, captured_at = null, lives = 0;",
            )?;
        }
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

    /// Forgets everything.
    pub fn empty(&self) -> Result<(), StoreError> {
        self.add(&Next { begins_anew: true, ..Next::default() })
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

/// What is to be added.
#[derive(Default)]
struct Next {
    /// What the index holds does not belong to these letters.
    begins_anew: bool,
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
    /// Whether the index holds what does not belong to these letters.
    is_foreign: bool,
}

/// Nothing is reached if the index belongs to other letters: a store that was put back from a copy has others in the
/// places of those that are indexed. The last one is known again by the time of its capture.
fn reached(conn: &Connection) -> Result<Reached, StoreError> {
    let mut statement = conn.prepare_cached("select life, captured_at, lives from search.reached")?;
    let (life, captured_at, lives): (i64, Option<i64>, i64) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let known: Option<i64> = conn
        .prepare_cached("select captured_at from lives where rowid = ?1")?
        .query_row([life], |row| row.get(0))
        .optional()?;
    let is_foreign = life > 0 && known != captured_at;
    Ok(if is_foreign {
        Reached { life: 0, lives: 0, is_foreign }
    } else {
        Reached { life, lives, is_foreign }
    })
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
    let mut next = Next { begins_anew: reached.is_foreign, ..Next::default() };
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

/// Reads an envelope from content type, headers and body, from the column `from` on.
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
