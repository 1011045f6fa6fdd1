//! Moving a run on: facts are loaded, `lazaret_core` says what follows from them, and that is applied.
//!
//! The redrive's row is locked first, and its incidents once something is to be done.

use std::collections::BTreeSet;

use lazaret_core::gate::Passed;
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{
    ADVANCES_MAX, Effects, IncidentFacts, LetterEffect, OtherRuns, Outcome, RedriveKind, RunAction, RunFacts,
    RunState, advance,
};
use lazaret_core::time::Time;

use super::launch::{lock_going, note_incidents, renew_canaries, set_state, shut};
use super::plan::add_event;
use super::row::{self, Run, lock_redrive};
use crate::StoreError;
use crate::decision::OperationState;
use crate::engine::incidents::Locked;
use crate::redrive::Redrive;
use crate::seam::{Conn, Sql, Tx, binds, sql};

/// What a run does next by itself, if anything.
async fn next_step(conn: &mut impl Conn, run: &Run, at: Time) -> Result<Option<Effects>, StoreError> {
    let redrive = &run.redrive;
    let mut facts = RunFacts {
        state: redrive.state,
        kind: redrive.kind,
        options: &redrive.options,
        letters: &redrive.letters,
        waiting: run.left,
        canaries: &redrive.canaries,
        recent: &run.recent,
        opened_at: redrive.opened_at,
        launched_at: redrive.launched_at,
        resumed_at: redrive.resumed_at,
        finished_at: redrive.finished_at,
        gate: None,
        has_heads: true,
        operation_works: false,
    };
    if facts.needs_gate() && redrive.break_glass.is_none() {
        facts.gate = shut(conn, redrive.id).await?.map(|(shut, _)| shut);
    }
    if facts.needs_heads() {
        facts.has_heads = conn.query_opt(&HAS_HEADS, binds![redrive.id], |_| Ok(())).await?.is_some();
    }
    if redrive.kind == RedriveKind::Bulk {
        let values = binds![redrive.id, OperationState::Working];
        facts.operation_works = conn.query_opt(&IS_WORKING, values, |_| Ok(())).await?.is_some();
    }
    Ok(advance(&facts, at))
}

/// A lane whose claim has no lease waits for a person, as a letter of another run of which nobody knows.
const HAS_HEADS: Sql = sql!(
    "
select 1 as one
  from redrive_letters t{sqlite  indexed by redrive_letters_next}
 where t.redrive = $1
   and t.outcome = 'waiting'
   and t.head{sqlite  = 1}
   and (t.lane is null or not exists (select 1
                                        from claims c{sqlite  indexed by claims_by_lane}
                                       where c.lane = t.lane
                                         and c.step = 'sending'
                                         and c.lease_until is null))
 limit 1"
);

const IS_WORKING: Sql = sql!("select 1 as one from operations where id = $1 and state = $2");

/// How a run stands, and whether it can be moved on: asked of a snapshot, because most looks at a run find nothing to do.
pub(super) async fn look(
    conn: &mut impl Conn,
    id: RedriveId,
    at: Time,
) -> Result<Option<(Redrive, bool)>, StoreError> {
    let Some(run) = row::find(conn, id).await? else { return Ok(None) };
    let due = next_step(conn, &run, at).await?.is_some();
    Ok(Some((run.redrive, due)))
}

/// How far a run came.
pub(super) struct Tended {
    pub redrive: Redrive,
    /// The ordinal behind which letters are left to end.
    pub more: Option<i64>,
}

/// Moves a run on as far as it goes by itself. Letters that end do so behind an ordinal, so many at a time.
pub(super) async fn tend(
    tx: &mut impl Tx,
    id: RedriveId,
    after: i64,
    at: Time,
) -> Result<Option<Tended>, StoreError> {
    let Some(mut run) = lock_redrive(tx, id).await? else { return Ok(None) };
    for _ in 0..ADVANCES_MAX {
        let Some(effects) = next_step(tx, &run, at).await? else { break };
        let more = apply(tx, &run, &effects, after, at).await?;
        run = row::expect(tx, id).await?;
        if more.is_some() {
            return Ok(Some(Tended { redrive: run.redrive, more }));
        }
    }
    Ok(Some(Tended { redrive: run.redrive, more: None }))
}

const PASS_CANARY: Sql = sql!("update redrives set canary_passed = true where id = $1");

const CLOSE: Sql = sql!(
    "
update redrives
   set finished_at = $2, updated_at = $2
 where id = $1"
);

