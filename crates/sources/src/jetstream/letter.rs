//! Messages of the dead-letter stream: the headers that the bridge writes, and the conversion of any such message, whoever
//! published it, to a captured letter.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::broker::{self, BrokerDeath, DeathReason, HEADER_BYTES_MAX, StreamOrigin};
use lazaret_core::envelope::Envelope;
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::origin::{JetStreamOrigin, Origin};
use lazaret_core::time::Time;
use serde_json::{Map, Value, json};

use super::api::StoredMessage;
use super::config::JetStreamConfig;
use super::publish::append;
use super::receipts::captured_id;
use crate::redriven::{EVENT_ID, content_type_of, mark};

/// The reason why the letter has no body.
const BODY_GONE: &str = "Lazaret-Body-Gone";
/// An original header whose value is not UTF-8, which clients cannot read: `<name>=<base64>`.
const BINARY_HEADER: &str = "Lazaret-Binary-Header";

/// Bytes reserved for headers that `BrokerDeath` does not count.
const ROOM_BYTES: usize = 1_024;

/// Builds the headers of a copy in the dead-letter stream. `body_gone` is the reason why there is no body.
pub(super) fn copy_headers(
    death: &BrokerDeath,
    original: Option<&StoredMessage>,
    body_gone: Option<&str>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut used = ROOM_BYTES;
    for (name, value) in original.map(|it| it.headers.as_slice()).unwrap_or_default() {
        used += name.len() + value.len() + broker::ORIGINAL_HEADER_PREFIX.len() + 4;
        let kept = broker::dead_letter_header(name);
        let is_kept = std::str::from_utf8(value).is_ok_and(|value| append(&mut headers, &kept, value));
        if !is_kept {
            append_binary(&mut headers, name, value);
        }
    }
    if let Some(origin) = &death.origin {
        append(&mut headers, broker::MESSAGE_ID, &origin.message_id());
    }
    if let Some(why) = body_gone {
        append(&mut headers, BODY_GONE, &broker::escape_text(why));
    }
    for (name, value) in death.headers(HEADER_BYTES_MAX.saturating_sub(used)) {
        append(&mut headers, name, &value);
    }
    headers
}

/// Re-encodes the headers of a dead letter that the client library cannot parse.
pub(super) fn readable_headers(unreadable: &StoredMessage, place: &StreamOrigin) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &unreadable.headers {
        if name.eq_ignore_ascii_case(broker::MESSAGE_ID) {
            continue;
        }
        if !std::str::from_utf8(value).is_ok_and(|value| append(&mut headers, name, value)) {
            append_binary(&mut headers, name, value);
        }
    }
    append(&mut headers, broker::MESSAGE_ID, &format!("readable:{}", place.message_id()));
    headers
}

fn append_binary(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    let value = format!("{}={}", broker::escape_text(name), STANDARD.encode(value));
    append(headers, BINARY_HEADER, &value);
}

/// A delivered message of the dead-letter stream.
pub(super) struct DeadLetter<'a> {
    pub subject: &'a str,
    /// Sorted by name: clients do not keep the original order.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Its own position in the dead-letter stream.
    pub place: StreamOrigin,
    pub time: Time,
}

/// The origin of a dead message, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KnownOrigin {
    pub stream: Option<String>,
    pub consumer: Option<String>,
    pub sequence: Option<u64>,
    pub stream_created: Option<Time>,
}

/// Sorts headers by name. Repeated names keep their order.
pub(super) fn sorted_headers(headers: Option<&HeaderMap>) -> Vec<(String, String)> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, values) in headers.into_iter().flat_map(HeaderMap::iter) {
        let values = values.iter().map(|value| value.as_str().to_owned());
        by_name.entry(name.to_string()).or_default().extend(values);
    }
    let flat = by_name.into_iter().flat_map(|(name, values)| {
        values.into_iter().map(move |value| (name.clone(), value)).collect::<Vec<_>>()
    });
    flat.collect()
}

