//! Working holds off: marking the letters they are on, ending them, and freeing their letters.
//!
//! Whoever marks or frees takes an advisory lock of the hold first, which nobody else needs; then letters, in the order of
//! their ids. The row of the hold comes last, as everywhere.

use lazaret_core::filter::{Bounds, Filter, When};
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::PostgresStore;
use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::operations::{self, Chunk, Key, looked_into, matching};
use super::super::verdicts;
use super::super::writer::Write;
use super::standing::parse;
use super::{put_under, record, show, tell};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::{OperationState, Verb};
use crate::hold::{HoldRecord, HoldState};

/// An end that is to be put to a hold.
struct End {
    hold: HoldId,
    reason: Option<String>,
    by: Actor,
    at: Time,
    /// Only if its time is over.
    if_due: bool,
}

/// Ends a hold by hand, or because its time is over if it is we who say so.
pub(in crate::postgres) async fn release(
    store: &PostgresStore,
    hold: HoldId,
    reason: Option<String>,
    by: Actor,
    at: Time,
) -> Result<bool, StoreError> {
    let Some(found) = find(store, hold).await? else { return Ok(false) };
    end_one(store, &found, End { hold, reason, by, at, if_due: false }).await
}

async fn find(store: &PostgresStore, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
    store.readers.read(id, |conn, asked| Box::pin(record::one(conn, *asked))).await
}

async fn end_one(store: &PostgresStore, hold: &HoldRecord, ending: End) -> Result<bool, StoreError> {
    if hold.letter.is_some() {
        // Nothing more can come under it.
        return store.writer.write_apart(1, ending, |write, asked| Box::pin(end(write, asked))).await;
    }
    // Somebody may be putting letters under it just now, and would not look again.
    store.writer.write_alone(1, ending, |write, asked| Box::pin(end(write, asked))).await
}

const END: &str = "
update holds
   set state = 'releasing', released_by = $2, released_at = $3, release_reason = $4
 where id = $1
   and state in ('placing', 'standing')
   and (not $5 or until <= $3)
returning filter, letter, letters, standing";

async fn end(write: &mut Write, ending: &End) -> Result<bool, StoreError> {
    let End { hold, reason, by, at, if_due } = ending;
    let reason = reason.as_deref();
    let ended = write
        .conn
        .query_opt(END, &[&Uid(*hold.bytes()), &clean(&by.name), &At(*at), &clean_opt(reason), if_due])
        .await?;
    let Some(row) = ended else { return Ok(false) };
    let us = ourselves();
    let of_list = row.cell::<Option<&str>>(0)?.is_some() && !row.cell::<bool>(3)?;
    let entry = NewEntry {
        at: *at,
        actor: by,
        action: if (&by.name, &by.role) == (&us.name, &us.role) { "hold_expired" } else { "release_hold" },
        letter: row.id_opt(1)?.map(LetterId::from_bytes),
        // By this the history of each letter that was on the list tells of it.
        operation: of_list.then(|| OperationId::from_bytes(*hold.bytes())),
        incident: None,
        redrive: None,
        filter: row.cell(0)?,
        count: row.count(2)?,
        reason,
    };
    audit::add(write, &entry)?;
    Ok(true)
}

/// Who ends what ends by itself.
fn ourselves() -> Actor {
    Actor { name: "lazaret".to_owned(), role: "system".to_owned(), request: None }
}

/// Marks or frees the next letters of a hold, or ends it if its time is over; says whether there is more to do.
pub(in crate::postgres) async fn work(
    store: &PostgresStore,
    id: HoldId,
    at: Time,
) -> Result<bool, StoreError> {
    let Some(hold) = find(store, id).await? else { return Ok(false) };
    let is_due = hold.until.is_some_and(|until| until <= at);
    let weight = limits::DECISION_ROWS_PER_WRITE;
    match hold.state {
        HoldState::Placing | HoldState::Standing if is_due => {
            let ending = End { hold: id, reason: None, by: ourselves(), at, if_due: true };
            end_one(store, &hold, ending).await?;
            Ok(true)
        }
        HoldState::Placing if hold.standing => {
            store
                .writer
                .write_apart(weight, (id, at), |write, asked| Box::pin(mark(write, asked.0, asked.1)))
                .await
        }
        HoldState::Placing => {
            let operation = operations::work_on(store, OperationId::from_bytes(*id.bytes()), at).await?;
            Ok(operation.state == OperationState::Working)
        }
        HoldState::Releasing => {
            store
                .writer
                .write_apart(weight, (id, at), |write, asked| Box::pin(free(write, asked.0, asked.1)))
                .await
        }
        HoldState::Standing | HoldState::Released => Ok(false),
    }
}

const LOCK_HOLD: &str =
    "select pg_advisory_xact_lock(hashtextextended('lazaret hold ' || $1::uuid::text, 0))";

const MARKED_SO_FAR: &str = "
select marked_died_at, marked_id
  from holds
 where id = $1";

const MARKED: &str = "
update holds
   set marked_died_at = coalesce($2, marked_died_at), marked_id = coalesce($3, marked_id), state = $4
 where id = $1";

