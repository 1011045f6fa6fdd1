//! What a request or a tick does to a job: read it, ask the pure transition, write the result, and again if another
//! change came first.
//!
//! Decides nothing about states, and knows no HTTP. A job and its letter change in one commit or not at all.

pub mod dead;
mod due;
pub mod ended;
mod ends;
mod event;
pub mod workers;

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::enqueue::{NewJob, job_id};
use lazaret_core::job::failure::{Failure, Nack, Verdict};
use lazaret_core::job::letter::letter_key;
use lazaret_core::job::problem::JobProblem;
use lazaret_core::job::state::{JobRefused, JobState};
use lazaret_core::job::worker::{Ack, FetchRequest};
use lazaret_core::job::{Job, NotHolder};
use lazaret_core::letter::{Admitted, admit};
use lazaret_core::lifecycle::{Place, Refused};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::archive::ArchiveQuery;
use lazaret_store::audit::Actor;
use lazaret_store::job::{ByHand, Changed, JobChange, JobEvent, LetterEffect, StoredJob};

use crate::app::App;
use crate::metrics::JobRun;
use crate::raw_json::shown;
use crate::redrive::ShutIncident;

pub use due::{tick, until_due};
pub use ends::{End, end_all};
pub use lazaret_store::job::SOURCE;

