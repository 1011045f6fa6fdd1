//! How values read on a page. Imported as `filters` by whoever has a template.
//!
//! What comes from outside passes `plain` or `short`: a page must show that a text holds signs that turn the reading
//! direction or cannot be seen, and never obey them.

use std::fmt::{Display, Write};

use askama::filters::Safe;
use lazaret_core::duration::Length;
use lazaret_core::time::Time;
use serde_json::Value;

/// Signs that change how the text around them is shown, or that nobody sees.
fn is_hidden(sign: char) -> bool {
    (sign.is_control() && !matches!(sign, '\n' | '\t'))
        || matches!(sign,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A foreign text with its hidden signs made visible.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        match is_hidden(sign) {
            // A sign's number is the only name of it that every reader can see.
            true => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(sign))),
            false => shown.push(sign),
        }
    }
    shown
}

/// The beginning of a text, in signs, with a mark where it goes on.
pub(crate) fn beginning(text: &str, signs: usize) -> String {
    match text.char_indices().nth(signs) {
        Some((at, _)) => format!("{}…", visible(&text[..at])),
        None => visible(text),
    }
}

/// A number as people read it: 12,431.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that has to fit: 12.4k, 3.1M.
pub(crate) fn rounded(number: u64) -> String {
    let tenths = |unit: u64| (number / (unit / 10)) as f64 / 10.0;
    match number {
        0..10_000 => grouped(number),
        10_000..1_000_000 => format!("{}k", tenths(1_000)),
        1_000_000..1_000_000_000 => format!("{}M", tenths(1_000_000)),
        1_000_000_000.. => format!("{}G", tenths(1_000_000_000)),
    }
}

/// A length of time in its two largest units.
pub(crate) fn length(ms: i64) -> String {
    let (ms, s) = (ms.unsigned_abs(), ms.unsigned_abs() / 1_000);
    match s {
        0 if ms == 0 => "0 s".into(),
        0 => format!("{ms} ms"),
        1..60 => format!("{s} s"),
        60..3_600 => two(s / 60, "min", s % 60, "s"),
        3_600..86_400 => two(s / 3_600, "h", s % 3_600 / 60, "min"),
        86_400.. => two(s / 86_400, "d", s % 86_400 / 3_600, "h"),
    }
}

/// A setting as people say it: 180 d instead of P180D.
pub(crate) fn setting(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
        Value::String(text) => lasting(text),
        other => other.to_string(),
    }
}

/// A length of time as people say it; another text as it is.
pub(crate) fn lasting(text: &str) -> String {
    let is_length = text.strip_prefix('P').and_then(|_| Length::parse(text).ok());
    is_length.map_or_else(|| text.to_owned(), |span| length(span.ms()))
}

fn two(large: u64, unit: &str, small: u64, smaller: &str) -> String {
    match (large, small) {
        // A second unit tells something only while the first is small.
        (10.., _) | (_, 0) => format!("{large} {unit}"),
        (0..10, small) => format!("{large} {unit} {small} {smaller}"),
    }
}

/// How long ago, in one unit, or in how long.
pub(crate) fn ago(at: Time, now: Time) -> String {
    let ms = now.since(at);
    let s = ms.unsigned_abs() / 1_000;
    let text = match s {
        0..10 => return "just now".into(),
        10..60 => format!("{s} s"),
        60..3_600 => format!("{} min", s / 60),
        3_600..172_800 => format!("{} h", s / 3_600),
        172_800.. => format!("{} d", s / 86_400),
    };
    if ms >= 0 { format!("{text} ago") } else { format!("in {text}") }
}

/// A number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    let tenths = |unit: u64| format!("{:.1}", bytes as f64 / unit as f64);
    match bytes {
        1 => "1 byte".into(),
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", tenths(1_024)),
        1_048_576.. => format!("{} MiB", tenths(1_048_576)),
    }
}

/// For text that stands between tags or in quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[askama::filter_fn]
pub(crate) fn plain(value: impl Display, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(visible(&value.to_string()))
}

#[askama::filter_fn]
pub(crate) fn short(value: impl Display, _: &dyn askama::Values, signs: usize) -> askama::Result<String> {
    Ok(beginning(&value.to_string(), signs))
}

#[askama::filter_fn]
pub(crate) fn number(value: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(grouped(*value))
}

#[askama::filter_fn]
pub(crate) fn compact(value: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(rounded(*value))
}

#[askama::filter_fn]
pub(crate) fn bytes(value: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(size(*value))
}

/// A state or a kind as a word: `lane_blocked` reads as "lane blocked".
#[askama::filter_fn]
pub(crate) fn word(value: impl Display, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(value.to_string().replace('_', " "))
}

/// A time as the API writes it, shown as how long ago it was; the exact one on hover.
#[askama::filter_fn]
pub(crate) fn time(value: impl Display, _: &dyn askama::Values, now: &Time) -> askama::Result<Safe<String>> {
    let text = value.to_string();
    let Ok(at) = Time::parse(&text) else { return Ok(Safe(escaped(&visible(&text)))) };
    let mut html = String::new();
    write!(html, "<time datetime=\"{at}\" title=\"{at}\">{}</time>", ago(at, *now))?;
    Ok(Safe(html))
}

/// A value for the query of an address.
pub(crate) fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

#[askama::filter_fn]
pub(crate) fn query(value: impl Display, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(encoded(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\u{202e}b\u{0}c"), "a⟨U+202E⟩b⟨U+0000⟩c");
        assert_eq!(visible("zero\u{200b}width"), "zero⟨U+200B⟩width");
        assert_eq!(visible("two\nlines\tand Ümlaut 漢字 😀"), "two\nlines\tand Ümlaut 漢字 😀");
    }

    #[test]
    fn a_long_text_is_cut_between_signs() {
        assert_eq!(beginning("äöü", 3), "äöü");
        assert_eq!(beginning("äöüß", 3), "äöü…");
    }

    #[test]
    fn settings_read_as_people_say_them() {
        let values = [Value::Null, 10_000.into(), "P180D".into(), "PT5M".into(), "archive".into()];
        assert_eq!(values.map(|value| setting(&value)), ["none", "10,000", "180 d", "5 min", "archive"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1_000, 12_431, 1_234_567].map(grouped),
            ["0", "999", "1,000", "12,431", "1,234,567"]
        );
        assert_eq!([9_999, 12_431, 3_150_000].map(rounded), ["9,999", "12.4k", "3.1M"]);
        assert_eq!(
            [0, 250, 59_000, 90_000, 7_200_000, 90_000_000].map(length),
            ["0 s", "250 ms", "59 s", "1 min 30 s", "2 h", "1 d 1 h"]
        );
        assert_eq!([1, 512, 2_048, 5_242_880].map(size), ["1 byte", "512 bytes", "2.0 KiB", "5.0 MiB"]);
    }

    #[test]
    fn times_lie_behind_or_before_us() {
        let now = Time::from_ms(1_000_000_000);
        let read = |s: i64| ago(now.plus_ms(-s * 1_000), now);
        assert_eq!(
            [2, 30, 120, 7_200, 200_000, -120].map(read),
            ["just now", "30 s ago", "2 min ago", "2 h ago", "2 d ago", "in 2 min"]
        );
    }
}
