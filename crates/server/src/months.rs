//! Taking away what a store keeps for months that hold no letter any more.

use lazaret_core::limits;
use lazaret_store::StoreError;

use crate::app::App;
use crate::operations::Progress;

/// Takes away what the store keeps for months that are over and hold no letter any more.
pub async fn drop_empty(app: &App) -> Result<Progress, StoreError> {
    if app.store.lead().await? {
        let dropped =
            app.store.drop_empty_months(app.clock.now().plus_ms(-limits::EMPTY_MONTH_KEPT_MS)).await?;
        if dropped > 0 {
            tracing::info!(dropped, "{dropped} months without letters were taken away");
        }
    }
    Ok(Progress::Idle)
}
