//! What workers ask and say besides failures: fetch, ack and heartbeat.
//!
//! The documents and the SDKs differ in names and shapes; all of them are understood here, and nowhere else.

use crate::limits;

use super::field::{read_texts, string};
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields};

/// A worker asks for jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// In the order in which they are tried; never empty.
    pub queues: Vec<String>,
    pub count: usize,
    pub worker_id: Option<String>,
    pub visibility_ms: Option<u64>,
}

/// A worker has done a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    pub job_id: String,
    pub worker_id: Option<String>,
    /// JSON text, verbatim.
    pub result: Option<String>,
}

/// A worker gives a sign of life, for itself and for the jobs it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    pub worker_id: String,
    pub job_ids: Vec<String>,
    pub visibility_ms: Option<u64>,
    /// What else it says about itself, in its order, as JSON texts.
    pub extra: Vec<(String, String)>,
}

/// Reads a fetch. A larger count than we hand out at once is answered with fewer jobs, as an empty queue would be.
pub fn read_fetch(text: &str) -> Result<FetchRequest, JobProblem> {
    let mut fields = open_request(text)?;
    let queues = match fields.take("queues") {
        Some(raw) => read_texts("queues", raw)?,
        None => Vec::new(),
    };
    if queues.is_empty() || queues.len() > limits::JOB_FETCH_QUEUES_MAX {
        let max = limits::JOB_FETCH_QUEUES_MAX;
        let message = format!("queues must name from 1 to {max} queues, not {}", queues.len());
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "queues", message));
    }
    let count = match fields.take("count") {
        Some(raw) => positive("count", raw)?.min(limits::JOB_FETCH_MAX as u64),
        None => 1,
    };
    Ok(FetchRequest {
        queues,
        count: count as usize,
        worker_id: fields.take("worker_id").map(|raw| string("worker_id", raw)).transpose()?,
        visibility_ms: read_visibility(&mut fields)?,
    })
}

/// Reads an ack. Both names of the job's id are understood.
pub fn read_ack(text: &str) -> Result<Ack, JobProblem> {
    let mut fields = open_request(text)?;
    Ok(Ack {
        job_id: read_job_id(&mut fields)?,
        worker_id: fields.take("worker_id").map(|raw| string("worker_id", raw)).transpose()?,
        result: fields.take("result").map(|raw| raw::tamed(raw).into_owned()),
    })
}

/// Reads a heartbeat in either dialect: the ids under `active_jobs`, or their number there and the ids under
/// `active_job_ids`.
pub fn read_heartbeat(text: &str) -> Result<Heartbeat, JobProblem> {
    let mut fields = open_request(text)?;
    let Some(worker) = fields.take("worker_id") else {
        let message = "worker_id is missing: it says who is alive";
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "worker_id", message));
    };
    let worker_id = string("worker_id", worker)?;
    let mut job_ids = match fields.take("active_jobs") {
        // A number only counts what the other field names.
        Some(raw) if raw::number(raw).is_some() => Vec::new(),
        Some(raw) => read_texts("active_jobs", raw)?,
        None => Vec::new(),
    };
    if let Some(raw) = fields.take("active_job_ids") {
        job_ids.extend(read_texts("active_job_ids", raw)?);
    }
    if job_ids.len() > limits::JOB_HEARTBEAT_JOBS_MAX {
        let max = limits::JOB_HEARTBEAT_JOBS_MAX;
        let message = format!("active_jobs names {} jobs, at most {max} are taken", job_ids.len());
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "active_jobs", message));
    }
    Ok(Heartbeat { worker_id, job_ids, visibility_ms: read_visibility(&mut fields)?, extra: fields.rest() })
}

/// Opens a worker's request.
pub(super) fn open_request(text: &str) -> Result<Fields<'_>, JobProblem> {
    let max = limits::JOB_BYTES_MAX;
    if text.len() > max {
        let message = format!("the request has {} bytes, at most {max} are taken", text.len());
        return Err(JobProblem::whole(ProblemKind::TooLarge, message));
    }
    Fields::read(text).map_err(|error| {
        JobProblem::whole(ProblemKind::InvalidPayload, format!("not a JSON object: {error}"))
    })
}

/// The job's id under either name. Whether there is such a job is not asked here.
pub(super) fn read_job_id(fields: &mut Fields<'_>) -> Result<String, JobProblem> {
    let (job_id, id) = (fields.take("job_id"), fields.take("id"));
    match job_id.or(id) {
        Some(raw) => string("job_id", raw),
        None => Err(JobProblem::new(ProblemKind::InvalidRequest, "job_id", "job_id is missing")),
    }
}

