//! Holds: who keeps which letters, and the letters that are under each.
//!
//! What a letter shows of its hold is written from these rows by the commit that changes them, and by nothing else: a
//! letter that shows none is under none. The statements that remove letters ask what it shows.

pub(super) mod record;
pub(super) mod standing;
pub(super) mod work;

use std::sync::Arc;

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Action, Place};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::SqliteStore;
use super::audit::{self, NewEntry};
use super::events::{self, NewEvent};
use super::trash::Carried;
use super::verdicts::{self, Mark, apply};
use super::writer::Write;
use crate::decision::{
    Decided, Decision, Expected, NewOperation, Operation, OperationState, Operations, Verb,
};
use crate::engine::operations::{self, drop_lists};
use crate::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use crate::page::Total;
use crate::seam::ready;
use crate::{Store, StoreError};

pub(super) async fn place(store: &SqliteStore, hold: NewHold) -> Result<HoldPlaced, StoreError> {
    match hold.on.clone() {
        HoldOn::Letter(letter) => {
            store.writer.write(1, move |write| place_on_letter(write, letter, &hold)).await
        }
        HoldOn::Filter { filter, expected } => place_on_list(store, filter, expected, hold).await,
        HoldOn::Standing(filter) => {
            store.writer.write(1, move |write| place_standing(write, &filter, &hold)).await
        }
    }
}

fn place_on_letter(write: &mut Write, letter: LetterId, hold: &NewHold) -> Result<HoldPlaced, StoreError> {
    match verdicts::standing(&write.conn, letter)? {
        Some(standing) if standing.after(Action::Hold).is_ok() => {}
        Some(_) | None => return Ok(HoldPlaced::Unknown),
    }
    add(write, &NewRecord { letter: Some(letter), ..NewRecord::of(hold, HoldState::Standing) })?;
    put_under(write, hold.id, letter, hold.at)?;
    tell(write, Verb::Hold, letter, hold.id, &hold.by.name, hold.at)?;
    let entry = NewEntry { letter: Some(letter), count: 1, ..entry(hold) };
    audit::add(write, &entry)?;
    Ok(HoldPlaced::Placed)
}

/// Takes the letters down as an operation does, under the hold's own id: what is worked off on the list is to hold them,
/// and the history of each tells of it.
async fn place_on_list(
    store: &SqliteStore,
    filter: Filter,
    expected: u64,
    hold: NewHold,
) -> Result<HoldPlaced, StoreError> {
    let id = OperationId::from_bytes(*hold.id.bytes());
    let decision = Decision {
        verb: Verb::Hold,
        actor: hold.by.clone(),
        reason: Some(hold.reason.clone()),
        at: hold.at,
        from: None,
        floor_ms: None,
    };
    let (asked, expected_count) = (filter.clone(), Expected::Exactly(expected));
    store.open_operation(NewOperation { id, decision, filter, expected: expected_count }).await?;
    let (at, hold) = (hold.at, Arc::new(hold));
    let frozen = loop {
        let hold = Arc::clone(&hold);
        let weight = limits::FREEZE_ROWS_PER_WRITE;
        let frozen = store.writer.write(weight, move |write| freeze(write, id, &hold)).await?;
        match frozen.state {
            OperationState::Freezing => {}
            OperationState::Working | OperationState::Done => return Ok(HoldPlaced::Placed),
            OperationState::Refused => break frozen,
        }
    };
    drop_lists(store).await?;
    if frozen.total <= expected {
        return Ok(HoldPlaced::Count(frozen.total));
    }
    // The list ended as soon as it was too long.
    let (Total::Exact(counted) | Total::AtLeast(counted)) = store.count(asked, at).await?;
    Ok(HoldPlaced::Count(counted.max(frozen.total)))
}

/// Takes down the next letters; with the last of them the hold is in force.
fn freeze(write: &mut Write, id: OperationId, hold: &NewHold) -> Result<Operation, StoreError> {
    let frozen = ready(operations::freeze(write, id))?;
    let state = match frozen.state {
        OperationState::Freezing | OperationState::Refused => return Ok(frozen),
        OperationState::Working => HoldState::Placing,
        OperationState::Done => HoldState::Standing,
    };
    add(write, &NewRecord { filter: Some(&frozen.filter), ..NewRecord::of(hold, state) })?;
    Ok(frozen)
}

const STANDING: &str = "
select count(*)
  from holds indexed by holds_catching
 where standing = 1
   and state in ('placing', 'standing')";

