//! Launching a plan, and what a person does to a run: each under the gate, with its audit entry.
//!
//! The redrive's row is held first, then its incidents: so nothing comes between a look through the gate and the launch.

use std::collections::BTreeMap;

use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, Pace, RunAction, RunState, choose};
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::incidents::{self, Entry, Held};
use super::super::writer::Write;
use super::plan::{groups, only_incident, tell};
use super::row::{self, Run};
use crate::StoreError;
use crate::audit::Actor;
use crate::redrive::{GroupVerdict, Launch, Launched, RunStep, Stepped, first_shut};

/// Launches a plan, or says why not.
pub(super) async fn launch(
    write: &mut Write,
    id: RedriveId,
    launch: &Launch,
) -> Result<Launched, StoreError> {
    let Some(run) = row::hold(&write.conn, id).await? else { return Ok(Launched::Unknown) };
    let goes = run.count(Outcome::Waiting);
    let with_canary = launch.options.canary > 0 && goes > u64::from(launch.options.canary);
    let action = if with_canary { RunAction::LaunchWithCanary } else { RunAction::Launch };
    let Some(next) = run.state().after(action) else { return Ok(Launched::State(run.state())) };
    if goes != launch.count {
        return Ok(Launched::CountMismatch(goes));
    }
    let mut going = hold_going(write, id).await?;
    if launch.break_glass.is_none()
        && let Some((shut, incident)) = shut(&write.conn, id).await?
    {
        return Ok(Launched::Shut(shut, incident));
    }
    start(write, id, launch, next).await?;
    if with_canary {
        mark_canaries(write, id, launch.options.canary).await?;
    }
    let (by, text) = (Some(launch.by.name.as_str()), id.to_string());
    for (held, passed) in &mut going {
        write.conn.execute(REDRIVEN, &[&Uid(*held.id.bytes()), &At(launch.at)]).await?;
        let entry = Entry { at: launch.at, kind: "redrive_started", by, text: Some(&text) };
        incidents::note(write, held.id, &entry).await?;
        if *passed == Passed::Governed {
            incidents::happen(write, held, Happening::Launched, by, launch.at).await?;
        }
    }
    let run = row::find(&write.conn, id).await?.ok_or_else(|| row::gone(id))?;
    let reason = run.redrive.reason.as_deref();
    record(write, &run, &launch.by, "redrive", launch.count, reason, launch.at).await?;
    if let Some(why) = &launch.break_glass {
        record(write, &run, &launch.by, "break_glass", launch.count, Some(why), launch.at).await?;
    }
    tell(write, &run, "redrive.started", by, launch.at).await?;
    Ok(Launched::Done(Box::new(run.redrive)))
}

const REDRIVEN: &str = "
update incidents
   set redriven_at = $2
 where id = $1";

const START: &str = "
update redrives
   set state = $2, break_glass = $3, pace = $4, batch_size = $5, concurrency = $6, canary = $7, canary_ms = $8,
       canary_assumed = $9, stop_percent = $10, stop_of = $11, quiet_ms = $12, launched_at = $13, updated_at = $13,
       actor = $14, role = $15
 where id = $1";

async fn start(write: &Write, id: RedriveId, launch: &Launch, next: RunState) -> Result<(), StoreError> {
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
    write
        .conn
        .execute(
            START,
            &[
                &Uid(*id.bytes()),
                &next.name(),
                &clean_opt(launch.break_glass.as_deref()),
                &pace.per_minute().map(i64::from),
                &i64::from(batch_size),
                &i64::from(concurrency),
                &i64::from(canary),
                &canary_ms,
                &canary_assumed,
                &i64::from(stop.percent),
                &i64::from(stop.of),
                &quiet_ms,
                &At(launch.at),
                &clean(&launch.by.name),
                &clean(&launch.by.role),
            ],
        )
        .await?;
    Ok(())
}

