//! Operations: a selection frozen in chunks, then a decision worked off on it in chunks. The rows are the progress.
//!
//! Whoever freezes or works holds the operation's row from its first look to the commit: a second instance waits, and
//! then goes on where the first one ended.

mod unfrozen;

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::PostgresStore;
use super::audit::{self, NewEntry};
use super::cell::{At, Cells, Uid, clean, clean_opt};
use super::conn::{Binds, Conn};
use super::failure::{Kind, kind_of, of_search};
use super::filter::Where;
use super::holds;
use super::letters;
use super::rows::unknown;
use super::verdicts::{Listed, carry_out_all};
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::{Decided, Decision, Expected, NewOperation, Operation, OperationState, Skipped, Verb};

pub(super) use unfrozen::{drop_lists, end_unfrozen};

const OPEN: &str = "
insert into operations (id, action, state, actor, reason, filter, expected, opened_at, at_most, role, request,
       floor_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

pub(super) async fn open(write: &mut Write, operation: &NewOperation) -> Result<(), StoreError> {
    let decision = &operation.decision;
    let filter = operation.filter.to_string();
    write
        .conn
        .execute(
            OPEN,
            &[
                &Uid(*operation.id.bytes()),
                &decision.verb.name(),
                &OperationState::Freezing.name(),
                &clean(&decision.actor.name),
                &clean_opt(decision.reason.as_deref()),
                &clean(&filter),
                &(operation.expected.number() as i64),
                &At(decision.at),
                &matches!(operation.expected, Expected::AtMost(_)),
                &clean(&decision.actor.role),
                &clean_opt(decision.actor.request.as_deref()),
                &decision.floor_ms,
            ],
        )
        .await?;
    Ok(())
}

/// The columns that `read` reads, in its order.
const COLUMNS: &str = "id, action, state, actor, reason, filter, expected, total, done, skipped, opened_at, finished_at, at_most,
floor_ms";

pub(super) async fn operation(conn: &Conn, id: OperationId) -> Result<Option<Operation>, StoreError> {
    let sql = format!("select {COLUMNS} from operations where id = $1");
    conn.query_opt(&sql, &[&Uid(*id.bytes())]).await?.map(|row| read(&row)).transpose()
}

fn read(row: &Row) -> Result<Operation, StoreError> {
    let (verb, state): (&str, &str) = (row.cell(1)?, row.cell(2)?);
    let expected = row.count(6)?;
    Ok(Operation {
        id: OperationId::from_bytes(row.id(0)?),
        verb: Verb::parse(verb).ok_or_else(|| unknown("action", verb))?,
        state: OperationState::parse(state).ok_or_else(|| unknown("operation's state", state))?,
        actor: row.cell(3)?,
        reason: row.cell(4)?,
        filter: row.cell(5)?,
        expected: if row.cell(12)? { Expected::AtMost(expected) } else { Expected::Exactly(expected) },
        total: row.count(7)?,
        done: row.count(8)?,
        skipped: row.count(9)?,
        opened_at: row.time(10)?,
        finished_at: row.time_opt(11)?,
        floor_ms: row.cell(13)?,
    })
}

/// A place in the order of deaths.
pub(super) type Key = (Time, [u8; 16]);

/// Takes an operation for this transaction alone; returns it, and how far it was frozen.
async fn hold(conn: &Conn, id: OperationId) -> Result<(Operation, Option<Key>), StoreError> {
    let sql = format!(
        "select {COLUMNS}, frozen_died_at, frozen_id
           from operations
          where id = $1
            for no key update"
    );
    let found = conn.query_opt(&sql, &[&Uid(*id.bytes())]).await?;
    let row = found.ok_or_else(|| StoreError::Corrupt(format!("operation {id} is gone")))?;
    Ok((read(&row)?, row.time_opt(14)?.zip(row.id_opt(15)?)))
}

/// A letter that dies between two chunks moves behind the place reached and is met again; it stays listed as it was.
const SELECT_LETTERS: &str = "
insert into selections (operation, ordinal, letter, life)
select $1, $2 + row_number() over (order by n.n), n.letter, n.life
  from unnest($3::uuid[], $4::integer[]) with ordinality as n (letter, life, n)
 where not exists (select 1
                     from selections s
                    where s.operation = $1
                      and s.letter = n.letter)";

/// Takes down the next chunk in order of death, from where the last one ended.
pub(super) async fn freeze(write: &mut Write, id: OperationId) -> Result<Operation, StoreError> {
    let conn = &write.conn;
    let (operation, last) = hold(conn, id).await?;
    if operation.state != OperationState::Freezing {
        return Ok(operation);
    }
    let filter = Filter::from_text(&operation.filter).map_err(|error| {
        StoreError::Corrupt(format!("the filter of operation {id} cannot be read: {error}"))
    })?;
    let Chunk { letters, end, complete } = match filter.needs_content() {
        false => matching(conn, &filter, operation.opened_at, last, limits::FREEZE_ROWS_PER_WRITE).await?,
        true => looked_into(conn, &filter, operation.opened_at, last).await?,
    };
    let ids: Vec<Uid> = letters.iter().map(|(_, letter, _)| Uid(*letter)).collect();
    let lives: Vec<i32> = letters.iter().map(|(_, _, life)| *life).collect();
    let listed = operation.total as i64;
    let added = conn.execute(SELECT_LETTERS, &[&Uid(*id.bytes()), &listed, &ids, &lives]).await?;
    let total = operation.total + added;
    let state = after_chunk(operation.expected, total, complete);
    let after = frozen(conn, &operation, total, state, end).await?;
    if state != OperationState::Freezing {
        record(write, &operation, state, total).await?;
    }
    Ok(after)
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

const ASKED_BY: &str = "select role, request from operations where id = $1";

/// Puts an operation on record with the number of letters that were found, in the commit that decides whether it is
/// carried out: the log never shows a decision that was refused as one that was taken.
async fn record(
    write: &mut Write,
    operation: &Operation,
    state: OperationState,
    count: u64,
) -> Result<(), StoreError> {
    let row = write.conn.query_one(ASKED_BY, &[&Uid(*operation.id.bytes())]).await?;
    let role: Option<String> = row.cell(0)?;
    let actor =
        Actor { name: operation.actor.clone(), role: role.unwrap_or_default(), request: row.cell(1)? };
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

async fn frozen(
    conn: &Conn,
    operation: &Operation,
    total: u64,
    state: OperationState,
    end: Option<Key>,
) -> Result<Operation, StoreError> {
    let ended = matches!(state, OperationState::Refused | OperationState::Done);
    let sql = format!(
        "update operations
            set total = $2, state = $3, frozen_died_at = coalesce($4, frozen_died_at),
                frozen_id = coalesce($5, frozen_id), finished_at = $6, left_over = $7
          where id = $1
        returning {COLUMNS}"
    );
    let row = conn
        .query_one(
            &sql,
            &[
                &Uid(*operation.id.bytes()),
                &(total as i64),
                &state.name(),
                &end.map(|(died_at, _)| At(died_at)),
                &end.map(|(_, letter)| Uid(letter)),
                &ended.then_some(At(operation.opened_at)),
                &(if state == OperationState::Refused { total as i64 } else { 0 }),
            ],
        )
        .await?;
    read(&row)
}

/// Some letters of a list that is being frozen.
pub(super) struct Chunk {
    /// When it died, the letter, its life.
    pub letters: Vec<(Time, [u8; 16], i32)>,
    /// The last one that was looked at, matching or not.
    pub end: Option<Key>,
    /// Whether there are no more behind it.
    pub complete: bool,
}

/// The next letters that a filter finds by columns alone.
pub(super) async fn matching(
    conn: &Conn,
    filter: &Filter,
    opened_at: Time,
    last: Option<Key>,
    limit: usize,
) -> Result<Chunk, StoreError> {
    let mut binds = Binds::default();
    let asked = Where::of(conn, filter, opened_at, &mut binds).await?;
    let from = letters::from(conn, &asked, &mut binds).await?;
    let opened = binds.time(opened_at);
    let mut sql = format!(
        "select l.died_at, l.id, l.life
           from {from}
          where {}
            and l.created_at <= {opened}",
        asked.sql
    );
    if let Some((died_at, id)) = last {
        let (died_at, id) = (binds.time(died_at), binds.id(id));
        sql.push_str(&format!(" and (l.died_at, l.id) > ({died_at}, {id})"));
    }
    let mark = binds.long(limit as i64);
    sql.push_str(&format!(" order by l.died_at, l.id limit {mark}"));
    let mut letters = Vec::new();
    // It is somebody's search, although it is done by a write.
    for row in conn.ask(&sql, &binds).await.map_err(of_search)? {
        letters.push((row.time(0)?, row.id(1)?, row.cell(2)?));
    }
    let end = letters.last().map(|(died_at, letter, _)| (*died_at, *letter));
    let complete = letters.len() < limit;
    Ok(Chunk { letters, end, complete })
}

const CONTENTS: &str = "
select w.n, v.content_type, v.headers, v.body
  from unnest($1::uuid[], $2::integer[]) with ordinality as w (letter, life, n)
  join lives v on v.letter = w.letter and v.life = w.life
 order by w.n";

/// The next letters that hold what a filter asks for, as far as the time allows to look into them.
pub(super) async fn looked_into(
    conn: &Conn,
    filter: &Filter,
    opened_at: Time,
    last: Option<Key>,
) -> Result<Chunk, StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::FREEZE_SCAN_MS_MAX);
    let mut chunk = Chunk { letters: Vec::new(), end: last, complete: false };
    while !chunk.complete && chunk.letters.len() < limits::FREEZE_ROWS_PER_WRITE {
        // As many as are read without waste if the time is over in their middle.
        let stretch =
            matching(conn, filter, opened_at, chunk.end, limits::SCAN_LETTERS_PER_READ as usize).await?;
        let ids: Vec<Uid> = stretch.letters.iter().map(|(_, letter, _)| Uid(*letter)).collect();
        let lives: Vec<i32> = stretch.letters.iter().map(|(_, _, life)| *life).collect();
        let mut contents = pin!(conn.stream(CONTENTS, &[&ids, &lives]).await?);
        for ((died_at, id, life), n) in stretch.letters.into_iter().zip(1_i64..) {
            let row = contents.try_next().await?;
            let Some(row) = row.filter(|row| row.cell::<i64>(0).is_ok_and(|found| found == n)) else {
                let letter = LetterId::from_bytes(id);
                return Err(StoreError::Corrupt(format!("life {life} of letter {letter} is missing")));
            };
            if filter.matches_content(&letters::envelope(&row, 1)?) {
                chunk.letters.push((died_at, id, life));
            }
            chunk.end = Some((died_at, id));
            if Instant::now() > until {
                return Ok(chunk);
            }
        }
        chunk.complete = stretch.complete;
    }
    Ok(chunk)
}

/// Decides the next chunk of an operation.
pub(super) async fn work_on(
    store: &PostgresStore,
    id: OperationId,
    at: Time,
) -> Result<Operation, StoreError> {
    let work = || {
        store.writer.write_long(limits::DECISION_ROWS_PER_WRITE, (id, at), |write, asked| {
            Box::pin(work(write, asked.0, asked.1))
        })
    };
    match store.months.after(work().await) {
        // What comes back may be of a month that was empty without it.
        Err(error) if kind_of(&error) == Kind::NoMonth => {
            let next = store.readers.read(id, |conn, asked| Box::pin(next_moments(conn, *asked))).await?;
            store.months.ensure(&store.lanes, next.into_iter()).await?;
            store.months.after(work().await)
        }
        result => result,
    }
}

const NEXT: &str = "
select s.letter
  from operations o
  join selections s on s.operation = o.id and s.ordinal > o.done + o.skipped
 where o.id = $1
 order by s.ordinal
 limit $2";

/// When the letters were created that are decided next.
async fn next_moments(conn: &Conn, id: OperationId) -> Result<Vec<Time>, StoreError> {
    let next = conn.query(NEXT, &[&Uid(*id.bytes()), &(limits::DECISION_ROWS_PER_WRITE as i64)]).await?;
    next.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?).at())).collect()
}

