//! Working holds off: marking the letters they are on, ending them, and freeing their letters. The rows are the progress.
//!
//! Whoever marks or frees locks the hold by an advisory lock first, which nobody else needs; then letters, in the order of
//! their ids. The row of the hold comes last, as everywhere.

use std::collections::HashSet;

use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::record::parse_filter;
use super::{add_hold_event, put_under, record, show};
use crate::audit::{Actor, NewEntry};
use crate::decision::{OperationState, Verb};
use crate::engine::operations::DeathKey;
use crate::hold::{HoldRecord, HoldState};
use crate::seam::{Backend, Lane, Row, Sql, Tx, View, binds, sql};
use crate::{Store, StoreError};

/// An end that is to be put to a hold.
struct End {
    hold: HoldId,
    reason: Option<String>,
    by: Actor,
    at: Time,
    /// Only if its time is over.
    if_due: bool,
}

/// Ends a hold by somebody's word; its letters are freed afterwards.
pub(super) async fn release<S: Backend>(
    store: &S,
    id: HoldId,
    reason: Option<String>,
    by: Actor,
    at: Time,
) -> Result<bool, StoreError> {
    let Some(hold) = find(store, id).await? else { return Ok(false) };
    end_one(store, &hold, End { hold: id, reason, by, at, if_due: false }).await
}

async fn find<S: Backend>(store: &S, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
    store.read(View::Newest, id, |conn, id| Box::pin(record::one(conn, *id))).await
}

async fn end_one<S: Backend>(store: &S, hold: &HoldRecord, ending: End) -> Result<bool, StoreError> {
    let lane = match hold.letter {
        // Nothing more can come under it.
        Some(_) => Lane::Apart(1),
        // Somebody may be putting letters under it just now, and would not look again.
        None => Lane::Alone(1),
    };
    store.write(lane, ending, |tx, ending| Box::pin(end(tx, ending))).await
}

const END: Sql = sql!(
    "
update holds
   set state = 'releasing', released_by = $2, released_at = $3, release_reason = $4
 where id = $1
   and state in ('placing', 'standing')
   and (not $5{postgres ::boolean} or until <= $3)
returning filter, letter, letters, standing"
);

async fn end(tx: &mut impl Tx, ending: &End) -> Result<bool, StoreError> {
    let End { hold, reason, by, at, if_due } = ending;
    let values = binds![*hold, &by.name, *at, reason.as_deref(), *if_due];
    let read = |row: &Row<'_>| -> Result<(Option<String>, Option<LetterId>, u64, bool), StoreError> {
        Ok((row.get("filter")?, row.get("letter")?, row.get("letters")?, row.get("standing")?))
    };
    let ended = tx.query_opt(&END, values, read).await?;
    let Some((filter, letter, letters, standing)) = ended else { return Ok(false) };
    tx.standing_holds_changed();
    let us = ourselves();
    let expired = (&by.name, &by.role) == (&us.name, &us.role);
    let of_list = filter.is_some() && !standing;
    tx.add_audit(&NewEntry {
        letter,
        // By this the history of each letter that was on the list tells of it.
        operation: of_list.then(|| OperationId::from_bytes(*hold.bytes())),
        filter: filter.as_deref(),
        count: letters,
        reason: reason.as_deref(),
        ..NewEntry::new(by, if expired { "hold_expired" } else { "release_hold" }, *at)
    })?;
    Ok(true)
}

/// Who ends what ends by itself.
fn ourselves() -> Actor {
    Actor { name: "lazaret".into(), role: "system".into(), request: None }
}

/// Marks or frees the next letters of a hold, or ends it if its time is over; says whether there is more to do.
pub(super) async fn work<S: Backend + Store>(store: &S, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(hold) = find(store, id).await? else { return Ok(false) };
    let is_due = hold.until.is_some_and(|until| until <= at);
    let lane = Lane::Apart(limits::DECISION_ROWS_PER_WRITE);
    match hold.state {
        HoldState::Placing | HoldState::Standing if is_due => {
            end_one(store, &hold, End { hold: id, reason: None, by: ourselves(), at, if_due: true }).await?;
            Ok(true)
        }
        HoldState::Placing if hold.standing => {
            store.write(lane, (id, at), |tx, (id, at)| Box::pin(mark(tx, *id, *at))).await
        }
        HoldState::Placing => {
            let operation = store.work(OperationId::from_bytes(*id.bytes()), at).await?;
            Ok(operation.state == OperationState::Working)
        }
        HoldState::Releasing => {
            store.write(lane, (id, at), |tx, (id, at)| Box::pin(free(tx, *id, *at))).await
        }
        HoldState::Standing | HoldState::Released => Ok(false),
    }
}