/// Takes a hold for this transaction alone, if it is in a state.
async fn take(write: &Write, id: HoldId, state: HoldState) -> Result<Option<HoldRecord>, StoreError> {
    write.conn.query(LOCK_HOLD, &[&Uid(*id.bytes())]).await?;
    Ok(record::one(&write.conn, id).await?.filter(|hold| hold.state == state))
}

/// Puts the next letters that were there under a standing hold. Those that come in are put under it when they do.
async fn mark(write: &mut Write, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(hold) = take(write, id, HoldState::Placing).await? else { return Ok(true) };
    let filter = parse(id, hold.filter.as_deref().unwrap_or_default())?;
    let row = write.conn.query_one(MARKED_SO_FAR, &[&Uid(*id.bytes())]).await?;
    let last = row.time_opt(0)?.zip(row.id_opt(1)?);
    let Chunk { letters, end, complete } = next(write, &filter, hold.held_at, last).await?;
    let found: Vec<LetterId> = letters.iter().map(|(_, letter, _)| LetterId::from_bytes(*letter)).collect();
    // What went away in between is not held: it is no longer there.
    let here = verdicts::lock_letters(write, &found).await?;
    let under: Vec<(LetterId, HoldId)> =
        found.into_iter().filter(|letter| here.contains_key(letter)).map(|letter| (letter, id)).collect();
    let added: Vec<LetterId> =
        put_under(write, &under).await?.into_iter().map(|(letter, _)| letter).collect();
    show(write, &added, Some(at)).await?;
    for (letter, _) in under.iter().filter(|(letter, _)| added.contains(letter)) {
        tell(write, Verb::Hold, *letter, id, &hold.held_by, at)?;
    }
    let state = if complete { HoldState::Standing } else { HoldState::Placing };
    let (died_at, letter) = (end.map(|(died_at, _)| At(died_at)), end.map(|(_, letter)| Uid(letter)));
    write.conn.execute(MARKED, &[&Uid(*id.bytes()), &died_at, &letter, &state.name()]).await?;
    Ok(!complete)
}

/// The next letters in order of death, as many as are marked at once. When they were captured is not asked: one may have
/// been stored before the hold was placed and say a later time.
async fn next(write: &Write, filter: &Filter, held_at: Time, last: Option<Key>) -> Result<Chunk, StoreError> {
    let (conn, filter, any_time) = (&write.conn, fixed(filter, held_at), Time::from_ms(i64::MAX));
    if !filter.needs_content() {
        return matching(conn, &filter, any_time, last, limits::DECISION_ROWS_PER_WRITE).await;
    }
    let mut chunk = looked_into(conn, &filter, any_time, last).await?;
    if chunk.letters.len() > limits::DECISION_ROWS_PER_WRITE {
        chunk.letters.truncate(limits::DECISION_ROWS_PER_WRITE);
        chunk.end = chunk.letters.last().map(|(died_at, letter, _)| (*died_at, *letter));
        chunk.complete = false;
    }
    Ok(chunk)
}

/// The filter as it was meant when the hold was placed: times no longer move with the clock.
fn fixed(filter: &Filter, held_at: Time) -> Filter {
    let died = filter.died(held_at);
    Filter {
        since: died.from.map(When::At),
        until: died.until.map(When::At),
        age: Bounds::default(),
        ..filter.clone()
    }
}

const LOCK_ARCHIVED: &str = "
select id
  from archive
 where id = any($1)
   and place = $2
 order by id
   for no key update";

const LEAVE: &str = "
delete from hold_letters
 where hold = $1
   and letter = any($2)
returning letter";

const RELEASED: &str = "
update holds
   set state = 'released'
 where id = $1
   and state = 'releasing'";

/// Frees the next letters of a hold that is over. Those that are under another one stay held.
async fn free(write: &mut Write, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(hold) = take(write, id, HoldState::Releasing).await? else { return Ok(false) };
    let key = Uid(*id.bytes());
    let limit = limits::DECISION_ROWS_PER_WRITE;
    let letters = record::letters(&write.conn, id, None, limit).await?;
    let ids: Vec<Uid> = letters.iter().map(|letter| Uid(*letter.bytes())).collect();
    verdicts::lock_letters(write, &letters).await?;
    write.conn.query(LOCK_ARCHIVED, &[&ids, &Place::Archived.name()]).await?;
    let mut left = Vec::with_capacity(letters.len());
    for row in write.conn.query(LEAVE, &[&key, &ids]).await? {
        left.push(LetterId::from_bytes(row.id(0)?));
    }
    write.holds.count(id, -(left.len() as i64));
    let mut free = show(write, &left, Some(at)).await?;
    free.sort_unstable();
    let by = hold.released_by.as_deref().unwrap_or_default();
    for letter in free {
        tell(write, Verb::Release, letter, id, by, at)?;
    }
    let more = letters.len() == limit;
    if !more {
        write.conn.execute(RELEASED, &[&key]).await?;
    }
    Ok(more)
}
