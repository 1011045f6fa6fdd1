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
        let Some((name, value)) = field.split_once('=') else { continue };
        let shown = shown(rules, name, value);
        if let Cow::Owned(shown) = shown {
            masked.push_str(&text[done..start + name.len() + 1]);
            masked.push_str(&shown);
            done = start + field.len();
        }
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
    // `user[password]` is the password of the user.
    let last = name.trim_end_matches(']').rsplit('[').next().unwrap_or_default();
    if rules.keys.has(&name) || rules.keys.has(last) {
        return Cow::Owned(MASK.to_owned());
    }
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