const UNDECIDED: &str = "
select ordinal, letter, life
  from selections
 where operation = $1
   and ordinal > $2
 order by ordinal
 limit $3";

const OUTCOMES: &str = "
update selections s
   set outcome = o.outcome
  from unnest($2::bigint[], $3::text[]) as o (ordinal, outcome)
 where s.operation = $1
   and s.ordinal = o.ordinal";

/// Decides the next chunk; a letter that cannot be decided is skipped with the reason.
async fn work(write: &mut Write, id: OperationId, at: Time) -> Result<Operation, StoreError> {
    let (operation, _) = hold(&write.conn, id).await?;
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
        holds::open_for(write, id).await?;
    }
    let key = Uid(*id.bytes());
    let decided = operation.done + operation.skipped;
    let limit = limits::DECISION_ROWS_PER_WRITE as i64;
    let chunk = write.conn.query(UNDECIDED, &[&key, &(decided as i64), &limit]).await?;
    let letters: Vec<(LetterId, u32)> = chunk
        .iter()
        .map(|row| Ok((LetterId::from_bytes(row.id(1)?), row.small(2)?)))
        .collect::<Result<_, StoreError>>()?;
    let listed = carry_out_in_time(write, &letters, &decision, id).await?;
    let ordinals: Vec<i64> =
        chunk.iter().take(listed.len()).map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    let done = listed.iter().filter(|one| **one == Listed::Decided(Decided::Done)).count() as i64;
    let skipped = listed.len() as i64 - done;
    let outcomes: Vec<String> = listed.iter().map(outcome).collect();
    write.conn.execute(OUTCOMES, &[&key, &ordinals, &outcomes]).await?;
    let finished = decided + (done + skipped) as u64 >= operation.total;
    let state = if finished { OperationState::Done } else { OperationState::Working };
    let sql = format!(
        "update operations
            set done = done + $2, skipped = skipped + $3, state = $4, finished_at = $5
          where id = $1
        returning {COLUMNS}"
    );
    if finished && operation.verb == Verb::Hold {
        write.holds.placed(HoldId::from_bytes(*id.bytes()));
    }
    let finished_at = finished.then_some(At(at));
    read(&write.conn.query_one(&sql, &[&key, &done, &skipped, &state.name(), &finished_at]).await?)
}

