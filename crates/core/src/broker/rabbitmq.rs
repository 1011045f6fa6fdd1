//! RabbitMQ: the headers of a retried message, and the message that a worker publishes to a dead-letter queue.
//!
//! The dead-letter message holds the original text verbatim, so that what is taken out is what was put in, byte for byte.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::time::Time;

/// How often the message was retried: an integer.
pub const RETRY_COUNT: &str = "x-retry-count";
/// When the first attempt began, in whole seconds since 1970.
pub const FIRST_ATTEMPT_TIMESTAMP: &str = "x-first-attempt-timestamp";
/// When the last attempt began, in whole seconds since 1970.
pub const LAST_ATTEMPT_TIMESTAMP: &str = "x-last-attempt-timestamp";
/// The exchange that the message was first published to.
pub const ORIGINAL_EXCHANGE: &str = "x-original-exchange";
/// The routing key that the message was first published with.
pub const ORIGINAL_ROUTING_KEY: &str = "x-original-routing-key";
/// The queue whose consumer gave the message up.
pub const ORIGINAL_QUEUE: &str = "x-original-queue";
/// On a dead-letter message: the content type of the original; absent where the original had none.
pub const ORIGINAL_CONTENT_TYPE: &str = "x-original-content-type";
/// On a dead-letter message: the content encoding of the original; absent where the original had none.
pub const ORIGINAL_CONTENT_ENCODING: &str = "x-original-content-encoding";
/// On a dead-letter message: the timestamp of the original; absent where the original had none.
pub const ORIGINAL_TIMESTAMP: &str = "x-original-timestamp";
/// The expiration that the message was published with. As a property it would cut a delay short.
pub const ORIGINAL_EXPIRATION: &str = "x-original-expiration";
/// The user id that the message was published with. The broker refuses the property of another user.
pub const ORIGINAL_USER_ID: &str = "x-original-user-id";
/// The header `CC` that the message was published with. Under its own name the broker would route every retry to it again.
pub const ORIGINAL_CC: &str = "x-original-cc";

/// On a redriven message: the exchange that the message was first published to. A redrive to the queue goes through the
/// default exchange, so the message itself does not tell any more when it dies again.
pub const FIRST_EXCHANGE: &str = "Lazaret-Original-Exchange";
/// On a redriven message: the routing key that the message was first published with.
pub const FIRST_ROUTING_KEY: &str = "Lazaret-Original-Routing-Key";

/// The headers that a worker adds while it retries and that a redrive removes.
pub const RETRY_HEADERS: [&str; 12] = [
    RETRY_COUNT,
    FIRST_ATTEMPT_TIMESTAMP,
    LAST_ATTEMPT_TIMESTAMP,
    ORIGINAL_EXCHANGE,
    ORIGINAL_ROUTING_KEY,
    ORIGINAL_QUEUE,
    ORIGINAL_CONTENT_TYPE,
    ORIGINAL_CONTENT_ENCODING,
    ORIGINAL_TIMESTAMP,
    ORIGINAL_EXPIRATION,
    ORIGINAL_USER_ID,
    ORIGINAL_CC,
];

/// The queue that workers publish receipts of redriven messages to, through the default exchange.
pub const RECEIPTS_QUEUE: &str = super::RECEIPTS_SUBJECT;

/// The first bytes of a dead-letter message as it is written here.
const BEGIN: &str = "{\"original_message\":";

/// What follows the original text in a dead-letter message as it is written here.
const AFTER_ORIGINAL: [&str; 2] = [",\"original_message_encoding\":", ",\"error_details\":{\"error_type\":"];

/// A message in a dead-letter queue: the original with its error.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DlqMessage {
    pub original: Bytes,
    pub error_type: String,
    pub error_message: String,
    pub stack_trace: Option<String>,
    pub retry_count: u32,
    pub first_attempt_at: Option<Time>,
    pub last_attempt_at: Option<Time>,
    /// JSON text; `null` where the original does not say.
    pub tenant_id: Option<String>,
    /// JSON text; `null` where the original does not say.
    pub internal_id: Option<String>,
    pub dlq_at: Option<Time>,
    pub service: String,
    pub service_version: String,
}

impl DlqMessage {
    /// The message for an original, with the ids that the original names (`tenantId`, `internalId`).
    pub fn new(original: Bytes) -> DlqMessage {
        let members = std::str::from_utf8(&original).ok().and_then(members);
        let id = |name: &str| members.as_ref()?.get(name).map(|raw| raw.get().to_owned());
        let (tenant_id, internal_id) = (id("tenantId"), id("internalId"));
        DlqMessage { original, tenant_id, internal_id, ..DlqMessage::default() }
    }

