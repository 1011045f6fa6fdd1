//! Forgets jobs that ended and are not in the dead letter. Never touches a letter: those have a retention of their own.

use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_store::StoreError;

use super::workers;
use crate::app::App;
use crate::operations::Progress;

/// Forgets one batch of the jobs that ended long enough ago, and the workers that are long gone.
pub async fn prune(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let (now, kept) = (app.clock.now(), &app.config.jobs);
    let before = [
        (JobState::Completed, kept.keep_completed_ms),
        (JobState::Cancelled, kept.keep_cancelled_ms),
        (JobState::Discarded, kept.keep_discarded_ms),
    ]
    .map(|(state, kept_ms)| (state, now.plus_ms(-kept_ms)));
    let pruned = app.store.prune_jobs(before, limits::JOBS_PRUNED_PER_WRITE).await?;
    // Fewer than asked for may only mean that they were large.
    if pruned > 0 {
        return Ok(Progress::More);
    }
    workers::forget(app).await
}
