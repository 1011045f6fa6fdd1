//! Publishing to a stream, confirmed by its acknowledgement.

use std::str::FromStr;

use async_nats::{HeaderMap, HeaderName, HeaderValue, RequestErrorKind};
use bytes::Bytes;
use serde_json::Value;

use super::link::Link;
use crate::SourceError;

/// The API error code for headers that are too large.
const HEADERS_TOO_LARGE: &str = "10097";

/// A stream's acknowledgement of a publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub stream: String,
    pub sequence: u64,
    /// The stream already has a message with this id, at `sequence`.
    pub is_duplicate: bool,
}

/// Why a publish is not confirmed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PublishError {
    /// Nothing was written.
    NotConnected(SourceError),
    /// No stream captures the subject.
    NoStream,
    TooLarge,
    /// The stream refused it.
    Refused {
        code: Option<String>,
        why: String,
    },
    /// The message was sent; whether it is stored is unknown.
    Unknown(String),
}

impl Link {
    pub async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Stored, PublishError> {
        let client = self.client().await.map_err(PublishError::NotConnected)?;
        let answer = client.request_with_headers(subject.to_owned(), headers, body).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => PublishError::NoStream,
            RequestErrorKind::MaxPayloadExceeded => PublishError::TooLarge,
            RequestErrorKind::InvalidSubject => {
                PublishError::Refused { code: None, why: format!("{subject:?} is not a subject") }
            }
            RequestErrorKind::TimedOut => PublishError::Unknown("no acknowledgement in time".to_owned()),
            RequestErrorKind::Other => PublishError::Unknown(error.to_string()),
        })?;
        let unknown = || PublishError::Unknown("the response is not a stream's acknowledgement".to_owned());
        let answer: Value = serde_json::from_slice(&answer.payload).map_err(|_| unknown())?;
        if let Some(error) = answer.get("error") {
            let why = error.get("description").and_then(Value::as_str).unwrap_or("no description");
            let code = error.get("err_code").and_then(Value::as_u64).map(|code| code.to_string());
            return Err(match error.get("code").and_then(Value::as_u64) {
                // No leader; the message may have been proposed before.
                Some(503) => PublishError::Unknown(why.to_owned()),
                _ if code.as_deref() == Some(HEADERS_TOO_LARGE) => PublishError::TooLarge,
                _ => PublishError::Refused { code, why: why.to_owned() },
            });
        }
        let stored = || {
            Some(Stored {
                stream: answer.get("stream")?.as_str()?.to_owned(),
                sequence: answer.get("seq")?.as_u64()?,
                is_duplicate: answer.get("duplicate").and_then(Value::as_bool).unwrap_or(false),
            })
        };
        stored().ok_or_else(unknown)
    }
}

impl PublishError {
    /// Converts to the error of work that is retried as a whole.
    pub fn into_source_error(self, doing: &'static str) -> SourceError {
        match self {
            PublishError::NotConnected(error) => error,
            PublishError::NoStream => {
                let why = "no stream captures the subject: declare the topology".to_owned();
                SourceError::Unavailable { doing, why }
            }
            PublishError::TooLarge => SourceError::Refused {
                code: None,
                why: format!("{doing}: larger than the server's max_payload"),
            },
            PublishError::Refused { code, why } => {
                SourceError::Refused { code, why: format!("{doing}: {why}") }
            }
            PublishError::Unknown(why) => SourceError::Unavailable { doing, why },
        }
    }
}

/// Adds a header, unless name or value cannot be sent.
pub(super) fn append(headers: &mut HeaderMap, name: &str, value: &str) -> bool {
    match (HeaderName::from_str(name), HeaderValue::from_str(value)) {
        (Ok(name), Ok(value)) => {
            headers.append(name, value);
            true
        }
        _ => false,
    }
}
