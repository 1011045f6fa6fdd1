//! What programs put around an error's own words: labels, retries, the letter that was handled, the line it stood in.
//!
//! Each of these comes and goes with the layer that reports. Nothing here may take away the last words that are left.

use crate::fingerprint::error_type;
use crate::fingerprint::search::{self, Parts};
use crate::fingerprint::template::Template;
use crate::limits;

/// What programs write in front of an error that they did not expect.
const LABELS: &[&str] = &[
    "Uncaught ",
    "Unhandled exception. ",
    "UnhandledPromiseRejectionWarning: ",
    "PHP Fatal error:  Uncaught ",
    "panic: ",
    "One or more errors occurred. (",
    "Unexpected error: ",
    "Traceback (most recent call last):",
    "(in promise) ",
];

/// Takes labels, and brackets that name a worker or a request, away from the front, and the constructor that newer
/// versions of PHP no longer name.
pub(super) fn without_label(text: &str) -> &str {
    let text = match text.split_once("::__construct(): ") {
        Some((class, rest)) if !class.contains(' ') => rest,
        Some(_) | None => text,
    };
    let text = without_brackets(text.trim_start());
    let text = LABELS.iter().find_map(|label| text.strip_prefix(label)).unwrap_or(text).trim_start();
    // `thread 'main' panicked at src/main.rs:1:2:` and the message behind it.
    let end = search::find(text, "\n").unwrap_or(text.len());
    match search::find(&text[..end], "panicked at ") {
        Some(at) if text[..at].is_empty() || text.starts_with("thread ") => {
            let line = text[at..end].trim_end();
            if line.ends_with(':') && end < text.len() {
                return text[end..].trim_start();
            }
            let behind = search::find(&text[at..], ": ").map(|colon| text[at + colon + 2..].trim_start());
            behind.filter(|rest| !rest.is_empty()).unwrap_or(text)
        }
        Some(_) | None => text,
    }
}

/// `[job=77] …`, `[worker-3] …`, `[2026-01-02 10:00:00] …`: who or when, and not what. `[Errno 111]` stays.
fn without_brackets(text: &str) -> &str {
    let Some((inside, rest)) = text.strip_prefix('[').and_then(|text| text.split_once("] ")) else {
        return text;
    };
    let digits = inside.bytes().filter(u8::is_ascii_digit).count();
    let small = inside.len() <= limits::NAME_IN_MESSAGE_BYTES_MAX && !inside.contains(['[', '\n', '"']);
    let counted =
        digits >= 6 && !inside.bytes().any(|byte| byte.is_ascii_uppercase() && byte != b'T' && byte != b'Z');
    let runs = inside.contains('=') || names_a_run(inside) || counted || is_level(inside);
    if small && runs && !rest.trim().is_empty() { rest.trim_start() } else { text }
}

fn is_level(word: &str) -> bool {
    matches!(word, "ERROR" | "WARN" | "WARNING" | "error" | "CRITICAL" | "FATAL" | "Error" | "SEVERE")
}

/// Words that announce a cause. Each ends with a space.
const MARKERS: &[&str] =
    &["nested exception is ", "Caused by: ", "caused by: ", "root cause: ", "original error: "];

/// What stands behind the last words that announce a cause.
pub(super) fn after_marker(text: &str) -> Option<&str> {
    // The processes of Elixir tell the end of another one on a line of its own.
    if let Some(at) = search::rfind(text, "** (").filter(|at| text[..*at].ends_with([' ', '\n', '\t'])) {
        return Some(&text[at..]);
    }
    let line = search::first_line(text);
    let is_announced = |at: &usize| MARKERS.iter().any(|marker| line[..*at].ends_with(marker));
    let spaces = line.bytes().enumerate().filter(|(_, byte)| *byte == b' ').map(|(at, _)| at + 1);
    let announced = spaces.rev().find(is_announced)?;
    let rest = text[announced..].trim_start();
    (!rest.is_empty()).then_some(rest)
}

/// What a database's own words begin with, or the statement before them.
const OF_DATABASE: Parts = Parts::of(&["ERROR: ", "FATAL: ", "SQLSTATE[", "SQL ["]);

