//! A message of a dead-letter queue, read as a captured letter: in the format of our worker library, dead-lettered by RabbitMQ
//! itself, republished by a framework, or anything else.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::broker::rabbitmq::{self, DlqMessage};
use lazaret_core::broker::{self, BrokerDeath};
use lazaret_core::envelope::Envelope;
use lazaret_core::header::{HeaderValue, Headers, headers_to_json};
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::origin::{Origin, RabbitMqOrigin};
use lazaret_core::time::Time;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::config::{DeadLetterQueue, MessageField, RabbitMqConfig};
use super::death::{CC, Death, Named, is_of_delivery, is_of_worker};
use super::properties;
use crate::connection::now;
use crate::redriven::{EVENT_ID, content_type_of, mark};

/// A message as it was delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeadMessage {
    pub exchange: String,
    pub routing_key: String,
    /// Whether it was delivered before, to anybody, and not acknowledged.
    pub redelivered: bool,
    /// Properties and headers, see `properties`.
    pub headers: Headers,
    pub body: Bytes,
}

/// What became of the message before it got here.
struct Story {
    death: Death,
    attempts: Vec<Attempt>,
    /// Of the original message.
    headers: Headers,
    body: Bytes,
    /// The format of our worker library, if it is one.
    wrapped: Option<DlqMessage>,
}

impl DeadMessage {
    pub fn captured(&self, config: &RabbitMqConfig, queue: &DeadLetterQueue) -> Captured {
        let story = self.story(queue);
        let Story { death, headers, body, wrapped, .. } = &story;
        let own = Named(headers);
        let mark = mark(|name| own.text(name));
        let field = FieldReader { headers: own, body, document: std::cell::OnceCell::new() };
        let original_queue = death.queue.clone().or_else(|| queue.original_queue.clone());
        let service = story.service().or_else(|| queue.service.clone());
        let service = service.or_else(|| queue.service_by_name().map(str::to_owned));
        let message_id = match (&mark, own.text(EVENT_ID), own.text(properties::MESSAGE_ID)) {
            (Some(_), Some(id), _) | (_, _, Some(id)) => id.to_owned(),
            _ => self.content_id(queue),
        };
        let origin = self.origin(config, &story, original_queue.clone());
        let letter_type = [own.text(properties::TYPE), death.message_type.as_deref()];
        let letter_type = letter_type.into_iter().flatten().next().map(str::to_owned);
        let tenant_of_wrapped = || wrapped.as_ref().and_then(|it| json_text(it.tenant_id.as_deref()?));
        Captured {
            source: config.name.clone(),
            message_id,
            letter_type: letter_type.unwrap_or_else(|| origin.routing_key.clone()),
            queue: original_queue.clone().unwrap_or_else(|| queue.queue.clone()),
            subscriber: service.or(original_queue),
            tenant: config.tenant.as_ref().and_then(|it| field.find(it)).or_else(tenant_of_wrapped),
            aggregate: config.aggregate.as_ref().and_then(|it| field.find(it)),
            schema_version: config.schema_version.as_ref().and_then(|it| field.find(it)),
            error: death.error.clone().unwrap_or_else(|| unknown_error(&queue.queue)),
            retry_count: death.retry_count.unwrap_or(0),
            max_retries: None,
            // A death without a time happened before now. Told again, it is told without a time: that is no new death.
            died_at: death.at.or_else(|| (!self.redelivered).then(now)),
            word: self.word(mark.is_some() || own.text(properties::MESSAGE_ID).is_some()),
            mark,
            reported: Some(self.reported(queue, &story)),
            envelope: story.envelope(origin),
            attempts: story.attempts,
        }
    }

