//! JSON taken apart and put together one level at a time, each value kept as the text it came in.
//!
//! A job's arguments belong to the application: numbers keep their digits, objects their order, and half a surrogate
//! pair in a text is no reason to lose a job or a failure. Never builds a tree out of what a stranger sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::time::Time;
use crate::{limits, surrogates};

/// The fields of a JSON object in their order, values verbatim. Of a name that occurs twice the last value counts.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

/// Fields of an object up to which comparing every two names is quicker than sorting them.
const FIELDS_COMPARED_MAX: usize = 24;

impl<'a> Fields<'a> {
    pub(super) fn read(text: &'a str) -> Result<Fields<'a>, serde_json::Error> {
        let Listed(mut fields) = serde_json::from_str(text)?;
        if fields.len() <= FIELDS_COMPARED_MAX {
            let mut at = 0;
            while at < fields.len() {
                let repeated = fields[at + 1..].iter().any(|(name, _)| *name == fields[at].0);
                if repeated {
                    fields.remove(at);
                } else {
                    at += 1;
                }
            }
        } else {
            let last: BTreeMap<Cow<'a, str>, &'a str> = fields.into_iter().collect();
            fields = last.into_iter().collect();
            // The values are parts of one text, so their addresses tell the order they came in.
            fields.sort_by_key(|(_, raw)| raw.as_ptr());
        }
        Ok(Fields(fields))
    }

    /// Takes a field out; one that says `null` says nothing.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1).filter(|raw| *raw != "null")
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, raw)| *raw).filter(|raw| *raw != "null")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_ref(), *raw))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What has not been taken out, as texts of its own.
    pub(super) fn rest(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(name, raw)| (name.into_owned(), raw.to_owned())).collect()
    }
}

/// The fields of an object as they stand there, repeated names and all.
struct Listed<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de> Deserialize<'de> for Listed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Listed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listed<'de>, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(Name(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    fields.push((name, value.get()));
                }
                Ok(Listed(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// The name of a field, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A JSON object in the making, behind whatever text it is begun on.
#[derive(Debug)]
pub struct ObjectText {
    text: String,
    /// Where its first field stands.
    first: usize,
}

impl Default for ObjectText {
    fn default() -> ObjectText {
        ObjectText::new()
    }
}

impl ObjectText {
    pub fn new() -> ObjectText {
        ObjectText::onto(String::with_capacity(256))
    }

    /// Begins an object behind a text, which `end` gives back with it.
    pub fn onto(mut text: String) -> ObjectText {
        text.push('{');
        ObjectText { first: text.len(), text }
    }

    /// Adds a value that is JSON text already.
    pub fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.text.push_str(json);
    }

    pub fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        quote_onto(&mut self.text, value);
    }

    /// Adds a value whose text needs no escapes: an id or a time.
    pub fn shown(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        self.text.push('"');
        self.write(format_args!("{value}"));
        self.text.push('"');
    }

    pub fn number(&mut self, name: &str, value: impl Into<i128> + fmt::Display) {
        self.name(name);
        self.write(format_args!("{value}"));
    }

    pub fn time(&mut self, name: &str, value: Option<Time>) {
        if let Some(time) = value {
            self.shown(name, time);
        }
    }

    /// Adds an object that `fill` fills.
    pub fn object(&mut self, name: &str, fill: impl FnOnce(&mut ObjectText)) {
        self.name(name);
        self.text = object_onto(std::mem::take(&mut self.text), fill);
    }

    /// Adds a list whose items `add` writes, one at a time, behind the text it is given.
    pub fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut add: impl FnMut(String, T) -> String,
    ) {
        self.name(name);
        self.text.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.text = add(std::mem::take(&mut self.text), item);
        }
        self.text.push(']');
    }

    /// Adds a list of texts.
    pub fn texts<'t>(&mut self, name: &str, texts: impl IntoIterator<Item = &'t str>) {
        self.list(name, texts, |mut text, item| {
            quote_onto(&mut text, item);
            text
        });
    }

    pub fn is_empty(&self) -> bool {
        self.text.len() == self.first
    }

    pub fn end(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty() {
            self.text.push(',');
        }
        quote_onto(&mut self.text, name);
        self.text.push(':');
    }

    fn write(&mut self, value: fmt::Arguments<'_>) {
        // Writing to a text cannot fail; a value that fails to show itself shows less.
        self.text.write_fmt(value).ok();
    }
}