fn read_visibility(fields: &mut Fields<'_>) -> Result<Option<u64>, JobProblem> {
    let name = "visibility_timeout_ms";
    fields.take(name).map(|raw| positive(name, raw)).transpose()
}

/// A whole number above 0, and no longer than a year where it is a time.
fn positive(field: &str, raw: &str) -> Result<u64, JobProblem> {
    let number = raw::whole(raw).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| (1..=limits::JOB_WAIT_MS_MAX).contains(number)).ok_or_else(|| {
        let message = format!("{field} must be a whole number above 0, not {}", raw::shown(raw));
        JobProblem::new(ProblemKind::InvalidRequest, field, message)
    })
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, proptest};

    use super::*;

    #[test]
    fn a_fetch_needs_queues_and_nothing_else() {
        let plain = read_fetch(r#"{"queues":["a","b"]}"#).unwrap();
        assert_eq!((plain.queues, plain.count), (vec!["a".to_owned(), "b".to_owned()], 1));
        let full = r#"{"queues":["a"],"count":999999,"worker_id":"w","visibility_timeout_ms":500}"#;
        let full = read_fetch(full).unwrap();
        assert_eq!((full.count, full.visibility_ms), (limits::JOB_FETCH_MAX, Some(500)));
        assert_eq!(full.worker_id.as_deref(), Some("w"));
    }

    #[test]
    fn a_bad_fetch_names_its_field() {
        use ProblemKind::{InvalidPayload, InvalidRequest, SchemaValidation};
        let rows = [
            ("", InvalidPayload, None),
            ("{}", InvalidRequest, Some("queues")),
            (r#"{"queues":[]}"#, InvalidRequest, Some("queues")),
            (r#"{"queues":"a"}"#, SchemaValidation, Some("queues")),
            (r#"{"queues":[1]}"#, SchemaValidation, Some("queues")),
            (r#"{"queues":["a"],"count":0}"#, InvalidRequest, Some("count")),
            (r#"{"queues":["a"],"worker_id":1}"#, SchemaValidation, Some("worker_id")),
            (r#"{"queues":["a"],"visibility_timeout_ms":-1}"#, InvalidRequest, Some("visibility_timeout_ms")),
        ];
        for (text, kind, field) in rows {
            let problem = read_fetch(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_deref()), (kind, field), "{text}");
        }
    }

    #[test]
    fn an_ack_keeps_its_result_verbatim() {
        for (text, result) in [
            (r#"{"job_id":"j"}"#, None),
            (r#"{"id":"j","result":null}"#, None),
            (r#"{"id":"j","result":{"n": 1e400}}"#, Some(r#"{"n": 1e400}"#)),
        ] {
            let ack = read_ack(text).unwrap();
            assert_eq!((ack.job_id.as_str(), ack.result.as_deref()), ("j", result), "{text}");
        }
        assert_eq!(read_ack("{}").unwrap_err().field.as_deref(), Some("job_id"));
    }

    #[test]
    fn both_dialects_of_a_heartbeat_name_the_jobs() {
        for text in [
            r#"{"worker_id":"w","active_jobs":["a","b"],"visibility_timeout_ms":5}"#,
            r#"{"worker_id":"w","active_jobs":2,"active_job_ids":["a","b"],"visibility_timeout_ms":5}"#,
        ] {
            let beat = read_heartbeat(text).unwrap();
            assert_eq!(beat.job_ids, ["a", "b"], "{text}");
            assert_eq!((beat.worker_id.as_str(), beat.visibility_ms), ("w", Some(5)));
        }
        let bare = read_heartbeat(r#"{"worker_id":"w","pid":7}"#).unwrap();
        assert_eq!((bare.job_ids.len(), bare.extra), (0, vec![("pid".to_owned(), "7".to_owned())]));
        assert_eq!(read_heartbeat("{}").unwrap_err().field.as_deref(), Some("worker_id"));
        let wrong = read_heartbeat(r#"{"worker_id":"w","active_jobs":{}}"#).unwrap_err();
        assert_eq!(wrong.kind, ProblemKind::SchemaValidation);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            prop_assert!(read_fetch(&text).is_err() || text.contains("queues"));
            prop_assert!(read_ack(&text).is_err() || text.contains("id"));
            prop_assert!(read_heartbeat(&text).is_err() || text.contains("worker_id"));
        }
    }
}
