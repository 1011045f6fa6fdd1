//! What becomes of one delivery: the handler runs, and its outcome is an acknowledgement, a retry or a dead letter.
//!
//! The order is what nothing is lost by: the retry or the dead letter is published and confirmed first, and the delivery is
//! acknowledged second. A crash in between leaves the message in both queues.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use lapin::types::ShortString;
use lapin::{Acker, BasicProperties};
use lazaret_core::broker::{self, DeathReason, Receipt};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::category::ErrorCategory;
use super::delivery::Delivery;
use super::message::{self, History, Service};
use super::publisher::{PublishError, Publisher, Unroutable};
use super::topology::Topology;
use crate::handling::{self, Failed, Handler, Outcome, now};
use crate::settings::{Action, Settings, random_unit};

/// A broker that restarts is there again within some seconds, but then the delivery is void and comes again.
const PUBLISH_TRIES: u32 = 3;
const PUBLISH_PAUSE: Duration = Duration::from_millis(500);

/// What all jobs of a worker share.
pub(crate) struct Shared {
    pub(crate) handler: Handler<Delivery>,
    pub(crate) settings: Settings,
    pub(crate) topology: Topology,
    pub(crate) service: Service,
    pub(crate) publisher: Publisher,
    pub(crate) receipts_queue: ShortString,
    /// Becomes true when the shutdown begins.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Becomes true when the shutdown waits no longer.
    pub(crate) abandoned: watch::Receiver<bool>,
}

/// One delivery and what is needed to answer it.
pub(crate) struct Job {
    shared: Arc<Shared>,
    delivery: Delivery,
    acker: Acker,
}

impl Job {
    pub(crate) fn new(shared: &Arc<Shared>, delivery: lapin::message::Delivery) -> Job {
        let acker = delivery.acker.clone();
        Job { shared: Arc::clone(shared), delivery: Delivery::new(delivery), acker }
    }

    /// Runs the handler while it holds `slot`, and then sees to the outcome.
    pub(crate) async fn run(self, slot: OwnedSemaphorePermit) {
        let abandoned = self.shared.abandoned.clone();
        let outcome = handling::run(&self.shared.handler, self.delivery.clone(), abandoned).await;
        drop(slot);
        match outcome {
            Outcome::Succeeded => self.succeed().await,
            Outcome::Failed(failed) => self.fail(failed).await,
            Outcome::Abandoned => self.give_back().await,
        }
    }

    /// Lets another worker have the message at once.
    pub(crate) async fn give_back(&self) {
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        if let Err(error) = self.acker.nack(options).await {
            // Then the broker knows already that this worker is gone.
            tracing::debug!("cannot give a message back: {error}");
        }
    }

    async fn succeed(self) {
        self.acknowledge("it succeeded").await;
        let Some(receipt) = self.receipt() else { return };
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(message::PERSISTENT)
            .with_message_id(ShortString::try_new(receipt.message_id()).unwrap_or_default());
        let (queue, body) = (&self.shared.receipts_queue, receipt.json(now()));
        // Without Lazaret there is no queue for receipts, and nobody misses them.
        let published =
            self.shared.publisher.publish(queue, body.clone().into(), properties, Unroutable::Drop);
        if let Err(error) = published.await {
            tracing::warn!("cannot publish the receipt {body} to {queue}: {error}");
        }
    }

    /// The receipt of a message that was redriven.
    fn receipt(&self) -> Option<Receipt> {
        Some(Receipt::Redriven {
            letter_id: self.delivery.header_text(broker::LETTER_ID)?.into_owned(),
            life: self.delivery.header_text(broker::LIFE)?.parse().ok()?,
            redrive_id: self.delivery.header_text(broker::REDRIVE_ID).map(|id| id.into_owned()),
        })
    }