    fn story(&self, queue: &DeadLetterQueue) -> Story {
        let named = Named(&self.headers);
        let death = Death::read(named, &queue.queue);
        let attempts = BrokerDeath::read(|name| named.text(name)).attempts;
        let Some(wrapped) = DlqMessage::parse(&self.body) else {
            let (mut headers, body) = (self.headers.clone(), self.body.clone());
            let expiration =
                death.expiration.as_deref().filter(|_| named.text(properties::EXPIRATION).is_none());
            if let Some(expiration) = expiration {
                headers.insert(0, (properties::EXPIRATION.to_owned(), HeaderValue::from(expiration)));
            }
            return Story { death: dramatiq(&self.body).or(death), attempts, headers, body, wrapped: None };
        };
        let code = death.error.as_ref().and_then(|error| error.code.clone());
        let told = Death {
            error: Some(LetterError {
                error_type: wrapped.error_type.clone(),
                code,
                message: wrapped.error_message.clone(),
                backtrace: wrapped.stack_trace.clone(),
                ..LetterError::default()
            }),
            // Whole seconds, which the attempts know better.
            at: attempts.last().and_then(|it| it.at).or(wrapped.last_attempt_at).or(wrapped.dlq_at),
            retry_count: Some(wrapped.retry_count),
            service: Some(wrapped.service.clone()).filter(|name| !name.is_empty()),
            told_by: Some("worker"),
            ..Death::default()
        };
        let headers = original_headers(&self.headers);
        let body = wrapped.original.clone();
        Story { death: told.or(death), attempts, headers, body, wrapped: Some(wrapped) }
    }

    /// Whether it is a new death. A message without an id of its own is recognised by its content: what was delivered before
    /// is the same one again.
    fn word(&self, has_id: bool) -> SourceWord {
        match (has_id, self.redelivered) {
            (true, _) => SourceWord::Silent,
            (false, true) => SourceWord::SameDeath,
            (false, false) => SourceWord::NewDeath,
        }
    }

    /// The id of a message that has none: a hash of everything that stays the same when it is delivered again.
    fn content_id(&self, queue: &DeadLetterQueue) -> String {
        let kept: Headers = self.headers.iter().filter(|(name, _)| !is_of_delivery(name)).cloned().collect();
        let headers = headers_to_json(&kept);
        let mut hash = Sha256::new();
        for part in [&queue.queue, &self.exchange, &self.routing_key, &headers] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(&self.body);
        let hash = hash.finalize();
        hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Where the message was first, and the queue that it died in. A redrive to the queue hides the first exchange, so the
    /// message carries it.
    fn origin(&self, config: &RabbitMqConfig, story: &Story, queue: Option<String>) -> RabbitMqOrigin {
        let own = Named(&story.headers);
        let first = |name: &str| own.value(name).and_then(HeaderValue::as_text).map(str::to_owned);
        let exchange = first(rabbitmq::FIRST_EXCHANGE).or_else(|| story.death.exchange.clone());
        let routing_key = first(rabbitmq::FIRST_ROUTING_KEY).or_else(|| story.death.routing_key.clone());
        RabbitMqOrigin {
            vhost: config.vhost.clone(),
            // What was published to the dead-letter queue itself came from nowhere else.
            exchange: exchange.unwrap_or_else(|| self.exchange.clone()),
            routing_key: routing_key.unwrap_or_else(|| self.routing_key.clone()),
            queue,
        }
    }

    /// Everything that is known and has no field of its own.
    fn reported(&self, queue: &DeadLetterQueue, story: &Story) -> String {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value);
            }
        };
        let time = |at: Option<Time>| at.map(|at| json!(at.to_string()));
        set("deadLetterQueue", Some(json!(queue.queue)));
        set("deadLetterExchange", Some(json!(self.exchange)));
        set("deadLetterRoutingKey", Some(json!(self.routing_key)));
        set("redelivered", self.redelivered.then_some(Value::Bool(true)));
        set("toldBy", story.death.told_by.map(|it| json!(it)));
        let class = Named(&self.headers).text(broker::ERROR_CLASS);
        set("class", class.map(|class| json!(class)));
        if let Some(wrapped) = &story.wrapped {
            let text = |text: &str| (!text.is_empty()).then(|| json!(text));
            set("service", text(&wrapped.service));
            set("serviceVersion", text(&wrapped.service_version));
            set("firstAttemptAt", time(wrapped.first_attempt_at));
            set("deadLetteredAt", time(wrapped.dlq_at));
            set("internalId", wrapped.internal_id.as_deref().and_then(|raw| serde_json::from_str(raw).ok()));
        }
        Value::Object(fields).to_string()
    }
}

impl Story {
    fn service(&self) -> Option<String> {
        self.death.service.clone()
    }

    fn envelope(&self, origin: RabbitMqOrigin) -> Envelope {
        let kept = without_redrive(&self.headers);
        let content_type = Named(&kept).text(properties::CONTENT_TYPE).map(str::to_owned);
        let content_type = content_type.unwrap_or_else(|| content_type_of(&self.body).to_owned());
        Envelope::seal(self.body.clone(), content_type, kept).with_origin(Some(Origin::RabbitMq(origin)))
    }
}

