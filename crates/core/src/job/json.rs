//! The job as JSON, exactly as clients of the specification read it.
//!
//! What is absent is absent and never `null`; what belongs to the application stands there byte for byte; a field of
//! the client's never takes the place of one of ours.

use crate::limits;

use super::enqueue::is_ours;
use super::raw::{self, Fields};
use super::{Job, JobError};

pub use super::raw::ObjectText;

/// The whole job.
pub fn job_json(job: &Job) -> String {
    job_json_with(job, &[])
}

/// The whole job with fields added at its end, as names and JSON texts: `previous_state` on a cancel, `job` where a
/// client wants the job both ways.
pub fn job_json_with(job: &Job, added: &[(&str, &str)]) -> String {
    let added_bytes: usize = added.iter().map(|(name, json)| name.len() + json.len() + 4).sum();
    let mut object = ObjectText::onto(String::with_capacity(job_bytes(job) + added_bytes));
    job_fields(&mut object, job);
    for (name, json) in added {
        object.raw(name, json);
    }
    object.end()
}

/// The whole job behind a text, such as an answer that is being written.
pub fn job_onto(text: String, job: &Job) -> String {
    raw::object_onto(text, |object| job_fields(object, job))
}

/// About as many bytes as the JSON text of a job has.
pub fn job_bytes(job: &Job) -> usize {
    let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let errors: usize =
        job.errors.iter().map(|error| 256 + error.message.len() + of(&error.backtrace) * 5 / 4).sum();
    1_024 + job.args.len() + job.meta.len() + of(&job.result) + 2 * errors
}

/// Adds all fields of a job to an object.
pub fn job_fields(object: &mut ObjectText, job: &Job) {
    object.text("specversion", "1.0");
    object.shown("id", job.id);
    object.text("type", &job.job_type);
    object.text("queue", &job.queue);
    object.raw("args", &job.args);
    object.raw("meta", &job.meta);
    object.number("priority", job.priority);
    object.number("timeout_ms", job.timeout_ms);
    object.number("visibility_timeout_ms", job.visibility_ms);
    object.object("retry", |object| job.retry.add_to(object));
    if let Some(schema) = &job.schema {
        object.text("schema", schema);
    }
    if let Some(unique) = &job.unique {
        object.raw("unique", unique);
    }
    if !job.tags.is_empty() {
        object.texts("tags", job.tags.iter().map(String::as_str));
    }
    object.time("scheduled_at", job.scheduled_at);
    object.time("expires_at", job.expires_at);
    object.text("state", job.state.name());
    object.number("attempt", job.attempt);
    object.number("max_attempts", job.retry.max_attempts);
    times(object, job);
    object.time("next_attempt_at", job.next_attempt_at);
    // The two documents have a name each for it.
    object.time("next_retry_at", job.next_attempt_at);
    if let Some(delay_ms) = job.retry_delay_ms {
        object.number("retry_delay_ms", delay_ms);
    }
    if let Some(error) = job.error() {
        object.object("error", |object| error_fields(object, error));
    }
    if !job.errors.is_empty() {
        object.list("errors", &job.errors, |text, error| {
            raw::object_onto(text, |object| error_fields(object, error))
        });
    }
    if let Some(result) = &job.result {
        object.raw("result", result);
    }
    object.object("metadata", |metadata| times(metadata, job));
    for (name, json) in job.extra.iter().filter(|(name, _)| !is_ours(name)) {
        object.raw(name, json);
    }
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
fn error_fields(object: &mut ObjectText, error: &JobError) {
    object.number("attempt", error.attempt);
    object.text("type", &error.error_type);
    if let Some(code) = &error.code {
        object.text("code", code);
    }
    object.text("message", &error.message);
    object.shown("occurred_at", error.occurred_at);
    if let Some(retryable) = error.retryable {
        object.raw("retryable", if retryable { "true" } else { "false" });
    }
    if let Some(details) = &error.details {
        object.raw("details", details);
    }
    if let Some(backtrace) = &error.backtrace {
        object.texts("backtrace", shown_frames(backtrace));
    }
    let extra = error.extra.as_deref().and_then(|text| Fields::read(text).ok()).unwrap_or_default();
    for (name, json) in extra.iter().filter(|(name, _)| !ERROR_FIELDS.contains(name)) {
        object.raw(name, json);
    }
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
        // No text has more characters than bytes.
        let fits = frame.len() <= left;
        let end =
            if fits { None } else { frame.char_indices().nth(left) }.map_or(frame.len(), |(end, _)| end);
        left = left.saturating_sub(frame[..end].chars().count().max(1));
        Some(&frame[..end])
    })
}

#[cfg(test)]
mod tests;
