//! Fills the body index behind capture: a body index in the transaction that stores a letter would slow capture tenfold.

use lazaret_core::limits;
use lazaret_store::StoreError;

use crate::app::App;
use crate::operations::Progress;

/// Puts the next lives into the body index, if there is to be one.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.config.search.bodies || !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    // Asked first, because the question costs no write and there is mostly nothing to do.
    if app.store.body_index().await?.behind == 0 {
        return Ok(Progress::Idle);
    }
    match app.store.index_bodies(limits::INDEX_LIVES_PER_BATCH).await?.behind {
        0 => Ok(Progress::Idle),
        1.. => Ok(Progress::More),
    }
}

/// Brings copies that people see who ask the database themselves into their present form, after an upgrade.
pub async fn refill_extracts(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? || !app.store.refill_extracts(limits::INDEX_LIVES_PER_BATCH).await? {
        return Ok(Progress::Idle);
    }
    Ok(Progress::More)
}
