//! Moves of letters: each is one guarded update whose states come from the machine.

mod many;

use lazaret_core::id::{LetterId, OperationId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Action, HoldRule, Place, Refused, Row, Standing, Status};
use lazaret_core::time::Time;
use tokio_postgres::types::ToSql;

use super::audit::{self, NewEntry};
use super::cell::{At, Bind, Cells, Uid, clean, clean_opt};
use super::counters::{Counted, Flow};
use super::events::{self, NewEvent};
use super::jobs::follow::{follow, lock_jobs, withdraw};
use super::jobs::retry::{Retried, retry};
use super::redrives::doors::{self, Door};
use super::retention::restore;
use super::rows;
use super::trash::{self, Carried};
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision, Verb};
use crate::engine::holds;

pub(super) use many::{Listed, carry_out_all, lock_letters, move_all};

pub(super) use crate::engine::verdicts::Mark;

/// Moves one letter if the machine allows it, with its counters; otherwise says how it stands.
pub(super) async fn apply(
    write: &mut Write,
    letter: LetterId,
    action: Action,
    mark: Mark<'_>,
    at: Time,
) -> Result<Decided, StoreError> {
    // Another instance may move the letter between two looks: the second time it is locked.
    for _ in 0..2 {
        for row in action.rows().iter().filter(|row| row.place == Place::Live) {
            for from in row.from {
                let to = row.to.unwrap_or(*from);
                let Some(counted) = update(write, letter, row, *from, to, mark, at).await? else { continue };
                count(write, counted, *from, at);
                return Ok(Decided::Done);
            }
        }
        let Some(standing) = standing(write, letter).await? else { return Ok(Decided::Unknown) };
        if standing.after(action).is_err() {
            return Ok(Decided::Refused(Refused { action, standing }));
        }
    }
    Err(StoreError::Corrupt(format!("letter {letter} can {} and does not", action.name())))
}

/// Counts a letter that has moved, as it stands now, from a state.
fn count(write: &mut Write, now: Counted, from: Status, at: Time) {
    let to = now.status;
    if from != to {
        write.tally.at(at);
        write.tally.appear(&now);
        if matches!(to, Status::Resolved | Status::Discarded) {
            write.tally.flow(at.minute(), Flow::Departed, &now);
        }
        write.tally.vanish(&Counted { status: from, ..now });
    }
}

/// What a mark sets, behind five other binds of which the fifth is the time, and what it binds.
fn set<'a>(mark: Mark<'a>) -> (&'static str, Vec<Box<dyn ToSql + Sync + Send + 'a>>) {
    match mark {
        Mark::Ends { strategy, by, notes } => (
            ", resolution_timestamp = $5, resolution_strategy = $6, resolved_by = $7, resolution_notes = $8,
               retention_at = $5",
            vec![Box::new(strategy.name()), Box::new(clean(by)), Box::new(clean_opt(notes))],
        ),
        Mark::Delivered { strategy, by, notes } => (
            ", resolution_timestamp = $5, resolution_strategy = $6, resolved_by = $7, resolution_notes = $8,
               retention_at = $5, ever_sent = true",
            vec![Box::new(strategy.name()), Box::new(clean(by)), Box::new(clean_opt(notes))],
        ),
        Mark::Reopens => (
            ", resolution_timestamp = null, resolution_strategy = null, resolved_by = null, resolution_notes = null,
               retention_at = greatest(created_at, died_at)",
            Vec::new(),
        ),
        Mark::Claims => (", sent_at = null", Vec::new()),
        Mark::Sends => (", sent_at = $5, ever_sent = true", Vec::new()),
    }
}