/// Applies one step; says behind which ordinal letters are left to end.
async fn apply(
    tx: &mut impl Tx,
    run: &Run,
    effects: &Effects,
    after: i64,
    at: Time,
) -> Result<Option<i64>, StoreError> {
    let id = run.redrive.id;
    let more = match effects.letters {
        Some(LetterEffect::RenewCanaries) => {
            renew_canaries(tx, run).await?;
            None
        }
        Some(LetterEffect::EndWaiting { outcome, why }) => {
            tx.end_waiting(id, after, outcome, why, at).await?
        }
        None => None,
    };
    if let Some(state) = effects.state {
        set_state(tx, id, state, effects.why.as_deref(), at).await?;
    }
    if effects.canary_passed {
        tx.execute(&PASS_CANARY, binds![id]).await?;
    }
    if effects.finished {
        tx.execute(&CLOSE, binds![id, at]).await?;
    }
    let mut going = match effects.concerns_incidents() && run.redrive.launched_at.is_some() {
        true => lock_going(tx, id).await?,
        false => Vec::new(),
    };
    // A stop is told before the incident regresses by it, an end after what came of it.
    if effects.finished {
        move_incidents(tx, run, effects, &mut going, at).await?;
    }
    if let Some(kind) = effects.timeline {
        note_incidents(tx, id, &going, kind, None, at).await?;
    }
    if let Some(kind) = effects.event {
        add_event(tx, run, kind, None, at).await?;
    }
    if !effects.finished {
        move_incidents(tx, run, effects, &mut going, at).await?;
    }
    Ok(more)
}

async fn move_incidents(
    tx: &mut impl Tx,
    run: &Run,
    effects: &Effects,
    going: &mut [(Locked, Passed)],
    at: Time,
) -> Result<(), StoreError> {
    if going.is_empty() {
        return Ok(());
    }
    let relapsed = relapsed(tx, run).await?;
    for (incident, passed) in going {
        let facts = IncidentFacts {
            passed: *passed,
            relapsed: relapsed.contains(&incident.id),
            other_runs: other_runs(tx, incident.id, run.redrive.id).await?,
        };
        if let Some(happening) = effects.happening(&facts) {
            incident.happen(tx, happening, None, at).await?;
        }
    }
    Ok(())
}

/// What died before the fix in force says nothing against it.
const RELAPSED: Sql = sql!(
    "
select distinct g.incident
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
  join incidents i on i.id = g.incident
  join dead_letter_queue l on l.id = t.letter{postgres  and l.created_at = uuid_time(t.letter)}
  join fingerprints f on f.fingerprint = l.fingerprint
 where t.redrive = $1
   and t.outcome = 'relapsed'
   and g.verdict = $2
   and f.incident = g.incident
   and t.outcome_at > i.fix_at
 limit $3"
);

/// Returns the incidents under whose RCA the run redrove letters that died of the same cause again after the fix.
async fn relapsed(conn: &mut impl Conn, run: &Run) -> Result<BTreeSet<IncidentId>, StoreError> {
    if run.count(Outcome::Relapsed) == 0 {
        return Ok(BTreeSet::new());
    }
    let values = binds![run.redrive.id, Passed::Governed.name(), limits::PLAN_GROUPS_MAX];
    let found = conn.query(&RELAPSED, values, |row| row.get("incident")).await?;
    Ok(found.into_iter().collect())
}

const OTHERS: Sql = sql!(
    "
select r.state
  from redrive_groups g{sqlite  indexed by redrive_groups_by_incident}
  join redrives r on r.id = g.redrive
 where g.incident = $1
   and g.redrive <> $2
   and g.verdict = $3
   and r.launched_at is not null
   and r.finished_at is null
 limit 1000"
);

/// The other runs of an incident that are not over. Two that end at once do so one after the other, by the incident's row.
async fn other_runs(
    conn: &mut impl Conn,
    incident: IncidentId,
    id: RedriveId,
) -> Result<OtherRuns, StoreError> {
    let values = binds![incident, id, Passed::Governed.name()];
    let states: Vec<RunState> = conn.query(&OTHERS, values, |row| row.get("state")).await?;
    let weight = |state: RunState| match state.after(RunAction::Stop) {
        Some(_) => OtherRuns::Sending,
        None => OtherRuns::Sent,
    };
    Ok(states.into_iter().map(weight).max().unwrap_or(OtherRuns::None))
}
