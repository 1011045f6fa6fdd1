//! A relay's sink over HTTP: one POST for each event, with the row's id as its idempotency key.

use async_trait::async_trait;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use lazaret_core::attempt::LetterError;
use lazaret_sources::sink::{Delivery, Sink, Sunk};

use crate::clock::Clock;
use crate::config::DestinationConfig;
use crate::destination::{Destination, HttpDestination, Sent, Tls};

/// The receiver of a relay's events.
#[derive(Debug)]
pub(super) struct HttpSink {
    name: String,
    http: HttpDestination,
}

impl HttpSink {
    pub fn new(name: &str, config: &DestinationConfig, tls: &Tls, clock: &Clock) -> Result<HttpSink, String> {
        let http = HttpDestination::new(config.clone(), tls, clock.clone())?;
        Ok(HttpSink { name: name.to_owned(), http })
    }
}

#[async_trait]
impl Sink for HttpSink {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> String {
        Destination::address(&self.http)
    }

    async fn deliver(&self, delivery: &Delivery) -> Sunk {
        match self.http.post(headers(delivery), &delivery.body).await {
            Sent::Delivered { .. } | Sent::Taken { .. } => Sunk::Delivered,
            Sent::Refused(refusal) => Sunk::Failed(Box::new(refusal.error)),
            // It may have arrived; it comes again under the same key.
            Sent::Unknown(why) => Sunk::Failed(Box::new(LetterError {
                error_type: "NoAnswer".to_owned(),
                message: why,
                ..LetterError::default()
            })),
            Sent::Unsent(_) => Sunk::Unsent,
        }
    }
}

fn headers(delivery: &Delivery) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(delivery.content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(delivery.body.len()));
    let attempt = delivery.attempt.to_string();
    let created_at = delivery.created_at.map(|at| at.to_string());
    for (name, value) in [
        ("idempotency-key", Some(delivery.idempotency_key.as_str())),
        ("lazaret-event-type", Some(delivery.event_type.as_str())),
        ("lazaret-aggregate-type", delivery.aggregate_type.as_deref()),
        ("lazaret-aggregate-id", delivery.aggregate_id.as_deref()),
        ("lazaret-schema-version", delivery.schema_version.as_deref()),
        ("lazaret-tenant", delivery.tenant.as_deref()),
        ("lazaret-attempt", Some(attempt.as_str())),
        ("lazaret-created-at", created_at.as_deref()),
    ] {
        // What no header can hold is in the row; the event itself must get through.
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}
