//! Launching a plan, and what a person does to a run: each under the gate, with its audit entry.
//!
//! The redrive's row is locked first, then its incidents: so nothing comes between a look through the gate and the launch.

use std::collections::BTreeMap;

use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, RunAction, RunState, choose};
use lazaret_core::time::Time;

use super::plan::{add_event, groups, only_incident};
use super::row::{self, Run, lock_redrive};
use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::engine::incidents::{Locked, TimelineNote, add_note, lock_incidents};
use crate::redrive::{GroupVerdict, Launch, Launched, RunStep, Stepped, first_shut};
use crate::seam::{Conn, Sql, Tx, binds, sql};

/// Launches a plan, or says why not.
pub(super) async fn launch(tx: &mut impl Tx, id: RedriveId, launch: &Launch) -> Result<Launched, StoreError> {
    let Some(run) = lock_redrive(tx, id).await? else { return Ok(Launched::Unknown) };
    let goes = run.count(Outcome::Waiting);
    let with_canary = launch.options.canary > 0 && goes > u64::from(launch.options.canary);
    let action = if with_canary { RunAction::LaunchWithCanary } else { RunAction::Launch };
    let Some(next) = run.state().after(action) else { return Ok(Launched::State(run.state())) };
    if goes != launch.count {
        return Ok(Launched::CountMismatch(goes));
    }
    let mut going = lock_going(tx, id).await?;
    if launch.break_glass.is_none()
        && let Some((shut, incident)) = shut(tx, id).await?
    {
        return Ok(Launched::Shut(shut, incident));
    }
    start(tx, id, launch, next).await?;
    if with_canary {
        mark_canaries(tx, id, launch.options.canary).await?;
    }
    let (by, text, at) = (Some(launch.by.name.as_str()), id.to_string(), launch.at);
    for (incident, passed) in &mut going {
        tx.execute(&REDRIVEN, binds![incident.id, at]).await?;
        let note = TimelineNote { at, kind: "redrive_started", by, text: Some(&text) };
        add_note(tx, incident.id, &note).await?;
        if *passed == Passed::Governed {
            incident.happen(tx, Happening::Launched, by, at).await?;
        }
    }
    let run = row::expect(tx, id).await?;
    add_entry(tx, &run, &launch.by, "redrive", launch.count, run.redrive.reason.as_deref(), at).await?;
    if let Some(why) = &launch.break_glass {
        add_entry(tx, &run, &launch.by, "break_glass", launch.count, Some(why), at).await?;
    }
    add_event(tx, &run, "redrive.started", by, at).await?;
    Ok(Launched::Done(Box::new(run.redrive)))
}

const REDRIVEN: Sql = sql!("update incidents set redriven_at = $2 where id = $1");

const START: Sql = sql!(
    "
update redrives
   set state = $2, break_glass = $3, pace = $4, batch_size = $5, concurrency = $6, canary = $7, canary_ms = $8,
       canary_assumed = $9, stop_percent = $10, stop_of = $11, quiet_ms = $12, launched_at = $13, updated_at = $13,
       actor = $14, role = $15
 where id = $1"
);

async fn start(tx: &mut impl Tx, id: RedriveId, launch: &Launch, next: RunState) -> Result<(), StoreError> {
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
    let values = binds![
        id,
        next,
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
        launch.at,
        &launch.by.name,
        &launch.by.role,
    ];
    tx.execute(&START, values).await?;
    Ok(())
}

/// Why the gate is shut for one of the groups that passed it under an analysis, if it is.
pub(super) async fn shut(
    conn: &mut impl Conn,
    id: RedriveId,
) -> Result<Option<(Shut, IncidentId)>, StoreError> {
    Ok(first_shut(&groups(conn, id).await?))
}

/// The incidents whose letters go, each once and locked until the commit, and whether they move with the run.
pub(super) async fn lock_going(tx: &mut impl Tx, id: RedriveId) -> Result<Vec<(Locked, Passed)>, StoreError> {
    let mut going: BTreeMap<IncidentId, Passed> = BTreeMap::new();
    for group in groups(tx, id).await? {
        if let Some(GroupVerdict::Goes { passed, .. }) = group.verdict {
            let known = going.entry(group.incident).or_insert(passed);
            *known = passed.max(*known);
        }
    }
    let ids: Vec<IncidentId> = going.keys().copied().collect();
    let locked = lock_incidents(tx, &ids).await?;
    Ok(locked.into_iter().filter_map(|one| going.get(&one.id).map(|passed| (one, *passed))).collect())
}

const HEADS: Sql = sql!(
    "
select t.ordinal, l.type
  from redrive_letters t{sqlite  indexed by redrive_letters_next}
  join dead_letter_queue l on l.id = t.letter{postgres  and l.created_at = uuid_time(t.letter)}
 where t.redrive = $1
   and t.outcome = 'waiting'
   and t.head{sqlite  = 1}
   and {sqlite t.canary = 0}{postgres not t.canary}
 order by t.rank, t.ordinal
 limit $2"
);

const MARK_CANARIES: Sql = sql!(
    "
update redrive_letters
   set canary = true
 where redrive = $1
   and ordinal {any $2}"
);

async fn mark_canaries(tx: &mut impl Tx, id: RedriveId, count: u32) -> Result<(), StoreError> {
    let heads: Vec<(i64, String)> = tx
        .query(&HEADS, binds![id, limits::CANARY_CANDIDATES_MAX], |row| {
            Ok((row.get("ordinal")?, row.get("type")?))
        })
        .await?;
    let heads: Vec<(i64, &str)> = heads.iter().map(|(ordinal, of)| (*ordinal, of.as_str())).collect();
    tx.execute(&MARK_CANARIES, binds![id, choose(&heads, count as usize)]).await?;
    Ok(())
}

