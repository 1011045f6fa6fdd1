//! The part of a message that tells the root cause: without the names, retries and wrappings in front of it.
//!
//! What is left is always a piece of the message itself, never something made up.

use self::wrapping::{
    is_generic, of_database, split_at_marker, without_label, without_name_behind, without_tail,
};
use crate::fingerprint::template::Template;
use crate::fingerprint::{error_type, excerpt, search};
use crate::limits;

mod wrapping;

pub(super) use self::wrapping::{names_only_a_failure, without_operation};

/// How an error's message grows when it is wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// Each wrapping puts its own words in front: `handle: load order: sql: no rows`.
    Chained,
    Plain,
    /// Nothing tells which, but messages that begin with a small letter are mostly chained.
    AsWritten,
}

/// The root of a message: the name of the innermost error it names, if any, and its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Core<'a> {
    pub error_type: &'a str,
    pub text: &'a str,
}

/// Finds the root of a message.
pub(super) fn core<'a>(message: &'a str, reported: &str, style: Style) -> Core<'a> {
    let mut text = excerpt::beginning(message, limits::TEMPLATE_SOURCE_BYTES_MAX).trim();
    let mut error_type = "";
    // Most messages hold no marker at all, and none is looked for in each of their parts.
    let is_marked = wrapping::is_marked(text);
    for _ in 0..limits::CAUSES_MAX {
        text = without_name(without_label(text), reported);
        if let Some((name, inner)) = shown(text) {
            (error_type, text) = (name, inner);
            continue;
        }
        if let Some(said) = numbered(text) {
            text = said;
            continue;
        }
        if is_marked && let Some((outer, inner)) = split_at_marker(text) {
            // Spring repeats the words of what it wraps and adds the constraint, which the wrapped error does not tell.
            let (outer, (name, said)) = (error_type::head(outer).1, error_type::head(inner));
            let adds = !said.is_empty() && outer.len() > said.len() && outer.starts_with(said.trim_end());
            (error_type, text) = if adds { (name, outer) } else { (error_type, inner) };
            continue;
        }
        let (name, rest) = error_type::head(text);
        if !name.is_empty() {
            if !error_type::normalise(name).is_empty() {
                error_type = name;
            }
            text = rest;
            continue;
        }
        if is_marked && let Some(rest) = of_database(text) {
            text = rest;
            continue;
        }
        if matches!(text.trim(), "null" | "None" | "nil" | "undefined") {
            text = "";
        }
        match search::split_once(text, ": ") {
            Some((segment, rest)) if is_generic(segment) && !rest.trim().is_empty() => {
                text = rest.trim_start()
            }
            Some(_) | None => break,
        }
    }
    let text = without_name_behind(meaningful(text));
    let text = if is_marked { without_tail(text) } else { text };
    let text = match style {
        Style::Chained => nearest_root(text),
        Style::AsWritten if text.starts_with(|c: char| c.is_lowercase()) => nearest_root(text),
        Style::Plain | Style::AsWritten => text,
    };
    Core { error_type, text: text.trim() }
}

/// Some put the name in front that they also report beside the message.
fn without_name<'a>(text: &'a str, reported: &str) -> &'a str {
    let reported = reported.trim();
    let rest = text.strip_prefix(reported).and_then(|rest| rest.strip_prefix(": "));
    rest.filter(|rest| !reported.is_empty() && !rest.trim().is_empty()).unwrap_or(text)
}

/// Python shows an error as `KeyError('sku')`.
fn shown(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    let inner = rest.strip_suffix(')').or_else(|| rest.strip_suffix(",)"))?;
    let quote = inner.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    if !error_type::is_surely_name(name) {
        return None;
    }
    // Words in quotes are a message; one word is a value, whose quotes say so.
    let words = inner[1..].split(quote).next().filter(|words| words.contains(' '));
    Some((name, words.unwrap_or(inner)))
}

/// Python's database drivers show an error as number and words: `(1213, 'Deadlock found')`.
fn numbered(text: &str) -> Option<&str> {
    let (number, rest) = search::split_once(text.strip_prefix('(')?, ", ")?;
    let end = if rest.starts_with('"') { "\")" } else { "')" };
    let (said, _) = search::split_once(rest.strip_prefix(['\'', '"'])?, end)?;
    (number.bytes().all(|byte| byte.is_ascii_digit()) && said.contains(' ')).then_some(said)
}

/// The first line, and two more where the first only announces them.
fn meaningful(text: &str) -> &str {
    let text = text.trim_start();
    if text.starts_with("[{") || text.starts_with("[\n") || text.starts_with('{') {
        // A document is one piece, however it is laid out.
        return text;
    }
    let end = text.find('\n').unwrap_or(text.len());
    if text[..end].contains("invocation") && text.trim_end().len() > end {
        // Prisma shows the source first and ends with the reason.
        let text = text.trim_end();
        return text.rfind('\n').map_or(text, |at| &text[at + 1..]);
    }
    if end == text.len() || !announces(text[..end].trim_end()) {
        return &text[..end];
    }
    let more = text[end..].match_indices('\n').nth(3).map_or(text.len(), |(at, _)| end + at);
    &text[..more]
}

