//! Workers: they say that they are alive and learn what they are wished to do; one that falls silent loses its jobs.

use futures_util::{StreamExt, TryStreamExt, stream};
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::enqueue::job_id;
use lazaret_core::job::failure::Failure;
use lazaret_core::job::worker::Heartbeat;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::job::{JobEvent, LetterEffect, StoredJob};
use lazaret_store::worker::{Beat, Wish};

use super::{NotDone, Step, change, check_holder, event, fail, refusal, write};
use crate::app::App;
use crate::operations::Progress;

/// What a heartbeat is answered with.
#[derive(Clone, PartialEq, Debug)]
pub struct Alive {
    pub wish: Wish,
    /// The jobs whose reservations were prolonged.
    pub extended: Vec<Job>,
}

/// Notes that a worker is alive and prolongs the reservations of the jobs that it names and holds, in their order. The
/// others have gone elsewhere, which the worker learns from their absence.
pub async fn heartbeat(app: &App, beat: &Heartbeat) -> Result<Alive, NotDone> {
    // Before the jobs: until this is written the worker may count as dead.
    let wish = app.store.beat(known(beat), app.clock.now()).await?;
    let ids: Vec<JobId> = beat.job_ids.iter().filter_map(|text| job_id(text)).collect();
    let each = ids.into_iter().map(|id| extend(app, beat, id));
    let extended = stream::iter(each).buffered(limits::JOB_CHANGES_AT_ONCE);
    let extended = extended.try_filter_map(|job| std::future::ready(Ok(job))).try_collect().await?;
    Ok(Alive { wish, extended })
}

fn known(beat: &Heartbeat) -> Beat {
    let about = beat.about.clone();
    Beat {
        worker: beat.worker_id.clone(),
        hostname: about.hostname,
        pid: about.pid,
        queues: about.queues,
        concurrency: about.concurrency,
        started_at: about.started_at,
        said: about.said,
    }
}

/// Prolongs one reservation; nothing comes back if there is none to be prolonged.
async fn extend(app: &App, beat: &Heartbeat, id: JobId) -> Result<Option<Job>, NotDone> {
    let extended = change(app, id, |job, now| {
        check_holder(&job, Some(&beat.worker_id))?;
        let after = job.extended(now, beat.visibility_ms).map_err(refusal(id))?;
        let events = vec![event::heartbeat(&after)];
        Ok(Step { after, letter: LetterEffect::None, events, by: None, began_at: None })
    });
    match extended.await {
        Ok(moved) => Ok(Some(moved.job)),
        Err(NotDone::Store(error)) => Err(NotDone::Store(error)),
        Err(
            NotDone::Unknown(_)
            | NotDone::Archived { .. }
            | NotDone::State { .. }
            | NotDone::NotHolder { .. }
            | NotDone::Duplicate(_)
            | NotDone::NotDead(_)
            | NotDone::Held(_)
            | NotDone::Shut(_)
            | NotDone::Problem(_)
            | NotDone::Letter(_)
            | NotDone::Contended(_),
        ) => Ok(None),
    }
}

/// Takes the jobs from workers that sent heartbeats and fell silent. They are available again at once, or at their end
/// if this was their last attempt. A job that cannot be moved holds up no other.
pub(super) async fn bury(app: &App, now: Time) -> Result<Progress, StoreError> {
    // While nobody listened nobody was heard, and whoever worked on meanwhile works still: another run beside it would
    // be the second. After a start all have as much time as ever.
    if now.since(app.metrics.started_at()) <= limits::WORKER_SILENT_MS {
        return Ok(Progress::Idle);
    }
    let before = now.plus_ms(-limits::WORKER_SILENT_MS);
    let dead = app.store.silent_workers(before, limits::WORKERS_DEAD_PER_TICK).await?;
    let (mut failed, mut more) = (None, false);
    for worker in dead {
        let held = app.store.jobs_held_by(worker.clone(), limits::JOBS_DUE_PER_TICK).await?;
        let full = held.len() == limits::JOBS_DUE_PER_TICK;
        // Told with the first job, so that it is told once.
        let mut news = vec![event::worker_stopped(&worker)];
        let mut taken = 0;
        for job in held.into_iter().filter(|held| held.job.is_abandoned_since(before)) {
            match take_back(app, &worker, job, &news, now).await {
                Ok(true) => {
                    taken += 1;
                    news.clear();
                }
                // Another change came first: the worker lives, or somebody else has the job.
                Ok(false) => {}
                Err(NotDone::Store(error)) => failed = Some(error),
                Err(other) => {
                    failed = Some(StoreError::Corrupt(format!("a dead worker's job stays: {other}")));
                }
            }
        }
        if taken > 0 {
            tracing::warn!(
                worker = worker.as_str(),
                taken,
                "worker heartbeat timed out; its jobs were released"
            );
        }
        more |= full && taken > 0;
    }
    match failed {
        Some(error) => Err(error),
        None if more => Ok(Progress::More),
        None => Ok(Progress::Idle),
    }
}

/// Takes one job from a dead worker; false if another change came first.
async fn take_back(
    app: &App,
    worker: &str,
    StoredJob { job, version }: StoredJob,
    news: &[JobEvent],
    now: Time,
) -> Result<bool, NotDone> {
    let id = job.id;
    let mut step = fail(app, job, Failure::worker_death(worker), now)?;
    step.events.extend_from_slice(news);
    Ok(write(app, (id, version), step, now).await?.is_some())
}

/// Forgets one batch of workers that are long gone.
pub(super) async fn forget(app: &App) -> Result<Progress, StoreError> {
    let before = app.clock.now().plus_ms(-limits::WORKER_KEEP_MS);
    let max = limits::WORKERS_FORGOTTEN_PER_WRITE;
    let forgotten = app.store.forget_workers(before, max).await?;
    Ok(if forgotten >= max as u64 { Progress::More } else { Progress::Idle })
}
