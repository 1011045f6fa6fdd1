//! The letters of an operation: found in order of death, and decided one by one.

use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::filter::{Driver, Where};
use super::listing;
use super::redrives::doors;
use super::scan::Scanner;
use super::verdicts::carry_out;
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision, Operation, Verb};
use crate::engine::holds;
use crate::engine::operations::{DeathKey, FrozenChunk, MatchingChunk, moves_content};
use crate::seam::ready;

/// A letter that dies between two chunks moves behind the place reached and is met again; it stays listed as it was.
const SELECT_LETTER: &str = "
insert into selections (operation, ordinal, letter, life)
values (?1, ?2, ?3, ?4)
on conflict (operation, letter) do nothing";

/// Lists the next letters that match, in order of death behind a place.
pub(super) fn select_chunk(
    write: &mut Write,
    operation: &Operation,
    filter: &Filter,
    last: Option<DeathKey>,
) -> Result<FrozenChunk, StoreError> {
    listing::catch_up(write)?;
    let conn = &write.conn;
    let sql = Where::of(conn, filter, operation.opened_at)?;
    let last = last.map(|(died_at, letter)| (died_at.ms(), *letter.bytes()));
    let Chunk { letters, end, complete } =
        matching(conn, filter, &sql, operation.opened_at, last, limits::FREEZE_ROWS_PER_WRITE)?;
    let mut added = 0;
    let mut add = conn.prepare_cached(SELECT_LETTER)?;
    for (letter, life) in &letters {
        let ordinal = (operation.total + added) as i64 + 1;
        added += add.execute((operation.id.bytes(), ordinal, letter, life))? as u64;
    }
    let end = end.map(|(died_at, letter)| (Time::from_ms(died_at), LetterId::from_bytes(letter)));
    Ok(FrozenChunk { added, end, complete })
}

/// Some letters of a list that is being frozen.
pub(super) struct Chunk {
    pub letters: Vec<([u8; 16], u32)>,
    /// The last one that was looked at, matching or not.
    pub end: Option<Key>,
    /// Whether there are no more behind it.
    pub complete: bool,
}

/// The next letters in order of death, created by then; not more than so many.
pub(super) fn matching(
    conn: &Connection,
    filter: &Filter,
    sql: &Where,
    created_by: Time,
    last: Option<Key>,
    most: usize,
) -> Result<Chunk, StoreError> {
    let window_end = window_end(conn, sql, last)?;
    let words = match &sql.words {
        Some(_) => "l.letter in (select rowid from letter_words where letter_words match ?) and",
        None => "",
    };
    let mut binds: Vec<Value> = sql.words.iter().cloned().map(Value::Text).collect();
    binds.extend(sql.binds.iter().cloned());
    let mut text = format!(
        "select l.died_at, l.id, l.life, l.letter
           from dead_letter_queue l indexed by {}
          where {words} {}
            and l.created_at <= ?",
        sql.index, sql.sql
    );
    binds.push(Value::Integer(created_by.ms()));
    for (comparison, key) in [(">", last), ("<=", window_end)] {
        if let Some((died_at, id)) = key {
            text.push_str(&format!(" and (l.died_at, l.id) {comparison} (?, ?)"));
            binds.extend([Value::Integer(died_at), Value::Blob(id.to_vec())]);
        }
    }
    text.push_str(" order by l.died_at, l.id");
    let mut statement = conn.prepare_cached(&text)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut scanner = Scanner::new(conn, filter, Duration::from_millis(limits::FREEZE_SCAN_MS_MAX));
    let mut chunk = Chunk { letters: Vec::new(), end: window_end, complete: window_end.is_none() };
    let mut looked_at = None;
    while let Some(row) = found.next()? {
        if scanner.is_over() || chunk.letters.len() == most {
            return Ok(Chunk { end: looked_at, complete: false, ..chunk });
        }
        let (id, life) = (row.get(1)?, row.get(2)?);
        looked_at = Some((row.get(0)?, id));
        if !filter.needs_content() || scanner.holds(row.get(3)?, life)? {
            chunk.letters.push((id, life));
        }
    }
    Ok(chunk)
}

/// Finds the next letters for a standing hold, in order of death.
pub(super) fn find_to_hold(
    conn: &Connection,
    filter: &Filter,
    held_at: Time,
    last: Option<DeathKey>,
) -> Result<MatchingChunk, StoreError> {
    let sql = Where::of(conn, filter, held_at)?;
    let last = last.map(|(died_at, letter)| (died_at.ms(), *letter.bytes()));
    let (any_time, most) = (Time::from_ms(i64::MAX), limits::DECISION_ROWS_PER_WRITE);
    let chunk = matching(conn, filter, &sql, any_time, last, most)?;
    Ok(MatchingChunk {
        letters: chunk.letters.iter().map(|(letter, _)| LetterId::from_bytes(*letter)).collect(),
        end: chunk.end.map(|(died_at, letter)| (Time::from_ms(died_at), LetterId::from_bytes(letter))),
        complete: chunk.complete,
    })
}

