//! Filters and pages of the dead letter as clients ask for them, in the query and in JSON.

use lazaret_core::duration::Length;
use lazaret_core::filter::When;
use lazaret_core::limits;
use lazaret_core::time::{Time, TimeError};
use serde_json::Value;

use crate::jobs::dead::DeadFilter;
use crate::ojs::problem::{Code, Problem};
use crate::ojs::queues::{read_offset, too_far};
use crate::ojs::{given, read_limit};
use crate::raw_json::shown;

/// Which part of a list.
pub(super) struct Paging {
    pub limit: usize,
    pub offset: usize,
    /// Beats the offset.
    pub cursor: Option<String>,
}

/// Which page of a list, counted from 1.
pub(super) struct Numbered {
    pub page: usize,
    pub per_page: usize,
}

impl Numbered {
    pub(super) fn offset(&self) -> Result<usize, Problem> {
        let offset = (self.page - 1).checked_mul(self.per_page);
        offset.filter(|offset| *offset <= limits::OJS_OFFSET_MAX).ok_or_else(too_far)
    }
}

/// What a bulk call is about.
pub(super) struct Bulk {
    pub filter: DeadFilter,
    pub expected: Option<u64>,
}

pub(super) fn list(pairs: &[(String, String)]) -> Result<(DeadFilter, Paging), Problem> {
    let mut filter = DeadFilter::default();
    let mut paging = Paging { limit: limits::PAGE_ROWS, offset: 0, cursor: None };
    for (key, value) in said(pairs) {
        match key {
            "limit" => paging.limit = read_limit("limit", value, limits::OJS_PAGE_ROWS_MAX)?,
            "offset" => paging.offset = read_offset(value)?,
            "cursor" => paging.cursor = Some(value.to_owned()),
            // A key that is not known narrows nothing, and a list does no harm.
            _ => match set(&mut filter, key, value)? {
                Key::Known | Key::Unknown => {}
            },
        }
    }
    Ok((filter, paging))
}

pub(super) fn admin_list(pairs: &[(String, String)]) -> Result<(DeadFilter, Numbered), Problem> {
    let mut filter = DeadFilter::default();
    let mut numbered = Numbered { page: 1, per_page: limits::OJS_ADMIN_ROWS };
    for (key, value) in said(pairs) {
        match key {
            "page" => numbered.page = read_limit("page", value, usize::MAX)?,
            "per_page" => numbered.per_page = read_limit("per_page", value, limits::OJS_ADMIN_ROWS_MAX)?,
            // A key that is not known narrows nothing, and a list does no harm.
            _ => match set(&mut filter, key, value)? {
                Key::Known | Key::Unknown => {}
            },
        }
    }
    Ok((filter, numbered))
}

fn said(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().filter_map(|(key, value)| Some((key.as_str(), given(value)?)))
}

/// Whether a key of a filter was known.
#[derive(PartialEq, Eq)]
enum Key {
    Known,
    Unknown,
}

fn set(filter: &mut DeadFilter, key: &str, value: &str) -> Result<Key, Problem> {
    match key {
        "queue" => filter.queue = Some(value.to_owned()),
        "type" => filter.job_type = Some(value.to_owned()),
        "error_type" => filter.error_type = Some(value.to_owned()),
        "since" => filter.since = Some(when("since", value)?),
        "until" => filter.until = Some(when("until", value)?),
        _ => return Ok(Key::Unknown),
    }
    Ok(Key::Known)
}

/// A moment, or a length of time ago such as `24h`.
fn when(key: &str, value: &str) -> Result<When, Problem> {
    let bad = |message: String| Problem::new(Code::InvalidRequest, message).detail("field", key);
    match Time::parse(value) {
        Ok(time) => Ok(When::At(time)),
        Err(error @ TimeError::NoZone(_)) => Err(bad(format!("{key}: {error}"))),
        Err(error @ TimeError::Malformed(_)) => {
            Length::parse(value).map(When::Ago).map_err(|_| bad(format!("{key}: {error}")))
        }
    }
}

