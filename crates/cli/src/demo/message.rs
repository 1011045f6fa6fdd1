//! One event of the shop that some program cannot handle, and what each of its deaths looks like: the same captured
//! message that a report over HTTP becomes.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::time::Time;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::calendar::Calendar;
use super::causes::{Cause, Wire};
use super::dice::Dice;
use super::facts::Facts;
use super::programs::Release;
use super::text::fill;

/// The source that every configuration knows.
const SOURCE: &str = "report";

/// How far a pause may be off its length, so that not all come back at once.
const PAUSE_PERCENT_MAX: i64 = 110;

/// No character of UTF-8 begins with this byte or a higher one.
const FIRST_BYTE_NEVER_USED: u8 = 0xf5;

/// An event on its way through the shop.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) cause: &'static Cause,
    pub(super) id: String,
    facts: Facts,
    sent_at: Time,
    /// The release of the program that sent it.
    sender_version: &'static str,
    trace: String,
    span: String,
}

/// The event as it is sent, in the order in which a reader wants it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    event_id: &'a str,
    pattern: &'a str,
    version: &'a str,
    source: &'a str,
    timestamp: String,
    payload: Value,
    metadata: Value,
}

impl Message {
    /// A new event that is to die for the first time at `dies_at`.
    pub(super) fn new(cause: &'static Cause, dies_at: Time, calendar: Calendar, dice: &mut Dice) -> Message {
        let facts = Facts::throw(dice);
        let sent_at = dies_at.plus_ms(-(longest_life_ms(cause) + dice.between(200, 4_000)));
        Message {
            cause,
            id: uuid(dice),
            facts,
            sent_at,
            sender_version: cause.event.sender.release(sent_at, calendar).version,
            trace: dice.hex(32),
            span: dice.hex(16),
        }
    }

    /// The message after its last run failed at `at`.
    pub(super) fn death(&self, at: Time, calendar: Calendar, dice: &mut Dice) -> Captured {
        let cause = self.cause;
        let release = cause.program.release(at, calendar);
        let attempts = self.attempts(at, dice);
        let message = attempts.last().map(|fatal| fatal.error.message.clone()).unwrap_or_default();
        let readable = matches!(cause.event.wire, Wire::Json);
        Captured {
            source: SOURCE.to_owned(),
            message_id: self.id.clone(),
            letter_type: cause.event.pattern.to_owned(),
            queue: cause.queue.to_owned(),
            subscriber: Some(cause.program.name.to_owned()),
            tenant: Some(self.facts.shop.tenant.to_owned()),
            aggregate: readable.then(|| cause.event.aggregate.of(&self.facts)),
            schema_version: readable.then(|| cause.event.version.to_owned()),
            envelope: self.envelope(),
            error: self.fatal_error(message, release, dice),
            retry_count: cause.program.runs,
            max_retries: Some(cause.program.runs),
            attempts,
            died_at: Some(at),
            mark: None,
            word: SourceWord::Silent,
            reported: Some(json!({ "createdAt": at.to_string(), "status": "pending" }).to_string()),
        }
    }

    /// The failed runs, each pause about twice the one before, the last at the death.
    fn attempts(&self, died_at: Time, dice: &mut Dice) -> Vec<Attempt> {
        let program = self.cause.program;
        let mut at = died_at;
        let mut runs = Vec::new();
        for run in (0..program.runs).rev() {
            let duration_ms = dice.between(self.cause.run_ms.0, self.cause.run_ms.1);
            let message = self.fill(self.message(), dice);
            let error = self.told(message);
            runs.push(Attempt { at: Some(at), duration_ms: Some(duration_ms as u64), error, extra: None });
            let pause_ms = program.pause_ms << run.saturating_sub(1);
            at = at.plus_ms(-(pause_ms * dice.between(90, PAUSE_PERCENT_MAX) / 100 + duration_ms));
        }
        runs.reverse();
        runs
    }

