//! What programs put around an error's own words: labels, retries, the letter that was handled, the line it stood in.
//!
//! Each of these comes and goes with the layer that reports. Nothing here may take away the last words that are left.

use crate::fingerprint::error_type;
use crate::fingerprint::search::{self, Parts, Words};
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

/// Takes labels, and brackets that name a worker or a request, away from the front.
pub(super) fn without_label(text: &str) -> &str {
    // Newer versions of PHP no longer name the constructor that failed.
    let text = match text.split_once("::__construct(): ") {
        Some((class, rest)) if !class.contains(' ') => rest,
        Some(_) | None => text,
    };
    let text = without_brackets(without_time(text.trim_start()));
    let text = LABELS.iter().find_map(|label| text.strip_prefix(label)).unwrap_or(text).trim_start();
    // `thread 'main' panicked at src/main.rs:1:2:` and the message behind it.
    if !text.starts_with("thread ") && !text.starts_with("panicked at ") {
        return text;
    }
    let end = search::find(text, "\n").unwrap_or(text.len());
    let Some(at) = search::find(&text[..end], "panicked at ") else { return text };
    if text[at..end].trim_end().ends_with(':') && end < text.len() {
        return text[end..].trim_start();
    }
    let behind = search::split_once(&text[at..], ": ").map(|(_, rest)| rest.trim_start());
    behind.filter(|rest| !rest.is_empty()).unwrap_or(text)
}

