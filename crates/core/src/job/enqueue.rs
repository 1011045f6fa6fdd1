//! One enqueue request, read and checked: what the client wants done, how, and when.
//!
//! The options may stand under `options` or beside the job, as the two forms of the specification have it. What a
//! client may not decide (state, attempts, times) is ignored; what we have no name for is kept verbatim.

use std::collections::BTreeSet;

use crate::id::JobId;
use crate::limits;
use crate::time::Time;

use super::field::{
    fields_of, merge_objects, object, read_moment, read_priority, read_queue, read_texts, string,
};
use super::policy::{JobRetry, RetryPatch};
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields};

/// What applies to a job that says nothing else.
#[derive(Clone, PartialEq, Debug)]
pub struct JobDefaults {
    pub retry: JobRetry,
    pub timeout_ms: u64,
    pub visibility_ms: u64,
    /// Bytes of one request.
    pub bytes_max: usize,
}

impl Default for JobDefaults {
    fn default() -> JobDefaults {
        JobDefaults {
            retry: JobRetry::default(),
            timeout_ms: limits::JOB_TIMEOUT_MS,
            visibility_ms: limits::JOB_VISIBILITY_MS,
            bytes_max: limits::JOB_BYTES_MAX,
        }
    }
}

/// A job that is about to exist.
#[derive(Clone, PartialEq, Debug)]
pub struct NewJob {
    /// The client's own choice; without one the server mints it.
    pub id: Option<JobId>,
    pub job_type: String,
    pub queue: String,
    /// JSON text of an array, verbatim.
    pub args: String,
    /// JSON text of an object, verbatim unless `options.metadata` was merged into it.
    pub meta: String,
    pub schema: Option<String>,
    pub priority: i32,
    pub timeout_ms: u64,
    pub visibility_ms: u64,
    pub scheduled_at: Option<Moment>,
    pub expires_at: Option<Moment>,
    pub retry: JobRetry,
    /// JSON text of an object, verbatim.
    pub unique: Option<String>,
    pub tags: Vec<String>,
    pub parked: bool,
    /// Fields that we have no name for, in their order, as JSON texts.
    pub extra: Vec<(String, String)>,
}

/// A time as a client states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    At(Time),
    /// `+PT2S`: this long after the request.
    After {
        ms: u64,
    },
}

impl Moment {
    pub fn from(self, now: Time) -> Time {
        match self {
            Moment::At(time) => time,
            Moment::After { ms } => now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)),
        }
    }
}

/// Names that the server writes. A client's values for them are ignored, whatever they are.
pub(super) const SERVER_FIELDS: [&str; 22] = [
    "specversion",
    "state",
    "attempt",
    "max_attempts",
    "created_at",
    "enqueued_at",
    "started_at",
    "completed_at",
    "cancelled_at",
    "discarded_at",
    "activated_at",
    "re_enqueued_at",
    "next_attempt_at",
    "next_retry_at",
    "retry_delay_ms",
    "previous_state",
    "error",
    "errors",
    "result",
    "metadata",
    "job",
    "options",
];

/// Names that a job's own fields have on the wire, beside those of the server.
const JOB_FIELDS: [&str; 17] = [
    "id",
    "type",
    "queue",
    "args",
    "meta",
    "schema",
    "priority",
    "timeout",
    "timeout_ms",
    "scheduled_at",
    "delay_until",
    "expires_at",
    "retry",
    "unique",
    "tags",
    "visibility_timeout",
    "visibility_timeout_ms",
];

