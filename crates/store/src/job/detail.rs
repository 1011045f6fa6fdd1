//! A job as rows keep it: what is not in columns of its own is JSON text that is packed beside them.
//!
//! The text has two parts: what the job was enqueued with, which hardly ever changes, and its course so far. The embedded
//! store keeps them apart, so that a run that ends does not write the arguments again; one text may hold both. What the
//! application wrote stays text in it: never taken apart, never written anew.

use std::borrow::Cow;

use lazaret_core::id::JobId;
use lazaret_core::job::failure::Fate;
use lazaret_core::job::policy::{JobRetry, RetryPatch};
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job, JobError};
use lazaret_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::packing::{self, json, pack_lightly, unpack};

/// What of a job is read from columns of its own.
pub(crate) struct Columns {
    pub id: JobId,
    pub queue: String,
    pub state: JobState,
    pub priority: i32,
    pub attempt: u32,
    pub enqueued_at: Time,
    pub started_at: Option<Time>,
    pub held: Option<Held>,
    pub in_dead_letter: bool,
}

/// Packs what has no column as one text.
pub(crate) fn pack(job: &Job) -> Result<Vec<u8>, StoreError> {
    Ok(pack_lightly(joined(&json(&Request::of(job))?, &json(&Course::of(job))?).as_bytes()))
}

/// Packs what the job was enqueued with.
pub(crate) fn pack_request(job: &Job) -> Result<Vec<u8>, StoreError> {
    Ok(pack_lightly(json(&Request::of(job))?.as_bytes()))
}

/// Packs what became of the job so far. Failures repeat themselves, and are not read by who fetches the job.
pub(crate) fn pack_course(job: &Job) -> Result<Vec<u8>, StoreError> {
    Ok(packing::pack(json(&Course::of(job))?.as_bytes()))
}

/// Both parts as one packed text.
pub(crate) fn join(request: &[u8], course: &[u8]) -> Result<Vec<u8>, StoreError> {
    let text = |packed: &[u8]| {
        let broken = |_| StoreError::Corrupt("a job's text is not UTF-8".into());
        String::from_utf8(unpack(packed)?).map_err(broken)
    };
    Ok(pack_lightly(joined(&text(request)?, &text(course)?).as_bytes()))
}

/// Two JSON objects as one; the first one is not empty.
fn joined(one: &str, other: &str) -> String {
    match (one.strip_suffix('}'), other.strip_prefix('{')) {
        (Some(one), Some(other)) if other != "}" => format!("{one},{other}"),
        _ => one.to_owned(),
    }
}

/// The job that was packed, with what stands in columns now. Without a request of its own the course holds both.
pub(crate) fn open(columns: Columns, request: Option<&[u8]>, course: &[u8]) -> Result<Job, StoreError> {
    let id = columns.id;
    let broken = |why: String| StoreError::Corrupt(format!("job {id} cannot be read: {why}"));
    let course = unpack(course)?;
    let request = request.map(unpack).transpose()?;
    let detail: Request<'_> = serde_json::from_slice(request.as_deref().unwrap_or(&course))
        .map_err(|error| broken(error.to_string()))?;
    let course: Course<'_> = serde_json::from_slice(&course).map_err(|error| broken(error.to_string()))?;
    let retry = RetryPatch::read(&detail.retry, "retry").map_err(|problem| broken(problem.message))?;
    Ok(Job {
        id,
        job_type: detail.job_type.into_owned(),
        queue: columns.queue,
        args: detail.args.into_owned(),
        meta: detail.meta.into_owned(),
        schema: owned(detail.schema),
        priority: columns.priority,
        timeout_ms: detail.timeout_ms,
        visibility_ms: detail.visibility_ms,
        scheduled_at: moment(detail.scheduled_at),
        expires_at: moment(detail.expires_at),
        retry: retry.over(&JobRetry::default()),
        fate: if course.returns { Fate::DeadLetter } else { Fate::ByPolicy },
        unique: owned(detail.unique),
        tags: detail.tags.into_owned(),
        extra: detail.extra.into_owned(),
        state: columns.state,
        in_dead_letter: columns.in_dead_letter,
        attempt: columns.attempt,
        created_at: Time::from_ms(detail.created_at),
        enqueued_at: columns.enqueued_at,
        started_at: columns.started_at,
        completed_at: moment(course.completed_at),
        cancelled_at: moment(course.cancelled_at),
        discarded_at: moment(course.discarded_at),
        activated_at: moment(course.activated_at),
        re_enqueued_at: moment(course.re_enqueued_at),
        next_attempt_at: moment(course.next_attempt_at),
        retry_delay_ms: course.retry_delay_ms,
        errors: course.errors.into_iter().map(open_error).collect(),
        result: owned(course.result),
        held: columns.held,
    })
}

