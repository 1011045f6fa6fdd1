//! The names of errors, made comparable over languages, and the names that a text begins with.
//!
//! Namespaces go, because one program writes them in full, shortened or not at all. A name that only says that
//! something failed, or that only wraps another error, is no name.

use crate::fingerprint::backtrace::Backtrace;
use crate::fingerprint::message::names_only_a_failure;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search::{self, Words};
use crate::limits;

/// The comparable form of a name: its last segment without arguments and generated parts. Empty for one that tells
/// nothing by itself.
pub(super) fn normalise(name: &str) -> String {
    let name = without_generated(bare(name));
    let is_sign = |byte: u8| matches!(byte, b'.' | b':' | b'\\' | b'/' | b'+' | b'#');
    let end = name.bytes().rposition(|byte| !is_sign(byte)).map_or(0, |at| at + 1);
    let start = name[..end].bytes().rposition(is_sign).map_or(0, |at| at + 1);
    let last = name[start..end].trim_matches('$');
    if last.is_empty() || is_opaque(last) || is_go(name) || is_rust(name) {
        return String::new();
    }
    // Nested classes carry what matters in the inner name, and the outer one tells whose it is.
    let last = last.replace('$', ".");
    if is_opaque(&last) { String::new() } else { last }
}

/// The last segment of a name, telling or not: better than nothing where nothing else is told.
pub(super) fn last_segment(name: &str) -> &str {
    let name = bare(name);
    name.rsplit(['.', ':', '\\', '/', '*']).next().unwrap_or(name)
}

/// The name without what surrounds it: `<class 'x.Y'>`, `*x.Y`, `%Y{}`, `Foo<Bar>`, `System.Foo`1[[…]]`.
fn bare(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_prefix("** (").unwrap_or(name);
    let name = name.strip_prefix("<class '").unwrap_or(name);
    let name = name.trim_start_matches(['%', '&', '\\', '(']);
    let ends = |byte: u8| matches!(byte, b'<' | b'[' | b'`' | b'(' | b')' | b'{' | b'\'' | b' ' | b'>');
    let end = name.bytes().position(ends).unwrap_or(name.len());
    name[..end].trim_end_matches([':', '.', ','])
}

/// Cuts what containers and compilers add: `Foo$$EnhancerBySpringCGLIB$$1a2b`, `Foo$$Lambda/0x…`, `$Proxy12`.
fn without_generated(name: &str) -> &str {
    let name = super::search::find(name, "$$").filter(|at| *at > 0).map_or(name, |at| &name[..at]);
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    trimmed.strip_suffix('$').unwrap_or(if trimmed.ends_with("Proxy") { trimmed } else { name })
}

/// Types of Go's own and of its common libraries that no other language has.
const ONLY_IN_GO: &[&str] = &[
    "CertificateVerificationError",
    "InvalidUnmarshalError",
    "KError",
    "MarshalerError",
    "MySQLError",
    "NumError",
    "OpError",
    "OperationError",
    "PathError",
    "PgError",
    "SyscallError",
    "UnmarshalTypeError",
    "UnknownAuthorityError",
    "HostnameError",
];

/// Go says everything in the message: its types change with each wrapping.
pub(super) fn is_go(name: &str) -> bool {
    let Some(name) = name.strip_prefix('*') else {
        let (package, own) = name.rsplit_once('.').unwrap_or(("", name));
        let only_in_go =
            ["validator", "pq", "pgconn", "net", "fs", "url", "strconv", "runtime", "status", "x509", "gorm"];
        return only_in_go.contains(&package)
            || !package.is_empty() && ONLY_IN_GO.contains(&own)
            || !package.is_empty()
                && package
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'/')
                && own.starts_with(|c: char| c.is_ascii_lowercase())
                && own.bytes().any(|byte| byte.is_ascii_uppercase());
    };
    !name.is_empty()
}

