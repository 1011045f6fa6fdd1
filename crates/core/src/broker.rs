//! What a dead letter looks like on a broker: the subject it is published to, the headers that say where it came from and why
//! it died, and the id that makes the same death published twice one message.
//!
//! The worker library, the bridge and the source all use these, so a dead letter of one is understood by the others. Never
//! talks to a broker.

mod dead_letter;
pub mod rabbitmq;
mod receipt;

use std::borrow::Cow;
use std::fmt::Write as _;

pub use dead_letter::{BrokerDeath, DeathReason, attempts_from_json, attempts_to_json};
pub use receipt::Receipt;

use crate::time::Time;

/// The first token of every dead-letter subject; a stream on `dlq.>` keeps them all.
pub const DEAD_LETTER_PREFIX: &str = "dlq";

/// Where workers publish receipts of redriven messages.
pub const RECEIPTS_SUBJECT: &str = "lazaret.receipts";

/// The header by which JetStream recognises a message that it already has.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The subject on which the message was first published.
pub const ORIGINAL_SUBJECT: &str = "Lazaret-Original-Subject";
/// The stream in which the message is, or was.
pub const STREAM: &str = "Lazaret-Stream";
/// When that stream was created, RFC 3339: a stream that was deleted and created again counts its sequences anew.
pub const STREAM_CREATED: &str = "Lazaret-Stream-Created";
/// The message's sequence in that stream.
pub const SEQUENCE: &str = "Lazaret-Sequence";
/// When the stream stored the message, RFC 3339.
pub const PUBLISHED_AT: &str = "Lazaret-Published-At";
/// The consumer that gave the message up.
pub const CONSUMER: &str = "Lazaret-Consumer";
/// How often the message was delivered to that consumer.
pub const DELIVERIES: &str = "Lazaret-Deliveries";
/// Why it is dead: a name of [`DeathReason`].
pub const REASON: &str = "Lazaret-Reason";
/// The error's own name, such as `std::io::Error`. Text, see [`escape_text`].
pub const ERROR_TYPE: &str = "Lazaret-Error-Type";
/// What the error says. Text, see [`escape_text`].
pub const ERROR_MESSAGE: &str = "Lazaret-Error-Message";
/// The error's code, if it has one. Text, see [`escape_text`].
pub const ERROR_CODE: &str = "Lazaret-Error-Code";
/// The class that the worker decided by, such as `validation`.
pub const ERROR_CLASS: &str = "Lazaret-Error-Class";
/// Where the error came from. Text, see [`escape_text`].
pub const BACKTRACE: &str = "Lazaret-Backtrace";
/// When the first attempt that the worker knows of began, RFC 3339.
pub const FIRST_ATTEMPT_AT: &str = "Lazaret-First-Attempt-At";
/// When the last attempt began, RFC 3339.
pub const LAST_ATTEMPT_AT: &str = "Lazaret-Last-Attempt-At";
/// The version of the program that failed. Text, see [`escape_text`].
pub const SERVICE_VERSION: &str = "Lazaret-Service-Version";
/// The failed attempts that the worker knows of, oldest first: a JSON array of objects with `at`, `durationMs`, `type`,
/// `message` and `code`.
pub const ATTEMPTS: &str = "Lazaret-Attempts";

/// On a redriven message: the letter that it was redriven from.
pub const LETTER_ID: &str = "Lazaret-Letter-Id";
/// On a redriven message: the letter's life at that time.
pub const LIFE: &str = "Lazaret-Life";
/// On a redriven message: the run that sent it.
pub const REDRIVE_ID: &str = "Lazaret-Redrive-Id";
/// On a redriven message: what a handler deduplicates by.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// The headers of a redriven message that are kept as they are when it dies again: a relapse is recognised by them.
pub const REDRIVE_HEADERS: [&str; 4] = [LETTER_ID, LIFE, REDRIVE_ID, IDEMPOTENCY_KEY];

/// Before the name of an original header that would mean something else on a dead letter.
pub const ORIGINAL_HEADER_PREFIX: &str = "Lazaret-Original-";

