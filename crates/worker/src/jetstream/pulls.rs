//! Requests for messages, never for more than can be handled at once.
//!
//! The client's own streams fetch ahead, and a message that waits in a buffer may be delivered to another worker meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::WorkerError;
use super::consumer::Bound;

/// How long a request waits for messages. Requests that a restarted server forgot are repeated after this time.
const EXPIRES: Duration = Duration::from_secs(5);

/// A request without an answer for this much longer is forgotten.
const GRACE: Duration = Duration::from_secs(2);

/// Before the next request after one that was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// Until the server has confirmed that nothing more will come.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What came.
#[derive(Debug)]
pub(crate) enum Pulled {
    Message(Message),
    /// Nobody answers for the consumer, for this reason.
    Gone(String),
    Closed,
}

/// Messages that were requested and have not come yet.
#[derive(Debug)]
struct Request {
    missing: usize,
    until: Instant,
}

#[derive(Debug)]
pub(crate) struct Pulls {
    client: Client,
    bound: Arc<Bound>,
    inbox: String,
    subscriber: Subscriber,
    /// Oldest first: the server serves them in this order.
    requests: VecDeque<Request>,
    /// No request before.
    paused_until: Option<Instant>,
}

impl Pulls {
    pub(crate) async fn open(client: &Client, bound: Arc<Bound>) -> Result<Pulls, WorkerError> {
        let inbox = client.new_inbox();
        let subscribed = client.subscribe(inbox.clone()).await;
        let subscriber = subscribed.map_err(|error| WorkerError::Consumer {
            stream: bound.stream.clone(),
            consumer: bound.consumer.clone(),
            source: error.into(),
        })?;
        let client = client.clone();
        Ok(Pulls { client, bound, inbox, subscriber, requests: VecDeque::new(), paused_until: None })
    }

    pub(crate) fn bound(&self) -> &Arc<Bound> {
        &self.bound
    }

    /// The next message, while `wanted` messages are kept requested. Can be cancelled at any time.
    pub(crate) async fn next(&mut self, wanted: usize) -> Pulled {
        loop {
            if let Err(gone) = self.request(wanted).await {
                return gone;
            }
            let wake = self.wakes_at(wanted);
            let message = tokio::select! {
                message = self.subscriber.next() => message,
                () = tokio::time::sleep_until(wake) => continue,
            };
            let Some(message) = message else {
                return Pulled::Closed;
            };
            match message.status {
                None | Some(StatusCode::OK) => {
                    self.count_message();
                    return Pulled::Message(message);
                }
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => drop(self.requests.pop_front()),
                Some(StatusCode::NO_RESPONDERS) => return Pulled::Gone("nobody answers for it".into()),
                Some(_) => {
                    let description = message.description.unwrap_or_default();
                    if description.contains("Consumer Deleted") || description.contains("push based") {
                        return Pulled::Gone(description);
                    }
                    tracing::debug!(
                        consumer = self.bound.consumer,
                        "request for messages refused: {description}"
                    );
                    self.requests.pop_front();
                    self.paused_until = Some(Instant::now() + REFUSED_PAUSE);
                }
            }
        }
    }

    /// Requests what is wanted and not requested yet.
    async fn request(&mut self, wanted: usize) -> Result<(), Pulled> {
        let now = Instant::now();
        self.requests.retain(|request| now < request.until);
        self.paused_until = self.paused_until.filter(|until| now < *until);
        let requested: usize = self.requests.iter().map(|request| request.missing).sum();
        let batch = wanted.saturating_sub(requested).min(self.bound.batch_max.unwrap_or(usize::MAX));
        // What is requested while disconnected would be sent all at once later, and answered with far too many messages.
        let is_connected = self.client.connection_state() == State::Connected;
        if batch == 0 || self.paused_until.is_some() || !is_connected {
            return Ok(());
        }
        let expires = self.bound.expires_max.map_or(EXPIRES, |max| max.min(EXPIRES));
        let body = format!("{{\"batch\":{batch},\"expires\":{}}}", expires.as_nanos());
        let published = self
            .client
            .publish_with_reply(self.bound.next_subject.clone(), self.inbox.clone(), body.into())
            .await;
        if published.is_err() {
            return Err(Pulled::Closed);
        }
        self.requests.push_back(Request { missing: batch, until: now + expires + GRACE });
        Ok(())
    }

    fn wakes_at(&self, wanted: usize) -> Instant {
        let next = self.requests.iter().map(|request| request.until).chain(self.paused_until).min();
        next.unwrap_or_else(|| {
            // Nothing can come; look again whether requests are possible.
            let idle = if wanted == 0 { EXPIRES } else { REFUSED_PAUSE };
            Instant::now() + idle
        })
    }

    fn count_message(&mut self) {
        if let Some(oldest) = self.requests.front_mut() {
            oldest.missing = oldest.missing.saturating_sub(1);
            if oldest.missing == 0 {
                self.requests.pop_front();
            }
        }
    }

    /// Stops requesting and returns the messages that were on their way.
    pub(crate) async fn drain(mut self) -> Vec<Message> {
        let mut rest = Vec::new();
        if self.subscriber.drain().await.is_err() {
            return rest;
        }
        let all = async {
            while let Some(message) = self.subscriber.next().await {
                if matches!(message.status, None | Some(StatusCode::OK)) {
                    rest.push(message);
                }
            }
        };
        if tokio::time::timeout(DRAIN_MAX, all).await.is_err() {
            tracing::debug!(consumer = self.bound.consumer, "the server did not confirm the end of requests");
        }
        rest
    }
}
