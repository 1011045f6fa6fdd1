//! Moving a run on by what became of its letters: canaries are judged, a run that goes wrong stops, one that has come to
//! its end ends, and its incidents move with it.

use std::collections::BTreeSet;

use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::limits;
use lazaret_core::redrive::{CanaryVerdict, Outcome, RedriveKind, RunAction, RunState, judge};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::incidents;
use super::super::writer::Write;
use super::doors::day_end;
use super::launch::{going, renew_canaries, set_state, shut, tell_incidents};
use super::outcomes::Shifts;
use super::plan::tell;
use super::row::{self, Run};
use crate::StoreError;
use crate::decision::OperationState;
use crate::redrive::Redrive;

/// Moves a run on as far as it goes by itself, and says how it stands.
pub(super) fn tend(write: &Write, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError> {
    let Some(run) = row::find(&write.conn, id)? else { return Ok(None) };
    match run.state() {
        RunState::Planning | RunState::Planned | RunState::Done => return Ok(Some(run.redrive)),
        RunState::Cancelled => {
            wind_up(write, id, 0, at)?;
        }
        RunState::Canary | RunState::Running | RunState::Paused | RunState::Verifying | RunState::Stopped => {
            if !stopped(write, &run, at)? && passed_canary(write, &run, at)? {
                finish(write, id, at)?;
            }
        }
    }
    Ok(row::find(&write.conn, id)?.map(|run| run.redrive))
}

/// Stops a run whose gate has shut, or whose letters fail too often; says whether it did.
fn stopped(write: &Write, run: &Run, at: Time) -> Result<bool, StoreError> {
    let Some(next) = run.state().after(RunAction::Stop) else { return Ok(false) };
    let id = run.redrive.id;
    let gate = match run.redrive.break_glass {
        Some(_) => None,
        None => shut(&write.conn, id)?,
    };
    let rule = run.redrive.options.stop;
    let why = match gate {
        Some((Shut::Regressed, _)) => "the incident came back".to_owned(),
        Some((shut, _)) => shut.to_string(),
        // Canaries have a verdict of their own, and a run that stands still does no more harm.
        None if run.state() == RunState::Running && rule.stops(&run.recent) => {
            format!("more than {} % of the last {} letters failed or relapsed", rule.percent, rule.of)
        }
        None => return Ok(false),
    };
    set_state(write, id, next, Some(&why), at)?;
    tell_incidents(write, run, "redrive_stopped", None, at)?;
    tell(write, run, "redrive.stopped", None, at)?;
    for incident in relapsed(&write.conn, run)? {
        incidents::happen(write, incident, Happening::RunRelapsed, None, at)?;
    }
    Ok(true)
}

/// Whether the rest of a run may go on: its canaries succeeded, now or before, or it has none.
fn passed_canary(write: &Write, run: &Run, at: Time) -> Result<bool, StoreError> {
    let Some(next) = run.state().after(RunAction::PassCanary) else { return Ok(true) };
    let options = run.redrive.options;
    let why = match judge(&run.redrive.canaries, options.canary_assumed) {
        CanaryVerdict::Pass => return pass(write, run, next, at),
        // All of them moved before their turn: nothing is verified yet.
        CanaryVerdict::Renew => {
            renew_canaries(write, run)?;
            let renewed = row::expect(&write.conn, run.redrive.id)?;
            return if renewed.redrive.canaries.values().all(|letters| *letters == 0) {
                pass(write, run, next, at)
            } else {
                Ok(false)
            };
        }
        CanaryVerdict::Fail(outcome) => format!("canary: {}", outcome.name()),
        CanaryVerdict::Wait => {
            let begun_at = run.redrive.resumed_at.or(run.redrive.launched_at).unwrap_or(at);
            if at.since(begun_at) <= options.canary_ms {
                return Ok(false);
            }
            "canary: not verified in time".to_owned()
        }
    };
    if let Some(paused) = run.state().after(RunAction::Pause) {
        set_state(write, run.redrive.id, paused, Some(&why), at)?;
        tell(write, run, "redrive.paused", None, at)?;
    }
    Ok(false)
}

fn pass(write: &Write, run: &Run, next: RunState, at: Time) -> Result<bool, StoreError> {
    write
        .conn
        .prepare_cached("update redrives set state = ?2, canary_passed = 1, updated_at = ?3 where id = ?1")?
        .execute((run.redrive.id.bytes(), next.name(), at.ms()))?;
    Ok(true)
}

/// Finds that all were sent, and that nothing is under way any more.
fn finish(write: &Write, id: RedriveId, at: Time) -> Result<(), StoreError> {
    block_rest(write, &row::expect(&write.conn, id)?, at)?;
    let run = row::expect(&write.conn, id)?;
    let (waiting, out) = (run.count(Outcome::Waiting), run.count(Outcome::Out));
    if waiting + out > 0 {
        return Ok(());
    }
    if let Some(next) = run.state().after(RunAction::AllSent) {
        set_state(write, id, next, None, at)?;
        for (incident, passed) in going(&write.conn, id)? {
            if passed == Passed::Governed && !has_others(&write.conn, incident, id, Others::Sending)? {
                incidents::happen(write, incident, Happening::AllSent, None, at)?;
            }
        }
    }
    let run = row::expect(&write.conn, id)?;
    if run.count(Outcome::Sent) > 0 || is_joined(&write.conn, &run, at)? {
        return Ok(());
    }
    let Some(next) = run.state().after(RunAction::Finish) else { return Ok(()) };
    set_state(write, id, next, None, at)?;
    close(write, &run, at)?;
    tell_incidents(write, &run, "redrive_done", None, at)?;
    tell(write, &run, "redrive.done", None, at)
}

/// Whether letters may still join: a rule's redrive is open for its day, an operation's for as long as that works.
fn is_joined(conn: &Connection, run: &Run, at: Time) -> Result<bool, StoreError> {
    match run.redrive.kind {
        RedriveKind::Single | RedriveKind::Plan => Ok(false),
        RedriveKind::Rule => Ok(at < day_end(run.redrive.opened_at)),
        RedriveKind::Bulk => Ok(conn
            .prepare_cached("select 1 from operations where id = ?1 and state = ?2")?
            .exists((run.redrive.id.bytes(), OperationState::Working.name()))?),
    }
}

const HAS_HEADS: &str = "
select 1
  from redrive_letters indexed by redrive_letters_next
 where redrive = ?1
   and outcome = 'waiting'
   and head = 1
   and (lane is null or not exists (select 1
                                      from claims c indexed by claims_by_lane
                                     where c.lane = redrive_letters.lane
                                       and c.step = 'sending'
                                       and c.lease_until is null))
 limit 1";

const WAITING: &str = "
select ordinal
  from redrive_letters
 where redrive = ?1
   and ordinal > ?2
   and outcome = 'waiting'
 order by ordinal
 limit ?3";

const SET_OUTCOME: &str = "
update redrive_letters
   set outcome = ?3, evidence = ?4, outcome_at = ?5, head = 0
 where redrive = ?1
   and ordinal = ?2";

/// What waits when nothing can go any more waits behind a letter of which nobody knows, of this run or another: that does not
/// hold up the end.
fn block_rest(write: &Write, run: &Run, at: Time) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let stuck = run.state().claims()
        && run.count(Outcome::Waiting) > 0
        && run.count(Outcome::Out) + run.count(Outcome::Sent) == 0
        && !write.conn.prepare_cached(HAS_HEADS)?.exists([id.bytes()])?;
    if !stuck {
        return Ok(());
    }
    let why = Some("an earlier letter of its key did not get through");
    end_waiting(write, id, 0, Outcome::LaneBlocked, why, at)?;
    Ok(())
}