/// Bytes of all headers of one message that JetStream stores.
pub const HEADER_BYTES_MAX: usize = 65_535;

/// One message as one consumer sees it: what has died.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StreamOrigin {
    pub stream: String,
    pub stream_created: Time,
    pub sequence: u64,
    pub consumer: String,
}

impl StreamOrigin {
    /// The subject that the dead letter is published to: `dlq.<stream>.<consumer>`, each name one token.
    pub fn dead_letter_subject(&self) -> String {
        dead_letter_subject(&self.stream, &self.consumer)
    }

    /// The value of `Nats-Msg-Id`. The worker's own copy, the bridge's copy after a max-deliveries advisory and its copy after a
    /// terminated advisory have the same, so the stream keeps one of them.
    pub fn message_id(&self) -> String {
        let name = |name: &str| escape_token(name).replace(':', "%3A");
        format!(
            "{}:{}:{}:{}",
            name(&self.stream),
            self.stream_created.ms(),
            self.sequence,
            name(&self.consumer)
        )
    }
}

/// `dlq.<stream>.<consumer>`, each name escaped to one token.
pub fn dead_letter_subject(stream: &str, consumer: &str) -> String {
    format!("{DEAD_LETTER_PREFIX}.{}.{}", escape_token(stream), escape_token(consumer))
}

/// Stream and consumer of a dead-letter subject; `None` for any other subject below `dlq.>`.
pub fn parse_dead_letter_subject(subject: &str) -> Option<(String, String)> {
    let mut tokens = subject.split('.');
    let (prefix, stream, consumer) = (tokens.next()?, tokens.next()?, tokens.next()?);
    if prefix != DEAD_LETTER_PREFIX || tokens.next().is_some() {
        return None;
    }
    Some((unescape_token(stream)?, unescape_token(consumer)?))
}

/// A name as one legal subject token: dots, wildcards, white space, control characters and `%` become `%XX`, byte by byte. The
/// empty name becomes a lone `%`.
pub fn escape_token(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("%");
    }
    escape(name, |_, c| matches!(c, '.' | '*' | '>' | '%') || c.is_whitespace() || c.is_control())
}

/// The name that was escaped to this token; `None` if the token was not made by [`escape_token`].
pub fn unescape_token(token: &str) -> Option<String> {
    if token == "%" {
        return Some(String::new());
    }
    unescape(token)
}

/// A text as one line that headers carry unchanged: control characters, `%`, and white space at either end become `%XX`, byte
/// by byte.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    let end = text.trim_end().len();
    let begin = text.len() - text.trim_start().len();
    escape(text, |at, c| c == '%' || c.is_control() || (c.is_whitespace() && (at < begin || at >= end)))
}

/// The text of a header that was made by [`escape_text`]. What was not is returned as it is: other programs publish dead
/// letters too.
pub fn unescape_text(value: &str) -> String {
    unescape(value).unwrap_or_else(|| value.to_owned())
}

/// The name under which an original header stands on the dead letter. Headers of `Nats-` would make the server act, and those
/// of `Lazaret-` would be taken for ours, so both are kept under [`ORIGINAL_HEADER_PREFIX`].
pub fn dead_letter_header(original: &str) -> Cow<'_, str> {
    if is_reserved(original) && !is_redrive_header(original) {
        Cow::Owned(format!("{ORIGINAL_HEADER_PREFIX}{original}"))
    } else {
        Cow::Borrowed(original)
    }
}

/// The name that a header of a dead letter had on the original message; `None` if it was not there but was added at death.
pub fn original_header(name: &str) -> Option<&str> {
    if is_redrive_header(name) || !is_reserved(name) {
        return Some(name);
    }
    let rest = name.get(ORIGINAL_HEADER_PREFIX.len()..)?;
    (starts_with(name, ORIGINAL_HEADER_PREFIX) && is_reserved(rest)).then_some(rest)
}

/// Header names are compared whatever their case: some clients change it.
fn is_reserved(name: &str) -> bool {
    starts_with(name, "Nats-") || starts_with(name, "Lazaret-")
}