/// A database's own words behind whatever its caller said: `insert row 7: ERROR: column …`.
pub(super) fn of_database(text: &str) -> Option<&str> {
    let line = search::first_line(text);
    if !search::has_any(line, OF_DATABASE) {
        return None;
    }
    let inner = |at: &usize| *at > 0 && line[..*at].ends_with([' ', '[', '(', '\t']);
    let severity = ["ERROR: ", "FATAL: "].iter().find_map(|marker| {
        let at = search::find(line, marker).filter(inner)?;
        line[..at].trim_end().ends_with([':', ';', '[', '(']).then_some(at + marker.len())
    });
    let from = severity
        .or_else(|| search::find(line, "SQLSTATE[").filter(inner))
        .or_else(|| behind_statement(line))?;
    let rest = text[from..].trim_start();
    // The row that is in the way follows, and the statement.
    let end = ["] [", "]; ", " Detail: ", " DETAIL: "].iter().filter_map(|end| search::find(rest, end)).min();
    let rest = &rest[..end.unwrap_or(rest.len())];
    (!rest.is_empty()).then_some(rest)
}

/// Where the words behind a statement begin: `SQL [insert into …]; Duplicate entry …`.
fn behind_statement(line: &str) -> Option<usize> {
    let statement = search::find(line, "SQL [")?;
    let end = search::rfind(line, "]; ").filter(|end| *end > statement)?;
    Some(end + 3)
}

/// What begins the words about where an error was noticed.
const TAILS: Parts = Parts::of(&[
    ", called in ",
    ". script: ",
    ". Stack trace",
    " (called from ",
    " (Client.Timeout exceeded",
    "; see logs",
    ". See logs",
]);

/// Cuts what only says where the error was noticed: `…, called in /app/x.php on line 3 and defined in …`.
pub(super) fn without_tail(text: &str) -> &str {
    let line = search::find(text, "\n").unwrap_or(text.len());
    let end = search::find_any(&text[..line], TAILS).filter(|at| *at > 0).unwrap_or(text.len());
    let text = &text[..end];
    let line = &text[..search::find(text, "\n").unwrap_or(text.len())];
    // Ruby repeats the name behind the message: `duplicate key (ActiveRecord::RecordNotUnique)`.
    match line.trim_end().strip_suffix(')').and_then(|line| line.rsplit_once(" (")) {
        Some((before, name)) if error_type::is_surely_name(name) && !before.trim().is_empty() => before,
        Some(_) | None => text,
    }
}

/// Takes away the operation that failed, where a reason follows: `Failed to upload a to b: access denied`. Only for
/// errors of libraries, where the program's own frame tells the operation.
pub(in crate::fingerprint) fn without_operation(text: &str) -> &str {
    let Some((operation, reason)) = search::split_once(text, ": ") else { return text };
    let is_word = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let reasoned = reason.split([' ', ',', '.']).filter(is_word).count() >= 2;
    let small = operation.len() <= limits::QUOTED_BYTES_MAX && !operation.contains('\n');
    let failed = FAILED
        .iter()
        .any(|start| operation.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start)))
        || operation.ends_with(" failed");
    // A reason that names a field or a constraint needs nobody else's words.
    let is_enough = failed || Template::of(reason).names_a_part();
    if small && reasoned && is_enough && names_nothing(operation) { reason } else { text }
}

/// Whether a text holds neither names nor codes; plain words are told without looking at each.
fn names_nothing(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b' ' | b',');
    text.bytes().skip(1).all(is_plain) || Template::of(text).kept().is_empty()
}

/// How a sentence about an operation begins.
const FAILED: &[&str] = &[
    "failed to ",
    "could not ",
    "couldn't ",
    "unable to ",
    "error while ",
    "error during ",
    "error when ",
    "error on ",
    "i/o error ",
    "exception while ",
    "exception during ",
    "exception in ",
    "problem ",
    "failure ",
];

/// Whether a segment only says that something failed, how often, for whom, or while handling what.
pub(super) fn is_generic(segment: &str) -> bool {
    if segment.len() > 120 || segment.contains('\n') {
        return false;
    }
    if names_a_run(segment) {
        return true;
    }
    let (mut failed, mut handled, mut other, mut words) = (false, false, 0_usize, 0_usize);
    for word in Unquoted::of(segment) {
        words += 1;
        let (fails, handles) = (search::is_word_of(FAILURES, word), search::is_word_of(HANDLING, word));
        failed |= fails;
        handled |= handles;
        if word.is_empty() || fails || handles || search::is_word_of(GENERIC, word) || is_value_or_name(word)
        {
            continue;
        }
        other += 1;
        if other > 2 {
            return false;
        }
    }
    let named = segment.bytes().any(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'.' | b'_' | b'\\'));
    // `Error while handling order 7` says no more than the letter's type does.
    other == 0 && (!named || failed || handled) || failed && handled && other <= 2 && words <= 9
}

