//! One delivery of a message, as a handler sees it. Cannot be acknowledged: the worker does that.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lazaret_core::broker;
use lazaret_core::broker::rabbitmq::{ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, RETRY_COUNT};

/// One delivery of a message. Cloning it copies nothing.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Received>);

#[derive(Debug)]
struct Received {
    body: Bytes,
    properties: BasicProperties,
    exchange: ShortString,
    routing_key: ShortString,
    is_redelivered: bool,
}

impl Delivery {
    pub(super) fn new(delivery: lapin::message::Delivery) -> Delivery {
        Delivery(Arc::new(Received {
            body: Bytes::from(delivery.data),
            properties: delivery.properties,
            exchange: delivery.exchange,
            routing_key: delivery.routing_key,
            is_redelivered: delivery.redelivered,
        }))
    }

    pub fn body(&self) -> &Bytes {
        &self.0.body
    }

    /// The properties as they came in; of a retried message the delivery mode is persistent and the expiration is a header.
    pub fn properties(&self) -> &BasicProperties {
        &self.0.properties
    }

    pub fn headers(&self) -> Option<&FieldTable> {
        self.0.properties.headers().as_ref()
    }

    pub fn header(&self, name: &str) -> Option<&AMQPValue> {
        self.headers()?.inner().get(name)
    }

    /// The text of a header that is text or a whole number.
    pub fn header_text(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.header(name)?)
    }

    pub fn message_id(&self) -> Option<&str> {
        self.0.properties.message_id().as_ref().map(ShortString::as_str)
    }

    /// The exchange that the message was first published to; empty for the default exchange.
    pub fn exchange(&self) -> Cow<'_, str> {
        self.header_text(ORIGINAL_EXCHANGE).unwrap_or(Cow::Borrowed(self.0.exchange.as_str()))
    }

    /// The routing key that the message was first published with.
    pub fn routing_key(&self) -> Cow<'_, str> {
        self.header_text(ORIGINAL_ROUTING_KEY).unwrap_or(Cow::Borrowed(self.0.routing_key.as_str()))
    }

    /// How often the message was retried by now: 0 for the first attempt.
    pub fn retry_count(&self) -> u32 {
        let count = self.header_text(RETRY_COUNT).and_then(|count| count.parse().ok());
        // The number of the attempt is one more.
        count.unwrap_or(0).min(u32::MAX - 1)
    }

    /// Returns true if the broker has delivered this message before and got no answer. Its work may have been done.
    pub fn is_redelivered(&self) -> bool {
        self.0.is_redelivered
    }

    /// What to deduplicate by if the message was redriven. A redrive whose outcome was not known is repeated with the same key.
    pub fn idempotency_key(&self) -> Option<Cow<'_, str>> {
        self.header_text(broker::IDEMPOTENCY_KEY)
    }
}

/// The text of a value that is text or a whole number.
pub(super) fn text(value: &AMQPValue) -> Option<Cow<'_, str>> {
    Some(match value {
        AMQPValue::LongString(text) => Cow::Borrowed(std::str::from_utf8(text.as_bytes()).ok()?),
        AMQPValue::ShortString(text) => Cow::Borrowed(text.as_str()),
        AMQPValue::ShortShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongLongInt(value) => Cow::Owned(value.to_string()),
        _ => return None,
    })
}
