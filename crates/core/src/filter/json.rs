//! The filter as JSON: `{"queue": ["billing"], "since": "24h", "not": {"status": "resolved"}}`.
//!
//! The names of DLQ's `filterCriteria` are understood as they stand and written back as ours.

use serde_json::{Map, Value, json};

use super::error::FilterError;
use super::key::{Form, Key, Side, shown};
use super::value::length;
use super::{Bounds, Filter, Held};

const TEXTS: &str = "a string or a list of strings";
const TEXT: &str = "a string";
const YES_OR_NO: &str = "true or false";
const COUNT: &str = "a whole number from 0 to 4294967295";
const COUNTS: &str = "a whole number, or an object with min and max";
const LENGTHS: &str = "an object with min and max, such as {\"min\": \"7d\"} for older than that";

impl Filter {
    /// Reads an object; an empty one is the empty filter.
    pub fn from_json(value: &Value) -> Result<Filter, FilterError> {
        let Value::Object(object) = value else {
            return Err(FilterError::NotAnObject { given: kind(value) });
        };
        let mut filter = Filter::default();
        for (name, value) in object {
            match name.as_str() {
                "not" => exclude(&mut filter, value)?,
                "errorTypes" => add(&mut filter, Key::Error, Side::Include, name, value)?,
                "eventPatterns" => add(&mut filter, Key::Type, Side::Include, name, value)?,
                "maxAge" => {
                    let max = Some(length(text(name, value)?)?);
                    filter.age.narrow(Bounds { min: None, max }, Key::Age.name(Form::Json))?;
                }
                "minRetryCount" => {
                    let min = Some(count(name, value)?);
                    filter.retries.narrow(Bounds { min, max: None }, Key::Retries.name(Form::Json))?;
                }
                "maxRetryCount" => {
                    let max = Some(count(name, value)?);
                    filter.retries.narrow(Bounds { min: None, max }, Key::Retries.name(Form::Json))?;
                }
                _ => {
                    let key =
                        Key::find(name, Form::Json).ok_or_else(|| Key::unknown(name, name, Form::Json))?;
                    add(&mut filter, key, Side::Include, name, value)?;
                }
            }
        }
        filter.check(Form::Json)
    }

    /// The canonical object, which `from_json` reads back to the same filter. Lists are always lists.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut not = Map::new();
        for key in Key::ALL {
            let name = key.name(Form::Json);
            let values = self.values(key, Side::Include);
            let excluded = self.values(key, Side::Exclude);
            if !excluded.is_empty() {
                not.insert(name.into(), excluded.into());
            }
            if values.is_empty() {
                continue;
            }
            let value = match key {
                Key::Held => json!(self.held == Some(Held::Yes)),
                Key::Since | Key::Until | Key::Text | Key::Body => json!(values.join(" ")),
                Key::Age => {
                    bounds(self.age.min.map(|age| age.to_string()), self.age.max.map(|age| age.to_string()))
                }
                Key::Retries => bounds(self.retries.min, self.retries.max),
                Key::Queue | Key::Type | Key::Error | Key::Class | Key::Code | Key::Status => json!(values),
                Key::Source | Key::Incident | Key::Subscriber | Key::Aggregate | Key::Tenant | Key::Event => {
                    json!(values)
                }
                Key::Contains | Key::Path | Key::HeaderPath => json!(values),
            };
            object.insert(name.into(), value);
        }
        if !not.is_empty() {
            object.insert("not".into(), not.into());
        }
        Value::Object(object)
    }
}

