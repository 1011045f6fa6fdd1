//! RabbitMQ: messages of dead-letter queues become letters, and letters go back to the queues that they died in.
//!
//! Dead letters are consumed and acknowledged after the commit. Queues of applications are never consumed from and never
//! changed; missing dead-letter queues are created.

mod config;
mod discovery;
mod management;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use config::{
    Auth, DeadLetterQueue, ManagementConfig, MessageField, RabbitMqConfig, RedriveTo, TENANT_PATH,
};

use crate::destination::{Destination, Outgoing, Route, Sent, SentCopy, Silence, Verified};
use crate::{
    Arrival, Change, Declare, Duty, Finding, FoundQueue, Receipt, Source, SourceError, SourceHealth,
    WorkerReceipt,
};

/// One virtual host. Connects when it is used.
pub struct RabbitMq {
    config: RabbitMqConfig,
}

impl RabbitMq {
    /// Reads the configuration and connects to nothing.
    pub fn new(config: RabbitMqConfig) -> Result<RabbitMq, SourceError> {
        config.check()?;
        Ok(RabbitMq { config })
    }

    pub fn config(&self) -> &RabbitMqConfig {
        &self.config
    }

    /// The loops beside capture.
    pub fn duties(self: &Arc<RabbitMq>) -> Vec<Arc<dyn Duty>> {
        Vec::new()
    }

    fn unavailable(&self) -> SourceError {
        SourceError::Unavailable { doing: "connecting to RabbitMQ", why: "not connected".to_owned() }
    }
}

#[async_trait]
impl Source for RabbitMq {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn next(&self) -> Result<Vec<Arrival>, SourceError> {
        Err(self.unavailable())
    }

    async fn ack(&self, _: &[Receipt]) -> Result<(), SourceError> {
        Err(self.unavailable())
    }

    async fn release(&self, _: &[Receipt]) -> Result<(), SourceError> {
        Err(self.unavailable())
    }

    async fn check(&self) -> Vec<Finding> {
        vec![Finding::error(self.unavailable().to_string(), "start the broker")]
    }

    fn state(&self) -> SourceHealth {
        SourceHealth::default()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn takes_receipts(&self) -> bool {
        true
    }

    async fn next_receipts(&self) -> Result<Vec<WorkerReceipt>, SourceError> {
        Err(self.unavailable())
    }

    async fn declare(&self, _: Declare) -> Result<Vec<Change>, SourceError> {
        Err(self.unavailable())
    }

    async fn discover(&self) -> Result<Option<Vec<FoundQueue>>, SourceError> {
        self.found_queues().await
    }
}

#[async_trait]
impl Destination for RabbitMq {
    fn address(&self) -> String {
        self.config.servers.first().cloned().unwrap_or_default()
    }

    fn deduplicates(&self) -> bool {
        false
    }

    async fn route(&self, _: &Outgoing) -> Result<Route, String> {
        Err(self.unavailable().to_string())
    }

    async fn send(&self, _: &Outgoing) -> Sent {
        Sent::Unsent(self.unavailable().to_string())
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        sent.iter().map(|_| Verified::Taken(Silence::SaysNothing)).collect()
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq").field("config", &self.config).finish_non_exhaustive()
    }
}
