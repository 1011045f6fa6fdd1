//! Capture from the dead-letter stream: letters are pulled from the shared durable consumer and acknowledged after the commit.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lazaret_core::broker::StreamOrigin;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::JetStream;
use super::exhausted::Exhausted;
use super::letter::{DeadLetter, KnownOrigin, sorted_headers};
use super::pull::{AckSubject, Delivered};
use super::unreadable::LOSSES_MIN;
use crate::connection::{locked, now};
use crate::growth::Sizes;
use crate::{Arrival, Receipt, SourceError, SourceHealth};

/// How often the redelivery delay of a letter that cannot be stored is doubled.
const RELEASES_DOUBLED_MAX: u64 = 4;

/// The state of capture, for health.
#[derive(Default)]
pub(super) struct Captures {
    /// Receipts of letters that are not acknowledged yet, with the time of death.
    unacknowledged: HashMap<Receipt, Option<Time>>,
    looked_at: Option<Time>,
    depth: Option<u64>,
    /// Consecutive connection losses.
    losses: u32,
    /// Samples of the number of messages in the dead-letter stream.
    sizes: Sizes,
}

pub(super) async fn next(jetstream: &JetStream) -> Result<Vec<Arrival>, SourceError> {
    let answer = arrivals(jetstream).await;
    jetstream.link.record_result(answer.as_ref().err());
    let mut captures = locked(&jetstream.captures);
    captures.losses = if answer.is_ok() { 0 } else { captures.losses.saturating_add(1) };
    let arrivals = answer?;
    if arrivals.is_empty() {
        captures.looked_at = Some(now());
        // The server redelivers what was not acknowledged by now.
        let ack_wait = i64::try_from(jetstream.config.ack_wait_ms).unwrap_or(i64::MAX);
        captures.unacknowledged.retain(|_, died_at| died_at.is_some_and(|at| now().since(at) < ack_wait));
    }
    captures.unacknowledged.extend(arrivals.iter().map(|it| (it.receipt.clone(), it.captured.died_at)));
    Ok(arrivals)
}

async fn arrivals(jetstream: &JetStream) -> Result<Vec<Arrival>, SourceError> {
    let config = &jetstream.config;
    measure(jetstream).await?;
    if locked(&jetstream.captures).losses >= LOSSES_MIN {
        jetstream.replace_unreadable().await?;
    }
    let wait = Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
    let durable = config.capture_durable();
    let max = limits::JETSTREAM_CAPTURE_MESSAGES_MAX;
    let pulled = jetstream.link.pull(&config.dlq_stream, &durable, max, wait).await?;
    let mut arrivals = Vec::with_capacity(pulled.len());
    for delivered in pulled {
        arrivals.push(arrival(jetstream, delivered).await?);
    }
    Ok(arrivals)
}

async fn arrival(jetstream: &JetStream, delivered: Delivered) -> Result<Arrival, SourceError> {
    let config = &jetstream.config;
    let (dead, origin) = jetstream.dead_letter(&delivered).await?;
    let captured = dead.captured(config, &origin);
    let receipt = receipt(&delivered.ack.subject, Exhausted::from_dead_letter(&dead, &origin));
    Ok(Arrival { captured, receipt })
}

/// The ack subject, followed by the exhausted original to delete after the commit.
fn receipt(ack: &str, exhausted: Option<Exhausted>) -> Receipt {
    match exhausted {
        None => Receipt::new(ack.to_owned()),
        Some(exhausted) => Receipt::new(format!("{ack} {exhausted}")),
    }
}

/// Deletes exhausted originals, then acknowledges. After a crash in between, the letters are redelivered and both are repeated.
pub(super) async fn ack(jetstream: &JetStream, receipts: &[Receipt]) -> Result<(), SourceError> {
    let (mut subjects, mut originals) = (Vec::with_capacity(receipts.len()), Vec::new());
    for receipt in receipts {
        let (subject, exhausted) = receipt.text().split_once(' ').unwrap_or((receipt.text(), ""));
        subjects.push(subject);
        originals.extend(Exhausted::parse(exhausted).filter(|_| jetstream.config.delete_exhausted));
    }
    let deletions: Vec<_> = originals.iter().map(|original| jetstream.delete_stored(original)).collect();
    let mut deletions = stream::iter(deletions).buffer_unordered(limits::JETSTREAM_BRIDGE_CONCURRENCY);
    while deletions.next().await.is_some() {}
    let acked = jetstream.link.ack_all(&subjects).await;
    jetstream.forget_receipts(receipts);
    acked
}

