//! Pull requests to our own consumers, and acknowledgements by ack subject.
//!
//! A pull request does not outlive its call: a message that was delivered and not returned is redelivered after the ack wait.

use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, Message, Subject};
use futures_util::StreamExt as _;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::{Value, json};

use super::link::Link;
use crate::SourceError;

const PULLING: &str = "pulling messages";

/// How long a response may take beyond the requested time.
const GRACE: Duration = Duration::from_secs(2);

/// The longest redelivery delay.
const REDELIVERY_DELAY_MAX: Duration = Duration::from_secs(60);

/// How often the connection is checked while nothing arrives: a subscription outlives it.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// A delivered message.
#[derive(Debug)]
pub(super) struct Delivered {
    pub message: Message,
    pub ack: AckSubject,
}

/// A parsed ack subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AckSubject {
    pub subject: String,
    pub deliveries: u64,
    pub stream_sequence: u64,
    /// When the message was stored.
    pub time: Time,
}

impl Link {
    /// Pulls up to `max` messages. Waits for the first one for at most `wait`.
    pub async fn pull(
        &self,
        stream: &str,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivered>, SourceError> {
        let client = self.client().await?;
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        // A single message may be as large as the server allows.
        let bytes = limits::JETSTREAM_BYTES_MAX.max(client.max_payload().saturating_mul(2));
        let at_once = |batch: usize| json!({"batch": batch, "no_wait": true, "max_bytes": bytes});
        let mut all = pull_once(&client, &next, &at_once(max), max, GRACE).await?;
        if !all.is_empty() || wait.is_zero() {
            return Ok(all);
        }
        let expires = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        all = pull_once(&client, &next, &json!({"batch": 1, "expires": expires}), 1, wait + GRACE).await?;
        if !all.is_empty() && max > 1 {
            all.extend(pull_once(&client, &next, &at_once(max - 1), max - 1, GRACE).await?);
        }
        Ok(all)
    }

    /// Acknowledges a delivery and waits for the server's confirmation.
    pub async fn double_ack(&self, subject: &str) -> Result<(), SourceError> {
        let client = self.client().await?;
        let acked = client.request(Subject::from(subject), "+ACK".into()).await;
        acked
            .map(|_| ())
            .map_err(|error| SourceError::Unavailable { doing: "acknowledging", why: error.to_string() })
    }

    /// Acknowledges deliveries of one consumer and waits for the server's confirmation. The server processes acknowledgements in
    /// order, so only the last one is confirmed. A connection that is lost in between may lose some; these messages are
    /// redelivered.
    pub async fn ack_all(&self, subjects: &[&str]) -> Result<(), SourceError> {
        let Some((last, others)) = subjects.split_last() else { return Ok(()) };
        let client = self.client().await?;
        for subject in others {
            let sent = client.publish(Subject::from(*subject), "+ACK".into()).await;
            sent.map_err(|error| SourceError::Unavailable {
                doing: "acknowledging",
                why: error.to_string(),
            })?;
        }
        self.double_ack(last).await
    }

    /// Requests a redelivery after a delay.
    pub async fn nak(&self, subject: &str, delay: Duration) -> Result<(), SourceError> {
        let client = self.client().await?;
        let nak = format!("-NAK {{\"delay\":{}}}", delay.as_nanos());
        client.publish(Subject::from(subject), nak.into()).await.map_err(|error| SourceError::Unavailable {
            doing: "requesting a redelivery",
            why: error.to_string(),
        })
    }
}

/// Sends one pull request and collects messages until it is fulfilled, ended by the server, or timed out.
async fn pull_once(
    client: &Client,
    next: &str,
    request: &Value,
    max: usize,
    time: Duration,
) -> Result<Vec<Delivered>, SourceError> {
    let unavailable = |why: String| SourceError::Unavailable { doing: PULLING, why };
    let inbox = client.new_inbox();
    let mut answers =
        client.subscribe(inbox.clone()).await.map_err(|error| unavailable(error.to_string()))?;
    let body = request.to_string();
    let sent = client.publish_with_reply(next.to_owned(), inbox, body.into()).await;
    sent.map_err(|error| unavailable(error.to_string()))?;
    let (until, mut all) = (Instant::now() + time, Vec::new());
    while all.len() < max {
        let check_at = until.min(Instant::now() + CHECK_EVERY);
        let message = match tokio::time::timeout_at(check_at.into(), answers.next()).await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(unavailable("the connection was lost".to_owned())),
            Err(_) if client.connection_state() != State::Connected => {
                return Err(unavailable("the connection was lost".to_owned()));
            }
            Err(_) if Instant::now() < until => continue,
            // Silence does not prove that the server is alive, so it is an error unless something was delivered.
            Err(_) if all.is_empty() => return Err(unavailable("timed out".to_owned())),
            Err(_) => break,
        };
        let Some(status) = message.status.filter(|status| status.as_u16() != 200) else {
            all.extend(Delivered::from_message(message));
            continue;
        };
        match status.as_u16() {
            // No messages, request expired, or the next message exceeds max_bytes.
            404 | 408 | 409 if !is_gone(&message) => break,
            503 => {
                return Err(unavailable("the durable consumer is missing: declare the topology".to_owned()));
            }
            _ if all.is_empty() => {
                let why = message.description.unwrap_or_else(|| format!("status {status}"));
                return Err(unavailable(why));
            }
            _ => break,
        }
    }
    Ok(all)
}