/// Finds configured values in a message.
struct FieldReader<'a> {
    headers: Named<'a>,
    body: &'a Bytes,
    /// The body as JSON, read once.
    document: std::cell::OnceCell<Option<Value>>,
}

impl FieldReader<'_> {
    fn find(&self, field: &MessageField) -> Option<String> {
        let found = match field {
            MessageField::Header(name) => self.headers.value(name)?.simple_text()?.into_owned(),
            MessageField::Body(query) => {
                let document = self.document.get_or_init(|| serde_json::from_slice(self.body).ok());
                match query.first(document.as_ref()?).ok()?? {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    Value::Bool(truth) => truth.to_string(),
                    Value::Null | Value::Array(_) | Value::Object(_) => return None,
                }
            }
        };
        (!found.is_empty()).then_some(found)
    }
}

/// The headers that the application published its message with, of a message that our worker library wrapped.
fn original_headers(headers: &Headers) -> Headers {
    // What the wrapping message has of its own under the first name is not that of the original.
    let renamed = [
        (properties::CONTENT_TYPE, rabbitmq::ORIGINAL_CONTENT_TYPE),
        (properties::CONTENT_ENCODING, rabbitmq::ORIGINAL_CONTENT_ENCODING),
        (properties::EXPIRATION, rabbitmq::ORIGINAL_EXPIRATION),
        (properties::TIMESTAMP, rabbitmq::ORIGINAL_TIMESTAMP),
        (properties::USER_ID, rabbitmq::ORIGINAL_USER_ID),
        (CC, rabbitmq::ORIGINAL_CC),
    ];
    let named = Named(headers);
    let restored =
        renamed.iter().filter_map(|(own, kept)| Some(((*own).to_owned(), named.value(kept)?.clone())));
    let is_wrapping = |name: &str| renamed.iter().any(|(own, _)| *own == name) || is_of_worker(name);
    restored.chain(headers.iter().filter(|(name, _)| !is_wrapping(name)).cloned()).collect()
}

/// The headers of the application's own message: what a redrive of ours added is taken away.
fn without_redrive(headers: &Headers) -> Headers {
    if Named(headers).text(broker::LETTER_ID).is_none() {
        return headers.clone();
    }
    let is_added = |name: &str| {
        broker::REDRIVE_HEADERS.contains(&name)
            || [EVENT_ID, rabbitmq::FIRST_EXCHANGE, rabbitmq::FIRST_ROUTING_KEY].contains(&name)
    };
    headers.iter().filter(|(name, _)| !is_added(name)).cloned().collect()
}

/// Dramatiq's messages tell in their body which actor failed, how often and with which traceback.
fn dramatiq(body: &[u8]) -> Death {
    // Most bodies are not Dramatiq's and need not be read.
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains("\"actor_name\""));
    let message = text.and_then(|text| serde_json::from_str(text).ok());
    let Some(Value::Object(message)) = message else { return Death::default() };
    let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(actor), Some(queue), Some(_), Some(Value::Object(options))) =
        (text("actor_name"), text("queue_name"), text("message_id"), message.get("options"))
    else {
        return Death::default();
    };
    let traceback = options.get("traceback").and_then(Value::as_str);
    let error = traceback.map(|traceback| {
        let last = traceback.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let (error_type, message) = last.split_once(": ").unwrap_or((last, ""));
        LetterError {
            error_type: error_type.trim().to_owned(),
            message: message.trim().to_owned(),
            backtrace: Some(traceback.to_owned()),
            ..LetterError::default()
        }
    });
    let retries = options.get("retries").and_then(Value::as_u64);
    Death {
        error,
        retry_count: retries.and_then(|count| u32::try_from(count).ok()),
        // Delayed messages wait in `<queue>.DQ`.
        queue: Some(queue.trim_end_matches(".DQ").to_owned()),
        message_type: Some(actor),
        told_by: Some("dramatiq"),
        ..Death::default()
    }
}

fn unknown_error(queue: &str) -> LetterError {
    let message = format!("published to the dead-letter queue {queue} without an error");
    LetterError { message, ..LetterError::default() }
}

/// The text of a JSON value that is a string, number or boolean.
fn json_text(raw: &str) -> Option<String> {
    match serde_json::from_str(raw).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
