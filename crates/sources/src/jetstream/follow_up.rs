//! The follow-up of exhausted messages whose letters are stored: an acknowledgement that comes late resolves the letter, and an
//! original that another consumer needs is deleted once that has finished.
//!
//! Which messages are not done is kept by a durable consumer of the dead-letter stream, so another instance or a later process
//! takes over. Nothing is deleted before capture has acknowledged the copy.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use lazaret_core::broker::{self, Receipt, StreamOrigin};
use lazaret_core::letter::Captured;
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;

use super::JetStream;
use super::exhausted::{Deletion, Exhausted};
use super::letter::KnownOrigin;
use super::publish::append;
use super::pull::{AckSubject, Delivered};
use super::receipts::origin_of;
use super::topology::ACK;
use crate::connection::now;
use crate::{Duty, SourceError};

/// Follows exhausted messages up.
pub struct FollowUp {
    jetstream: Arc<JetStream>,
    following: AtomicU64,
    late_acks: AtomicU64,
}

impl FollowUp {
    pub fn new(jetstream: Arc<JetStream>) -> FollowUp {
        FollowUp { jetstream, following: AtomicU64::new(0), late_acks: AtomicU64::new(0) }
    }

    /// Returns true if nothing is left to do for a dead letter. Capture has stored those up to `captured_to`.
    async fn is_done(&self, copy: &Delivered, captured_to: u64) -> Result<bool, SourceError> {
        let config = &self.jetstream.config;
        let (dead, origin) = self.jetstream.dead_letter(copy).await?;
        if !dead.is_exhausted() {
            return Ok(true);
        }
        if copy.ack.stream_sequence > captured_to {
            return Ok(false);
        }
        let original = Exhausted::from_dead_letter(&dead, &origin).filter(|_| config.delete_exhausted);
        let deletion = match &original {
            Some(original) => self.jetstream.delete_exhausted(original).await?,
            None => Deletion::NotNeeded,
        };
        let is_settled = self.is_settled(&dead.captured(config, &origin), &origin).await?;
        Ok(is_settled && deletion != Deletion::Wait)
    }

    /// Returns true if no late acknowledgement is waited for any more. One that is found is handed on as a receipt.
    async fn is_settled(&self, captured: &Captured, origin: &KnownOrigin) -> Result<bool, SourceError> {
        let Some(origin) = origin.complete() else { return Ok(true) };
        let watched = self.jetstream.config.watched(&origin.stream, &origin.consumer);
        if watched.is_none_or(|it| it.max_deliver == 1) {
            return Ok(true);
        }
        let Some(at) = self.jetstream.late_ack(&origin, published_at(captured)).await? else {
            let age_ms = captured.died_at.map_or(i64::MAX, |at| now().since(at));
            return Ok(age_ms > limits::JETSTREAM_LATE_ACK_MS);
        };
        // A redriven message is captured under the id of the first one.
        let origin = origin_of(&captured.message_id, &origin.consumer).unwrap_or(origin);
        let receipt = Receipt::Late(origin);
        let mut headers = HeaderMap::new();
        append(&mut headers, broker::MESSAGE_ID, &receipt.message_id());
        let sent =
            self.jetstream.link.publish(broker::RECEIPTS_SUBJECT, headers, receipt.json(at).into()).await;
        sent.map_err(|error| error.into_source_error("publishing the receipt of a late acknowledgement"))?;
        self.late_acks.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

impl JetStream {
    /// When a worker acknowledged the last delivery of a message that the server gave up. The server itself tells nobody: it
    /// publishes no metric, and the ack floor does not depend on it.
    async fn late_ack(
        &self,
        origin: &StreamOrigin,
        published_at: Option<Time>,
    ) -> Result<Option<Time>, SourceError> {
        let StreamOrigin { stream, consumer, sequence, .. } = origin;
        let subject = format!("{ACK}.{stream}.{consumer}.*.{sequence}.>");
        let Some(ack) = self.link.last_message(&self.config.metrics_stream, &subject).await? else {
            return Ok(None);
        };
        // A stream that was created again counts its sequences anew.
        let is_same = AckSubject::parse(&ack.subject).is_some_and(|of| match published_at {
            Some(published_at) => of.time == published_at,
            None => of.time >= origin.stream_created,
        });
        Ok((is_same && is_success(&ack.body)).then_some(ack.time))
    }
}

fn published_at(captured: &Captured) -> Option<Time> {
    let Some(Origin::JetStream(origin)) = captured.envelope.origin() else { return None };
    Time::parse(origin.published_at.as_deref()?).ok()
}

/// Returns true if an acknowledgement says that the work is done: `+ACK`, an empty one, or `+NXT`, which also asks for the next
/// message.
fn is_success(body: &[u8]) -> bool {
    body.is_empty() || body == b"+ACK" || body == b"+OK" || body.starts_with(b"+NXT")
}

#[async_trait]
impl Duty for FollowUp {
    fn name(&self) -> &'static str {
        "follow_up"
    }

    fn is_leader_only(&self) -> bool {
        false
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        let (config, link) = (&self.jetstream.config, &self.jetstream.link);
        let (dlq, durable) = (&config.dlq_stream, config.follow_up_durable());
        let wait = Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
        let copies = link.pull(dlq, &durable, limits::JETSTREAM_MESSAGES_MAX, wait).await?;
        let captured_to =
            link.consumer(dlq, &config.capture_durable()).await?.map_or(0, |capture| capture.ack_floor());
        let checks: Vec<_> = copies.iter().map(|copy| self.is_done(copy, captured_to)).collect();
        let checks = stream::iter(checks).buffered(limits::JETSTREAM_BRIDGE_CONCURRENCY);
        let checked: Vec<Result<bool, SourceError>> = checks.collect().await;
        let (mut done, mut first_error) = (Vec::new(), None);
        for (copy, checked) in copies.iter().zip(checked) {
            match checked {
                Ok(true) => done.push(copy.ack.subject.as_str()),
                Ok(false) => link.nak(&copy.ack.subject, copy.ack.redelivery_delay()).await?,
                // It is redelivered after the ack wait.
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        link.ack_all(&done).await?;
        if let Some(info) = link.consumer(dlq, &durable).await? {
            self.following.store(info.number("num_ack_pending"), Ordering::Relaxed);
        }
        first_error.map_or(Ok(()), Err)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("following", self.following.load(Ordering::Relaxed)),
            ("late_acks", self.late_acks.load(Ordering::Relaxed)),
            ("deleted", self.jetstream.deleted.load(Ordering::Relaxed)),
        ]
    }
}

impl fmt::Debug for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowUp").field("source", &self.jetstream.config.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acknowledges_is_a_success() {
        for body in ["", "+ACK", "+OK", "+NXT", "+NXT {\"batch\":1}"] {
            assert!(is_success(body.as_bytes()), "{body}");
        }
        for body in ["-NAK", "-NAK {\"delay\":1}", "+WPI", "+TERM", "+TERM because"] {
            assert!(!is_success(body.as_bytes()), "{body}");
        }
    }
}