fn add(filter: &mut Filter, key: Key, side: Side, name: &str, value: &Value) -> Result<(), FilterError> {
    match key {
        Key::Held => {
            let Value::Bool(held) = value else { return Err(wrong(name, YES_OR_NO, value)) };
            filter.add(key, Form::Json, side, &[held.to_string()])
        }
        Key::Since | Key::Until | Key::Text | Key::Body => {
            filter.add(key, Form::Json, side, &[text(name, value)?.to_owned()])
        }
        Key::Age => {
            let (min, max) = ends(name, value, LENGTHS)?;
            let read = |(name, value): (String, &Value)| length(text(&name, value)?);
            let by = Bounds { min: min.map(read).transpose()?, max: max.map(read).transpose()? };
            filter.age.narrow(by, key.name(Form::Json))
        }
        Key::Retries => {
            let by = if value.is_number() {
                let exactly = Some(count(name, value)?);
                Bounds { min: exactly, max: exactly }
            } else {
                let (min, max) = ends(name, value, COUNTS)?;
                let read = |(name, value): (String, &Value)| count(&name, value);
                Bounds { min: min.map(read).transpose()?, max: max.map(read).transpose()? }
            };
            filter.retries.narrow(by, key.name(Form::Json))
        }
        Key::Queue | Key::Type | Key::Error | Key::Class | Key::Code | Key::Status => {
            filter.add(key, Form::Json, side, &texts(name, value)?)
        }
        Key::Source | Key::Incident | Key::Subscriber | Key::Aggregate | Key::Tenant | Key::Event => {
            filter.add(key, Form::Json, side, &texts(name, value)?)
        }
        Key::Contains | Key::Path | Key::HeaderPath => {
            filter.add(key, Form::Json, side, &texts(name, value)?)
        }
    }
}

fn exclude(filter: &mut Filter, value: &Value) -> Result<(), FilterError> {
    let Value::Object(object) = value else {
        return Err(wrong("not", "an object such as {\"queue\": \"billing\"}", value));
    };
    if object.is_empty() {
        return Err(FilterError::NoEntries { key: "not".into() });
    }
    for (name, value) in object {
        let key = match name.as_str() {
            "errorTypes" => Key::Error,
            "eventPatterns" => Key::Type,
            _ => Key::find(name, Form::Json).ok_or_else(|| Key::unknown(name, name, Form::Json))?,
        };
        if !key.is_excludable() {
            return Err(FilterError::NotExcludable { key: key.name(Form::Json), form: Form::Json });
        }
        add(filter, key, Side::Exclude, &format!("not.{name}"), value)?;
    }
    Ok(())
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, FilterError> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        // Whether nothing or everything is meant cannot be told.
        Value::Array(values) if values.is_empty() => Err(FilterError::NoEntries { key: shown(name) }),
        Value::Array(values) => {
            let text =
                |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, TEXTS, value));
            values.iter().map(text).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(wrong(name, TEXTS, value)),
    }
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, FilterError> {
    value.as_str().ok_or_else(|| wrong(name, TEXT, value))
}

fn count(name: &str, value: &Value) -> Result<u32, FilterError> {
    value.as_u64().and_then(|count| u32::try_from(count).ok()).ok_or_else(|| wrong(name, COUNT, value))
}

/// The two ends of a range with their names, of which there has to be one.
type Ends<'a> = (Option<(String, &'a Value)>, Option<(String, &'a Value)>);

fn ends<'a>(name: &str, value: &'a Value, expected: &'static str) -> Result<Ends<'a>, FilterError> {
    let Value::Object(object) = value else { return Err(wrong(name, expected, value)) };
    if object.is_empty() {
        return Err(FilterError::NoEntries { key: shown(name) });
    }
    if let Some(other) = object.keys().find(|key| *key != "min" && *key != "max") {
        return Err(FilterError::UnknownEnd { key: shown(name), end: shown(other) });
    }
    let end = |end: &str| object.get(end).map(|value| (format!("{name}.{end}"), value));
    Ok((end("min"), end("max")))
}

fn bounds(min: Option<impl Into<Value>>, max: Option<impl Into<Value>>) -> Value {
    let mut object = Map::new();
    if let Some(min) = min {
        object.insert("min".into(), min.into());
    }
    if let Some(max) = max {
        object.insert("max".into(), max.into());
    }
    Value::Object(object)
}

fn wrong(name: &str, expected: &'static str, value: &Value) -> FilterError {
    FilterError::WrongType { key: shown(name), expected, given: kind(value) }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
