//! What becomes of one delivery: the handler runs, and its outcome is an acknowledgement, a retry or a dead letter.
//!
//! The order is what nothing is lost by: a dead letter is published and confirmed first, and the message is terminated second.
//! Between the two a crash leads to a second delivery and a second publish, which the stream recognises by its id.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::AckKind;
use lazaret_core::attempt::Attempt;
use lazaret_core::broker::{self, BrokerDeath, DeathReason, Receipt, StreamOrigin};
use lazaret_core::class::ErrorClass;
use lazaret_core::time::Time;
use tokio::sync::{Semaphore, watch};

use super::ack::{Acker, Lapse};
use super::consumer::Bound;
use super::dead_letter;
use super::delivery::Delivery;
use super::history::Histories;
use crate::failure::Failure;
use crate::handling::{self, Failed, Handler, Outcome, now, time};
use crate::settings::{Action, Settings, random_unit};

/// What all jobs of a worker share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) handler: Handler<Delivery>,
    pub(crate) settings: Settings,
    pub(crate) receipts_subject: String,
    pub(crate) histories: Histories,
    /// One for each handler that may run. Requests are made for free slots only, but a server may answer one that was taken for
    /// lost.
    pub(crate) slots: Semaphore,
    /// Becomes true when a shutdown waits no longer.
    pub(crate) abandoned: watch::Receiver<bool>,
}

/// One delivery and what is needed to answer it.
pub(crate) struct Job {
    shared: Arc<Shared>,
    bound: Arc<Bound>,
    origin: StreamOrigin,
    published_at: Time,
    delivery: Delivery,
    acker: Acker,
}

impl Job {
    /// `None` for what is no message of a stream, which cannot be answered.
    pub(crate) fn new(shared: &Arc<Shared>, bound: &Arc<Bound>, message: async_nats::Message) -> Option<Job> {
        let context = async_nats::jetstream::new(shared.client.clone());
        let mut message = async_nats::jetstream::Message { message, context };
        let (sequence, number, published_at) = match message.info() {
            Ok(info) => (
                info.stream_sequence,
                u32::try_from(info.delivered.max(1)).unwrap_or(u32::MAX),
                time(info.published.into()),
            ),
            Err(error) => {
                tracing::warn!(
                    consumer = bound.consumer,
                    "ignored a message that is not from a stream: {error}"
                );
                return None;
            }
        };
        let subject = message.message.reply.take()?;
        Some(Job {
            origin: StreamOrigin {
                stream: bound.stream.clone(),
                stream_created: bound.stream_created,
                sequence,
                consumer: bound.consumer.clone(),
            },
            published_at,
            delivery: Delivery { message: Arc::new(message.message), sequence, number },
            acker: Acker { client: shared.client.clone(), subject, wait: bound.ack_wait(number) },
            shared: Arc::clone(shared),
            bound: Arc::clone(bound),
        })
    }

    pub(crate) async fn run(self) {
        let acker = self.acker.clone();
        let (outcome, lapse) = acker.keep_alive(self.handle()).await;
        match outcome {
            Outcome::Succeeded => self.succeed(lapse).await,
            Outcome::Failed(failed) => {
                acker.keep_alive(self.fail(failed)).await;
            }
            Outcome::Abandoned => self.give_back().await,
        }
    }

    /// Lets another worker have the message at once.
    pub(crate) async fn give_back(&self) {
        self.acker.try_answer(AckKind::Nak(None)).await;
    }

    async fn handle(&self) -> Outcome {
        let (number, allowed) = (self.delivery.number, self.shared.settings.policy.attempts);
        if number > allowed {
            let failure = unfinished(number, allowed);
            return Outcome::Failed(Failed { failure, started: now(), took: Duration::ZERO });
        }
        let mut abandoned = self.shared.abandoned.clone();
        let _slot = tokio::select! {
            slot = self.shared.slots.acquire() => slot,
            _ = abandoned.wait_for(|abandoned| *abandoned) => return Outcome::Abandoned,
        };
        handling::run(&self.shared.handler, self.delivery.clone(), self.shared.abandoned.clone()).await
    }