fn moment(ms: Option<i64>) -> Option<Time> {
    ms.map(Time::from_ms)
}

/// When the clock has something to do with a job; one that waits for a worker can still expire.
pub(crate) fn due_at(job: &Job) -> Option<Time> {
    match job.state {
        JobState::Available => job.expires_at,
        JobState::Scheduled
        | JobState::Pending
        | JobState::Active
        | JobState::Completed
        | JobState::Retryable
        | JobState::Cancelled
        | JobState::Discarded => job.due_at(),
    }
}

/// When a job ended; one that has ended without a time of it counts from when it was last enqueued.
pub(crate) fn ended_at(job: &Job) -> Option<Time> {
    let ended = match job.state {
        JobState::Completed => job.completed_at,
        JobState::Cancelled => job.cancelled_at,
        JobState::Discarded => job.discarded_at,
        JobState::Scheduled
        | JobState::Available
        | JobState::Pending
        | JobState::Active
        | JobState::Retryable => return None,
    };
    Some(ended.unwrap_or(job.enqueued_at))
}

/// What a job was enqueued with, as far as it is not in columns of its own. Times are in milliseconds.
#[derive(Serialize, Deserialize)]
struct Request<'a> {
    #[serde(rename = "type")]
    job_type: Cow<'a, str>,
    args: Cow<'a, str>,
    meta: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Cow<'a, str>>,
    timeout_ms: u64,
    visibility_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    retry: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    tags: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    extra: Cow<'a, [(String, String)]>,
    created_at: i64,
}

/// What became of a job so far, as far as it is not in columns of its own. Times are in milliseconds.
#[derive(Serialize, Deserialize)]
struct Course<'a> {
    /// It was in the dead letter before and returns there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    returns: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discarded_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    activated_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    re_enqueued_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ErrorDetail<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
struct ErrorDetail<'a> {
    attempt: u32,
    #[serde(rename = "type")]
    error_type: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'a, str>>,
    message: Cow<'a, str>,
    occurred_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backtrace: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra: Option<Cow<'a, str>>,
}

fn borrowed(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(Cow::Borrowed)
}

impl<'a> Request<'a> {
    fn of(job: &'a Job) -> Request<'a> {
        let ms = |time: Option<Time>| time.map(Time::ms);
        Request {
            job_type: Cow::Borrowed(&job.job_type),
            args: Cow::Borrowed(&job.args),
            meta: Cow::Borrowed(&job.meta),
            schema: borrowed(&job.schema),
            timeout_ms: job.timeout_ms,
            visibility_ms: job.visibility_ms,
            scheduled_at: ms(job.scheduled_at),
            expires_at: ms(job.expires_at),
            retry: Cow::Owned(job.retry.to_json()),
            unique: borrowed(&job.unique),
            tags: Cow::Borrowed(&job.tags),
            extra: Cow::Borrowed(&job.extra),
            created_at: job.created_at.ms(),
        }
    }
}

impl<'a> Course<'a> {
    fn of(job: &'a Job) -> Course<'a> {
        let ms = |time: Option<Time>| time.map(Time::ms);
        Course {
            returns: match job.fate {
                Fate::ByPolicy => false,
                Fate::DeadLetter => true,
            },
            completed_at: ms(job.completed_at),
            cancelled_at: ms(job.cancelled_at),
            discarded_at: ms(job.discarded_at),
            activated_at: ms(job.activated_at),
            re_enqueued_at: ms(job.re_enqueued_at),
            next_attempt_at: ms(job.next_attempt_at),
            retry_delay_ms: job.retry_delay_ms,
            errors: job.errors.iter().map(error_detail).collect(),
            result: borrowed(&job.result),
        }
    }
}

fn error_detail(error: &JobError) -> ErrorDetail<'_> {
    ErrorDetail {
        attempt: error.attempt,
        error_type: Cow::Borrowed(&error.error_type),
        code: borrowed(&error.code),
        message: Cow::Borrowed(&error.message),
        occurred_at: error.occurred_at.ms(),
        retryable: error.retryable,
        details: borrowed(&error.details),
        backtrace: borrowed(&error.backtrace),
        extra: borrowed(&error.extra),
    }
}

fn open_error(detail: ErrorDetail<'_>) -> JobError {
    JobError {
        attempt: detail.attempt,
        error_type: detail.error_type.into_owned(),
        code: owned(detail.code),
        message: detail.message.into_owned(),
        occurred_at: Time::from_ms(detail.occurred_at),
        retryable: detail.retryable,
        details: owned(detail.details),
        backtrace: owned(detail.backtrace),
        extra: owned(detail.extra),
    }
}

fn owned(text: Option<Cow<'_, str>>) -> Option<String> {
    text.map(Cow::into_owned)
}
