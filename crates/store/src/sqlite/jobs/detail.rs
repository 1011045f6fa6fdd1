//! What of a job is not in columns of its own, as the JSON text that is packed beside them.
//!
//! What the application wrote stays text in it: never taken apart, never written anew.

use std::borrow::Cow;

use lazaret_core::job::failure::Fate;
use lazaret_core::job::{Job, JobError};
use lazaret_core::time::Time;
use serde::{Deserialize, Serialize};

/// What of a job is not in columns of its own. Times are in milliseconds.
#[derive(Serialize, Deserialize)]
pub(super) struct Detail<'a> {
    #[serde(rename = "type")]
    pub job_type: Cow<'a, str>,
    pub args: Cow<'a, str>,
    pub meta: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Cow<'a, str>>,
    pub timeout_ms: u64,
    pub visibility_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    pub retry: Cow<'a, str>,
    /// It was in the dead letter before and returns there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub tags: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub extra: Cow<'a, [(String, String)]>,
    pub created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activated_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub re_enqueued_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorDetail<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ErrorDetail<'a> {
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

impl<'a> Detail<'a> {
    pub fn of(job: &'a Job) -> Detail<'a> {
        let ms = |time: Option<Time>| time.map(Time::ms);
        Detail {
            job_type: Cow::Borrowed(&job.job_type),
            args: Cow::Borrowed(&job.args),
            meta: Cow::Borrowed(&job.meta),
            schema: borrowed(&job.schema),
            timeout_ms: job.timeout_ms,
            visibility_ms: job.visibility_ms,
            scheduled_at: ms(job.scheduled_at),
            expires_at: ms(job.expires_at),
            retry: Cow::Owned(job.retry.to_json()),
            returns: match job.fate {
                Fate::ByPolicy => false,
                Fate::DeadLetter => true,
            },
            unique: borrowed(&job.unique),
            tags: Cow::Borrowed(&job.tags),
            extra: Cow::Borrowed(&job.extra),
            created_at: job.created_at.ms(),
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

pub(super) fn open_error(detail: ErrorDetail<'_>) -> JobError {
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

pub(super) fn owned(text: Option<Cow<'_, str>>) -> Option<String> {
    text.map(Cow::into_owned)
}