    async fn succeed(self, lapse: Lapse) {
        let is_last = self.bound.deliveries_max.is_some_and(|max| self.delivery.number >= max);
        if !self.acker.answer(AckKind::Ack).await {
            tracing::warn!(
                stream = self.origin.stream,
                sequence = self.origin.sequence,
                "message succeeded, but its acknowledgement was not confirmed; it may be delivered again"
            );
        }
        self.shared.histories.forget(self.origin.sequence);
        let late = (is_last && lapse == Lapse::Possible).then(|| Receipt::Late(self.origin.clone()));
        for receipt in self.redriven().into_iter().chain(late) {
            dead_letter::publish_receipt(&self.shared.client, &self.shared.receipts_subject, &receipt).await;
        }
    }

    /// The receipt of a message that was redriven.
    fn redriven(&self) -> Option<Receipt> {
        Some(Receipt::Redriven {
            letter_id: self.delivery.header(broker::LETTER_ID)?.to_owned(),
            life: self.delivery.header(broker::LIFE)?.parse().ok()?,
            redrive_id: self.delivery.header(broker::REDRIVE_ID).map(str::to_owned),
        })
    }

    async fn fail(&self, failed: Failed) {
        let settings = &self.shared.settings;
        let (number, allowed) = (self.delivery.number, self.bound.deliveries_max);
        let decision = settings.decide(&self.origin.consumer, &failed.failure, number, allowed);
        let attempt = failed.attempt();
        match decision.action {
            Action::RetryAfter { delay_ms } => {
                tracing::debug!(
                    stream = self.origin.stream,
                    sequence = self.origin.sequence,
                    "delivery {number} failed, retry in {delay_ms} ms: {}",
                    failed.failure
                );
                self.shared.histories.add(self.origin.sequence, attempt);
                self.acker.answer(AckKind::Nak(Some(Duration::from_millis(delay_ms)))).await;
            }
            Action::DeadLetter(reason) => self.bury(reason, decision.class, attempt).await,
        }
    }

    /// Publishes the dead letter, then terminates the message; if the first fails, the message comes back later.
    async fn bury(&self, reason: DeathReason, class: ErrorClass, last: Attempt) {
        let (stream, sequence) = (&self.origin.stream, self.origin.sequence);
        let mut attempts = self.shared.histories.get(sequence);
        attempts.push(last.clone());
        let death = BrokerDeath {
            origin: Some(self.origin.clone()),
            original_subject: Some(self.delivery.subject().to_owned()),
            published_at: Some(self.published_at),
            deliveries: Some(u64::from(self.delivery.number)),
            reason: Some(reason),
            class: Some(class),
            first_attempt_at: attempts.first().and_then(|first| first.at),
            last_attempt_at: last.at,
            error: Some(last.error),
            service_version: self.shared.settings.service_version.clone(),
            attempts,
        };
        let published =
            dead_letter::publish(&self.shared.client, &self.delivery.message, &self.origin, &death).await;
        if let Err(error) = published {
            tracing::error!(
                stream,
                sequence,
                "cannot publish the dead letter to {}: {error}; the message stays where it is",
                self.origin.dead_letter_subject()
            );
            let delay_ms = self.shared.settings.policy.delay_ms(self.delivery.number, random_unit());
            self.acker.answer(AckKind::Nak(Some(Duration::from_millis(delay_ms)))).await;
            return;
        }
        tracing::warn!(
            stream,
            sequence,
            "message is dead after {} deliveries: {reason}",
            self.delivery.number
        );
        self.shared.histories.forget(sequence);
        if !self.acker.answer(AckKind::Term).await {
            tracing::warn!(
                stream,
                sequence,
                "termination was not confirmed; the message may be delivered again"
            );
        }
    }
}

/// More deliveries than attempts are allowed: earlier ones ended without an outcome, perhaps with the whole process. Running the
/// handler again could go on for ever.
fn unfinished(number: u32, allowed: u32) -> Failure {
    Failure::new(
        "lazaret_worker::Unfinished",
        format!("delivery {number} of at most {allowed}: an earlier delivery ended without an outcome"),
    )
    .with_class(ErrorClass::Unknown)
}