/// Letters whose content is moved at once, before it is asked how long it took.
const MOVED_AT_ONCE: usize = 50;

/// Decides letters, all of them unless what they hold is moved and takes too long; the answers are of the first ones.
async fn carry_out_in_time(
    write: &mut Write,
    letters: &[(LetterId, u32)],
    decision: &Decision,
    operation: OperationId,
) -> Result<Vec<Listed>, StoreError> {
    let at_once = if moves_content(decision.verb) { MOVED_AT_ONCE } else { letters.len().max(1) };
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let mut listed = Vec::with_capacity(letters.len());
    for letters in letters.chunks(at_once) {
        if !listed.is_empty() && Instant::now() > until {
            break;
        }
        listed.extend(carry_out_all(write, letters, decision, operation).await?);
    }
    Ok(listed)
}

/// Whether a verb moves what letters hold, so that a chunk may take as long as that is large.
const fn moves_content(verb: Verb) -> bool {
    match verb {
        Verb::Retry | Verb::Delete | Verb::Restore => true,
        Verb::Resolve | Verb::Discard | Verb::Reopen | Verb::Hold | Verb::Release => false,
    }
}

/// Why a letter was skipped, if it was not decided.
fn outcome(listed: &Listed) -> String {
    match listed {
        Listed::Decided(Decided::Done) => "done".into(),
        Listed::Decided(Decided::Refused(refused)) => refused.to_string(),
        Listed::Decided(Decided::Unknown) => "the letter is gone".into(),
        Listed::Decided(Decided::NoWayBack) => "its source takes nothing back".into(),
        Listed::Decided(Decided::Replaced) => "another letter has taken its key".into(),
        Listed::OtherLife => "the letter died again meanwhile".into(),
        Listed::HoldEnded => "the hold was released meanwhile".into(),
    }
}

const WORKING: &str = "
select id
  from operations
 where state = 'working'
 order by opened_at, id
 limit $1";

pub(super) async fn working(conn: &Conn, limit: usize) -> Result<Vec<OperationId>, StoreError> {
    let found = conn.query(WORKING, &[&(limit as i64)]).await?;
    found.iter().map(|row| Ok(OperationId::from_bytes(row.id(0)?))).collect()
}

const SKIPPED: &str = "
select letter, outcome
  from selections
 where operation = $1
   and outcome <> 'done'
 order by ordinal
 limit $2";

pub(super) async fn skipped(conn: &Conn, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError> {
    let mut skipped = Vec::new();
    for row in conn.query(SKIPPED, &[&Uid(*id.bytes()), &(limit as i64)]).await? {
        skipped.push(Skipped { letter: LetterId::from_bytes(row.id(0)?), reason: row.cell(1)? });
    }
    Ok(skipped)
}
