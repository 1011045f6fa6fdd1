//! The value of a header: plain text, or one of the typed values that AMQP 0-9-1 knows.
//!
//! There is one JSON form, used wherever headers are JSON (stores, export, archive, API). Text is a JSON string; every
//! other value is an object `{"type": …, "value": …}`. Numbers that JSON readers may round (`int64`, `timestamp` and
//! floats) are written as text. The form round-trips exactly, so it must never depend on how a value is shown.

mod json;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::json_path::{Json, Members};
use crate::limits;

pub use json::{HeaderError, headers_from_json, headers_to_json};

/// Headers by name, in their order. A name may occur several times.
pub type Headers = Vec<(String, HeaderValue)>;

/// The value of a header.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HeaderValue {
    /// A string of UTF-8; AMQP's long string.
    Text(String),
    Boolean(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    UInt8(u8),
    UInt16(u16),
    UInt32(u32),
    /// The IEEE 754 bits, so that every NaN survives.
    Float32(u32),
    /// The IEEE 754 bits, so that every NaN survives.
    Float64(u64),
    /// `unscaled` divided by ten to the power of `scale`.
    Decimal {
        scale: u8,
        unscaled: u32,
    },
    /// Whole seconds since 1970.
    Timestamp(u64),
    Bytes(Bytes),
    /// A long string that is not UTF-8.
    RawText(Bytes),
    /// AMQP's short string (at most 255 bytes there).
    ShortText(String),
    Array(Vec<HeaderValue>),
    /// Names and values in their order. A name may occur several times.
    Table(Headers),
    Void,
}

impl From<&str> for HeaderValue {
    fn from(text: &str) -> HeaderValue {
        HeaderValue::Text(text.to_owned())
    }
}

impl From<String> for HeaderValue {
    fn from(text: String) -> HeaderValue {
        HeaderValue::Text(text)
    }
}

impl HeaderValue {
    pub fn float32(value: f32) -> HeaderValue {
        HeaderValue::Float32(value.to_bits())
    }

    pub fn float64(value: f64) -> HeaderValue {
        HeaderValue::Float64(value.to_bits())
    }

    /// A long string: text if it is UTF-8.
    pub fn long_string(bytes: Bytes) -> HeaderValue {
        match std::str::from_utf8(&bytes) {
            Ok(text) => HeaderValue::Text(text.to_owned()),
            Err(_) => HeaderValue::RawText(bytes),
        }
    }