/// The same holds for Rust, whose crates begin with a small letter: one `?` more and the type is another.
fn is_rust(name: &str) -> bool {
    search::has(name, "::") && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Names of what runs and retries letters, tasks and calls: the error that they wrap is the one that counts.
#[rustfmt::skip]
static WRAPPERS: Words = Words::of(&[
    "activityerror", "activityfailure", "aggregateerror", "aggregateexception", "applicationfailure", "baseexceptiongroup",
    "batchlistenerfailedexception", "camelexecutionexception", "cancellederror", "childworkflowfailure", "commandexecutionexception",
    "completionexception", "compositeexception", "crasherror", "delayedmessagehandlingexception", "exceptiongroup",
    "exhaustedretryexception", "flinkruntimeexception", "invocationexception", "invocationtargetexception", "jobruntimeexception",
    "jobsystemexception", "kafkaexception", "maxretriesexceedederror", "maxretriesexceededexception", "maxretryerror",
    "messagingexception", "multierror", "nestedservletexception", "nonretryableerror", "partialfailure", "promiserejection",
    "retriesexceedederror", "retriesexhaustedexception", "retrylimitexceeded", "runtimecamelexception", "servletexception",
    "targetinvocationexception", "transformerhandlingexception", "typeinitializationexception", "uncheckedexecutionexception",
    "uncheckedioexception", "undeclaredthrowableexception", "unhandledpromiserejection", "unrecoverableerror",
    "workflowfailedexception", "wraperror", "wrappederror", "wrappedexception",
]);

/// Names that say only that something failed.
#[rustfmt::skip]
static NOTHING: Words = Words::of(&[
    "baseexception", "error", "errorstring", "exception", "exit", "exit from", "failure", "none", "null", "object", "panic",
    "standarderror", "stop", "throwable", "undefined", "unknown", "unknownerror", "wraperror",
]);

/// Whether a name says only that something failed, or only wraps what failed.
fn is_opaque(last: &str) -> bool {
    WRAPPERS.has(last) || NOTHING.has(last) || names_only_a_failure(last)
}

/// Returns true if a name tells nothing to whoever searches for an error by it. A class that only wraps others does tell.
pub fn says_nothing(name: &str) -> bool {
    let last = last_segment(name);
    last.is_empty() || NOTHING.has(last) || last.len() == name.len() && names_only_a_failure(name)
}

/// Returns the type of the thrown error as the backtrace names it, or else the message.
pub fn told_in<'a>(message: &'a str, backtrace: Option<&'a str>) -> Option<&'a str> {
    let traced = backtrace.and_then(|text| Backtrace::read(text, &FingerprintRules::default()));
    let thrown = traced.and_then(|it| it.causes.first().map(|cause| cause.error_type));
    thrown.into_iter().chain([head(message).0]).find(|name| !says_nothing(name))
}

/// Splits `java.lang.IllegalStateException: closed` into name and message, where the text begins with a name that is
/// surely one of an error. Without one the name is empty.
pub(super) fn head(text: &str) -> (&str, &str) {
    let trimmed = text.trim_start();
    if let Some((name, rest)) = bracketed(trimmed).or_else(|| shown_class(trimmed)) {
        return (name, rest);
    }
    split_head(trimmed, is_surely_name).unwrap_or(("", text))
}

/// Splits a line that is known to begin with the name of an error.
pub(super) fn head_of_line(line: &str) -> (&str, &str) {
    let trimmed = line.trim_start();
    if let Some((name, rest)) = bracketed(trimmed) {
        return (name, rest);
    }
    split_head(trimmed, is_word).unwrap_or(("", line))
}

/// Python shows a class as `<class 'asyncpg.exceptions.DeadlockDetectedError'>: deadlock detected`.
fn shown_class(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = search::split_once(text.strip_prefix("<class '")?, "'>: ")?;
    is_word(name).then_some((name, rest))
}

/// Elixir and SQLAlchemy put the name into brackets: `** (KeyError) key …`, `(psycopg2.errors.UniqueViolation) dup…`.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix("** ").unwrap_or(text).strip_prefix('(')?.split_once(')')?;
    let known = text.starts_with("** ") && is_word(name) || is_surely_name(name) || name.starts_with("EXIT");
    known.then(|| (name, rest.trim_start()))
}

fn split_head(text: &str, is_name: fn(&str) -> bool) -> Option<(&str, &str)> {
    let window = super::excerpt::beginning(text, limits::NAME_IN_MESSAGE_BYTES_MAX);
    let end = window.find([':', ' ', '\n']).unwrap_or(window.len());
    // Ruby's and Rust's own separator is a double colon.
    let mut end = end;
    while window[end..].starts_with("::") {
        let rest = &window[end + 2..];
        end += 2 + rest.find([':', ' ', '\n']).unwrap_or(rest.len());
    }
    let (name, rest) = text.split_at(end);
    if !is_name(name) {
        return None;
    }
    // Node puts its code behind the name: `TypeError [ERR_INVALID_URL]: Invalid URL`.
    if let Some((code, rest)) = rest.strip_prefix(" [").and_then(|rest| search::split_once(rest, "]: "))
        && code.len() <= limits::NAME_IN_MESSAGE_BYTES_MAX
        && is_word(code)
    {
        return Some((name, rest));
    }
    // .NET puts a number there: `SocketException (111): Connection refused`.
    let rest =
        rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map_or(rest, |(code, behind)| {
            if code.len() <= 12 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                behind
            } else {
                rest
            }
        });
    // Some of .NET's own errors print a space before the colon.
    match rest.strip_prefix(':').or_else(|| rest.strip_prefix(" :")) {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '\n']) => Some((name, rest.trim_start())),
        None if rest.trim().is_empty() => Some((name, "")),
        Some(_) | None => None,
    }
}

