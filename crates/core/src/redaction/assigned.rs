//! Names with a value behind them in a text: `password=…`, `token: …`, `"secret" => "…"`.

use std::ops::Range;

use super::{Compiled, MASK};
use crate::limits;

/// Words that people and programs write behind a name to tell what is wrong with it, and that are nobody's secret.
const PROSE: &[&str] = &[
    "a",
    "an",
    "and",
    "are",
    "as",
    "at",
    "auth",
    "authentication",
    "authorization",
    "be",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "did",
    "does",
    "doesn't",
    "empty",
    "error",
    "exceeded",
    "expected",
    "expired",
    "failed",
    "failure",
    "false",
    "field",
    "for",
    "format",
    "found",
    "from",
    "given",
    "has",
    "have",
    "in",
    "incorrect",
    "invalid",
    "is",
    "it",
    "its",
    "length",
    "malformed",
    "may",
    "mismatch",
    "missing",
    "must",
    "nil",
    "no",
    "none",
    "not",
    "null",
    "of",
    "on",
    "only",
    "or",
    "please",
    "rejected",
    "required",
    "revoked",
    "scheme",
    "should",
    "signature",
    "string",
    "that",
    "the",
    "this",
    "to",
    "token",
    "tokens",
    "too",
    "true",
    "type",
    "unauthorized",
    "undefined",
    "unexpected",
    "unknown",
    "unset",
    "unsupported",
    "validation",
    "value",
    "verification",
    "was",
    "were",
    "when",
    "will",
    "with",
    "wrong",
    "your",
];

/// Whether a word is one of those, whatever ends the sentence behind it.
pub(super) fn is_prose(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '!', '?', ')', ']', '}', ':']).to_ascii_lowercase();
    PROSE.binary_search(&word.as_str()).is_ok()
}

/// Finds the values, in their order.
pub(super) fn find(rules: &Compiled, text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| matches!(byte, b':' | b'=')) {
        let sign = at + step;
        at = sign + 1;
        let Some(name) = name_before(text, sign) else { continue };
        if !rules.keys.has(&text[name.clone()]) {
            continue;
        }
        if let Some(value) = value_behind(text, sign, extent(text, name)) {
            at = value.end;
            found(value);
        }
    }
}

/// The name that ends before a sign, perhaps in quotes; of `spring.datasource.password` the last word.
fn name_before(text: &str, sign: usize) -> Option<Range<usize>> {
    let before = text[..sign].trim_end_matches([' ', '\t']).trim_end_matches(['"', '\'', '`', '\\', ']']);
    let bytes = before.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let start = bytes.iter().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
    // A name that is not ASCII is compared whole.
    let start = before[..start]
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric())
        .last()
        .map_or(start, |(at, _)| at);
    let name = start..before.len();
    Some(name).filter(|name| !name.is_empty() && name.len() <= limits::REDACTION_NAME_BYTES_MAX)
}

/// How far a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Word,
    /// To the end of the line: a scheme and what belongs to it, or several cookies. The quote in which the name stands
    /// too ends it.
    Line {
        quote: Option<u8>,
    },
}

fn extent(text: &str, name: Range<usize>) -> Extent {
    let quote = text[..name.start].bytes().next_back().filter(|byte| matches!(byte, b'"' | b'\''));
    let name = &text[name];
    let ends = |ending: &str| {
        name.len() >= ending.len()
            && name.as_bytes()[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    };
    if ends("authorization") || ends("cookie") { Extent::Line { quote } } else { Extent::Word }
}

fn value_behind(text: &str, sign: usize, extent: Extent) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut start = sign + 1;
    match (bytes[sign], bytes.get(start)) {
        // A path of names, as in `token::verify`.
        (b':', Some(b':')) => return None,
        (b'=', Some(b'>')) | (b':' | b'=', Some(b'=')) => start += 1,
        _ => {}
    }
    if bytes[sign] == b':' && sign > 0 && bytes[sign - 1] == b':' {
        return None;
    }
    let parted = matches!(bytes.get(start), Some(b' ' | b'\t'));
    while matches!(bytes.get(start), Some(b' ' | b'\t')) {
        start += 1;
    }
    let rest = &text[start..];
    if let Some(quoted) = quoted(rest) {
        let value = start + quoted.start..start + quoted.end;
        return Some(value).filter(|value| !value.is_empty() && text[value.clone()] != *MASK);
    }
    if rest.starts_with(MASK) {
        return None;
    }
    // Nothing looks farther than its value goes: a text of many names would be read once for each.
    let end = match (extent, rest.as_bytes().first()?) {
        (Extent::Line { quote }, _) => {
            let ends =
                |c: char| matches!(c, '\n' | '\r') || quote.is_some_and(|quote| c == char::from(quote));
            rest.find(ends)
        }
        (Extent::Word, b'[' | b'{') if is_json(rest) => closed(rest.as_bytes()),
        (Extent::Word, open @ (b'[' | b'{')) => {
            let close = if *open == b'[' { ']' } else { '}' };
            let end = rest.find([close, '\n', '\r']);
            end.map(|end| if rest[end..].starts_with(close) { end + 1 } else { end })
        }
        (Extent::Word, _) => {
            rest.find(|c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | ',' | ';' | '<'))
        }
    };
    let value = rest[..end.unwrap_or(rest.len())].trim_end();
    let says_nothing = !value.chars().any(char::is_alphanumeric) || (parted && is_prose(value));
    (!says_nothing).then(|| start..start + value.len())
}

/// Whether a bracket is that of an object or a list, rather than of a word.
fn is_json(text: &str) -> bool {
    let inside = text[1..].trim_start();
    inside.starts_with('"') || (text.starts_with('[') && inside.starts_with(['[', '{']))
}

/// Where the bracket that a text begins with is closed: brackets in it are counted, those in quotes are not. One that is
/// never closed hides all that is behind it.
fn closed(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut quote, mut at) = (0_usize, None, 0);
    while let Some(byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == *byte => quote = None,
            (Some(_), _) => {}
            (None, b'"') => quote = Some(b'"'),
            (None, b'[' | b'{') => depth += 1,
            (None, b']' | b'}') => depth -= 1,
            (None, _) => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Backslashes before a quote inside nested JSON strings: each level of nesting doubles them and adds one.
const SLASHES_MAX: usize = 7;

/// Returns the range of a quoted value, whose quotes may be escaped as in JSON inside a string. A value nested beyond the
/// bound hides the rest of the text.
fn quoted(rest: &str) -> Option<Range<usize>> {
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let quote = rest.as_bytes().get(slashes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    if slashes > SLASHES_MAX {
        return Some(0..rest.len());
    }
    let start = slashes + 1;
    let inside = &rest[start..];
    let closing = match slashes {
        0 => closing(inside.as_bytes(), quote),
        _ => inside.find(&rest[..start]),
    };
    // A text that was cut has no closing quote.
    let line = || inside.find(['\n', '\r']).unwrap_or(inside.len());
    Some(start..start + closing.unwrap_or_else(line))
}

/// The first quote that is not behind a backslash.
fn closing(inside: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(byte) = inside.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == quote => return Some(at),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_sorted_so_that_they_are_found() {
        assert!(PROSE.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(is_prose("Expired.") && is_prose("must") && !is_prose("hunter2"));
    }
}