    /// The text of a plain text value; nothing for any other.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            HeaderValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text that every reader of text headers would expect: of texts, booleans and numbers. Timestamps, bytes, arrays,
    /// tables and void have none.
    pub fn simple_text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            HeaderValue::Text(text) | HeaderValue::ShortText(text) => Cow::Borrowed(text),
            HeaderValue::Boolean(value) => Cow::Owned(value.to_string()),
            HeaderValue::Int8(value) => Cow::Owned(value.to_string()),
            HeaderValue::Int16(value) => Cow::Owned(value.to_string()),
            HeaderValue::Int32(value) => Cow::Owned(value.to_string()),
            HeaderValue::Int64(value) => Cow::Owned(value.to_string()),
            HeaderValue::UInt8(value) => Cow::Owned(value.to_string()),
            HeaderValue::UInt16(value) => Cow::Owned(value.to_string()),
            HeaderValue::UInt32(value) => Cow::Owned(value.to_string()),
            HeaderValue::Float32(bits) => Cow::Owned(f32::from_bits(*bits).to_string()),
            HeaderValue::Float64(bits) => Cow::Owned(f64::from_bits(*bits).to_string()),
            HeaderValue::Decimal { scale, unscaled } => Cow::Owned(decimal(*scale, *unscaled)),
            HeaderValue::Timestamp(_) | HeaderValue::Bytes(_) | HeaderValue::RawText(_) => return None,
            HeaderValue::Array(_) | HeaderValue::Table(_) | HeaderValue::Void => return None,
        })
    }

    /// The value as people read it. Not a form to read back: that is `to_json`.
    pub fn shown(&self) -> Cow<'_, str> {
        if let Some(text) = self.simple_text() {
            return text;
        }
        let mut shown = String::new();
        self.show(&mut shown);
        Cow::Owned(shown)
    }

    /// The value as people read it, with its type unless it is plain text.
    pub fn described(&self) -> Cow<'_, str> {
        match self {
            HeaderValue::Text(text) => Cow::Borrowed(text),
            HeaderValue::Void => Cow::Borrowed("void"),
            typed => Cow::Owned(format!("{} ({})", typed.shown(), typed.kind())),
        }
    }

    /// Appends the value as people read it. Texts inside arrays and tables are quoted.
    fn show(&self, out: &mut String) {
        match self {
            HeaderValue::Timestamp(seconds) => match timestamp(*seconds) {
                Some(at) => out.push_str(&at),
                None => _ = write!(out, "{seconds} s"),
            },
            HeaderValue::Bytes(bytes) => _ = write!(out, "{} bytes: {}", bytes.len(), STANDARD.encode(bytes)),
            HeaderValue::RawText(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
            HeaderValue::Void => out.push_str("void"),
            HeaderValue::Array(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    value.show(out);
                }
                out.push(']');
            }
            HeaderValue::Table(entries) => {
                out.push('{');
                for (at, (name, value)) in entries.iter().enumerate() {
                    _ = write!(out, "{}{name}: ", if at == 0 { "" } else { ", " });
                    value.show(out);
                }
                out.push('}');
            }
            HeaderValue::Text(text) | HeaderValue::ShortText(text) => _ = write!(out, "{text:?}"),
            number => out.push_str(&number.simple_text().unwrap_or_default()),
        }
    }

    /// Hands over every text and number in the value, for the words that a letter is found by.
    pub fn each_text(&self, found: &mut dyn FnMut(&str)) {
        match self {
            HeaderValue::RawText(bytes) => found(&String::from_utf8_lossy(bytes)),
            HeaderValue::Timestamp(seconds) => found(&seconds.to_string()),
            HeaderValue::Bytes(_) | HeaderValue::Void => {}
            HeaderValue::Array(values) => values.iter().for_each(|value| value.each_text(found)),
            HeaderValue::Table(entries) => {
                for (name, value) in entries {
                    found(name);
                    value.each_text(found);
                }
            }
            simple => found(&simple.simple_text().unwrap_or_default()),
        }
    }

    /// The value as a JSON path sees it: numbers are numbers, a table is an object, bytes are base64, a float that is not
    /// finite is its text.
    pub fn document(&self) -> Json<'_> {
        match self {
            HeaderValue::Text(text) | HeaderValue::ShortText(text) => Json::Text(Cow::Borrowed(text)),
            HeaderValue::Boolean(value) => Json::Bool(*value),
            HeaderValue::Timestamp(seconds) => Json::Number(Cow::Owned(seconds.to_string())),
            HeaderValue::Bytes(bytes) => Json::Text(Cow::Owned(STANDARD.encode(bytes))),
            HeaderValue::RawText(bytes) => Json::Text(String::from_utf8_lossy(bytes)),
            HeaderValue::Void => Json::Null,
            HeaderValue::Array(values) => Json::List(values.iter().map(HeaderValue::document).collect()),
            HeaderValue::Table(entries) => headers_document(entries),
            number => {
                let text = number.simple_text().unwrap_or_default();
                let is_number = text.ends_with(|last: char| last.is_ascii_digit());
                if is_number { Json::Number(text) } else { Json::Text(text) }
            }
        }
    }

    /// The bytes that the value holds: names and values, not their JSON.
    pub fn bytes(&self) -> usize {
        match self {
            HeaderValue::Text(text) | HeaderValue::ShortText(text) => text.len(),
            HeaderValue::Bytes(bytes) | HeaderValue::RawText(bytes) => bytes.len(),
            HeaderValue::Array(values) => values.iter().map(|value| 1 + value.bytes()).sum(),
            HeaderValue::Table(entries) => {
                entries.iter().map(|(name, value)| 1 + name.len() + value.bytes()).sum()
            }
            _ => 8,
        }
    }

    /// Keeps the value within `HEADER_DEPTH_MAX` levels. An array or table below them becomes the text of its JSON form,
    /// so that nothing is lost and nothing walks deeper than that.
    pub fn bounded(self) -> HeaderValue {
        self.bounded_below(limits::HEADER_DEPTH_MAX)
    }

    fn bounded_below(self, levels: usize) -> HeaderValue {
        match (levels.checked_sub(1), self) {
            (None, deep @ (HeaderValue::Array(_) | HeaderValue::Table(_))) => {
                HeaderValue::Text(json::write_deep(deep))
            }
            (Some(levels), HeaderValue::Array(values)) => {
                HeaderValue::Array(values.into_iter().map(|value| value.bounded_below(levels)).collect())
            }
            (Some(levels), HeaderValue::Table(entries)) => {
                let bounded = entries.into_iter().map(|(name, value)| (name, value.bounded_below(levels)));
                HeaderValue::Table(bounded.collect())
            }
            (_, other) => other,
        }
    }
}

/// An object of headers as they are spelled: a value each, or a list of values for a name that occurs again.
pub fn headers_document(headers: &[(String, HeaderValue)]) -> Json<'_> {
    let mut by_name: BTreeMap<&str, Vec<Json<'_>>> = BTreeMap::new();
    for (name, value) in headers {
        by_name.entry(name).or_default().push(value.document());
    }
    let members = by_name.into_iter().map(|(name, values)| {
        let value = match <[Json<'_>; 1]>::try_from(values) {
            Ok([only]) => only,
            Err(values) => Json::List(values),
        };
        (Cow::Borrowed(name), value)
    });
    Json::Object(Members::new(members.collect()))
}

fn decimal(scale: u8, unscaled: u32) -> String {
    let scale = usize::from(scale);
    let digits = format!("{unscaled:0>width$}", width = scale + 1);
    match digits.split_at(digits.len() - scale) {
        (whole, "") => whole.to_owned(),
        (whole, fraction) => format!("{whole}.{fraction}"),
    }
}

fn timestamp(seconds: u64) -> Option<String> {
    let at = jiff::Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(at.to_string())
}
