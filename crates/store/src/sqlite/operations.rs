//! Operations: a selection frozen in chunks, then a decision worked off on it in chunks. The rows are the progress.

use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};

use super::audit::{self, NewEntry};
use super::filter::{Driver, Where};
use super::holds;
use super::redrives::doors;
use super::rows::unknown;
use super::scan::Scanner;
use super::verdicts::carry_out;
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::{Decided, Decision, Expected, NewOperation, Operation, OperationState, Skipped, Verb};

const OPEN: &str = "
insert into operations (id, action, state, actor, reason, filter, expected, opened_at, at_most, role,
       request, floor_ms)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

pub(super) fn open(write: &Write, operation: &NewOperation) -> Result<(), StoreError> {
    let decision = &operation.decision;
    write.conn.prepare_cached(OPEN)?.execute((
        operation.id.bytes(),
        decision.verb.name(),
        OperationState::Freezing.name(),
        &decision.actor.name,
        &decision.reason,
        operation.filter.to_string(),
        operation.expected.number() as i64,
        decision.at.ms(),
        matches!(operation.expected, Expected::AtMost(_)),
        &decision.actor.role,
        decision.actor.request.as_deref(),
        decision.floor_ms,
    ))?;
    Ok(())
}

const OPERATION: &str = "
select id, action, state, actor, reason, filter, expected, total, done, skipped, opened_at, finished_at, at_most,
       floor_ms
  from operations
 where id = ?1";

