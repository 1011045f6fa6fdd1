//! Which jobs of the dead letter are meant, in the words of the specification. It says nothing that the one filter for
//! letters does not say, and becomes that filter here.

use lazaret_core::duration::Length;
use lazaret_core::filter::{Filter, PathCondition, When};
use lazaret_core::job::state::JobState;
use lazaret_core::json_path::{PathError, PathProblem};
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::{Time, TimeError};
use serde_json::Value;

use crate::ojs::given;
use crate::ojs::problem::{Code, Problem};
use crate::raw_json::shown;

/// What can be asked for.
pub(super) const KEYS: &str = "queue, type, error_type, since, until, older_than, args, args_path, state";

/// A filter that is being read.
#[derive(Default)]
pub(super) struct Wanted(Filter);

/// Whether a key was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Known,
    Unknown,
}

impl Wanted {
    /// Takes a value as it stands in a query. One that says nothing asks for nothing.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<Key, Problem> {
        let filter = &mut self.0;
        // A text to be found may begin or end with a space.
        let Some(text) = given(value) else {
            return Ok(if is_known(key) { Key::Known } else { Key::Unknown });
        };
        match key {
            "queue" => drop(filter.queue.include.insert(Pattern::new(text))),
            "type" => drop(filter.letter_type.include.insert(Pattern::new(text))),
            "error_type" => drop(filter.error_type.include.insert(Pattern::new(text))),
            "since" => once(&mut filter.since, when("since", text)?, "since")?,
            "until" => once(&mut filter.until, when("until", text)?, "until")?,
            "older_than" => once(&mut filter.age.min, length("older_than", text)?, "older_than")?,
            "args" if text.starts_with('$') => drop(filter.path.include.insert(path("args", text)?)),
            "args" => drop(filter.contains.insert(value.to_owned())),
            "args_path" => drop(filter.path.include.insert(path("args_path", text)?)),
            "state" => state(text)?,
            _ => return Ok(Key::Unknown),
        }
        Ok(Key::Known)
    }

    /// Takes a value as it stands in JSON; `field` is where that is.
    pub(super) fn take_json(&mut self, key: &str, value: &Value, field: &str) -> Result<Key, Problem> {
        match value {
            Value::Null => Ok(if is_known(key) { Key::Known } else { Key::Unknown }),
            Value::String(text) => self.take(key, text),
            _ if !is_known(key) => Ok(Key::Unknown),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let message = format!("{field} must be a string");
                Err(Problem::new(Code::SchemaValidation, message).detail("field", field))
            }
        }
    }

    /// The filter, which has passed the checks that every filter passes.
    pub(super) fn filter(self) -> Result<Filter, Problem> {
        Filter::from_text(&self.0.to_string())
            .map_err(|error| Problem::new(Code::InvalidRequest, error.to_string()).detail("field", "filter"))
    }
}

fn is_known(key: &str) -> bool {
    KEYS.split(", ").any(|known| known == key)
}

/// Two values of which only one could hold would match nothing, or more than was meant.
fn once<T: PartialEq>(slot: &mut Option<T>, value: T, key: &str) -> Result<(), Problem> {
    if slot.as_ref().is_some_and(|earlier| *earlier != value) {
        return Err(bad(key, format!("{key} given twice with different values")));
    }
    *slot = Some(value);
    Ok(())
}

/// A moment, or a length of time ago such as `24h`.
fn when(key: &str, value: &str) -> Result<When, Problem> {
    match Time::parse(value) {
        Ok(time) => Ok(When::At(time)),
        Err(error @ TimeError::NoZone(_)) => Err(bad(key, format!("{key}: {error}"))),
        Err(error @ TimeError::Malformed(_)) => {
            length(key, value).map(When::Ago).map_err(|_| bad(key, format!("{key}: {error}")))
        }
    }
}