fn place_standing(write: &mut Write, filter: &Filter, hold: &NewHold) -> Result<HoldPlaced, StoreError> {
    let others: i64 = write.conn.prepare_cached(STANDING)?.query_row([], |row| row.get(0))?;
    if others >= limits::STANDING_HOLDS_MAX as i64 {
        return Ok(HoldPlaced::TooMany);
    }
    let text = filter.to_string();
    let record = NewRecord::of(hold, HoldState::Placing);
    add(write, &NewRecord { standing: true, filter: Some(&text), ..record })?;
    write.standing.change();
    // How many it will hold nobody knows.
    audit::add(write, &NewEntry { filter: Some(&text), count: 0, ..entry(hold) })?;
    Ok(HoldPlaced::Placed)
}

fn entry(hold: &NewHold) -> NewEntry<'_> {
    NewEntry {
        at: hold.at,
        actor: &hold.by,
        action: Verb::Hold.name(),
        letter: None,
        operation: None,
        incident: None,
        redrive: None,
        filter: None,
        count: 0,
        reason: Some(&hold.reason),
    }
}

/// A hold that is about to be written.
struct NewRecord<'a> {
    id: HoldId,
    state: HoldState,
    standing: bool,
    filter: Option<&'a str>,
    letter: Option<LetterId>,
    reason: &'a str,
    by: &'a str,
    at: Time,
    until: Option<Time>,
}

impl NewRecord<'_> {
    fn of(hold: &NewHold, state: HoldState) -> NewRecord<'_> {
        NewRecord {
            id: hold.id,
            state,
            standing: false,
            filter: None,
            letter: None,
            reason: &hold.reason,
            by: &hold.by.name,
            at: hold.at,
            until: hold.until,
        }
    }
}

const ADD: &str = "
insert into holds (id, state, standing, filter, letter, reason, held_by, held_at, until)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

fn add(write: &Write, hold: &NewRecord<'_>) -> Result<(), StoreError> {
    write.conn.prepare_cached(ADD)?.execute((
        hold.id.bytes(),
        hold.state.name(),
        hold.standing,
        hold.filter,
        hold.letter.as_ref().map(LetterId::bytes),
        hold.reason,
        hold.by,
        hold.at.ms(),
        hold.until.map(Time::ms),
    ))?;
    Ok(())
}

const PUT_UNDER: &str = "
insert into hold_letters (letter, hold)
values (?1, ?2)
on conflict (letter, hold) do nothing";

/// Puts a letter under a hold; says whether it was not before.
fn put_under(write: &Write, hold: HoldId, letter: LetterId, at: Time) -> Result<bool, StoreError> {
    let added = write.conn.prepare_cached(PUT_UNDER)?.execute((letter.bytes(), hold.bytes()))?;
    if added == 0 {
        return Ok(false);
    }
    count(write, hold, 1)?;
    show(write, letter, at)?;
    Ok(true)
}

const TAKE_OUT: &str = "
delete from hold_letters
 where letter = ?1
   and hold = ?2";

/// Takes a letter from under a hold; says whether it is free now.
fn take_out(write: &Write, hold: HoldId, letter: LetterId, at: Time) -> Result<bool, StoreError> {
    let taken = write.conn.prepare_cached(TAKE_OUT)?.execute((letter.bytes(), hold.bytes()))?;
    if taken == 0 {
        return Ok(false);
    }
    count(write, hold, -1)?;
    show(write, letter, at)?;
    let mut others = write.conn.prepare_cached("select 1 from hold_letters where letter = ?1")?;
    Ok(!others.exists([letter.bytes()])?)
}

fn count(write: &Write, hold: HoldId, letters: i64) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update holds set letters = letters + ?2 where id = ?1")?
        .execute((hold.bytes(), letters))?;
    Ok(())
}

/// The oldest hold that a letter is under.
const OLDEST: &str = "
(select h.held_at, h.held_by, h.reason
   from hold_letters u
   join holds h on h.id = u.hold
  where u.letter = ?1
  order by h.held_at, h.id
  limit 1)";

/// Writes on a letter, wherever it is, what holds it.
fn show(write: &Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    let live = write
        .conn
        .prepare_cached(&format!(
            "update dead_letter_queue
                set (held_at, held_by, hold_reason) = {OLDEST}, updated_at = ?2
              where id = ?1"
        ))?
        .execute((letter.bytes(), at.ms()))?;
    if live == 0 {
        write
            .conn
            .prepare_cached(&format!(
                "update archive set (held_at, held_by, hold_reason) = {OLDEST} where id = ?1"
            ))?
            .execute([letter.bytes()])?;
    }
    Ok(())
}

/// Tells that a letter is held, or free, by a hold that is named.
fn tell(
    write: &Write,
    verb: Verb,
    letter: LetterId,
    hold: HoldId,
    by: &str,
    at: Time,
) -> Result<(), StoreError> {
    let event = NewEvent {
        at,
        kind: verb.event(),
        letter: Some(letter),
        actor: Some(by),
        detail: Some(format!("{{\"hold\":\"{hold}\"}}")),
        ..NewEvent::default()
    };
    events::add(write, &event)
}

