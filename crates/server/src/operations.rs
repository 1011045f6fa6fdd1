//! Decisions by filter: a list is frozen, its count compared with what was expected, then worked off.

use lazaret_core::filter::Filter;
use lazaret_core::id::OperationId;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::decision::{Decision, Expected, NewOperation, Operation, OperationState};

use crate::app::App;
use crate::config::REQUEST_MS_CEILING;

/// Nobody freezes an operation any more that was opened so long ago: no request lasts longer, whatever an instance's
/// configuration says, and clocks may be a little apart.
const ABANDONED_AFTER_MS: i64 = REQUEST_MS_CEILING.cast_signed() + 60_000;

/// What a tick got done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There may be more: call again.
    More,
    Idle,
}

/// Freezes the letters that match and works them off, within the call if they are few enough.
///
/// A caller that goes away leaves a frozen operation to `tick`; one that was still freezing decides nothing.
pub async fn decide(
    app: &App,
    decision: Decision,
    filter: Filter,
    expected: Expected,
) -> Result<Operation, StoreError> {
    let id = OperationId::mint(decision.at, app.entropy.take()?);
    app.store.open_operation(NewOperation { id, decision, filter, expected }).await?;
    let mut operation = app.store.freeze(id).await?;
    while operation.state == OperationState::Freezing {
        operation = app.store.freeze(id).await?;
    }
    if operation.total <= limits::DECISION_ROWS_INLINE_MAX {
        while operation.state == OperationState::Working {
            operation = app.store.work(id, app.clock.now()).await?;
        }
    }
    Ok(operation)
}

/// Works one chunk of the oldest operation that has letters left.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let Some(id) = app.store.working_operations(1).await?.into_iter().next() else {
        return Ok(Progress::Idle);
    };
    app.store.work(id, app.clock.now()).await?;
    Ok(Progress::More)
}

/// Ends operations and plans that were still being frozen when their caller went away, or the instance that served it.
pub async fn end_abandoned(app: &App) -> Result<Progress, StoreError> {
    if app.store.lead().await? {
        let ended = app.store.drop_unfrozen(app.clock.now().plus_ms(-ABANDONED_AFTER_MS)).await?;
        if ended > 0 {
            tracing::warn!(
                ended,
                "{ended} operations and plans were ended whose callers went away before they were frozen"
            );
        }
    }
    Ok(Progress::Idle)
}
