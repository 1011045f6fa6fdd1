//! Quoted text: a name that tells causes apart stays, a value goes.

use super::scan::{Scan, is_identifier};
use super::{Kind, names, vocabulary};
use crate::fingerprint::search;
use crate::limits;

/// Reads what begins with a quote; a quote without an end is passed over.
pub(super) fn read(scan: &mut Scan<'_>) {
    let quote = scan.bytes[scan.at];
    let start = scan.at + 1;
    // An apostrophe inside a word is no quote.
    if quote == b'\'' && scan.at > 0 && scan.bytes[scan.at - 1].is_ascii_alphanumeric() {
        scan.at = start;
        return;
    }
    let Some(end) = end_of(scan, start, quote) else {
        scan.at = start;
        return;
    };
    decide(scan, start, end);
    scan.at = end + 1;
}

/// Reads `“x”` and `‘x’`.
pub(super) fn read_typographic(scan: &mut Scan<'_>) {
    let start = scan.at + 3;
    let window = crate::fingerprint::excerpt::beginning(&scan.source[start..], limits::QUOTED_BYTES_MAX);
    match window.find(['\u{201d}', '\u{2019}']) {
        Some(length) => {
            decide(scan, start, start + length);
            scan.at = start + length + 3;
        }
        None => scan.at = start,
    }
}