/// Ends the next letters of a run that wait; says where it came to, nothing if that was the last.
fn end_waiting(
    write: &Write,
    id: RedriveId,
    after: i64,
    to: Outcome,
    why: Option<&str>,
    at: Time,
) -> Result<Option<i64>, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE;
    let chunk: Vec<i64> = write
        .conn
        .prepare_cached(WAITING)?
        .query_map((id.bytes(), after, limit as i64), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut set = write.conn.prepare_cached(SET_OUTCOME)?;
    for ordinal in &chunk {
        set.execute((id.bytes(), ordinal, to.name(), why, at.ms()))?;
    }
    let mut shifts = Shifts::default();
    shifts.count(id, Outcome::Waiting, to, chunk.len() as i64);
    shifts.flush(write, at)?;
    Ok(chunk.last().copied().filter(|_| chunk.len() == limit))
}

/// Ends what waits of a cancelled run, a part at a time, and the run once nothing of it is out; says where it came to,
/// nothing at the end.
pub(super) fn wind_up(write: &Write, id: RedriveId, after: i64, at: Time) -> Result<Option<i64>, StoreError> {
    let waits = write
        .conn
        .prepare_cached("select 1 from redrives where id = ?1 and waiting > 0")?
        .exists([id.bytes()])?;
    let more = if waits { end_waiting(write, id, after, Outcome::Cancelled, None, at)? } else { None };
    let run = row::expect(&write.conn, id)?;
    let out = run.count(Outcome::Out) + run.count(Outcome::Sent);
    if more.is_none() && out == 0 && run.redrive.finished_at.is_none() {
        close(write, &run, at)?;
    }
    Ok(more)
}

