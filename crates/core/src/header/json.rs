//! The JSON form of header values: written and read here and nowhere else.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{HeaderValue, Headers};
use crate::limits;

/// Why a text is not the JSON form of headers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    #[error("not JSON: {0}")]
    NotJson(String),
    #[error("headers are a list of pairs of name and value")]
    NotPairs,
    #[error("a header is a string or an object with `type` and `value`")]
    NotAValue,
    #[error("`{0}` is not a type of header")]
    UnknownType(String),
    #[error("`value` is not {0}")]
    WrongValue(&'static str),
    #[error("a header has more than {} levels", limits::HEADER_DEPTH_MAX)]
    TooDeep,
}

/// Writes headers as a list of pairs of name and value.
pub fn headers_to_json(headers: &[(String, HeaderValue)]) -> String {
    let mut out = String::from("[");
    for (at, (name, value)) in headers.iter().enumerate() {
        out.push_str(if at == 0 { "[" } else { ",[" });
        push_text(&mut out, name);
        out.push(',');
        match value {
            HeaderValue::Text(text) => push_text(&mut out, text),
            typed => out.push_str(&typed.to_json().to_string()),
        }
        out.push(']');
    }
    out.push(']');
    out
}

/// Reads what `headers_to_json` has written, and every list of pairs of texts.
pub fn headers_from_json(text: &str) -> Result<Headers, HeaderError> {
    let pairs: Vec<(String, Value)> =
        serde_json::from_str(text).map_err(|error| HeaderError::NotJson(error.to_string()))?;
    pairs.into_iter().map(|(name, value)| Ok((name, HeaderValue::from_json(value)?))).collect()
}