/// Whether a word can only be the name of an error: not that of a field, as in `connectionTimeout: must be positive`.
pub(super) fn is_surely_name(word: &str) -> bool {
    if !is_word(word) {
        return false;
    }
    let last = word.rsplit(['.', ':', '\\', '/', '$']).next().unwrap_or(word);
    let capital = last.starts_with(|c: char| c.is_ascii_uppercase());
    let ends = ["Error", "Exception", "Fault", "Violation", "Interrupt"];
    if capital && last.bytes().any(|byte| byte.is_ascii_lowercase()) && ends.iter().any(|e| last.ends_with(e))
    {
        return true;
    }
    let in_package = last.len() < word.len()
        && (search::has(word, "::")
            || word.contains('\\')
            || word.starts_with(|c: char| c.is_ascii_lowercase()));
    capital && in_package && last.len() > 3 && last.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= limits::NAME_IN_MESSAGE_BYTES_MAX
        && word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '*' | '\\' | '$' | '%'))
        && word.bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'.' | b':' | b'\\' | b'$' | b'/' | b'`' | b'*' | b'+' | b'%' | b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_has_one_name_however_it_is_written() {
        for (name, expected) in [
            ("java.net.SocketTimeoutException", "SocketTimeoutException"),
            ("j.n.SocketTimeoutException", "SocketTimeoutException"),
            ("builtins.KeyError", "KeyError"),
            ("<class 'requests.exceptions.ConnectTimeout'>", "ConnectTimeout"),
            ("*errors.errorString", ""),
            ("*fmt.wrapError", ""),
            ("context.deadlineExceededError", ""),
            ("core::num::ParseIntError", ""),
            ("sqlx::Error", ""),
            ("anyhow::Error", ""),
            ("ActiveRecord::RecordNotFound", "RecordNotFound"),
            ("\\App\\Exceptions\\PaymentDeclined", "PaymentDeclined"),
            ("%MyApp.PaymentError{}", "PaymentError"),
            ("** (MyApp.PaymentError)", "PaymentError"),
            ("Acme.ResultException`1[[System.String, mscorlib]]", "ResultException"),
            ("Acme.ResultException<Order>", "ResultException"),
            ("com.acme.Foo$$EnhancerBySpringCGLIB$$1a2b", "Foo"),
            ("HttpClientErrorException$NotFound", "HttpClientErrorException.NotFound"),
            ("com.sun.proxy.$Proxy12", "Proxy"),
            ("Error", ""),
            ("System.Exception", ""),
            ("java.util.concurrent.ExecutionException", ""),
            ("", ""),
            ("::", ""),
        ] {
            assert_eq!(normalise(name), expected, "{name}");
        }
    }

    #[test]
    fn a_message_is_split_from_a_name_only_where_it_is_one() {
        for (text, expected) in [
            ("TypeError: x is undefined", ("TypeError", "x is undefined")),
            ("java.lang.IllegalStateException: closed", ("java.lang.IllegalStateException", "closed")),
            ("java.lang.IllegalStateException", ("java.lang.IllegalStateException", "")),
            ("TypeError [ERR_INVALID_URL]: Invalid URL", ("TypeError", "Invalid URL")),
            (
                "System.Net.Sockets.SocketException (111): refused",
                ("System.Net.Sockets.SocketException", "refused"),
            ),
            ("ActiveRecord::RecordNotFound: none", ("ActiveRecord::RecordNotFound", "none")),
            ("** (KeyError) key :a not found", ("KeyError", "key :a not found")),
            ("(psycopg2.errors.UniqueViolation) dup", ("psycopg2.errors.UniqueViolation", "dup")),
            ("email: must not be empty", ("", "email: must not be empty")),
            ("Order.Email: is required", ("", "Order.Email: is required")),
            ("connection refused", ("", "connection refused")),
        ] {
            assert_eq!(head(text), expected, "{text}");
        }
    }
}
