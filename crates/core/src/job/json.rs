//! The job as JSON, exactly as clients of the specification read it.
//!
//! What is absent is absent and never `null`; what belongs to the application stands there byte for byte; a field of
//! the client's never takes the place of one of ours.

use crate::limits;

use super::enqueue::is_ours;
use super::raw::{self, Fields, ObjectText};
use super::{Job, JobError};

/// The whole job.
pub fn job_json(job: &Job) -> String {
    job_json_with(job, &[])
}

/// The whole job with fields added at its end, as names and JSON texts: `previous_state` on a cancel, `job` where a
/// client wants the job both ways.
pub fn job_json_with(job: &Job, added: &[(&str, &str)]) -> String {
    let mut object = ObjectText::new();
    object.text("specversion", "1.0");
    object.text("id", &job.id.to_string());
    object.text("type", &job.job_type);
    object.text("queue", &job.queue);
    object.raw("args", &job.args);
    object.raw("meta", &job.meta);
    object.number("priority", job.priority);
    object.number("timeout_ms", job.timeout_ms);
    object.number("visibility_timeout_ms", job.visibility_ms);
    object.raw("retry", &job.retry.to_json());
    if let Some(schema) = &job.schema {
        object.text("schema", schema);
    }
    if let Some(unique) = &job.unique {
        object.raw("unique", unique);
    }
    if !job.tags.is_empty() {
        object.raw("tags", &raw::list(job.tags.iter().map(|tag| raw::quoted(tag))));
    }
    object.time("scheduled_at", job.scheduled_at);
    object.time("expires_at", job.expires_at);
    object.text("state", job.state.name());
    object.number("attempt", job.attempt);
    object.number("max_attempts", job.retry.max_attempts);
    times(&mut object, job);
    object.time("next_attempt_at", job.next_attempt_at);
    // The two documents have a name each for it.
    object.time("next_retry_at", job.next_attempt_at);
    if let Some(delay_ms) = job.retry_delay_ms {
        object.number("retry_delay_ms", delay_ms);
    }
    if let Some(error) = job.error() {
        object.raw("error", &error_json(error));
    }
    if !job.errors.is_empty() {
        object.raw("errors", &raw::list(job.errors.iter().map(error_json)));
    }
    if let Some(result) = &job.result {
        object.raw("result", result);
    }
    let mut metadata = ObjectText::new();
    times(&mut metadata, job);
    object.raw("metadata", &metadata.end());
    for (name, json) in job.extra.iter().filter(|(name, _)| !is_ours(name)) {
        object.raw(name, json);
    }
    for (name, json) in added {
        object.raw(name, json);
    }
    object.end()
}

fn times(object: &mut ObjectText, job: &Job) {
    object.time("created_at", Some(job.created_at));
    object.time("enqueued_at", Some(job.enqueued_at));
    object.time("activated_at", job.activated_at);
    object.time("started_at", job.started_at);
    object.time("completed_at", job.completed_at);
    object.time("cancelled_at", job.cancelled_at);
    object.time("discarded_at", job.discarded_at);
    object.time("re_enqueued_at", job.re_enqueued_at);
}

/// One error, as it stands in `error` and in `errors`. Its backtrace is cut here; the job keeps it whole.
pub fn error_json(error: &JobError) -> String {
    let mut object = ObjectText::new();
    object.number("attempt", error.attempt);
    object.text("type", &error.error_type);
    if let Some(code) = &error.code {
        object.text("code", code);
    }
    object.text("message", &error.message);
    object.text("occurred_at", &error.occurred_at.to_string());
    if let Some(retryable) = error.retryable {
        object.raw("retryable", if retryable { "true" } else { "false" });
    }
    if let Some(details) = &error.details {
        object.raw("details", details);
    }
    if let Some(backtrace) = &error.backtrace {
        object.raw("backtrace", &raw::list(shown_frames(backtrace).map(raw::quoted)));
    }
    let extra = error.extra.as_deref().and_then(|text| Fields::read(text).ok()).unwrap_or_default();
    for (name, json) in extra.iter().filter(|(name, _)| !ERROR_FIELDS.contains(name)) {
        object.raw(name, json);
    }
    object.end()
}

/// Names of ours in an error.
const ERROR_FIELDS: [&str; 8] =
    ["attempt", "type", "code", "message", "occurred_at", "retryable", "details", "backtrace"];

/// As many frames from the beginning as the specification lets pass; the last one may be cut.
fn shown_frames(backtrace: &str) -> impl Iterator<Item = &str> {
    let mut left = limits::JOB_BACKTRACE_CHARS_SHOWN;
    backtrace.lines().take(limits::JOB_BACKTRACE_FRAMES_SHOWN).map_while(move |frame| {
        if left == 0 {
            return None;
        }
        let end = frame.char_indices().nth(left).map_or(frame.len(), |(end, _)| end);
        left = left.saturating_sub(frame[..end].chars().count().max(1));
        Some(&frame[..end])
    })
}

#[cfg(test)]
mod tests;
