//! The way back: a letter is published to the queue that it died in. A receipt of the worker proves that the work is done;
//! without one, a quiet window that begins once the queue was seen empty with a consumer attached.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::FieldTable;
use lazaret_core::attempt::LetterError;
use lazaret_core::broker::{self, rabbitmq};
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::limits;
use lazaret_core::origin::{Origin, RabbitMqOrigin};

use super::RabbitMq;
use super::config::{Auth, RedriveTo};
use super::death::{CC, is_added_at_death};
use super::properties;
use super::publish::{Message, Published};
use super::topology::{look_at, name};
use crate::SourceError;
use crate::connection::locked;
use crate::destination::{Content, Destination, Outgoing, Refusal, Route, Sent, SentCopy, Silence, Verified};
use crate::redriven::EVENT_ID;

/// Where a letter is published, and the queue whose consumer failed on it, if that is known.
struct Address<'a> {
    exchange: &'a str,
    routing_key: &'a str,
    queue: Option<&'a str>,
}

impl RabbitMq {
    /// Where the letter goes, or why it cannot.
    fn address_of<'a>(&self, origin: &'a RabbitMqOrigin) -> Result<Address<'a>, String> {
        let queue = origin.queue.as_deref();
        match (self.config.redrive_to, queue) {
            (RedriveTo::Queue, Some(queue)) => {
                Ok(Address { exchange: "", routing_key: queue, queue: Some(queue) })
            }
            (RedriveTo::Queue, None) => Err(NO_QUEUE.to_owned()),
            (RedriveTo::Exchange, _) => {
                Ok(Address { exchange: &origin.exchange, routing_key: &origin.routing_key, queue })
            }
        }
    }

    /// The headers and properties that a letter is published with.
    fn redrive_headers(&self, outgoing: &Outgoing, origin: &RabbitMqOrigin) -> Headers {
        let ours = [
            (broker::LETTER_ID, outgoing.letter.to_string()),
            (broker::LIFE, outgoing.life.to_string()),
            (broker::REDRIVE_ID, outgoing.redrive.to_string()),
            (broker::IDEMPOTENCY_KEY, outgoing.idempotency_key.clone()),
            (EVENT_ID, outgoing.message_id.clone()),
            (rabbitmq::FIRST_EXCHANGE, origin.exchange.clone()),
            (rabbitmq::FIRST_ROUTING_KEY, origin.routing_key.clone()),
        ];
        let is_left_out = |name: &str| {
            is_added_at_death(name)
                || ours.iter().any(|(own, _)| *own == name)
                || (name == properties::EXPIRATION && !self.config.restore_expiration)
                // Through the default exchange it would reach other queues.
                || (name == CC && self.config.redrive_to == RedriveTo::Queue)
        };
        let mut headers: Headers = Vec::new();
        for (name, value) in outgoing.headers.iter().filter(|(name, _)| !is_left_out(name)) {
            let is_foreign_user = name == properties::USER_ID && !self.is_own_user(value);
            let is_replaced = name == properties::CONTENT_TYPE && outgoing.content == Content::Edited;
            if !is_foreign_user && !is_replaced {
                headers.push((name.clone(), value.clone()));
            }
        }
        if outgoing.content == Content::Edited && !outgoing.content_type.is_empty() {
            let content_type = HeaderValue::from(outgoing.content_type.as_str());
            headers.push((properties::CONTENT_TYPE.to_owned(), content_type));
        }
        headers.extend(ours.map(|(name, value)| (name.to_owned(), HeaderValue::Text(value))));
        headers
    }

    /// The broker refuses a message in another user's name.
    fn is_own_user(&self, value: &HeaderValue) -> bool {
        match &self.config.auth {
            Auth::User { user, .. } => value.as_text() == Some(user),
            Auth::External => false,
        }
    }

    async fn put(&self, outgoing: &Outgoing) -> Sent {
        let Some(origin) = origin(outgoing) else { return refused("NoOrigin", None, NO_ORIGIN.to_owned()) };
        let address = match self.address_of(origin) {
            Ok(address) => address,
            Err(why) => return refused("NoOrigin", None, why),
        };
        let headers = self.redrive_headers(outgoing, origin);
        let ready = properties::from_headers(&headers);
        let names = (name(address.exchange), name(address.routing_key));
        let (properties, exchange, routing_key) = match (ready, names) {
            (Ok(properties), (Ok(exchange), Ok(routing_key))) => (properties, exchange, routing_key),
            (Err(unsendable), _) => return refused("HeaderNotSendable", None, unsendable.to_string()),
            (_, (Err(error), _) | (_, Err(error))) => return refused("NoOrigin", None, error.to_string()),
        };
        let frame_bytes = properties::frame_bytes(&headers);
        let message = Message { exchange, routing_key, properties, frame_bytes, body: &outgoing.body };
        let published = self.publisher.publish(&self.publish_link, message).await;
        let to = described(&address);
        match published {
            Published::Confirmed => Sent::Taken { handle: address.queue.map(str::to_owned) },
            Published::Unroutable(why) => {
                refused("Unroutable", Some("312".to_owned()), format!("no queue took it from {to}: {why}"))
            }
            Published::Refused { code, why } => refused("BrokerRefused", code, format!("{to}: {why}")),
            Published::Unsent(why) => Sent::Unsent(why),
            Published::Unknown(why) => Sent::Unknown(why),
        }
    }

    async fn routed(&self, origin: &RabbitMqOrigin) -> Result<Route, String> {
        let address = self.address_of(origin)?;
        let link = &self.publish_link;
        let told = |error: SourceError| error.to_string();
        if address.exchange.is_empty() {
            let there = look_at(link, address.routing_key).await.map_err(told)?;
            if there.is_none() {
                return Err(format!("queue {} does not exist", address.routing_key));
            }
        } else {
            let channel = link.channel().await.map_err(told)?;
            let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let exchange = name(address.exchange).map_err(told)?;
            // A passive declaration does not compare the kind.
            let there =
                channel.exchange_declare(exchange, ExchangeKind::Direct, options, FieldTable::default());
            link.answered("looking at an exchange", there).await.map_err(told)?;
        }
        Ok(Route {
            address: format!("{} {}", self.address(), described(&address)),
            also_reaches: self.also_reaches(&address).await?,
        })
    }

    /// The queues that get the letter beside the one whose consumer failed. Only the management API knows the bindings.
    async fn also_reaches(&self, address: &Address<'_>) -> Result<Vec<String>, String> {
        if address.exchange.is_empty() {
            return Ok(Vec::new());
        }
        let reached = self.reached_queues(address.exchange, address.routing_key).await;
        Ok(match reached.map_err(|error| error.to_string())? {
            Some(queues) => {
                queues.into_iter().filter(|queue| Some(queue.as_str()) != address.queue).collect()
            }
            None => vec![format!(
                "every queue bound to {} (not known without the management API)",
                described(address)
            )],
        })
    }

    /// What the queues of letters show. A letter that was seen taken stays so as long as somebody consumes: other messages that
    /// wait there now came after it.
    async fn verified(&self, sent: &[SentCopy]) -> Vec<Verified> {
        let queues: HashSet<&str> = sent.iter().filter_map(|copy| copy.handle.as_deref()).collect();
        let mut looks: HashMap<&str, Option<QueueLook>> = HashMap::with_capacity(queues.len());
        for queue in queues {
            let look = self.look_at(queue).await;
            if let Err(error) = &look {
                tracing::warn!(source = self.config.name, "queue {queue} cannot be looked at now: {error}");
            }
            looks.insert(queue, look.ok());
        }
        let mut taken = locked(&self.taken);
        if taken.len() > limits::RABBITMQ_REMEMBERED_MAX {
            // Those that are still waited for are seen taken again.
            taken.clear();
        }
        let verified = sent.iter().map(|copy| {
            let Some(queue) = copy.handle.as_deref() else { return Verified::Taken(Silence::SaysNothing) };
            match looks.get(queue) {
                Some(Some(QueueLook { consumers: 0, .. })) => {
                    taken.remove(&copy.idempotency_key);
                    Verified::NotYet
                }
                Some(Some(QueueLook { ready: 0, .. })) => {
                    taken.insert(copy.idempotency_key.clone());
                    Verified::Taken(Silence::Succeeds { after_ms: self.config.quiet_ms })
                }
                Some(Some(_)) if taken.contains(&copy.idempotency_key) => {
                    Verified::Taken(Silence::Succeeds { after_ms: self.config.quiet_ms })
                }
                Some(Some(_) | None) | None => Verified::NotYet,
            }
        });
        verified.collect()
    }

    async fn look_at(&self, queue: &str) -> Result<QueueLook, SourceError> {
        let there = look_at(&self.publish_link, queue).await?;
        // A queue that is gone has no consumers.
        Ok(there.map_or(QueueLook { ready: 0, consumers: 0 }, |it| QueueLook {
            ready: it.message_count(),
            consumers: it.consumer_count(),
        }))
    }
}

