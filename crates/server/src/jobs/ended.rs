//! Forgets jobs that ended and are not in the dead letter. Never touches a letter: those have a retention of their own.

use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_store::StoreError;

use crate::app::App;
use crate::operations::Progress;

/// Forgets one batch of the jobs that ended long enough ago.
pub async fn prune(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let now = app.clock.now();
    let before = [
        (JobState::Completed, limits::JOB_KEEP_COMPLETED_MS),
        (JobState::Cancelled, limits::JOB_KEEP_CANCELLED_MS),
        (JobState::Discarded, limits::JOB_KEEP_DISCARDED_MS),
    ]
    .map(|(state, kept_ms)| (state, now.plus_ms(-kept_ms)));
    let pruned = app.store.prune_jobs(before, limits::JOBS_PRUNED_PER_WRITE).await?;
    Ok(if pruned >= limits::JOBS_PRUNED_PER_WRITE as u64 { Progress::More } else { Progress::Idle })
}
