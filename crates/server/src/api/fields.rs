//! The fields of a request, taken out one by one. What is wrong is told by the field's name; what is left over is unknown.

use std::ops::RangeInclusive;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::{Map, Value};

use super::problem::{Code, Problem};
use crate::raw_json::shown;

/// An object of a body, as far as it has not been taken out yet. A null is as good as nothing.
#[derive(Debug)]
pub(crate) struct Fields {
    left: Map<String, Value>,
    /// What its fields stand under, with a dot at the end.
    under: String,
    asked: Vec<&'static str>,
}

impl Fields {
    /// Reads a body that is an object, or nothing at all.
    pub fn read(body: &[u8]) -> Result<Fields, Problem> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields::of(Map::new(), String::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => Ok(Fields::of(object, String::new())),
            Ok(_) => Err(Problem::new(Code::BadJson, "the body must be an object")),
            Err(error) => Err(Problem::new(Code::BadJson, format!("the body is not JSON: {error}"))),
        }
    }

    /// The fields of one object of a list.
    pub fn of_item(value: Value, path: &str) -> Result<Fields, Problem> {
        match value {
            Value::Object(object) => Ok(Fields::of(object, format!("{path}."))),
            other => Err(wrong(path, "an object", &other)),
        }
    }

    fn of(left: Map<String, Value>, under: String) -> Fields {
        Fields { left, under, asked: Vec::new() }
    }

    /// The whole name of a field.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.under)
    }

    /// Takes whatever stands there.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.take_or_null(name).filter(|value| !value.is_null())
    }

    /// Takes whatever stands there, where null means something.
    pub fn take_or_null(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        self.left.remove(name)
    }

    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(name), "a text", &other)),
        }
    }

    pub fn needed_text(&mut self, name: &'static str) -> Result<String, Problem> {
        match self.text(name)? {
            Some(text) => Ok(text),
            None => Err(self.missing(name)),
        }
    }

    /// A text that is kept as such. A NUL has no place in it: one of the stores cannot hold it.
    pub fn kept_text(&mut self, name: &'static str) -> Result<String, Problem> {
        let text = self.needed_text(name)?;
        without_nul(&self.path(name), text)
    }

    /// A reason as every door takes one: trimmed, an empty one is none.
    pub fn reason(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let Some(reason) = self.text(name)? else { return Ok(None) };
        if reason.len() > limits::REASON_BYTES_MAX {
            let max = limits::REASON_BYTES_MAX;
            return Err(bad(&self.path(name), format!("is longer than {max} bytes")));
        }
        let reason = without_nul(&self.path(name), reason)?;
        Ok(Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty()))
    }

    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(&self.path(name), "true or false", &other)),
        }
    }

    pub fn count(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| wrong(&self.path(name), "a whole number", &value))
            }
        }
    }

    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        number(&self.path(name), &value, range).map(Some)
    }

    pub fn length_ms(&mut self, name: &'static str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let length = Length::parse(&text).map_err(|error| bad(&self.path(name), error.to_string()))?;
        Ok(Some(length.ms()))
    }

    pub fn time(&mut self, name: &'static str) -> Result<Option<Time>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        Time::parse(&text).map(Some).map_err(|error| bad(&self.path(name), error.to_string()))
    }

    pub fn object(&mut self, name: &'static str) -> Result<Option<Fields>, Problem> {
        let path = self.path(name);
        self.take(name).map(|value| Fields::of_item(value, &path)).transpose()
    }

    /// Takes a list of at most so many values, and of one at least.
    pub fn list(&mut self, name: &'static str, max: usize) -> Result<Option<Vec<Value>>, Problem> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) if items.is_empty() => Err(bad(&path, "is an empty array")),
            Some(Value::Array(items)) if items.len() > max => {
                Err(bad(&path, format!("has {} entries; the maximum is {max}", items.len())))
            }
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong(&path, "a list", &other)),
        }
    }

    pub fn missing(&self, name: &str) -> Problem {
        bad(&self.path(name), "is missing")
    }

    /// Refuses what nobody asked for, so that a slip is not passed over.
    pub fn end(self) -> Result<(), Problem> {
        let Some(name) = self.left.keys().next() else { return Ok(()) };
        let path = self.path(name);
        let problem = Problem::new(Code::BadRequest, format!("unknown field `{}`", shown(&path)))
            .with("field", shown(&path).to_string());
        Err(match self.asked.as_slice() {
            [] => problem.hint("no fields are accepted here"),
            known => problem.hint(format!("known: {}", known.join(", "))),
        })
    }
}

pub(crate) fn without_nul(path: &str, text: String) -> Result<String, Problem> {
    if text.contains('\0') { Err(bad(path, "contains a NUL character")) } else { Ok(text) }
}

/// A whole number within a range.
pub(crate) fn number(path: &str, value: &Value, range: RangeInclusive<u32>) -> Result<u32, Problem> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| wrong(path, &format!("an integer from {} to {}", range.start(), range.end()), value))
}

/// A field that cannot be taken as it is.
pub(crate) fn bad(path: &str, problem: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, format!("{path} {problem}")).with("field", path)
}

pub(crate) fn wrong(path: &str, expected: &str, value: &Value) -> Problem {
    let given = match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            shown(&value.to_string()).to_string()
        }
    };
    bad(path, format!("must be {expected}, got {given}"))
}

/// One of the known words.
pub(crate) fn word<T>(
    path: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    known: &[&str],
) -> Result<T, Problem> {
    parse(text).ok_or_else(|| {
        bad(path, format!("`{}` is unknown", shown(text))).hint(format!("known: {}", known.join(", ")))
    })
}