/// A queue at one moment.
#[derive(Clone, Copy)]
struct QueueLook {
    /// Messages that no consumer has yet.
    ready: u32,
    consumers: u32,
}

const NO_ORIGIN: &str = "the letter does not say where it came from";
const NO_QUEUE: &str = "the letter does not say which queue it died in: set original_queue of its dead-letter queue, or redrive_to = \"exchange\"";

fn described(address: &Address<'_>) -> String {
    match address.exchange {
        "" => format!("queue {}", address.routing_key),
        exchange => format!("exchange {exchange} with routing key {:?}", address.routing_key),
    }
}

fn origin(outgoing: &Outgoing) -> Option<&RabbitMqOrigin> {
    match &outgoing.origin {
        Some(Origin::RabbitMq(origin)) => Some(origin),
        Some(Origin::JetStream(_) | Origin::Other(_)) | None => None,
    }
}

fn refused(error_type: &str, code: Option<String>, message: String) -> Sent {
    let error = LetterError { error_type: error_type.to_owned(), code, message, ..LetterError::default() };
    Sent::Refused(Box::new(Refusal { status: None, error }))
}

#[async_trait]
impl Destination for RabbitMq {
    fn address(&self) -> String {
        let server = self.config.servers.first().map_or("", String::as_str).trim_end_matches('/');
        match self.config.vhost.as_str() {
            "/" => server.to_owned(),
            vhost => format!("{server}/{vhost}"),
        }
    }

    /// RabbitMQ keeps no ids: a message that is published twice is there twice.
    fn deduplicates(&self) -> bool {
        false
    }

    fn by_message_id(&self) -> bool {
        true
    }

    fn headers(&self, outgoing: &Outgoing) -> Option<Vec<(String, String)>> {
        let headers = self.redrive_headers(outgoing, origin(outgoing)?);
        Some(headers.into_iter().map(|(name, value)| (name, value.shown().into_owned())).collect())
    }

    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String> {
        match origin(outgoing) {
            Some(origin) => self.routed(origin).await,
            // Whoever only wants the address names no message.
            None if outgoing.message_id.is_empty() => {
                Ok(Route { address: self.address(), also_reaches: Vec::new() })
            }
            None => Err(NO_ORIGIN.to_owned()),
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        self.put(outgoing).await
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        self.verified(sent).await
    }
}
