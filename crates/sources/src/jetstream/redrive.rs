//! Redrive: publishes a letter to its original subject, and verifies it by its consumer's acknowledgement.

use std::fmt;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use lazaret_core::attempt::LetterError;
use lazaret_core::broker;
use lazaret_core::limits;
use lazaret_core::origin::{JetStreamOrigin, Origin};
use lazaret_core::retry::Preset;
use lazaret_core::time::Time;
use serde_json::Value;

use super::JetStream;
use super::api::{ConsumerInfo, Retention};
use super::publish::{PublishError, Stored, append};
use super::topology::{MAX_DELIVERIES, MSG_TERMINATED};
use crate::SourceError;
use crate::connection::{locked, now};
use crate::destination::{Destination, Outgoing, Refusal, Route, Sent, SentCopy, Silence, Verified};
use crate::redriven::EVENT_ID;

/// The shortest duplicate window that allows a resend, which begins when the claim expires.
const WINDOW_MS_MIN: u64 = limits::CLAIM_LEASE_MS + limits::JETSTREAM_REQUEST_MS_MAX + limits::CLAIM_SLACK_MS;

/// The pause before a publish with an unknown outcome is repeated.
const PUBLISH_PAUSE: Duration = Duration::from_millis(500);

/// How many letters are verified concurrently.
const VERIFY_CONCURRENCY: usize = 16;

/// The only `Nats-` header that belongs to the message; the others belong to its first publication.
const TTL: &str = "Nats-TTL";

/// Whether an advisory reported a message as exhausted or terminated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GivenUp {
    Yes,
    No,
    /// The last advisory is newer than the message and about another one; an earlier advisory may be about this message.
    Unknown,
}

/// A published message.
struct Handle<'a> {
    stream: &'a str,
    sequence: u64,
    /// The consumer that failed before, whose acknowledgement proves success.
    consumer: Option<&'a str>,
}

impl<'a> Handle<'a> {
    /// Parses `<stream>:<sequence>`, followed by a space and the consumer if it is known. Names have no spaces.
    fn parse(text: &'a str) -> Option<Handle<'a>> {
        let (place, consumer) = match text.split_once(' ') {
            Some((place, consumer)) => (place, Some(consumer)),
            None => (text, None),
        };
        let (stream, sequence) = place.rsplit_once(':')?;
        Some(Handle { stream, sequence: sequence.parse().ok()?, consumer })
    }
}

impl fmt::Display for Handle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.sequence)?;
        self.consumer.map_or(Ok(()), |consumer| write!(f, " {consumer}"))
    }
}

impl JetStream {
    /// Caches the duplicate window of a stream.
    pub(super) async fn remember_window(&self, stream: &str) -> Result<(), SourceError> {
        if let Some(info) = self.stream(stream).await? {
            locked(&self.windows_ms).insert(stream.to_owned(), info.duplicate_window_ms());
        }
        Ok(())
    }