/// Writes down that a run is over; its incidents hear how it went.
fn close(write: &Write, run: &Run, at: Time) -> Result<(), StoreError> {
    let id = run.redrive.id;
    write
        .conn
        .prepare_cached("update redrives set finished_at = ?2, updated_at = ?2 where id = ?1")?
        .execute((id.bytes(), at.ms()))?;
    if run.redrive.launched_at.is_none() {
        return Ok(());
    }
    let relapsed = relapsed(&write.conn, run)?;
    for (incident, passed) in going(&write.conn, id)? {
        if passed != Passed::Governed {
            continue;
        }
        if relapsed.contains(&incident) {
            incidents::happen(write, incident, Happening::RunRelapsed, None, at)?;
        } else if !has_others(&write.conn, incident, id, Others::Any)? {
            incidents::happen(write, incident, Happening::RunEnded, None, at)?;
        }
    }
    Ok(())
}

const RELAPSED: &str = "
select distinct g.incident
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
  join dead_letter_queue l on l.id = t.letter
  join fingerprints f on f.fingerprint = l.fingerprint
  join incidents i on i.id = g.incident
 where t.redrive = ?1
   and t.outcome = 'relapsed'
   and g.verdict = ?2
   and f.incident = g.incident
   and t.outcome_at > i.fix_at
 limit ?3";

/// The incidents whose letters the run put back under the analysis, and which died of the same again: after the fix that is
/// in force, because what came before it was answered by it.
fn relapsed(conn: &Connection, run: &Run) -> Result<BTreeSet<IncidentId>, StoreError> {
    if run.count(Outcome::Relapsed) == 0 {
        return Ok(BTreeSet::new());
    }
    let governed = Passed::Governed.name();
    let mut statement = conn.prepare_cached(RELAPSED)?;
    let found = statement
        .query_map((run.redrive.id.bytes(), governed, limits::PLAN_GROUPS_MAX as i64), |row| {
            row.get(0).map(IncidentId::from_bytes)
        })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Which other runs of an incident count.
#[derive(Clone, Copy)]
enum Others {
    /// Those that still have letters to send.
    Sending,
    Any,
}

const OTHERS: &str = "
select r.state
  from redrive_groups g indexed by redrive_groups_by_incident
  join redrives r on r.id = g.redrive
 where g.incident = ?1
   and g.redrive <> ?2
   and g.verdict = ?3
   and r.launched_at is not null
   and r.finished_at is null
 limit 1000";

/// Whether other runs of an incident are not over.
fn has_others(
    conn: &Connection,
    incident: IncidentId,
    id: RedriveId,
    which: Others,
) -> Result<bool, StoreError> {
    let mut statement = conn.prepare_cached(OTHERS)?;
    let mut found = statement.query((incident.bytes(), id.bytes(), Passed::Governed.name()))?;
    while let Some(row) = found.next()? {
        let state = row::state(&row.get::<_, String>(0)?)?;
        let counts = match which {
            Others::Any => true,
            Others::Sending => state.after(RunAction::Stop).is_some(),
        };
        if counts {
            return Ok(true);
        }
    }
    Ok(false)
}
