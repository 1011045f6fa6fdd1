//! Holds that are worked off: letters marked and freed in chunks. The rows are the progress.

use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{put_under, record, standing, take_out, tell};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::{OperationState, Verb};
use crate::engine::operations::work as work_operation;
use crate::hold::{HoldRecord, HoldState};
use crate::seam::ready;
use crate::sqlite::audit::{self, NewEntry};
use crate::sqlite::filter::Where;
use crate::sqlite::listing;
use crate::sqlite::operations::{self, Chunk};
use crate::sqlite::writer::Write;

/// Does the next part of whatever there is to do with a hold; true while there is more.
pub(in crate::sqlite) fn work(write: &mut Write, id: HoldId, at: Time) -> Result<bool, StoreError> {
    let Some(mut hold) = record::one(&write.conn, id)? else { return Ok(false) };
    if hold.until.is_some_and(|until| until <= at) && end(write, &hold, None, &ourselves(), at)? {
        hold = HoldRecord { state: HoldState::Releasing, released_by: Some(ourselves().name), ..hold };
    }
    match hold.state {
        HoldState::Placing if hold.standing => mark(write, &hold, at),
        HoldState::Placing => {
            let operation = OperationId::from_bytes(*id.bytes());
            let operation = ready(work_operation(write, operation, at))?;
            Ok(operation.state == OperationState::Working)
        }
        HoldState::Releasing => free(write, &hold, at),
        HoldState::Standing | HoldState::Released => Ok(false),
    }
}

/// Who ends a hold whose time is over.
fn ourselves() -> Actor {
    Actor { name: "lazaret".into(), role: "system".into(), request: None }
}

const REACHED: &str = "select marked_died_at, marked_id from holds where id = ?1";

const REACH: &str = "
update holds
   set state = ?2, marked_died_at = coalesce(?3, marked_died_at), marked_id = coalesce(?4, marked_id)
 where id = ?1";

/// Marks the next letters that were there when a standing hold was placed, in order of death. Those that come in later,
/// or die again and so pass by the place that is reached, are asked about then.
fn mark(write: &mut Write, hold: &HoldRecord, at: Time) -> Result<bool, StoreError> {
    listing::catch_up(write)?;
    let conn = &write.conn;
    let filter = standing::parse(hold.id, hold.filter.as_deref().unwrap_or_default())?;
    let sql = Where::of(conn, &filter, hold.held_at)?;
    let (died_at, letter): (Option<i64>, Option<[u8; 16]>) =
        conn.prepare_cached(REACHED)?.query_row([hold.id.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last = died_at.zip(letter);
    // Whenever they were created: a letter may carry a later time than the hold and still have come in before it.
    let whenever = Time::from_ms(i64::MAX);
    let most = limits::DECISION_ROWS_PER_WRITE;
    let Chunk { letters, end, complete } = operations::matching(conn, &filter, &sql, whenever, last, most)?;
    for (letter, _) in letters {
        let letter = LetterId::from_bytes(letter);
        if put_under(write, hold.id, letter, at)? {
            tell(write, Verb::Hold, letter, hold.id, &hold.held_by, at)?;
        }
    }
    let state = if complete { HoldState::Standing } else { HoldState::Placing };
    conn.prepare_cached(REACH)?.execute((
        hold.id.bytes(),
        state.name(),
        end.map(|(died_at, _)| died_at),
        end.map(|(_, letter)| letter),
    ))?;
    Ok(!complete)
}

/// Frees the next letters of a hold that ended.
fn free(write: &Write, hold: &HoldRecord, at: Time) -> Result<bool, StoreError> {
    let by = hold.released_by.as_deref().unwrap_or_default();
    let letters = record::letters(&write.conn, hold.id, None, limits::DECISION_ROWS_PER_WRITE)?;
    for letter in &letters {
        if take_out(write, hold.id, *letter, at)? {
            tell(write, Verb::Release, *letter, hold.id, by, at)?;
        }
    }
    let more = letters.len() == limits::DECISION_ROWS_PER_WRITE;
    if !more {
        write
            .conn
            .prepare_cached("update holds set state = 'released' where id = ?1 and state = 'releasing'")?
            .execute([hold.id.bytes()])?;
    }
    Ok(more)
}

/// Ends a hold by somebody's word; its letters are freed afterwards.
pub(in crate::sqlite) fn release(
    write: &Write,
    id: HoldId,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<bool, StoreError> {
    match record::one(&write.conn, id)? {
        Some(hold) => end(write, &hold, reason, by, at),
        None => Ok(false),
    }
}

const END: &str = "
update holds
   set state = 'releasing', released_by = ?2, released_at = ?3, release_reason = ?4
 where id = ?1
   and state in ('placing', 'standing')";

fn end(
    write: &Write,
    hold: &HoldRecord,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<bool, StoreError> {
    let ended = write.conn.prepare_cached(END)?.execute((hold.id.bytes(), &by.name, at.ms(), reason))?;
    if ended == 0 {
        return Ok(false);
    }
    write.standing.change();
    let us = ourselves();
    let expired = by.name == us.name && by.role == us.role;
    let of_list = hold.filter.is_some() && !hold.standing;
    let entry = NewEntry {
        at,
        actor: by,
        action: if expired { "hold_expired" } else { "release_hold" },
        letter: hold.letter,
        // By this the history of each letter that was on the list tells of it.
        operation: of_list.then(|| OperationId::from_bytes(*hold.id.bytes())),
        incident: None,
        redrive: None,
        filter: hold.filter.as_deref(),
        count: hold.letters,
        reason,
    };
    audit::add(write, &entry)?;
    Ok(true)
}
