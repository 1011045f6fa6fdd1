//! What is taken out of a letter for people who ask the database themselves: the columns of the published schema that
//! we have no use for. Never the truth, and left out where PostgreSQL cannot hold it.

use std::fmt;

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::letter::{Admitted, listed};
use lazaret_core::limits;
use lazaret_core::original_event::{EventParts, OriginalEvent};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// JSON texts and the backtrace; an empty one holds nothing.
#[derive(Debug, Default)]
pub(super) struct Extract {
    pub original_event: Option<String>,
    pub error_stack_trace: Option<String>,
    pub error_context: Option<String>,
    pub retry_history: Option<String>,
}

impl Extract {
    pub fn of(admitted: &Admitted) -> Extract {
        let captured = &admitted.captured;
        let attempts: Vec<&Attempt> = captured.attempts.iter().collect();
        Extract::of_parts(captured.event_parts(), captured.attempts.last().map(|run| &run.error), &attempts)
    }

    pub fn of_parts(parts: EventParts<'_>, fatal: Option<&LetterError>, attempts: &[&Attempt]) -> Extract {
        let backtrace = fatal.and_then(|error| error.backtrace.as_deref());
        Extract {
            original_event: original_event(parts),
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

/// The original event as entries show it. Of a job or an outbox row what `jsonb` does not hold is left out piece by
/// piece, so that it is always found by its pattern.
fn original_event(parts: EventParts<'_>) -> Option<String> {
    let Some(event) = OriginalEvent::of(parts) else {
        return std::str::from_utf8(parts.body).ok().and_then(jsonb);
    };
    let bare = OriginalEvent { payload: None, ..event.clone() };
    [event, bare.clone(), OriginalEvent { metadata: "{}", ..bare }]
        .iter()
        .find_map(|event| jsonb(&event.to_json()))
}

/// The newest attempts as the published schema writes them. Backtraces and contexts are left out once they are too much,
/// those of the oldest attempts first.
fn history(attempts: &[&Attempt]) -> String {
    let from = attempts.len().saturating_sub(limits::EXTRACT_ATTEMPTS_MAX);
    let mut room = limits::EXTRACT_BYTES_MAX;
    let mut entries: Vec<String> = Vec::new();
    for attempt in attempts[from..].iter().rev() {
        let LetterError { error_type, code, message, backtrace, context, .. } = &attempt.error;
        let name = |text: &str| listed(text, limits::NAME_BYTES_MAX);
        let stack_trace = backtrace.as_deref().map(|text| listed(text, limits::EXTRACT_BYTES_MAX));
        let context = context.as_deref().and_then(jsonb);
        let bytes = [&stack_trace, &context].into_iter().flatten().map(String::len).sum();
        let fits = room >= bytes;
        room = room.saturating_sub(bytes);
        // The context goes in as it is: its numbers keep their digits.
        entries.push(format!(
            "{{\"timestamp\":{},\"error\":{{\"type\":{},\"code\":{},\"message\":{},\"stackTrace\":{},\"context\":{}}},\
             \"processingDuration\":{}}}",
            Value::from(attempt.at.map(|at| at.to_string())),
            Value::from(name(error_type)),
            Value::from(code.as_deref().map(name)),
            Value::from(listed(message, limits::MESSAGE_BYTES_LISTED)),
            Value::from(stack_trace.filter(|_| fits)),
            context.filter(|_| fits).as_deref().unwrap_or("null"),
            Value::from(attempt.duration_ms),
        ));
    }
    entries.reverse();
    format!("[{}]", entries.join(","))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_found_by_its_pattern_whatever_its_arguments_are() {
        let long = format!("[\"{}\"]", "x".repeat(limits::EXTRACT_BYTES_MAX));
        let meta = r#"{"meta":{"a":"\u0000"}}"#;
        for (body, reported, payload, metadata) in [
            ("[1]", None, json!([1]), json!({})),
            (r#"["\u0000"]"#, None, json!(null), json!({})),
            ("[1]", Some(meta), json!(null), json!({})),
            (long.as_str(), Some(r#"{"meta":{"a":1}}"#), json!(null), json!({"a": 1})),
        ] {
            let parts = EventParts {
                source: "jobs",
                event_id: "7",
                letter_type: "email.send",
                queue: "default",
                schema_version: None,
                body: body.as_bytes(),
                reported,
            };
            let event: Value = serde_json::from_str(&original_event(parts).unwrap()).unwrap();
            assert_eq!((&event["pattern"], &event["eventId"]), (&json!("email.send"), &json!("7")));
            assert_eq!((&event["payload"], &event["metadata"]), (&payload, &metadata), "{event}");
        }
    }

    #[test]
    fn a_history_keeps_the_newest_backtraces_within_its_bound() {
        let run = |backtrace: String| Attempt {
            at: None,
            duration_ms: Some(7),
            error: LetterError {
                error_type: "E\0".into(),
                backtrace: Some(backtrace),
                context: Some("{\"a\":1.50}".into()),
                ..LetterError::default()
            },
            extra: None,
        };
        let runs = [run("old".repeat(20_000)), run("at x\0".into()), run("new".repeat(20_000))];
        let told: Value = serde_json::from_str(&history(&runs.iter().collect::<Vec<_>>())).unwrap();
        let traces = [0, 1, 2].map(|at| told[at]["error"]["stackTrace"].as_str().map(str::len));
        assert_eq!(traces, [None, Some("at x\u{fffd}".len()), Some(60_000)]);
        assert_eq!(told[1]["error"]["context"], json!({"a": 1.5}));
        assert_eq!(told[1]["error"]["type"], "E\u{fffd}");
    }

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