impl DeadLetter<'_> {
    /// Returns the first value of a header. Names are case-insensitive.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a header by one of its usual spellings: `X-Error-Type`, `error_type`, `error.type`.
    fn get_any(&self, names: &[&str]) -> Option<&str> {
        let plain = |name: &str| {
            let plain = name.to_ascii_lowercase().replace(['_', '.'], "-");
            plain.strip_prefix("x-").map(str::to_owned).unwrap_or(plain)
        };
        let named = |name: &&str| self.headers.iter().find(|(known, _)| plain(known) == **name);
        names.iter().find_map(named).map(|(_, value)| value.as_str())
    }

    fn death(&self) -> BrokerDeath {
        let mut death = BrokerDeath::read(|name| self.get(name));
        if death.error.is_none() {
            death.error = self.foreign_error();
        }
        if death.original_subject.is_none() {
            let subject = self.get_any(&["original-subject", "nats-subject"]);
            death.original_subject = subject.map(str::to_owned);
        }
        if death.deliveries.is_none() {
            let names =
                ["attempt", "attempts", "retry-count", "delivery-count", "deliveries", "num-delivered"];
            death.deliveries = self.get_any(&names).and_then(|count| count.parse().ok());
        }
        death
    }

    fn foreign_error(&self) -> Option<LetterError> {
        let text = |names: &[&str]| self.get_any(names).map(broker::unescape_text);
        let error_type = text(&["error-type", "exception-type", "exception-class", "exception-fqcn"]);
        let message =
            text(&["error-message", "exception-message", "error", "exception", "dlq-reason", "reason"]);
        let code = text(&["error-code", "status-code"]);
        let backtrace = text(&[
            "error-backtrace",
            "backtrace",
            "error-stack",
            "stacktrace",
            "stack-trace",
            "exception-stacktrace",
        ]);
        let is_told = error_type.is_some() || message.is_some() || code.is_some() || backtrace.is_some();
        is_told.then(|| LetterError {
            error_type: error_type.unwrap_or_default(),
            code,
            message: message.unwrap_or_default(),
            backtrace,
            ..LetterError::default()
        })
    }

    /// Returns true if a max-deliveries advisory reported the message.
    pub fn is_exhausted(&self) -> bool {
        self.get(broker::REASON).and_then(DeathReason::parse) == Some(DeathReason::MaxDeliveries)
    }

    /// Returns true if the body was copied. The body of a message that is too large to copy exists in its own stream only.
    pub fn has_body(&self) -> bool {
        self.get(BODY_GONE).is_none()
    }

    /// Reads the origin from the headers, else from the subject.
    pub fn origin(&self) -> KnownOrigin {
        let name = |header: &str| {
            self.get(header).map(|token| broker::unescape_token(token).unwrap_or_else(|| token.to_owned()))
        };
        let of_subject = broker::parse_dead_letter_subject(self.subject);
        let (stream, consumer) =
            of_subject.map_or((None, None), |(stream, consumer)| (Some(stream), Some(consumer)));
        let foreign_stream = || self.get_any(&["nats-stream", "original-stream"]).map(str::to_owned);
        let sequence =
            self.get(broker::SEQUENCE).or_else(|| self.get_any(&["nats-sequence", "original-sequence"]));
        KnownOrigin {
            stream: name(broker::STREAM).or_else(foreign_stream).or(stream),
            consumer: name(broker::CONSUMER).or(consumer),
            sequence: sequence.and_then(|text| text.parse().ok()),
            stream_created: self.get(broker::STREAM_CREATED).and_then(|at| Time::parse(at).ok()),
        }
    }

    /// Converts to a captured letter. `origin` has the stream's creation time where it is known.
    pub fn captured(&self, config: &JetStreamConfig, origin: &KnownOrigin) -> Captured {
        let death = self.death();
        let body_gone = self.get(BODY_GONE).map(broker::unescape_text);
        let headers = self.original_headers();
        let value = |name: &str| {
            let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.and_then(|(_, value)| value.as_text())
        };
        let mark = mark(value);
        let configured = |name: &Option<String>| {
            name.as_deref().and_then(value).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let message_id = match (&mark, value(EVENT_ID)) {
            (Some(_), Some(id)) if !id.is_empty() => id.to_owned(),
            _ => message_id(origin, &self.place),
        };
        let error = death.error.clone().unwrap_or_else(|| LetterError {
            message: "published to the dead-letter stream without an error".to_owned(),
            ..LetterError::default()
        });
        let letter_type = death.original_subject.clone().unwrap_or_else(|| self.subject.to_owned());
        let queue = match (&origin.stream, &origin.consumer) {
            (Some(stream), Some(consumer)) => format!("{stream}.{consumer}"),
            _ => self.subject.strip_prefix("dlq.").unwrap_or(self.subject).to_owned(),
        };
        Captured {
            source: config.name.clone(),
            message_id,
            letter_type,
            queue,
            subscriber: origin.consumer.clone(),
            tenant: configured(&config.tenant_header),
            aggregate: configured(&config.aggregate_header),
            schema_version: configured(&config.schema_version_header),
            envelope: self.envelope(&death, origin, &headers, body_gone.as_deref()),
            error,
            retry_count: count(death.deliveries.unwrap_or(death.attempts.len() as u64)),
            max_retries: origin.max_deliver(config),
            died_at: Some(death.last_attempt_at.unwrap_or(self.time)),
            attempts: death.attempts.clone(),
            mark,
            word: word(&death, body_gone.is_some()),
            reported: Some(self.reported(&death, origin, body_gone.as_deref())),
        }
    }

    /// Restores the headers of the original message.
    fn original_headers(&self) -> Headers {
        let mut headers: Headers = Vec::new();
        for (name, value) in &self.headers {
            if name.eq_ignore_ascii_case(BINARY_HEADER) {
                let Some((name, bytes)) = value.split_once('=') else { continue };
                let bytes = STANDARD.decode(bytes).unwrap_or_default();
                headers.push((broker::unescape_text(name), HeaderValue::long_string(bytes.into())));
            } else if let Some(original) = broker::original_header(name) {
                headers.push((original.to_owned(), HeaderValue::Text(value.clone())));
            }
        }
        headers
    }

    fn envelope(
        &self,
        death: &BrokerDeath,
        origin: &KnownOrigin,
        headers: &Headers,
        body_gone: Option<&str>,
    ) -> Envelope {
        let time = |at: Option<Time>| at.map(|at| at.to_string());
        let origin = Origin::JetStream(JetStreamOrigin {
            stream: origin.stream.clone(),
            stream_created_at: time(origin.stream_created),
            sequence: origin.sequence,
            // Empty if the publisher did not name it.
            subject: death.original_subject.clone().unwrap_or_default(),
            consumer: origin.consumer.clone(),
            published_at: time(death.published_at),
        });
        let kept = without_redrive(headers);
        let content_type = kept.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.and_then(|(_, value)| value.as_text()).map(str::to_owned);
        let content_type = content_type.unwrap_or_else(|| content_type_of(&self.body).to_owned());
        Envelope::seal(self.body.clone(), content_type, kept)
            .with_origin(Some(origin))
            .with_body_missing(body_gone.map(str::to_owned))
    }

    /// Collects what is known and has no field of its own.
    fn reported(&self, death: &BrokerDeath, origin: &KnownOrigin, body_gone: Option<&str>) -> String {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value);
            }
        };
        let time = |at: Option<Time>| at.map(|at| json!(at.to_string()));
        set("stream", origin.stream.as_ref().map(|it| json!(it)));
        set("streamCreated", time(origin.stream_created));
        set("sequence", origin.sequence.map(|it| json!(it)));
        set("consumer", origin.consumer.as_ref().map(|it| json!(it)));
        set("deliveries", death.deliveries.map(|it| json!(it)));
        set("reason", death.reason.map(|it| json!(it.name())));
        set("publishedAt", time(death.published_at));
        set("firstAttemptAt", time(death.first_attempt_at));
        set("serviceVersion", death.service_version.as_ref().map(|it| json!(it)));
        set("class", death.class.map(|it| json!(it.to_string())));
        set("bodyGone", body_gone.map(|why| json!(why)));
        set("deadLetterSubject", Some(json!(self.subject)));
        set("deadLetterSequence", Some(json!(self.place.sequence)));
        Value::Object(fields).to_string()
    }
}

