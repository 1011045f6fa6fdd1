//! Putting back or deleting all that match: a frozen list, worked off within the call.

use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::{Refused, Standing, Status};
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::decision::{Decision, Expected, Operation, OperationState, Skipped, Verb};
use lazaret_store::page::Total;
use lazaret_store::redrive::Redrive;

use super::letters;
use crate::app::App;
use crate::config::Governance;
use crate::jobs::NotDone;
use crate::operations;
use crate::redrive::{self, Many, NotRedriven};

/// What was done to many.
#[derive(Debug, Default)]
pub struct Bulk {
    pub matched: u64,
    pub succeeded: u64,
    /// Left because a hold is on them.
    pub held: u64,
    /// Left for another reason.
    pub failed: u64,
    /// The first that were left: job, if it is known, letter, and why.
    pub left: Vec<(Option<String>, String, String)>,
}

/// Why nothing was done to any.
#[derive(Debug, thiserror::Error)]
pub enum BulkRefused {
    #[error("more than {} jobs match, the maximum per call", limits::OJS_BULK_MAX)]
    TooMany,
    #[error("{matched} jobs match, expected {expected}; nothing was changed")]
    CountMismatch { matched: u64, expected: u64 },
    #[error(transparent)]
    NotDone(#[from] NotDone),
}

impl From<StoreError> for BulkRefused {
    fn from(error: StoreError) -> BulkRefused {
        BulkRefused::NotDone(error.into())
    }
}

/// What became of a call for many.
#[derive(Debug)]
pub enum All {
    Done(Bulk),
    /// More than one call decides on: they go back one after the other by this redrive.
    Redriven(Box<Redrive>),
}

/// Decides on all that match, if they are as many as expected or, where that is not said, not too many. A retry of more
/// than one call decides on is a redrive, as is every retry where an analysis is required.
pub async fn all(
    app: &App,
    decision: Decision,
    wanted: &Filter,
    expected: Option<u64>,
) -> Result<All, BulkRefused> {
    let filter = letters(wanted);
    let redrives = match decision.verb {
        Verb::Retry => expected.is_some_and(|number| number > limits::OJS_BULK_MAX) || governed(app),
        Verb::Resolve
        | Verb::Discard
        | Verb::Reopen
        | Verb::Hold
        | Verb::Release
        | Verb::Delete
        | Verb::Restore => false,
    };
    if redrives {
        return redrive(app, decision, filter, expected).await;
    }
    let counted = match expected {
        Some(number) if number > limits::OJS_BULK_MAX => return Err(BulkRefused::TooMany),
        Some(number) => Expected::Exactly(number),
        None => Expected::AtMost(limits::OJS_BULK_MAX),
    };
    let verb = decision.verb;
    let operation = operations::decide(app, decision.clone(), filter.clone(), counted).await?;
    if operation.state == OperationState::Refused {
        return match (counted, verb) {
            (Expected::AtMost(_), Verb::Retry) => redrive(app, decision, filter, None).await,
            (Expected::AtMost(_), _) => Err(BulkRefused::TooMany),
            (Expected::Exactly(expected), _) => {
                let (Total::Exact(matched) | Total::AtLeast(matched)) =
                    app.store.count(filter, operation.opened_at).await?;
                Err(BulkRefused::CountMismatch { matched, expected })
            }
        };
    }
    bulk_of(app, verb, &operation).await.map(All::Done)
}

fn governed(app: &App) -> bool {
    match app.config.jobs.governance {
        Governance::Optional => false,
        Governance::Required => true,
    }
}

/// Puts all that match back by a redrive: within the call, if they are few enough.
async fn redrive(
    app: &App,
    decision: Decision,
    filter: Filter,
    expected: Option<u64>,
) -> Result<All, BulkRefused> {
    let many = Many { filter, expected, reason: decision.reason, by: decision.actor };
    let redrive = redrive::put_back_many(app, many).await.map_err(|error| match error {
        NotRedriven::CountMismatch { count, expected } => {
            BulkRefused::CountMismatch { matched: count, expected }
        }
        NotRedriven::Shut(shut) => NotDone::Shut(shut).into(),
        NotRedriven::Store(error) => error.into(),
        NotRedriven::TooLarge(_) => BulkRefused::TooMany,
        // What else can be wrong with a redrive is for people to say, and they said nothing here.
        other => NotDone::Store(StoreError::Corrupt(other.to_string())).into(),
    })?;
    if redrive.total > limits::OJS_BULK_MAX {
        return Ok(All::Redriven(Box::new(redrive)));
    }
    let succeeded = redrive::put_back(&redrive);
    let failed = redrive.total.saturating_sub(succeeded);
    let mut done = Bulk { matched: redrive.total, succeeded, failed, ..Bulk::default() };
    if failed > 0 {
        let rows = app.store.redrive_letters(redrive.id, None, 0, limits::OJS_BULK_MAX as usize).await?;
        let left = rows.into_iter().filter(|row| !redrive::has_left(row.outcome));
        for row in left.take(limits::OJS_BULK_ERRORS_SHOWN) {
            let job = app.store.history(row.letter).await?.map(|history| history.letter.event_id);
            let why = row
                .evidence
                .unwrap_or_else(|| "blocked by an earlier job with the same order key".to_owned());
            done.left.push((job, row.letter.to_string(), why));
        }
    }
    Ok(All::Done(done))
}

/// What an operation came to.
async fn bulk_of(app: &App, verb: Verb, operation: &Operation) -> Result<Bulk, BulkRefused> {
    let mut done = Bulk { matched: operation.total, succeeded: operation.done, ..Bulk::default() };
    if operation.skipped > 0 {
        let skipped = app.store.skipped(operation.id, limits::OJS_BULK_MAX as usize).await?;
        let for_hold = reason_of_hold(verb);
        done.held = skipped.iter().filter(|left| left.reason == for_hold).count() as u64;
        done.failed = operation.skipped.saturating_sub(done.held);
        for Skipped { letter, reason } in skipped.into_iter().take(limits::OJS_BULK_ERRORS_SHOWN) {
            let job = app.store.history(letter).await?.map(|history| history.letter.event_id);
            done.left.push((job, letter.to_string(), reason));
        }
    }
    Ok(done)
}

/// What is noted of a letter that was left because a hold is on it.
fn reason_of_hold(verb: Verb) -> String {
    let standing = Standing { held: true, ..Standing::live(Status::Pending) };
    Refused { action: verb.action(), standing }.to_string()
}
