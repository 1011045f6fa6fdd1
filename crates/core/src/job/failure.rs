//! How a run ended badly, as a worker tells it or as we find out, and what is to become of the job.
//!
//! A failure is evidence: apart from having no `error` object at all, nothing about its shape is a reason to refuse it.
//! What cannot be understood is kept beside what can, and is not obeyed.

use crate::fingerprint::error_type;
use crate::letter::cut;
use crate::limits;
use crate::surrogates;

use super::field::string;
use super::policy::{JobRetry, OnExhaustion};
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields, ObjectText};
use super::state::JobAction;
use super::worker::{open_request, read_job_id};

/// One failed run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub cause: Cause,
    /// What the handler wants done, if it says.
    pub wish: Option<Wish>,
    pub error_type: String,
    pub code: Option<String>,
    pub message: String,
    pub retryable: Option<bool>,
    /// JSON text of the error's details, verbatim.
    pub details: Option<String>,
    /// One frame per line.
    pub backtrace: Option<String>,
    /// JSON text of an object with the fields that we have no name for, verbatim.
    pub extra: Option<String>,
}

/// Who found out, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The worker reported an error.
    Reported,
    /// The worker gave the job back; nothing failed.
    Requeued,
    /// It ran longer than it may.
    Timeout,
    /// The worker gave no sign of life for the job.
    ReservationExpired,
    /// The worker gave no sign of life at all.
    WorkerDeath,
}

/// The handler's own decision, which stands where an error's code would.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wish {
    Retry,
    Discard,
    DeadLetter,
    Fail,
}

impl Wish {
    pub const ALL: [Wish; 4] = [Wish::Retry, Wish::Discard, Wish::DeadLetter, Wish::Fail];

    pub const fn name(self) -> &'static str {
        match self {
            Wish::Retry => "RETRY",
            Wish::Discard => "DISCARD",
            Wish::DeadLetter => "DEAD_LETTER",
            Wish::Fail => "FAIL",
        }
    }

    pub fn parse(text: &str) -> Option<Wish> {
        Wish::ALL.into_iter().find(|wish| wish.name() == text)
    }
}

/// Where a job ends that is out of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// Where its policy says.
    ByPolicy,
    /// It was in the dead letter before and returns there, whatever its policy says.
    DeadLetter,
}

/// What is to become of a job whose run has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Available at once; nothing failed and nothing is recorded.
    Requeue,
    /// Available at once; the failure is recorded.
    Return,
    Retry {
        delay_ms: u64,
    },
    Discard,
    DeadLetter,
}

impl Verdict {
    /// The move that it is.
    pub const fn action(self) -> JobAction {
        match self {
            Verdict::Requeue => JobAction::Requeue,
            Verdict::Return => JobAction::ReservationExpired,
            Verdict::Retry { .. } => JobAction::Retry,
            Verdict::Discard => JobAction::Discard,
            Verdict::DeadLetter => JobAction::DeadLetter,
        }
    }
}

/// Decides about a job whose run number `attempt` has failed. `unit` is a random number from 0 to 1.
pub fn decide(failure: &Failure, attempt: u32, policy: &JobRetry, fate: Fate, unit: f64) -> Verdict {
    if failure.cause == Cause::Requeued {
        return Verdict::Requeue;
    }
    let forced = match failure.wish {
        Some(Wish::Discard | Wish::Fail) => return Verdict::Discard,
        Some(Wish::DeadLetter) => return Verdict::DeadLetter,
        Some(Wish::Retry) => true,
        None => false,
    };
    let hopeless = failure.retryable == Some(false) || policy.is_non_retryable(&failure.error_type);
    if (hopeless && !forced) || policy.is_exhausted_by(attempt) {
        return match (policy.on_exhaustion, fate) {
            (OnExhaustion::DeadLetter, _) | (OnExhaustion::Discard, Fate::DeadLetter) => Verdict::DeadLetter,
            (OnExhaustion::Discard, Fate::ByPolicy) => Verdict::Discard,
        };
    }
    match failure.cause {
        // Nothing is known to have failed but the worker, so there is nothing to wait for.
        Cause::ReservationExpired | Cause::WorkerDeath => Verdict::Return,
        Cause::Reported | Cause::Timeout | Cause::Requeued => {
            Verdict::Retry { delay_ms: policy.delay_ms(attempt, unit) }
        }
    }
}

const TIMEOUT: &str = "timeout";
const VISIBILITY_TIMEOUT: &str = "visibility_timeout";
const WORKER_DEATH: &str = "worker_death";

/// Types of failures that no worker reported.
pub(super) const BY_CLOCK: [&str; 3] = [TIMEOUT, VISIBILITY_TIMEOUT, WORKER_DEATH];

impl Failure {
    /// A run that took longer than it may.
    pub fn timeout(limit_ms: u64, elapsed_ms: u64) -> Failure {
        let mut details = ObjectText::new();
        details.text("timeout_kind", "execution");
        details.raw("limit_seconds", &seconds(limit_ms));
        details.raw("elapsed_seconds", &seconds(elapsed_ms));
        let message = format!("ran longer than its limit of {} s", seconds(limit_ms));
        Failure { details: Some(details.end()), ..Failure::ours(Cause::Timeout, TIMEOUT, message) }
    }

    /// A reservation that nobody prolonged.
    pub fn reservation_expired(visibility_ms: u64) -> Failure {
        let message = format!("no sign of life from its worker for {} s", seconds(visibility_ms));
        Failure::ours(Cause::ReservationExpired, VISIBILITY_TIMEOUT, message)
    }

