//! Publishing with confirms: a message counts as published when the broker has confirmed that a queue has it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::Semaphore;

use super::WorkerError;
use super::connect::Connector;
use super::topology::Topology;

/// For the broker to confirm a message. A broker that is short of memory or disk confirms nothing until it is not.
const CONFIRM_MAX: Duration = Duration::from_secs(30);

/// Publishes at a time; each has a channel of its own.
const CHANNELS_MAX: usize = 128;

/// Why a message is not known to be in a queue. It may be there all the same, unless it was returned or refused.
#[derive(Debug, thiserror::Error)]
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
    Connection(#[from] WorkerError),
}

/// What becomes of a message for which there is no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unroutable {
    Return,
    Drop,
}

/// Publishes to queues through the default exchange, on a connection of its own: a broker that is short of memory blocks
/// connections that publish, and acknowledgements have to pass.
///
/// A channel has one message out at a time. The client hands a returned message to whichever confirm comes next, and the broker
/// confirms several at once, so with more of them nobody could tell which one was returned.
#[derive(Debug)]
pub(crate) struct Publisher {
    connector: Connector,
    /// Held while connecting, so that one connects and the others wait for it.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    idle: Mutex<Vec<Channel>>,
    slots: Semaphore,
}

impl Publisher {
    pub(crate) fn new(connector: Connector, concurrency: usize) -> Publisher {
        Publisher {
            connector,
            connection: tokio::sync::Mutex::new(None),
            idle: Mutex::default(),
            slots: Semaphore::new(concurrency.clamp(1, CHANNELS_MAX)),
        }
    }

    /// Publishes a message and waits until the broker has confirmed it.
    pub(crate) async fn publish(
        &self,
        queue: &ShortString,
        body: &[u8],
        properties: BasicProperties,
        unroutable: Unroutable,
    ) -> Result<(), PublishError> {
        let _slot = self.slots.acquire().await;
        let channel = self.channel().await?;
        let options = BasicPublishOptions { mandatory: unroutable == Unroutable::Return, immediate: false };
        let published = async {
            let confirm = channel.basic_publish("".into(), queue.clone(), options, body, properties).await?;
            confirm.await
        };
        let confirmation = match tokio::time::timeout(CONFIRM_MAX, published).await {
            Ok(answered) => answered?,
            // The channel is dropped: on it a late confirm would be taken for that of the next message.
            Err(_) => return Err(PublishError::TimedOut),
        };
        let outcome = match confirmation {
            Confirmation::Ack(None) => Ok(()),
            // Confirmed although it was returned: the broker is done with it, and it is in no queue.
            Confirmation::Ack(Some(_)) => Err(PublishError::Unroutable(queue.clone())),
            Confirmation::Nack(_) => Err(PublishError::Refused(queue.clone())),
            Confirmation::NotRequested => return Err(PublishError::TimedOut),
        };
        self.lock_idle().push(channel);
        outcome
    }

    /// Declares the queues again, because one of them is gone.
    pub(crate) async fn declare(&self, topology: &Topology) -> Result<(), WorkerError> {
        topology.declare(&*self.connection().await?).await
    }

    pub(crate) async fn close(&self) {
        self.lock_idle().clear();
        if let Some(connection) = self.connection.lock().await.take() {
            super::connect::close(&connection).await;
        }
    }

    async fn channel(&self) -> Result<Channel, PublishError> {
        // A loop of its own, so that the lock is not held over the waits below.
        loop {
            let idle = self.lock_idle().pop();
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

    /// Nothing can be left half done under the lock, so a poisoned one is as good.
    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
