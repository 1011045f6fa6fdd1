//! A JSON path (RFC 9535) that finds one value in an original event.
//!
//! Every event that is captured is asked, so only what walks through it once is allowed: names, indexes, `*` and one
//! `..`; no filters, slices or lists of selectors, which also have no place in naming one value.

use std::fmt;

use lazaret_core::json_path::{Extra, PathError, PathProblem, Query};
use lazaret_core::limits;
use serde_json::Value;

use super::problem::quoted;

/// A parsed path.
#[derive(Clone, PartialEq, Eq)]
pub struct EventPath(Query);

/// Why a text is not a path that we follow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{shown} {reason}")]
pub struct BadEventPath {
    shown: String,
    reason: &'static str,
}

impl EventPath {
    pub fn parse(text: &str) -> Result<EventPath, BadEventPath> {
        let bad = |reason| BadEventPath { shown: quoted(text), reason };
        if text.len() > limits::EVENT_PATH_BYTES_MAX {
            return Err(bad("is longer than 256 bytes"));
        }
        let query = Query::parse(text).map_err(|PathError { problem, .. }| {
            if problem == PathProblem::DescendsTwice {
                bad("holds `..` more than once")
            } else if matches!(problem, PathProblem::TooNested | PathProblem::NestedFilter) {
                // Nothing but a filter nests.
                bad(FILTERED)
            } else {
                bad("is not a JSON path; write it like $.payload.orderId or $.lines[0]['order id']")
            }
        })?;
        match query.extra() {
            Some(Extra::Filter) => Err(bad(FILTERED)),
            Some(Extra::Slice) => Err(bad("holds a slice; use only names, indexes, * and one ..")),
            Some(Extra::List) => Err(bad("holds a list of selectors; use only names, indexes, * and one ..")),
            None if query.is_root() => {
                Err(bad("is the whole event; name a value in it, like $.payload.orderId"))
            }
            None => Ok(EventPath(query)),
        }
    }

    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The first match: a text as it is, a number or boolean by its JSON text, anything else as nothing. An event that
    /// is too large to be walked through has none.
    pub fn find(&self, event: &Value) -> Option<String> {
        match self.0.first(event).ok()?? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl fmt::Debug for EventPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventPath({:?})", self.text())
    }
}

const FILTERED: &str = "holds a filter; use only names, indexes, * and one ..";

#[cfg(test)]
mod tests {
    use super::*;
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
            ("$.*.*", Some("acme")),
            ("$.payload.*", Some("18446744073709551615")),
            ("$..[0]", None),
            ("$..lines[0].*", Some("a")),
            ("$['what?']", None),
            ("$.missing.entirely", None),
            ("$.payload.orderId.further", None),
        ];
        for (path, found) in cases {
            assert_eq!(EventPath::parse(path).unwrap().find(&event()).as_deref(), found, "{path}");
        }
        assert_eq!(EventPath::parse("$.a").unwrap().find(&json!("not an object")), None);
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