    /// The JSON text. Times are whole seconds. An original that is not JSON becomes a string, with
    /// `original_message_encoding` (`utf-8` or `base64`) beside it.
    pub fn to_json(&self) -> Vec<u8> {
        let (original, encoding) = match std::str::from_utf8(&self.original) {
            Ok(text) if serde_json::from_str::<&RawValue>(text).is_ok() => (Cow::Borrowed(text), None),
            Ok(text) => (Cow::Owned(Value::from(text).to_string()), Some("utf-8")),
            Err(_) => (Cow::Owned(Value::from(STANDARD.encode(&self.original)).to_string()), Some("base64")),
        };
        let encoding = encoding.map(|name| format!(",\"original_message_encoding\":\"{name}\""));
        let seconds = |at: Option<Time>| json!(at.map(|at| at.ms().div_euclid(1_000)));
        let text = |text: &str| Value::from(text);
        let id = |id: &Option<String>| id.clone().unwrap_or_else(|| "null".to_owned());
        // Written by hand: the order of the members is part of the format, and the original must not be parsed.
        format!(
            "{BEGIN}{original}{encoding},\"error_details\":{{\"error_type\":{},\"error_message\":{},\"stack_trace\":{},\
             \"retry_count\":{},\"first_attempt_timestamp\":{},\"last_attempt_timestamp\":{}}},\"metadata\":{{\
             \"tenant_id\":{},\"internal_id\":{},\"dlq_timestamp\":{},\"service\":{},\"service_version\":{}}}}}",
            text(&self.error_type),
            text(&self.error_message),
            json!(self.stack_trace),
            self.retry_count,
            seconds(self.first_attempt_at),
            seconds(self.last_attempt_at),
            id(&self.tenant_id),
            id(&self.internal_id),
            seconds(self.dlq_at),
            text(&self.service),
            text(&self.service_version),
            encoding = encoding.unwrap_or_default(),
        )
        .into_bytes()
    }

    /// Reads a dead-letter message, of this library or of another program that keeps to the format. Returns `None` for
    /// anything else: it needs `original_message` and `error_details`.
    pub fn parse(body: &[u8]) -> Option<DlqMessage> {
        let text = std::str::from_utf8(body).ok()?;
        let fields = members(text)?;
        let details = members(fields.get("error_details")?.get())?;
        let metadata = fields.get("metadata").and_then(|raw| members(raw.get())).unwrap_or_default();
        let encoding = fields.get("original_message_encoding").and_then(|raw| string(raw));
        let original = original(text, fields.get("original_message")?, encoding.as_deref())?;
        let text = |raw: Option<&&RawValue>| raw.and_then(|raw| string(raw)).unwrap_or_default();
        let id = |name: &str| metadata.get(name).map(|raw| raw.get()).filter(|it| *it != "null");
        Some(DlqMessage {
            original,
            error_type: text(details.get("error_type")),
            error_message: text(details.get("error_message")),
            stack_trace: details.get("stack_trace").and_then(|raw| string(raw)),
            retry_count: details.get("retry_count").and_then(|raw| raw.get().parse().ok()).unwrap_or(0),
            first_attempt_at: details.get("first_attempt_timestamp").and_then(|raw| time(raw)),
            last_attempt_at: details.get("last_attempt_timestamp").and_then(|raw| time(raw)),
            tenant_id: id("tenant_id").map(str::to_owned),
            internal_id: id("internal_id").map(str::to_owned),
            dlq_at: metadata.get("dlq_timestamp").and_then(|raw| time(raw)),
            service: text(metadata.get("service")),
            service_version: text(metadata.get("service_version")),
        })
    }
}

type Members<'a> = std::collections::HashMap<Cow<'a, str>, &'a RawValue>;

/// The members of a JSON object; of a repeated name the last, as JavaScript reads it.
fn members(text: &str) -> Option<Members<'_>> {
    serde_json::from_str(text).ok()
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// Whole seconds; programs that write fractions are understood too.
fn time(raw: &RawValue) -> Option<Time> {
    let seconds: f64 = raw.get().parse().ok()?;
    let ms = seconds * 1_000.0;
    (ms.abs() < 9e15).then(|| Time::from_ms(ms as i64))
}

fn original(text: &str, raw: &RawValue, encoding: Option<&str>) -> Option<Bytes> {
    match encoding {
        Some("base64") => STANDARD.decode(string(raw)?).ok().map(Bytes::from),
        Some(_) => string(raw).map(Bytes::from),
        None => Some(Bytes::copy_from_slice(with_white_space(text, raw).as_bytes())),
    }
}

