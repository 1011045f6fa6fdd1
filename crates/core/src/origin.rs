//! Where a message came from at its broker: what a destination routes by when the message goes back.
//!
//! The JSON form is an object with `kind`. An object of a kind or with fields that this version does not know is kept
//! verbatim, so that a letter of a newer version loses nothing on its way through an older one.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::limits;

/// Where a message came from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    JetStream(JetStreamOrigin),
    RabbitMq(RabbitMqOrigin),
    /// JSON text of an object that this version cannot read, verbatim.
    Other(String),
}

/// A message of a stream. Times are kept as the server wrote them (RFC 3339).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct JetStreamOrigin {
    pub stream: Option<String>,
    /// Tells a stream from an earlier one of the same name, whose sequences began at 1 as well.
    pub stream_created_at: Option<String>,
    pub sequence: Option<u64>,
    pub subject: String,
    /// The consumer that gave up.
    pub consumer: Option<String>,
    pub published_at: Option<String>,
}

/// A message of a queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RabbitMqOrigin {
    pub vhost: String,
    pub exchange: String,
    pub routing_key: String,
    /// The queue that it died in.
    pub queue: Option<String>,
}

/// Why a text is not an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OriginError {
    #[error("an origin is a JSON object with `kind`")]
    NotAnObject,
    #[error("an origin has at most {} bytes", limits::ORIGIN_BYTES_MAX)]
    TooLong,
}

