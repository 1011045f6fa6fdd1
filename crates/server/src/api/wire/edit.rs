//! A letter as a person changed it, beside the original, with what is different.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazaret_core::envelope::Envelope;
use lazaret_core::header::HeaderValue;
use lazaret_core::limits;
use lazaret_core::redaction::{Redactor, Shown};
use lazaret_store::redrive::Edit;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use similar::TextDiff;
use utoipa::ToSchema;

/// How long a diff may be looked for: two bodies that have nothing in common have none worth reading.
const DIFF_TIME: Duration = Duration::from_millis(100);

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditBody {
    pub number: u32,
    /// The life whose original was changed.
    pub life: u32,
    pub author: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub at: String,
    pub content_type: String,
    /// All headers that are sent: a text, or an object with `type` and `value`; a list of these for a name that occurs
    /// again.
    pub headers: BTreeMap<String, Value>,
    /// Another destination than the original's, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    pub body_bytes: u64,
    /// The body, if it is text; not beside the letter, only among its edits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body, if it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// What is different in the body, as a unified diff; JSON is laid out in lines first. Null if one of the two is no
    /// text, or too large.
    pub diff: Option<String>,
    /// What is different in the headers and the content type, by name: what it was and what it is.
    pub headers_changed: BTreeMap<String, [Option<String>; 2]>,
    /// Present and true when something of the body or the headers is masked, or left out because it is no text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct EditList {
    /// Oldest first.
    pub items: Vec<EditBody>,
}

/// Whether bodies are shown beside what is different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bodies {
    Shown,
    LeftOut,
}

impl EditBody {
    /// Both sides are compared as they are shown: a diff must not tell what is masked.
    pub fn new(edit: Edit, original: Option<&Envelope>, bodies: Bodies, redactor: &Redactor) -> EditBody {
        let new = Side::of(redactor.body(&edit.content_type, &edit.body));
        let old = original.map(|original| Side::of(redactor.body(original.content_type(), original.body())));
        let diff = old.as_ref().and_then(|old| diff(old, &new, &edit));
        let mut redacted = new.redacted || old.is_some_and(|old| old.redacted);
        let shown = redactor.headers(&edit.headers);
        redacted |= shown.iter().zip(&edit.headers).any(|((_, shown), (_, value))| **shown != *value);
        let headers = by_name(&shown);
        let headers_changed = match original {
            Some(original) => {
                let (changed, masked) = changed(original, &edit, redactor);
                redacted |= masked;
                changed
            }
            None => BTreeMap::new(),
        };
        let (body, body_base64) = match (bodies, new.bytes) {
            (Bodies::LeftOut, _) | (Bodies::Shown, None) => (None, None),
            (Bodies::Shown, Some(bytes)) => match std::str::from_utf8(&bytes) {
                Ok(text) => (Some(text.to_owned()), None),
                Err(_) => (None, Some(STANDARD.encode(&bytes))),
            },
        };
        EditBody {
            number: edit.number,
            life: edit.life,
            author: edit.author,
            reason: edit.reason.map(|reason| redactor.text(&reason).into_owned()),
            at: edit.at.to_string(),
            content_type: edit.content_type,
            headers,
            destination: edit.destination,
            body_bytes: edit.body.len() as u64,
            body,
            body_base64,
            diff,
            headers_changed,
            redacted,
        }
    }
}

/// Headers as an object.
fn by_name(headers: &[(&str, Cow<'_, HeaderValue>)]) -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (name, value) in headers {
        all.entry((*name).to_owned()).or_default().push(value.to_json());
    }
    let one_or_list = |values: Vec<Value>| match <[Value; 1]>::try_from(values) {
        Ok([only]) => only,
        Err(values) => Value::Array(values),
    };
    all.into_iter().map(|(name, values)| (name, one_or_list(values))).collect()
}

/// One side of a comparison, as it is shown.
struct Side<'a> {
    /// Nothing if it is withheld.
    bytes: Option<Cow<'a, [u8]>>,
    redacted: bool,
}

