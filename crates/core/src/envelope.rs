//! What was captured: raw bytes, content type, headers and their hash. Never changed once made.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::header::{HeaderValue, Headers};

/// The original of one life, exactly as it arrived.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    body: Bytes,
    content_type: String,
    headers: Headers,
    sha256: [u8; 32],
}

impl Envelope {
    /// Seals bytes and headers. The hash is over the body alone, so that anyone can check it with `sha256sum`. Headers are
    /// kept to `HEADER_DEPTH_MAX` levels.
    pub fn seal(body: Bytes, content_type: impl Into<String>, headers: Headers) -> Envelope {
        let sha256 = Sha256::digest(&body).into();
        let headers = headers.into_iter().map(|(name, value)| (name, value.bounded())).collect();
        Envelope { body, content_type: content_type.into(), headers, sha256 }
    }

    pub fn body(&self) -> &Bytes {
        &self.body
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
}