fn is_redrive_header(name: &str) -> bool {
    REDRIVE_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn escape(text: &str, is_escaped: impl Fn(usize, char) -> bool) -> Cow<'_, str> {
    if !text.char_indices().any(|(at, c)| is_escaped(at, c)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        if is_escaped(at, c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(escaped, "%{byte:02X}").expect("a string takes any text");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn origin(stream: &str, consumer: &str) -> StreamOrigin {
        let stream_created = Time::from_ms(1_700_000_000_000);
        StreamOrigin { stream: stream.into(), stream_created, sequence: 42, consumer: consumer.into() }
    }

    #[test]
    fn ordinary_names_are_tokens_as_they_are() {
        let origin = origin("ORDERS", "billing-v2");
        assert_eq!(origin.dead_letter_subject(), "dlq.ORDERS.billing-v2");
        assert_eq!(origin.message_id(), "ORDERS:1700000000000:42:billing-v2");
    }

    #[test]
    fn names_that_are_no_tokens_are_escaped() {
        assert_eq!(dead_letter_subject("a.b", "c d*>%"), "dlq.a%2Eb.c%20d%2A%3E%25");
        assert_eq!(dead_letter_subject("", "ü"), "dlq.%.ü");
        assert_eq!(origin("a:1", "b").message_id(), "a%3A1:1700000000000:42:b");
    }

    #[test]
    fn only_subjects_of_two_names_are_parsed() {
        let parsed = parse_dead_letter_subject("dlq.a%2Eb.worker");
        assert_eq!(parsed, Some(("a.b".into(), "worker".into())));
        for other in ["dlq", "dlq.a", "dlq.a.b.c", "orders.a.b", "dlq.a%.b", "dlq.a%zz.b", "dlq.%ff.b"] {
            assert_eq!(parse_dead_letter_subject(other), None, "{other}");
        }
    }

    #[test]
    fn original_headers_never_stand_for_ours() {
        for (original, kept) in [
            ("Traceparent", "Traceparent"),
            ("Nats-Msg-Id", "Lazaret-Original-Nats-Msg-Id"),
            ("nats-expected-stream", "Lazaret-Original-nats-expected-stream"),
            ("Lazaret-Stream", "Lazaret-Original-Lazaret-Stream"),
            ("Lazaret-Original-Subject", "Lazaret-Original-Lazaret-Original-Subject"),
            ("Lazaret-Original-Nats-Msg-Id", "Lazaret-Original-Lazaret-Original-Nats-Msg-Id"),
            ("Lazaret-Letter-Id", "Lazaret-Letter-Id"),
            ("idempotency-key", "idempotency-key"),
        ] {
            assert_eq!(dead_letter_header(original), kept);
            assert_eq!(original_header(kept), Some(original));
        }
        for ours in [MESSAGE_ID, ORIGINAL_SUBJECT, STREAM, ATTEMPTS, "lazaret-error-type"] {
            assert_eq!(original_header(ours), None, "{ours}");
        }
    }

    #[test]
    fn text_of_other_programs_is_read_as_it_is() {
        assert_eq!(unescape_text("disk 100% full"), "disk 100% full");
        assert_eq!(unescape_text("a%0Ab"), "a\nb");
    }

    proptest! {
        #[test]
        fn any_name_is_one_token_and_comes_back(name in any::<String>()) {
            let token = escape_token(&name);
            prop_assert!(!token.is_empty() && !token.contains(|c: char| ".*>".contains(c) || c.is_whitespace()));
            prop_assert_eq!(unescape_token(&token), Some(name));
        }

        #[test]
        fn any_text_is_one_line_and_comes_back(text in any::<String>()) {
            let line = escape_text(&text);
            prop_assert!(!line.contains(['\r', '\n', '\0']));
            prop_assert_eq!(line.trim(), &line);
            prop_assert_eq!(unescape_text(&line), text);
        }

        #[test]
        fn any_header_comes_back(name in "(?i)(nats-|lazaret-|original-|letter-id|x){0,4}") {
            let kept = dead_letter_header(&name);
            prop_assert_eq!(original_header(&kept), Some(name.as_str()));
        }
    }
}
