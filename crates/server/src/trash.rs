//! Dropping the content of deleted letters when it need not be kept any longer.

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
