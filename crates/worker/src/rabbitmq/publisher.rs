//! Publishing with confirms: a message counts as published when the broker has confirmed that a queue has it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::{Semaphore, oneshot};

use super::WorkerError;
use super::connect::Connector;
use super::topology::Topology;

/// For the broker to confirm a message. A broker that is short of memory or disk confirms nothing until it is not, and a queue
/// that is down after a crash does not either.
const CONFIRM_MAX: Duration = Duration::from_secs(10);

/// Batches that are out at a time, each on a channel of its own. More than a queue or two that do not answer can block.
const BATCHES_MAX: usize = 16;

/// Messages of a batch, all to one queue: one that does not answer does not hold up the others.
const BATCH_MAX: usize = 64;

/// Why a message is not known to be in a queue. It may be there all the same, unless it was returned or refused.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum PublishError {
    #[error("no queue {0}")]
    Unroutable(ShortString),
    #[error("the broker refused it; is queue {0} full?")]
    Refused(ShortString),
    #[error("the broker did not confirm it in time")]
    TimedOut,
    #[error("the connection that delivered it was lost")]
    DeliveryLost,
    #[error(transparent)]
    Broker(#[from] lapin::Error),
    #[error(transparent)]
    Connection(Arc<WorkerError>),
}

impl From<WorkerError> for PublishError {
    fn from(error: WorkerError) -> PublishError {
        PublishError::Connection(Arc::new(error))
    }
}

/// What becomes of a message for which there is no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unroutable {
    Return,
    Drop,
}

/// A message that waits for a channel.
#[derive(Debug)]
struct Request {
    queue: ShortString,
    body: Bytes,
    properties: BasicProperties,
    unroutable: Unroutable,
    answer: oneshot::Sender<Result<(), PublishError>>,
}

/// Publishes to queues through the default exchange, on a connection of its own: a broker that is short of memory blocks
/// connections that publish, and acknowledgements have to pass.
///
/// Messages go out in batches, and a channel has one batch out at a time. The client hands a returned message to whichever
/// confirm comes next, and the broker confirms several at once, so nobody can tell which of them was returned. If one of a batch
/// was, all of it counts as returned: a message may be published twice, but none is lost.
#[derive(Debug)]
pub(crate) struct Publisher {
    connector: Connector,
    /// Held while connecting, so that one connects and the others wait for it.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    idle: Mutex<Vec<Channel>>,
    waiting: Mutex<VecDeque<Request>>,
    batches: Semaphore,
}

impl Publisher {
    pub(crate) fn new(connector: Connector) -> Publisher {
        Publisher {
            connector,
            connection: tokio::sync::Mutex::new(None),
            idle: Mutex::default(),
            waiting: Mutex::default(),
            batches: Semaphore::new(BATCHES_MAX),
        }
    }

    /// Publishes a message and waits until the broker has confirmed it. Whoever waits publishes a batch when there is a slot
    /// for one, also if it is that of others.
    pub(crate) async fn publish(
        &self,
        queue: &ShortString,
        body: Bytes,
        properties: BasicProperties,
        unroutable: Unroutable,
    ) -> Result<(), PublishError> {
        let (answer, mut answered) = oneshot::channel();
        let request = Request { queue: queue.clone(), body, properties, unroutable, answer };
        lock(&self.waiting).push_back(request);
        loop {
            let slot = tokio::select! {
                biased;
                outcome = &mut answered => return outcome.unwrap_or(Err(PublishError::TimedOut)),
                slot = self.batches.acquire() => slot,
            };
            let batch = self.take_batch();
            if batch.is_empty() {
                // The message is in a batch that is out.
                drop(slot);
                return answered.await.unwrap_or(Err(PublishError::TimedOut));
            }
            self.publish_batch(batch).await;
        }
    }

    /// The messages that wait for the same queue as the first one.
    fn take_batch(&self) -> Vec<Request> {
        let mut waiting = lock(&self.waiting);
        let Some(first) = waiting.front() else { return Vec::new() };
        let queue = first.queue.clone();
        let (mut batch, mut rest) = (Vec::new(), VecDeque::new());
        for request in waiting.drain(..) {
            match request.queue == queue && batch.len() < BATCH_MAX {
                true => batch.push(request),
                false => rest.push_back(request),
            }
        }
        *waiting = rest;
        batch
    }

    async fn publish_batch(&self, batch: Vec<Request>) {
        let outcomes = match self.channel().await {
            Ok(channel) => self.confirm_batch(channel, &batch).await,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        };
        for (request, outcome) in batch.into_iter().zip(outcomes) {
            // Who asked may be gone with its worker.
            request.answer.send(outcome).ok();
        }
    }

    /// The outcomes in the order of the messages.
    async fn confirm_batch(&self, channel: Channel, batch: &[Request]) -> Vec<Result<(), PublishError>> {
        let confirms = join_all(batch.iter().map(|request| send(&channel, request)));
        let Ok(confirms) = tokio::time::timeout(CONFIRM_MAX, confirms).await else {
            // The channel is dropped: on it a late confirm would be taken for one of the next batch.
            return batch.iter().map(|_| Err(PublishError::TimedOut)).collect();
        };
        let is_returned = confirms
            .iter()
            .any(|confirm| matches!(confirm, Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)))));
        if confirms.iter().all(Result::is_ok) {
            lock(&self.idle).push(channel);
        }
        let outcome = |(request, confirm): (&Request, lapin::Result<Confirmation>)| {
            let queue = &request.queue;
            match confirm? {
                // Confirmed although it was returned: the broker is done with it, and it is in no queue.
                _ if request.unroutable == Unroutable::Return && is_returned => {
                    Err(PublishError::Unroutable(queue.clone()))
                }
                Confirmation::Ack(_) => Ok(()),
                Confirmation::Nack(_) => Err(PublishError::Refused(queue.clone())),
                Confirmation::NotRequested => Err(PublishError::TimedOut),
            }
        };
        batch.iter().zip(confirms).map(outcome).collect()
    }

    /// Declares the queues again, because one of them is gone.
    pub(crate) async fn declare(&self, topology: &Topology) -> Result<(), WorkerError> {
        topology.declare(&*self.connection().await?).await
    }

    pub(crate) async fn close(&self) {
        lock(&self.idle).clear();
        if let Some(connection) = self.connection.lock().await.take() {
            super::connect::close(&connection).await;
        }
    }

    async fn channel(&self) -> Result<Channel, PublishError> {
        // A loop of its own, so that the lock is not held over the waits below.
        loop {
            let idle = lock(&self.idle).pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let connection = self.connection().await?;
        let opened = async {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok::<_, lapin::Error>(channel)
        };
        Ok(tokio::time::timeout(CONFIRM_MAX, opened).await.map_err(|_| PublishError::TimedOut)??)
    }

    async fn connection(&self) -> Result<Arc<Connection>, WorkerError> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = connection.as_ref().filter(|connection| connection.status().connected()) {
            return Ok(Arc::clone(connection));
        }
        let connected = Arc::new(self.connector.connect("publish").await?);
        *connection = Some(Arc::clone(&connected));
        Ok(connected)
    }
}

async fn send(channel: &Channel, request: &Request) -> lapin::Result<Confirmation> {
    let Request { queue, body, properties, unroutable, .. } = request;
    let options = BasicPublishOptions { mandatory: *unroutable == Unroutable::Return, immediate: false };
    channel.basic_publish("".into(), queue.clone(), options, body, properties.clone()).await?.await
}

/// Nothing can be left half done under the lock, so a poisoned one is as good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
