//! The sweep counts messages that may be exhausted without an advisory, which the server publishes only when a worker pulls.
//!
//! It reads the info of watched consumers. It never pulls from an application's consumer, because a pull counts as a delivery.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::JetStream;
use super::api::ConsumerInfo;
use crate::connection::{locked, now};
use crate::{Duty, Finding, SourceError};

/// Messages of one consumer that may be exhausted without an advisory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspected {
    pub stream: String,
    pub consumer: String,
    pub messages: u64,
    /// The time of the last delivery.
    pub last_delivery_at: Option<Time>,
}

/// Checks the watched consumers periodically.
pub struct Sweep {
    jetstream: Arc<JetStream>,
    swept_at: Mutex<Option<Instant>>,
    sweeps: AtomicU64,
}

impl JetStream {
    /// Checks every watched consumer once.
    pub async fn sweep(&self) -> Result<Vec<Suspected>, SourceError> {
        let mut all = Vec::new();
        for watched in &self.config.consumers {
            let Some(info) = self.link.consumer(&watched.stream, &watched.consumer).await? else { continue };
            let messages = suspected(&info, now());
            if messages > 0 {
                let (stream, consumer) = (watched.stream.clone(), watched.consumer.clone());
                all.push(Suspected { stream, consumer, messages, last_delivery_at: info.last_active() });
            }
        }
        *locked(&self.suspected) = all.clone();
        Ok(all)
    }
}

/// Counts messages that may be exhausted: redelivered, unacknowledged, without a subscriber, and quiet for the total retry time.
/// With a subscriber, the server publishes advisories by itself.
fn suspected(info: &ConsumerInfo, now: Time) -> u64 {
    let Some(total_ms) = info.total_retry_ms() else { return 0 };
    let is_quiet =
        info.last_active().is_some_and(|at| now.since(at) > i64::try_from(total_ms).unwrap_or(i64::MAX));
    if info.has_subscriber() || !is_quiet {
        return 0;
    }
    info.number("num_ack_pending").min(info.number("num_redelivered"))
}

impl Suspected {
    pub(super) fn finding(&self) -> Finding {
        let Suspected { stream, consumer, messages, .. } = self;
        let since = self.last_delivery_at.map(|at| format!(" since {at}")).unwrap_or_default();
        Finding::warning(
            format!(
                "{messages} messages of {stream}.{consumer} are suspected to be exhausted: no worker pulls{since}"
            ),
            "start its workers: the server reports exhausted messages only when a worker pulls",
        )
    }
}

impl Sweep {
    pub fn new(jetstream: Arc<JetStream>) -> Sweep {
        Sweep { jetstream, swept_at: Mutex::default(), sweeps: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Duty for Sweep {
    fn name(&self) -> &'static str {
        "sweep"
    }

    /// Every instance sweeps for its own health.
    fn is_leader_only(&self) -> bool {
        false
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        let every = Duration::from_millis(limits::JETSTREAM_SWEEP_MS);
        if locked(&self.swept_at).is_some_and(|at| at.elapsed() < every) {
            tokio::time::sleep(Duration::from_millis(limits::SOURCE_NEXT_MS_MAX)).await;
            return Ok(());
        }
        self.jetstream.sweep().await?;
        *locked(&self.swept_at) = Some(Instant::now());
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let suspected = locked(&self.jetstream.suspected).iter().map(|it| it.messages).sum();
        vec![("sweeps", self.sweeps.load(Ordering::Relaxed)), ("suspected", suspected)]
    }
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("source", &self.jetstream.config.name).finish_non_exhaustive()
    }
}
