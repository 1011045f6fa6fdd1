//! Bodies of forms: names and values between `&`, percent-encoded.

use std::borrow::Cow;

use super::{Compiled, MASK};

/// The form with what is hidden masked.
pub(super) fn mask<'a>(rules: &Compiled, text: &'a str) -> Cow<'a, str> {
    let mut masked = String::new();
    let mut done = 0;
    let mut at = 0;
    for field in text.split('&') {
        let start = at;
        at += field.len() + 1;
        let (name, value) = field.split_once('=').map_or((field, None), |(name, value)| (name, Some(value)));
        let name_shown = in_words(rules, name);
        let value_shown = value.map(|value| shown(rules, name, value));
        if let (Cow::Borrowed(_), None | Some(Cow::Borrowed(_))) = (&name_shown, &value_shown) {
            continue;
        }
        masked.push_str(&text[done..start]);
        masked.push_str(&name_shown);
        if let Some(value) = value_shown {
            masked.push('=');
            masked.push_str(&value);
        }
        done = start + field.len();
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[done..]);
    Cow::Owned(masked)
}

fn shown<'a>(rules: &Compiled, name: &str, value: &'a str) -> Cow<'a, str> {
    if value.is_empty() || value == MASK {
        return Cow::Borrowed(value);
    }
    let name = decoded(name);
    // `user[password]` is the password of the user, `credentials[pin]` a part of the credentials.
    if rules.keys.has(&name) || name.split(['[', ']']).any(|part| rules.keys.has(part)) {
        return Cow::Owned(MASK.to_owned());
    }
    in_words(rules, value)
}

/// What words say, percent-encoded or not.
fn in_words<'a>(rules: &Compiled, value: &'a str) -> Cow<'a, str> {
    let meant = decoded(value);
    match rules.words(&meant) {
        Cow::Owned(masked) => Cow::Owned(masked.replace(' ', "+").replace('&', "%26")),
        Cow::Borrowed(_) => Cow::Borrowed(value),
    }
}

/// What a name or a value says; bytes that are no text are replaced.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => match after.get(..2).and_then(hex) {
                Some(byte) => {
                    bytes.push(byte);
                    rest = &after[2..];
                }
                None => bytes.push(b'%'),
            },
            byte => bytes.push(*byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else { return None };
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}
