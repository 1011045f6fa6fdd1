//! Requests to the JetStream API, as JSON: settings that the client library does not know survive an update, and headers keep
//! their order and bytes.

use std::fmt::Write as _;
use std::str::FromStr as _;

use async_nats::{HeaderName, RequestErrorKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazaret_core::time::Time;
use serde_json::{Value, json};

use super::link::Link;
use crate::SourceError;

/// The server's info on a stream.
#[derive(Clone, Debug)]
pub(super) struct StreamInfo(Value);

/// The server's info on a consumer.
#[derive(Clone, Debug)]
pub(super) struct ConsumerInfo(Value);

/// A stored message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StoredMessage {
    pub subject: String,
    pub sequence: u64,
    pub time: Time,
    /// In the original order. Values need not be UTF-8.
    pub headers: Vec<(String, Bytes)>,
    /// True if the client library can parse the headers. It drops the connection when a message is delivered that it cannot parse.
    pub is_readable: bool,
    pub body: Bytes,
}

/// The retention policy of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retention {
    Limits,
    Interest,
    WorkQueue,
}

/// API error codes for a missing stream, consumer or message.
const STREAM_NOT_FOUND: &str = "10059";
const CONSUMER_NOT_FOUND: &str = "10014";
const MESSAGE_NOT_FOUND: &str = "10037";
/// Returned when a message to delete does not exist.
const MESSAGE_NOT_DELETED: &str = "10057";
const CONSUMER_DOES_NOT_EXIST: &str = "10149";

/// Pages read of one list, 256 consumers each.
const PAGES_MAX: usize = 100;

impl Link {
    pub async fn request(
        &self,
        doing: &'static str,
        subject: &str,
        body: &Value,
    ) -> Result<Value, SourceError> {
        let client = self.client().await?;
        let body = match body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let answer = client.request(format!("$JS.API.{subject}"), body).await.map_err(|error| {
            let why = match error.kind() {
                RequestErrorKind::NoResponders => {
                    "JetStream does not respond: enable it for this account, or wait until the server has started"
                        .to_owned()
                }
                RequestErrorKind::TimedOut => {
                    format!("request timed out; if it keeps timing out, allow publishing to $JS.API.{subject}")
                }
                RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
                | RequestErrorKind::Other => error.to_string(),
            };
            SourceError::Unavailable { doing, why }
        })?;
        let answer: Value = serde_json::from_slice(&answer.payload).map_err(|error| {
            SourceError::Unavailable { doing, why: format!("response is not JSON: {error}") }
        })?;
        let Some(error) = answer.get("error") else { return Ok(answer) };
        let code = error.get("err_code").and_then(Value::as_u64).map(|code| code.to_string());
        let text = error.get("description").and_then(Value::as_str).unwrap_or("no description");
        let mut why = format!("{doing}: {text}");
        if let Some(code) = &code {
            _ = write!(why, " ({code})");
        }
        // 503 is transient: the server is starting, or the cluster has no leader.
        match error.get("code").and_then(Value::as_u64) {
            Some(503) => Err(SourceError::Unavailable { doing, why: text.to_owned() }),
            _ => Err(SourceError::Refused { code, why }),
        }
    }

    pub async fn stream(&self, name: &str) -> Result<Option<StreamInfo>, SourceError> {
        let info = self.request("reading a stream", &format!("STREAM.INFO.{name}"), &Value::Null).await;
        Ok(unless_missing(info, &[STREAM_NOT_FOUND])?.map(StreamInfo))
    }

    pub async fn consumer(&self, stream: &str, name: &str) -> Result<Option<ConsumerInfo>, SourceError> {
        let subject = format!("CONSUMER.INFO.{stream}.{name}");
        let info = self.request("reading a consumer", &subject, &Value::Null).await;
        Ok(unless_missing(info, &[STREAM_NOT_FOUND, CONSUMER_NOT_FOUND])?.map(ConsumerInfo))
    }