pub(super) fn operation(conn: &Connection, id: OperationId) -> Result<Option<Operation>, StoreError> {
    let mut statement = conn.prepare_cached(OPERATION)?;
    let mut rows = statement.query([id.bytes()])?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<Operation, StoreError> {
    let (verb, state): (String, String) = (row.get(1)?, row.get(2)?);
    let expected = row.get::<_, i64>(6)? as u64;
    Ok(Operation {
        id: OperationId::from_bytes(row.get(0)?),
        verb: Verb::parse(&verb).ok_or_else(|| unknown("action", &verb))?,
        state: OperationState::parse(&state).ok_or_else(|| unknown("operation's state", &state))?,
        actor: row.get(3)?,
        reason: row.get(4)?,
        filter: row.get(5)?,
        expected: if row.get(12)? { Expected::AtMost(expected) } else { Expected::Exactly(expected) },
        total: row.get::<_, i64>(7)? as u64,
        done: row.get::<_, i64>(8)? as u64,
        skipped: row.get::<_, i64>(9)? as u64,
        opened_at: Time::from_ms(row.get(10)?),
        finished_at: row.get::<_, Option<i64>>(11)?.map(Time::from_ms),
        floor_ms: row.get(13)?,
    })
}

fn expect(conn: &Connection, id: OperationId) -> Result<Operation, StoreError> {
    operation(conn, id)?.ok_or_else(|| StoreError::Corrupt(format!("operation {id} is gone")))
}

const FROZEN_SO_FAR: &str = "select frozen_died_at, frozen_id from operations where id = ?1";

/// A letter that dies between two chunks moves behind the place reached and is met again; it stays listed as it was.
const SELECT_LETTER: &str = "
insert into selections (operation, ordinal, letter, life)
values (?1, ?2, ?3, ?4)
on conflict (operation, letter) do nothing";

/// Takes down the next chunk in order of death, from where the last one ended.
pub(super) fn freeze(write: &Write, id: OperationId) -> Result<Operation, StoreError> {
    let conn = &write.conn;
    let operation = expect(conn, id)?;
    if operation.state != OperationState::Freezing {
        return Ok(operation);
    }
    let filter = Filter::from_text(&operation.filter).map_err(|error| {
        StoreError::Corrupt(format!("the filter of operation {id} cannot be read: {error}"))
    })?;
    let sql = Where::of(conn, &filter, operation.opened_at)?;
    let (died_at, letter): (Option<i64>, Option<[u8; 16]>) =
        conn.prepare_cached(FROZEN_SO_FAR)?.query_row([id.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last = died_at.zip(letter);
    let Chunk { letters: chunk, end, complete } =
        matching(conn, &filter, &sql, operation.opened_at, last, limits::FREEZE_ROWS_PER_WRITE)?;
    let mut total = operation.total;
    let mut add = conn.prepare_cached(SELECT_LETTER)?;
    for (letter, life) in &chunk {
        total += add.execute((id.bytes(), total as i64 + 1, letter, life))? as u64;
    }
    let state = after_chunk(operation.expected, total, complete);
    let ended = matches!(state, OperationState::Refused | OperationState::Done);
    conn.prepare_cached(
        "update operations
            set total = ?2, state = ?3, frozen_died_at = coalesce(?4, frozen_died_at),
                frozen_id = coalesce(?5, frozen_id), finished_at = ?6, left_over = ?7
          where id = ?1",
    )?
    .execute((
        id.bytes(),
        total as i64,
        state.name(),
        end.map(|(died_at, _)| died_at),
        end.map(|(_, letter)| letter),
        ended.then_some(operation.opened_at.ms()),
        if state == OperationState::Refused { total as i64 } else { 0 },
    ))?;
    if state != OperationState::Freezing {
        record(write, &operation, state, total)?;
    }
    expect(conn, id)
}

const ASKED_BY: &str = "select role, request from operations where id = ?1";

/// Puts an operation on record with the number of letters that were found, in the commit that decides whether it is
/// carried out: the log never shows a decision that was refused as one that was taken.
fn record(write: &Write, operation: &Operation, state: OperationState, count: u64) -> Result<(), StoreError> {
    let (role, request): (Option<String>, Option<String>) = write
        .conn
        .prepare_cached(ASKED_BY)?
        .query_row([operation.id.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let actor = Actor { name: operation.actor.clone(), role: role.unwrap_or_default(), request };
    let entry = NewEntry {
        at: operation.opened_at,
        actor: &actor,
        action: &operation.audit_action(state),
        letter: None,
        operation: Some(operation.id),
        incident: None,
        redrive: None,
        filter: Some(&operation.filter),
        count,
        reason: operation.reason.as_deref(),
    };
    audit::add(write, &entry)
}

/// What an operation becomes when so many letters are listed, and perhaps all.
fn after_chunk(expected: Expected, total: u64, complete: bool) -> OperationState {
    let too_few = match expected {
        Expected::Exactly(number) => total < number,
        Expected::AtMost(_) => false,
    };
    if total > expected.number() || (complete && too_few) {
        OperationState::Refused
    } else if !complete {
        OperationState::Freezing
    } else if total == 0 {
        OperationState::Done
    } else {
        OperationState::Working
    }
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

/// Decides the next chunk; a letter that cannot be decided is skipped with the reason.
pub(super) fn work(write: &mut Write, id: OperationId, at: Time) -> Result<Operation, StoreError> {
    let operation = expect(&write.conn, id)?;
    if operation.state != OperationState::Working {
        return Ok(operation);
    }
    let decision = Decision {
        verb: operation.verb,
        actor: Actor { name: operation.actor.clone(), role: String::new(), request: None },
        reason: operation.reason.clone(),
        at,
        from: None,
        floor_ms: operation.floor_ms,
    };
    if operation.verb == Verb::Hold {
        holds::open_for(write, id)?;
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
        let outcome = decide_frozen(write, LetterId::from_bytes(letter), life, &decision, id)?;
        match outcome {
            None => done += 1,
            Some(_) => skipped += 1,
        }
        write
            .conn
            .prepare_cached("update selections set outcome = ?3 where operation = ?1 and ordinal = ?2")?
            .execute((id.bytes(), ordinal, outcome.unwrap_or_else(|| "done".into())))?;
    }
    doors::leave(write, at)?;
    let finished = decided + done + skipped >= operation.total;
    let state = if finished { OperationState::Done } else { OperationState::Working };
    write.conn.prepare_cached(
        "update operations set done = done + ?2, skipped = skipped + ?3, state = ?4, finished_at = ?5 where id = ?1",
    )?
    .execute((id.bytes(), done as i64, skipped as i64, state.name(), finished.then_some(at.ms())))?;
    if finished && operation.verb == Verb::Hold {
        holds::placed(write, id)?;
    }
    expect(&write.conn, id)
}

/// Whether a verb moves what letters hold, so that a chunk may take as long as that is large.
const fn moves_content(verb: Verb) -> bool {
    match verb {
        Verb::Retry | Verb::Delete | Verb::Restore => true,
        Verb::Resolve | Verb::Discard | Verb::Reopen | Verb::Hold | Verb::Release => false,
    }
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
    } else if !holds::stands(&write.conn, operation)? {
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

const WORKING: &str = "
select id
  from operations indexed by operations_open
 where state = 'working'
 order by opened_at, id
 limit ?1";

pub(super) fn working(conn: &Connection, limit: usize) -> Result<Vec<OperationId>, StoreError> {
    let mut statement = conn.prepare_cached(WORKING)?;
    let ids = statement.query_map([limit as i64], |row| row.get(0).map(OperationId::from_bytes))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

const DROP_UNFROZEN: &str = "
update operations
   set state = ?1, finished_at = ?2, left_over = total
 where state = ?3
   and opened_at < ?2
returning id";

pub(super) fn drop_unfrozen(write: &Write, opened_before: Time) -> Result<u64, StoreError> {
    let (refused, freezing) = (OperationState::Refused, OperationState::Freezing);
    let dropped: Vec<OperationId> = write
        .conn
        .prepare_cached(DROP_UNFROZEN)?
        .query_map((refused.name(), opened_before.ms(), freezing.name()), |row| {
            row.get(0).map(OperationId::from_bytes)
        })?
        .collect::<Result<_, _>>()?;
    for id in &dropped {
        let operation = expect(&write.conn, *id)?;
        record(write, &operation, refused, operation.total)?;
    }
    Ok(dropped.len() as u64)
}

const LEFT_OVER: &str = "
select id
  from operations indexed by operations_left_over
 where left_over > 0
 order by opened_at, id
 limit 1";

const DROP_CHUNK: &str = "
delete from selections
 where operation = ?1
   and ordinal <= (select min(ordinal) - 1 + ?2 from selections where operation = ?1)";

/// Drops a bounded part of a refused list; says whether there was one.
pub(super) fn drop_chunk(write: &Write) -> Result<bool, StoreError> {
    let conn = &write.conn;
    let found: Option<[u8; 16]> =
        conn.prepare_cached(LEFT_OVER)?.query_row([], |row| row.get(0)).optional()?;
    let Some(id) = found else { return Ok(false) };
    let dropped = conn.prepare_cached(DROP_CHUNK)?.execute((id, limits::FREEZE_ROWS_PER_WRITE as i64))?;
    conn.prepare_cached("update operations set left_over = iif(?2 = 0, 0, left_over - ?2) where id = ?1")?
        .execute((id, dropped as i64))?;
    Ok(true)
}

const SKIPPED: &str = "
select letter, outcome
  from selections
 where operation = ?1
   and outcome <> 'done'
 order by ordinal
 limit ?2";

pub(super) fn skipped(conn: &Connection, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError> {
    let mut statement = conn.prepare_cached(SKIPPED)?;
    let rows = statement.query_map((id.bytes(), limit as i64), |row| {
        Ok(Skipped { letter: LetterId::from_bytes(row.get(0)?), reason: row.get(1)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests;
