//! Launching a plan, and what a person does to a run: each under the gate, with its audit entry.

use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, Pace, RunAction, RunState, choose};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::audit::{self, NewEntry};
use super::super::incidents::{self, Entry};
use super::super::writer::Write;
use super::plan::{groups, only_incident, tell};
use super::row::{self, Run};
use crate::StoreError;
use crate::audit::Actor;
use crate::redrive::{GroupVerdict, Launch, Launched, RunStep, Stepped, first_shut};

/// Launches a plan, or says why not.
pub(super) fn launch(write: &Write, id: RedriveId, launch: &Launch) -> Result<Launched, StoreError> {
    let Some(run) = row::find(&write.conn, id)? else { return Ok(Launched::Unknown) };
    let goes = run.count(Outcome::Waiting);
    let with_canary = launch.options.canary > 0 && goes > u64::from(launch.options.canary);
    let action = if with_canary { RunAction::LaunchWithCanary } else { RunAction::Launch };
    let Some(next) = run.state().after(action) else { return Ok(Launched::State(run.state())) };
    if goes != launch.count {
        return Ok(Launched::CountMismatch(goes));
    }
    if launch.break_glass.is_none()
        && let Some((shut, incident)) = shut(&write.conn, id)?
    {
        return Ok(Launched::Shut(shut, incident));
    }
    start(write, id, launch, next)?;
    if with_canary {
        mark_canaries(write, id, launch.options.canary)?;
    }
    let (by, text) = (Some(launch.by.name.as_str()), id.to_string());
    for (incident, passed) in going(&write.conn, id)? {
        write
            .conn
            .prepare_cached("update incidents set redriven_at = ?2 where id = ?1")?
            .execute((incident.bytes(), launch.at.ms()))?;
        let entry = Entry { at: launch.at, kind: "redrive_started", by, text: Some(&text) };
        incidents::note(write, incident, &entry)?;
        if passed == Passed::Governed {
            incidents::happen(write, incident, Happening::Launched, by, launch.at)?;
        }
    }
    let run = row::expect(&write.conn, id)?;
    let reason = run.redrive.reason.as_deref();
    record(write, &run, &launch.by, "redrive", launch.count, reason, launch.at)?;
    if let Some(why) = &launch.break_glass {
        record(write, &run, &launch.by, "break_glass", launch.count, Some(why), launch.at)?;
    }
    tell(write, &run, "redrive.started", by, launch.at)?;
    Ok(Launched::Done(Box::new(run.redrive)))
}

const START: &str = "
update redrives
   set state = ?2, break_glass = ?3, pace = ?4, batch_size = ?5, concurrency = ?6, canary = ?7, canary_ms = ?8,
       canary_assumed = ?9, stop_percent = ?10, stop_of = ?11, quiet_ms = ?12, launched_at = ?13, updated_at = ?13,
       actor = ?14, role = ?15
 where id = ?1";

fn start(write: &Write, id: RedriveId, launch: &Launch, next: RunState) -> Result<(), StoreError> {
    let Options {
        pace,
        batch_size,
        concurrency,
        // The order was taken down with the list.
        prioritization: _,
        canary,
        canary_ms,
        canary_assumed,
        stop,
        quiet_ms,
    } = launch.options;
    write.conn.prepare_cached(START)?.execute(rusqlite::params![
        id.bytes(),
        next.name(),
        launch.break_glass.as_deref(),
        pace.per_minute(),
        batch_size,
        concurrency,
        canary,
        canary_ms,
        canary_assumed,
        stop.percent,
        stop.of,
        quiet_ms,
        launch.at.ms(),
        &launch.by.name,
        &launch.by.role,
    ])?;
    Ok(())
}

/// Why the gate is shut for one of the groups that passed it under an analysis, if it is.
pub(super) fn shut(conn: &Connection, id: RedriveId) -> Result<Option<(Shut, IncidentId)>, StoreError> {
    Ok(first_shut(&groups(conn, id)?))
}

/// The incidents whose letters go, each once, and whether they move with the run.
pub(super) fn going(conn: &Connection, id: RedriveId) -> Result<Vec<(IncidentId, Passed)>, StoreError> {
    let mut going: std::collections::BTreeMap<IncidentId, Passed> = std::collections::BTreeMap::new();
    for group in groups(conn, id)? {
        if let Some(GroupVerdict::Goes { passed, .. }) = group.verdict {
            let known = going.entry(group.incident).or_insert(passed);
            *known = passed.max(*known);
        }
    }
    Ok(going.into_iter().collect())
}

const HEADS: &str = "
select t.ordinal, l.type
  from redrive_letters t indexed by redrive_letters_next
  join dead_letter_queue l on l.id = t.letter
 where t.redrive = ?1
   and t.outcome = 'waiting'
   and t.head = 1
   and t.canary = 0
 order by t.rank, t.ordinal
 limit ?2";