    /// Lists all consumers of a stream.
    pub async fn consumers(&self, stream: &str) -> Result<Vec<ConsumerInfo>, SourceError> {
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let subject = format!("CONSUMER.LIST.{stream}");
            let page = self.request("listing consumers", &subject, &json!({"offset": all.len()})).await;
            let Some(mut page) = unless_missing(page, &[STREAM_NOT_FOUND])? else { break };
            let Some(Value::Array(consumers)) = page.get_mut("consumers").map(Value::take) else { break };
            let is_last = consumers.is_empty();
            all.extend(consumers.into_iter().map(ConsumerInfo));
            if is_last || all.len() as u64 >= number(&page, "total") {
                break;
            }
        }
        Ok(all)
    }

    /// Lists the streams whose subjects overlap with a subject.
    pub async fn streams_on(&self, subject: &str) -> Result<Vec<String>, SourceError> {
        let names = self.request("looking for streams", "STREAM.NAMES", &json!({"subject": subject})).await?;
        let names = names.get("streams").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(names.into_iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
    }

    /// Fetches a message by its sequence. Returns `None` if it is gone.
    pub async fn message(&self, stream: &str, sequence: u64) -> Result<Option<StoredMessage>, SourceError> {
        self.stored(stream, &json!({"seq": sequence})).await
    }

    /// Fetches the last message on a subject, which may have wildcards.
    pub async fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, SourceError> {
        self.stored(stream, &json!({"last_by_subj": subject})).await
    }

    async fn stored(&self, stream: &str, which: &Value) -> Result<Option<StoredMessage>, SourceError> {
        const DOING: &str = "fetching a message";
        let answer = self.request(DOING, &format!("STREAM.MSG.GET.{stream}"), which).await;
        let Some(answer) = unless_missing(answer, &[STREAM_NOT_FOUND, MESSAGE_NOT_FOUND])? else {
            return Ok(None);
        };
        let read = || -> Option<StoredMessage> {
            let message = answer.get("message")?;
            let bytes = |key: &str| match message.get(key) {
                None => Some(Vec::new()),
                Some(text) => STANDARD.decode(text.as_str()?).ok(),
            };
            let block = bytes("hdrs")?;
            Some(StoredMessage {
                subject: message.get("subject")?.as_str()?.to_owned(),
                sequence: message.get("seq")?.as_u64()?,
                time: Time::parse(message.get("time")?.as_str()?).ok()?,
                headers: headers(&block),
                is_readable: is_readable(&block),
                body: bytes("data")?.into(),
            })
        };
        let why = || SourceError::Unavailable { doing: DOING, why: "response is malformed".to_owned() };
        read().map(Some).ok_or_else(why)
    }

    /// Deletes a message. Returns false if it did not exist.
    pub async fn delete_message(&self, stream: &str, sequence: u64) -> Result<bool, SourceError> {
        // Overwriting the body before removing it would only cost time.
        let body = json!({"seq": sequence, "no_erase": true});
        let subject = format!("STREAM.MSG.DELETE.{stream}");
        let deleted = self.request("deleting an exhausted message", &subject, &body).await;
        Ok(unless_missing(deleted, &[STREAM_NOT_FOUND, MESSAGE_NOT_FOUND, MESSAGE_NOT_DELETED])?.is_some())
    }

    pub async fn create_stream(&self, config: &Value) -> Result<(), SourceError> {
        let subject = format!("STREAM.CREATE.{}", text(config, "name"));
        self.request("creating a stream", &subject, config).await.map(|_| ())
    }

    pub async fn update_stream(&self, config: &Value) -> Result<(), SourceError> {
        let subject = format!("STREAM.UPDATE.{}", text(config, "name"));
        self.request("changing a stream", &subject, config).await.map(|_| ())
    }

    /// Creates or updates a consumer.
    pub async fn put_consumer(&self, stream: &str, config: &Value) -> Result<ConsumerInfo, SourceError> {
        let filter = text(config, "filter_subject");
        let subject = match (text(config, "durable_name"), text(config, "name")) {
            ("", "") => format!("CONSUMER.CREATE.{stream}"),
            ("", name) if filter.is_empty() => format!("CONSUMER.CREATE.{stream}.{name}"),
            ("", name) => format!("CONSUMER.CREATE.{stream}.{name}.{filter}"),
            (durable, _) => format!("CONSUMER.DURABLE.CREATE.{stream}.{durable}"),
        };
        let body = json!({"stream_name": stream, "config": config});
        self.request("declaring a consumer", &subject, &body).await.map(ConsumerInfo)
    }

    /// Removes all messages on a subject.
    pub async fn purge(&self, stream: &str, subject: &str) -> Result<(), SourceError> {
        let body = json!({"filter": subject});
        self.request("purging a subject", &format!("STREAM.PURGE.{stream}"), &body).await.map(|_| ())
    }
}

