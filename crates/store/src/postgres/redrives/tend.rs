//! Moving a run on by what became of its letters: canaries are judged, a run that goes wrong stops, one that has come to
//! its end ends, and its incidents move with it.
//!
//! The redrive's row is held first, and its incidents once something is to be done.

use std::collections::BTreeSet;

use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::limits;
use lazaret_core::redrive::{CanaryVerdict, Outcome, RedriveKind, RunAction, RunState, judge};
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::incidents;
use super::super::writer::Write;
use super::doors::day_end;
use super::launch::{hold_going, renew_canaries, set_state, shut, tell_incidents};
use super::plan::tell;
use super::row::{self, Run};
use super::shifts::end_waiting;
use crate::StoreError;
use crate::decision::OperationState;
use crate::redrive::Redrive;

/// Moves a run on as far as it goes by itself, and says how it stands.
pub(super) async fn tend(write: &mut Write, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError> {
    let Some(run) = row::hold(&write.conn, id).await? else { return Ok(None) };
    match run.state() {
        RunState::Planning | RunState::Planned | RunState::Done => return Ok(Some(run.redrive)),
        RunState::Cancelled => {
            wind_up(write, id, 0, at).await?;
        }
        RunState::Canary | RunState::Running | RunState::Paused | RunState::Verifying | RunState::Stopped => {
            if !stopped(write, &run, at).await? && passed_canary(write, &run, at).await? {
                finish(write, id, at).await?;
            }
        }
    }
    Ok(row::find(&write.conn, id).await?.map(|run| run.redrive))
}

/// How a run stands, and whether it can be moved on: asked of a snapshot, because most looks at a run find nothing to do.
pub(super) async fn look(
    conn: &Conn,
    id: RedriveId,
    at: Time,
) -> Result<Option<(Redrive, bool)>, StoreError> {
    let Some(run) = row::find(conn, id).await? else { return Ok(None) };
    let due = match run.state() {
        RunState::Planning | RunState::Planned | RunState::Done => false,
        RunState::Cancelled => run.redrive.finished_at.is_none(),
        RunState::Canary | RunState::Running | RunState::Paused | RunState::Verifying | RunState::Stopped => {
            reason_to_stop(conn, &run).await?.is_some()
                || match verdict(&run, at) {
                    Verdict::Wait => false,
                    Verdict::Renew | Verdict::Pass | Verdict::Pause(_) => true,
                    Verdict::None => can_end(conn, &run, at).await?,
                }
        }
    };
    Ok(Some((run.redrive, due)))
}

/// Whether all of a run was sent, or nothing of it is under way any more, and it does not say so yet.
async fn can_end(conn: &Conn, run: &Run, at: Time) -> Result<bool, StoreError> {
    if run.count(Outcome::Waiting) + run.count(Outcome::Out) > 0 {
        return is_stuck(conn, run).await;
    }
    let over = run.count(Outcome::Sent) == 0
        && run.state().after(RunAction::Finish).is_some()
        && !is_joined(conn, run, at).await?;
    Ok(over || run.state().after(RunAction::AllSent).is_some())
}

/// The run as it stands, whose row is held.
async fn again(write: &Write, id: RedriveId) -> Result<Run, StoreError> {
    row::find(&write.conn, id).await?.ok_or_else(|| row::gone(id))
}

/// Why a run has to stop by itself: its gate has shut, or its letters fail too often.
async fn reason_to_stop(conn: &Conn, run: &Run) -> Result<Option<String>, StoreError> {
    if run.state().after(RunAction::Stop).is_none() {
        return Ok(None);
    }
    let gate = match run.redrive.break_glass {
        Some(_) => None,
        None => shut(conn, run.redrive.id).await?,
    };
    let rule = run.redrive.options.stop;
    Ok(match gate {
        Some((Shut::Regressed, _)) => Some("the incident came back".to_owned()),
        Some((shut, _)) => Some(shut.to_string()),
        // Canaries have a verdict of their own, and a run that stands still does no more harm.
        None if run.state() == RunState::Running && rule.stops(&run.recent) => {
            Some(format!("more than {} % of the last {} letters failed or relapsed", rule.percent, rule.of))
        }
        None => None,
    })
}

/// Stops a run that has a reason to; says whether it did.
async fn stopped(write: &mut Write, run: &Run, at: Time) -> Result<bool, StoreError> {
    let Some(why) = reason_to_stop(&write.conn, run).await? else { return Ok(false) };
    let Some(next) = run.state().after(RunAction::Stop) else { return Ok(false) };
    let id = run.redrive.id;
    let mut going = hold_going(write, id).await?;
    set_state(write, id, next, Some(&why), at).await?;
    tell_incidents(write, id, &going, "redrive_stopped", None, at).await?;
    tell(write, run, "redrive.stopped", None, at).await?;
    let relapsed = relapsed(&write.conn, run).await?;
    for (held, _) in going.iter_mut().filter(|(held, _)| relapsed.contains(&held.id)) {
        incidents::happen(write, held, Happening::RunRelapsed, None, at).await?;
    }
    Ok(true)
}

/// What the canaries of a run say.
enum Verdict {
    /// None are out alone, or they passed before.
    None,
    Wait,
    /// Those that were to speak have nothing to say.
    Renew,
    Pass,
    Pause(String),
}

fn verdict(run: &Run, at: Time) -> Verdict {
    if run.state().after(RunAction::PassCanary).is_none() {
        return Verdict::None;
    }
    let options = run.redrive.options;
    match judge(&run.redrive.canaries, options.canary_assumed) {
        CanaryVerdict::Pass => Verdict::Pass,
        CanaryVerdict::Renew => Verdict::Renew,
        CanaryVerdict::Fail(outcome) => Verdict::Pause(format!("canary: {}", outcome.name())),
        CanaryVerdict::Wait => {
            let begun_at = run.redrive.resumed_at.or(run.redrive.launched_at).unwrap_or(at);
            match at.since(begun_at) <= options.canary_ms {
                true => Verdict::Wait,
                false => Verdict::Pause("canary: not verified in time".to_owned()),
            }
        }
    }
}

const PASS_CANARY: &str = "
update redrives
   set state = $2, canary_passed = true, updated_at = $3
 where id = $1";

/// Whether the rest of a run may go on: its canaries succeeded, now or before, or it has none.
async fn passed_canary(write: &mut Write, run: &Run, at: Time) -> Result<bool, StoreError> {
    let id = run.redrive.id;
    let verdict = match verdict(run, at) {
        Verdict::Renew => renewed(write, run).await?,
        verdict => verdict,
    };
    match (verdict, run.state().after(RunAction::PassCanary), run.state().after(RunAction::Pause)) {
        (Verdict::Pass, Some(next), _) => {
            write.conn.execute(PASS_CANARY, &[&Uid(*id.bytes()), &next.name(), &At(at)]).await?;
            Ok(true)
        }
        (Verdict::Pause(why), _, Some(paused)) => {
            set_state(write, id, paused, Some(&why), at).await?;
            tell(write, run, "redrive.paused", None, at).await?;
            Ok(false)
        }
        (Verdict::None, ..) => Ok(true),
        (Verdict::Wait | Verdict::Renew | Verdict::Pass | Verdict::Pause(_), ..) => Ok(false),
    }
}

/// Others take the place of canaries that moved before their turn; where there are none left, nothing speaks against the
/// rest.
async fn renewed(write: &Write, run: &Run) -> Result<Verdict, StoreError> {
    renew_canaries(write, run).await?;
    let canaries = again(write, run.redrive.id).await?.redrive.canaries;
    let open = canaries.iter().any(|(outcome, letters)| outcome.is_open() && *letters > 0);
    Ok(if open { Verdict::Wait } else { Verdict::Pass })
}

/// Finds that all were sent, and that nothing is under way any more.
async fn finish(write: &mut Write, id: RedriveId, at: Time) -> Result<(), StoreError> {
    block_rest(write, &again(write, id).await?, at).await?;
    let run = again(write, id).await?;
    if run.count(Outcome::Waiting) + run.count(Outcome::Out) > 0 {
        return Ok(());
    }
    if let Some(next) = run.state().after(RunAction::AllSent) {
        set_state(write, id, next, None, at).await?;
        for (mut held, passed) in hold_going(write, id).await? {
            if passed == Passed::Governed && !has_others(&write.conn, held.id, id, Others::Sending).await? {
                incidents::happen(write, &mut held, Happening::AllSent, None, at).await?;
            }
        }
    }
    let run = again(write, id).await?;
    if run.count(Outcome::Sent) > 0 || is_joined(&write.conn, &run, at).await? {
        return Ok(());
    }
    let Some(next) = run.state().after(RunAction::Finish) else { return Ok(()) };
    set_state(write, id, next, None, at).await?;
    close(write, &run, at).await?;
    let going = hold_going(write, id).await?;
    tell_incidents(write, id, &going, "redrive_done", None, at).await?;
    tell(write, &run, "redrive.done", None, at).await
}

const IS_WORKING: &str = "
select 1
  from operations
 where id = $1
   and state = $2";

/// Whether letters may still join: a rule's redrive is open for its day, an operation's for as long as that works.
async fn is_joined(conn: &Conn, run: &Run, at: Time) -> Result<bool, StoreError> {
    match run.redrive.kind {
        RedriveKind::Single | RedriveKind::Plan => Ok(false),
        RedriveKind::Rule => Ok(at < day_end(run.redrive.opened_at)),
        RedriveKind::Bulk => {
            let (id, working) = (Uid(*run.redrive.id.bytes()), OperationState::Working.name());
            Ok(conn.query_opt(IS_WORKING, &[&id, &working]).await?.is_some())
        }
    }
}

/// A lane whose claim has no lease waits for a person, as a letter of another run of which nobody knows.
const HAS_HEADS: &str = "
select 1
  from redrive_letters t
 where t.redrive = $1
   and t.outcome = 'waiting'
   and t.head
   and (t.lane is null or not exists (select 1
                                        from claims c
                                       where c.lane = t.lane
                                         and c.step = 'sending'
                                         and c.lease_until is null))
 limit 1";

/// Whether nothing of a run can go any more although some of it waits.
async fn is_stuck(conn: &Conn, run: &Run) -> Result<bool, StoreError> {
    Ok(run.state().claims()
        && run.count(Outcome::Waiting) > 0
        && run.count(Outcome::Out) + run.count(Outcome::Sent) == 0
        && conn.query_opt(HAS_HEADS, &[&Uid(*run.redrive.id.bytes())]).await?.is_none())
}

/// What waits when nothing can go any more waits behind a letter of which nobody knows: that does not hold up the end.
async fn block_rest(write: &Write, run: &Run, at: Time) -> Result<(), StoreError> {
    if is_stuck(&write.conn, run).await? {
        let why = Some("an earlier letter of its key did not get through");
        end_waiting(write, run.redrive.id, 0, Outcome::LaneBlocked, why, at).await?;
    }
    Ok(())
}

/// Ends what waits of a cancelled run, a part at a time, and the run once nothing of it is out; says where it came to,
/// nothing at the end.
pub(super) async fn wind_up(
    write: &mut Write,
    id: RedriveId,
    after: i64,
    at: Time,
) -> Result<Option<i64>, StoreError> {
    let held = row::hold(&write.conn, id).await?.ok_or_else(|| row::gone(id))?;
    let more = match held.left {
        0 => None,
        _ => end_waiting(write, id, after, Outcome::Cancelled, None, at).await?,
    };
    let run = again(write, id).await?;
    let out = run.count(Outcome::Out) + run.count(Outcome::Sent);
    if more.is_none() && out == 0 && run.redrive.finished_at.is_none() {
        close(write, &run, at).await?;
    }
    Ok(more)
}

const CLOSE: &str = "
update redrives
   set finished_at = $2, updated_at = $2
 where id = $1";

/// Writes down that a run is over; its incidents hear how it went.
async fn close(write: &mut Write, run: &Run, at: Time) -> Result<(), StoreError> {
    let id = run.redrive.id;
    write.conn.execute(CLOSE, &[&Uid(*id.bytes()), &At(at)]).await?;
    if run.redrive.launched_at.is_none() {
        return Ok(());
    }
    let relapsed = relapsed(&write.conn, run).await?;
    for (mut held, passed) in hold_going(write, id).await? {
        if passed != Passed::Governed {
            continue;
        }
        if relapsed.contains(&held.id) {
            incidents::happen(write, &mut held, Happening::RunRelapsed, None, at).await?;
        } else if !has_others(&write.conn, held.id, id, Others::Any).await? {
            incidents::happen(write, &mut held, Happening::RunEnded, None, at).await?;
        }
    }
    Ok(())
}

/// What died before the fix in force says nothing against it.
const RELAPSED: &str = "
select distinct g.incident
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
  join incidents i on i.id = g.incident
  join dead_letter_queue l on l.id = t.letter and l.created_at = uuid_time(t.letter)
  join fingerprints f on f.fingerprint = l.fingerprint
 where t.redrive = $1
   and t.outcome = 'relapsed'
   and g.verdict = $2
   and f.incident = g.incident
   and i.fix_at is not null
   and t.outcome_at > i.fix_at
 limit $3";

/// The incidents whose letters the run put back under the analysis, and which died of the same again after the fix.
async fn relapsed(conn: &Conn, run: &Run) -> Result<BTreeSet<IncidentId>, StoreError> {
    if run.count(Outcome::Relapsed) == 0 {
        return Ok(BTreeSet::new());
    }
    let (id, limit) = (Uid(*run.redrive.id.bytes()), limits::PLAN_GROUPS_MAX as i64);
    let found = conn.query(RELAPSED, &[&id, &Passed::Governed.name(), &limit]).await?;
    found.iter().map(|row| Ok(IncidentId::from_bytes(row.id(0)?))).collect()
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
  from redrive_groups g
  join redrives r on r.id = g.redrive
 where g.incident = $1
   and g.redrive <> $2
   and g.verdict = $3
   and r.launched_at is not null
   and r.finished_at is null
 limit 1000";

/// Whether other runs of an incident are not over. Two that end at once do so one after the other, by the incident's row.
async fn has_others(
    conn: &Conn,
    incident: IncidentId,
    id: RedriveId,
    which: Others,
) -> Result<bool, StoreError> {
    let binds = (Uid(*incident.bytes()), Uid(*id.bytes()), Passed::Governed.name());
    for row in conn.query(OTHERS, &[&binds.0, &binds.1, &binds.2]).await? {
        let state = row::state(row.cell(0)?)?;
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
