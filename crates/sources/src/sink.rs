//! Where a relay delivers to. HTTP now, brokers later.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::time::Time;

/// One event on its way to those who wait for it. It may come again: at least once, under the same key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The id of the event's row: what the receiver recognises a repetition by.
    pub idempotency_key: String,
    pub event_type: String,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    pub schema_version: Option<String>,
    pub tenant: Option<String>,
    /// Which try this is, counted from 1.
    pub attempt: u32,
    pub created_at: Option<Time>,
    pub content_type: &'static str,
    pub body: Bytes,
}

/// What became of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sunk {
    Delivered,
    /// It failed, or nobody knows: it counts as a try, and what it failed with decides whether there is another.
    Failed(Box<LetterError>),
    /// Nothing was tried, because too much was under way already: it does not count.
    Unsent,
}

#[async_trait]
pub trait Sink: fmt::Debug + Send + Sync {
    /// The name that it is configured under.
    fn name(&self) -> &str;

    /// The address as people know it, without credentials.
    fn address(&self) -> String;

    /// Delivers once. Must not retry by itself.
    async fn deliver(&self, delivery: &Delivery) -> Sunk;
}