/// `pod api-7d9c-x2x9k`, `tenant acme`, `worker-3`: which of many it was.
fn names_a_run(segment: &str) -> bool {
    let segment = segment.trim();
    let mut words = segment.split([' ', '=', '#', ':']).filter(|word| !word.is_empty());
    let (Some(first), second, None) = (words.next(), words.next(), words.next()) else { return false };
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let noun = first.split(['-', '_', '[', '/']).next().unwrap_or(first);
    match second {
        Some(second) => {
            search::is_word_of(RUNS, first)
                && (has_digit(second) || second.contains('-') || segment.contains('='))
                || first.eq_ignore_ascii_case("tenant")
        }
        None => search::is_word_of(RUNS, noun) && has_digit(first),
    }
}

/// The words of a text that do not stand in quotes.
struct Unquoted<'a> {
    rest: &'a str,
}

impl<'a> Unquoted<'a> {
    fn of(text: &'a str) -> Unquoted<'a> {
        Unquoted { rest: text }
    }
}

impl<'a> Iterator for Unquoted<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let ends = |byte: u8| {
            matches!(
                byte,
                b' ' | b',' | b';' | b'(' | b')' | b'[' | b']' | b'/' | b'"' | b'`' | b':' | b'#' | b'!'
            )
        };
        loop {
            let bytes = self.rest.as_bytes();
            let skips =
                |byte: &u8| (ends(*byte) || matches!(byte, b'-' | b'.')) && !matches!(byte, b'"' | b'`');
            let start = bytes.iter().position(|byte| !skips(byte))?;
            self.rest = &self.rest[start..];
            let quote = self.rest.as_bytes()[0];
            if matches!(quote, b'"' | b'\'' | b'`') {
                let inside = &self.rest[1..];
                let close = inside.bytes().position(|byte| byte == quote);
                self.rest = close.map_or("", |at| &inside[at + 1..]);
                continue;
            }
            let end = self.rest.bytes().position(ends).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(word.trim_end_matches(['.', '\'']));
        }
    }
}

/// An id, or the name of a class or an event.
fn is_value_or_name(word: &str) -> bool {
    let humps = word.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    word.bytes().any(|byte| byte.is_ascii_digit())
        || word.contains(['.', '_', '\\'])
        || humps > 0 && humps + 1 < word.len()
}

/// Nouns whose number or name says which of many runs, machines or requests failed.
#[rustfmt::skip]
const RUNS: &[&str] = &[
    "attempt", "batch", "cid", "consumer", "container", "correlation", "delivery", "event", "host", "instance", "jid", "job", "jobid",
    "message", "msg", "node", "offset", "partition", "pid", "pod", "process", "replica", "req", "request", "requestid", "retry", "rid",
    "run", "shard", "span", "task", "tenant", "thread", "tid", "trace", "traceid", "worker",
];

/// Words that say that something went wrong and not what.
#[rustfmt::skip]
const FAILURES: &[&str] = &[
    "aborted", "can't", "cannot", "could", "couldn't", "crashed", "encountered", "err", "error", "errored", "errors", "exception", "fail",
    "failed", "fails", "failure", "fatal", "occurred", "panic", "raised", "rejected", "threw", "thrown", "unable", "uncaught",
    "unexpected", "unhandled",
];

/// Words for what is done with any letter.
#[rustfmt::skip]
const HANDLING: &[&str] = &[
    "consume", "consumer", "consuming", "dispatch", "dispatching", "execute", "executing", "execution", "handle", "handler", "handling",
    "listener", "perform", "performing", "process", "processing", "running", "subscriber", "worker",
];

/// Words that go with the others and tell nothing alone.
#[rustfmt::skip]
const GENERIC: &[&str] = &[
    "a", "after", "all", "an", "and", "at", "attempt", "attempts", "been", "by", "cause", "caused", "command", "critical", "delivery",
    "during", "event", "events", "exceeded", "exhausted", "final", "finally", "for", "from", "gave", "giving", "has", "have", "in", "is",
    "its", "job", "jobs", "last", "letter", "max", "maximum", "message", "messages", "method", "more", "no", "not", "of", "on", "reached",
    "recovered", "retries", "retry", "retrying", "root", "run", "s", "severe", "step", "task", "tasks", "the", "time", "times", "to",
    "tries", "try", "up", "warning", "was", "when", "while", "with", "wrapped",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched() {
        for table in [RUNS, FAILURES, HANDLING, GENERIC] {
            assert!(search::is_table(table), "{table:?}");
        }
    }
}