fn is_gone(message: &Message) -> bool {
    message.description.as_deref().is_some_and(|why| {
        let why = why.to_ascii_lowercase();
        why.contains("deleted") || why.contains("no responders") || why.contains("leadership")
    })
}

impl Delivered {
    fn from_message(message: Message) -> Option<Delivered> {
        let ack = AckSubject::parse(message.reply.as_deref()?)?;
        Some(Delivered { message, ack })
    }
}

impl AckSubject {
    /// The redelivery delay: one second, doubled with each delivery up to a minute.
    pub fn redelivery_delay(&self) -> Duration {
        let doublings = u32::try_from(self.deliveries.saturating_sub(1)).unwrap_or(u32::MAX);
        Duration::from_secs(1_u64.checked_shl(doublings).unwrap_or(u64::MAX)).min(REDELIVERY_DELAY_MAX)
    }

    /// `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>`; newer servers put domain and
    /// account before the stream, and may add a token at the end.
    pub fn parse(subject: &str) -> Option<AckSubject> {
        let tokens: Vec<&str> = subject.split('.').collect();
        let first = match tokens.len() {
            9 => 4,
            11.. => 6,
            _ => return None,
        };
        let number = |at: usize| tokens.get(first + at)?.parse::<u64>().ok();
        Some(AckSubject {
            subject: subject.to_owned(),
            deliveries: number(0)?,
            stream_sequence: number(1)?,
            time: Time::from_ms(i64::try_from(number(3)? / 1_000_000).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_ack_subjects_are_read() {
        for subject in [
            "$JS.ACK.DLQ.lazaret.3.42.7.1763332443123456789.0",
            "$JS.ACK._.ACCHASH.DLQ.lazaret.3.42.7.1763332443123456789.0",
            "$JS.ACK._.ACCHASH.DLQ.lazaret.3.42.7.1763332443123456789.0.token",
        ] {
            let ack = AckSubject::parse(subject).unwrap();
            assert_eq!((ack.deliveries, ack.stream_sequence), (3, 42), "{subject}");
            assert_eq!(ack.time.ms(), 1_763_332_443_123);
        }
        for subject in ["", "$JS.ACK.DLQ.lazaret.x.42.7.1.0", "a.b.c.d.e.f.g.h.i", "$JS.ACK.DLQ"] {
            assert_eq!(AckSubject::parse(subject), None, "{subject}");
        }
    }
}
