//! JSON taken apart one level at a time, each value kept as the text it came in.
//!
//! Reported entries are evidence: numbers keep their digits, unknown fields stay, and a lone surrogate in a payload is
//! no reason to lose a letter.

use std::borrow::Cow;
use std::fmt;

use lazaret_core::surrogates::mend;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of a JSON object in their order, values verbatim. A key that occurs twice is there twice.
#[derive(Debug)]
pub(crate) struct RawObject<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(RawObject(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A key, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// What kind of value a JSON text is, in the words of an error message.
pub(crate) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Reads a JSON string. Half a surrogate pair, which JavaScript writes when it cuts a text, becomes U+FFFD.
pub(crate) fn text(raw: &str) -> Option<String> {
    serde_json::from_str(raw).or_else(|_| serde_json::from_str(&mend(raw))).ok()
}

/// Reads any JSON value, mended in the same way; nothing if it is nested too deeply to look into.
pub(crate) fn value(raw: &str) -> Option<serde_json::Value> {
    serde_json::from_str(raw).or_else(|_| serde_json::from_str(&mend(raw))).ok()
}

/// A stranger's text, short enough for an error message.
pub(crate) fn shown(text: &str) -> String {
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
    fn an_object_is_taken_apart_and_its_values_stay_as_they_are() {
        let object: RawObject<'_> =
            serde_json::from_str(r#"{"a":1e400,"b\n":{"x":[1, 2]},"c":"\ud800"}"#).unwrap();
        let fields: Vec<_> = object.0.iter().map(|(name, raw)| (name.as_ref(), raw.get())).collect();
        assert_eq!(fields, [("a", "1e400"), ("b\n", r#"{"x":[1, 2]}"#), ("c", r#""\ud800""#)]);
        assert!(serde_json::from_str::<RawObject<'_>>("[1]").is_err());
    }

    #[test]
    fn half_a_surrogate_pair_is_mended_and_a_whole_one_is_kept() {
        for (raw, expected) in [
            (r#""a\ud83dz""#, "a\u{fffd}z"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        ] {
            assert_eq!(text(raw).as_deref(), Some(expected), "{raw}");
        }
        assert_eq!(text("\"\\ud8\""), None);
        assert_eq!(text("\"\\\""), None);
    }

    #[test]
    fn a_deep_value_is_carried_and_not_looked_into() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let object: RawObject<'_> = serde_json::from_str(&deep).unwrap();
        assert_eq!(object.0[0].1.get().len(), 200_000);
        assert!(value(&deep).is_none());
    }
}
