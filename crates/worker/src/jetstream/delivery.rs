//! One delivery of a message, as a handler sees it. Cannot be acknowledged: the worker does that.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use lazaret_core::broker;

/// One delivery of a message. Cloning it copies nothing.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(super) message: Arc<async_nats::Message>,
    pub(super) sequence: u64,
    pub(super) number: u32,
}

impl Delivery {
    pub fn subject(&self) -> &str {
        self.message.subject.as_str()
    }

    pub fn payload(&self) -> &Bytes {
        &self.message.payload
    }

    pub fn headers(&self) -> Option<&HeaderMap> {
        self.message.headers.as_ref()
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers()?.get(name).map(|value| value.as_str())
    }

    /// The message's sequence in its stream.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How often the message was delivered by now, this time included.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What to deduplicate by if the message was redriven. A redrive whose outcome was not known is repeated with the same key.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.header(broker::IDEMPOTENCY_KEY)
    }
}