    /// A worker that fell silent with the job in its hands.
    pub fn worker_death(worker: &str) -> Failure {
        // Its name stands apart: a message that tells workers apart would make each death an incident of its own.
        let mut details = ObjectText::new();
        details.text("worker_id", worker);
        let message = "its worker stopped sending heartbeats".to_owned();
        Failure { details: Some(details.end()), ..Failure::ours(Cause::WorkerDeath, WORKER_DEATH, message) }
    }

    fn ours(cause: Cause, name: &str, message: String) -> Failure {
        Failure {
            cause,
            wish: None,
            error_type: name.to_owned(),
            code: Some(name.to_owned()),
            message,
            retryable: None,
            details: None,
            backtrace: None,
            extra: None,
        }
    }
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1_000) {
        (ms / 1_000).to_string()
    } else {
        format!("{}.{:03}", ms / 1_000, ms % 1_000)
    }
}

/// A worker's report that a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nack {
    pub job_id: String,
    pub worker_id: Option<String>,
    pub failure: Failure,
}

/// Reads a worker's report. Both names of the job's id are understood.
pub fn read_nack(text: &str) -> Result<Nack, JobProblem> {
    let mut fields = open_request(text)?;
    let job_id = read_job_id(&mut fields)?;
    let worker_id = fields.take("worker_id").map(|raw| string("worker_id", raw)).transpose()?;
    let cause = match fields.take("requeue") {
        None | Some("false") => Cause::Reported,
        Some("true") => Cause::Requeued,
        Some(raw) => return Err(JobProblem::wrong_kind("requeue", "true or false", raw)),
    };
    let error = match (fields.take("error"), cause) {
        (Some(raw), _) => raw,
        // Who only gives the job back has nothing to tell.
        (None, Cause::Requeued) => "{}",
        (None, Cause::Reported | Cause::Timeout | Cause::ReservationExpired | Cause::WorkerDeath) => {
            return Err(JobProblem::new(ProblemKind::InvalidRequest, "error", "error is missing")
                .hinted("send error as an object with code and message"));
        }
    };
    Ok(Nack { job_id, worker_id, failure: read_error(error, cause)? })
}

fn read_error(text: &str, cause: Cause) -> Result<Failure, JobProblem> {
    let mended;
    let mut fields = match Fields::read(text) {
        Ok(fields) => fields,
        // A name with half a surrogate pair is no name, but the failure is one.
        Err(_) => {
            mended = surrogates::mend(text);
            Fields::read(&mended).map_err(|_| JobProblem::wrong_kind("error", "an object", text))?
        }
    };
    // A field of the wrong kind stays among those that we have no name for.
    let named = |fields: &mut Fields<'_>, name: &str| {
        let text = fields.get(name).and_then(raw::text).filter(|text| !text.is_empty());
        if text.is_some() {
            fields.take(name);
        }
        text
    };
    let (code, given_type) = (named(&mut fields, "code"), named(&mut fields, "type"));
    let wish = code.as_deref().and_then(Wish::parse);
    let details = fields.take("details");
    let told = details.and_then(|details| Fields::read(details).ok()).unwrap_or_default();
    // A decision is not a kind of error: grouping by it would call all discarded jobs one failure.
    let code_as_type = code.clone().filter(|_| wish.is_none());
    let given_type =
        given_type.or_else(|| told.get("error_class").and_then(raw::text).filter(|name| !name.is_empty()));
    let retryable = match fields.get("retryable") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) | None => None,
    };
    if retryable.is_some() {
        fields.take("retryable");
    }
    let mut message = match fields.take("message") {
        Some(raw) => raw::text(raw).unwrap_or_else(|| raw.to_owned()),
        None => String::new(),
    };
    cut(&mut message, limits::JOB_MESSAGE_BYTES_MAX);
    // SDKs put the backtrace where they please.
    let backtrace = fields.get("backtrace").and_then(frames);
    if backtrace.is_some() {
        fields.take("backtrace");
    }
    let backtrace = backtrace.or_else(|| {
        ["stack", "traceback", "backtrace"].into_iter().find_map(|name| told.get(name).and_then(frames))
    });
    // SDKs send one code for every failure, such as `handler_error`. It stays as the code.
    let told_type = || error_type::told_in(&message, backtrace.as_deref()).map(str::to_owned);
    let error_type = given_type
        .or_else(|| code_as_type.clone().filter(|code| !error_type::says_nothing(code)))
        .or_else(told_type)
        .or(code_as_type)
        .unwrap_or_else(|| "Unknown".to_owned());
    let mut extra = ObjectText::new();
    for (name, json) in fields.iter() {
        extra.raw(name, &raw::tamed(json));
    }
    Ok(Failure {
        cause,
        wish,
        error_type,
        code,
        message,
        retryable,
        details: details.map(|json| raw::tamed(json).into_owned()),
        backtrace,
        extra: (!extra.is_empty()).then(|| extra.end()),
    })
}

/// A backtrace from a text or a list of texts, one frame per line; nothing if it is empty or something else.
fn frames(raw: &str) -> Option<String> {
    let mut text = match raw::items(raw) {
        Some(items) => items.into_iter().map(raw::text).collect::<Option<Vec<String>>>()?.join("\n"),
        None => raw::text(raw)?,
    };
    cut(&mut text, limits::JOB_BACKTRACE_BYTES_MAX);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