impl<'a> Side<'a> {
    fn of(shown: Shown<'a>) -> Side<'a> {
        match shown {
            Shown::Whole(bytes) => Side { bytes: Some(Cow::Borrowed(bytes)), redacted: false },
            Shown::Masked(text) => Side { bytes: Some(Cow::Owned(text.into_bytes())), redacted: true },
            Shown::Withheld => Side { bytes: None, redacted: true },
        }
    }
}

fn diff(original: &Side<'_>, new: &Side<'_>, edit: &Edit) -> Option<String> {
    let (original, new) = (original.bytes.as_deref()?, new.bytes.as_deref()?);
    if original.len().max(new.len()) > limits::EDIT_DIFF_BYTES_MAX {
        return None;
    }
    let old = laid_out(std::str::from_utf8(original).ok()?);
    let new = laid_out(std::str::from_utf8(new).ok()?);
    let text = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&old, &new);
    let names = (format!("original, life {}", edit.life), format!("edit {}", edit.number));
    Some(text.unified_diff().context_radius(3).header(&names.0, &names.1).to_string())
}

/// Levels that are set in: a text of brackets alone would grow by its square.
const INDENTS_MAX: usize = 16;

/// JSON that stands on one line, in lines; every value stays as it is written. Anything else as it is.
pub(crate) fn laid_out(text: &str) -> String {
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    if !is_json || text.trim().contains('\n') {
        return text.to_owned();
    }
    let (mut out, mut depth, mut in_text, mut escaped) =
        (String::with_capacity(text.len() * 2), 0, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(INDENTS_MAX)));
    };
    for c in text.trim().chars() {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                depth += 1;
                out.push(c);
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => {
                in_text = c == '"';
                out.push(c);
            }
        }
    }
    out.push('\n');
    out
}

