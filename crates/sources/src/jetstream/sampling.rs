//! Acknowledgement sampling, enabled for a consumer while letters are redriven to it and restored afterwards.
//!
//! The previous setting is recorded in the advisory stream before it is changed, so the leader can restore it after a crash. This
//! process only keeps the time of its last record.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_trait::async_trait;
use lazaret_core::broker::escape_token;
use lazaret_core::limits;
use serde_json::{Value, json};

use super::JetStream;
use super::api::{ConsumerInfo, text};
use super::topology::SAMPLING;
use crate::connection::{locked, now};
use crate::{Duty, SourceError};

/// How often a redrive renews its record: well within the time after which sampling is restored.
const REFRESH_EVERY: Duration = Duration::from_secs(30);

/// How often the duty checks for sampling that is no longer needed.
const CHECK_EVERY: Duration = Duration::from_secs(30);

const EVERY_ACK: &str = "100";

/// When this process last renewed the record of a consumer.
#[derive(Default)]
pub(super) struct Sampled(HashMap<(String, String), Instant>);

/// Restores sampling that is no longer needed.
pub struct Sampling {
    jetstream: Arc<JetStream>,
    checked_at: std::sync::Mutex<Option<Instant>>,
    restored: AtomicU64,
}

impl JetStream {
    /// Enables sampling of every acknowledgement of a consumer for some minutes.
    pub(super) async fn sample(&self, stream: &str, consumer: &str) -> Result<(), SourceError> {
        let key = (stream.to_owned(), consumer.to_owned());
        if locked(&self.sampling).0.get(&key).is_some_and(|at| at.elapsed() < REFRESH_EVERY) {
            return Ok(());
        }
        let Some(info) = self.link.consumer(stream, consumer).await? else { return Ok(()) };
        let subject = record_subject(stream, consumer);
        if samples_all(&info) {
            // Ours if a record exists, else the application's own setting.
            if let Some(record) = self.link.last_message(&self.config.advisory_stream, &subject).await? {
                self.write_record(&subject, record.body).await?;
            }
        } else {
            let was = text(info.config(), "sample_freq");
            let record = json!({"stream": stream, "consumer": consumer, "was": was});
            self.write_record(&subject, record.to_string().into()).await?;
            self.set_sampling(stream, &info, EVERY_ACK).await?;
        }
        locked(&self.sampling).0.insert(key, Instant::now());
        Ok(())
    }

    async fn write_record(&self, subject: &str, record: bytes::Bytes) -> Result<(), SourceError> {
        let written = self.link.publish(subject, HeaderMap::new(), record).await;
        written.map(|_| ()).map_err(|error| error.into_source_error("recording the sampling of a consumer"))
    }

    async fn set_sampling(&self, stream: &str, info: &ConsumerInfo, to: &str) -> Result<(), SourceError> {
        let mut config = info.config().clone();
        if let Some(config) = config.as_object_mut() {
            config.insert("sample_freq".to_owned(), json!(to));
        }
        self.link.put_consumer(stream, &config).await.map(|_| ())
    }

    /// Restores the sampling of consumers whose record is older than `idle`; returns their number.
    pub async fn restore_sampling(&self, idle: Duration) -> Result<u64, SourceError> {
        let stream = &self.config.advisory_stream;
        let body = json!({"subjects_filter": format!("{SAMPLING}.>")});
        let info =
            self.link.request("listing sampled consumers", &format!("STREAM.INFO.{stream}"), &body).await?;
        let subjects =
            info.pointer("/state/subjects").and_then(Value::as_object).cloned().unwrap_or_default();
        let idle_ms = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let mut restored = 0;
        for subject in subjects.keys() {
            let Some(record) = self.link.last_message(stream, subject).await? else { continue };
            if now().since(record.time) < idle_ms {
                continue;
            }
            let saved: Value = serde_json::from_slice(&record.body).unwrap_or_default();
            let (sampled, consumer) = (text(&saved, "stream"), text(&saved, "consumer"));
            if let Some(info) = self.link.consumer(sampled, consumer).await?
                && samples_all(&info)
            {
                self.set_sampling(sampled, &info, text(&saved, "was")).await?;
            }
            self.link.purge(stream, subject).await?;
            locked(&self.sampling).0.remove(&(sampled.to_owned(), consumer.to_owned()));
            restored += 1;
        }
        Ok(restored)
    }
}

fn record_subject(stream: &str, consumer: &str) -> String {
    format!("{SAMPLING}.{}.{}", escape_token(stream), escape_token(consumer))
}

fn samples_all(info: &ConsumerInfo) -> bool {
    text(info.config(), "sample_freq").trim_end_matches('%') == EVERY_ACK
}

impl Sampling {
    pub fn new(jetstream: Arc<JetStream>) -> Sampling {
        Sampling { jetstream, checked_at: std::sync::Mutex::default(), restored: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Duty for Sampling {
    fn name(&self) -> &'static str {
        "sampling"
    }

    fn is_leader_only(&self) -> bool {
        true
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        if locked(&self.checked_at).is_some_and(|at| at.elapsed() < CHECK_EVERY) {
            tokio::time::sleep(Duration::from_millis(limits::SOURCE_NEXT_MS_MAX)).await;
            return Ok(());
        }
        let idle = Duration::from_millis(limits::JETSTREAM_SAMPLING_MS);
        let restored = self.jetstream.restore_sampling(idle).await?;
        *locked(&self.checked_at) = Some(Instant::now());
        self.restored.fetch_add(restored, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("restored", self.restored.load(Ordering::Relaxed))]
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling").field("source", &self.jetstream.config.name).finish_non_exhaustive()
    }
}