/// Why a job was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    #[error("job {0} not found")]
    Unknown(String),
    #[error("job {job}: {refused}")]
    State { job: JobId, refused: JobRefused },
    #[error("job {job}: {cause}")]
    NotHolder {
        job: JobId,
        #[source]
        cause: NotHolder,
    },
    /// Its dead letter was pushed out by a limit, and the job with it.
    #[error("job {job} not found: its dead letter {letter} is archived")]
    Archived { job: JobId, letter: LetterId },
    #[error("id {0} is in use by a job or its dead letter")]
    Duplicate(JobId),
    #[error("job {0} is not in the dead letter")]
    NotDead(String),
    #[error("job {0} is held: release the hold before removing its dead letter")]
    Held(JobId),
    /// The gate is shut for these incidents.
    #[error("{}", shut_text(.0))]
    Shut(Vec<ShutIncident>),
    #[error(transparent)]
    Problem(#[from] JobProblem),
    /// The job's letter stands in the way.
    #[error(transparent)]
    Letter(#[from] Refused),
    #[error("too many concurrent changes of job {0}")]
    Contended(JobId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn shut_text(incidents: &[ShutIncident]) -> String {
    match incidents.first() {
        Some(first) => format!("redrive blocked: {}", first.shut),
        None => "redrive blocked".to_owned(),
    }
}

/// A job before and after a change.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    pub previous: JobState,
    pub job: Job,
}

/// A change that is about to be written.
struct Step {
    after: Job,
    letter: LetterEffect,
    events: Vec<JobEvent>,
    by: Option<ByHand>,
    /// When the run began that ends with it.
    began_at: Option<Time>,
}

/// Reads an id as clients write it; what cannot be one belongs to no job.
pub fn read_id(text: &str) -> Result<JobId, NotDone> {
    job_id(text).ok_or_else(|| NotDone::Unknown(shown(text)))
}

/// Stores new jobs, all of them or none.
pub async fn enqueue(app: &App, new: Vec<NewJob>) -> Result<Vec<Job>, NotDone> {
    let now = app.clock.now();
    let mut jobs = Vec::with_capacity(new.len());
    for one in new {
        jobs.push(Job::enqueued(one, JobId::mint(now, app.entropy.take()?), now));
    }
    let told = jobs.iter().map(|job| (job.clone(), vec![event::enqueued(job)])).collect();
    app.store.enqueue_jobs(told, now).await?.map_err(NotDone::Duplicate)?;
    jobs.iter().for_each(|job| app.metrics.job_enqueued(job));
    Ok(jobs)
}

/// One job, from its row or made again from its letter.
pub async fn find(app: &App, id: JobId) -> Result<Job, NotDone> {
    if let Some(stored) = app.store.job(id).await? {
        return Ok(stored.job);
    }
    match dead::from_letter(app, id).await? {
        Some(job) => Ok(job),
        None => Err(no_job(app, id).await?),
    }
}

/// Why there is no job of this id: it never was, or its letter is archived.
async fn no_job(app: &App, id: JobId) -> Result<NotDone, StoreError> {
    let (source, event_id) = (Patterns::only(SOURCE), Patterns::only(&id.to_string()));
    let filter = Filter { source, event_id, ..Filter::default() };
    let (place, now) = (Some(Place::Archived), app.clock.now());
    let page = app.store.archived(ArchiveQuery { filter, place, now, before: None, limit: 1 }).await?;
    Ok(match page.letters.first() {
        Some(archived) => NotDone::Archived { job: id, letter: archived.letter.id },
        None => NotDone::Unknown(id.to_string()),
    })
}

pub async fn fetch(app: &App, request: FetchRequest) -> Result<Vec<Job>, NotDone> {
    let FetchRequest { queues, count, worker_id, visibility_ms } = request;
    let worker = worker_id.unwrap_or_default();
    let jobs = app.store.fetch_jobs(queues, count, worker, visibility_ms, app.clock.now()).await?;
    jobs.iter().for_each(|job| app.metrics.job_fetched(job));
    Ok(jobs)
}

pub async fn ack(app: &App, ack: &Ack) -> Result<Moved, NotDone> {
    change(app, read_id(&ack.job_id)?, |job, now| acked(job, ack, now)).await
}

pub async fn nack(app: &App, nack: &Nack) -> Result<Moved, NotDone> {
    change(app, read_id(&nack.job_id)?, |job, now| nacked(app, job, nack, now)).await
}

/// The work is done.
fn acked(job: Job, ack: &Ack, now: Time) -> Result<Step, NotDone> {
    check_holder(&job, ack.worker_id.as_deref())?;
    let letter = match job.in_dead_letter {
        true => LetterEffect::SettleElsewhere { evidence: "acked" },
        false => LetterEffect::Confirm { evidence: "acked" },
    };
    let id = job.id;
    let after = job.acked(ack.result.clone(), now).map_err(refusal(id))?;
    let (events, began_at) = (vec![event::completed(&after, now)], after.started_at);
    Ok(Step { after, letter, events, by: None, began_at })
}

/// The worker says that the run failed, or gives the job back.
fn nacked(app: &App, job: Job, nack: &Nack, now: Time) -> Result<Step, NotDone> {
    check_holder(&job, nack.worker_id.as_deref())?;
    fail(app, job, nack.failure.clone(), now)
}

/// Cancels a job that has not ended.
pub async fn cancel(app: &App, id: JobId, by: &Actor) -> Result<Moved, NotDone> {
    change(app, id, |job, now| {
        let after = job.cancelled(now).map_err(refusal(id))?;
        let events = vec![event::cancelled(&after, &by.name)];
        let by = Some(by_hand(by, "job_cancelled"));
        Ok(Step { after, letter: LetterEffect::End { evidence: "cancelled" }, events, by, began_at: None })
    })
    .await
}

/// Lets a parked job run.
pub async fn activate(app: &App, id: JobId, by: &Actor) -> Result<Moved, NotDone> {
    change(app, id, |job, now| {
        let after = job.activated(now).map_err(refusal(id))?;
        let by = Some(by_hand(by, "job_activated"));
        Ok(Step { after, letter: LetterEffect::None, events: Vec::new(), by, began_at: None })
    })
    .await
}

fn by_hand(actor: &Actor, action: &'static str) -> ByHand {
    ByHand { actor: actor.clone(), action, reason: None }
}

fn check_holder(job: &Job, worker: Option<&str>) -> Result<(), NotDone> {
    job.check_holder(worker).map_err(|cause| NotDone::NotHolder { job: job.id, cause })
}

fn refusal(job: JobId) -> impl Fn(JobRefused) -> NotDone {
    move |refused| NotDone::State { job, refused }
}

/// Changes a job as `step` says, which is asked anew whenever another change came first.
async fn change(
    app: &App,
    id: JobId,
    step: impl Fn(Job, Time) -> Result<Step, NotDone>,
) -> Result<Moved, NotDone> {
    // Who was handed the job mostly says next how it ended. That it was handed out is no reason to refuse anything.
    if let Some(StoredJob { job, version }) = app.store.handed_job(id) {
        let (now, previous) = (app.clock.now(), job.state);
        if let Ok(step) = step(job, now)
            && let Some(job) = write(app, (id, version), step, now).await?
        {
            return Ok(Moved { previous, job });
        }
    }
    for _ in 0..limits::JOB_CHANGE_TRIES_MAX {
        let Some(StoredJob { job, version }) = app.store.job(id).await? else {
            return Err(NotDone::Unknown(id.to_string()));
        };
        let (now, previous) = (app.clock.now(), job.state);
        let step = step(job, now)?;
        if let Some(job) = write(app, (id, version), step, now).await? {
            return Ok(Moved { previous, job });
        }
    }
    Err(NotDone::Contended(id))
}

/// Writes a change, unless the job is not as it was read any more.
async fn write(app: &App, before: (JobId, u64), step: Step, at: Time) -> Result<Option<Job>, NotDone> {
    let (change, written) = Written::begin(before, step, at);
    let changed = app.store.change_job(change).await?;
    written.end(app, changed)
}

/// What is told of a change once it is committed.
struct Written {
    job: Job,
    dies: bool,
    runs: Vec<JobRun>,
}

impl Written {
    fn begin(before: (JobId, u64), step: Step, at: Time) -> (JobChange, Written) {
        let Step { after, letter, events, by, began_at } = step;
        let runs = JobRun::all_of(&events, event::duration_ms(began_at, at));
        let written = Written { job: after.clone(), dies: matches!(letter, LetterEffect::Die(_)), runs };
        (JobChange { before, after, letter, events, by, at }, written)
    }

    /// The job as it is now; nothing if another change came first.
    fn end(self, app: &App, changed: Changed) -> Result<Option<Job>, NotDone> {
        let Written { job, dies, runs } = self;
        match changed {
            Changed::Done => {
                app.metrics.job_changed(&job, &runs);
                // No death is silent (RULE-040-060).
                if dies {
                    let (id, queue) = (job.id, &job.queue);
                    tracing::info!(job.id = %id, queue, source = SOURCE, "job {id} of queue {queue} is a dead letter");
                }
                Ok(Some(job))
            }
            Changed::Stale => Ok(None),
            Changed::Refused(refused) => Err(refused.into()),
            Changed::Shut(shut, incident) => {
                Err(NotDone::Shut(vec![ShutIncident { incident, shut, letters: 1 }]))
            }
        }
    }
}

/// A run failed: what becomes of the job, and of its letter.
fn fail(app: &App, job: Job, failure: Failure, now: Time) -> Result<Step, NotDone> {
    let verdict = job.verdict(&failure, unit(app)?);
    let (id, began_at) = (job.id, job.started_at);
    let after = job.failed(failure, verdict, now).map_err(refusal(id))?;
    let letter = match verdict {
        Verdict::Requeue | Verdict::Return | Verdict::Retry { .. } => LetterEffect::None,
        Verdict::Discard => LetterEffect::End { evidence: "dropped" },
        Verdict::DeadLetter => LetterEffect::Die(Box::new(admitted(app, &after, now)?)),
    };
    let events = event::failed(&after, verdict, began_at, now);
    Ok(Step { after, letter, events, by: None, began_at })
}

/// The job as the letter that it becomes, by the same rules as everything that is captured.
fn admitted(app: &App, job: &Job, now: Time) -> Result<Admitted, StoreError> {
    let random = [app.entropy.take()?, app.entropy.take()?];
    let letter = admit(job.to_captured(SOURCE, None), now, random, &app.rules, &app.groups());
    // A job is found by its id alone, whatever tenant its letter belongs to.
    Ok(Admitted { key: letter_key(SOURCE, &job.id.to_string()), ..letter })
}

/// A random number from 0 to 1, for delays.
fn unit(app: &App) -> Result<f64, StoreError> {
    let bits = u64::from_be_bytes(app.entropy.take()?) >> 11;
    Ok(bits as f64 / (1_u64 << 53) as f64)
}
