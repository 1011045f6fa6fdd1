//! Receipts: a worker reports that a redriven message succeeded, or one that was reported as exhausted.

use std::time::Duration;

use lazaret_core::broker;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::JetStream;
use crate::{Receipt, SourceError, WorkerReceipt};

impl JetStream {
    pub(super) async fn pull_receipts(&self) -> Result<Vec<WorkerReceipt>, SourceError> {
        let wait = Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
        let durable = self.config.receipts_durable();
        let pulled = self
            .link
            .pull(&self.config.advisory_stream, &durable, limits::JETSTREAM_MESSAGES_MAX, wait)
            .await?;
        let mut receipts = Vec::with_capacity(pulled.len());
        for delivered in pulled {
            let body = String::from_utf8_lossy(&delivered.message.payload);
            match broker::Receipt::parse(&body) {
                Some((receipt, at)) => {
                    receipts.push(WorkerReceipt { receipt, at, ack: Receipt::new(delivered.ack.subject) });
                }
                None => {
                    tracing::warn!(
                        source = self.config.name,
                        "message {} on {} is not the receipt of a success and is dropped",
                        delivered.ack.stream_sequence,
                        broker::RECEIPTS_SUBJECT
                    );
                    self.link.double_ack(&delivered.ack.subject).await?;
                }
            }
        }
        Ok(receipts)
    }
}

/// Parses an id that `captured_id` made. The id does not name the consumer.
pub(super) fn origin_of(captured_id: &str, consumer: &str) -> Option<broker::StreamOrigin> {
    let mut parts = captured_id.rsplitn(3, ':');
    let sequence = parts.next()?.parse().ok()?;
    let stream_created = Time::from_ms(parts.next()?.parse().ok()?);
    let stream = broker::unescape_token(parts.next()?)?;
    Some(broker::StreamOrigin { stream, stream_created, sequence, consumer: consumer.to_owned() })
}

/// The id under which a message is captured. A late receipt matches a letter by this id and its consumer, the subscriber.
pub fn captured_id(origin: &broker::StreamOrigin) -> String {
    let stream = broker::escape_token(&origin.stream).replace(':', "%3A");
    format!("{stream}:{}:{}", origin.stream_created.ms(), origin.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for stream in ["ORDERS", "OR:DERS", "OR%DERS"] {
            let origin = broker::StreamOrigin {
                stream: stream.to_owned(),
                stream_created: Time::from_ms(1_763_175_600_000),
                sequence: 42,
                consumer: "worker".to_owned(),
            };
            assert_eq!(origin_of(&captured_id(&origin), "worker"), Some(origin));
        }
        for id in ["", "7", "1:7", "ORDERS:x:7", "ORDERS:1:x"] {
            assert_eq!(origin_of(id, "worker"), None, "{id}");
        }
    }
}