/// Maps the given error codes, which mean that something does not exist, to `None`.
fn unless_missing<T>(answer: Result<T, SourceError>, missing: &[&str]) -> Result<Option<T>, SourceError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(SourceError::Refused { code: Some(code), .. })
            if missing.contains(&code.as_str()) || code == CONSUMER_DOES_NOT_EXIST =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn time(value: &Value, key: &str) -> Option<Time> {
    Time::parse(value.get(key)?.as_str()?).ok()
}

impl StreamInfo {
    pub fn config(&self) -> &Value {
        self.0.get("config").unwrap_or(&Value::Null)
    }

    pub fn created(&self) -> Option<Time> {
        time(&self.0, "created")
    }

    pub fn retention(&self) -> Retention {
        match text(self.config(), "retention") {
            "workqueue" => Retention::WorkQueue,
            "interest" => Retention::Interest,
            _ => Retention::Limits,
        }
    }

    pub fn duplicate_window_ms(&self) -> u64 {
        number(self.config(), "duplicate_window") / 1_000_000
    }

    /// Returns a number of the stream's state, such as `messages` or `last_seq`.
    pub fn state(&self, key: &str) -> u64 {
        self.0.get("state").map_or(0, |state| number(state, key))
    }
}

impl ConsumerInfo {
    pub fn name(&self) -> &str {
        text(&self.0, "name")
    }

    pub fn config(&self) -> &Value {
        self.0.get("config").unwrap_or(&Value::Null)
    }

    /// Returns a number such as `num_pending`, `num_ack_pending`, `num_redelivered` or `num_waiting`.
    pub fn number(&self, key: &str) -> u64 {
        number(&self.0, key)
    }

    /// The highest stream sequence that was delivered.
    pub fn delivered(&self) -> u64 {
        self.0.get("delivered").map_or(0, |it| number(it, "stream_seq"))
    }

    /// The stream sequence up to which every message is acknowledged.
    pub fn ack_floor(&self) -> u64 {
        self.0.get("ack_floor").map_or(0, |it| number(it, "stream_seq"))
    }

    /// The time of the last delivery.
    pub fn last_active(&self) -> Option<Time> {
        time(self.0.get("delivered")?, "last_active")
    }

    /// Returns true if a pull request is waiting or a push subscriber is bound.
    pub fn has_subscriber(&self) -> bool {
        self.number("num_waiting") > 0 || self.0.get("push_bound").and_then(Value::as_bool) == Some(true)
    }

    /// The number of deliveries before a message is exhausted; `None` if unlimited.
    pub fn max_deliver(&self) -> Option<u32> {
        let max = self.config().get("max_deliver").and_then(Value::as_i64)?;
        u32::try_from(max).ok().filter(|max| *max > 0)
    }

    pub fn backoff_ms(&self) -> Vec<u64> {
        let waits = self.config().get("backoff").and_then(Value::as_array);
        let waits = waits.map(|waits| waits.iter().filter_map(Value::as_u64).collect::<Vec<_>>());
        waits.unwrap_or_default().into_iter().map(|ns| ns / 1_000_000).collect()
    }