/// What is different by name, as it is shown, and whether anything of it is masked. Values are compared as they are.
fn changed(
    original: &Envelope,
    edit: &Edit,
    redactor: &Redactor,
) -> (BTreeMap<String, [Option<String>; 2]>, bool) {
    let mut all: BTreeMap<String, [Option<(String, String)>; 2]> = BTreeMap::new();
    let mut put = |side: usize, name: &str, value: &str, shown: &str| {
        let sides = all.entry(name.to_ascii_lowercase()).or_default();
        let joined = match sides[side].take() {
            Some((is, seen)) => (format!("{is}, {value}"), format!("{seen}, {shown}")),
            None => (value.to_owned(), shown.to_owned()),
        };
        sides[side] = Some(joined);
    };
    for (side, content_type, headers) in [
        (0, original.content_type(), original.headers()),
        (1, edit.content_type.as_str(), edit.headers.as_slice()),
    ] {
        put(side, "content-type", content_type, &redactor.header("content-type", content_type));
        for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type")) {
            put(side, name, &value.described(), &redactor.header_value(name, value).described());
        }
    }
    all.retain(|_, [old, new]| old.as_ref().map(|it| &it.0) != new.as_ref().map(|it| &it.0));
    let masked = all.values().flatten().flatten().any(|(value, shown)| value != shown);
    let shown = |sides: [Option<(String, String)>; 2]| sides.map(|side| side.map(|(_, shown)| shown));
    (all.into_iter().map(|(name, sides)| (name, shown(sides))).collect(), masked)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lazaret_core::time::Time;

    use super::*;

    #[test]
    fn a_text_of_brackets_does_not_grow_by_its_square() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let laid = laid_out(&deep);
        assert!(laid.len() < deep.len() * (2 * INDENTS_MAX + 3), "{}", laid.len());
        assert_eq!(laid.split_whitespace().collect::<String>(), deep);
    }

    fn edit(body: &[u8], headers: &[(&str, &str)]) -> Edit {
        Edit {
            number: 2,
            life: 1,
            body: body.to_vec(),
            content_type: "application/json".into(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            destination: None,
            author: "anna".into(),
            reason: None,
            at: Time::from_ms(0),
        }
    }

    fn original(body: &[u8]) -> Envelope {
        let headers = vec![("Trace".into(), "a".into()), ("kept".into(), "1".into())];
        Envelope::seal(Bytes::copy_from_slice(body), "text/plain", headers)
    }

    #[test]
    fn what_is_different_is_shown_line_by_line() {
        let old = original(br#"{"id":"o-1","amount":1.50,"note":"a, \"b\": {c}"}"#);
        let new = edit(
            br#"{"id":"o-1","amount":12345678901234567890.0,"note":"a, \"b\": {c}"}"#,
            &[("trace", "b"), ("new", "x")],
        );
        let body = EditBody::new(new, Some(&old), Bodies::Shown, &Redactor::off());
        let expected = "--- original, life 1\n+++ edit 2\n@@ -1,5 +1,5 @@\n {\n   \"id\": \"o-1\",\n-  \"amount\": 1.50,\n\
                        +  \"amount\": 12345678901234567890.0,\n   \"note\": \"a, \\\"b\\\": {c}\"\n }\n";
        assert_eq!(body.diff.as_deref(), Some(expected));
        let text = |text: &str| Some(text.to_owned());
        let changed = [
            ("content-type", [text("text/plain"), text("application/json")]),
            ("kept", [text("1"), None]),
            ("new", [None, text("x")]),
            ("trace", [text("a"), text("b")]),
        ];
        assert_eq!(body.headers_changed, changed.map(|(name, sides)| (name.to_owned(), sides)).into());
    }

    #[test]
    fn typed_headers_are_told_in_the_json_form_and_compared_by_type() {
        let mut new = edit(b"{}", &[("kept", "1"), ("trace", "a"), ("trace", "c")]);
        new.headers.push(("n".into(), HeaderValue::Int64(1)));
        let headers =
            vec![("n".into(), "1".into()), ("kept".into(), "1".into()), ("trace".into(), "a".into())];
        let old = Envelope::seal(Bytes::from_static(b"{}"), "application/json", headers);
        let body = EditBody::new(new, Some(&old), Bodies::LeftOut, &Redactor::off());
        let expected =
            serde_json::json!({"kept": "1", "n": {"type": "int64", "value": "1"}, "trace": ["a", "c"]});
        assert_eq!(serde_json::json!(body.headers), expected);
        let expected = serde_json::json!({"n": ["1", "1 (int64)"], "trace": ["a", "a, c"]});
        assert_eq!(serde_json::json!(body.headers_changed), expected);
    }

    #[test]
    fn bytes_that_are_no_text_have_no_diff() {
        let body =
            EditBody::new(edit(b"\xff\x00", &[]), Some(&original(b"{}")), Bodies::Shown, &Redactor::off());
        assert_eq!((body.diff, body.body, body.body_base64.as_deref()), (None, None, Some("/wA=")));
        assert_eq!(EditBody::new(edit(b"a", &[]), None, Bodies::LeftOut, &Redactor::off()).body, None);
    }

    #[test]
    fn what_is_masked_is_masked_on_both_sides_and_in_the_diff() {
        let redactor = Redactor::new(lazaret_core::redaction::Rules::default());
        let old = original(br#"{"id":1,"password":"hunter2"}"#);
        let new = edit(br#"{"id":2,"password":"hunter3"}"#, &[("trace", "b"), ("X-Api-Key", "k-9")]);
        let body = EditBody::new(new, Some(&old), Bodies::Shown, &redactor);
        assert!(body.redacted);
        assert_eq!(body.body.as_deref(), Some(r#"{"id":2,"password":"[redacted]"}"#));
        let diff = body.diff.unwrap();
        assert!(diff.contains("+  \"id\": 2") && !diff.contains("hunter"), "{diff}");
        assert_eq!(body.headers["X-Api-Key"], "[redacted]");
        assert_eq!(body.headers_changed["x-api-key"], [None, Some("[redacted]".to_owned())]);
        let binary = EditBody::new(edit(b"\xff", &[]), Some(&old), Bodies::Shown, &redactor);
        assert_eq!((binary.redacted, binary.diff, binary.body_base64), (true, None, None));
    }

    #[test]
    fn text_that_is_no_json_stays_as_it_is() {
        for text in ["", "a{b,c}", "{\n\"a\": 1}", "{\"a\": }"] {
            assert_eq!(laid_out(text), text);
        }
    }
}