    /// Builds the headers of a redriven message. Fails with the name of a header that cannot be sent.
    fn redrive_headers(&self, outgoing: &Outgoing) -> Result<Vec<(String, String)>, String> {
        let mut headers = Vec::new();
        for (name, value) in &outgoing.headers {
            let is_ours = broker::REDRIVE_HEADERS.iter().any(|ours| ours.eq_ignore_ascii_case(name));
            if is_ours || name.eq_ignore_ascii_case(EVENT_ID) {
                continue;
            }
            let Some(value) = value.simple_text() else { return Err(name.clone()) };
            let of_server = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("Nats-"));
            let name = match of_server && !name.eq_ignore_ascii_case(TTL) {
                // The server would interpret it.
                true => format!("{}{name}", broker::ORIGINAL_HEADER_PREFIX),
                false => name.clone(),
            };
            headers.push((name, value.into_owned()));
        }
        let ours = [
            (broker::LETTER_ID, outgoing.letter.to_string()),
            (broker::LIFE, outgoing.life.to_string()),
            (broker::REDRIVE_ID, outgoing.redrive.to_string()),
            (broker::IDEMPOTENCY_KEY, outgoing.idempotency_key.clone()),
            (broker::MESSAGE_ID, outgoing.idempotency_key.clone()),
            (EVENT_ID, outgoing.message_id.clone()),
        ];
        headers.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        Ok(headers)
    }

    async fn publish_letter(&self, outgoing: &Outgoing) -> Sent {
        let Some(origin) = origin(outgoing) else {
            return refused(
                "NoOrigin",
                None,
                "the letter does not say which subject it was published on".to_owned(),
            );
        };
        let mut headers = HeaderMap::new();
        let named = match self.redrive_headers(outgoing) {
            Ok(named) => named,
            Err(name) => return unsendable(&name),
        };
        for (name, value) in &named {
            if !append(&mut headers, name, value) {
                return unsendable(name);
            }
        }
        if let (Some(stream), Some(consumer)) = (&origin.stream, &origin.consumer)
            && let Err(error) = self.sample(stream, consumer).await
        {
            // Verification falls back to weaker evidence.
            tracing::warn!(
                source = self.config.name,
                "acknowledgements of {stream}.{consumer} are not sampled: {error}"
            );
        }
        match self.publish_until_known(&origin.subject, &headers, &outgoing.body).await {
            Ok(Stored { stream, sequence, .. }) => {
                let consumer = origin.consumer.as_deref();
                Sent::Taken { handle: Some(Handle { stream: &stream, sequence, consumer }.to_string()) }
            }
            Err(PublishError::NotConnected(error)) => Sent::Unsent(error.to_string()),
            Err(PublishError::Unknown(why)) => Sent::Unknown(why),
            Err(PublishError::NoStream) => self.no_stream(&origin.subject).await,
            Err(PublishError::TooLarge) => {
                let why = "the message and its headers are larger than the server allows (max_payload)";
                refused("MessageTooLarge", None, why.to_owned())
            }
            Err(PublishError::Refused { code, why }) => refused("StreamRefused", code, why),
        }
    }

    /// Publishes, and repeats it under the same message id while the outcome is unknown and the stream deduplicates: when a cluster
    /// elects a leader, the outcome of every publish in flight is unknown.
    async fn publish_until_known(
        &self,
        subject: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Stored, PublishError> {
        let until = Instant::now() + Duration::from_millis(limits::JETSTREAM_SEND_MS_MAX);
        let mut unknown = None;
        loop {
            let why = match (self.link.publish(subject, headers.clone(), body.clone()).await, unknown) {
                (Ok(stored), _) => return Ok(stored),
                (Err(PublishError::Unknown(why)), _) => why,
                (Err(error), None) => return Err(error),
                // An earlier publish may have been stored, whatever this error is.
                (Err(_), Some(why)) => why,
            };
            if !self.deduplicates() || Instant::now() + PUBLISH_PAUSE >= until {
                return Err(PublishError::Unknown(why));
            }
            tokio::time::sleep(PUBLISH_PAUSE).await;
            unknown = Some(why);
        }
    }

    /// Nothing was stored: no stream captures the subject, or it has no leader.
    async fn no_stream(&self, subject: &str) -> Sent {
        match self.link.streams_on(subject).await {
            Ok(streams) if streams.is_empty() => {
                refused("NoStream", None, format!("no stream captures {subject}"))
            }
            Ok(_) => Sent::Unsent(format!("the stream that captures {subject} has no leader")),
            Err(error) => Sent::Unsent(error.to_string()),
        }
    }

    async fn route_to(&self, origin: &JetStreamOrigin) -> Result<Route, SourceError> {
        let streams = self.link.streams_on(&origin.subject).await?;
        if streams.is_empty() {
            let why = format!("no stream captures {}", origin.subject);
            return Err(SourceError::Refused { code: None, why });
        }
        let mut also_reaches = Vec::new();
        for stream in &streams {
            self.remember_window(stream).await?;
            for consumer in self.link.consumers(stream).await? {
                let has_failed = origin.stream.as_ref() == Some(stream)
                    && origin.consumer.as_deref() == Some(consumer.name());
                if !has_failed && consumer.matches_subject(&origin.subject) {
                    also_reaches.push(format!("{stream}.{}", consumer.name()));
                }
            }
        }
        Ok(Route { address: format!("{} {}", self.link.address(), origin.subject), also_reaches })
    }

    async fn verify_handle(&self, handle: &Handle<'_>, consumer: &str) -> Result<Verified, SourceError> {
        let Handle { stream, sequence, .. } = *handle;
        if let Some(at) = self.acked_at(stream, consumer, sequence).await? {
            return Ok(Verified::Succeeded { evidence: "acked", at });
        }
        let Some(info) = self.link.consumer(stream, consumer).await? else { return Ok(Verified::NotYet) };
        if info.delivered() < sequence {
            return Ok(Verified::NotYet);
        }
        let message = self.link.message(stream, sequence).await?;
        let sent_at = message.as_ref().map(|message| message.time);
        let given_up = self.given_up(stream, consumer, sequence, sent_at).await?;
        if given_up == GivenUp::Yes {
            // The message becomes a letter; until then, silence must not count as success.
            return Ok(Verified::NotYet);
        }
        if given_up == GivenUp::No {
            let retention = self.stream(stream).await?.map(|info| info.retention());
            let is_gone = message.is_none() && retention == Some(Retention::WorkQueue);
            if is_gone || info.ack_floor() >= sequence {
                return Ok(Verified::Succeeded { evidence: "acked", at: now() });
            }
        }
        Ok(Verified::Taken(silence(&info)))
    }

    /// Checks the consumer's last advisories. Before 2.10 the ack floor passes exhausted messages, and a terminated message leaves a
    /// work queue like an acknowledged one.
    async fn given_up(
        &self,
        stream: &str,
        consumer: &str,
        sequence: u64,
        sent_at: Option<Time>,
    ) -> Result<GivenUp, SourceError> {
        let mut answer = GivenUp::No;
        for event in [MAX_DELIVERIES, MSG_TERMINATED] {
            let subject = format!("{event}.{stream}.{consumer}");
            let Some(last) = self.link.last_message(&self.config.advisory_stream, &subject).await? else {
                continue;
            };
            let advisory: Value = serde_json::from_slice(&last.body).unwrap_or_default();
            let about = advisory.get("stream_seq").and_then(Value::as_u64);
            let is_later = match sent_at {
                Some(sent_at) => last.time >= sent_at,
                // Without a time, compare sequences.
                None => about.is_none_or(|about| about >= sequence),
            };
            if about == Some(sequence) {
                return Ok(GivenUp::Yes);
            }
            if is_later {
                answer = GivenUp::Unknown;
            }
        }
        Ok(answer)
    }
}

