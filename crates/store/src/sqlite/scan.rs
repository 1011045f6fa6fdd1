//! Looking into letters one by one, for filters that ask for what no column holds. Bounded in time: whoever asks goes
//! on from where it stopped.

use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::limits;
use rusqlite::Connection;

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

/// Letters that may hold all these words, if the body index narrows them down.
pub(super) struct Candidates {
    /// A condition on `l.letter` with its binds to come: the words, then the last life that is indexed.
    pub sql: &'static str,
    pub words: String,
    pub indexed: i64,
    /// How many there are, counted up to what is worth sorting.
    pub count: i64,
}

const CANDIDATES: &str = "l.letter in (select v.letter
                                         from search.body_words b
                                         join lives v on v.rowid = b.rowid
                                        where b.body_words match ?
                                       union all
                                       select letter from lives where rowid > ?) and";

const HITS: &str = "
select count(*)
  from (select rowid from search.body_words where body_words match ?1 limit ?2)";

impl Candidates {
    /// Nothing if no words are asked for, or if so much is not indexed yet that looking in order is quicker.
    pub fn of(conn: &Connection, filter: &Filter) -> Result<Option<Candidates>, StoreError> {
        if filter.body.is_empty() {
            return Ok(None);
        }
        let indexed = bodies::last_indexed(conn)?;
        let last: Option<i64> =
            conn.prepare_cached("select max(rowid) from lives")?.query_row([], |row| row.get(0))?;
        let behind = last.unwrap_or(0) - indexed;
        if behind > limits::UNINDEXED_LIVES_MAX {
            return Ok(None);
        }
        let words: Vec<String> = filter.body.iter().map(|word| format!("\"{word}\"*")).collect();
        let words = words.join(" AND ");
        let hits: i64 = conn
            .prepare_cached(HITS)?
            .query_row((&words, limits::WORD_ROWS_SORTED_MAX + 1), |row| row.get(0))?;
        Ok(Some(Candidates { sql: CANDIDATES, words, indexed, count: hits + behind }))
    }
}
