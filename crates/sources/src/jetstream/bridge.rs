//! The bridge copies messages that advisories name to the dead-letter stream.
//!
//! It fetches the message by sequence, publishes the copy and acknowledges the advisory, in this order. After a crash the advisory
//! is delivered again, and the dead-letter stream deduplicates the copy by its message id. All instances share one durable
//! consumer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use lazaret_core::attempt::LetterError;
use lazaret_core::broker::{self, BrokerDeath, DeathReason, StreamOrigin};
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::Value;

use super::JetStream;
use super::api::StoredMessage;
use super::letter::copy_headers;
use super::publish::{PublishError, Stored};
use super::pull::Delivered;
use super::topology::{MAX_DELIVERIES, MSG_TERMINATED};
use crate::connection::{locked, now};
use crate::{Duty, SourceError};

const BRIDGING: &str = "copying a message to the dead-letter stream";

/// Named failure points, for tests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BridgePoint {
    /// The advisory was pulled.
    Pulled,
    /// The message was fetched; nothing is published yet.
    Fetched,
    /// The copy is in the dead-letter stream; the advisory is not acknowledged yet.
    Published,
}

impl BridgePoint {
    pub const ALL: [BridgePoint; 3] = [BridgePoint::Pulled, BridgePoint::Fetched, BridgePoint::Published];

    pub const fn name(self) -> &'static str {
        match self {
            BridgePoint::Pulled => "pulled",
            BridgePoint::Fetched => "fetched",
            BridgePoint::Published => "published",
        }
    }
}

/// Copies exhausted and terminated messages to the dead-letter stream.
pub struct Bridge {
    jetstream: Arc<JetStream>,
    stop_at: Mutex<Option<BridgePoint>>,
    bridged: AtomicU64,
    without_body: AtomicU64,
    duplicates: AtomicU64,
    ignored: AtomicU64,
    parked: AtomicU64,
    failed: AtomicU64,
    lag_ms: AtomicU64,
}

/// A max-deliveries or terminated advisory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Advisory {
    kind: AdvisoryKind,
    stream: String,
    consumer: String,
    sequence: u64,
    deliveries: Option<u64>,
    at: Option<Time>,
    reason: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AdvisoryKind {
    MaxDeliveries,
    Terminated,
}

/// The result of processing an advisory.
enum Bridged {
    Copied(Stored),
    WithoutBody(Stored),
    /// The advisory is about a stream of ours.
    Ignored,
}

impl Bridge {
    pub fn new(jetstream: Arc<JetStream>) -> Bridge {
        Bridge {
            jetstream,
            stop_at: Mutex::default(),
            bridged: AtomicU64::new(0),
            without_body: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            lag_ms: AtomicU64::new(0),
        }
    }

    /// Fails once at this point, as a crash would.
    #[cfg(feature = "testing")]
    pub fn stop_at(&self, point: BridgePoint) {
        *locked(&self.stop_at) = Some(point);
    }

    fn pass(&self, point: BridgePoint) -> Result<(), SourceError> {
        let mut stop_at = locked(&self.stop_at);
        match *stop_at == Some(point) {
            true => {
                *stop_at = None;
                Err(SourceError::Stopped(point.name()))
            }
            false => Ok(()),
        }
    }

    async fn process(&self, delivered: &Delivered) -> Result<(), SourceError> {
        self.pass(BridgePoint::Pulled)?;
        let advisory = match Advisory::parse(&delivered.message.subject, &delivered.message.payload) {
            Ok(advisory) => advisory,
            Err(why) => return self.park(delivered, why).await,
        };
        match self.bridge(&advisory).await {
            Ok(bridged) => {
                self.pass(BridgePoint::Published)?;
                self.jetstream.link.double_ack(&delivered.ack.subject).await?;
                self.count(&bridged);
                Ok(())
            }
            Err(error @ SourceError::Stopped(_)) => Err(error),
            Err(error) => self.retry_later(delivered, error).await,
        }
    }

