//! Looking into letters one by one, for filters that ask for what no column holds. Bounded in time: whoever asks goes
//! on from where it stopped.

use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::limits;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::bodies;
use crate::StoreError;
use crate::search::Scan;

/// A scan that is under way.
pub(super) struct Scanner<'a> {
    conn: &'a Connection,
    filter: &'a Filter,
    until: Instant,
    letters: u64,
}

const CONTENT: &str = "
select content_type, headers, body
  from lives
 where letter = ?1
   and life = ?2";

impl<'a> Scanner<'a> {
    pub fn new(conn: &'a Connection, filter: &'a Filter, limit: Duration) -> Scanner<'a> {
        Scanner { conn, filter, until: Instant::now() + limit, letters: 0 }
    }

    /// Whether the content of a letter's life is what the filter asks for.
    pub fn holds(&mut self, letter: i64, life: u32) -> Result<bool, StoreError> {
        self.letters += 1;
        let mut statement = self.conn.prepare_cached(CONTENT)?;
        let mut found = statement.query((letter, life))?;
        let Some(row) = found.next()? else {
            return Err(StoreError::Corrupt(format!("life {life} of letter row {letter} is missing")));
        };
        Ok(self.filter.matches_content(&bodies::envelope(row, 0)?))
    }

    /// Whether the time is over; at least one letter is looked at, so that every page gets somewhere.
    pub fn is_over(&self) -> bool {
        self.letters > 0 && Instant::now() > self.until
    }

    pub fn letters(&self) -> u64 {
        self.letters
    }

    pub fn told(&self, cut_short: bool) -> Scan {
        Scan { letters: self.letters, cut_short }
    }
}

/// Letters that may hold all words of a filter, if the body index narrows them down.
pub(super) struct Candidates {
    /// A condition on `l.letter`, with what is bound to it.
    pub sql: String,
    pub binds: [Value; 2],
    pub count: i64,
}

const HITS: &str = "
select count(*)
  from (select rowid from search.body_words where body_words match ?1 limit ?2)";

impl Candidates {
    /// Nothing if no words are asked for, or if so many letters may hold them that looking in order is quicker.
    pub fn of(conn: &Connection, filter: &Filter) -> Result<Option<Candidates>, StoreError> {
        if filter.body.is_empty() {
            return Ok(None);
        }
        let indexed = bodies::last_indexed(conn)?;
        let last: Option<i64> =
            conn.prepare_cached("select max(rowid) from lives")?.query_row([], |row| row.get(0))?;
        let behind = (last.unwrap_or(0) - indexed).max(0);
        if behind > limits::CANDIDATES_MAX {
            return Ok(None);
        }
        let Some(words) = telling(conn, filter)? else { return Ok(None) };
        let hits = hits(conn, &words)?;
        if hits > limits::CANDIDATES_MAX {
            return Ok(None);
        }
        let sql = format!(
            "l.letter in (select rowid >> {} from search.body_words where body_words match ?
                          union all
                          select letter from lives where rowid > ?) and",
            bodies::LIFE_BITS
        );
        let binds = [Value::Text(words), Value::Integer(indexed)];
        Ok(Some(Candidates { sql, binds, count: hits + behind }))
    }
}

/// How many documents match, counted up to one more than are worth it.
fn hits(conn: &Connection, words: &str) -> Result<i64, StoreError> {
    let mut statement = conn.prepare_cached(HITS)?;
    Ok(statement.query_row((words, limits::CANDIDATES_MAX + 1), |row| row.get(0))?)
}

/// The words that the index is asked for; every candidate is looked into anyway. What begins with a letter or two is in
/// every body and takes the index long, and so does the beginning of a word that is in most of them: the index gathers
/// all letters of all words that begin so before it names the first.
fn telling(conn: &Connection, filter: &Filter) -> Result<Option<String>, StoreError> {
    let longest = filter.body.iter().map(str::len).max().unwrap_or(0);
    let mut words = Vec::new();
    for word in filter.body.iter().filter(|word| word.len() >= longest.min(limits::TELLING_WORD_BYTES)) {
        if hits(conn, &format!("\"{word}\""))? <= limits::CANDIDATES_MAX {
            words.push(format!("\"{word}\"*"));
        }
    }
    Ok(if words.is_empty() { None } else { Some(words.join(" AND ")) })
}