fn push_text(out: &mut String, text: &str) {
    // A string cannot fail to be written into memory.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

impl HeaderValue {
    /// The name of the kind in the JSON form.
    pub fn kind(&self) -> &'static str {
        match self {
            HeaderValue::Text(_) => "text",
            HeaderValue::Boolean(_) => "boolean",
            HeaderValue::Int8(_) => "int8",
            HeaderValue::Int16(_) => "int16",
            HeaderValue::Int32(_) => "int32",
            HeaderValue::Int64(_) => "int64",
            HeaderValue::UInt8(_) => "uint8",
            HeaderValue::UInt16(_) => "uint16",
            HeaderValue::UInt32(_) => "uint32",
            HeaderValue::Float32(_) => "float32",
            HeaderValue::Float64(_) => "float64",
            HeaderValue::Decimal { .. } => "decimal",
            HeaderValue::Timestamp(_) => "timestamp",
            HeaderValue::Bytes(_) => "bytes",
            HeaderValue::RawText(_) => "rawText",
            HeaderValue::ShortText(_) => "shortText",
            HeaderValue::Array(_) => "array",
            HeaderValue::Table(_) => "table",
            HeaderValue::Void => "void",
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> Value {
        let value = match self {
            HeaderValue::Text(text) => return Value::from(text.as_str()),
            HeaderValue::Array(values) => values.iter().map(HeaderValue::to_json).collect(),
            HeaderValue::Table(entries) => {
                entries.iter().map(|(name, value)| json!([name, value.to_json()])).collect()
            }
            HeaderValue::Boolean(value) => Value::from(*value),
            HeaderValue::Int8(value) => Value::from(*value),
            HeaderValue::Int16(value) => Value::from(*value),
            HeaderValue::Int32(value) => Value::from(*value),
            HeaderValue::Int64(value) => Value::from(value.to_string()),
            HeaderValue::UInt8(value) => Value::from(*value),
            HeaderValue::UInt16(value) => Value::from(*value),
            HeaderValue::UInt32(value) => Value::from(*value),
            HeaderValue::Float32(bits) => Value::from(float32_text(*bits)),
            HeaderValue::Float64(bits) => Value::from(float64_text(*bits)),
            HeaderValue::Decimal { scale, unscaled } => json!({"scale": scale, "unscaled": unscaled}),
            HeaderValue::Timestamp(seconds) => Value::from(seconds.to_string()),
            HeaderValue::Bytes(bytes) | HeaderValue::RawText(bytes) => Value::from(STANDARD.encode(bytes)),
            HeaderValue::ShortText(text) => Value::from(text.as_str()),
            HeaderValue::Void => Value::Null,
        };
        json!({"type": self.kind(), "value": value})
    }

    /// Reads the JSON form.
    pub fn from_json(value: Value) -> Result<HeaderValue, HeaderError> {
        read(value, limits::HEADER_DEPTH_MAX)
    }
}

/// Reads a value that may hold `levels` levels of arrays and tables.
fn read(value: Value, levels: usize) -> Result<HeaderValue, HeaderError> {
    let mut object = match value {
        Value::String(text) => return Ok(HeaderValue::Text(text)),
        Value::Object(object) => object,
        _ => return Err(HeaderError::NotAValue),
    };
    let (Some(Value::String(kind)), Some(value), true) =
        (object.remove("type"), object.remove("value"), object.is_empty())
    else {
        return Err(HeaderError::NotAValue);
    };
    if matches!(kind.as_str(), "array" | "table") {
        let levels = levels.checked_sub(1).ok_or(HeaderError::TooDeep)?;
        let Value::Array(values) = value else { return Err(HeaderError::WrongValue("a list")) };
        return match kind.as_str() {
            "array" => values
                .into_iter()
                .map(|value| read(value, levels))
                .collect::<Result<_, _>>()
                .map(HeaderValue::Array),
            _ => values
                .into_iter()
                .map(|pair| read_pair(pair, levels))
                .collect::<Result<_, _>>()
                .map(HeaderValue::Table),
        };
    }
    read_scalar(&kind, &value)
}

fn read_pair(pair: Value, levels: usize) -> Result<(String, HeaderValue), HeaderError> {
    let Value::Array(pair) = pair else { return Err(HeaderError::NotPairs) };
    match <[Value; 2]>::try_from(pair) {
        Ok([Value::String(name), value]) => Ok((name, read(value, levels)?)),
        _ => Err(HeaderError::NotPairs),
    }
}

fn read_scalar(kind: &str, value: &Value) -> Result<HeaderValue, HeaderError> {
    let text = || value.as_str().ok_or(HeaderError::WrongValue("a string"));
    Ok(match kind {
        "boolean" => HeaderValue::Boolean(value.as_bool().ok_or(HeaderError::WrongValue("true or false"))?),
        "int8" => HeaderValue::Int8(whole(value)?),
        "int16" => HeaderValue::Int16(whole(value)?),
        "int32" => HeaderValue::Int32(whole(value)?),
        "int64" => HeaderValue::Int64(canonical(text()?)?),
        "uint8" => HeaderValue::UInt8(whole(value)?),
        "uint16" => HeaderValue::UInt16(whole(value)?),
        "uint32" => HeaderValue::UInt32(whole(value)?),
        "float32" => HeaderValue::Float32(float32_bits(text()?).ok_or(HeaderError::WrongValue("a float32"))?),
        "float64" => HeaderValue::Float64(float64_bits(text()?).ok_or(HeaderError::WrongValue("a float64"))?),
        "decimal" => {
            let parts = value.as_object().filter(|parts| parts.len() == 2);
            let part = |name: &str| parts.and_then(|parts: &Map<String, Value>| parts.get(name));
            let (Some(scale), Some(unscaled)) = (part("scale"), part("unscaled")) else {
                return Err(HeaderError::WrongValue("an object with `scale` and `unscaled`"));
            };
            HeaderValue::Decimal { scale: whole(scale)?, unscaled: whole(unscaled)? }
        }
        "timestamp" => HeaderValue::Timestamp(canonical(text()?)?),
        "bytes" => HeaderValue::Bytes(base64(text()?)?),
        "rawText" => {
            let bytes = base64(text()?)?;
            // UTF-8 has one form, which is plain text.
            match std::str::from_utf8(&bytes) {
                Ok(_) => return Err(HeaderError::WrongValue("the base64 of a string that is not UTF-8")),
                Err(_) => HeaderValue::RawText(bytes),
            }
        }
        "shortText" => HeaderValue::ShortText(text()?.to_owned()),
        "void" if value.is_null() => HeaderValue::Void,
        "void" => return Err(HeaderError::WrongValue("null")),
        _ => return Err(HeaderError::UnknownType(kind.chars().take(limits::NAME_BYTES_MAX).collect())),
    })
}

fn whole<T: TryFrom<i64>>(value: &Value) -> Result<T, HeaderError> {
    let wrong = HeaderError::WrongValue("a whole number of its type");
    value.as_i64().and_then(|value| T::try_from(value).ok()).ok_or(wrong)
}

/// Reads a whole number that is written as text, in the one way in which it is written.
fn canonical<T: std::str::FromStr + ToString>(text: &str) -> Result<T, HeaderError> {
    let read = text.parse::<T>().ok().filter(|number| number.to_string() == text);
    read.ok_or(HeaderError::WrongValue("a whole number as a string"))
}

fn base64(text: &str) -> Result<Bytes, HeaderError> {
    STANDARD.decode(text).map(Bytes::from).map_err(|_| HeaderError::WrongValue("base64"))
}

/// The shortest decimal that reads back as the same float; `inf`, `-inf`; `nan:` with the bits in hex.
fn float32_text(bits: u32) -> Cow<'static, str> {
    let value = f32::from_bits(bits);
    if value.is_nan() { Cow::Owned(format!("nan:{bits:08x}")) } else { Cow::Owned(format!("{value:?}")) }
}

/// The shortest decimal that reads back as the same float; `inf`, `-inf`; `nan:` with the bits in hex.
fn float64_text(bits: u64) -> Cow<'static, str> {
    let value = f64::from_bits(bits);
    if value.is_nan() { Cow::Owned(format!("nan:{bits:016x}")) } else { Cow::Owned(format!("{value:?}")) }
}

