//! NATS JetStream: exhausted and terminated messages become letters, and letters are redriven to their subjects.
//!
//! NATS has no dead-letter queue; Lazaret provides one. The server only publishes an advisory when it stops delivering a message.
//! A stream keeps advisories, the bridge copies the messages that they name to the dead-letter stream, and capture reads that.
//! Lazaret never pulls from an application's consumer and changes nothing of it but retry policy and sampling.

mod api;
mod bridge;
mod capture;
mod check;
mod config;
mod exhausted;
mod follow_up;
mod letter;
mod link;
mod metrics;
mod publish;
mod pull;
mod receipts;
mod redrive;
mod sampling;
mod sweep;
mod topology;
mod unreadable;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lazaret_core::limits;

use crate::connection::locked;
use crate::{
    Arrival, Change, Declare, Duty, Finding, Receipt, Source, SourceError, SourceHealth, WorkerReceipt,
};
use api::StreamInfo;
pub use bridge::{Bridge, BridgePoint};
pub use config::{Auth, JetStreamConfig, Scope, WatchedConsumer};
pub use follow_up::FollowUp;
use link::Link;
pub use receipts::captured_id;
pub use sampling::Sampling;
pub use sweep::{Suspected, Sweep};

/// One JetStream account. Connects when it is used.
pub struct JetStream {
    config: JetStreamConfig,
    link: Link,
    /// Cached stream info, with the time of the request.
    streams: Mutex<HashMap<String, (Instant, Option<StreamInfo>)>>,
    captures: Mutex<capture::Captures>,
    /// Exhausted originals that this process deleted.
    deleted: AtomicU64,
    acks: tokio::sync::Mutex<metrics::AckLog>,
    sampling: Mutex<sampling::Sampled>,
    suspected: Mutex<Vec<Suspected>>,
    /// Duplicate windows, by stream.
    windows_ms: Mutex<HashMap<String, u64>>,
}

impl JetStream {
    /// Checks the configuration. Does not connect.
    pub fn new(config: JetStreamConfig) -> Result<JetStream, SourceError> {
        config.check()?;
        Ok(JetStream {
            link: Link::new(config.clone()),
            config,
            streams: Mutex::default(),
            captures: Mutex::default(),
            deleted: AtomicU64::new(0),
            acks: tokio::sync::Mutex::default(),
            sampling: Mutex::default(),
            suspected: Mutex::default(),
            windows_ms: Mutex::default(),
        })
    }

    pub fn config(&self) -> &JetStreamConfig {
        &self.config
    }

    /// The duties that run beside capture.
    pub fn duties(self: &Arc<JetStream>) -> Vec<Arc<dyn Duty>> {
        vec![
            Arc::new(Bridge::new(Arc::clone(self))),
            Arc::new(Sweep::new(Arc::clone(self))),
            Arc::new(Sampling::new(Arc::clone(self))),
            Arc::new(FollowUp::new(Arc::clone(self))),
        ]
    }

    /// The result of the last sweep.
    pub fn suspected(&self) -> Vec<Suspected> {
        locked(&self.suspected).clone()
    }

    /// Returns info on a stream that is at most `JETSTREAM_INFO_MS` old.
    async fn stream(&self, name: &str) -> Result<Option<StreamInfo>, SourceError> {
        let fresh = Duration::from_millis(limits::JETSTREAM_INFO_MS);
        if let Some((since, info)) = locked(&self.streams).get(name)
            && since.elapsed() < fresh
        {
            return Ok(info.clone());
        }
        let info = self.link.stream(name).await?;
        let mut streams = locked(&self.streams);
        streams.retain(|_, (since, _)| since.elapsed() < fresh);
        streams.insert(name.to_owned(), (Instant::now(), info.clone()));
        Ok(info)
    }
}

#[async_trait]
impl Source for JetStream {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn next(&self) -> Result<Vec<Arrival>, SourceError> {
        capture::next(self).await
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        capture::ack(self, receipts).await
    }

    async fn release(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        capture::release(self, receipts).await
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
        let changes = topology::declare(self, how).await;
        locked(&self.streams).clear();
        changes
    }
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").field("config", &self.config).finish_non_exhaustive()
    }
}
