//! Dropping what need not be kept any longer: the content of deleted letters, and what is kept for months without letters.

use lazaret_core::limits;
use lazaret_store::StoreError;

use crate::app::App;
use crate::operations::Progress;

/// Drops one batch.
pub async fn empty(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let limit = limits::TRASH_EMPTIED_PER_WRITE;
    let dropped = app.store.empty_trash(app.clock.now(), limit).await?;
    // Fewer than asked for may only mean that they were large.
    Ok(if dropped > 0 { Progress::More } else { Progress::Idle })
}

/// Takes away what the store keeps for months that are over and hold no letter any more.
pub async fn drop_empty_months(app: &App) -> Result<Progress, StoreError> {
    if app.store.lead().await? {
        let dropped =
            app.store.drop_empty_months(app.clock.now().plus_ms(-limits::EMPTY_MONTH_KEPT_MS)).await?;
        if dropped > 0 {
            tracing::info!(dropped, "{dropped} months without letters were taken away");
        }
    }
    Ok(Progress::Idle)
}
