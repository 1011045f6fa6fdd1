//! The part of a text that is looked at: its beginning and its end, line by line.
//!
//! Root causes stand at the beginning in some languages and at the end in others, so neither end may be dropped; what
//! lies between in a text of a megabyte is hostile or recursion.

use crate::limits;

/// The lines of a text's beginning and end, each cut to a bounded length.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let both = limits::BACKTRACE_BYTES_EACH_END * 2;
    if text.len() <= both {
        return bounded(text);
    }
    let head = beginning(text, limits::BACKTRACE_BYTES_EACH_END);
    // The last line of the beginning and the first of the end are torn.
    let head = head.rfind('\n').map_or(head, |at| &head[..at]);
    let tail = &text[text.ceil_char_boundary(text.len() - limits::BACKTRACE_BYTES_EACH_END)..];
    let tail = tail.find('\n').map_or(tail, |at| &tail[at + 1..]);
    let mut lines = bounded(head);
    lines.extend(bounded(tail));
    lines
}

/// The beginning of a text, cut at a character's edge.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    &text[..text.floor_char_boundary(bytes)]
}

fn bounded(text: &str) -> Vec<&str> {
    let lines = text.split('\n').take(limits::BACKTRACE_LINES_MAX);
    let mut lines: Vec<&str> =
        lines.map(|line| beginning(line, limits::BACKTRACE_LINE_BYTES_MAX).trim_ascii_end()).collect();
    // Behind the last end of a line is no line.
    if text.ends_with('\n') && lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_long_text_are_seen() {
        let text = format!("first\n{}\nlast", "middle ü\n".repeat(200_000));
        let lines = lines(&text);
        assert_eq!(lines.first(), Some(&"first"));
        assert!(lines.len() <= 2 * limits::BACKTRACE_LINES_MAX);
        let short = super::lines("first\nlast\r\n");
        assert_eq!(short, ["first", "last"]);
    }

    #[test]
    fn one_endless_line_is_cut() {
        let text = "ü".repeat(1_000_000);
        assert!(lines(&text).iter().all(|line| line.len() <= limits::BACKTRACE_LINE_BYTES_MAX));
    }
}
