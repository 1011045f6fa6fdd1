//! Fields that more than one request has, each read and checked in one place.
//!
//! Every refusal names the field by its path in the request. Nothing is corrected or clamped: a client that is not told
//! does not notice.

use std::collections::BTreeMap;

use crate::limits;
use crate::time::Time;

use super::enqueue::Moment;
use super::policy::iso_ms;
use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields, ObjectText};

/// Reads a queue's name; `field` is where it stands in the request.
pub(super) fn read_queue(field: &str, raw: &str) -> Result<String, JobProblem> {
    let name = string(field, raw)?;
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte == b'.' || byte == b'-')
        && name.len() <= limits::JOB_QUEUE_BYTES_MAX;
    if good {
        return Ok(name);
    }
    let message = format!("{field} must be a queue's name, not {}", raw::shown(raw));
    Err(JobProblem::new(ProblemKind::InvalidRequest, field, message)
        .hinted("up to 128 of a-z, 0-9, dot and hyphen, beginning with a letter or digit"))
}

/// Reads a priority within the range that the specification guarantees.
pub(super) fn read_priority(field: &str, raw: &str) -> Result<i32, JobProblem> {
    let max = limits::JOB_PRIORITY_MAX;
    let priority = raw::whole(raw).filter(|n| (-max..=max).contains(n));
    priority.and_then(|n| i32::try_from(n).ok()).ok_or_else(|| {
        let message = format!("{field} must be a whole number from -{max} to {max}, not {}", raw::shown(raw));
        JobProblem::new(ProblemKind::InvalidRequest, field, message)
    })
}

pub(super) fn read_moment(field: &str, raw: &str) -> Result<Moment, JobProblem> {
    let text = string(field, raw)?;
    if let Some(length) = text.strip_prefix('+') {
        let ms = iso_ms(length).filter(|ms| *ms <= limits::JOB_WAIT_MS_MAX);
        return ms.map(|ms| Moment::After { ms }).ok_or_else(|| {
            let message =
                format!("{field} must be a time or a length such as +PT2S, not {}", raw::shown(raw));
            JobProblem::new(ProblemKind::InvalidRequest, field, message)
        });
    }
    Time::parse(&text)
        .map(Moment::At)
        .map_err(|error| JobProblem::new(ProblemKind::InvalidRequest, field, format!("{field}: {error}")))
}

pub(super) fn read_texts(field: &str, raw: &str) -> Result<Vec<String>, JobProblem> {
    let bad = || JobProblem::wrong_kind(field, "an array of strings", raw);
    raw::items(raw).ok_or_else(bad)?.into_iter().map(|item| raw::text(item).ok_or_else(bad)).collect()
}

/// The fields of `base` with those of `over` in their place or behind them; values stay verbatim.
pub(super) fn merge_objects(field: &str, base: &str, over: &str) -> Result<String, JobProblem> {
    let base_fields = fields_of(field, base)?;
    let over_fields = fields_of(field, over)?;
    if over_fields.is_empty() {
        return Ok(base.to_owned());
    }
    let mut replacements: BTreeMap<&str, &str> = over_fields.iter().collect();
    let mut merged = ObjectText::new();
    for (name, json) in base_fields.iter() {
        merged.raw(name, replacements.remove(name).unwrap_or(json));
    }
    for (name, json) in over_fields.iter().filter(|(name, _)| replacements.contains_key(name)) {
        merged.raw(name, json);
    }
    Ok(merged.end())
}

pub(super) fn fields_of<'a>(field: &str, raw: &'a str) -> Result<Fields<'a>, JobProblem> {
    Fields::read(raw).map_err(|error| {
        let message = format!("{field} cannot be read: {error}");
        JobProblem::new(ProblemKind::InvalidRequest, field, message)
    })
}

/// The JSON text of an object, as it stands.
pub(super) fn object<'a>(field: &str, raw: &'a str) -> Result<&'a str, JobProblem> {
    if raw.starts_with('{') { Ok(raw) } else { Err(JobProblem::wrong_kind(field, "an object", raw)) }
}

pub(super) fn string(field: &str, raw: &str) -> Result<String, JobProblem> {
    raw::text(raw).ok_or_else(|| JobProblem::wrong_kind(field, "a string", raw))
}
