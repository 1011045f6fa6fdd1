//! Moves of single letters: each is one guarded update whose states come from the machine.

use lazaret_core::id::{LetterId, OperationId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Action, HoldRule, Place, Refused, Row, Standing, Status};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, ToSql};

use super::audit::{self, NewEntry};
use super::counters::{Counted, Flow};
use super::events::{self, NewEvent};
use super::jobs::follow::{Retried, follow, job_of, retry, withdraw};
use super::redrives::doors::{self, Door, Passage};
use super::rows;
use super::trash::{self, Carried};
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision, Verb};
use crate::engine::holds;
use crate::seam::ready;

pub(super) use crate::engine::verdicts::Mark;

/// Moves one letter if the machine allows it, with its counters; otherwise says how it stands.
pub(super) fn apply(
    write: &mut Write,
    letter: LetterId,
    action: Action,
    mark: Mark<'_>,
    at: Time,
) -> Result<Decided, StoreError> {
    for row in action.rows().iter().filter(|row| row.place == Place::Live) {
        for from in row.from {
            let to = row.to.unwrap_or(*from);
            let Some(counted) = update(write, letter, row, *from, to, mark, at)? else { continue };
            if *from != to {
                write.tally.at(at);
                write.tally.appear(&counted);
                write.tally.vanish(&Counted { status: *from, ..counted.clone() });
                if matches!(to, Status::Resolved | Status::Discarded) {
                    write.tally.flow(at.minute(), Flow::Departed, &counted);
                }
            }
            return Ok(Decided::Done);
        }
    }
    match standing(&write.conn, letter)? {
        Some(standing) => Ok(Decided::Refused(Refused { action, standing })),
        None => Ok(Decided::Unknown),
    }
}

fn update(
    write: &Write,
    letter: LetterId,
    row: &Row,
    from: Status,
    to: Status,
    mark: Mark<'_>,
    at: Time,
) -> Result<Option<Counted>, StoreError> {
    let at = at.ms();
    let (from, to) = (from.name(), to.name());
    let mut binds: Vec<&dyn ToSql> = vec![letter.bytes(), &from, &to, &at];
    let strategy;
    let set = match &mark {
        Mark::Ends { strategy: how, by, notes } => {
            strategy = how.name();
            binds.extend([&strategy as &dyn ToSql, by, notes]);
            ", resolution_timestamp = ?4, resolution_strategy = ?5, resolved_by = ?6, resolution_notes = ?7,
               retention_at = ?4"
        }
        Mark::Delivered { strategy: how, by, notes } => {
            strategy = how.name();
            binds.extend([&strategy as &dyn ToSql, by, notes]);
            ", resolution_timestamp = ?4, resolution_strategy = ?5, resolved_by = ?6, resolution_notes = ?7,
               retention_at = ?4, ever_sent = 1"
        }
        Mark::Reopens => {
            ", resolution_timestamp = null, resolution_strategy = null, resolved_by = null, resolution_notes = null,
               retention_at = max(created_at, died_at)"
        }
        Mark::Claims => ", sent_at = null",
        Mark::Sends => ", sent_at = ?4, ever_sent = 1",
    };
    let guard = guard(row.hold);
    // Asked for afterwards and not with `returning`: SQLite would keep the row aside in a table made for it, and every
    // page it touches as well, which takes longer than both statements.
    let updated = write
        .conn
        .prepare_cached(&format!(
            "update dead_letter_queue
                set status = ?3, updated_at = ?4 {set}
              where id = ?1
                and status = ?2 {guard}"
        ))?
        .execute(&*binds)?;
    if updated == 0 {
        return Ok(None);
    }
    let columns = rows::COUNTED_COLUMNS;
    let mut statement =
        write.conn.prepare_cached(&format!("select {columns} from dead_letter_queue where id = ?1"))?;
    let mut found = statement.query([letter.bytes()])?;
    found.next()?.map(|row| rows::counted(row, 0)).transpose()
}

/// What a rule about the hold asks of the row.
pub(super) const fn guard(rule: HoldRule) -> &'static str {
    match rule {
        HoldRule::Any => "",
        HoldRule::Free => "and held_at is null",
        HoldRule::Held => "and held_at is not null",
    }
}

const STANDING: &str = "select status, place, held_at is not null from dead_letter_queue where id = ?1";

