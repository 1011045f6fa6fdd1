//! Publishing dead letters and receipts. A dead letter is published once the server has confirmed it, not before.

use std::str::FromStr as _;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, HeaderMap, HeaderName, HeaderValue, Message};
use lazaret_core::broker::{self, BrokerDeath, Receipt, StreamOrigin};

use crate::handling::now;

/// A server that elects a new leader answers again within a few seconds.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// What headers cost as a whole: the line before them and the line after.
const FRAME_BYTES: usize = 12;

/// What one header costs beside name and value.
const HEADER_BYTES: usize = 4;

/// Publishes the message to the dead-letter subject of its consumer.
pub(crate) async fn publish(
    client: &Client,
    original: &Message,
    origin: &StreamOrigin,
    death: &BrokerDeath,
) -> Result<(), async_nats::Error> {
    let headers = headers(original, origin, death, client.max_payload());
    publish_confirmed(client, origin.dead_letter_subject(), headers, original).await
}

async fn publish_confirmed(
    client: &Client,
    subject: String,
    headers: HeaderMap,
    original: &Message,
) -> Result<(), async_nats::Error> {
    let context = async_nats::jetstream::new(client.clone());
    let mut tried = 0;
    loop {
        let message = PublishMessage::build().payload(original.payload.clone()).headers(headers.clone());
        tried += 1;
        let Err(error) = send(&context, &subject, message).await else {
            return Ok(());
        };
        // Trying again at once helps neither a missing stream nor a message that is too large.
        let is_final =
            matches!(error.kind(), PublishErrorKind::StreamNotFound | PublishErrorKind::MaxPayloadExceeded);
        if is_final || tried == TRIES {
            return Err(error.into());
        }
        tokio::time::sleep(PAUSE * tried).await;
    }
}

async fn send(
    context: &Context,
    subject: &str,
    message: PublishMessage,
) -> Result<(), async_nats::jetstream::context::PublishError> {
    context.send_publish(subject.to_owned(), message).await?.await?;
    Ok(())
}

/// The original's headers, moved aside where they would mean something else, and behind them what is known of the death.
fn headers(original: &Message, origin: &StreamOrigin, death: &BrokerDeath, payload_max: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut used = FRAME_BYTES;
    for (name, values) in original.headers.iter().flat_map(HeaderMap::iter) {
        let kept = broker::dead_letter_header(name.as_ref()).into_owned();
        let Ok(kept) = HeaderName::try_from(kept) else { continue };
        for value in values {
            used += AsRef::<str>::as_ref(&kept).len() + value.as_str().len() + HEADER_BYTES;
            headers.append(kept.clone(), value.clone());
        }
    }
    let id = origin.message_id();
    used += broker::MESSAGE_ID.len() + id.len() + HEADER_BYTES;
    let room = payload_max.saturating_sub(original.payload.len()).min(broker::HEADER_BYTES_MAX);
    let own = death.headers(room.saturating_sub(used));
    for (name, value) in own.into_iter().chain([(broker::MESSAGE_ID, id)]) {
        // Every value was escaped to one line.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// Publishes a receipt as well as it can be: the work is done and must not be done again because of it.
pub(crate) async fn publish_receipt(client: &Client, subject: &str, receipt: &Receipt) {
    let context = async_nats::jetstream::new(client.clone());
    let body = receipt.json(now());
    for attempt in 1..=TRIES {
        let message = PublishMessage::build().payload(body.clone().into()).message_id(receipt.message_id());
        match send(&context, subject, message).await {
            Ok(()) => return,
            // Whoever listens without a stream has got it.
            Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                tracing::debug!("no stream keeps receipts on {subject}");
                return;
            }
            Err(error) if attempt == TRIES => {
                tracing::warn!("cannot publish the receipt {body} to {subject}: {error}");
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