/// Where this chunk ends at the latest, matching or not; nothing if there are no more letters. A filter that no index
/// answers would otherwise walk through all of them in one write.
pub(super) fn window_end(
    conn: &Connection,
    sql: &Where,
    last: Option<Key>,
) -> Result<Option<Key>, StoreError> {
    let (text, binds) = window_sql(sql, last);
    let mut statement = conn.prepare_cached(&text)?;
    let end = statement
        .query_row(rusqlite::params_from_iter(binds), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(end)
}

fn window_sql(sql: &Where, last: Option<Key>) -> (String, Vec<Value>) {
    let Driver { condition, bind } = &sql.driver;
    // An index without a condition of its own holds the letters in another order: all of them would be sorted.
    let index = if bind.is_some() { sql.index } else { "letters_by_death" };
    let mut text =
        format!("select l.died_at, l.id from dead_letter_queue l indexed by {index} where {condition}");
    let mut binds: Vec<Value> = bind.iter().cloned().collect();
    if let Some((died_at, id)) = last {
        text.push_str(" and (l.died_at, l.id) > (?, ?)");
        binds.extend([Value::Integer(died_at), Value::Blob(id.to_vec())]);
    }
    text.push_str(" order by l.died_at, l.id limit 1 offset ?");
    binds.push(Value::Integer(limits::FREEZE_ROWS_PER_WRITE as i64 - 1));
    (text, binds)
}

/// A place in the order of deaths.
pub(super) type Key = (i64, [u8; 16]);

const UNDECIDED: &str = "
select ordinal, letter, life
  from selections
 where operation = ?1
   and ordinal > ?2
 order by ordinal
 limit ?3";

const SET_OUTCOME: &str = "
update selections
   set outcome = ?3
 where operation = ?1
   and ordinal = ?2";

/// Decides the next letters of an operation one by one, as far as the time allows where they are moved with their content.
pub(super) fn decide_chunk(
    write: &mut Write,
    operation: &Operation,
    decision: &Decision,
) -> Result<(u64, u64), StoreError> {
    let id = operation.id;
    if operation.verb == Verb::Hold {
        ready(holds::open_for_operation(write, id))?;
    }
    let decided = operation.done + operation.skipped;
    let chunk: Vec<(i64, [u8; 16], u32)> = write
        .conn
        .prepare_cached(UNDECIDED)?
        .query_map((id.bytes(), decided as i64, limits::DECISION_ROWS_PER_WRITE as i64), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let (mut done, mut skipped) = (0, 0);
    for (ordinal, letter, life) in chunk {
        if done + skipped > 0 && moves_content(operation.verb) && Instant::now() > until {
            break;
        }
        let outcome = decide_frozen(write, LetterId::from_bytes(letter), life, decision, id)?;
        match outcome {
            None => done += 1,
            Some(_) => skipped += 1,
        }
        let outcome = outcome.unwrap_or_else(|| "done".into());
        write.conn.prepare_cached(SET_OUTCOME)?.execute((id.bytes(), ordinal, outcome))?;
    }
    doors::leave(write, decision.at)?;
    Ok((done, skipped))
}

/// Returns why the letter was skipped, or nothing if it was decided.
fn decide_frozen(
    write: &mut Write,
    letter: LetterId,
    life: u32,
    decision: &Decision,
    operation: OperationId,
) -> Result<Option<String>, StoreError> {
    let life_of = match decision.verb {
        Verb::Restore => Some("select life from archive where id = ?1"),
        // A hold is on the letter, however it went on since it was listed, and wherever it went.
        Verb::Hold => None,
        Verb::Resolve | Verb::Discard | Verb::Reopen | Verb::Release | Verb::Retry | Verb::Delete => {
            Some("select life from dead_letter_queue where id = ?1")
        }
    };
    if let Some(life_of) = life_of {
        let now: Option<u32> =
            write.conn.prepare_cached(life_of)?.query_row([letter.bytes()], |row| row.get(0)).optional()?;
        match now {
            None => return Ok(Some("the letter is gone".into())),
            Some(now) if now != life => return Ok(Some("the letter died again meanwhile".into())),
            Some(_) => {}
        }
    } else if !ready(holds::is_in_force(write, operation))? {
        return Ok(Some("the hold was released meanwhile".into()));
    }
    match carry_out(write, letter, decision, Some(operation))?.0 {
        Decided::Done => Ok(None),
        Decided::Refused(refused) => Ok(Some(refused.to_string())),
        Decided::Unknown => Ok(Some("the letter is gone".into())),
        Decided::NoWayBack => Ok(Some("its source takes nothing back".into())),
        Decided::Replaced => Ok(Some("another letter has taken its key".into())),
    }
}

#[cfg(test)]
mod tests;
