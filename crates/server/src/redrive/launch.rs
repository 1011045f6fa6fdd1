//! Launching a plan, and what people do to a run.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::audit::Actor;
use lazaret_store::redrive::{ByPerson, Group, GroupVerdict, Launch, Launched, Redrive, RunStep, Stepped};

use super::gate::{Force, judge, shut_of};
use super::plan::judged;
use super::{LaunchRequest, NotRedriven, ShutIncident};
use crate::app::App;

/// Launches a plan; what it sends follows by itself.
pub async fn launch(app: &App, id: RedriveId, request: LaunchRequest) -> Result<Redrive, NotRedriven> {
    let LaunchRequest { count, wanted, break_glass, glass, by } = request;
    let force = Force::read(break_glass.as_deref(), glass)?;
    let plan = app.store.redrive(id).await?.ok_or(NotRedriven::Unknown(id))?;
    let at = app.clock.now();
    if plan.state != RunState::Planned {
        return Err(NotRedriven::State { id, state: plan.state });
    }
    if at.since(plan.opened_at) > limits::PLAN_AGE_MS_MAX {
        return Err(NotRedriven::PlanExpired(id));
    }
    let options = wanted.over(plan.options)?;
    let options = lazaret_core::redrive::Options { prioritization: plan.options.prioritization, ..options };
    let launch = Launch { count, options, break_glass: force.reason(), by, at };
    match force {
        Force::None => check_gate(app, id).await?,
        Force::Glass(_) => return launch_by_force(app, &plan, launch, force).await,
    }
    launched(id, count, app.store.launch_redrive(id, launch).await?)
}

/// Refuses when the gate has shut for a group since it was planned, or when a plan was passed by force and not launched.
async fn check_gate(app: &App, id: RedriveId) -> Result<(), NotRedriven> {
    let groups = app.store.redrive_groups(id).await?;
    let mut going: Vec<Group> = groups.iter().filter(|group| goes(group)).cloned().collect();
    if going.is_empty() {
        // Whoever launches what is all refused is told why, not that nothing was done well.
        going = groups;
    }
    let shut = shut_of(&going, &judge(app, &going, &Force::None));
    if shut.is_empty() { Ok(()) } else { Err(NotRedriven::Shut(shut)) }
}

fn goes(group: &Group) -> bool {
    matches!(group.verdict, Some(GroupVerdict::Goes { .. }))
}

/// Launches with what the gate refuses; a launch that fails leaves the plan as it was.
async fn launch_by_force(
    app: &App,
    plan: &Redrive,
    launch: Launch,
    force: Force,
) -> Result<Redrive, NotRedriven> {
    let (id, count) = (plan.id, launch.count);
    let text = plan.plan.clone().unwrap_or_else(|| "{}".to_owned());
    let groups = app.store.redrive_groups(id).await?;
    let forced = judged(app, id, judge(app, &groups, &force), text.clone()).await?;
    let done = if super::goes(&forced) == count {
        launched(id, count, app.store.launch_redrive(id, launch).await?)
    } else {
        Err(NotRedriven::CountMismatch { count: super::goes(&forced), expected: count })
    };
    match &done {
        Ok(redrive) => {
            let by = &redrive.by.name;
            tracing::warn!(redrive.id = %id, letters = count, "emergency override by {by} for redrive {id}");
        }
        // Should this not be reached, the gate is asked again at the next launch.
        Err(_) => {
            let before = groups.into_iter().filter_map(|group| Some((group.number, group.verdict?)));
            judged(app, id, before.collect(), text).await?;
        }
    }
    done
}

pub(super) fn launched(id: RedriveId, expected: u64, launched: Launched) -> Result<Redrive, NotRedriven> {
    match launched {
        Launched::Done(redrive) => {
            tracing::info!(redrive.id = %id, letters = expected, "redrive {id} of {expected} letters launched");
            Ok(*redrive)
        }
        Launched::CountMismatch(count) => Err(NotRedriven::CountMismatch { count, expected }),
        Launched::State(state) => Err(NotRedriven::State { id, state }),
        Launched::Shut(shut, incident) => {
            Err(NotRedriven::Shut(vec![ShutIncident { incident, shut, letters: expected }]))
        }
        Launched::Unknown => Err(NotRedriven::Unknown(id)),
    }
}

/// Pauses, resumes, cancels or paces a run.
pub async fn step(app: &App, id: RedriveId, step: RunStep, by: Actor) -> Result<Redrive, NotRedriven> {
    match app.store.step_redrive(id, step, by, app.clock.now()).await? {
        Stepped::Done(redrive) => settled_rows(app, *redrive).await,
        Stepped::Refused(state) => Err(NotRedriven::State { id, state }),
        Stepped::Shut(shut, incident) => {
            Err(NotRedriven::Shut(vec![ShutIncident { incident, shut, letters: 0 }]))
        }
        Stepped::Unknown => Err(NotRedriven::Unknown(id)),
    }
}

/// Lets the letters of a cancelled run go that had not had their turn.
async fn settled_rows(app: &App, mut redrive: Redrive) -> Result<Redrive, NotRedriven> {
    let waiting = |redrive: &Redrive| redrive.letters.get(&Outcome::Waiting).copied().unwrap_or(0);
    while redrive.state == RunState::Cancelled && waiting(&redrive) > 0 {
        let before = waiting(&redrive);
        let Some(tended) = app.store.tend_redrive(redrive.id, app.clock.now()).await? else { break };
        if waiting(&tended) == before {
            break;
        }
        redrive = tended;
    }
    Ok(redrive)
}

/// Settles a letter of which nobody knew, by a person's word.
pub async fn settle(
    app: &App,
    id: RedriveId,
    letter: LetterId,
    word: ByPerson,
    by: Actor,
) -> Result<Redrive, NotRedriven> {
    let redrive = app.store.redrive(id).await?.ok_or(NotRedriven::Unknown(id))?;
    if !app.store.settle_unknown(id, letter, word, by, app.clock.now()).await? {
        return Err(NotRedriven::NotUnknown(letter));
    }
    Ok(app.store.tend_redrive(id, app.clock.now()).await?.unwrap_or(redrive))
}
