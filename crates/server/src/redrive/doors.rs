//! Many letters of jobs at once by an Open Job Spec client: a redrive without canary and pace.

use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RedriveKind};
use lazaret_store::audit::Actor;
use lazaret_store::redrive::{self as stored, Launch, Redrive};

use super::gate::{Force, judge, shut_of};
use super::launch::launched;
use super::plan::{New, check_count, drop_plan, freeze, judged};
use super::single::at_once;
use super::tick::drive;
use super::{NotRedriven, ShutIncident};
use crate::app::App;

/// Jobs that a client wants back.
#[derive(Clone, PartialEq, Debug)]
pub struct Many {
    /// Of letters of jobs alone.
    pub filter: Filter,
    pub expected: Option<u64>,
    pub reason: Option<String>,
    pub by: Actor,
}

/// Puts all that match back: within the call if they are few enough, else by itself from now on. All of them or none:
/// the gate that is shut for some is shut for the call.
pub async fn put_back_many(app: &App, many: Many) -> Result<Redrive, NotRedriven> {
    let Many { filter, expected, reason, by } = many;
    let selection = stored::Selection::Filter(filter);
    let (kind, options) = (RedriveKind::Bulk, at_once());
    let frozen = freeze(app, New { kind, selection, options, by: by.clone(), reason, edit: None }).await?;
    check_count(app, &frozen, expected).await?;
    let id = frozen.id;
    let groups = app.store.redrive_groups(id).await?;
    let verdicts = judge(app, &groups, &Force::None);
    let shut = shut_of(&groups, &verdicts);
    if !shut.is_empty() {
        drop_plan(app, &frozen, "redrive blocked for some letters").await?;
        return Err(NotRedriven::Shut(first(shut)));
    }
    let planned = judged(app, id, verdicts, "{}".to_owned()).await?;
    let (count, at) = (super::goes(&planned), app.clock.now());
    let launch = Launch { count, options, break_glass: None, by, at };
    let redrive = launched(id, count, app.store.launch_redrive(id, launch).await?)?;
    if count > limits::OJS_BULK_MAX {
        return Ok(redrive);
    }
    // Jobs are put back by the store: nothing is sent, so nothing is left in doubt if the caller goes away.
    drive(app, id).await?;
    Ok(app.store.redrive(id).await?.unwrap_or(redrive))
}

fn first(mut shut: Vec<ShutIncident>) -> Vec<ShutIncident> {
    shut.truncate(limits::OJS_INCIDENTS_NAMED);
    shut
}

/// Letters of a redrive that have left the dead letter by it.
pub(crate) fn put_back(redrive: &Redrive) -> u64 {
    let of = |outcome: &Outcome| redrive.letters.get(outcome).copied().unwrap_or(0);
    Outcome::ALL.iter().filter(|outcome| has_left(**outcome)).map(of).sum()
}

/// Whether a letter of this outcome has left the dead letter.
pub(crate) fn has_left(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Out
        | Outcome::Sent
        | Outcome::Unknown
        | Outcome::Succeeded
        | Outcome::Assumed
        | Outcome::Ended
        | Outcome::Relapsed => true,
        Outcome::Waiting | Outcome::Failed | Outcome::Skipped | Outcome::LaneBlocked | Outcome::Cancelled => {
            false
        }
    }
}