/// Adds the audit entry of something that a person did to a redrive.
async fn add_entry(
    tx: &mut impl Tx,
    run: &Run,
    by: &Actor,
    action: &str,
    count: u64,
    reason: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let incident = only_incident(tx, id).await?;
    tx.add_audit(&NewEntry {
        incident,
        redrive: Some(id),
        filter: Some(run.redrive.filter.as_str()).filter(|filter| !filter.is_empty()),
        count,
        reason,
        ..NewEntry::new(by, action, at)
    })
}

/// Does what a person asks of a run, if its state allows it.
pub(super) async fn step(
    tx: &mut impl Tx,
    id: RedriveId,
    step: &RunStep,
    by: &Actor,
    at: Time,
) -> Result<Stepped, StoreError> {
    let Some(run) = lock_redrive(tx, id).await? else { return Ok(Stepped::Unknown) };
    let refused = Ok(Stepped::Refused(run.state()));
    let who = Some(by.name.as_str());
    let (action, reason) = match step {
        RunStep::Pause(why) => {
            let Some(next) = run.state().after(RunAction::Pause) else { return refused };
            set_state(tx, id, next, Some(why), at).await?;
            add_event(tx, &run, "redrive.paused", who, at).await?;
            ("redrive_pause", Some(why.clone()))
        }
        RunStep::Resume => {
            let passed = run.redrive.canary_passed || run.redrive.canaries.is_empty();
            let action = if passed { RunAction::Resume } else { RunAction::ResumeCanary };
            let Some(next) = run.state().after(action) else { return refused };
            let mut going = lock_going(tx, id).await?;
            if run.redrive.break_glass.is_none()
                && let Some((shut, incident)) = shut(tx, id).await?
            {
                return Ok(Stepped::Shut(shut, incident));
            }
            resume(tx, &run, next, &mut going, who, at).await?;
            ("redrive_resume", None)
        }
        RunStep::Cancel(why) => {
            let Some(next) = run.state().after(RunAction::Cancel) else { return refused };
            set_state(tx, id, next, why.as_deref(), at).await?;
            if run.redrive.launched_at.is_some() {
                let going = lock_going(tx, id).await?;
                note_incidents(tx, id, &going, "redrive_cancelled", who, at).await?;
            }
            add_event(tx, &run, "redrive.cancelled", who, at).await?;
            ("redrive_cancel", why.clone())
        }
        RunStep::Pace(pace) => {
            if run.state() != RunState::Planned && !run.state().is_unfinished() {
                return refused;
            }
            tx.execute(&SET_PACE, binds![id, pace.per_minute(), at]).await?;
            let words = pace.per_minute().map_or("unlimited".to_owned(), |rate| format!("{rate} a minute"));
            ("redrive_pace", Some(words))
        }
    };
    let left = run.count(Outcome::Waiting);
    add_entry(tx, &run, by, action, left, reason.as_deref(), at).await?;
    Ok(Stepped::Done(Box::new(row::expect(tx, id).await?.redrive)))
}

const UNMARK_ENDED: Sql = sql!(
    "
update redrive_letters
   set canary = false
 where redrive = $1
   and canary{sqlite  = 1}
   and not (outcome {any $2})"
);

/// Canaries that came to an end have said what they had to: others take their place.
pub(super) async fn renew_canaries(tx: &mut impl Tx, run: &Run) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let open: Vec<&str> = Outcome::ALL.into_iter().filter(|of| of.is_open()).map(Outcome::name).collect();
    tx.execute(&UNMARK_ENDED, binds![id, open]).await?;
    let open: u64 = run.redrive.canaries.iter().filter(|(of, _)| of.is_open()).map(|(_, n)| n).sum();
    let missing = u64::from(run.redrive.options.canary).saturating_sub(open);
    mark_canaries(tx, id, u32::try_from(missing).unwrap_or(u32::MAX)).await
}

const RESUME: Sql = sql!(
    "
update redrives
   set state = $2, why = null, recent = '', resumed_at = $3, updated_at = $3
 where id = $1"
);

/// Lets a run go on: what failed before is forgiven, and canaries have their time anew.
async fn resume(
    tx: &mut impl Tx,
    run: &Run,
    next: RunState,
    going: &mut [(Locked, Passed)],
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    tx.execute(&RESUME, binds![run.redrive.id, next, at]).await?;
    if next == RunState::Canary {
        renew_canaries(tx, run).await?;
    }
    for (incident, passed) in going {
        if *passed == Passed::Governed {
            incident.happen(tx, Happening::Launched, by, at).await?;
        }
    }
    add_event(tx, run, "redrive.resumed", by, at).await
}

const SET_PACE: Sql = sql!("update redrives set pace = $2, updated_at = $3 where id = $1");

const SET_STATE: Sql = sql!(
    "
update redrives
   set state = $2, why = $3, updated_at = $4
 where id = $1"
);

/// Moves a run into a state that the machine gave.
pub(super) async fn set_state(
    tx: &mut impl Tx,
    id: RedriveId,
    state: RunState,
    why: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    tx.execute(&SET_STATE, binds![id, state, why, at]).await?;
    Ok(())
}

/// Puts something that happened to a run into the timelines of its incidents.
pub(super) async fn note_incidents(
    tx: &mut impl Tx,
    id: RedriveId,
    going: &[(Locked, Passed)],
    kind: &str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let text = id.to_string();
    for (incident, _) in going {
        add_note(tx, incident.id, &TimelineNote { at, kind, by, text: Some(&text) }).await?;
    }
    Ok(())
}
