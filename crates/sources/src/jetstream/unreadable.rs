//! Dead letters with headers that the client library cannot parse: it drops the connection at each delivery.
//!
//! They are replaced by copies with re-encoded headers. The copy is published under an id of its own before the original is
//! deleted, so a crash in between results in one letter.

use lazaret_core::broker::StreamOrigin;

use super::JetStream;
use super::letter::readable_headers;
use crate::SourceError;

/// Consecutive connection losses before unreadable letters are searched.
pub(super) const LOSSES_MIN: u32 = 2;

/// Sequences per search.
const SEARCHED_MAX: u64 = 1_000;

impl JetStream {
    /// Replaces unreadable letters among the delivered and unacknowledged ones; returns their number.
    pub(super) async fn replace_unreadable(&self) -> Result<usize, SourceError> {
        let stream = &self.config.dlq_stream;
        let Some(durable) = self.link.consumer(stream, &self.config.capture_durable()).await? else {
            return Ok(0);
        };
        let created = self.stream(stream).await?.and_then(|info| info.created()).unwrap_or_default();
        let first = durable.ack_floor().saturating_add(1);
        let last = durable.delivered().min(first.saturating_add(SEARCHED_MAX));
        let mut replaced = 0;
        for sequence in first..=last {
            let Some(message) = self.link.message(stream, sequence).await? else { continue };
            if message.is_readable {
                continue;
            }
            let place = StreamOrigin {
                stream: stream.clone(),
                stream_created: created,
                sequence,
                consumer: String::new(),
            };
            let headers = readable_headers(&message, &place);
            let stored = self.link.publish(&message.subject, headers, message.body.clone()).await;
            stored.map_err(|error| error.into_source_error("copying an unreadable dead letter"))?;
            self.link.delete_message(stream, sequence).await?;
            tracing::warn!(
                source = self.config.name,
                "dead letter {sequence} of {stream} has unreadable headers and is replaced by a copy"
            );
            replaced += 1;
        }
        Ok(replaced)
    }
}
