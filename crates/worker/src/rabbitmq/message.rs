//! The messages that a worker publishes: the retry of a message, and its dead letter. Both carry what the application published,
//! the attempts so far and where the message came from.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lazaret_core::attempt::Attempt;
use lazaret_core::broker::rabbitmq::{self as names, DlqMessage};
use lazaret_core::broker::{ATTEMPTS, attempts_from_json, attempts_to_json};
use lazaret_core::time::Time;

use super::delivery::{Delivery, text};
use super::topology::Topology;

/// Written to disk by the broker.
pub(crate) const PERSISTENT: u8 = 2;

/// Bytes of a message's properties and headers, which have to fit into one frame: 128 KiB unless the broker is set up otherwise.
/// The rest is for the properties and for the headers that are always there.
const HEADER_BYTES_MAX: usize = 120 * 1_024;

/// Bytes of the attempts that travel with a message.
const ATTEMPTS_BYTES_MAX: usize = 32 * 1_024;

/// A header that the broker adds on delivery.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// A header by which a publisher has a message routed to more keys.
const CC: &str = "CC";
const DEATHS: &str = "x-death";
/// The broker's summaries of the first and of the last death, and the header that tells whose they are.
const DEATH_SUMMARIES: [(&str, &str); 2] =
    [("x-first-death-", "x-first-death-queue"), ("x-last-death-", "x-last-death-queue")];

/// Who publishes a dead letter.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// The attempts of a message, the last one included.
#[derive(Debug)]
pub(crate) struct History {
    first_at: Time,
    last_at: Time,
    attempts: Vec<Attempt>,
}

impl History {
    /// What the message's headers tell, and the attempt that has just failed.
    pub(crate) fn new(delivery: &Delivery, last: Attempt, last_at: Time) -> History {
        let first = delivery.header_text(names::FIRST_ATTEMPT_TIMESTAMP);
        let first_ms = first.and_then(|text| text.parse::<i64>().ok()?.checked_mul(1_000));
        let mut attempts =
            delivery.header_text(ATTEMPTS).map(|text| attempts_from_json(&text)).unwrap_or_default();
        attempts.push(last);
        History { first_at: first_ms.map_or(last_at, Time::from_ms), last_at, attempts }
    }
}

/// The properties of a message's next retry; its body is the message's own.
pub(crate) fn retry(delivery: &Delivery, history: &History, topology: &Topology) -> BasicProperties {
    let retry_count = delivery.retry_count().saturating_add(1);
    let headers = headers(delivery, history, topology, retry_count);
    let from = delivery.properties();
    let to = with_text(from.content_type(), copied(from), BasicProperties::with_content_type);
    let to = with_text(from.content_encoding(), to, BasicProperties::with_content_encoding);
    let to = match from.timestamp() {
        Some(timestamp) => to.with_timestamp(*timestamp),
        None => to,
    };
    finish(to, headers, history)
}

/// The dead letter of a message: its properties and its body.
pub(crate) fn dead_letter(
    delivery: &Delivery,
    history: &History,
    topology: &Topology,
    service: &Service,
    died_at: Time,
) -> (BasicProperties, Vec<u8>) {
    let error = history.attempts.last().map(|last| last.error.clone()).unwrap_or_default();
    let body = DlqMessage {
        error_type: error.error_type,
        error_message: error.message,
        stack_trace: error.backtrace,
        retry_count: delivery.retry_count(),
        first_attempt_at: Some(history.first_at),
        last_attempt_at: Some(history.last_at),
        dlq_at: Some(died_at),
        service: service.name.clone(),
        service_version: service.version.clone(),
        ..DlqMessage::new(delivery.body().clone())
    };
    let from = delivery.properties();
    let mut headers = headers(delivery, history, topology, delivery.retry_count());
    let mut set = |name: &'static str, value: Option<AMQPValue>| {
        if let Some(value) = value {
            headers.insert(name.into(), value);
        }
    };
    let short = |value: &Option<ShortString>| value.as_ref().map(|value| long_string(value.as_str()));
    set(names::ORIGINAL_QUEUE, Some(long_string(topology.work_queue().as_str())));
    set(names::ORIGINAL_CONTENT_TYPE, short(from.content_type()));
    set(names::ORIGINAL_CONTENT_ENCODING, short(from.content_encoding()));
    set(names::ORIGINAL_TIMESTAMP, from.timestamp().map(AMQPValue::Timestamp));
    let seconds = u64::try_from(died_at.ms().div_euclid(1_000)).unwrap_or(0);
    let to = copied(from).with_content_type("application/json".into()).with_timestamp(seconds);
    (finish(to, headers, history), body.to_json())
}