/// Where the quote that closes this one stands.
fn end_of(scan: &Scan<'_>, start: usize, quote: u8) -> Option<usize> {
    let mut at = start;
    let stop = scan.bytes.len().min(start + limits::QUOTED_BYTES_MAX);
    while at < stop {
        let byte = scan.bytes[at];
        let next = scan.bytes.get(at + 1).copied().unwrap_or(b' ');
        match byte {
            b'\\' => at += 1,
            // Ruby opens with a backtick and closes with an apostrophe.
            b'\'' if quote == b'`' && !next.is_ascii_alphanumeric() => return Some(at),
            b'\'' if quote == b'\'' && next.is_ascii_alphanumeric() => {}
            b'\n' if quote == b'\'' => return None,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn decide(scan: &mut Scan<'_>, start: usize, end: usize) {
    let text = &scan.source[start..end];
    if text.is_empty() {
        return;
    }
    if is_spoken(scan, start, text) || is_status(text) || is_shown_error(scan, start, text) {
        // Somebody's own words in quotes are a message within the message.
        let inner = super::scan::pieces(text);
        scan.pieces.extend(inner.into_iter().map(|it| super::Piece {
            start: it.start + start,
            end: it.end + start,
            kind: it.kind,
        }));
        return;
    }
    let kind = if stays(scan, start, end, text) { Kind::Kept } else { Kind::Value("<quoted>") };
    if kind != Kind::Kept && scan.key_of_value(start).is_some() {
        scan.hide_key();
    }
    scan.push(start, end, kind);
}

/// `desc = "transport: connection refused"`: words, and not one value.
fn is_spoken(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let led = scan.pieces.last().is_some_and(|last| {
        let gap = scan.source[last.end..start].trim_matches([' ', '"', '\'', '`', '(']);
        matches!(gap, "=" | ":") || gap.is_empty() && scan.before(0) == "message"
    });
    let words = text
        .split(' ')
        .filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()))
        .count();
    led && words >= 2 && vocabulary::is_spoken_key(scan.before(0))
}

/// `NewConnectionError('… Connection refused')`: an error as Python shows it.
fn is_shown_error(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let name = scan.before(0);
    (name.ends_with("Error") || name.ends_with("Exception"))
        && scan.pieces.last().is_some_and(|last| &scan.bytes[last.end..start - 1] == b"(")
        && text.contains(' ')
}

/// `401 Unauthorized` and `Unauthorized, status code 401`, as clients quote what they got.
fn is_status(text: &str) -> bool {
    if let Some((_, number)) = search::rfind(text, "status code ").map(|at| text.split_at(at + 12)) {
        return number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    }
    let Some((number, reason)) = text.split_once(' ') else { return false };
    number.len() == 3
        && number.starts_with(['4', '5'])
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && vocabulary::is_reason(reason.split(' ').next().unwrap_or(reason))
}

fn stays(scan: &Scan<'_>, start: usize, end: usize, text: &str) -> bool {
    // `Duplicate entry 'x' for key 'y'`, `for value "undefined"`: whatever it looks like and whatever follows.
    let key = scan.key_of_value(start);
    let is_value = key.map_or(matches!(scan.before(0), "entry" | "value"), |key| key.ends_with("_value"));
    if is_value {
        return false;
    }
    if vocabulary::is_type(text) || is_setting(text) || is_call(text) || is_class(text) {
        return true;
    }
    if !is_identifier(text) || vocabulary::offers(scan.before(0)) || vocabulary::offers(scan.before(1)) {
        return false;
    }
    // Codes of goods and places are values wherever they stand: `DE-BY`, `A-12`.
    if text.contains('-')
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-')
    {
        return false;
    }
    // Codes of countries, currencies and languages.
    if text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_uppercase()) && !scan.pieces.is_empty() {
        return false;
    }
    let quote = scan.bytes[start - 1];
    // `"SCHEMA"."TABLE"."COLUMN"`.
    let joins = |dot: Option<usize>, other: Option<usize>| {
        dot.and_then(|at| scan.bytes.get(at)) == Some(&b'.')
            && other.and_then(|at| scan.bytes.get(at)) == Some(&quote)
    };
    if joins(Some(end + 1), Some(end + 2)) || joins(start.checked_sub(2), start.checked_sub(3)) {
        return true;
    }
    // `load tariff "night": …`: behind a subject the sentence ends, and what follows is not about it.
    let is_subject = scan.bytes.get(end + 1) == Some(&b':') && !scan.pieces.is_empty();
    let (last, second) = (scan.before(0), scan.before(1));
    // A type stands before a value: `!!str `wide``.
    let is_typed = vocabulary::is_type(last) && !vocabulary::names_a_part(last);
    // Backticks are put around code; `Order["items"]` is a way into a structure.
    if quote == b'`' && !is_subject && !is_typed || start >= 2 && scan.bytes[start - 2] == b'[' {
        return true;
    }
    if let Some(key) = key {
        return vocabulary::is_telling_key(key) || vocabulary::names_a_part(key);
    }
    let whole = scan.pieces.is_empty() && scan.bytes[end + 1..].iter().all(u8::is_ascii_whitespace);
    if whole || scan.continues_names() {
        return true;
    }
    if matches!(last, "got" | "was" | "string" | "input" | "given" | "received" | "literal") {
        return false;
    }
    let near = scan.pieces.last().is_none_or(|last| !scan.source[last.end..start].contains(['.', ';']));
    let led = vocabulary::names_a_part(last)
        // `key not found: "locale"`.
        || last == "found" && vocabulary::names_a_part(scan.before(2))
        || matches!(last, "including" | "for" | "of" | "name" | "called" | "with" | "to" | "on" | "is" | "s")
            && vocabulary::names_a_part(second);
    if near && led {
        return true;
    }
    let entity = names::is_entity(last) && !matches!(last, "for" | "by" | "named");
    !entity && !is_subject && (0..3).any(|skip| vocabulary::tells_a_part(scan.after(end + 1, skip)))
}

/// `STRIPE_API_KEY`: settings and constants are written like this, values hardly ever.
fn is_setting(text: &str) -> bool {
    text.len() >= 5
        && text.contains('_')
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// `com.acme.Order.getCustomer()`, `Result::unwrap()`.
fn is_call(text: &str) -> bool {
    let Some((name, _)) = text.split_once('(') else { return false };
    text.ends_with(')') && is_identifier(name)
}

/// `java.time.LocalDate`, `System.String`, `App\Order`, `App\Models\Order`.
fn is_class(text: &str) -> bool {
    let mut parts = text.rsplit(['.', '\\', ':']);
    let last = parts.next().unwrap_or(text);
    is_identifier(text)
        && last.len() < text.len()
        && last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.bytes().any(|byte| byte.is_ascii_lowercase())
}
