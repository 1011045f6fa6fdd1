//! Plans: a frozen list, judged group by group, shown before anything is sent.

use std::collections::BTreeSet;

use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::{Action, Status};
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::redrive::{Options, Pace, RedriveKind, RunState};
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::redrive::{self as stored, GroupVerdict, NewRedrive, Redrive, RunStep, Stepped};

use super::gate::{Force, judge};
use super::preview::preview;
use super::{NotRedriven, PlanRequest, Planned, Selection};
use crate::app::App;
use crate::jobs::SOURCE;

/// Takes the letters down and says what would happen to them. Nothing is sent.
///
/// A caller that goes away leaves a plan that nobody launches; it ends by its age.
pub async fn plan(app: &App, request: PlanRequest) -> Result<Planned, NotRedriven> {
    let PlanRequest { selection, expected, wanted, reason, by } = request;
    let expected = match &selection {
        Selection::All { expected } => Some(*expected),
        Selection::Filter(_) | Selection::Letters(_) => expected,
    };
    let (selection, only_jobs) = read_selection(app, selection).await?;
    // Workers pull jobs at their own speed.
    let pace = if only_jobs { Pace::Unlimited } else { Pace::DEFAULT };
    let options = wanted.over(Options { pace, ..Options::default() })?;
    let new = New { kind: RedriveKind::Plan, selection, options, by, reason, edit: None };
    let frozen = freeze(app, new).await?;
    check_count(app, &frozen, expected).await?;
    let groups = app.store.redrive_groups(frozen.id).await?;
    let verdicts = judge(app, &groups, &Force::None);
    // The counts of a plan are those of letters that go, so the verdicts come first.
    let redrive = judged(app, frozen.id, verdicts.clone(), "{}".to_owned()).await?;
    let plan = preview(app, &redrive, &groups, &verdicts).await?;
    let text = serde_json::to_string(&plan).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let redrive = judged(app, frozen.id, verdicts, text).await?;
    let (id, count) = (redrive.id, super::goes(&redrive));
    tracing::info!(redrive.id = %id, letters = count, "redrive {id} planned: {count} letters");
    Ok(Planned { redrive, plan })
}

/// The letters as the store takes them down, and whether all are known to be jobs.
async fn read_selection(app: &App, selection: Selection) -> Result<(stored::Selection, bool), NotRedriven> {
    match selection {
        Selection::Filter(filter) if filter.spares_nothing(Action::Redrive, app.clock.now()) => {
            Err(NotRedriven::FilterRequired)
        }
        Selection::Filter(filter) => {
            let only_jobs = filter.source.include == [Pattern::new(SOURCE)].into_iter().collect();
            Ok((stored::Selection::Filter(filter), only_jobs))
        }
        Selection::All { .. } => {
            // What a plan takes down is pending whatever its filter says; this one says so.
            let mut filter = Filter::default();
            filter.status.include.insert(Status::Pending);
            Ok((stored::Selection::Filter(filter), false))
        }
        Selection::Letters(letters) => named_letters(app, letters).await,
    }
}

async fn named_letters(app: &App, letters: Vec<LetterId>) -> Result<(stored::Selection, bool), NotRedriven> {
    let letters: BTreeSet<LetterId> = letters.into_iter().collect();
    if letters.is_empty() {
        return Err(NotRedriven::FilterRequired);
    }
    if letters.len() > limits::PAGE_ROWS_MAX {
        let problem = format!("the maximum is {} letters; use a filter", limits::PAGE_ROWS_MAX);
        return Err(NotRedriven::BadOption { field: "letters", problem });
    }
    let (mut named, mut only_jobs) = (Vec::with_capacity(letters.len()), true);
    for id in letters {
        let history = app.store.history(id).await?.ok_or(NotRedriven::UnknownLetter(id))?;
        history.letter.standing().after(Action::Redrive)?;
        only_jobs &= history.letter.source == SOURCE;
        named.push((id, history.letter.life));
    }
    Ok((stored::Selection::Letters(named), only_jobs))
}

/// A redrive that is about to be opened.
pub(super) struct New {
    pub kind: RedriveKind,
    pub selection: stored::Selection,
    pub options: Options,
    pub by: Actor,
    pub reason: Option<String>,
    pub edit: Option<u32>,
}

/// Opens a redrive and takes its list down to the end.
pub(super) async fn freeze(app: &App, new: New) -> Result<Redrive, NotRedriven> {
    let at = app.clock.now();
    let id = RedriveId::mint(at, app.entropy.take()?);
    let New { kind, selection, options, by, reason, edit } = new;
    app.store.open_redrive(NewRedrive { id, kind, selection, options, by, reason, edit, at }).await?;
    while !app.store.freeze_redrive(id).await? {}
    let redrive = app.store.redrive(id).await?.ok_or(NotRedriven::Unknown(id))?;
    match redrive.state {
        RunState::Cancelled => {
            Err(NotRedriven::TooLarge(redrive.why.unwrap_or_else(|| "too many letters".to_owned())))
        }
        RunState::Planning
        | RunState::Planned
        | RunState::Canary
        | RunState::Running
        | RunState::Paused
        | RunState::Verifying
        | RunState::Done
        | RunState::Stopped => Ok(redrive),
    }
}

/// Drops a list that does not have the expected length.
pub(super) async fn check_count(
    app: &App,
    frozen: &Redrive,
    expected: Option<u64>,
) -> Result<(), NotRedriven> {
    match expected {
        Some(expected) if expected != frozen.total => {
            drop_plan(app, frozen, "count mismatch").await?;
            Err(NotRedriven::CountMismatch { count: frozen.total, expected })
        }
        Some(_) | None => Ok(()),
    }
}

/// Ends a plan that will not be launched.
pub(super) async fn drop_plan(app: &App, plan: &Redrive, why: &str) -> Result<(), StoreError> {
    let cancel = RunStep::Cancel(Some(why.to_owned()));
    match app.store.step_redrive(plan.id, cancel, plan.by.clone(), app.clock.now()).await? {
        // Whatever else it is by now, it is not launched by this caller.
        Stepped::Done(_) | Stepped::Refused(_) | Stepped::Shut(..) | Stepped::Unknown => Ok(()),
    }
}

/// Writes down what becomes of each group.
pub(super) async fn judged(
    app: &App,
    id: RedriveId,
    verdicts: Vec<(u32, GroupVerdict)>,
    plan: String,
) -> Result<Redrive, NotRedriven> {
    let planned = app.store.plan_redrive(id, verdicts, plan, app.clock.now()).await?;
    match planned {
        Some(planned) => Ok(planned),
        // Somebody else judged or launched it meanwhile.
        None => match app.store.redrive(id).await? {
            Some(redrive) => Err(NotRedriven::State { id, state: redrive.state }),
            None => Err(NotRedriven::Unknown(id)),
        },
    }
}