    fn message(&self) -> &'static str {
        let messages = self.cause.error.messages;
        messages.get(self.facts.variant % messages.len().max(1)).copied().unwrap_or_default()
    }

    /// The error as the history of runs tells it: no backtrace.
    fn told(&self, message: String) -> LetterError {
        LetterError {
            error_type: self.cause.error.name.to_owned(),
            code: self.cause.error.code.map(str::to_owned),
            message,
            ..LetterError::default()
        }
    }

    fn fatal_error(&self, message: String, release: &Release, dice: &mut Dice) -> LetterError {
        let error = &self.cause.error;
        let program = self.cause.program;
        let backtrace = fill(&error.backtrace.concat(), |name| match name {
            "message" => Some(message.clone()),
            "type" => Some(error.name.to_owned()),
            // A number is a line of the shop's own code, and moves with each deploy.
            _ => match name.parse::<u32>() {
                Ok(line) => Some((line + release.lines_moved).to_string()),
                Err(_) => self.facts.word(name),
            },
        });
        let mut context = Map::new();
        for (name, text) in error.context {
            context.insert((*name).to_owned(), self.fill(text, dice).into());
        }
        context.insert("pod".to_owned(), program.pod(release, dice).into());
        context.insert("release".to_owned(), release.version.into());
        context.insert("runtime".to_owned(), program.runtime.into());
        LetterError {
            backtrace: Some(backtrace),
            context: Some(Value::Object(context).to_string()),
            ..self.told(message)
        }
    }

    /// Fills what differs from run to run as well as the facts.
    fn fill(&self, template: &str, dice: &mut Dice) -> String {
        let seconds = dice.between(5, 45);
        fill(template, |name| match name {
            "seconds" => Some(seconds.to_string()),
            "event" => Some(self.id.clone()),
            "body_bytes" | "bad_byte" | "bad_at" | "bad_why" => self.spoiled_word(name),
            _ => self.facts.word(name),
        })
    }

    /// What a decoder says about a body that it cannot read.
    fn spoiled_word(&self, name: &str) -> Option<String> {
        let envelope = self.envelope();
        let body = envelope.body();
        let (at, byte) =
            body.iter().copied().enumerate().find(|(_, byte)| !byte.is_ascii()).unwrap_or_default();
        Some(match name {
            "body_bytes" => body.len().to_string(),
            "bad_at" => at.to_string(),
            "bad_byte" => format!("{byte:#04x}"),
            "bad_why" if byte >= FIRST_BYTE_NEVER_USED => "invalid start byte".to_owned(),
            "bad_why" => "invalid continuation byte".to_owned(),
            _ => return None,
        })
    }

    fn envelope(&self) -> Envelope {
        let event = self.event();
        let (body, content_type) = match self.cause.event.wire {
            Wire::Json => (event.into_bytes(), "application/json"),
            Wire::CutShort => (cut_short(event), "application/json"),
            Wire::Latin1 => (latin1(&event), "application/json; charset=utf-8"),
            Wire::Pdf => (pdf(&self.facts), "application/pdf"),
        };
        let headers = [
            ("content-type", content_type.to_owned()),
            ("traceparent", format!("00-{}-{}-01", self.trace, self.span)),
            ("x-event-id", self.id.clone()),
            ("x-retry-count", self.cause.program.runs.to_string()),
            ("x-sent-by", format!("{}/{}", self.cause.event.sender.name, self.sender_version)),
            ("x-tenant-id", self.facts.shop.tenant.to_owned()),
        ];
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        Envelope::seal(Bytes::from(body), content_type, headers)
    }

    fn event(&self) -> String {
        let event = &self.cause.event;
        let event = Event {
            event_id: &self.id,
            pattern: event.pattern,
            version: event.version,
            source: event.sender.name,
            timestamp: self.sent_at.to_string(),
            payload: (event.payload)(&self.facts),
            metadata: json!({
                "tenantId": self.facts.shop.tenant,
                "correlationId": self.facts.order(),
                "traceId": self.trace,
                "sentBy": format!("{}/{}", event.sender.name, self.sender_version),
            }),
        };
        serde_json::to_string(&event).expect("texts and numbers under text keys are JSON")
    }
}

/// How long it takes at most from sending to the last failure: all runs and the pauses between them.
fn longest_life_ms(cause: &Cause) -> i64 {
    let pauses = cause.program.pause_ms * ((1_i64 << cause.program.runs.saturating_sub(1)) - 1);
    pauses * PAUSE_PERCENT_MAX / 100 + i64::from(cause.program.runs) * cause.run_ms.1
}

/// A random UUID of the dice.
fn uuid(dice: &mut Dice) -> String {
    let mut hex = dice.hex(32);
    hex.replace_range(12..13, "4");
    hex.replace_range(16..17, dice.pick(&["8", "9", "a", "b"]));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What is left of an event that ends within the name of a field, some way behind its middle.
fn cut_short(event: String) -> Vec<u8> {
    let mut bytes = event.into_bytes();
    let middle = bytes.len() * 3 / 5;
    let next_name = bytes[middle..].windows(2).position(|pair| pair == b",\"");
    bytes.truncate(middle + next_name.map_or(0, |name| name + 5));
    bytes
}

/// The text in Latin-1. A character that it does not have becomes a question mark, as old programs do.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
}

/// The beginning of a document, with the bytes that make it binary.
fn pdf(facts: &Facts) -> Vec<u8> {
    let mut body =
        b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n".to_vec();
    let title = format!("4 0 obj\n<< /Title (Price list {}) /Length 61 >>\nstream\n", facts.shop.country);
    body.extend_from_slice(title.as_bytes());
    body.extend_from_slice(
        b"x\x9c\x0b\xc9\xc8,V\x00\xa2D\x85\x92\xd4\xe2\x12\x85\xb4\xcc\x9cT\x00\nendstream\n%%EOF\n",
    );
    body
}