/// Reads one enqueue request.
pub fn read_enqueue(text: &str, defaults: &JobDefaults) -> Result<NewJob, JobProblem> {
    let (mut fields, options) = open(text, defaults)?;
    let id = fields.take("id").map(read_id).transpose()?;
    let job_type = read_type(fields.take("type"))?;
    let args = read_args(fields.take("args"))?;
    let meta = fields.take("meta").map(|raw| object("meta", raw)).transpose()?;
    let mut request = Request { fields, options };
    let metadata = request.options.take("metadata").map(|raw| object("options.metadata", raw)).transpose()?;
    let parked = match request.options.take("pending") {
        None | Some("false") => false,
        Some("true") => true,
        Some(raw) => return Err(JobProblem::wrong_kind("options.pending", "true or false", raw)),
    };
    let queue = match request.pick("queue") {
        Some((field, raw)) => read_queue(&field, raw)?,
        None => "default".to_owned(),
    };
    let retry = match request.pick("retry") {
        Some((field, raw)) => RetryPatch::read(raw, &field)?.over(&defaults.retry),
        None => defaults.retry.clone(),
    };
    let delay_until = request.pick("delay_until");
    let scheduled_at = delay_until.or(request.pick("scheduled_at"));
    Ok(NewJob {
        id,
        job_type,
        queue,
        args,
        meta: merged_meta(meta, metadata)?,
        schema: request.pick("schema").map(|(field, raw)| string(&field, raw)).transpose()?,
        priority: request.pick("priority").map_or(Ok(0), |(field, raw)| read_priority(&field, raw))?,
        timeout_ms: request.length("timeout_ms", "timeout")?.unwrap_or(defaults.timeout_ms),
        visibility_ms: request
            .length("visibility_timeout_ms", "visibility_timeout")?
            .unwrap_or(defaults.visibility_ms),
        scheduled_at: scheduled_at.map(|(field, raw)| read_moment(&field, raw)).transpose()?,
        expires_at: request.pick("expires_at").map(|(field, raw)| read_moment(&field, raw)).transpose()?,
        retry,
        unique: request
            .pick("unique")
            .map(|(field, raw)| object(&field, raw).map(str::to_owned))
            .transpose()?,
        tags: request.pick("tags").map_or(Ok(Vec::new()), |(field, raw)| read_texts(&field, raw))?,
        parked,
        extra: request.extra(),
    })
}

/// Takes the request apart, as far as its size and depth allow.
fn open<'a>(text: &'a str, defaults: &JobDefaults) -> Result<(Fields<'a>, Fields<'a>), JobProblem> {
    if text.len() > defaults.bytes_max {
        let message = format!("the job has {} bytes, at most {} are taken", text.len(), defaults.bytes_max);
        return Err(JobProblem::whole(ProblemKind::TooLarge, message)
            .hinted("keep the payload elsewhere and pass a reference to it"));
    }
    let mut fields = Fields::read(text).map_err(|error| {
        JobProblem::whole(ProblemKind::InvalidPayload, format!("not a JSON object: {error}"))
            .hinted("send an object with type and args")
    })?;
    if raw::depth(text) > limits::JOB_DEPTH_MAX {
        let message = format!("the job is nested deeper than {} levels", limits::JOB_DEPTH_MAX);
        return Err(JobProblem::whole(ProblemKind::InvalidPayload, message));
    }
    let options = match fields.take("options") {
        Some(raw) => Fields::read(raw).map_err(|_| JobProblem::wrong_kind("options", "an object", raw))?,
        None => Fields::default(),
    };
    Ok((fields, options))
}

/// What is left of a request while it is read.
struct Request<'a> {
    fields: Fields<'a>,
    options: Fields<'a>,
}

impl<'a> Request<'a> {
    /// An option from where it stands: under `options`, else beside the job.
    fn pick(&mut self, name: &str) -> Option<(String, &'a str)> {
        let beside = self.fields.take(name);
        match self.options.take(name) {
            Some(raw) => Some((format!("options.{name}"), raw)),
            None => beside.map(|raw| (name.to_owned(), raw)),
        }
    }