fn length(key: &str, value: &str) -> Result<Length, Problem> {
    let length = Length::parse(value).map_err(|error| bad(key, format!("{key}: {error}")))?;
    if length.ms() > limits::FILTER_LENGTH_MS_MAX {
        return Err(bad(key, format!("{key}: duration `{}` is too long", shown(value))));
    }
    Ok(length)
}

/// A condition on the arguments. Clients write `==` where we write `=`.
fn path(key: &str, value: &str) -> Result<PathCondition, Problem> {
    let parsed = match PathCondition::parse(value) {
        Err(PathError { at, problem: PathProblem::DoubleEquals }) => {
            let second = |(index, _): &(usize, char)| *index != at;
            let single: String = value.chars().enumerate().filter(second).map(|(_, c)| c).collect();
            PathCondition::parse(&single)
        }
        parsed => parsed,
    };
    parsed.map_err(|error| {
        bad(key, format!("{key}: the path `{}` {error}", shown(value)))
            .hint("use a path such as $[0].customer_id == \"cust_123\"; $ is the array of arguments")
    })
}

/// Every job in the dead letter is discarded, so this can only say so.
fn state(value: &str) -> Result<(), Problem> {
    if value == JobState::Discarded.name() {
        return Ok(());
    }
    let message =
        format!("state `{}` is not possible in the dead letter: all jobs are discarded", shown(value));
    Err(bad("state", message))
}

fn bad(key: &str, message: String) -> Problem {
    Problem::new(Code::InvalidRequest, message).detail("field", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(pairs: &[(&str, &str)]) -> Result<String, String> {
        let mut wanted = Wanted::default();
        for (key, value) in pairs {
            assert_eq!(wanted.take(key, value).map_err(|error| format!("{error:?}"))?, Key::Known, "{key}");
        }
        wanted.filter().map(|filter| filter.to_string()).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn every_key_says_what_the_one_filter_says() {
        for (pairs, expected) in [
            (&[("queue", "billing")][..], "queue:billing"),
            (&[("queue", "a"), ("queue", "b")], "queue:a,b"),
            (&[("type", "invoice.*")], "type:invoice.*"),
            (&[("type", "in*ce.generate")], "type:in*ce.generate"),
            (&[("error_type", "Boom")], "error:Boom"),
            (&[("since", "2026-02-12T00:00:00Z")], "since:2026-02-12T00:00:00.000Z"),
            (&[("since", "24h"), ("until", "PT1H")], "since:P1D until:PT1H"),
            (&[("older_than", "7d")], "age:>P7D"),
            (&[("args", "cust_123")], "contains:cust_123"),
            (&[("args", " a, b ")], "contains:\" a, b \""),
            (&[("args", "$[0].customer_id")], "path:$[0].customer_id"),
            (&[("args", "$[0].customer_id == \"cust_123\"")], r#"path:"$[0].customer_id=\"cust_123\"""#),
            (&[("args", "$[0].id==4711")], "path:$[0].id=4711"),
            (&[("args_path", "$[?@.a == '==']")], "path:\"$[?@.a == '==']\""),
            (&[("state", "discarded"), ("queue", " ")], ""),
        ] {
            assert_eq!(filter(pairs).as_deref(), Ok(expected), "{pairs:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for pairs in [
            &[("since", "yesterday")][..],
            &[("until", "2026-11-15T03:00:00")],
            &[("since", "1h"), ("since", "2h")],
            &[("since", "1h"), ("until", "2h")],
            &[("older_than", "-7d")],
            &[("older_than", "99999999d")],
            &[("args", "$[")],
            &[("args", "$.a === 1")],
            &[("args_path", "customer")],
            &[("state", "active")],
        ] {
            assert!(filter(pairs).is_err(), "{pairs:?}");
        }
        assert_eq!(Wanted::default().take("que", "q").unwrap(), Key::Unknown);
        assert_eq!(Wanted::default().take("que", "").unwrap(), Key::Unknown);
    }
}
