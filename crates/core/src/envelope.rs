//! What was captured: raw bytes, content type, headers, where it came from, and the hash. Never changed once made.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::header::{HeaderValue, Headers};
use crate::origin::Origin;

/// The original of one life, exactly as it arrived.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    body: Bytes,
    content_type: String,
    headers: Headers,
    sha256: [u8; 32],
    origin: Option<Origin>,
    body_missing: Option<String>,
}

impl Envelope {
    /// Seals bytes and headers. The hash is over the body alone, so that anyone can check it with `sha256sum`. Headers are
    /// kept to `HEADER_DEPTH_MAX` levels.
    pub fn seal(body: Bytes, content_type: impl Into<String>, headers: Headers) -> Envelope {
        let sha256 = Sha256::digest(&body).into();
        let headers = headers.into_iter().map(|(name, value)| (name, value.bounded())).collect();
        Envelope {
            body,
            content_type: content_type.into(),
            headers,
            sha256,
            origin: None,
            body_missing: None,
        }
    }

    /// Adds where the message came from.
    pub fn with_origin(self, origin: Option<Origin>) -> Envelope {
        Envelope { origin, ..self }
    }

    /// Says why there is no body, if there is none. The bytes are then none, whatever they were.
    pub fn with_body_missing(self, reason: Option<String>) -> Envelope {
        match reason {
            None => Envelope { body_missing: None, ..self },
            Some(reason) => Envelope {
                body: Bytes::new(),
                sha256: Sha256::digest([]).into(),
                body_missing: Some(reason),
                ..self
            },
        }
    }

    /// The bytes; none if the body is missing.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Why there is no body: the message was gone before it could be read. Nothing for a body that is there, be it empty.
    pub fn body_missing(&self) -> Option<&str> {
        self.body_missing.as_deref()
    }

    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    pub fn headers(&self) -> &[(String, HeaderValue)] {
        &self.headers
    }

    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
}