const LOCK_HOLD: Sql = sql!(
    "
{sqlite select $1 as id}{postgres select pg_advisory_xact_lock(hashtextextended('lazaret hold ' || $1::uuid::text, 0))}"
);

/// Locks a hold until the commit, if it is in a state.
async fn lock_hold(tx: &mut impl Tx, id: HoldId, state: HoldState) -> Result<Option<HoldRecord>, StoreError> {
    tx.query(&LOCK_HOLD, binds![id], |_| Ok(())).await?;
    Ok(record::one(tx, id).await?.filter(|hold| hold.state == state))
}

const MARKED_SO_FAR: Sql = sql!("select marked_died_at, marked_id from holds where id = $1");

const MARKED: Sql = sql!(
    "
update holds
   set marked_died_at = coalesce($2, marked_died_at), marked_id = coalesce($3, marked_id), state = $4
 where id = $1"
);

/// Puts the next letters that were there under a standing hold, in order of death. Those that come in later, or die again
/// and so pass by the place that is reached, are put under it then.
async fn mark(tx: &mut impl Tx, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(hold) = lock_hold(tx, id, HoldState::Placing).await? else { return Ok(true) };
    let filter = parse_filter(id, hold.filter.as_deref().unwrap_or_default())?;
    let read = |row: &Row<'_>| -> Result<Option<DeathKey>, StoreError> {
        Ok(row.get::<Option<Time>>("marked_died_at")?.zip(row.get("marked_id")?))
    };
    let last = tx.query_one(&MARKED_SO_FAR, binds![id], read).await?;
    let found = tx.find_to_hold(&filter, hold.held_at, last).await?;
    // What went away in between is not held: it is no longer there.
    let here = tx.lock_live(&found.letters).await?;
    let under: Vec<(LetterId, HoldId)> = here.into_iter().map(|letter| (letter, id)).collect();
    let added: HashSet<LetterId> =
        put_under(tx, &under).await?.into_iter().map(|(letter, _)| letter).collect();
    let added: Vec<LetterId> =
        under.iter().map(|(letter, _)| *letter).filter(|letter| added.contains(letter)).collect();
    show(tx, &added, Some(at)).await?;
    for letter in added {
        add_hold_event(tx, Verb::Hold, letter, id, &hold.held_by, at)?;
    }
    let state = if found.complete { HoldState::Standing } else { HoldState::Placing };
    let (died_at, letter) = found.end.unzip();
    tx.execute(&MARKED, binds![id, died_at, letter, state]).await?;
    Ok(!found.complete)
}

const LOCK_ARCHIVED: Sql = sql!(
    "
select id
  from archive
 where id {any $1}
   and place = $2
 order by id
{postgres for no key update}"
);

const LEAVE: Sql = sql!("delete from hold_letters where hold = $1 and letter {any $2} returning letter");

const RELEASED: Sql = sql!("update holds set state = 'released' where id = $1 and state = 'releasing'");

/// Frees the next letters of a hold that is over. Those that are under another one stay held.
async fn free(tx: &mut impl Tx, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(hold) = lock_hold(tx, id, HoldState::Releasing).await? else { return Ok(false) };
    let limit = limits::DECISION_ROWS_PER_WRITE;
    let letters = record::letters(tx, id, None, limit).await?;
    tx.lock_live(&letters).await?;
    tx.query(&LOCK_ARCHIVED, binds![&letters, Place::Archived], |_| Ok(())).await?;
    let left: Vec<LetterId> = tx.query(&LEAVE, binds![id, &letters], |row| row.get("letter")).await?;
    tx.count_held(id, -(left.len() as i64)).await?;
    let mut free = show(tx, &left, Some(at)).await?;
    free.sort_unstable();
    let by = hold.released_by.as_deref().unwrap_or_default();
    for letter in free {
        add_hold_event(tx, Verb::Release, letter, id, by, at)?;
    }
    let more = letters.len() == limit;
    if !more {
        tx.execute(&RELEASED, binds![id]).await?;
    }
    Ok(more)
}