    async fn bridge(&self, advisory: &Advisory) -> Result<Bridged, SourceError> {
        let config = &self.jetstream.config;
        let ours = [&config.dlq_stream, &config.advisory_stream, &config.metrics_stream];
        if ours.contains(&&advisory.stream) {
            return Ok(Bridged::Ignored);
        }
        let info = self.jetstream.stream(&advisory.stream).await?;
        let message = self.jetstream.link.message(&advisory.stream, advisory.sequence).await?;
        // A stream that was deleted and created again may have another message at this sequence. The clocks of cluster nodes
        // may differ.
        let is_later = |message: &StoredMessage| {
            advisory.at.is_some_and(|at| message.time.since(at) > limits::CLOCK_OFF_MS_MAX)
        };
        let message = message.filter(|message| !is_later(message));
        self.pass(BridgePoint::Fetched)?;
        let created = info.and_then(|info| info.created()).unwrap_or_default();
        let death = advisory.death(created, message.as_ref());
        let subject = broker::dead_letter_subject(&advisory.stream, &advisory.consumer);
        let without_body = async |why: &str| {
            let headers = copy_headers(&death, None, Some(why));
            let stored = self.jetstream.link.publish(&subject, headers, Bytes::new()).await;
            stored.map(Bridged::WithoutBody).map_err(|error| error.into_source_error(BRIDGING))
        };
        let Some(message) = &message else { return without_body(advisory.kind.missing_body_reason()).await };
        let headers = copy_headers(&death, Some(message), None);
        match self.jetstream.link.publish(&subject, headers, message.body.clone()).await {
            Ok(stored) => Ok(Bridged::Copied(stored)),
            // The original is just below the limit, and exceeds it with our headers.
            Err(PublishError::TooLarge) => {
                let (stream, sequence) = (&advisory.stream, advisory.sequence);
                without_body(&format!(
                    "too large to copy with its history; stored in stream {stream} at sequence {sequence}"
                ))
                .await
            }
            Err(error) => Err(error.into_source_error(BRIDGING)),
        }
    }