/// How a letter stands, also one that is archived or deleted.
pub(super) fn standing(conn: &Connection, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let found: Option<(String, String, bool)> = conn
        .prepare_cached(STANDING)?
        .query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((status, place, held)) = found else { return trash::tombstone(conn, letter) };
    Ok(Some(Standing {
        status: rows::status(&status)?,
        place: rows::place(&place)?,
        held,
        content_kept: true,
    }))
}

/// Decides on one letter by hand; the audit entry is part of it.
pub(super) fn decide(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Decided, StoreError> {
    if let Some(from) = decision.from {
        match standing(&write.conn, letter)? {
            Some(standing) if standing.status != from => {
                return Ok(Decided::Refused(Refused { action: decision.verb.action(), standing }));
            }
            Some(_) | None => {}
        }
    }
    let (decided, redrive) = carry_out(write, letter, decision, None)?;
    if decided == Decided::Done {
        record(write, letter, decision, redrive)?;
    }
    Ok(decided)
}

/// Puts a decision on one letter on record.
pub(super) fn record(
    write: &Write,
    letter: LetterId,
    decision: &Decision,
    redrive: Option<RedriveId>,
) -> Result<(), StoreError> {
    let entry = NewEntry {
        letter: Some(letter),
        redrive,
        reason: decision.reason.as_deref(),
        ..NewEntry::new(&decision.actor, decision.verb.name(), decision.at)
    };
    audit::add(write, &entry)
}

/// Tells of what a decision did to a letter, and to its job.
pub(super) fn tell(
    write: &Write,
    letter: LetterId,
    decision: &Decision,
    operation: Option<OperationId>,
    carried: &Carried,
) -> Result<(), StoreError> {
    let event = NewEvent {
        at: decision.at,
        kind: decision.verb.event(),
        letter: Some(letter),
        incident: carried.incident,
        operation,
        job: carried.job,
        actor: Some(&decision.actor.name),
        detail: None,
    };
    events::add(write, &event)
}

/// Carries a decision out on one letter and tells of it; a retry is a redrive, which is named.
pub(super) fn carry_out(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    operation: Option<OperationId>,
) -> Result<(Decided, Option<RedriveId>), StoreError> {
    let mut redrive = None;
    let (by, reason) = (decision.actor.name.as_str(), decision.reason.as_deref());
    let carried = match decision.verb {
        Verb::Resolve => {
            let mark = Mark::Ends { strategy: Strategy::ManualResolution, by, notes: reason };
            settle(write, letter, decision, mark)?
        }
        Verb::Discard => {
            settle(write, letter, decision, Mark::Ends { strategy: Strategy::Discard, by, notes: reason })?
        }
        Verb::Reopen => {
            let moved = mark(write, letter, decision, Mark::Reopens)?;
            if moved.decided == Decided::Done {
                follow(write, letter, decision.at)?;
            }
            moved
        }
        Verb::Hold => Carried::only(match operation {
            Some(operation) => ready(holds::hold_moved(write, letter, decision, operation))?,
            None => ready(holds::hold(write, letter, decision))?,
        }),
        Verb::Release => Carried::only(ready(holds::release(write, letter, decision))?),
        Verb::Retry => {
            let Retried { decided, job } = retry(write, letter, &Override::default(), decision.at)?;
            if decided == Decided::Done {
                let door = operation.map_or(Door::Single, Door::Operation);
                let passage = Passage { door, by: &decision.actor, reason, governed: None, at: decision.at };
                redrive = Some(doors::record(write, letter, &passage)?);
            }
            Carried { decided, job, incident: None }
        }
        Verb::Delete => trash::delete(write, letter, decision)?,
        Verb::Restore => trash::back::restore(write, letter, decision)?,
    };
    if carried.decided == Decided::Done {
        tell(write, letter, decision, operation, &carried)?;
        if decision.verb == Verb::Retry {
            events::note(write, decision.verb.event(), letter, "")?;
        }
    }
    Ok((carried.decided, redrive))
}

/// Moves a letter by hand within the table of live letters.
fn mark(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    mark: Mark<'_>,
) -> Result<Carried, StoreError> {
    let decided = apply(write, letter, decision.verb.action(), mark, decision.at)?;
    Ok(Carried { decided, job: None, incident: None })
}

/// Ends a letter by hand; its job, which was in the dead letter, goes with it.
fn settle(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    ends: Mark<'_>,
) -> Result<Carried, StoreError> {
    let moved = mark(write, letter, decision, ends)?;
    if moved.decided == Decided::Done
        && let Some(job) = job_of(write, letter)?
    {
        withdraw(write, job)?;
    }
    Ok(moved)
}
