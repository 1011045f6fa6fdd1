//! What is taken out of a letter for people who ask the database themselves: the columns of the published schema that
//! we have no use for. Never the truth, and left out where PostgreSQL cannot hold it.

use std::fmt;

use lazaret_core::attempt::LetterError;
use lazaret_core::envelope::Envelope;
use lazaret_core::letter::{Admitted, listed};
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::json;

use crate::packing::PreparedAttempt;

/// JSON texts and the backtrace; an empty one holds nothing.
#[derive(Debug, Default)]
pub(super) struct Extract {
    pub original_event: Option<String>,
    pub error_stack_trace: Option<String>,
    pub error_context: Option<String>,
    pub retry_history: Option<String>,
}

impl Extract {
    pub fn of(admitted: &Admitted, attempts: &[PreparedAttempt]) -> Extract {
        let captured = &admitted.captured;
        Extract::of_parts(&captured.envelope, captured.attempts.last().map(|run| &run.error), attempts)
    }

    pub fn of_parts(
        envelope: &Envelope,
        fatal: Option<&LetterError>,
        attempts: &[PreparedAttempt],
    ) -> Extract {
        let body = std::str::from_utf8(envelope.body()).ok();
        let backtrace = fatal.and_then(|error| error.backtrace.as_deref());
        Extract {
            original_event: body.and_then(jsonb),
            error_stack_trace: backtrace.map(|text| listed(text, limits::EXTRACT_BYTES_MAX)),
            error_context: fatal.and_then(|error| error.context.as_deref()).and_then(jsonb),
            retry_history: Some(history(attempts)),
        }
    }

    /// How many bytes it adds to a statement.
    pub fn bytes(&self) -> usize {
        [&self.original_event, &self.error_stack_trace, &self.error_context, &self.retry_history]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}

/// The newest attempts as the published schema writes them.
fn history(attempts: &[PreparedAttempt]) -> String {
    let from = attempts.len().saturating_sub(limits::EXTRACT_ATTEMPTS_MAX);
    let entries: Vec<serde_json::Value> = attempts[from..]
        .iter()
        .map(|attempt| {
            json!({
                "timestamp": attempt.at.map(|ms| Time::from_ms(ms).to_string()),
                "error": {
                    "type": attempt.error_type,
                    "code": attempt.error_code,
                    "message": attempt.message,
                },
                "processingDuration": attempt.duration_ms,
            })
        })
        .collect();
    serde_json::Value::Array(entries).to_string()
}

/// The text itself if `jsonb` holds it. Stricter than need be: what is left out here is only not searchable by SQL, and
/// what is let through by mistake fails a transaction.
fn jsonb(text: &str) -> Option<String> {
    if text.len() > limits::EXTRACT_BYTES_MAX || has_odd_number(text) {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    Held.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(text.to_owned())
}

/// Digits that a number may have in a row, and in its exponent: `numeric` has ends, far beyond any measurement.
const DIGITS_MAX: usize = 300;
const EXPONENT_DIGITS_MAX: usize = 2;

/// Whether a number is longer than anyone writes. What is in texts counts too: it only makes us stricter.
fn has_odd_number(text: &str) -> bool {
    let (mut digits, mut exponent) = (0, None::<usize>);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                exponent = exponent.map(|digits| digits + 1);
                if digits > DIGITS_MAX || exponent.is_some_and(|digits| digits > EXPONENT_DIGITS_MAX) {
                    return true;
                }
            }
            b'.' => {}
            b'e' | b'E' if digits > 0 => exponent = Some(0),
            b'+' | b'-' if exponent == Some(0) => {}
            _ => (digits, exponent) = (0, None),
        }
    }
    false
}

/// Reads a value and keeps nothing; fails on texts that `jsonb` does not hold.
struct Held;

impl<'de> DeserializeSeed<'de> for Held {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Held {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without NUL")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') { Err(E::custom("NUL")) } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Held)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key_seed(Held)?.is_some() {
            members.next_value_seed(Held)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_does_not_hold_is_left_out() {
        for text in [r#"{"a":[1,-2.5e7,"x",null,true]}"#, "7", r#""\ud83d\ude00""#, r#"{"a":1,"a":2}"#] {
            assert_eq!(jsonb(text).as_deref(), Some(text));
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        let long = format!("[{}]", "9".repeat(400));
        for text in
            ["", "{", "a", r#""\u0000""#, r#"{"\u0000":1}"#, r#""\ud800""#, "1e999", "1e-20000", &deep, &long]
        {
            assert_eq!(jsonb(text), None, "{text}");
        }
    }
}
