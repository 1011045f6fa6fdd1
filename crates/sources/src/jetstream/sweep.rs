//! The sweep: messages that may be exhausted without an advisory, because the server sends one only when a worker pulls.
//!
//! It compares what the server says of the watched consumers and reports numbers. It never pulls from a consumer of an
//! application: that would count as a delivery. It also retries deletions that had to wait.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::JetStream;
use super::api::ConsumerInfo;
use crate::standing::{locked, now};
use crate::{Duty, Finding, SourceError};

/// Messages of one consumer that may be exhausted and unreported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspected {
    pub stream: String,
    pub consumer: String,
    pub messages: u64,
    /// When a message was delivered last.
    pub last_delivery_at: Option<Time>,
}

/// Looks at the watched consumers.
pub struct Sweep {
    jetstream: Arc<JetStream>,
    swept_at: Mutex<Option<Instant>>,
    sweeps: AtomicU64,
}

impl JetStream {
    /// Looks at every watched consumer once.
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

/// How many messages may be exhausted: delivered again at least once, unacknowledged, with nobody there to be delivered to, and
/// quiet for as long as the server takes to try a message to the end. With a worker waiting, the server reports by itself.
fn suspected(info: &ConsumerInfo, now: Time) -> u64 {
    let Some(total_ms) = info.total_retry_ms() else { return 0 };
    let is_quiet =
        info.last_active().is_some_and(|at| now.since(at) > i64::try_from(total_ms).unwrap_or(i64::MAX));
    if info.is_attended() || !is_quiet {
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
                "{messages} messages of {stream}.{consumer} are suspected to be exhausted: nobody pulls{since}"
            ),
            "start its workers: the server reports exhausted messages only when somebody pulls",
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

    /// Every instance sweeps for its own health, and deletes what itself captured.
    fn is_leader_only(&self) -> bool {
        false
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        let every = Duration::from_millis(limits::JETSTREAM_SWEEP_MS);
        if locked(&self.swept_at).is_some_and(|at| at.elapsed() < every) {
            tokio::time::sleep(Duration::from_millis(limits::SOURCE_NEXT_MS_MAX)).await;
            return Ok(());
        }
        self.jetstream.delete_waiting().await;
        self.jetstream.sweep().await?;
        *locked(&self.swept_at) = Some(Instant::now());
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let suspected = locked(&self.jetstream.suspected).iter().map(|it| it.messages).sum();
        let waiting = locked(&self.jetstream.waiting);
        vec![
            ("sweeps", self.sweeps.load(Ordering::Relaxed)),
            ("suspected", suspected),
            ("deleted", waiting.deleted),
            ("waiting_to_delete", waiting.len() as u64),
            ("not_deleted", waiting.forgotten),
        ]
    }
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("source", &self.jetstream.config.name).finish_non_exhaustive()
    }
}