    /// The sum of the ack waits of all deliveries; `None` without `max_deliver`.
    pub fn total_retry_ms(&self) -> Option<u64> {
        let max = self.max_deliver()? as usize;
        let backoff = self.backoff_ms();
        let ack_wait_ms = number(self.config(), "ack_wait") / 1_000_000;
        let wait = |n: usize| backoff.get(n).or(backoff.last()).copied().unwrap_or(ack_wait_ms);
        Some((0..max).fold(0_u64, |total, n| total.saturating_add(wait(n))))
    }

    /// Returns true if the consumer's filter matches a subject.
    pub fn matches_subject(&self, subject: &str) -> bool {
        let config = self.config();
        let several = config.get("filter_subjects").and_then(Value::as_array);
        let several = several.map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>());
        match (text(config, "filter_subject"), several.unwrap_or_default()) {
            ("", several) if several.is_empty() => true,
            ("", several) => several.iter().any(|filter| subject_matches(filter, subject)),
            (one, _) => subject_matches(one, subject),
        }
    }
}

/// Returns true if a filter matches a subject without wildcards.
pub(super) fn subject_matches(filter: &str, subject: &str) -> bool {
    let (mut filters, mut tokens) = (filter.split('.'), subject.split('.'));
    loop {
        match (filters.next(), tokens.next()) {
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(filter), Some(token)) if filter == token => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Parses a header block (`NATS/1.0`, then `Name: value` lines). Values need not be UTF-8.
fn headers(block: &[u8]) -> Vec<(String, Bytes)> {
    let mut lines = block.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.next();
    let mut headers: Vec<(String, Bytes)> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        headers.push((String::from_utf8_lossy(name).into_owned(), Bytes::copy_from_slice(value)));
    }
    headers
}

/// Returns true if every line of a header block is UTF-8 with a name that the client library accepts.
fn is_readable(block: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(block) else { return false };
    let mut lines = text.lines().skip(1).filter(|line| !line.is_empty());
    lines.all(|line| {
        line.starts_with(char::is_whitespace)
            || line.split_once(':').is_some_and(|(name, _)| HeaderName::from_str(name).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_subjects_as_the_server_does() {
        for (filter, subject, matches) in [
            ("orders.>", "orders.new", true),
            ("orders.>", "orders.new.eu", true),
            ("orders.>", "orders", false),
            ("orders.*", "orders.new", true),
            ("orders.*", "orders.new.eu", false),
            ("*.new", "orders.new", true),
            ("orders.new", "orders.new", true),
            ("orders.new", "orders.old", false),
            (">", "orders", true),
        ] {
            assert_eq!(subject_matches(filter, subject), matches, "{filter} {subject}");
        }
    }

    #[test]
    fn headers_keep_order_repetitions_and_bytes() {
        let block = b"NATS/1.0\r\nB: 1\r\nA:two words \r\nB: 2\r\nraw: \xff\xfe\r\nempty:\r\n\r\n";
        let read = headers(block);
        let expected: Vec<(String, Bytes)> =
            [("B", &b"1"[..]), ("A", b"two words"), ("B", b"2"), ("raw", b"\xff\xfe"), ("empty", b"")]
                .map(|(name, value)| (name.to_owned(), Bytes::copy_from_slice(value)))
                .into();
        assert_eq!(read, expected);
        assert!(headers(b"").is_empty());
        assert!(is_readable(b"") && is_readable(b"NATS/1.0\r\nA: 1\r\n\r\n"));
        assert!(!is_readable(block) && !is_readable(b"NATS/1.0\r\nno colon\r\n\r\n"));
    }

    #[test]
    fn the_total_retry_time_counts_every_delivery() {
        let info = |config: Value| ConsumerInfo(json!({"config": config}));
        let s = 1_000_000_000_u64;
        assert_eq!(
            info(json!({"max_deliver": 4, "backoff": [s, 2 * s], "ack_wait": s})).total_retry_ms(),
            Some(7_000)
        );
        assert_eq!(info(json!({"max_deliver": 3, "ack_wait": 30 * s})).total_retry_ms(), Some(90_000));
        assert_eq!(info(json!({"max_deliver": -1, "ack_wait": s})).total_retry_ms(), None);
    }
}