/// The properties that stay as they are; the expiration would cut a delay short, and the user is another one.
fn copied(from: &BasicProperties) -> BasicProperties {
    let to = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let to = with_text(from.correlation_id(), to, BasicProperties::with_correlation_id);
    let to = with_text(from.reply_to(), to, BasicProperties::with_reply_to);
    let to = with_text(from.message_id(), to, BasicProperties::with_message_id);
    let to = with_text(from.kind(), to, BasicProperties::with_type);
    let to = with_text(from.app_id(), to, BasicProperties::with_app_id);
    let to = with_text(from.cluster_id(), to, BasicProperties::with_cluster_id);
    match from.priority() {
        Some(priority) => to.with_priority(*priority),
        None => to,
    }
}

fn with_text(
    value: &Option<ShortString>,
    to: BasicProperties,
    set: impl Fn(BasicProperties, ShortString) -> BasicProperties,
) -> BasicProperties {
    match value {
        Some(value) => set(to, value.clone()),
        None => to,
    }
}

/// The message's headers without what the broker added on the way, and behind them those of its retries.
fn headers(
    delivery: &Delivery,
    history: &History,
    topology: &Topology,
    retry_count: u32,
) -> BTreeMap<ShortString, AMQPValue> {
    let mut headers = BTreeMap::new();
    let is_ours =
        |name: &str| delivery.header_text(name).is_some_and(|queue| topology.is_delay_queue(&queue));
    for (name, value) in delivery.headers().into_iter().flatten() {
        let summary = DEATH_SUMMARIES.iter().find(|(prefix, _)| name.as_str().starts_with(prefix));
        let kept = match name.as_str() {
            DELIVERY_COUNT => None,
            CC => Some((names::ORIGINAL_CC.into(), value.clone())),
            DEATHS => foreign_deaths(value, topology).map(|deaths| (name.clone(), deaths)),
            _ if summary.is_some_and(|(_, queue)| is_ours(queue)) => None,
            _ => Some((name.clone(), value.clone())),
        };
        headers.extend(kept);
    }
    let is_first = !headers.contains_key(names::ORIGINAL_EXCHANGE);
    let mut set = |name: &'static str, value: AMQPValue| {
        headers.insert(name.into(), value);
    };
    if is_first {
        set(names::ORIGINAL_EXCHANGE, long_string(&delivery.exchange()));
        set(names::ORIGINAL_ROUTING_KEY, long_string(&delivery.routing_key()));
        let from = delivery.properties();
        for (name, value) in
            [(names::ORIGINAL_EXPIRATION, from.expiration()), (names::ORIGINAL_USER_ID, from.user_id())]
        {
            if let Some(value) = value {
                set(name, long_string(value.as_str()));
            }
        }
    }
    let seconds = |at: Time| AMQPValue::LongLongInt(at.ms().div_euclid(1_000));
    set(names::RETRY_COUNT, AMQPValue::LongInt(i32::try_from(retry_count).unwrap_or(i32::MAX)));
    set(names::FIRST_ATTEMPT_TIMESTAMP, seconds(history.first_at));
    set(names::LAST_ATTEMPT_TIMESTAMP, seconds(history.last_at));
    headers
}

/// Adds the attempts, as many as there is room for.
fn finish(
    to: BasicProperties,
    mut headers: BTreeMap<ShortString, AMQPValue>,
    history: &History,
) -> BasicProperties {
    headers.remove(ATTEMPTS);
    let used: usize = headers.iter().map(|(name, value)| entry_bytes(name, value)).sum();
    let room = HEADER_BYTES_MAX.saturating_sub(used).min(ATTEMPTS_BYTES_MAX);
    if let Some(attempts) = attempts_to_json(&history.attempts, room) {
        headers.insert(ATTEMPTS.into(), long_string(&attempts));
    }
    to.with_headers(FieldTable::from(headers))
}

/// The deaths in other queues than the delay queues. With ours among them the broker would find that the message goes round in
/// circles.
fn foreign_deaths(value: &AMQPValue, topology: &Topology) -> Option<AMQPValue> {
    let AMQPValue::FieldArray(deaths) = value else { return Some(value.clone()) };
    let is_ours = |death: &AMQPValue| match death {
        AMQPValue::FieldTable(death) => {
            let queue = death.inner().get("queue").and_then(text);
            queue.is_some_and(|queue| topology.is_delay_queue(&queue))
        }
        _ => false,
    };
    let kept: Vec<AMQPValue> = deaths.as_slice().iter().filter(|death| !is_ours(death)).cloned().collect();
    (!kept.is_empty()).then(|| AMQPValue::FieldArray(FieldArray::from(kept)))
}

fn long_string(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// The bytes of a header on the wire.
fn entry_bytes(name: &ShortString, value: &AMQPValue) -> usize {
    1 + name.as_str().len() + value_bytes(value)
}

fn value_bytes(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.len(),
        AMQPValue::FieldArray(values) => 4 + values.as_slice().iter().map(value_bytes).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            4 + table.into_iter().map(|(name, value)| entry_bytes(name, value)).sum::<usize>()
        }
    }
}