/// Schedules a redelivery, with a delay that keeps an unavailable store from being retried in a tight loop.
pub(super) async fn release(jetstream: &JetStream, receipts: &[Receipt]) -> Result<(), SourceError> {
    jetstream.forget_receipts(receipts);
    for receipt in receipts {
        let subject = receipt.text().split(' ').next().unwrap_or_default();
        let deliveries = AckSubject::parse(subject).map_or(1, |ack| ack.deliveries);
        let times = 1 << deliveries.saturating_sub(1).min(RELEASES_DOUBLED_MAX);
        let delay = Duration::from_millis(limits::SOURCE_RELEASE_MS.saturating_mul(times));
        jetstream.link.nak(subject, delay).await?;
    }
    Ok(())
}

impl JetStream {
    /// Parses a message of the dead-letter stream, and its origin.
    pub(super) async fn dead_letter<'d>(
        &self,
        delivered: &'d Delivered,
    ) -> Result<(DeadLetter<'d>, KnownOrigin), SourceError> {
        let created = self.stream(&self.config.dlq_stream).await?.and_then(|info| info.created());
        let dead = DeadLetter {
            subject: &delivered.message.subject,
            headers: sorted_headers(delivered.message.headers.as_ref()),
            body: delivered.message.payload.clone(),
            place: StreamOrigin {
                stream: self.config.dlq_stream.clone(),
                stream_created: created.unwrap_or_default(),
                sequence: delivered.ack.stream_sequence,
                consumer: String::new(),
            },
            time: delivered.ack.time,
        };
        let mut origin = dead.origin();
        if let (Some(stream), Some(_), None) = (&origin.stream, origin.sequence, origin.stream_created) {
            origin.stream_created = self.stream(stream).await?.and_then(|info| info.created());
        }
        Ok((dead, origin))
    }

    fn forget_receipts(&self, receipts: &[Receipt]) {
        let mut captures = locked(&self.captures);
        for receipt in receipts {
            captures.unacknowledged.remove(receipt);
        }
    }
}

/// Measures depth and growth, every few seconds.
async fn measure(jetstream: &JetStream) -> Result<(), SourceError> {
    let every = Duration::from_millis(limits::JETSTREAM_INFO_MS);
    if locked(&jetstream.captures).sizes.is_newer_than(every) {
        return Ok(());
    }
    let config = &jetstream.config;
    let Some(info) = jetstream.link.stream(&config.dlq_stream).await? else {
        let why = format!(
            "stream {} is missing: declare the topology (lazaret jetstream apply)",
            config.dlq_stream
        );
        return Err(SourceError::Unavailable { doing: "reading the dead-letter stream", why });
    };
    let durable = jetstream.link.consumer(&config.dlq_stream, &config.capture_durable()).await?;
    let depth = durable.map(|it| it.number("num_pending") + it.number("num_ack_pending"));
    for watched in &config.consumers {
        jetstream.remember_window(&watched.stream).await?;
    }
    let mut captures = locked(&jetstream.captures);
    captures.depth = depth;
    captures.sizes.add(info.state("messages"));
    Ok(())
}

pub(super) fn health(jetstream: &JetStream) -> SourceHealth {
    let state = jetstream.link.state();
    let captures = locked(&jetstream.captures);
    let now = now();
    let lag_ms = captures.unacknowledged.values().map(|died_at| now.since(died_at.unwrap_or(now))).max();
    SourceHealth {
        connected: state.connected,
        since: state.since,
        last_error: state.last_error,
        lag_ms: lag_ms.and_then(|lag| u64::try_from(lag).ok()).unwrap_or(0),
        looked_at: captures.looked_at,
        depth: captures.depth,
        growth_per_min: captures.sizes.growth_per_min(),
    }
}
