//! A job of the Open Job Specification: what it is, and how it changes.
//!
//! Values in, values out: times, ids and random numbers are passed in, and every change asks the machine in `state`
//! first. Arguments, results and everything else that belongs to the application are carried as the JSON text they
//! came in and are never interpreted.

pub mod enqueue;
pub mod failure;
mod field;
pub mod json;
pub mod letter;
pub mod policy;
pub mod problem;
mod raw;
pub mod reenqueue;
pub mod state;
mod transitions;
pub mod worker;

use crate::id::JobId;
use crate::time::Time;

use enqueue::NewJob;
use failure::{Failure, Fate};
use policy::JobRetry;
use state::{Beginning, JobState};
pub use transitions::{NotHolder, NotRetried};

/// The source of all letters of jobs.
pub const SOURCE: &str = "jobs";

/// One job. Texts that hold JSON are valid and verbatim.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    pub id: JobId,
    pub job_type: String,
    pub queue: String,
    /// JSON text of an array.
    pub args: String,
    /// JSON text of an object.
    pub meta: String,
    pub schema: Option<String>,
    pub priority: i32,
    /// How long a run may take.
    pub timeout_ms: u64,
    /// How long a worker holds it without a sign of life, unless the fetch says otherwise.
    pub visibility_ms: u64,
    pub scheduled_at: Option<Time>,
    pub expires_at: Option<Time>,
    pub retry: JobRetry,
    /// Where it ends when it is out of attempts.
    pub fate: Fate,
    /// JSON text of an object.
    pub unique: Option<String>,
    pub tags: Vec<String>,
    /// Fields that we have no name for, in their order, as JSON texts.
    pub extra: Vec<(String, String)>,

    pub state: JobState,
    /// Whether its end is a dead letter; only a discarded job's is.
    pub in_dead_letter: bool,
    /// Runs since it was enqueued or taken out of the dead letter.
    pub attempt: u32,
    pub created_at: Time,
    /// When it last became available, or was told to wait: its place in the queue.
    pub enqueued_at: Time,
    pub started_at: Option<Time>,
    pub completed_at: Option<Time>,
    pub cancelled_at: Option<Time>,
    pub discarded_at: Option<Time>,
    pub activated_at: Option<Time>,
    /// When it last left the dead letter.
    pub re_enqueued_at: Option<Time>,
    /// When a retryable job is due.
    pub next_attempt_at: Option<Time>,
    /// The last delay that was decided on.
    pub retry_delay_ms: Option<u64>,
    /// Every failed run, oldest first, over all its lives.
    pub errors: Vec<JobError>,
    /// JSON text of what the worker answered.
    pub result: Option<String>,
    /// The reservation of an active job.
    pub held: Option<Held>,
}

/// A worker's hold on an active job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub worker: Option<String>,
    /// Each heartbeat prolongs it by this.
    pub visibility_ms: u64,
    /// Without a sign of life the job goes back then.
    pub until: Time,
    /// The run has failed then, signs of life or not.
    pub timeout_at: Time,
}

/// One failed run of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobError {
    pub attempt: u32,
    pub error_type: String,
    pub code: Option<String>,
    pub message: String,
    pub occurred_at: Time,
    pub retryable: Option<bool>,
    /// JSON text.
    pub details: Option<String>,
    /// One frame per line.
    pub backtrace: Option<String>,
    /// JSON text of an object with the fields that we have no name for.
    pub extra: Option<String>,
}

impl JobError {
    pub fn of(failure: Failure, attempt: u32, at: Time) -> JobError {
        JobError {
            attempt,
            error_type: failure.error_type,
            code: failure.code,
            message: failure.message,
            occurred_at: at,
            retryable: failure.retryable,
            details: failure.details,
            backtrace: failure.backtrace,
            extra: failure.extra,
        }
    }

    /// Whether no worker reported it: its reservation or its time limit ran out, or its worker fell silent.
    pub fn is_by_clock(&self) -> bool {
        self.code.as_deref() == Some(self.error_type.as_str())
            && failure::BY_CLOCK.contains(&self.error_type.as_str())
            && self.backtrace.is_none()
    }
}

impl Job {
    /// A job begins. `minted` is its id unless the client chose one.
    pub fn enqueued(new: NewJob, minted: JobId, now: Time) -> Job {
        let scheduled_at = new.scheduled_at.map(|moment| moment.from(now));
        let beginning = match scheduled_at {
            _ if new.parked => Beginning::Parked,
            Some(time) if time > now => Beginning::Later,
            Some(_) | None => Beginning::Now,
        };
        Job {
            id: new.id.unwrap_or(minted),
            job_type: new.job_type,
            queue: new.queue,
            args: new.args,
            meta: new.meta,
            schema: new.schema,
            priority: new.priority,
            timeout_ms: new.timeout_ms,
            visibility_ms: new.visibility_ms,
            scheduled_at,
            expires_at: new.expires_at.map(|moment| moment.from(now)),
            retry: new.retry,
            fate: Fate::ByPolicy,
            unique: new.unique,
            tags: new.tags,
            extra: new.extra,
            state: JobState::first(beginning),
            in_dead_letter: false,
            attempt: 0,
            created_at: now,
            enqueued_at: now,
            started_at: None,
            completed_at: None,
            cancelled_at: None,
            discarded_at: None,
            activated_at: None,
            re_enqueued_at: None,
            next_attempt_at: None,
            retry_delay_ms: None,
            errors: Vec::new(),
            result: None,
            held: None,
        }
    }

    /// The most recent error; a completed job has none, whatever it went through.
    pub fn error(&self) -> Option<&JobError> {
        match self.state {
            JobState::Completed => None,
            JobState::Scheduled
            | JobState::Available
            | JobState::Pending
            | JobState::Active
            | JobState::Retryable
            | JobState::Cancelled
            | JobState::Discarded => self.errors.last(),
        }
    }

    /// Whether its deadline has passed, so that it must not be run any more.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|deadline| deadline <= now)
    }

    /// A text in `meta`, such as `tenant_id`; numbers are taken as they are written.
    pub fn meta_text(&self, name: &str) -> Option<String> {
        let fields = raw::Fields::read(&self.meta).ok()?;
        let json = fields.get(name)?;
        match raw::kind(json) {
            "a string" => raw::text(json),
            "a number" => Some(json.to_owned()),
            _ => None,
        }
    }
}