fn float32_bits(text: &str) -> Option<u32> {
    if let Some(hex) = text.strip_prefix("nan:") {
        return u32::from_str_radix(hex, 16).ok().filter(|bits| f32::from_bits(*bits).is_nan());
    }
    let value = text.parse::<f32>().ok()?;
    (value.is_finite() || matches!(text, "inf" | "-inf")).then(|| value.to_bits())
}

fn float64_bits(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("nan:") {
        return u64::from_str_radix(hex, 16).ok().filter(|bits| f64::from_bits(*bits).is_nan());
    }
    let value = text.parse::<f64>().ok()?;
    (value.is_finite() || matches!(text, "inf" | "-inf")).then(|| value.to_bits())
}

/// What is still to be written of a value that may be deeper than the stack.
enum Rest {
    Value(HeaderValue),
    Named(String, HeaderValue),
    Text(&'static str),
}

/// Writes the JSON form of a value of any depth, without recursion, and takes the value apart on the way.
pub(super) fn write_deep(value: HeaderValue) -> String {
    let mut out = String::new();
    let mut rest = vec![Rest::Value(value)];
    while let Some(next) = rest.pop() {
        let value = match next {
            Rest::Text(text) => {
                out.push_str(text);
                continue;
            }
            Rest::Named(name, value) => {
                out.push('[');
                push_text(&mut out, &name);
                out.push(',');
                rest.push(Rest::Text("]"));
                value
            }
            Rest::Value(value) => value,
        };
        let parts: Vec<Rest> = match value {
            HeaderValue::Array(values) => {
                out.push_str(r#"{"type":"array","value":["#);
                values.into_iter().map(Rest::Value).collect()
            }
            HeaderValue::Table(entries) => {
                out.push_str(r#"{"type":"table","value":["#);
                entries.into_iter().map(|(name, value)| Rest::Named(name, value)).collect()
            }
            scalar => {
                out.push_str(&scalar.to_json().to_string());
                continue;
            }
        };
        rest.push(Rest::Text("]}"));
        for (at, part) in parts.into_iter().rev().enumerate() {
            if at > 0 {
                rest.push(Rest::Text(","));
            }
            rest.push(part);
        }
    }
    out
}
