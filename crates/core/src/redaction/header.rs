//! Headers are masked by their names, at every level of a table, and by what their texts and numbers look like.

use std::borrow::Cow;

use super::{Compiled, MASK};
use crate::header::HeaderValue;

/// The text of a header; of one whose name is not hidden, what its words say.
pub(super) fn mask_text<'a>(rules: &Compiled, name: &str, text: &'a str) -> Cow<'a, str> {
    match text {
        "" | MASK => Cow::Borrowed(text),
        _ if is_hidden(rules, name) => Cow::Borrowed(MASK),
        _ => rules.words(text),
    }
}

/// The value of a header. Bytes that are not text are hidden as a body of such bytes is: nobody can tell what they say.
pub(super) fn mask<'a>(rules: &Compiled, name: &str, value: &'a HeaderValue) -> Cow<'a, HeaderValue> {
    match value {
        // They say nothing, and often are the bug.
        HeaderValue::Void | HeaderValue::Boolean(_) => Cow::Borrowed(value),
        HeaderValue::Text(text) | HeaderValue::ShortText(text) => {
            let shown = mask_text(rules, name, text);
            if shown == *text { Cow::Borrowed(value) } else { masked(shown.into_owned()) }
        }
        _ if is_hidden(rules, name) => masked(MASK.to_owned()),
        HeaderValue::RawText(_) => masked(MASK.to_owned()),
        HeaderValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if rules.words(text) == text => Cow::Borrowed(value),
            _ => masked(MASK.to_owned()),
        },
        HeaderValue::Array(values) => {
            let shown = values.iter().map(|value| mask(rules, name, value).into_owned());
            Cow::Owned(HeaderValue::Array(shown.collect()))
        }
        HeaderValue::Table(entries) => {
            let shown =
                entries.iter().map(|(key, value)| (key.clone(), mask(rules, key, value).into_owned()));
            Cow::Owned(HeaderValue::Table(shown.collect()))
        }
        number => match number.simple_text() {
            Some(text) if rules.words(&text) != text => masked(rules.words(&text).into_owned()),
            _ => Cow::Borrowed(value),
        },
    }
}

fn is_hidden(rules: &Compiled, name: &str) -> bool {
    rules.headers.has(name) || rules.keys.has(name)
}

fn masked<'a>(text: String) -> Cow<'a, HeaderValue> {
    Cow::Owned(HeaderValue::Text(text))
}