    async fn fail(&self, failed: Failed) {
        let (shared, number) = (&self.shared, self.delivery.retry_count() + 1);
        let decision = shared.settings.decide(&shared.service.name, &failed.failure, number, None);
        let category = ErrorCategory::of(decision.class);
        let history = History::new(&self.delivery, failed.attempt(), failed.started);
        let error_type = &failed.failure.error().error_type;
        match decision.action {
            Action::RetryAfter { .. } => {
                tracing::debug!(
                    queue = %shared.topology.work_queue(),
                    message.id = self.delivery.message_id(),
                    "attempt {number} failed ({category}, {error_type}), will be retried"
                );
                let properties = message::retry(&self.delivery, &history, &shared.topology);
                let queue = || shared.topology.delay_queue(number);
                self.hand_over(queue, self.delivery.body().clone(), properties).await;
            }
            Action::DeadLetter(reason) => {
                let queue = || shared.topology.dead_letter_queue();
                let (properties, body) =
                    message::dead_letter(&self.delivery, &history, &shared.topology, &shared.service, now());
                if self.hand_over(queue, body.into(), properties).await {
                    self.log_death(reason, category, error_type);
                }
            }
        }
    }

    fn log_death(&self, reason: DeathReason, category: ErrorCategory, error_type: &str) {
        tracing::warn!(
            queue = %self.shared.topology.work_queue(),
            message.id = self.delivery.message_id(),
            "message is dead after {} retries: {reason} ({category}, {error_type})",
            self.delivery.retry_count()
        );
    }

    /// Moves the message to another queue: published and confirmed there first, then acknowledged here. If the first fails, the
    /// message goes back to the work queue after a while. `queue` is asked before each try: of the delay queues one may be down.
    async fn hand_over<'q>(
        &self,
        queue: impl Fn() -> &'q ShortString,
        body: Bytes,
        properties: BasicProperties,
    ) -> bool {
        if let Err(error) = self.publish(queue, body, properties).await {
            tracing::error!(
                queue = %self.shared.topology.work_queue(),
                message.id = self.delivery.message_id(),
                "cannot move a message on: {error}; it stays in its queue"
            );
            self.wait_to_give_back().await;
            self.give_back().await;
            return false;
        }
        self.acknowledge("it was moved on").await;
        true
    }

    async fn publish<'q>(
        &self,
        queue: impl Fn() -> &'q ShortString,
        body: Bytes,
        properties: BasicProperties,
    ) -> Result<(), PublishError> {
        let publisher = &self.shared.publisher;
        let mut tried = 0;
        loop {
            // A delivery that is void comes again; what would be published now would be a second copy.
            if !self.acker.usable() {
                return Err(PublishError::DeliveryLost);
            }
            tried += 1;
            let published =
                publisher.publish(queue(), body.clone(), properties.clone(), Unroutable::Return).await;
            let Err(error) = published else { return Ok(()) };
            if tried == PUBLISH_TRIES {
                return Err(error);
            }
            match error {
                // Somebody deleted it under us.
                PublishError::Unroutable(_) => publisher.declare(&self.shared.topology).await?,
                _ => tokio::time::sleep(PUBLISH_PAUSE * tried).await,
            }
        }
    }

    /// A message that goes back at once would come again at once, and again.
    async fn wait_to_give_back(&self) {
        let number = self.delivery.retry_count() + 1;
        let delay_ms = self.shared.settings.policy.delay_ms(number, random_unit());
        let mut stopping = self.shared.stopping.clone();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(delay_ms)) => {}
            // An error means that the worker is gone, and this job with it.
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }

    async fn acknowledge(&self, what: &str) {
        let is_sent = self.acker.ack(BasicAckOptions::default()).await;
        if !matches!(is_sent, Ok(true)) {
            tracing::warn!(
                queue = %self.shared.topology.work_queue(),
                message.id = self.delivery.message_id(),
                "{what}, but the connection was lost before the acknowledgement; the message will be delivered again"
            );
        }
    }
}