/// The original with the white space around it, which a JSON reader drops. A program that puts white space of its own around
/// the original also puts it elsewhere.
fn with_white_space<'a>(text: &'a str, raw: &'a RawValue) -> &'a str {
    let Some(rest) = text.strip_prefix(BEGIN) else { return raw.get() };
    let leading = rest.len() - rest.trim_start().len();
    let Some(after) = rest.get(leading + raw.get().len()..) else { return raw.get() };
    let trailing = after.len() - after.trim_start().len();
    let is_ours = AFTER_ORIGINAL.iter().any(|next| after.trim_start().starts_with(next));
    let is_here = rest.get(leading..).is_some_and(|rest| rest.starts_with(raw.get()));
    match is_ours && is_here {
        true => rest.get(..leading + raw.get().len() + trailing).unwrap_or(raw.get()),
        false => raw.get(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{collection, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn message(original: &'static [u8]) -> DlqMessage {
        DlqMessage {
            error_type: "TimeoutError".into(),
            error_message: "no answer \"in time\"".into(),
            stack_trace: Some("at send (a.ts:1)".into()),
            retry_count: 3,
            first_attempt_at: Some(Time::from_ms(1_700_000_000_999)),
            last_attempt_at: Some(Time::from_ms(1_700_000_014_000)),
            dlq_at: Some(Time::from_ms(1_700_000_014_500)),
            service: "outbound-transformer".into(),
            service_version: "1.0.0".into(),
            ..DlqMessage::new(Bytes::from_static(original))
        }
    }

    fn json(original: &'static [u8]) -> String {
        String::from_utf8(message(original).to_json()).unwrap()
    }

    #[test]
    fn the_format_is_that_of_the_requirement() {
        assert_eq!(
            json(br#"{"tenantId": "t-1", "internalId": 7, "amount": 1.50}"#),
            "{\"original_message\":{\"tenantId\": \"t-1\", \"internalId\": 7, \"amount\": 1.50},\"error_details\":\
             {\"error_type\":\"TimeoutError\",\"error_message\":\"no answer \\\"in time\\\"\",\"stack_trace\":\
             \"at send (a.ts:1)\",\"retry_count\":3,\"first_attempt_timestamp\":1700000000,\
             \"last_attempt_timestamp\":1700000014},\"metadata\":{\"tenant_id\":\"t-1\",\"internal_id\":7,\
             \"dlq_timestamp\":1700000014,\"service\":\"outbound-transformer\",\"service_version\":\"1.0.0\"}}"
        );
        let missing = json(b"[1]");
        assert!(missing.contains("\"tenant_id\":null,\"internal_id\":null,"), "{missing}");
    }

    #[test]
    fn what_is_not_json_is_a_string_with_its_encoding() {
        let text = json(b"hello");
        assert!(
            text.starts_with(r#"{"original_message":"hello","original_message_encoding":"utf-8","#),
            "{text}"
        );
        let binary = json(&[0xff, 0]);
        assert!(binary.contains(r#":"/wA=","original_message_encoding":"base64""#), "{binary}");
    }

    #[test]
    fn white_space_of_other_programs_is_not_part_of_the_original() {
        for text in [
            r#"{"original_message": {"a": 1}, "error_details": {"error_type": "E", "retry_count": 2}}"#,
            "{\n  \"original_message\": {\"a\": 1},\n  \"error_details\": {\"error_type\": \"E\", \"retry_count\": 2}\n}",
            r#"{"error_details":{"error_type":"E","retry_count":2},"original_message":{"a": 1} }"#,
        ] {
            let read = DlqMessage::parse(text.as_bytes()).unwrap();
            assert_eq!((&read.original[..], read.retry_count), (&br#"{"a": 1}"#[..], 2), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_dead_letter_message() {
        for text in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"original_message":1}"#,
            r#"{"original_message":1,"error_details":2}"#,
        ] {
            assert_eq!(DlqMessage::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(DlqMessage::parse(&[0xff]), None);
        let bad = r#"{"original_message":"%","original_message_encoding":"base64","error_details":{}}"#;
        assert_eq!(DlqMessage::parse(bad.as_bytes()), None);
    }

    fn originals() -> impl Strategy<Value = Vec<u8>> {
        let json = prop_oneof![
            Just("{\"a\":{\"original_message\":1},\"tenantId\":\"t\"}"),
            Just("[1e400, -0, 1.50]"),
            Just("\"x\""),
            Just("null"),
        ];
        let spaced = ("[ \\n\\t]{0,3}", json, "[ \\r\\n]{0,3}")
            .prop_map(|(a, b, c)| format!("{a}{b}{c}").into_bytes());
        prop_oneof![spaced, any::<String>().prop_map(String::into_bytes), collection::vec(any::<u8>(), 0..40)]
    }

    proptest! {
        #[test]
        fn every_original_comes_out_as_it_went_in(original in originals(), error in any::<String>()) {
            let put = DlqMessage { error_message: error, ..DlqMessage::new(original.into()) };
            let got = DlqMessage::parse(&put.to_json()).unwrap();
            prop_assert_eq!(got.original, put.original);
            prop_assert_eq!(got.error_message, put.error_message);
        }
    }
}