/// Reads a bulk call. A key that we do not know is refused: left out, it would mean more jobs than were meant.
pub(super) fn bulk(body: &str) -> Result<Bulk, Problem> {
    let body: Value = if body.trim().is_empty() {
        Value::Object(serde_json::Map::new())
    } else {
        serde_json::from_str(body)
            .map_err(|error| Problem::new(Code::InvalidPayload, format!("not a JSON object: {error}")))?
    };
    let Some(fields) = body.as_object() else {
        return Err(Problem::new(Code::InvalidPayload, "the body must be a JSON object"));
    };
    if fields.get("confirm") != Some(&Value::Bool(true)) {
        return Err(Problem::new(Code::ConfirmRequired, "a bulk retry has to be confirmed")
            .detail("field", "confirm"));
    }
    let mut filter = DeadFilter::default();
    match fields.get("filter") {
        None | Some(Value::Null) => {}
        Some(Value::Object(keys)) => {
            for (key, value) in keys {
                set_from_json(&mut filter, key, value)?;
            }
        }
        Some(_) => {
            return Err(
                Problem::new(Code::SchemaValidation, "filter must be an object").detail("field", "filter")
            );
        }
    }
    let expected = match fields.get("expected_count") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_u64().ok_or_else(|| {
            Problem::new(Code::SchemaValidation, "expected_count must be a number")
                .detail("field", "expected_count")
        })?),
    };
    let all = fields.get("all") == Some(&Value::Bool(true)) && expected.is_some();
    if filter.is_empty() && !all {
        return Err(Problem::new(Code::FilterRequired, "without a filter every job would be put back"));
    }
    Ok(Bulk { filter, expected })
}

fn set_from_json(filter: &mut DeadFilter, key: &str, value: &Value) -> Result<(), Problem> {
    let field = format!("filter.{}", shown(key));
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let message = format!("{field} must be a text");
            return Err(Problem::new(Code::SchemaValidation, message).detail("field", field));
        }
    };
    let Some(text) = given(text) else { return Ok(()) };
    // Every job in the dead letter is discarded, so this says nothing.
    if (key, text) == ("state", "discarded") || set(filter, key, text)? == Key::Known {
        return Ok(());
    }
    let message = format!("{field} cannot be asked for");
    Err(Problem::new(Code::InvalidRequest, message)
        .hint("known: queue, type, error_type, since, until")
        .detail("field", field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_list_without_parameters_asks_for_everything_from_the_start() {
        for query in [&[][..], &[("queue", " "), ("limit", ""), ("whatever", "x")]] {
            let (filter, paging) = list(&pairs(query)).unwrap();
            assert!(filter.is_empty());
            assert_eq!((paging.limit, paging.offset, paging.cursor), (50, 0, None));
        }
    }

    #[test]
    fn more_rows_than_there_may_be_are_brought_down_and_nonsense_is_refused() {
        assert_eq!(list(&pairs(&[("limit", "99999999")])).unwrap().1.limit, 1_000);
        assert_eq!(admin_list(&pairs(&[("per_page", "500")])).unwrap().1.per_page, 100);
        for bad in [
            ("limit", "0"),
            ("limit", "-1"),
            ("limit", "x"),
            ("offset", "100001"),
            ("offset", "x"),
            ("since", "yesterday"),
            ("until", "2026-11-15T03:00:00"),
        ] {
            assert!(list(&pairs(&[bad])).is_err(), "{bad:?}");
        }
        assert!(admin_list(&pairs(&[("page", "0")])).is_err());
        let far = admin_list(&pairs(&[("page", "18446744073709551615")])).unwrap().1;
        assert!(far.offset().is_err());
    }

    #[test]
    fn a_bulk_call_needs_to_be_confirmed_and_to_say_what_it_is_about() {
        for bad in [
            "",
            "{}",
            "[]",
            "{",
            r#"{"filter":{"queue":"q"}}"#,
            r#"{"filter":{"queue":"q"},"confirm":"true"}"#,
            r#"{"confirm":true}"#,
            r#"{"confirm":true,"filter":{}}"#,
            r#"{"confirm":true,"filter":{"queue":""}}"#,
            r#"{"confirm":true,"filter":{"state":"discarded"}}"#,
            r#"{"confirm":true,"filter":{"state":"active","queue":"q"}}"#,
            r#"{"confirm":true,"filter":{"que":"q"}}"#,
            r#"{"confirm":true,"filter":{"queue":["q"]}}"#,
            r#"{"confirm":true,"filter":"queue"}"#,
            r#"{"confirm":true,"all":true}"#,
            r#"{"confirm":true,"all":true,"expected_count":-1}"#,
        ] {
            assert!(bulk(bad).is_err(), "{bad}");
        }
        let all = bulk(r#"{"confirm":true,"all":true,"expected_count":3}"#).unwrap();
        assert!(all.filter.is_empty());
        assert_eq!(all.expected, Some(3));
        let some = bulk(r#"{"confirm":true,"filter":{"queue":"q","type":"a.*","since":"24h"}}"#).unwrap();
        assert_eq!(some.filter.queue.as_deref(), Some("q"));
    }
}
