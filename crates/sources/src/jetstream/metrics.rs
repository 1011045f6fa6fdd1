//! Acknowledgement metrics, which prove that a redriven message was handled.
//!
//! The server publishes a metric for each sampled acknowledgement, and the metrics stream keeps it for an hour. Each instance reads
//! the stream when it verifies, so nothing is lost by a restart.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::{Value, json};

use super::JetStream;
use super::api::text;
use super::topology::ACK_METRIC;
use crate::SourceError;

/// The minimum time between two reads.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Pulls per read; the rest is left to the next read.
const PULLS_MAX: usize = 50;

/// How long the server keeps the consumer of an instance that is gone.
const INACTIVE_NS: u64 = 300_000_000_000;

/// Stream, consumer and sequence of a message.
type Acked = (String, String, u64);

/// The acknowledgements read so far.
#[derive(Default)]
pub(super) struct AckLog {
    /// Our ephemeral consumer; the server removes it when it is idle.
    consumer: Option<String>,
    acks: HashMap<Acked, Time>,
    order: VecDeque<Acked>,
    read_at: Option<Instant>,
}

impl JetStream {
    /// Returns when the consumer acknowledged a message, if a metric was published.
    pub(super) async fn acked_at(
        &self,
        stream: &str,
        consumer: &str,
        sequence: u64,
    ) -> Result<Option<Time>, SourceError> {
        let mut log = self.acks.lock().await;
        let acked = (stream.to_owned(), consumer.to_owned(), sequence);
        if !log.acks.contains_key(&acked) && log.read_at.is_none_or(|at| at.elapsed() >= READ_EVERY) {
            let read = log.read(self).await;
            log.read_at = Some(Instant::now());
            if let Err(error) = read {
                // The next read creates another consumer, which starts at the first metric kept.
                log.consumer = None;
                return Err(error);
            }
        }
        Ok(log.acks.get(&acked).copied())
    }
}

impl AckLog {
    async fn read(&mut self, jetstream: &JetStream) -> Result<(), SourceError> {
        let stream = &jetstream.config.metrics_stream;
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => {
                let config = json!({
                    "ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant",
                    "filter_subject": format!("{ACK_METRIC}.>"), "inactive_threshold": INACTIVE_NS,
                });
                jetstream.link.put_consumer(stream, &config).await?.name().to_owned()
            }
        };
        for _ in 0..PULLS_MAX {
            let metrics = jetstream
                .link
                .pull(stream, &consumer, limits::JETSTREAM_MESSAGES_MAX, Duration::ZERO)
                .await?;
            for metric in &metrics {
                if let Some((acked, at)) = read_metric(&metric.message.payload, metric.ack.time) {
                    self.remember(acked, at);
                }
            }
            if metrics.len() < limits::JETSTREAM_MESSAGES_MAX {
                break;
            }
        }
        self.consumer = Some(consumer);
        Ok(())
    }

    fn remember(&mut self, acked: Acked, at: Time) {
        if self.acks.insert(acked.clone(), at).is_none() {
            self.order.push_back(acked);
        }
        while self.order.len() > limits::JETSTREAM_ACKS_REMEMBERED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.acks.remove(&oldest);
            }
        }
    }
}

fn read_metric(body: &[u8], stored_at: Time) -> Option<(Acked, Time)> {
    let metric: Value = serde_json::from_slice(body).ok()?;
    let sequence = metric.get("stream_seq")?.as_u64()?;
    let at = Time::parse(text(&metric, "timestamp")).unwrap_or(stored_at);
    let (stream, consumer) = (text(&metric, "stream"), text(&metric, "consumer"));
    (!stream.is_empty()).then(|| ((stream.to_owned(), consumer.to_owned(), sequence), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_acknowledgements_are_forgotten_first() {
        let mut log = AckLog::default();
        let acked = |n: u64| ("S".to_owned(), "c".to_owned(), n);
        for n in 0..limits::JETSTREAM_ACKS_REMEMBERED_MAX as u64 + 10 {
            log.remember(acked(n), Time::from_ms(1));
        }
        assert_eq!(log.acks.len(), limits::JETSTREAM_ACKS_REMEMBERED_MAX);
        assert!(!log.acks.contains_key(&acked(9)) && log.acks.contains_key(&acked(10)));
    }

    #[test]
    fn what_is_no_metric_is_passed_over() {
        for body in ["", "{}", "[]", "{\"stream_seq\": \"7\"}", "{\"stream_seq\": 7}"] {
            assert_eq!(read_metric(body.as_bytes(), Time::from_ms(1)), None, "{body}");
        }
        let metric = br#"{"stream":"S","consumer":"c","stream_seq":7,"timestamp":"2026-11-15T03:00:00Z"}"#;
        let (acked, at) = read_metric(metric, Time::from_ms(1)).unwrap();
        assert_eq!((acked, at.to_string()), (("S".into(), "c".into(), 7), "2026-11-15T03:00:00.000Z".into()));
    }
}
