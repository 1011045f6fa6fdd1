//! The patterns of `match` and `search`, which are I-Regexps (RFC 9485), as regular expressions that take linear time.

use regex::{Regex, RegexBuilder};

use super::syntax::Span;
use crate::limits;

/// None when the pattern is not valid, or too large to be compiled or run in good time.
pub(super) fn compile(pattern: &str, span: Span) -> Option<Regex> {
    let Rewritten { part, outline } = rewrite(pattern);
    build(&outline, limits::JSON_PATH_PATTERN_OUTLINE_BYTES_MAX)?;
    let regex = build(&part, limits::JSON_PATH_PATTERN_BYTES_MAX)?;
    match span {
        Span::Part => Some(regex),
        // Only what is valid by itself may be wrapped: `a)|(b` is not, and would be.
        Span::Whole => build(&format!("\\A(?:{part})\\z"), limits::JSON_PATH_PATTERN_BYTES_MAX),
    }
}

fn build(text: &str, bytes_max: usize) -> Option<Regex> {
    RegexBuilder::new(text)
        .size_limit(bytes_max)
        .dfa_size_limit(limits::JSON_PATH_PATTERN_BYTES_MAX)
        .nest_limit(limits::JSON_PATH_PATTERN_NESTING_MAX)
        .build()
        .ok()
}

struct Rewritten {
    /// The pattern for the crate, where a dot would match a carriage return.
    part: String,
    /// The pattern with one letter for everything that matches one character. Compiled, it is as large as there are
    /// places where a match can be at a time, which is what makes a pattern slow; a class is large and not slow.
    outline: String,
}

fn rewrite(pattern: &str) -> Rewritten {
    let (mut part, mut outline) =
        (String::with_capacity(pattern.len()), String::with_capacity(pattern.len()));
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let atom = match c {
            '\\' => escape_bytes(rest),
            '[' => class_bytes(rest),
            _ => c.len_utf8(),
        };
        let (taken, left) = rest.split_at(atom);
        rest = left;
        match c {
            '.' => part.push_str("[^\\n\\r]"),
            '[' => push_class(&mut part, taken),
            _ => part.push_str(taken),
        }
        let one = matches!(c, '\\' | '[' | '.') || !c.is_ascii();
        outline.push_str(if one { "a" } else { taken });
    }
    Rewritten { part, outline }
}

/// A class without what only Rust's patterns know: brackets inside of it, and `&&`, `~~` and `--` between sets.
fn push_class(part: &mut String, class: &str) {
    let mut last = None;
    let mut chars = class.chars().enumerate();
    while let Some((at, c)) = chars.next() {
        let doubled = last == Some(c);
        match c {
            '\\' => {
                part.push(c);
                part.extend(chars.next().map(|(_, escaped)| escaped));
                last = None;
                continue;
            }
            '[' if at > 0 => part.push_str("\\["),
            '&' | '~' => part.extend(['\\', c]),
            '-' if doubled => part.push_str("\\-"),
            c => part.push(c),
        }
        last = Some(c);
    }
}

/// The bytes of an escape, which may have a name in braces.
fn escape_bytes(text: &str) -> usize {
    let escaped = text[1..].chars().next().map_or(0, char::len_utf8);
    let named = text.starts_with("\\p{") || text.starts_with("\\P{");
    match text.find('}') {
        Some(end) if named => end + 1,
        Some(_) | None => 1 + escaped,
    }
}

/// The bytes of a class up to the bracket that closes it, or all if none does.
fn class_bytes(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            ']' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, span: Span, text: &str) -> bool {
        compile(pattern, span).unwrap().is_match(text)
    }

    #[test]
    fn a_pattern_matches_the_whole_or_a_part() {
        assert!(is_match("a.c", Span::Whole, "abc"));
        assert!(!is_match("a.c", Span::Whole, "xabc"));
        assert!(is_match("a.c", Span::Part, "xabcx"));
        assert!(is_match("a|bc", Span::Whole, "bc"));
        assert!(!is_match("a|bc", Span::Whole, "ac"));
        assert!(!is_match("a", Span::Whole, "a\n"));
    }

    #[test]
    fn a_class_knows_no_sets() {
        for (pattern, text, expected) in [
            ("[a&&b]", "&", true),
            ("[a&&b]", "a", true),
            ("[a&&b]", "c", false),
            ("[a~~b]", "~", true),
            ("[a-c[]", "[", true),
            ("[a-c[]", "b", true),
            ("[^&]", "&", false),
            ("[\\[\\]&]", "]", true),
            ("[a-z]", "-", false),
        ] {
            assert_eq!(is_match(pattern, Span::Whole, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_dot_is_any_character_but_the_end_of_a_line() {
        for (pattern, text, expected) in [
            (".", "é", true),
            (".", "\n", false),
            (".", "\r", false),
            ("\\.", ".", true),
            ("\\.", "x", false),
            ("[.]", ".", true),
            ("[.]", "x", false),
            ("[\\].]", ".", true),
            ("\\p{Lu}+", "ÄÖ", true),
            ("[0-9]{2,3}", "1234", false),
            ("\\p{L}{2}[^.]é", "äÖxé", true),
            ("\\P{L}.", "1x", true),
        ] {
            assert_eq!(is_match(pattern, Span::Whole, text), expected, "{pattern} {text:?}");
        }
    }

    #[test]
    fn a_pattern_that_is_not_valid_or_too_large_is_none() {
        let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        for pattern in
            ["(", "a)|(b", "[", "\\", "a{2,1}", "(a{100}){100}", "[ab]*a[ab]{1000}", "\\p{L", "[a", &nested]
        {
            assert!(compile(pattern, Span::Whole).is_none(), "{pattern}");
            assert!(compile(pattern, Span::Part).is_none(), "{pattern}");
        }
    }
}