/// Holds one letter by a decision: under a hold of its own, or under that of the operation.
pub(super) fn hold(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    operation: Option<OperationId>,
) -> Result<Carried, StoreError> {
    let decided = mark(write, letter, decision)?;
    if decided == Decided::Done {
        let hold = match operation {
            Some(operation) => HoldId::from_bytes(*operation.bytes()),
            None => {
                let id = HoldId::mint(decision.at, write.entropy.take()?);
                add(write, &on_letter(id, letter, decision))?;
                id
            }
        };
        put_under(write, hold, letter, decision.at)?;
    }
    Ok(Carried { decided, job: None, incident: None })
}

fn on_letter(id: HoldId, letter: LetterId, decision: &Decision) -> NewRecord<'_> {
    NewRecord {
        id,
        state: HoldState::Standing,
        standing: false,
        filter: None,
        letter: Some(letter),
        reason: decision.reason.as_deref().unwrap_or_default(),
        by: &decision.actor.name,
        at: decision.at,
        until: None,
    }
}

const HOLDS_OF: &str = "select hold from hold_letters where letter = ?1 order by hold";

/// A hold on one letter ends with it.
const END_OWN: &str = "
update holds
   set state = 'released', released_by = ?3, released_at = ?4, release_reason = ?5
 where id = ?1
   and letter = ?2
   and state in ('placing', 'standing')";

/// Frees one letter from all its holds by a decision.
pub(super) fn release(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let decided = mark(write, letter, decision)?;
    if decided == Decided::Done {
        let (by, at) = (&decision.actor.name, decision.at);
        let holds: Vec<[u8; 16]> = write
            .conn
            .prepare_cached(HOLDS_OF)?
            .query_map([letter.bytes()], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for hold in holds {
            take_out(write, HoldId::from_bytes(hold), letter, at)?;
            let binds = (hold, letter.bytes(), by, at.ms(), &decision.reason);
            write.conn.prepare_cached(END_OWN)?.execute(binds)?;
        }
    }
    Ok(Carried { decided, job: None, incident: None })
}

/// Asks the machine for a letter that is live, or archived.
fn mark(write: &mut Write, letter: LetterId, decision: &Decision) -> Result<Decided, StoreError> {
    let action = decision.verb.action();
    match apply(write, letter, action, Mark::Nothing, decision.at)? {
        Decided::Refused(refused)
            if refused.standing.place == Place::Archived && refused.standing.after(action).is_ok() =>
        {
            Ok(Decided::Done)
        }
        decided => Ok(decided),
    }
}

const OF_OPERATION: &str = "
insert into holds (id, state, standing, filter, reason, held_by, held_at)
select id, 'standing', 0, filter, coalesce(reason, ''), actor, opened_at
  from operations
 where id = ?1
on conflict (id) do nothing";

/// Sees to it that an operation that holds letters has its hold.
pub(super) fn open_for(write: &Write, operation: OperationId) -> Result<(), StoreError> {
    write.conn.prepare_cached(OF_OPERATION)?.execute([operation.bytes()])?;
    Ok(())
}

const IN_FORCE: &str = "
select 1
  from holds
 where id = ?1
   and state in ('placing', 'standing')";

/// Whether the hold of an operation is in force.
pub(super) fn stands(conn: &Connection, operation: OperationId) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(IN_FORCE)?.exists([operation.bytes()])?)
}

/// Notes that an operation has held all its letters.
pub(super) fn placed(write: &Write, operation: OperationId) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update holds set state = 'standing' where id = ?1 and state = 'placing'")?
        .execute([operation.bytes()])?;
    Ok(())
}

/// Sees to a letter that is live again: it is under the holds that it was under, and under those that stand for letters
/// to come.
pub(super) fn came_back(write: &Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    show(write, letter, at)?;
    standing::catch(write, letter, at)
}

/// Sees to a letter that was put in as it was elsewhere. The hold that it came with is one on this letter here.
pub(super) fn imported(write: &Write, letter: &Letter, at: Time) -> Result<(), StoreError> {
    if let Some(hold) = &letter.hold {
        let record = NewRecord {
            id: HoldId::mint(hold.at, write.entropy.take()?),
            state: HoldState::Standing,
            standing: false,
            filter: None,
            letter: Some(letter.id),
            reason: &hold.reason,
            by: &hold.by,
            at: hold.at,
            until: None,
        };
        add(write, &record)?;
        // What it shows came with it, and it has not changed here.
        write.conn.prepare_cached(PUT_UNDER)?.execute((letter.id.bytes(), record.id.bytes()))?;
        count(write, record.id, 1)?;
    }
    standing::catch(write, letter.id, at)
}

/// Forgets all of them.
pub(super) fn empty(write: &Write) -> Result<(), StoreError> {
    write.conn.execute_batch("delete from hold_letters; delete from holds;")?;
    write.standing.change();
    Ok(())
}