async fn update(
    write: &Write,
    letter: LetterId,
    row: &Row,
    from: Status,
    to: Status,
    mark: Mark<'_>,
    at: Time,
) -> Result<Option<Counted>, StoreError> {
    let (id, created_at, at) = (Uid(*letter.bytes()), At(letter.at()), At(at));
    let (from, to) = (from.name(), to.name());
    let (set, marks) = set(mark);
    let mut binds: Vec<Bind<'_>> = vec![&id, &created_at, &from, &to, &at];
    binds.extend(marks.iter().map(|mark| mark.as_ref() as Bind<'_>));
    let guard = match row.hold {
        HoldRule::Any => "",
        HoldRule::Free => "and held_at is null",
        HoldRule::Held => "and held_at is not null",
    };
    let columns = rows::COUNTED_COLUMNS;
    let sql = format!(
        "update dead_letter_queue
            set status = $4, updated_at = $5 {set}
          where id = $1
            and created_at = $2
            and status = $3 {guard}
        returning {columns}"
    );
    let updated = write.conn.query_opt(&sql, &binds).await?;
    updated.map(|row| rows::counted(&row, 0)).transpose()
}

const STANDING: &str = "
select status, place, held_at is not null
  from dead_letter_queue
 where id = $1
   and created_at = $2
   for no key update";

/// How a letter stands, also one that is archived or deleted; a live one stands still until the commit.
pub(super) async fn standing(write: &Write, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let found = write.conn.query_opt(STANDING, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    let Some(row) = found else { return trash::tombstone(&write.conn, letter).await };
    Ok(Some(Standing {
        status: rows::status(row.cell(0)?)?,
        place: rows::place(row.cell(1)?)?,
        held: row.cell(2)?,
        content_kept: true,
    }))
}

/// Decides on one letter by hand; the audit entry is part of it.
pub(super) async fn decide(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Decided, StoreError> {
    if let Some(from) = decision.from {
        // Keys and jobs before their letters, as everywhere.
        if decision.verb == Verb::Delete {
            trash::lock_key_of(&write.conn, letter).await?;
        }
        lock_jobs(write, &[letter]).await?;
        match standing(write, letter).await? {
            Some(standing) if standing.status != from => {
                return Ok(Decided::Refused(Refused { action: decision.verb.action(), standing }));
            }
            Some(_) | None => {}
        }
    }
    let (decided, redrive) = carry_out(write, letter, decision, None).await?;
    if decided == Decided::Done {
        let entry = NewEntry {
            letter: Some(letter),
            redrive,
            reason: decision.reason.as_deref(),
            ..NewEntry::new(&decision.actor, decision.verb.name(), decision.at)
        };
        audit::add(write, &entry)?;
    }
    Ok(decided)
}

/// Carries a decision out on one letter and tells of it; a retry is a redrive, which is named.
pub(super) async fn carry_out(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    operation: Option<OperationId>,
) -> Result<(Decided, Option<RedriveId>), StoreError> {
    let mut redrive = None;
    let carried = match decision.verb {
        Verb::Resolve => settle(write, letter, decision, ends(Strategy::ManualResolution, decision)).await?,
        Verb::Discard => settle(write, letter, decision, ends(Strategy::Discard, decision)).await?,
        Verb::Reopen => {
            lock_jobs(write, &[letter]).await?;
            let moved = mark(write, letter, decision, Mark::Reopens).await?;
            if moved.decided == Decided::Done {
                follow(write, letter, decision.at).await?;
            }
            moved
        }
        Verb::Hold => Carried::only(holds::hold(write, letter, decision).await?),
        Verb::Release => Carried::only(holds::release(write, letter, decision).await?),
        Verb::Retry => {
            let Retried { decided, job } = retry(write, letter, &Override::default(), decision.at).await?;
            if decided == Decided::Done {
                let door = operation.map_or(Door::Single, Door::Operation);
                let by = (&decision.actor, decision.reason.as_deref());
                redrive = Some(doors::record(write, door, vec![letter], by, decision.at)?);
            }
            Carried { decided, job, incident: None }
        }
        Verb::Delete => delete(write, letter, decision).await?,
        Verb::Restore => restore::restore(write, letter, decision).await?,
    };
    if carried.decided == Decided::Done {
        emit(write, letter, decision, operation, &carried)?;
        if decision.verb == Verb::Retry {
            events::note(write, decision.verb.event(), letter, "").await?;
        }
    }
    Ok((carried.decided, redrive))
}

fn ends(strategy: Strategy, decision: &Decision) -> Mark<'_> {
    Mark::Ends { strategy, by: decision.actor.name.as_str(), notes: decision.reason.as_deref() }
}

/// Moves a letter by hand within the table of live letters.
async fn mark(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    mark: Mark<'_>,
) -> Result<Carried, StoreError> {
    let decided = apply(write, letter, decision.verb.action(), mark, decision.at).await?;
    Ok(Carried::only(decided))
}

/// Ends a letter by hand; its job, which was in the dead letter, goes with it.
async fn settle(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    ends: Mark<'_>,
) -> Result<Carried, StoreError> {
    let jobs = lock_jobs(write, &[letter]).await?;
    let moved = mark(write, letter, decision, ends).await?;
    if moved.decided == Decided::Done {
        withdraw(write, jobs.into_values()).await?;
    }
    Ok(moved)
}

/// Takes a letter out of all lists, with its job; one that is archived, out of the archive.
async fn delete(write: &mut Write, letter: LetterId, decision: &Decision) -> Result<Carried, StoreError> {
    trash::lock_key_of(&write.conn, letter).await?;
    let jobs = lock_jobs(write, &[letter]).await?;
    let Some(standing) = standing(write, letter).await? else { return Ok(Carried::only(Decided::Unknown)) };
    if let Err(refused) = standing.after(Action::Delete) {
        return Ok(Carried::only(Decided::Refused(refused)));
    }
    match standing.place {
        Place::Live => {}
        Place::Archived | Place::Deleted => {
            return trash::delete_archived(write, letter, standing.status, decision).await;
        }
    }
    let mut incidents = trash::delete_held(write, &[(letter, standing)], &jobs, decision).await?;
    let job = jobs.get(&letter).copied();
    Ok(Carried { decided: Decided::Done, job, incident: incidents.remove(&letter) })
}

/// Emits the event of a decision on a letter.
fn emit(
    write: &mut Write,
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
        ..NewEvent::default()
    };
    events::add(write, &event)
}

#[cfg(test)]
mod tests;
