//! Receipts of workers: their word that a redriven message succeeded.

use std::time::{Duration, Instant};

use lapin::options::BasicAckOptions;
use lazaret_core::broker;
use lazaret_core::limits;

use super::RabbitMq;
use super::capture::{Consuming, acknowledge, tag};
use crate::connection::locked;
use crate::{Receipt, SourceError, WorkerReceipt};

/// Before the receipt of a worker's receipt: it is acknowledged on a channel of its own.
const PREFIX: &str = "receipt ";

impl RabbitMq {
    pub(super) async fn pull_receipts(&self) -> Result<Vec<WorkerReceipt>, SourceError> {
        let queues = [self.config.receipts_queue.clone()];
        let mut slot = self.receiving.lock().await;
        if slot.as_ref().is_none_or(|it| !it.channel().status().connected()) {
            *slot = None;
            let (link, prefetch) = (&self.consume_link, limits::RABBITMQ_RECEIPTS_MAX);
            let started = Consuming::start(link, &queues, prefetch, self.next_generation()).await?;
            *locked(&self.receiving_channel) = Some((started.generation, started.channel().clone()));
            *slot = Some(started);
        }
        let Some(receiving) = slot.as_mut() else { return Ok(Vec::new()) };
        let until = Instant::now() + Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
        let delivered = match receiving.next(&queues, until, usize::from(limits::RABBITMQ_RECEIPTS_MAX)).await
        {
            Ok(delivered) => delivered,
            Err(error) => {
                *slot = None;
                *locked(&self.receiving_channel) = None;
                return Err(error);
            }
        };
        let (generation, channel) = (receiving.generation, receiving.channel().clone());
        let mut receipts = Vec::with_capacity(delivered.len());
        let mut dropped = Vec::new();
        for (_, delivery) in delivered {
            let tag = delivery.delivery_tag;
            match broker::Receipt::parse(&String::from_utf8_lossy(&delivery.data)) {
                Some((receipt, at)) => {
                    let ack = Receipt::new(format!("{PREFIX}{generation}:{tag}"));
                    receipts.push(WorkerReceipt { receipt, at, ack });
                }
                None => dropped.push(tag),
            }
        }
        if !dropped.is_empty() {
            let (source, queue) = (&self.config.name, &self.config.receipts_queue);
            tracing::warn!(
                source,
                "{} messages of {queue} are not receipts of a success and are dropped",
                dropped.len()
            );
        }
        for tag in dropped {
            acknowledge(&self.consume_link, &channel, tag, BasicAckOptions::default()).await?;
        }
        Ok(receipts)
    }

    /// Acknowledges the receipts of workers among `receipts`, and returns the others.
    pub(super) async fn ack_receipts(&self, receipts: &[Receipt]) -> Result<Vec<Receipt>, SourceError> {
        let of_worker = |receipt: &Receipt| receipt.text().strip_prefix(PREFIX).map(str::to_owned);
        let (ours, others): (Vec<Receipt>, Vec<Receipt>) =
            receipts.iter().cloned().partition(|receipt| of_worker(receipt).is_some());
        if ours.is_empty() {
            return Ok(others);
        }
        let Some((generation, channel)) = locked(&self.receiving_channel).clone() else { return Ok(others) };
        for receipt in ours.iter().filter_map(of_worker) {
            if let Some(tag) = tag(&Receipt::new(receipt), generation) {
                acknowledge(&self.consume_link, &channel, tag, BasicAckOptions::default()).await?;
            }
        }
        Ok(others)
    }
}