impl KnownOrigin {
    /// Returns the origin if all of it is known.
    pub fn complete(&self) -> Option<StreamOrigin> {
        Some(StreamOrigin {
            stream: self.stream.clone()?,
            stream_created: self.stream_created?,
            sequence: self.sequence?,
            consumer: self.consumer.clone()?,
        })
    }

    fn max_deliver(&self, config: &JetStreamConfig) -> Option<u32> {
        let watched = config.watched(self.stream.as_deref()?, self.consumer.as_deref()?)?;
        Some(watched.max_deliver)
    }
}

/// Stream, creation time and sequence of the original; if unknown, of the dead letter itself.
fn message_id(origin: &KnownOrigin, place: &StreamOrigin) -> String {
    let (Some(stream), Some(sequence)) = (&origin.stream, origin.sequence) else { return captured_id(place) };
    captured_id(&StreamOrigin {
        stream: stream.clone(),
        stream_created: origin.stream_created.unwrap_or_default(),
        sequence,
        consumer: String::new(),
    })
}

/// Undoes what a redrive changed: removes added headers and restores renamed ones.
fn without_redrive(headers: &Headers) -> Headers {
    let value = |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, key)) = value(broker::LETTER_ID).and_then(|_| value(broker::IDEMPOTENCY_KEY)) else {
        return headers.clone();
    };
    let is_added = |name: &str, value: &HeaderValue| {
        name.eq_ignore_ascii_case(EVENT_ID)
            || broker::REDRIVE_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
            || (name.eq_ignore_ascii_case(broker::MESSAGE_ID) && value == key)
    };
    let kept = headers.iter().filter(|(name, value)| !is_added(name, value));
    let named = kept.map(|(name, value)| {
        let original = name.strip_prefix(broker::ORIGINAL_HEADER_PREFIX).filter(|it| it.starts_with("Nats-"));
        (original.unwrap_or(name).to_owned(), value.clone())
    });
    named.collect()
}

/// A terminated message dies once, though the worker's copy and the advisory have different times. The same holds for one whose
/// body is gone.
fn word(death: &BrokerDeath, is_gone: bool) -> SourceWord {
    match death.reason {
        Some(DeathReason::Terminated) => SourceWord::SameDeath,
        _ if is_gone => SourceWord::SameDeath,
        _ => SourceWord::Silent,
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
