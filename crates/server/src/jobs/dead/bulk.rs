//! Putting back or deleting all that match: a frozen list, worked off within the call.

use std::collections::BTreeSet;

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::{Refused, Standing, Status};
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::decision::{Decision, Expected, OperationState, Skipped, Verb};
use lazaret_store::page::{PageQuery, Total};

use super::{letters, needs_analysis};
use crate::app::App;
use crate::jobs::NotDone;
use crate::operations;

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
    #[error("more than {} jobs match, and one call is for at most that many", limits::OJS_BULK_MAX)]
    TooMany,
    #[error("{matched} jobs match, not {expected}; nothing was done")]
    CountMismatch { matched: u64, expected: u64 },
    #[error(transparent)]
    NotDone(#[from] NotDone),
}

impl From<StoreError> for BulkRefused {
    fn from(error: StoreError) -> BulkRefused {
        BulkRefused::NotDone(error.into())
    }
}

/// Decides on all that match, if they are as many as expected or, where that is not said, not too many.
pub async fn all(
    app: &App,
    decision: Decision,
    wanted: &Filter,
    expected: Option<u64>,
) -> Result<Bulk, BulkRefused> {
    let filter = letters(wanted);
    if decision.verb == Verb::Retry && needs_analysis(app) {
        return Err(NotDone::RcaRequired(incidents(app, filter).await?).into());
    }
    let expected = match expected {
        Some(number) if number > limits::OJS_BULK_MAX => return Err(BulkRefused::TooMany),
        Some(number) => Expected::Exactly(number),
        None => Expected::AtMost(limits::OJS_BULK_MAX),
    };
    let verb = decision.verb;
    let operation = operations::decide(app, decision, filter.clone(), expected).await?;
    if operation.state == OperationState::Refused {
        return Err(match expected {
            Expected::AtMost(_) => BulkRefused::TooMany,
            Expected::Exactly(expected) => {
                let (Total::Exact(matched) | Total::AtLeast(matched)) =
                    app.store.count(filter, operation.opened_at).await?;
                BulkRefused::CountMismatch { matched, expected }
            }
        });
    }
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

/// The first incidents that the letters belong to.
async fn incidents(app: &App, filter: Filter) -> Result<Vec<IncidentId>, StoreError> {
    let page = PageQuery {
        filter,
        now: app.clock.now(),
        sort: Sort::default(),
        limit: limits::OJS_PAGE_ROWS_MAX,
        after: None,
        scan_max: PageQuery::SCAN_MAX,
    };
    let mut seen = BTreeSet::new();
    let letters = app.store.list(page).await?.letters.into_iter();
    let first = letters.map(|letter| letter.incident).filter(|incident| seen.insert(*incident));
    Ok(first.take(limits::OJS_INCIDENTS_NAMED).collect())
}