/// Why the gate is shut for one of the groups that passed it under an analysis, if it is.
pub(super) async fn shut(conn: &Conn, id: RedriveId) -> Result<Option<(Shut, IncidentId)>, StoreError> {
    Ok(first_shut(&groups(conn, id).await?))
}

/// The incidents whose letters go, each once and held until the commit, and whether they move with the run.
pub(super) async fn hold_going(write: &Write, id: RedriveId) -> Result<Vec<(Held, Passed)>, StoreError> {
    let mut going: BTreeMap<IncidentId, Passed> = BTreeMap::new();
    for group in groups(&write.conn, id).await? {
        if let Some(GroupVerdict::Goes { passed, .. }) = group.verdict {
            let known = going.entry(group.incident).or_insert(passed);
            *known = passed.max(*known);
        }
    }
    let ids: Vec<IncidentId> = going.keys().copied().collect();
    let held = incidents::hold(write, &ids).await?;
    Ok(held.into_iter().filter_map(|held| going.get(&held.id).map(|passed| (held, *passed))).collect())
}

const HEADS: &str = "
select t.ordinal, l.type
  from redrive_letters t
  join dead_letter_queue l on l.id = t.letter and l.created_at = uuid_time(t.letter)
 where t.redrive = $1
   and t.outcome = 'waiting'
   and t.head
   and not t.canary
 order by t.rank, t.ordinal
 limit $2";

const MARK_CANARIES: &str = "
update redrive_letters
   set canary = true
 where redrive = $1
   and ordinal = any($2)";

async fn mark_canaries(write: &Write, id: RedriveId, count: u32) -> Result<(), StoreError> {
    let key = Uid(*id.bytes());
    let found = write.conn.query(HEADS, &[&key, &(limits::CANARY_CANDIDATES_MAX as i64)]).await?;
    let heads: Vec<(i64, &str)> =
        found.iter().map(|row| Ok((row.cell(0)?, row.cell(1)?))).collect::<Result<_, StoreError>>()?;
    let chosen = choose(&heads, count as usize);
    write.conn.execute(MARK_CANARIES, &[&key, &chosen]).await?;
    Ok(())
}

/// Writes the audit entry of something that a person did to a redrive.
async fn record(
    write: &mut Write,
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
        incident: only_incident(&write.conn, run.redrive.id).await?,
        redrive: Some(run.redrive.id),
        filter,
        count,
        reason,
    };
    audit::add(write, &entry)
}

/// Does what a person asks of a run, if its state allows it.
pub(super) async fn step(
    write: &mut Write,
    id: RedriveId,
    step: &RunStep,
    by: &Actor,
    at: Time,
) -> Result<Stepped, StoreError> {
    let Some(run) = row::hold(&write.conn, id).await? else { return Ok(Stepped::Unknown) };
    let refused = Ok(Stepped::Refused(run.state()));
    let who = Some(by.name.as_str());
    let (action, reason) = match step {
        RunStep::Pause(why) => {
            let Some(next) = run.state().after(RunAction::Pause) else { return refused };
            set_state(write, id, next, Some(why), at).await?;
            tell(write, &run, "redrive.paused", who, at).await?;
            ("redrive_pause", Some(why.clone()))
        }
        RunStep::Resume => {
            let passed = run.redrive.canary_passed || run.redrive.canaries.is_empty();
            let action = if passed { RunAction::Resume } else { RunAction::ResumeCanary };
            let Some(next) = run.state().after(action) else { return refused };
            let mut going = hold_going(write, id).await?;
            if run.redrive.break_glass.is_none()
                && let Some((shut, incident)) = shut(&write.conn, id).await?
            {
                return Ok(Stepped::Shut(shut, incident));
            }
            resume(write, &run, next, &mut going, who, at).await?;
            ("redrive_resume", None)
        }
        RunStep::Cancel(why) => {
            let Some(next) = run.state().after(RunAction::Cancel) else { return refused };
            set_state(write, id, next, why.as_deref(), at).await?;
            if run.redrive.launched_at.is_some() {
                let going = hold_going(write, id).await?;
                tell_incidents(write, id, &going, "redrive_cancelled", who, at).await?;
            }
            tell(write, &run, "redrive.cancelled", who, at).await?;
            ("redrive_cancel", why.clone())
        }
        RunStep::Pace(pace) => {
            if run.state() != RunState::Planned && !run.state().is_unfinished() {
                return refused;
            }
            set_pace(write, id, *pace, at).await?;
            let words = pace.per_minute().map_or("unlimited".to_owned(), |rate| format!("{rate} a minute"));
            ("redrive_pace", Some(words))
        }
    };
    let left = run.count(Outcome::Waiting);
    record(write, &run, by, action, left, reason.as_deref(), at).await?;
    let run = row::find(&write.conn, id).await?.ok_or_else(|| row::gone(id))?;
    Ok(Stepped::Done(Box::new(run.redrive)))
}

