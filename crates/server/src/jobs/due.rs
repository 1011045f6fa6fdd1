//! What the clock does to jobs: promotes them, takes them back from silent workers, ends runs that take too long.

use std::time::Duration;

use lazaret_core::job::failure::Failure;
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::job::{LetterEffect, StoredJob};

use super::{NotDone, Step, event, fail, refusal, workers, write};
use crate::app::App;
use crate::operations::Progress;

/// The shortest wait: a job that is due and cannot be moved must not keep a loop busy.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// Works off jobs whose time has come, oldest first, and those of dead workers. One that cannot be moved holds up no other.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let now = app.clock.now();
    // First: what a dead worker held has mostly run out as well, and its death is the better reason.
    let dead = workers::bury(app, now).await?;
    let due = app.store.due_jobs(now, limits::JOBS_DUE_PER_TICK).await?;
    let full = due.len() == limits::JOBS_DUE_PER_TICK;
    let (mut failed, mut moved) = (None, 0);
    for StoredJob { job, version } in due {
        let id = job.id;
        let written = match step(app, job, now) {
            Ok(Some(step)) => write(app, (id, version), step, now).await,
            Ok(None) => Ok(None),
            Err(refused) => Err(refused),
        };
        match written {
            Ok(Some(_)) => moved += 1,
            // Another change came first: it is found again if it is still due.
            Ok(None) => {}
            Err(NotDone::Store(error)) => failed = Some(error),
            Err(other) => failed = Some(StoreError::Corrupt(format!("job {id} is due and stays: {other}"))),
        }
    }
    match failed {
        Some(error) => Err(error),
        None if full && moved > 0 => Ok(Progress::More),
        None => Ok(dead),
    }
}

/// How long nothing will be due, as far as it is known now. The death of a worker is not: it is found when the loop looks
/// in any case.
pub async fn until_due(app: &App) -> Result<Option<Duration>, StoreError> {
    let Some(due) = app.store.next_due().await? else { return Ok(None) };
    let ms = u64::try_from(due.since(app.clock.now())).unwrap_or(0);
    Ok(Some(Duration::from_millis(ms).max(WAIT_MIN)))
}

/// What the clock wants done to this job; nothing if another moment has come meanwhile.
fn step(app: &App, job: Job, now: Time) -> Result<Option<Step>, NotDone> {
    let id = job.id;
    let passed = |moment: Option<Time>| moment.is_some_and(|moment| moment <= now);
    match job.state {
        JobState::Scheduled | JobState::Retryable if passed(job.due_at()) => {
            let after = job.promoted(now).map_err(refusal(id))?;
            Ok(Some(Step { after, letter: LetterEffect::None, events: Vec::new(), by: None, began_at: None }))
        }
        JobState::Available if job.is_expired(now) => {
            let after = job.expired(now).map_err(refusal(id))?;
            let events = vec![event::expired(&after)];
            Ok(Some(Step {
                after,
                letter: LetterEffect::End { evidence: "expired" },
                events,
                by: None,
                began_at: None,
            }))
        }
        JobState::Active => match over(&job, now) {
            Some(failure) => fail(app, job, failure, now).map(Some),
            None => Ok(None),
        },
        JobState::Scheduled
        | JobState::Retryable
        | JobState::Available
        | JobState::Pending
        | JobState::Completed
        | JobState::Cancelled
        | JobState::Discarded => Ok(None),
    }
}

/// Why a run is over by the clock. Of two limits that have passed, the earlier one ended it.
fn over(job: &Job, now: Time) -> Option<Failure> {
    let Held { visibility_ms, until, timeout_at, .. } = job.held.as_ref()?;
    if *timeout_at <= now && timeout_at <= until {
        let elapsed_ms = job.started_at.map_or(job.timeout_ms, |at| now.since(at).unsigned_abs());
        return Some(Failure::timeout(job.timeout_ms, elapsed_ms));
    }
    (*until <= now).then(|| Failure::reservation_expired(*visibility_ms))
}