/// `2026-01-02 10:00:00,119 ERROR …`, as a log begins its lines. A time without a level may belong to the sentence.
fn without_time(text: &str) -> &str {
    let is_time = |word: &str| {
        word.len() >= 8
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().all(|b| {
                b.is_ascii_digit() || matches!(b, b'-' | b':' | b'.' | b',' | b'T' | b'Z' | b'+' | b'/')
            })
    };
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once(' ').filter(|(word, _)| is_time(word)) {
        rest = behind.trim_start();
    }
    match rest.split_once(' ') {
        Some((level, message)) if rest.len() < text.len() && is_level(level.trim_end_matches(':')) => {
            message.trim_start()
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

/// Words that announce a cause.
const MARKERS: Parts =
    Parts::of(&["nested exception is ", "Caused by: ", "caused by: ", "root cause: ", "original error: "]);

/// What stands before and behind the last words that announce a cause.
pub(super) fn split_at_marker(text: &str) -> Option<(&str, &str)> {
    // The processes of Elixir tell the end of another one on a line of its own.
    if text.contains('*')
        && let Some(at) = search::rfind(text, "** (")
        && text[..at].ends_with([' ', '\n', '\t'])
    {
        return Some((&text[..at], &text[at..]));
    }
    let line = search::first_line(text);
    let mut announced = None;
    let mut from = 0;
    while let Some(at) = search::find_any(&line[from..], MARKERS) {
        from += at + 1;
        announced = Some(from);
    }
    // Each marker ends with `: ` but the first.
    let announced = announced?;
    let behind = &line[announced..];
    let rest = behind
        .strip_prefix("ested exception is ")
        .or_else(|| search::split_once(behind, ": ").map(|it| it.1))?;
    let rest = text[line.len() - rest.len()..].trim_start();
    (!rest.is_empty()).then_some((line[..announced - 1].trim_end_matches([' ', ';', ',']), rest))
}

/// A database's own words behind whatever its caller said: `insert row 7: ERROR: column …`.
pub(super) fn of_database(text: &str) -> Option<&str> {
    let line = search::first_line(text);
    let inner = |at: &usize| *at > 0 && line[..*at].ends_with([' ', '[', '(', '\t']);
    let severity = ["ERROR: ", "FATAL: "].iter().find_map(|marker| {
        let at = search::find(line, marker).filter(inner)?;
        line[..at].trim_end().ends_with([':', ';', '[', '(']).then_some(at + marker.len())
    });
    let vendor = || {
        search::find(line, "ORA-")
            .filter(inner)
            .filter(|at| line[at + 4..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let from = severity
        .or_else(|| search::find(line, "SQLSTATE[").filter(inner))
        .or_else(vendor)
        .or_else(|| behind_statement(line))?;
    let rest = text[from..].trim_start();
    // The row that is in the way follows, and the statement.
    let end = ["] [", "]; ", " Detail: ", " DETAIL: "].iter().filter_map(|end| search::find(rest, end)).min();
    let rest = &rest[..end.unwrap_or(rest.len())];
    (!rest.is_empty()).then_some(rest)
}

/// Where the words behind a statement begin: `SQL [insert into …]; Duplicate entry …`, `update … - Duplicate entry …`,
/// `could not execute statement [Duplicate entry …] [insert into …]`.
fn behind_statement(line: &str) -> Option<usize> {
    let is_statement = |text: &str| {
        let text = text.to_ascii_lowercase();
        STATEMENTS.iter().any(|(verb, second)| text.starts_with(verb) && search::has(&text, second))
    };
    if is_statement(line) {
        return search::rfind(line, " - ").map(|at| at + 3);
    }
    if let Some((before, _)) = search::split_once(line, "] [").filter(|(_, behind)| is_statement(behind)) {
        return before.rfind('[').map(|at| at + 1);
    }
    let statement = search::find(line, "SQL [")?;
    let end = search::rfind(line, "]; ").filter(|end| *end > statement)?;
    Some(end + 3)
}

/// How statements begin, and what each must hold.
const STATEMENTS: [(&str, &str); 4] =
    [("select ", " from "), ("insert into ", "("), ("update ", " set "), ("delete from ", " where ")];

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
    &text[..end]
}

/// Ruby repeats the name behind the message: `duplicate key (ActiveRecord::RecordNotUnique)`.
pub(super) fn without_name_behind(text: &str) -> &str {
    let line = search::first_line(text).trim_end();
    match line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")) {
        Some((before, name)) if error_type::is_surely_name(name) && !before.trim().is_empty() => before,
        Some(_) | None => text,
    }
}

/// Everything that `split_at_marker`, `of_database` and `without_tail` look for.
#[rustfmt::skip]
const MARKS: Parts = Parts::of(&[
    "** (", "nested exception is ", "Caused by: ", "caused by: ", "root cause: ", "original error: ", "ERROR: ", "FATAL: ", "SQLSTATE[", "SQL [", "ORA-", " - ", "] [",
    ", called in ", ". script: ", ". Stack trace", " (called from ", " (Client.Timeout exceeded", "; see logs", ". See logs",
]);

pub(super) fn is_marked(text: &str) -> bool {
    search::has_any(text, MARKS)
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
    let (mut failed, mut handled, mut spoken) = (false, false, false);
    let (mut other, mut words) = (0_usize, 0_usize);
    for word in Unquoted::of(segment) {
        words += 1;
        let (fails, handles) = (FAILURES.has(word), HANDLING.has(word));
        failed |= fails;
        handled |= handles;
        if fails || handles || GENERIC.has(word) || word.bytes().all(|byte| byte.is_ascii_digit()) {
            spoken = true;
            continue;
        }
        // The code of a vendor is a value as well, and says all where nothing else is said.
        if is_value_or_name(word) {
            continue;
        }
        other += 1;
        if other > 2 {
            return false;
        }
    }
    let named = segment.bytes().any(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'.' | b'_' | b'\\'));
    // `Error while handling order 7` says no more than the letter's type does.
    other == 0 && spoken && (!named || failed || handled) || failed && handled && other <= 2 && words <= 9
}

/// Whether a name is made of nothing but words for handling and failing: `handler_error`, `JobFailed`.
pub(in crate::fingerprint) fn names_only_a_failure(name: &str) -> bool {
    let is_sign = |byte: u8| !byte.is_ascii_alphanumeric();
    let (bytes, mut start, mut words, mut failed) = (name.as_bytes(), 0, 0, false);
    for at in 1..=bytes.len() {
        let is_hump = || bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase();
        if at < bytes.len() && !is_sign(bytes[at]) && !is_hump() {
            continue;
        }
        let Some(word) = name.get(start..at).map(|word| word.trim_matches(['_', '-', ' '])) else {
            return false;
        };
        start = at;
        let is_run = || RUNS.has(word) && GENERIC.has(word);
        failed |= FAILURES.has(word);
        if !(FAILURES.has(word) || HANDLING.has(word) || is_run()) {
            return false;
        }
        words += 1;
    }
    failed && words > 1
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
            RUNS.has(first) && (has_digit(second) || second.contains('-') || segment.contains('='))
                || first.eq_ignore_ascii_case("tenant")
        }
        None => RUNS.has(noun) && has_digit(first),
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
static RUNS: Words = Words::of(&[
    "attempt", "batch", "cid", "consumer", "container", "correlation", "delivery", "event", "host", "instance", "jid", "job", "jobid",
    "message", "msg", "node", "offset", "partition", "pid", "pod", "process", "replica", "req", "request", "requestid", "retry", "rid",
    "run", "shard", "span", "task", "tenant", "thread", "tid", "trace", "traceid", "worker",
]);

/// Words that say that something went wrong and not what.
#[rustfmt::skip]
static FAILURES: Words = Words::of(&[
    "aborted", "can't", "cannot", "could", "couldn't", "crashed", "encountered", "err", "error", "errored", "errors", "exception", "fail",
    "failed", "fails", "failure", "fatal", "occurred", "panic", "raised", "rejected", "threw", "thrown", "unable", "uncaught",
    "unexpected", "unhandled",
]);

/// Words for what is done with any letter.
#[rustfmt::skip]
static HANDLING: Words = Words::of(&[
    "consume", "consumer", "consuming", "dispatch", "dispatching", "execute", "executing", "execution", "handle", "handler", "handling",
    "listener", "perform", "performing", "process", "processing", "running", "subscriber", "worker",
]);

/// Words that go with the others and tell nothing alone.
#[rustfmt::skip]
static GENERIC: Words = Words::of(&[
    "a", "after", "all", "an", "and", "at", "attempt", "attempts", "been", "by", "cause", "caused", "command", "critical", "delivery",
    "during", "event", "events", "exceeded", "exhausted", "final", "finally", "for", "from", "gave", "giving", "has", "have", "in", "is",
    "its", "job", "jobs", "last", "letter", "max", "maximum", "message", "messages", "method", "more", "no", "not", "of", "on", "reached",
    "recovered", "retries", "retry", "retrying", "root", "run", "s", "severe", "step", "task", "tasks", "the", "time", "times", "to",
    "tries", "try", "up", "warning", "was", "when", "while", "with", "wrapped",
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_times_and_workers_in_front_go_and_errors_stay() {
        for (text, expected) in [
            ("Uncaught boom", "boom"),
            ("[job=77] boom", "boom"),
            ("[worker-3] boom", "boom"),
            ("2026-03-11 08:15:02,119 ERROR [worker-3] boom", "boom"),
            ("thread 'main' panicked at src/main.rs:1:2:\nboom", "boom"),
            ("[Errno 111] Connection refused", "[Errno 111] Connection refused"),
            ("[SSL: WRONG_VERSION_NUMBER] bad", "[SSL: WRONG_VERSION_NUMBER] bad"),
            ("2026-03-11 is a holiday", "2026-03-11 is a holiday"),
        ] {
            assert_eq!(without_label(text), expected, "{text}");
        }
    }

    #[test]
    fn what_wraps_any_error_is_generic_and_what_tells_one_is_not() {
        for segment in [
            "attempt 3 of 5 failed",
            "Handling \"App\\Message\\RenewContract\" failed",
            "Error while processing order 7",
            "job SyncOrders failed",
            "pod api-7d9c5b6f4-x2x9k",
            "tenant acme",
            "Listener method 'public void on()' threw exception",
        ] {
            assert!(is_generic(segment), "{segment}");
        }
        for segment in [
            "ORA-00060",
            "load order 7",
            "email",
            "order 12",
            "E11000",
            "Invalid amount",
            "'sku'",
            "card declined",
        ] {
            assert!(!is_generic(segment), "{segment}");
        }
    }

    #[test]
    fn a_databases_own_words_begin_behind_its_callers() {
        for (text, expected) in [
            ("insert row 7: ERROR: column \"a\" does not exist", Some("column \"a\" does not exist")),
            ("could not execute [ERROR: deadlock detected Detail: x] [update …]", Some("deadlock detected")),
            ("SQL [insert into t]; Duplicate entry '1' for key 'k'", Some("Duplicate entry '1' for key 'k'")),
            ("close: ORA-00060: deadlock detected", Some("ORA-00060: deadlock detected")),
            ("query: SQLSTATE[23000]: dup", Some("SQLSTATE[23000]: dup")),
            ("update `a` set `b` = 1 - Data too long", Some("Data too long")),
            ("Update required - restart the agent", None),
            ("cannot execute [Data too long] [insert into t (a) values (?)]", Some("Data too long")),
            ("SQLSTATE[23000]: dup", None),
            ("ERRORS: 3", None),
        ] {
            assert_eq!(of_database(text), expected, "{text}");
        }
    }

    #[test]
    fn an_operation_gives_way_to_its_reason() {
        for (text, expected) in [
            ("Failed to upload a to b: access is denied", "access is denied"),
            ("Illegal input: Field 'sku' is required here", "Field 'sku' is required here"),
            ("For input string: \"12,5\"", "For input string: \"12,5\""),
            ("Unknown currency: no rate known", "Unknown currency: no rate known"),
            ("Failed to read field `sku`: bad value given", "Failed to read field `sku`: bad value given"),
        ] {
            assert_eq!(without_operation(text), expected, "{text}");
        }
    }

    #[test]
    fn what_follows_an_error_goes() {
        assert_eq!(without_tail("null given, called in /a.php on line 3"), "null given");
        assert_eq!(without_tail("READONLY replica. script: 0c7f, on @user_script:1."), "READONLY replica");
        assert_eq!(without_name_behind("dup (ActiveRecord::RecordNotUnique)"), "dup");
        assert_eq!(without_name_behind("refused (os error 111)"), "refused (os error 111)");
        assert_eq!(split_at_marker("a; nested exception is b: c"), Some(("a", "b: c")));
        assert_eq!(split_at_marker("x\n    ** (EXIT) time out"), Some(("x\n    ", "** (EXIT) time out")));
        assert_eq!(split_at_marker("nothing"), None);
    }

    #[test]
    fn tables_can_be_searched() {
        for table in [&RUNS, &FAILURES, &HANDLING, &GENERIC] {
            assert!(table.is_table(), "{table:?}");
        }
    }
}