impl Origin {
    /// The kind by its name in JSON.
    pub fn kind(&self) -> String {
        match self {
            Origin::JetStream(_) => "jetstream".to_owned(),
            Origin::RabbitMq(_) => "rabbitmq".to_owned(),
            Origin::Other(text) => match serde_json::from_str(text) {
                Ok(Value::Object(object)) => text_of(object.get("kind")).unwrap_or_default(),
                _ => String::new(),
            },
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        let text = |text: &String| Some(Value::from(text.as_str()));
        let maybe = |text: &Option<String>| text.as_deref().map(Value::from);
        put("kind", Some(Value::from(self.kind())));
        match self {
            Origin::Other(text) => return text.clone(),
            Origin::JetStream(origin) => {
                put("stream", maybe(&origin.stream));
                put("streamCreatedAt", maybe(&origin.stream_created_at));
                put("sequence", origin.sequence.map(Value::from));
                put("subject", text(&origin.subject));
                put("consumer", maybe(&origin.consumer));
                put("publishedAt", maybe(&origin.published_at));
            }
            Origin::RabbitMq(origin) => {
                put("vhost", text(&origin.vhost));
                put("exchange", text(&origin.exchange));
                put("routingKey", text(&origin.routing_key));
                put("queue", maybe(&origin.queue));
            }
        }
        Value::Object(object).to_string()
    }

    /// Reads the JSON form. What does not come out as it went in is kept verbatim.
    pub fn from_json(text: &str) -> Result<Origin, OriginError> {
        if text.len() > limits::ORIGIN_BYTES_MAX {
            return Err(OriginError::TooLong);
        }
        // Also checks what is kept verbatim: it is written into other JSON as it stands.
        let raw: &RawValue = serde_json::from_str(text).map_err(|_| OriginError::NotAnObject)?;
        let Ok(Value::Object(object)) = serde_json::from_str(raw.get()) else {
            return Err(OriginError::NotAnObject);
        };
        let Some(Value::String(kind)) = object.get("kind") else { return Err(OriginError::NotAnObject) };
        let known = match kind.as_str() {
            "jetstream" => jetstream(&object).map(Origin::JetStream),
            "rabbitmq" => rabbitmq(&object).map(Origin::RabbitMq),
            _ => None,
        };
        let is_whole = |origin: &Origin| match serde_json::from_str::<Value>(&origin.to_json()) {
            Ok(Value::Object(again)) => again == object,
            _ => false,
        };
        Ok(known.filter(is_whole).unwrap_or_else(|| Origin::Other(raw.get().to_owned())))
    }

    /// Name and value of everything that is known, for people.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let all = match self {
            Origin::Other(text) => vec![("Origin", Some(text.clone()))],
            Origin::JetStream(origin) => vec![
                ("Stream", origin.stream.clone()),
                ("Stream created", origin.stream_created_at.clone()),
                ("Sequence", origin.sequence.map(|sequence| sequence.to_string())),
                ("Subject", Some(origin.subject.clone())),
                ("Consumer", origin.consumer.clone()),
                ("Published", origin.published_at.clone()),
            ],
            Origin::RabbitMq(origin) => vec![
                ("Virtual host", Some(origin.vhost.clone())),
                ("Exchange", Some(origin.exchange.clone())),
                ("Routing key", Some(origin.routing_key.clone())),
                ("Queue", origin.queue.clone()),
            ],
        };
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn jetstream(object: &Map<String, Value>) -> Option<JetStreamOrigin> {
    let text = |name: &str| text_of(object.get(name));
    Some(JetStreamOrigin {
        stream: text("stream"),
        stream_created_at: text("streamCreatedAt"),
        sequence: object.get("sequence").and_then(Value::as_u64),
        subject: text("subject")?,
        consumer: text("consumer"),
        published_at: text("publishedAt"),
    })
}

fn rabbitmq(object: &Map<String, Value>) -> Option<RabbitMqOrigin> {
    let text = |name: &str| text_of(object.get(name));
    Some(RabbitMqOrigin {
        vhost: text("vhost")?,
        exchange: text("exchange")?,
        routing_key: text("routingKey")?,
        queue: text("queue"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Origin) {
        let read = Origin::from_json(json).unwrap();
        assert_eq!(read, expected);
        assert_eq!(Origin::from_json(&read.to_json()).unwrap(), expected);
    }

    #[test]
    fn known_kinds_are_read_and_written() {
        let jetstream = JetStreamOrigin {
            stream: Some("ORDERS".into()),
            stream_created_at: Some("2026-11-15T03:00:00.123456789Z".into()),
            sequence: Some(u64::MAX),
            subject: "orders.eu.new".into(),
            consumer: Some("billing".into()),
            published_at: Some("2026-11-15T03:00:01Z".into()),
        };
        check(
            r#"{"kind":"jetstream","stream":"ORDERS","streamCreatedAt":"2026-11-15T03:00:00.123456789Z",
                "sequence":18446744073709551615,"subject":"orders.eu.new","consumer":"billing",
                "publishedAt":"2026-11-15T03:00:01Z"}"#,
            Origin::JetStream(jetstream),
        );
        let bare = JetStreamOrigin { subject: "a".into(), ..JetStreamOrigin::default() };
        check(r#"{"kind":"jetstream","subject":"a"}"#, Origin::JetStream(bare));
        let rabbitmq =
            RabbitMqOrigin { vhost: "/".into(), routing_key: "k".into(), ..RabbitMqOrigin::default() };
        check(
            r#"{"kind":"rabbitmq","vhost":"/","exchange":"","routingKey":"k"}"#,
            Origin::RabbitMq(rabbitmq),
        );
    }

    #[test]
    fn what_is_not_known_is_kept_verbatim() {
        for json in [
            r#"{ "kind": "kafka", "offset": 1.50 }"#,
            r#"{"kind":"jetstream","subject":"a","domain":"hub"}"#,
            r#"{"kind":"jetstream","subject":7}"#,
            r#"{"kind":"jetstream","subject":"a","sequence":-1}"#,
            r#"{"kind":"rabbitmq","vhost":"/"}"#,
        ] {
            check(json, Origin::Other(json.to_owned()));
            assert_eq!(Origin::from_json(json).unwrap().to_json(), json);
        }
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for json in ["", "[]", "7", "{}", r#"{"kind":7}"#, r#"{"kind":"a""#, r#"{"kind":"a"} x"#] {
            assert_eq!(Origin::from_json(json), Err(OriginError::NotAnObject), "{json}");
        }
        let long = format!(r#"{{"kind":"a","b":"{}"}}"#, "x".repeat(limits::ORIGIN_BYTES_MAX));
        assert_eq!(Origin::from_json(&long), Err(OriginError::TooLong));
    }
}
