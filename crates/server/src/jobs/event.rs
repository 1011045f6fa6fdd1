//! The events that tell of jobs. Never carries arguments or results: events go to every reader.

use lazaret_core::job::Job;
use lazaret_core::job::failure::Verdict;
use lazaret_core::limits;
use lazaret_core::redaction::untorn;
use lazaret_core::time::Time;
use lazaret_store::job::JobEvent;
use serde_json::{Map, Value, json};

pub(super) fn enqueued(job: &Job) -> JobEvent {
    let mut data = base(job);
    data.insert("priority".into(), job.priority.into());
    if let Some(time) = job.scheduled_at {
        data.insert("scheduled_at".into(), time.to_string().into());
    }
    told("job.enqueued", data)
}

pub(super) fn completed(job: &Job, now: Time) -> JobEvent {
    let mut data = base(job);
    data.insert("attempt".into(), job.attempt.into());
    data.insert("duration_ms".into(), duration_ms(job.started_at, now).into());
    told("job.completed", data)
}

pub(super) fn cancelled(job: &Job, by: &str) -> JobEvent {
    let mut data = base(job);
    data.insert("cancelled_by".into(), by.into());
    told("job.cancelled", data)
}

pub(super) fn heartbeat(job: &Job) -> JobEvent {
    let mut data = base(job);
    data.insert("attempt".into(), job.attempt.into());
    if let Some(held) = &job.held {
        data.insert("worker_id".into(), held.worker.clone().into());
        data.insert("visible_until".into(), held.until.to_string().into());
    }
    told("job.heartbeat", data)
}

/// A worker is dead; told with the first job that is taken from it.
pub(super) fn worker_stopped(worker: &str) -> JobEvent {
    let mut data = Map::new();
    data.insert("worker_id".into(), worker.into());
    data.insert("reason".into(), "silent".into());
    told("worker.stopped", data)
}

/// What became of a job whose run failed; nothing if it was only given back.
pub(super) fn failed(job: &Job, verdict: Verdict, started_at: Option<Time>, now: Time) -> Vec<JobEvent> {
    let mut failure = base(job);
    failure.insert("attempt".into(), job.attempt.into());
    failure.insert("duration_ms".into(), duration_ms(started_at, now).into());
    failure.insert("error".into(), last_error(job));
    let failure = told("job.failed", failure);
    match verdict {
        Verdict::Requeue => Vec::new(),
        Verdict::Return => vec![failure],
        Verdict::Retry { .. } => vec![failure, retrying(job)],
        Verdict::Discard | Verdict::DeadLetter => vec![failure, discarded(job)],
    }
}

/// A job whose deadline passed before it ran.
pub(super) fn expired(job: &Job) -> JobEvent {
    let mut data = base(job);
    data.insert("total_attempts".into(), job.attempt.into());
    data.insert("last_error".into(), last_error(job));
    data.insert("reason".into(), "expired".into());
    told("job.discarded", data)
}

fn retrying(job: &Job) -> JobEvent {
    let mut data = base(job);
    data.insert("attempt".into(), job.attempt.into());
    data.insert("max_attempts".into(), job.retry.max_attempts.into());
    data.insert("next_retry_at".into(), job.next_attempt_at.map(|time| time.to_string()).into());
    data.insert("error".into(), last_error(job));
    told("job.retrying", data)
}

fn discarded(job: &Job) -> JobEvent {
    let mut data = base(job);
    data.insert("total_attempts".into(), job.attempt.into());
    data.insert("last_error".into(), last_error(job));
    told("job.discarded", data)
}

fn base(job: &Job) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("job_type".into(), job.job_type.clone().into());
    data.insert("queue".into(), job.queue.clone().into());
    data
}

fn told(kind: &'static str, data: Map<String, Value>) -> JobEvent {
    JobEvent { kind, data: Value::Object(data).to_string() }
}

fn last_error(job: &Job) -> Value {
    let Some(error) = job.errors.last() else { return Value::Null };
    let message = match error.message.char_indices().nth(limits::JOB_EVENT_MESSAGE_CHARS) {
        // What is masked later is known by its end, too.
        Some((end, _)) => format!("{}…", untorn(&error.message[..end])),
        None => error.message.clone(),
    };
    let code = error.code.as_ref().unwrap_or(&error.error_type);
    json!({
        "code": code,
        "type": error.error_type,
        "message": message,
        "retryable": error.retryable.unwrap_or(true),
    })
}

fn duration_ms(started_at: Option<Time>, now: Time) -> i64 {
    started_at.map_or(0, |started| now.since(started).max(0))
}
