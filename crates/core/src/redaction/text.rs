//! Masks credentials and card numbers in words: error messages, backtraces, bodies that are no JSON.
//!
//! It goes by names with a value behind them, and by what credentials look like. Rather too much is masked than too
//! little, except for the words that people write behind such names: `token: expired` tells what is wrong.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::assigned;
use super::{Compiled, MASK, card};

/// The text with what is hidden masked.
pub(super) fn mask<'a>(rules: &Compiled, text: &'a str) -> Cow<'a, str> {
    let mut spans: Vec<(Range<usize>, Cow<'static, str>)> = Vec::new();
    if !rules.keys.is_empty() {
        assigned::find(rules, text, |span| spans.push((span, Cow::Borrowed(MASK))));
        elements(rules, text, &mut spans);
    }
    if rules.credentials {
        type IsCredential = fn(&str) -> bool;
        let kinds: [(&Regex, IsCredential); 4] = [
            (&AFTER_BEARER, |found| !assigned::is_prose(found)),
            (&AFTER_BASIC, is_encoded),
            (&IN_ADDRESS, |found| found != MASK),
            (&BY_LOOK, |_| true),
        ];
        for (pattern, is_credential) in kinds {
            for captures in pattern.captures_iter(text) {
                if let Some(found) = captures.get(1).filter(|found| is_credential(found.as_str())) {
                    spans.push((found.range(), Cow::Borrowed(MASK)));
                }
            }
        }
    }
    if rules.card_numbers {
        card::find(text, |span, shown| spans.push((span, Cow::Owned(shown))));
    }
    put(text, spans)
}

static AFTER_BEARER: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i)\bbearer[ \t]+([a-z0-9._~+/=\-]+)"));

static AFTER_BASIC: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i)\bbasic[ \t]+([a-z0-9+/=]{4,})"));

/// The password of an address.
static IN_ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s/?#@:]*:([^\s/?#]+)@"));

/// Signed tokens, and our own.
static BY_LOOK: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\b(eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?|lzr_[A-Za-z0-9_\-]{20,})")
});

/// An element of XML and the text in it.
static ELEMENT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"<([A-Za-z_][A-Za-z0-9_.:\-]*)(?:\s[^<>]*)?>([^<>]+)</"));

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that tests compile")
}

/// `Basic` is also a word, and what is behind it then is one too.
fn is_encoded(found: &str) -> bool {
    found.bytes().skip(1).any(|byte| !byte.is_ascii_lowercase())
}

fn elements(rules: &Compiled, text: &str, spans: &mut Vec<(Range<usize>, Cow<'static, str>)>) {
    if !text.contains("</") {
        return;
    }
    for captures in ELEMENT.captures_iter(text) {
        let (Some(name), Some(inside)) = (captures.get(1), captures.get(2)) else { continue };
        let name = name.as_str().rsplit(':').next().unwrap_or_default();
        let value = inside.as_str().trim();
        if !value.is_empty() && value != MASK && rules.keys.has(name) {
            spans.push((inside.range(), Cow::Borrowed(MASK)));
        }
    }
}

/// At the end of a text that was cut, at most so much may be half of something.
const TORN_BYTES: usize = 256;

/// A text that was cut, without what may be half of a number, an address, an element or a token: to know these, one has
/// to see their end.
pub(super) fn without_torn_end(text: &str) -> &str {
    let from = text.floor_char_boundary(text.len().saturating_sub(TORN_BYTES));
    let tail = &text[from..];
    // An element whose end tag is not there.
    let open = tail.rfind('<').filter(|at| !tail[*at..].starts_with("</"));
    let word = tail.rfind(char::is_whitespace).unwrap_or(0);
    let kept = &text[..from + open.map_or(word, |open| open.min(word))];
    // Groups of digits that may be the beginning of a number.
    kept.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '-')).trim_end()
}

/// Puts masks in the place of spans; those that overlap become one.
pub(super) fn put<'a>(text: &'a str, mut spans: Vec<(Range<usize>, Cow<'static, str>)>) -> Cow<'a, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|(span, _)| (span.start, span.end));
    let mut joined: Vec<(Range<usize>, Cow<'static, str>)> = Vec::with_capacity(spans.len());
    for (span, shown) in spans {
        match joined.last_mut() {
            Some((last, with)) if span.start < last.end => {
                last.end = last.end.max(span.end);
                *with = Cow::Borrowed(MASK);
            }
            Some(_) | None => joined.push((span, shown)),
        }
    }
    let (mut masked, mut done) = (String::with_capacity(text.len()), 0);
    for (span, shown) in joined {
        masked.push_str(&text[done..span.start]);
        masked.push_str(&shown);
        done = span.end;
    }
    masked.push_str(&text[done..]);
    Cow::Owned(masked)
}
