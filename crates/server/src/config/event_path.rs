//! A JSON path (RFC 9535) that finds one value in an original event.
//!
//! Events are a stranger's, so only what takes bounded time is allowed: names, indexes, `*` and one `..`; no filters,
//! slices or lists of selectors, which also have no place in naming one value. We walk the event ourselves, because
//! the crate writes down the full path of every node that it visits, which long names in an event make enormous.

use lazaret_core::limits;
use std::fmt;

use jsonpath_rust::parser::model::{Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use serde_json::Value;

use super::problem::quoted;

/// A parsed path.
#[derive(Clone, PartialEq, Eq)]
pub struct EventPath {
    text: String,
    steps: Vec<Step>,
}

/// Why a text is not a path that we follow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{shown} {reason}")]
pub struct BadEventPath {
    shown: String,
    reason: &'static str,
}

#[derive(Clone, PartialEq, Eq)]
struct Step {
    reach: Reach,
    pick: Pick,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Child,
    /// `..`: the children of this value and of all below it.
    Descendant,
}

#[derive(Clone, PartialEq, Eq)]
enum Pick {
    Name(String),
    /// From the end when negative.
    Index(i64),
    Any,
}

impl EventPath {
    pub fn parse(text: &str) -> Result<EventPath, BadEventPath> {
        let bad = |reason| BadEventPath { shown: quoted(text), reason };
        if text.len() > limits::EVENT_PATH_BYTES_MAX {
            return Err(bad("is longer than 256 bytes"));
        }
        // Asked before parsing, because nested filters take the parser exponential time.
        if text.contains('?') {
            return Err(bad(FILTERED));
        }
        let query = parse_json_path(text).map_err(|_| {
            bad("is not a JSON path; write it like $.payload.orderId or $.lines[0]['order id']")
        })?;
        let steps: Vec<Step> = query.segments.iter().map(step).collect::<Result<_, _>>().map_err(bad)?;
        if steps.is_empty() {
            return Err(bad("is the whole event; name a value in it, like $.payload.orderId"));
        }
        if steps.iter().filter(|step| step.reach == Reach::Descendant).count() > 1 {
            return Err(bad("holds `..` more than once"));
        }
        Ok(EventPath { text: text.to_owned(), steps })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first match: a text as it is, a number or boolean by its JSON text, anything else as nothing.
    pub fn find(&self, event: &Value) -> Option<String> {
        match first(&self.steps, event)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl fmt::Debug for EventPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventPath({:?})", self.text)
    }
}

const FILTERED: &str = "holds a filter; use only names, indexes, * and one ..";

fn step(segment: &Segment) -> Result<Step, &'static str> {
    let (reach, selector) = match segment {
        Segment::Selector(selector) => (Reach::Child, selector),
        Segment::Descendant(inner) => match inner.as_ref() {
            Segment::Selector(selector) => (Reach::Descendant, selector),
            Segment::Descendant(_) | Segment::Selectors(_) => return Err(LISTED),
        },
        Segment::Selectors(_) => return Err(LISTED),
    };
    let pick = match selector {
        Selector::Name(name) => Pick::Name(name.clone()),
        Selector::Index(index) => Pick::Index(*index),
        Selector::Wildcard => Pick::Any,
        Selector::Slice(..) => return Err("holds a slice; use only names, indexes, * and one .."),
        Selector::Filter(_) => return Err(FILTERED),
    };
    Ok(Step { reach, pick })
}

const LISTED: &str = "holds a list of selectors; use only names, indexes, * and one ..";

/// Visits each value at most once per step, and recurses no deeper than the event.
fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    let here = match &step.pick {
        Pick::Name(name) => value.get(name).and_then(|child| first(rest, child)),
        Pick::Index(index) => at(value, *index).and_then(|child| first(rest, child)),
        Pick::Any => first_below(value, |child| first(rest, child)),
    };
    match step.reach {
        Reach::Child => here,
        Reach::Descendant => here.or_else(|| first_below(value, |child| first(steps, child))),
    }
}

fn first_below<'a>(value: &'a Value, find: impl FnMut(&'a Value) -> Option<&'a Value>) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.iter().find_map(find),
        Value::Object(members) => members.values().find_map(find),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn at(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    items.get(if index < 0 { items.len().checked_sub(distance)? } else { distance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonpath_rust::JsonPath;
    use serde_json::json;

    fn event() -> Value {
        json!({
            "payload": {
                "orderId": "o-7", "number": 12.50, "big": u64::MAX, "paid": false, "none": null,
                "order id": "spaced", "lines": [{"sku": "a"}, {"sku": "b", "deep": {"id": 3}}],
            },
            "metadata": {"tenantId": "acme"},
            "ünïcode": "ü",
        })
    }

    #[test]
    fn a_path_finds_its_first_value_as_text() {
        let cases = [
            ("$.payload.orderId", Some("o-7")),
            ("$['payload']['order id']", Some("spaced")),
            ("$.payload.number", Some("12.5")),
            ("$.payload.big", Some("18446744073709551615")),
            ("$.payload.paid", Some("false")),
            ("$.payload.none", None),
            ("$.payload.lines", None),
            ("$.payload", None),
            ("$.payload.lines[0].sku", Some("a")),
            ("$.payload.lines[-1].sku", Some("b")),
            ("$.payload.lines[-3].sku", None),
            ("$.payload.lines[2].sku", None),
            ("$.payload.lines[*].deep.id", Some("3")),
            ("$..id", Some("3")),
            ("$..tenantId", Some("acme")),
            ("$.ünïcode", Some("ü")),
            ("$.missing.entirely", None),
            ("$.payload.orderId.further", None),
        ];
        for (path, found) in cases {
            assert_eq!(EventPath::parse(path).unwrap().find(&event()).as_deref(), found, "{path}");
        }
        assert_eq!(EventPath::parse("$.a").unwrap().find(&json!("not an object")), None);
    }

    #[test]
    fn the_walk_agrees_with_the_crate() {
        let event = event();
        for path in
            ["$.*", "$.*.*", "$.payload.*", "$.payload.lines[*].sku", "$..sku", "$..[0]", "$..lines[1].*"]
        {
            let steps = EventPath::parse(path).unwrap().steps;
            assert_eq!(first(&steps, &event), event.query(path).unwrap().first().copied(), "{path}");
        }
    }

    #[test]
    fn a_path_that_could_be_slow_or_means_nothing_is_refused() {
        let nested = format!("$[?{}@.a{}]", "(".repeat(100), ")".repeat(100));
        let long = format!("$.{}", "a".repeat(limits::EVENT_PATH_BYTES_MAX));
        let deep = "[".repeat(200);
        let cases = [
            ("", "is not a JSON path"),
            ("payload.orderId", "is not a JSON path"),
            ("$.", "is not a JSON path"),
            ("$.a[", "is not a JSON path"),
            ("$[99999999999999999999]", "is not a JSON path"),
            (&deep, "is not a JSON path"),
            ("$", "is the whole event"),
            ("$.a[?@.b]", "holds a filter"),
            (&nested, "holds a filter"),
            ("$..a..b", "holds `..` more than once"),
            ("$.a[0,1]", "holds a list of selectors"),
            ("$..[*,*]", "holds a list of selectors"),
            ("$.a[0:2]", "holds a slice"),
            (&long, "is longer than 256 bytes"),
        ];
        for (path, reason) in cases {
            let message = EventPath::parse(path).unwrap_err().to_string();
            assert!(message.contains(reason), "{path}: {message}");
        }
    }
}
