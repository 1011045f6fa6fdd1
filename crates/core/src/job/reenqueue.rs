//! What an operator may change about a job on its way out of the dead letter.
//!
//! An override that we do not know is refused: a job that runs again without the change that was meant to heal it only
//! dies again.

use crate::limits;

use super::field::{object, read_priority, read_queue};
use super::policy::RetryPatch;
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields};
use super::worker::open_request;

/// Changes to a job that is put back. The retry policy is merged over the job's own, and so is `meta`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Override {
    pub queue: Option<String>,
    pub priority: Option<i32>,
    /// JSON text of an object.
    pub meta: Option<String>,
    pub retry: Option<RetryPatch>,
    /// JSON text of an array.
    pub args: Option<String>,
}

/// What can be changed, by name.
const CHANGES: [&str; 5] = ["queue", "priority", "meta", "retry", "args"];

/// Reads the body of a retry: nothing, an empty object, or one with `override`.
pub fn read_override(text: &str) -> Result<Override, JobProblem> {
    if text.trim().is_empty() {
        return Ok(Override::default());
    }
    let mut fields = open_request(text)?;
    if raw::depth(text) > limits::JOB_DEPTH_MAX {
        let message = format!("the request is nested deeper than {} levels", limits::JOB_DEPTH_MAX);
        return Err(JobProblem::whole(ProblemKind::InvalidPayload, message));
    }
    let given = fields.take("override");
    // Beside `override` they would change nothing, and the job would run again as it died.
    if let Some(name) = CHANGES.into_iter().find(|name| fields.get(name).is_some()) {
        let message = format!("{name} stands beside override, where it changes nothing");
        return Err(JobProblem::new(ProblemKind::InvalidRequest, name, message)
            .hinted("write {\"override\": {…}} around what is to be changed"));
    }
    let Some(raw) = given else { return Ok(Override::default()) };
    let mut fields = Fields::read(raw).map_err(|_| JobProblem::wrong_kind("override", "an object", raw))?;
    let changes = Override {
        queue: fields.take("queue").map(|raw| read_queue("override.queue", raw)).transpose()?,
        priority: fields.take("priority").map(|raw| read_priority("override.priority", raw)).transpose()?,
        meta: fields.take("meta").map(read_meta).transpose()?,
        retry: fields.take("retry").map(|raw| RetryPatch::read(raw, "override.retry")).transpose()?,
        args: match fields.take("args") {
            Some(raw) if raw.starts_with('[') => Some(raw.to_owned()),
            Some(raw) => return Err(JobProblem::wrong_kind("override.args", "an array", raw)),
            None => None,
        },
    };
    // A field that says null says nothing, also one that we do not know.
    let unknown = fields.iter().find(|(_, raw)| *raw != "null").map(|(name, _)| name);
    match unknown {
        Some(name) => {
            let field = format!("override.{}", raw::shown(name));
            let message = format!("{field} cannot be overridden");
            Err(JobProblem::new(ProblemKind::InvalidRequest, &field, message)
                .hinted("queue, priority, meta, retry and args can"))
        }
        None => Ok(changes),
    }
}

fn read_meta(raw: &str) -> Result<String, JobProblem> {
    let text = object("override.meta", raw)?;
    Fields::read(text).map_err(|error| {
        let message = format!("override.meta cannot be read: {error}");
        JobProblem::new(ProblemKind::InvalidRequest, "override.meta", message)
    })?;
    if text.len() > limits::JOB_META_BYTES_MAX {
        let message = format!("override.meta has more than {} bytes", limits::JOB_META_BYTES_MAX);
        return Err(JobProblem::new(ProblemKind::TooLarge, "override.meta", message));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_body_and_an_empty_one_change_nothing() {
        for text in ["", "  \n", "{}", r#"{"override":null}"#, r#"{"override":{}}"#, r#"{"other":1}"#] {
            assert_eq!(read_override(text), Ok(Override::default()), "{text:?}");
        }
    }

    #[test]
    fn every_part_is_read_and_checked() {
        let text = r#"{"override":{"queue":"slow","priority":-5,"meta":{"a": 1e400},
            "retry":{"max_attempts":9},"args":[ 1 ]}}"#;
        let changes = read_override(text).unwrap();
        assert_eq!(changes.queue.as_deref(), Some("slow"));
        assert_eq!(changes.priority, Some(-5));
        assert_eq!(changes.meta.as_deref(), Some(r#"{"a": 1e400}"#));
        assert_eq!(changes.retry.unwrap().max_attempts, Some(9));
        assert_eq!(changes.args.as_deref(), Some("[ 1 ]"));
    }

    #[test]
    fn a_bad_override_is_refused_by_name() {
        use ProblemKind::{InvalidPayload, InvalidRequest, SchemaValidation, ValidationError};
        let cases = [
            ("nonsense", InvalidPayload, None),
            (r#"{"override":[]}"#, SchemaValidation, Some("override")),
            (r#"{"override":{"queue":"My Queue"}}"#, InvalidRequest, Some("override.queue")),
            (r#"{"override":{"priority":101}}"#, InvalidRequest, Some("override.priority")),
            (r#"{"override":{"meta":[]}}"#, SchemaValidation, Some("override.meta")),
            (r#"{"override":{"args":{}}}"#, SchemaValidation, Some("override.args")),
            (
                r#"{"override":{"retry":{"max_attempts":-1}}}"#,
                ValidationError,
                Some("override.retry.max_attempts"),
            ),
            (r#"{"override":{"type":"other"}}"#, InvalidRequest, Some("override.type")),
            (r#"{"queue":"slow"}"#, InvalidRequest, Some("queue")),
            (r#"{"override":{"queue":"slow"},"args":[]}"#, InvalidRequest, Some("args")),
        ];
        for (text, kind, field) in cases {
            let problem = read_override(text).unwrap_err();
            assert_eq!((problem.kind, problem.field.as_deref()), (kind, field), "{text}");
        }
    }
}