/// How long a delivered message must stay quiet to count as handled: by then the server would have exhausted it.
fn silence(info: &ConsumerInfo) -> Silence {
    match info.total_retry_ms() {
        // A worker's own retry delays may be longer than the server's.
        Some(server_ms) => {
            Silence::Succeeds { after_ms: server_ms.max(Preset::Jetstream.policy().total_ms_max()) }
        }
        // Deliveries are unlimited, so silence proves nothing.
        None => Silence::SaysNothing,
    }
}

fn origin(outgoing: &Outgoing) -> Option<&JetStreamOrigin> {
    match &outgoing.origin {
        Some(Origin::JetStream(origin)) if !origin.subject.is_empty() => Some(origin),
        Some(Origin::JetStream(_) | Origin::RabbitMq(_) | Origin::Other(_)) | None => None,
    }
}

fn unsendable(header: &str) -> Sent {
    let why = format!("header {header:?} cannot be sent over NATS: it is not one line of text");
    refused("HeaderNotSendable", None, why)
}

fn refused(error_type: &str, code: Option<String>, message: String) -> Sent {
    let error = LetterError { error_type: error_type.to_owned(), code, message, ..LetterError::default() };
    Sent::Refused(Box::new(Refusal { status: None, error }))
}

#[async_trait]
impl Destination for JetStream {
    fn address(&self) -> String {
        self.link.address()
    }

    /// Returns true if the duplicate window of every known stream lasts until a claim has expired.
    fn deduplicates(&self) -> bool {
        let windows = locked(&self.windows_ms);
        !windows.is_empty() && windows.values().all(|window| *window >= WINDOW_MS_MIN)
    }

    fn dedup_window_ms(&self) -> Option<u64> {
        Some(locked(&self.windows_ms).values().copied().min().unwrap_or(0))
    }

    fn by_message_id(&self) -> bool {
        true
    }

    fn headers(&self, outgoing: &Outgoing) -> Option<Vec<(String, String)>> {
        self.redrive_headers(outgoing).ok()
    }

    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String> {
        match origin(outgoing) {
            Some(origin) => self.route_to(origin).await.map_err(|error| error.to_string()),
            // Only the address was asked for.
            None if outgoing.message_id.is_empty() => {
                Ok(Route { address: self.link.address(), also_reaches: Vec::new() })
            }
            None => Err("the letter does not say which subject it was published on".to_owned()),
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        self.publish_letter(outgoing).await
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        let looks: Vec<_> = sent.iter().map(|one| self.verify_one(one)).collect();
        stream::iter(looks).buffered(VERIFY_CONCURRENCY).collect().await
    }
}

impl JetStream {
    async fn verify_one(&self, sent: &SentCopy) -> Verified {
        let Some(handle) = sent.handle.as_deref().and_then(Handle::parse) else {
            return Verified::Taken(Silence::SaysNothing);
        };
        // Without a consumer, no acknowledgement can prove success.
        let Some(consumer) = handle.consumer else { return Verified::Taken(Silence::SaysNothing) };
        match self.verify_handle(&handle, consumer).await {
            Ok(verified) => verified,
            Err(error) => {
                let (source, letter) = (&self.config.name, sent.letter);
                tracing::warn!(source, "letter {letter} cannot be verified now: {error}");
                Verified::NotYet
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_as_they_were_written() {
        for consumer in [None, Some("worker")] {
            let text = Handle { stream: "OR:DERS", sequence: 42, consumer }.to_string();
            let handle = Handle::parse(&text).unwrap();
            assert_eq!((handle.stream, handle.sequence, handle.consumer), ("OR:DERS", 42, consumer));
        }
        for text in ["", "ORDERS", "ORDERS:", "ORDERS:x", "ORDERS:x worker"] {
            assert!(Handle::parse(text).is_none(), "{text}");
        }
    }
}