fn announces(line: &str) -> bool {
    let has = |part: &str| {
        line.len() >= part.len()
            && line.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    line.ends_with([':', '{', '[', '('])
        || line.len() < 4
        || is_generic(line)
        || ["validation error", "errors occurred", "the following", "validation failed"]
            .iter()
            .any(|it| has(it))
}

/// The root of `handle: load order 7: sql: no rows`, what its library says in front, and the nearest words around
/// them: where no frames are told, only those words tell which query found no rows.
fn nearest_root(text: &str) -> &str {
    root_within(text, 1)
}

/// The root and what its library says in front: the place of the failure tells the rest.
pub(super) fn root_alone(text: &str) -> &str {
    root_within(text, 0)
}

fn root_within(text: &str, contexts_max: usize) -> &str {
    let starts = segments(text);
    let mut from = *starts.last().unwrap_or(&0);
    // A root that names a constraint or a field is told well enough by it.
    if Template::of(&text[from..]).names_a_part() {
        return &text[from..];
    }
    let (mut contexts, mut in_context) = (0, false);
    for (position, start) in starts.iter().enumerate().rev().skip(1) {
        let end = starts.get(position + 1).map_or(text.len(), |next| next - 2);
        let segment = &text[*start..end];
        if is_generic(segment) {
            break;
        }
        if is_of_library(segment) {
            // Around what the program says, one word is a caller of its own.
            if in_context {
                break;
            }
            // The resource of a request tells where it failed.
            contexts = contexts.max(usize::from(Template::of(segment).has_resource()));
        } else {
            contexts += 1;
            in_context = true;
            if contexts > contexts_max {
                break;
            }
        }
        from = *start;
    }
    &text[from..]
}

/// Where the segments between `: ` begin, quotes and brackets left whole. Behind a comma a colon joins key and value:
/// `StatusCode: 403, RequestID: 9X1`.
fn segments(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    let mut quoted = false;
    let mut depth = 0_usize;
    let mut listed = false;
    for at in 0..bytes.len() {
        match bytes[at] {
            b',' if !quoted && depth == 0 => listed = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' | b'(' if !quoted => depth += 1,
            b'}' | b']' | b')' if !quoted => depth = depth.saturating_sub(1),
            b':' if !quoted && !listed && depth == 0 && bytes.get(at + 1) == Some(&b' ') => {
                starts.push(at + 2)
            }
            _ => {}
        }
    }
    starts
}

/// Whether a segment is what the libraries of Go and Rust put in front of their own errors.
fn is_of_library(segment: &str) -> bool {
    let mut words = segment.split([' ', '/']);
    let first = words.next().unwrap_or(segment);
    let known = [
        "Key",
        "Get",
        "Post",
        "Put",
        "Patch",
        "Delete",
        "Head",
        "client",
        "dial",
        "tcp",
        "read",
        "write",
        "lookup",
        "connect",
        "sql",
        "json",
        "pq",
        "http",
        "http2",
        "net",
        "rpc",
        "x509",
        "tls",
        "redis",
        "open",
        "stat",
        "exec",
        "strconv.Atoi",
        "strconv.ParseInt",
        "proto",
        "kafka",
        "nats",
        "amqp",
        "ERROR",
        "FATAL",
        "db",
        "grpc",
        "transport",
        "remote",
        "EOF",
        "parsing",
        "desc",
        "error",
        "io",
        "yaml",
        "xml",
        "base64",
        "csv",
        "context",
        "oauth2",
        "s3",
        "mongo",
        "template",
        "unexpected",
        "driver",
        "googleapi",
    ];
    known.contains(&first)
        || words.next().is_none() && first.len() <= 10 && first.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: Style, message: &str, error_type: &str, text: &str) {
        assert_eq!(core(message, "", style), Core { error_type, text }, "{message}");
    }

    #[test]
    fn names_and_retries_in_front_are_taken_away() {
        let plain = |message, name, text| check(Style::Plain, message, name, text);
        plain("attempt 3 failed: Read timed out", "", "Read timed out");
        plain(
            "java.lang.RuntimeException: java.net.SocketTimeoutException: Read timed out",
            "java.net.SocketTimeoutException",
            "Read timed out",
        );
        plain(
            "Handler failed; nested exception is java.lang.IllegalStateException: closed",
            "java.lang.IllegalStateException",
            "closed",
        );
        plain("Error: ENOENT: no such file", "", "ENOENT: no such file");
        plain("giving up after 5 attempts: connection refused", "", "connection refused");
        plain("order 12: total: must be positive", "", "order 12: total: must be positive");
        plain("", "", "");
    }

    #[test]
    fn the_first_line_rules_unless_it_only_announces() {
        let plain = |message, text| check(Style::Plain, message, "", text);
        plain("duplicate key\nDETAIL: Key (id)=(1) exists", "duplicate key");
        plain(
            "Validation failed:\n -- Email: must not be empty",
            "Validation failed:\n -- Email: must not be empty",
        );
    }

    #[test]
    fn wrapped_words_are_cut_to_the_nearest_around_the_root() {
        let chained = |message, text| check(Style::Chained, message, "", text);
        chained(
            "handle event: load order 7: sql: no rows in result set",
            "load order 7: sql: no rows in result set",
        );
        chained("sql: no rows in result set", "sql: no rows in result set");
        chained(
            "run: charge card: Post \"https://x: y\": dial tcp 10.0.0.1:443: connect: connection refused",
            "charge card: Post \"https://x: y\": dial tcp 10.0.0.1:443: connect: connection refused",
        );
        chained("attempt 2 failed: no rows", "no rows");
    }
}