fn mark_canaries(write: &Write, id: RedriveId, count: u32) -> Result<(), StoreError> {
    let heads: Vec<(i64, String)> = write
        .conn
        .prepare_cached(HEADS)?
        .query_map((id.bytes(), limits::CANARY_CANDIDATES_MAX as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let heads: Vec<(i64, &str)> = heads.iter().map(|(ordinal, of)| (*ordinal, of.as_str())).collect();
    let mut mark = write
        .conn
        .prepare_cached("update redrive_letters set canary = 1 where redrive = ?1 and ordinal = ?2")?;
    for ordinal in choose(&heads, count as usize) {
        mark.execute((id.bytes(), ordinal))?;
    }
    Ok(())
}

/// Writes the audit entry of something that a person did to a redrive.
fn record(
    write: &Write,
    run: &Run,
    by: &Actor,
    action: &str,
    count: u64,
    reason: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let filter = Some(run.redrive.filter.as_str()).filter(|filter| !filter.is_empty());
    let entry = NewEntry {
        at,
        actor: by,
        action,
        letter: None,
        operation: None,
        incident: only_incident(&write.conn, run.redrive.id)?,
        redrive: Some(run.redrive.id),
        filter,
        count,
        reason,
    };
    audit::add(write, &entry)
}

/// Does what a person asks of a run, if its state allows it.
pub(super) fn step(
    write: &Write,
    id: RedriveId,
    step: &RunStep,
    by: &Actor,
    at: Time,
) -> Result<Stepped, StoreError> {
    let Some(run) = row::find(&write.conn, id)? else { return Ok(Stepped::Unknown) };
    let refused = Ok(Stepped::Refused(run.state()));
    let who = Some(by.name.as_str());
    let (action, reason) = match step {
        RunStep::Pause(why) => {
            let Some(next) = run.state().after(RunAction::Pause) else { return refused };
            set_state(write, id, next, Some(why), at)?;
            tell(write, &run, "redrive.paused", who, at)?;
            ("redrive_pause", Some(why.clone()))
        }
        RunStep::Resume => {
            let passed = run.redrive.canary_passed || run.redrive.canaries.is_empty();
            let action = if passed { RunAction::Resume } else { RunAction::ResumeCanary };
            let Some(next) = run.state().after(action) else { return refused };
            if run.redrive.break_glass.is_none()
                && let Some((shut, incident)) = shut(&write.conn, id)?
            {
                return Ok(Stepped::Shut(shut, incident));
            }
            resume(write, &run, next, who, at)?;
            ("redrive_resume", None)
        }
        RunStep::Cancel(why) => {
            let Some(next) = run.state().after(RunAction::Cancel) else { return refused };
            set_state(write, id, next, why.as_deref(), at)?;
            tell_incidents(write, &run, "redrive_cancelled", who, at)?;
            tell(write, &run, "redrive.cancelled", who, at)?;
            ("redrive_cancel", why.clone())
        }
        RunStep::Pace(pace) => {
            let open = run.state() == RunState::Planned || run.state().is_unfinished();
            if !open {
                return refused;
            }
            set_pace(write, id, *pace, at)?;
            let words = pace.per_minute().map_or("unlimited".to_owned(), |rate| format!("{rate} a minute"));
            ("redrive_pace", Some(words))
        }
    };
    let left = run.count(Outcome::Waiting);
    record(write, &run, by, action, left, reason.as_deref(), at)?;
    Ok(Stepped::Done(Box::new(row::expect(&write.conn, id)?.redrive)))
}

const UNMARK_ENDED: &str = "
update redrive_letters
   set canary = 0
 where redrive = ?1
   and canary = 1
   and outcome not in (?2, ?3, ?4)";

/// Canaries that came to an end have said what they had to: others take their place.
pub(super) fn renew_canaries(write: &Write, run: &Run) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let [waiting, out, sent] = [Outcome::Waiting, Outcome::Out, Outcome::Sent];
    write.conn.prepare_cached(UNMARK_ENDED)?.execute((
        id.bytes(),
        waiting.name(),
        out.name(),
        sent.name(),
    ))?;
    let open: u64 = run.redrive.canaries.iter().filter(|(of, _)| of.is_open()).map(|(_, n)| n).sum();
    let missing = u64::from(run.redrive.options.canary).saturating_sub(open);
    mark_canaries(write, id, u32::try_from(missing).unwrap_or(u32::MAX))
}

/// Lets a run go on: what failed before is forgiven, and canaries have their time anew.
fn resume(write: &Write, run: &Run, next: RunState, by: Option<&str>, at: Time) -> Result<(), StoreError> {
    let id = run.redrive.id;
    write
        .conn
        .prepare_cached(
            "update redrives set state = ?2, why = null, recent = '', resumed_at = ?3, updated_at = ?3 where id = ?1",
        )?
        .execute((id.bytes(), next.name(), at.ms()))?;
    if next == RunState::Canary {
        renew_canaries(write, run)?;
    }
    for (incident, passed) in going(&write.conn, id)? {
        if passed == Passed::Governed {
            incidents::happen(write, incident, Happening::Launched, by, at)?;
        }
    }
    tell(write, run, "redrive.resumed", by, at)
}

fn set_pace(write: &Write, id: RedriveId, pace: Pace, at: Time) -> Result<(), StoreError> {
    write.conn.prepare_cached("update redrives set pace = ?2, updated_at = ?3 where id = ?1")?.execute((
        id.bytes(),
        pace.per_minute(),
        at.ms(),
    ))?;
    Ok(())
}

/// Moves a run into a state that the machine gave.
pub(super) fn set_state(
    write: &Write,
    id: RedriveId,
    state: RunState,
    why: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update redrives set state = ?2, why = ?3, updated_at = ?4 where id = ?1")?
        .execute((id.bytes(), state.name(), why, at.ms()))?;
    Ok(())
}

/// Puts something that happened to a launched run into the timelines of its incidents.
pub(super) fn tell_incidents(
    write: &Write,
    run: &Run,
    kind: &str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    if run.redrive.launched_at.is_none() {
        return Ok(());
    }
    let text = run.redrive.id.to_string();
    for (incident, _) in going(&write.conn, run.redrive.id)? {
        incidents::note(write, incident, &Entry { at, kind, by, text: Some(&text) })?;
    }
    Ok(())
}
