//! What workers ask and say besides failures: fetch, ack and heartbeat.
//!
//! The documents and the SDKs differ in names and shapes; all of them are understood here, and nowhere else.

use crate::letter::cut;
use crate::limits;
use crate::time::Time;

use super::field::{read_texts, string};
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields, ObjectText};

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
    pub about: AboutWorker,
}

/// What a worker says of itself. It is shown and decides nothing, so what cannot be understood is passed over: a worker
/// must not lose its jobs because of a label.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AboutWorker {
    pub hostname: Option<String>,
    pub pid: Option<u64>,
    pub queues: Vec<String>,
    pub concurrency: Option<u64>,
    pub started_at: Option<Time>,
    /// The rest that fits, as JSON text of an object: labels, its own idea of its state.
    pub said: Option<String>,
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
        worker_id: fields.take("worker_id").map(read_worker).transpose()?,
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
    let worker_id = read_worker(worker)?;
    if worker_id.is_empty() {
        let message = "worker_id is empty: it says who is alive";
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "worker_id", message));
    }
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
    let visibility_ms = read_visibility(&mut fields)?;
    Ok(Heartbeat { worker_id, job_ids, visibility_ms, about: read_about(fields) })
}

/// A worker's name, by which its jobs are held. One that is too long would be cut somewhere and be another's then.
fn read_worker(raw: &str) -> Result<String, JobProblem> {
    let name = string("worker_id", raw)?;
    let max = limits::NAME_BYTES_MAX;
    if name.len() > max {
        let message = format!("worker_id has {} bytes, at most {max} are taken", name.len());
        return Err(JobProblem::new(ProblemKind::InvalidRequest, "worker_id", message));
    }
    Ok(name)
}

fn read_about(mut fields: Fields<'_>) -> AboutWorker {
    let count = |raw: &str| raw::whole(raw).and_then(|number| u64::try_from(number).ok());
    let mut hostname = fields.take("hostname").and_then(raw::text).filter(|name| !name.is_empty());
    if let Some(name) = &mut hostname {
        cut(name, limits::NAME_BYTES_MAX);
    }
    let queues = fields.take("queues").and_then(raw::items).unwrap_or_default();
    let fits = |name: &String| (1..=limits::JOB_QUEUE_BYTES_MAX).contains(&name.len());
    let queues = queues.into_iter().filter_map(raw::text).filter(fits).take(limits::WORKER_QUEUES_MAX);
    AboutWorker {
        hostname,
        pid: fields.take("pid").and_then(count),
        queues: queues.collect(),
        concurrency: fields.take("concurrency").and_then(count),
        started_at: fields.take("started_at").and_then(raw::text).and_then(|text| Time::parse(&text).ok()),
        said: read_said(&fields),
    }
}

/// What is left of the fields, as many as fit.
fn read_said(fields: &Fields<'_>) -> Option<String> {
    let mut said = ObjectText::new();
    let mut room = limits::WORKER_SAID_BYTES_MAX;
    for (name, json) in fields.iter() {
        let json = raw::tamed(json);
        // Two quotes, a colon and a comma stand around each.
        let taken = name.len() + json.len() + 4;
        if taken <= room {
            room -= taken;
            said.raw(name, &json);
        }
    }
    (!said.is_empty()).then(|| said.end())
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
        let bare = read_heartbeat(r#"{"worker_id":"w"}"#).unwrap();
        assert_eq!((bare.job_ids.len(), bare.about), (0, AboutWorker::default()));
        assert_eq!(read_heartbeat("{}").unwrap_err().field.as_deref(), Some("worker_id"));
        let wrong = read_heartbeat(r#"{"worker_id":"w","active_jobs":{}}"#).unwrap_err();
        assert_eq!(wrong.kind, ProblemKind::SchemaValidation);
    }

    #[test]
    fn a_worker_tells_of_itself_and_nonsense_is_passed_over() {
        let text = r#"{"worker_id":"w","hostname":"h","pid":7,"queues":["a","b"],"concurrency":10,
            "started_at":"2026-11-15T03:00:00Z","state":"running","labels":{"zone":"x"}}"#;
        let told = AboutWorker {
            hostname: Some("h".into()),
            pid: Some(7),
            queues: vec!["a".into(), "b".into()],
            concurrency: Some(10),
            started_at: Some(Time::parse("2026-11-15T03:00:00Z").unwrap()),
            said: Some(r#"{"state":"running","labels":{"zone":"x"}}"#.into()),
        };
        assert_eq!(read_heartbeat(text).unwrap().about, told);
        let nonsense =
            r#"{"worker_id":"w","hostname":7,"pid":"x","queues":"a","concurrency":-1,"started_at":"now"}"#;
        assert_eq!(read_heartbeat(nonsense).unwrap().about, AboutWorker::default());
        let mixed = r#"{"worker_id":"w","queues":["a",1,"",null],"pid":1e400,"hostname":""}"#;
        let about = read_heartbeat(mixed).unwrap().about;
        assert_eq!((about.queues, about.pid, about.hostname), (vec!["a".to_owned()], None, None));
    }

    #[test]
    fn what_a_worker_says_has_bounds_and_its_name_is_never_cut() {
        let long = "x".repeat(limits::WORKER_SAID_BYTES_MAX);
        let text = format!(r#"{{"worker_id":"w","hostname":"{long}","a":"{long}","b":1}}"#);
        let about = read_heartbeat(&text).unwrap().about;
        assert_eq!(about.hostname.unwrap().len(), limits::NAME_BYTES_MAX);
        assert_eq!(about.said.as_deref(), Some(r#"{"b":1}"#));
        for text in [
            format!(r#"{{"worker_id":"{long}","queues":["a"]}}"#),
            r#"{"worker_id":1,"queues":["a"]}"#.to_owned(),
        ] {
            assert_eq!(read_heartbeat(&text).unwrap_err().field.as_deref(), Some("worker_id"));
            assert_eq!(read_fetch(&text).unwrap_err().field.as_deref(), Some("worker_id"));
        }
        assert!(read_heartbeat(r#"{"worker_id":""}"#).is_err());
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
