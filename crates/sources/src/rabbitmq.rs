//! RabbitMQ: messages of dead-letter queues become letters, and letters go back to the queues that they died in.
//!
//! Dead letters are consumed and acknowledged after the commit. Queues of applications are never consumed from and never
//! changed; missing dead-letter queues are created.

mod capture;
mod check;
mod config;
mod death;
mod discovery;
mod letter;
mod link;
mod management;
mod properties;
mod publish;
mod receipts;
mod redrive;
mod topology;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;

use crate::{
    Arrival, Change, Declare, Duty, Finding, FoundQueue, Receipt, Source, SourceError, SourceHealth,
    WorkerReceipt,
};
use capture::{Captures, Consuming};
pub use config::{
    Auth, DeadLetterQueue, ManagementConfig, MessageField, RabbitMqConfig, RedriveTo, TENANT_PATH,
};
use link::Link;
use management::{KnownTopology, Management};
use publish::Publisher;

/// One virtual host. Connects when it is used.
pub struct RabbitMq {
    config: RabbitMqConfig,
    consume_link: Link,
    publish_link: Link,
    /// Numbers the channels that were consumed on.
    generations: AtomicU64,
    consuming: tokio::sync::Mutex<Option<Consuming>>,
    captures: Mutex<Captures>,
    receiving: tokio::sync::Mutex<Option<Consuming>>,
    /// The channel of `receiving`, for acknowledgements.
    receiving_channel: Mutex<Option<(u64, lapin::Channel)>>,
    publisher: Publisher,
    /// Idempotency keys of letters that were seen taken from their queue.
    taken: Mutex<HashSet<String>>,
    management: OnceLock<Management>,
    topology: Mutex<Option<KnownTopology>>,
}

impl RabbitMq {
    /// Reads the configuration and connects to nothing.
    pub fn new(config: RabbitMqConfig) -> Result<RabbitMq, SourceError> {
        config.check()?;
        Ok(RabbitMq {
            consume_link: Link::new(config.clone(), "capture"),
            publish_link: Link::new(config.clone(), "redrive"),
            config,
            generations: AtomicU64::new(1),
            consuming: tokio::sync::Mutex::default(),
            captures: Mutex::default(),
            receiving: tokio::sync::Mutex::default(),
            receiving_channel: Mutex::default(),
            publisher: Publisher::new(),
            taken: Mutex::default(),
            management: OnceLock::new(),
            topology: Mutex::default(),
        })
    }

    pub fn config(&self) -> &RabbitMqConfig {
        &self.config
    }

    /// The loops beside capture.
    pub fn duties(self: &Arc<RabbitMq>) -> Vec<Arc<dyn Duty>> {
        Vec::new()
    }

    fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }
}

#[async_trait]
impl Source for RabbitMq {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn next(&self) -> Result<Vec<Arrival>, SourceError> {
        capture::next(self).await
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        let letters = self.ack_receipts(receipts).await?;
        capture::ack(self, &letters).await
    }

    async fn release(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        capture::release(self, receipts);
        Ok(())
    }

    async fn check(&self) -> Vec<Finding> {
        check::findings(self).await
    }

    fn state(&self) -> SourceHealth {
        capture::health(self)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn takes_receipts(&self) -> bool {
        true
    }

    async fn next_receipts(&self) -> Result<Vec<WorkerReceipt>, SourceError> {
        self.pull_receipts().await
    }

    async fn declare(&self, how: Declare) -> Result<Vec<Change>, SourceError> {
        topology::declare(self, how).await
    }

    async fn discover(&self) -> Result<Option<Vec<FoundQueue>>, SourceError> {
        self.found_queues().await
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq").field("config", &self.config).finish_non_exhaustive()
    }
}