    fn count(&self, bridged: &Bridged) {
        let (counter, stored) = match bridged {
            Bridged::Copied(stored) => (&self.bridged, Some(stored)),
            Bridged::WithoutBody(stored) => (&self.without_body, Some(stored)),
            Bridged::Ignored => (&self.ignored, None),
        };
        let counter = if stored.is_some_and(|it| it.is_duplicate) { &self.duplicates } else { counter };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Schedules a redelivery of the advisory. One that failed too often becomes a dead letter itself.
    async fn retry_later(&self, delivered: &Delivered, error: SourceError) -> Result<(), SourceError> {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let deliveries = delivered.ack.deliveries;
        if !error.passes() && deliveries >= limits::JETSTREAM_ADVISORY_DELIVERIES_MAX {
            return self.park(delivered, error.to_string()).await;
        }
        tracing::warn!(
            source = self.jetstream.config.name,
            "advisory {} cannot be bridged, delivery {deliveries}: {error}",
            delivered.message.subject
        );
        self.jetstream.link.nak(&delivered.ack.subject, delivered.ack.redelivery_delay()).await?;
        if error.passes() { Err(error) } else { Ok(()) }
    }

    /// Publishes an advisory that cannot be bridged to the dead-letter stream, unchanged.
    async fn park(&self, delivered: &Delivered, why: String) -> Result<(), SourceError> {
        let config = &self.jetstream.config;
        tracing::error!(
            source = config.name,
            "advisory {} is kept as a dead letter: {why}",
            delivered.message.subject
        );
        let created = self.jetstream.stream(&config.advisory_stream).await?.and_then(|info| info.created());
        let origin = StreamOrigin {
            stream: config.advisory_stream.clone(),
            stream_created: created.unwrap_or_default(),
            sequence: delivered.ack.stream_sequence,
            consumer: config.bridge_durable(),
        };
        let subject = origin.dead_letter_subject();
        let death = BrokerDeath {
            origin: Some(origin),
            original_subject: Some(delivered.message.subject.to_string()),
            published_at: Some(delivered.ack.time),
            deliveries: Some(delivered.ack.deliveries),
            reason: Some(DeathReason::Permanent),
            error: Some(error("AdvisoryNotBridged", why)),
            ..BrokerDeath::default()
        };
        let headers = copy_headers(&death, None, None);
        let stored = self.jetstream.link.publish(&subject, headers, delivered.message.payload.clone()).await;
        stored.map_err(|error| error.into_source_error(BRIDGING))?;
        self.jetstream.link.double_ack(&delivered.ack.subject).await?;
        self.parked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn error(error_type: &str, message: String) -> LetterError {
    LetterError { error_type: error_type.to_owned(), message, ..LetterError::default() }
}

#[async_trait]
impl Duty for Bridge {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn is_leader_only(&self) -> bool {
        false
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        let config = &self.jetstream.config;
        let wait = Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
        let durable = config.bridge_durable();
        let pull =
            self.jetstream.link.pull(&config.advisory_stream, &durable, limits::JETSTREAM_MESSAGES_MAX, wait);
        let advisories = pull.await?;
        let oldest = advisories.iter().map(|it| now().since(it.ack.time)).max();
        self.lag_ms.store(oldest.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0), Ordering::Relaxed);
        let work: Vec<_> = advisories.iter().map(|advisory| self.process(advisory)).collect();
        let mut results = stream::iter(work).buffer_unordered(limits::JETSTREAM_BRIDGE_CONCURRENCY);
        let mut first_error = None;
        while let Some(result) = results.next().await {
            first_error = first_error.or(result.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("bridged", &self.bridged),
            ("without_body", &self.without_body),
            ("duplicates", &self.duplicates),
            ("ignored", &self.ignored),
            ("parked", &self.parked),
            ("failed", &self.failed),
            ("lag_ms", &self.lag_ms),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
        .into()
    }
}

impl Advisory {
    fn parse(subject: &str, body: &[u8]) -> Result<Advisory, String> {
        let kind = match subject {
            subject if subject.starts_with(MAX_DELIVERIES) => AdvisoryKind::MaxDeliveries,
            subject if subject.starts_with(MSG_TERMINATED) => AdvisoryKind::Terminated,
            other => return Err(format!("{other} is not a max-deliveries or terminated advisory")),
        };
        let value: Value = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        let name = |key: &str| {
            let name = value.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
            name.map(str::to_owned).ok_or_else(|| format!("no {key} in the advisory"))
        };
        Ok(Advisory {
            kind,
            stream: name("stream")?,
            consumer: name("consumer")?,
            sequence: value
                .get("stream_seq")
                .and_then(Value::as_u64)
                .ok_or("no stream_seq in the advisory")?,
            deliveries: value.get("deliveries").and_then(Value::as_u64),
            at: value.get("timestamp").and_then(Value::as_str).and_then(|at| Time::parse(at).ok()),
            reason: name("reason").ok(),
        })
    }

    /// Describes the death for the headers of the copy.
    fn death(&self, stream_created: Time, message: Option<&StoredMessage>) -> BrokerDeath {
        let place = format!("{}.{}", self.stream, self.consumer);
        let (reason, error_type, text) = match (self.kind, &self.reason) {
            (AdvisoryKind::MaxDeliveries, _) => {
                let times = self.deliveries.map_or("too often".to_owned(), |n| format!("{n} times"));
                let text = format!(
                    "delivered {times} to {place} and not acknowledged; the last delivery may have completed since"
                );
                (DeathReason::MaxDeliveries, "MaxDeliveriesExceeded", text)
            }
            (AdvisoryKind::Terminated, Some(reason)) => {
                (DeathReason::Terminated, "MessageTerminated", reason.clone())
            }
            (AdvisoryKind::Terminated, None) => {
                let text = format!("a worker of {place} terminated it without a reason");
                (DeathReason::Terminated, "MessageTerminated", text)
            }
        };
        BrokerDeath {
            origin: Some(StreamOrigin {
                stream: self.stream.clone(),
                stream_created,
                sequence: self.sequence,
                consumer: self.consumer.clone(),
            }),
            original_subject: message.map(|message| message.subject.clone()),
            published_at: message.map(|message| message.time),
            deliveries: self.deliveries,
            reason: Some(reason),
            error: Some(error(error_type, text)),
            last_attempt_at: self.at,
            ..BrokerDeath::default()
        }
    }
}

impl AdvisoryKind {
    /// Explains why the message has no body.
    fn missing_body_reason(self) -> &'static str {
        match self {
            AdvisoryKind::Terminated => "removed from its stream when it was terminated",
            AdvisoryKind::MaxDeliveries => "removed from its stream before it could be copied",
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("source", &self.jetstream.config.name).finish_non_exhaustive()
    }
}