/// An object behind a text, with the fields that `fill` adds.
pub(super) fn object_onto(text: String, fill: impl FnOnce(&mut ObjectText)) -> String {
    let mut object = ObjectText::onto(text);
    fill(&mut object);
    object.end()
}

/// A JSON list of values that are JSON text already.
#[cfg(test)]
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    format!("[{}]", items.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(","))
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    quote_onto(&mut json, text);
    json
}

fn quote_onto(json: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        json.push_str(&serde_json::Value::from(text).to_string());
    } else {
        json.push('"');
        json.push_str(text);
        json.push('"');
    }
}

/// Reads a JSON string. Half a surrogate pair, which JavaScript writes when it cuts a text, becomes U+FFFD.
pub(super) fn text(raw: &str) -> Option<String> {
    serde_json::from_str(raw).or_else(|_| serde_json::from_str(&surrogates::mend(raw))).ok()
}

/// Reads a number to its last digit, which serde_json alone does not.
pub(super) fn number(raw: &str) -> Option<f64> {
    let begins = raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if begins { raw.parse().ok() } else { None }
}

/// Reads a whole number, also where a program wrote it as `30.0`.
pub(super) fn whole(raw: &str) -> Option<i64> {
    if let Ok(number) = serde_json::from_str(raw) {
        return Some(number);
    }
    let number = number(raw)?;
    // Up to here every whole number has a double of its own.
    (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
}

/// The items of a JSON list, verbatim.
pub(super) fn items(raw: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// A value that readers of answers can follow: one that is nested too deeply becomes a text that holds it.
pub(super) fn tamed(raw: &str) -> Cow<'_, str> {
    if depth(raw) > limits::JOB_DEPTH_MAX { Cow::Owned(quoted(raw)) } else { Cow::Borrowed(raw) }
}

/// How deep a valid JSON text is nested; a bare value is 0.
pub(super) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut in_text = false;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => {
                bytes.next();
            }
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What kind of value a JSON text is, in the words of an error message.
pub(super) fn kind(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A stranger's text, short enough for an error message.
pub(super) fn shown(text: &str) -> String {
    let mut short: String =
        text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_their_digits_and_the_last_of_equals_counts() {
        let fields = Fields::read(r#" {"z":1e400,"a": [1,  2],"z":{"x":0.10}, "n":null} "#).unwrap();
        let seen: Vec<_> = fields.iter().collect();
        assert_eq!(seen, [("a", "[1,  2]"), ("z", r#"{"x":0.10}"#), ("n", "null")]);
        assert_eq!(fields.get("n"), None);
        assert!(Fields::read("[1]").is_err());
    }

    #[test]
    fn half_a_surrogate_pair_is_mended_and_a_whole_one_is_kept() {
        for (raw, expected) in [
            (r#""a\ud83dz""#, "a\u{fffd}z"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        ] {
            assert_eq!(text(raw).as_deref(), Some(expected), "{raw}");
        }
        assert_eq!(text("\"\\ud8\""), None);
    }

    #[test]
    fn depth_is_counted_outside_of_texts() {
        for (text, expected) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#""[[""#, 0), (r#"["\"[["]"#, 1)]
        {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        for (raw, expected) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("5.0", Some(5)),
            ("5e2", Some(500)),
            ("5.5", None),
            ("\"5\"", None),
            ("1e300", None),
            ("true", None),
        ] {
            assert_eq!(whole(raw), expected, "{raw}");
        }
    }
}