const RESUME: &str = "
update redrives
   set state = $2, why = null, recent = '', resumed_at = $3, updated_at = $3
 where id = $1";

const UNMARK_ENDED: &str = "
update redrive_letters
   set canary = false
 where redrive = $1
   and canary
   and outcome <> all ($2)";

/// Canaries that came to an end have said what they had to: others take their place.
pub(super) async fn renew_canaries(write: &Write, run: &Run) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let open: Vec<&str> = Outcome::ALL.into_iter().filter(|of| of.is_open()).map(Outcome::name).collect();
    write.conn.execute(UNMARK_ENDED, &[&Uid(*id.bytes()), &open]).await?;
    let open: u64 = run.redrive.canaries.iter().filter(|(of, _)| of.is_open()).map(|(_, n)| n).sum();
    let missing = u64::from(run.redrive.options.canary).saturating_sub(open);
    mark_canaries(write, id, u32::try_from(missing).unwrap_or(u32::MAX)).await
}

/// Lets a run go on: what failed before is forgiven, and canaries have their time anew.
async fn resume(
    write: &mut Write,
    run: &Run,
    next: RunState,
    going: &mut [(Held, Passed)],
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.execute(RESUME, &[&Uid(*run.redrive.id.bytes()), &next.name(), &At(at)]).await?;
    if next == RunState::Canary {
        renew_canaries(write, run).await?;
    }
    for (held, passed) in going {
        if *passed == Passed::Governed {
            incidents::happen(write, held, Happening::Launched, by, at).await?;
        }
    }
    tell(write, run, "redrive.resumed", by, at).await
}

const SET_PACE: &str = "
update redrives
   set pace = $2, updated_at = $3
 where id = $1";

async fn set_pace(write: &Write, id: RedriveId, pace: Pace, at: Time) -> Result<(), StoreError> {
    let rate = pace.per_minute().map(i64::from);
    write.conn.execute(SET_PACE, &[&Uid(*id.bytes()), &rate, &At(at)]).await?;
    Ok(())
}

const SET_STATE: &str = "
update redrives
   set state = $2, why = $3, updated_at = $4
 where id = $1";

/// Moves a run into a state that the machine gave.
pub(super) async fn set_state(
    write: &Write,
    id: RedriveId,
    state: RunState,
    why: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let binds = (Uid(*id.bytes()), state.name(), clean_opt(why), At(at));
    write.conn.execute(SET_STATE, &[&binds.0, &binds.1, &binds.2, &binds.3]).await?;
    Ok(())
}

/// Puts something that happened to a run into the timelines of its incidents.
pub(super) async fn tell_incidents(
    write: &Write,
    id: RedriveId,
    going: &[(Held, Passed)],
    kind: &str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let text = id.to_string();
    for (held, _) in going {
        incidents::note(write, held.id, &Entry { at, kind, by, text: Some(&text) }).await?;
    }
    Ok(())
}