    /// A length of time: in milliseconds under the one name, in seconds under the other.
    fn length(&mut self, in_ms: &str, in_seconds: &str) -> Result<Option<u64>, JobProblem> {
        let (ms, seconds) = (self.pick(in_ms), self.pick(in_seconds));
        let ((field, raw), unit_ms) = match (ms, seconds) {
            (Some(ms), _) => (ms, 1),
            (None, Some(seconds)) => (seconds, 1_000),
            (None, None) => return Ok(None),
        };
        if !raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return Err(JobProblem::wrong_kind(&field, "a whole number", raw));
        }
        let length = raw::whole(raw).and_then(|n| u64::try_from(n).ok()?.checked_mul(unit_ms));
        match length.filter(|ms| (1..=limits::JOB_WAIT_MS_MAX).contains(ms)) {
            Some(ms) => Ok(Some(ms)),
            None => {
                let shown = raw::shown(raw);
                let message =
                    format!("{field} must be a whole number above 0 and within a year, not {shown}");
                Err(JobProblem::new(ProblemKind::InvalidRequest, &field, message))
            }
        }
    }

    /// What nobody took: unknown fields, then unknown options. Names of ours are never among them.
    fn extra(self) -> Vec<(String, String)> {
        let mut options = self.options.rest();
        let known: BTreeSet<&str> = self.fields.iter().map(|(name, _)| name).collect();
        options.retain(|(name, _)| !known.contains(name.as_str()));
        let mut extra = self.fields.rest();
        extra.append(&mut options);
        extra.retain(|(name, _)| !is_ours(name));
        extra
    }
}

/// Whether a name is one that the job's JSON uses itself.
pub(super) fn is_ours(name: &str) -> bool {
    SERVER_FIELDS.contains(&name) || JOB_FIELDS.contains(&name)
}

fn read_id(raw: &str) -> Result<JobId, JobProblem> {
    let text = string("id", raw)?;
    job_id(&text).ok_or_else(|| {
        let message = format!("id must be a UUIDv7 in lower case, not {}", raw::shown(raw));
        JobProblem::new(ProblemKind::InvalidRequest, "id", message)
            .hinted("leave id out and the server makes one")
    })
}

/// Reads a job's id: UUIDv7 with hyphens in lower case, and nothing else.
pub fn job_id(text: &str) -> Option<JobId> {
    let id = JobId::parse(text).ok()?;
    let (version, variant) = (id.bytes()[6] >> 4, id.bytes()[8] >> 6);
    (version == 7 && variant == 0b10 && !text.bytes().any(|byte| byte.is_ascii_uppercase())).then_some(id)
}

fn read_type(raw: Option<&str>) -> Result<String, JobProblem> {
    let Some(raw) = raw else {
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "type", "type is missing")
            .hinted("give the job a type such as email.send"));
    };
    let name = string("type", raw)?;
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    if name.len() <= limits::JOB_TYPE_BYTES_MAX && name.split('.').all(word) {
        return Ok(name);
    }
    let message = format!("type must be a dotted name in lower case, not {}", raw::shown(raw));
    Err(JobProblem::new(ProblemKind::InvalidRequest, "type", message).hinted(
        "words of a-z, 0-9, _ and -, each beginning with a letter, joined by dots, such as email.send",
    ))
}

fn read_args(raw: Option<&str>) -> Result<String, JobProblem> {
    match raw {
        Some(raw) if raw.starts_with('[') => Ok(raw.to_owned()),
        Some(raw) => {
            Err(JobProblem::wrong_kind("args", "an array", raw).hinted("wrap the arguments: [{\"a\": 1}]"))
        }
        None => Err(JobProblem::new(ProblemKind::InvalidRequest, "args", "args is missing")
            .hinted("send [] when the job takes no arguments")),
    }
}

/// The client's `meta`, verbatim, with `options.metadata` laid over it if there is any.
fn merged_meta(meta: Option<&str>, metadata: Option<&str>) -> Result<String, JobProblem> {
    let meta = meta.unwrap_or("{}");
    let merged = match metadata {
        Some(over) => merge_objects("meta", meta, over)?,
        None => {
            // Its names are looked up later on, so they have to be readable now.
            fields_of("meta", meta)?;
            meta.to_owned()
        }
    };
    if merged.len() > limits::JOB_META_BYTES_MAX {
        let message =
            format!("meta has {} bytes, at most {} are taken", merged.len(), limits::JOB_META_BYTES_MAX);
        return Err(JobProblem::new(ProblemKind::TooLarge, "meta", message));
    }
    Ok(merged)
}

#[cfg(test)]
pub(in crate::job) mod tests;
