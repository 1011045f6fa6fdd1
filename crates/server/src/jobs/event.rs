//! The events that tell of jobs. Never carries arguments or results: events go to every reader.

use std::borrow::Cow;

use lazaret_core::job::Job;
use lazaret_core::job::failure::Verdict;
use lazaret_core::job::json::ObjectText;
use lazaret_core::limits;
use lazaret_core::redaction::untorn;
use lazaret_core::time::Time;
use lazaret_store::job::JobEvent;

pub(super) fn enqueued(job: &Job) -> JobEvent {
    told("job.enqueued", |data| {
        base(data, job);
        data.number("priority", job.priority);
        data.time("scheduled_at", job.scheduled_at);
    })
}

pub(super) fn completed(job: &Job, now: Time) -> JobEvent {
    told("job.completed", |data| {
        base(data, job);
        data.number("attempt", job.attempt);
        data.number("duration_ms", duration_ms(job.started_at, now));
    })
}

pub(super) fn cancelled(job: &Job, by: &str) -> JobEvent {
    told("job.cancelled", |data| {
        base(data, job);
        data.text("cancelled_by", by);
    })
}

pub(super) fn heartbeat(job: &Job) -> JobEvent {
    told("job.heartbeat", |data| {
        base(data, job);
        data.number("attempt", job.attempt);
        if let Some(held) = &job.held {
            match &held.worker {
                Some(worker) => data.text("worker_id", worker),
                None => data.raw("worker_id", "null"),
            }
            data.shown("visible_until", held.until);
        }
    })
}

/// A worker is dead; told with the first job that is taken from it.
pub(super) fn worker_stopped(worker: &str) -> JobEvent {
    told("worker.stopped", |data| {
        data.text("worker_id", worker);
        data.text("reason", "silent");
    })
}

/// What became of a job whose run failed; nothing if it was only given back.
pub(super) fn failed(job: &Job, verdict: Verdict, started_at: Option<Time>, now: Time) -> Vec<JobEvent> {
    let failure = || {
        told("job.failed", |data| {
            base(data, job);
            data.number("attempt", job.attempt);
            data.number("duration_ms", duration_ms(started_at, now));
            last_error(data, "error", job);
        })
    };
    match verdict {
        Verdict::Requeue => Vec::new(),
        Verdict::Return => vec![failure()],
        Verdict::Retry { .. } => vec![failure(), retrying(job)],
        Verdict::Discard | Verdict::DeadLetter => vec![failure(), discarded(job)],
    }
}

/// A job whose deadline passed before it ran.
pub(super) fn expired(job: &Job) -> JobEvent {
    told("job.discarded", |data| {
        base(data, job);
        data.number("total_attempts", job.attempt);
        last_error(data, "last_error", job);
        data.text("reason", "expired");
    })
}

fn retrying(job: &Job) -> JobEvent {
    told("job.retrying", |data| {
        base(data, job);
        data.number("attempt", job.attempt);
        data.number("max_attempts", job.retry.max_attempts);
        match job.next_attempt_at {
            Some(time) => data.shown("next_retry_at", time),
            None => data.raw("next_retry_at", "null"),
        }
        last_error(data, "error", job);
    })
}

fn discarded(job: &Job) -> JobEvent {
    told("job.discarded", |data| {
        base(data, job);
        data.number("total_attempts", job.attempt);
        last_error(data, "last_error", job);
    })
}

fn base(data: &mut ObjectText, job: &Job) {
    data.text("job_type", &job.job_type);
    data.text("queue", &job.queue);
}

fn told(kind: &'static str, fill: impl FnOnce(&mut ObjectText)) -> JobEvent {
    let mut data = ObjectText::new();
    fill(&mut data);
    JobEvent { kind, data: data.end() }
}

fn last_error(data: &mut ObjectText, name: &str, job: &Job) {
    let Some(error) = job.errors.last() else { return data.raw(name, "null") };
    let message = match error.message.char_indices().nth(limits::JOB_EVENT_MESSAGE_CHARS) {
        // What is masked later is known by its end, too.
        Some((end, _)) => Cow::Owned(format!("{}…", untorn(&error.message[..end]))),
        None => Cow::Borrowed(error.message.as_str()),
    };
    data.object(name, |data| {
        data.text("code", error.code.as_ref().unwrap_or(&error.error_type));
        data.text("type", &error.error_type);
        data.text("message", &message);
        data.raw("retryable", if error.retryable.unwrap_or(true) { "true" } else { "false" });
    });
}

/// How long a run took.
pub(super) fn duration_ms(started_at: Option<Time>, now: Time) -> u64 {
    started_at.map_or(0, |started| now.since(started).max(0).unsigned_abs())
}
