//! The way back: a letter is published to its original subject, and its consumer's acknowledgement proves that the work is done.

use std::fmt;

use async_nats::HeaderMap;
use async_trait::async_trait;
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
use crate::destination::{Destination, Outgoing, Refusal, Route, Sent, SentCopy, Silence, Verified};
use crate::redriven::EVENT_ID;
use crate::standing::{locked, now};

/// What a resend needs: the claim of a send that nobody knows the outcome of expires first.
const WINDOW_MS_MIN: u64 = limits::CLAIM_LEASE_MS + limits::JETSTREAM_REQUEST_MS_MAX + limits::CLAIM_SLACK_MS;

/// Letters that are looked up at once.
const VERIFIED_AT_ONCE: usize = 16;

/// The one header of NATS that says something about the message itself; all others were about its first publication.
const TTL: &str = "Nats-TTL";

/// Whether the server gave a message up, as its consumer's last advisories tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GivenUp {
    Yes,
    No,
    /// The last advisory is later than the message and about another one: an earlier one may be about it.
    Unknown,
}

/// A message that a stream took.
struct Handle<'a> {
    stream: &'a str,
    sequence: u64,
    /// The consumer that failed on it before, whose acknowledgement is waited for.
    consumer: Option<&'a str>,
}

impl<'a> Handle<'a> {
    /// `<stream>:<sequence>`, followed by a space and the consumer where one is known. Names of streams and consumers have no
    /// spaces.
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
    /// Remembers for how long a stream recognises messages.
    pub(super) async fn remember_window(&self, stream: &str) -> Result<(), SourceError> {
        if let Some(info) = self.stream(stream).await? {
            locked(&self.windows_ms).insert(stream.to_owned(), info.duplicate_window_ms());
        }
        Ok(())
    }

    /// What a letter is published with; the name of a header that cannot be sent otherwise.
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
                // The server would act on it.
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

    async fn put(&self, outgoing: &Outgoing) -> Sent {
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
            // Verification falls back to what else can be seen.
            tracing::warn!(
                source = self.config.name,
                "acknowledgements of {stream}.{consumer} are not sampled: {error}"
            );
        }
        match self.link.publish(&origin.subject, headers, outgoing.body.clone()).await {
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

    /// Nobody listened: there is no such stream, or it has no leader at this moment. Nothing was stored in either case.
    async fn no_stream(&self, subject: &str) -> Sent {
        match self.link.streams_on(subject).await {
            Ok(streams) if streams.is_empty() => {
                refused("NoStream", None, format!("no stream captures {subject}"))
            }
            Ok(_) => Sent::Unsent(format!("the stream that captures {subject} has no leader")),
            Err(error) => Sent::Unsent(error.to_string()),
        }
    }

    async fn routed(&self, origin: &JetStreamOrigin) -> Result<Route, SourceError> {
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
                if !has_failed && consumer.takes(&origin.subject) {
                    also_reaches.push(format!("{stream}.{}", consumer.name()));
                }
            }
        }
        Ok(Route { address: format!("{} {}", self.link.address(), origin.subject), also_reaches })
    }

    async fn verified(&self, handle: &Handle<'_>, consumer: &str) -> Result<Verified, SourceError> {
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
            // It arrives as a letter: silence must not be taken for success meanwhile.
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

    /// Looks at the last advisories of the consumer. Before 2.10 the ack floor passes messages that were given up, and a terminated
    /// message leaves its stream as an acknowledged one does.
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
                // Sequences tell the order as well.
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

/// After which silence a message that was delivered has succeeded: the server would have given it up by then.
fn silence(info: &ConsumerInfo) -> Silence {
    match info.total_retry_ms() {
        // Workers may wait longer between attempts than the server does.
        Some(server_ms) => {
            Silence::Succeeds { after_ms: server_ms.max(Preset::Jetstream.policy().total_ms_max()) }
        }
        // It is delivered for ever: not dying says nothing.
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

    /// Streams recognise a message by its id for a while: long enough if every stream that is known does so until a claim expires.
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
            Some(origin) => self.routed(origin).await.map_err(|error| error.to_string()),
            // Whoever only wants the address names no message.
            None if outgoing.message_id.is_empty() => {
                Ok(Route { address: self.link.address(), also_reaches: Vec::new() })
            }
            None => Err("the letter does not say which subject it was published on".to_owned()),
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        self.put(outgoing).await
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        let looks: Vec<_> = sent.iter().map(|one| self.verify_one(one)).collect();
        stream::iter(looks).buffered(VERIFIED_AT_ONCE).collect().await
    }
}

impl JetStream {
    async fn verify_one(&self, sent: &SentCopy) -> Verified {
        let Some(handle) = sent.handle.as_deref().and_then(Handle::parse) else {
            return Verified::Taken(Silence::SaysNothing);
        };
        // Without a consumer nobody is known whose acknowledgement would tell.
        let Some(consumer) = handle.consumer else { return Verified::Taken(Silence::SaysNothing) };
        match self.verified(&handle, consumer).await {
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
