//! What stands above a letter that is sent: ours, and what of the original is safe to repeat.

use std::collections::HashSet;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use lazaret_core::header;
use lazaret_core::limits::HEADERS_PASSED_BYTES_MAX;
use lazaret_core::time::Time;

use super::{Outgoing, signature};
use crate::config::Secret;

/// What is sent as bytes of no known kind.
const UNKNOWN_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Headers that belong to one connection (RFC 9110), to one body, or to the client.
const OF_THE_CONNECTION: [&str; 19] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];

/// Headers that open doors. Whoever may report a letter must not speak in the name of another.
const OF_TRUST: [&str; 26] = [
    "authorization",
    "cf-connecting-ip",
    "client-ip",
    "cookie",
    "cookie2",
    "forwarded",
    "idempotency-key",
    "origin",
    "proxy-authorization",
    "referer",
    "remote-user",
    "set-cookie",
    "true-client-ip",
    "x-api-key",
    "x-auth-token",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-originating-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-user",
    "x-rewrite-url",
];

const OF_TRUST_BEGINNINGS: [&str; 3] = ["lazaret-", "x-forwarded-", "sec-"];

/// The headers of one letter.
pub(super) fn of(outgoing: &Outgoing) -> HeaderMap {
    let mut headers = passed_on(&outgoing.headers);
    let content_type = HeaderValue::from_str(&outgoing.content_type).ok();
    let content_type = content_type.filter(|value| !value.is_empty()).unwrap_or(UNKNOWN_TYPE);
    headers.insert(CONTENT_TYPE, content_type);
    // Said also of an empty body: there are receivers that insist on it.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(outgoing.body.len()));
    let ours = [
        ("lazaret-letter-id", outgoing.letter.to_string()),
        ("lazaret-life", outgoing.life.to_string()),
        ("lazaret-redrive-id", outgoing.redrive.to_string()),
        ("idempotency-key", outgoing.idempotency_key.clone()),
    ];
    for (name, value) in ours {
        let value = HeaderValue::from_str(&value).expect("ids and numbers are plain text");
        headers.insert(HeaderName::from_static(name), value);
    }
    headers
}

/// Adds the signature of a body that is sent at this moment.
pub(super) fn sign(headers: &mut HeaderMap, secret: &Secret, at: Time, body: &[u8]) {
    let signature = signature::sign(secret.reveal(), at.ms().div_euclid(1_000), body);
    let value = HeaderValue::from_str(&signature).expect("numbers and hex are plain text");
    headers.insert(HeaderName::from_static("lazaret-signature"), value);
}

/// What of the original is safe to repeat, in its order, as far as receivers take it. What is no header is left out, and so
/// are values without an obvious text: bytes, timestamps, arrays and tables.
fn passed_on(original: &[(String, header::HeaderValue)]) -> HeaderMap {
    // A connection names those headers that are its own.
    let named: HashSet<String> = original
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .filter_map(|(_, value)| value.as_text())
        .flat_map(|value| value.split(',').map(|part| part.trim().to_ascii_lowercase()))
        .collect();
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in original {
        let Some(value) = value.simple_text() else { continue };
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        else {
            continue;
        };
        let length = name.as_str().len() + value.len();
        if is_safe(name.as_str())
            && !named.contains(name.as_str())
            && bytes + length <= HEADERS_PASSED_BYTES_MAX
        {
            bytes += length;
            headers.append(name, value);
        }
    }
    headers
}

/// Whether a letter may carry a header of this name on.
pub(crate) fn is_passed_on(name: &str) -> bool {
    is_safe(&name.to_ascii_lowercase())
}

/// `name` is in lower case.
fn is_safe(name: &str) -> bool {
    !OF_THE_CONNECTION.contains(&name)
        && !OF_TRUST.contains(&name)
        && !OF_TRUST_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_safe_is_passed_on() {
        let original = [
            ("X-Tenant", "acme"),
            ("x-tenant", "second"),
            ("Traceparent", "00-1-2-01"),
            ("X-Name", "Grüße"),
            ("Connection", "close, X-Hop"),
            ("X-Hop", "1"),
            ("Authorization", "Bearer x"),
            ("COOKIE", "a=b"),
            ("Lazaret-Life", "9"),
            ("Idempotency-Key", "theirs"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "1"),
            ("Host", "elsewhere"),
            ("bad name", "x"),
            ("x-bad", "a\r\nEvil: 1"),
            ("", "x"),
        ];
        let mut original: Vec<_> = original.map(|(name, value)| (name.to_owned(), value.into())).into();
        original.push(("x-count".to_owned(), header::HeaderValue::Int64(3)));
        original.push(("x-death".to_owned(), header::HeaderValue::Table(Vec::new())));
        original.push(("x-raw".to_owned(), header::HeaderValue::Bytes(bytes::Bytes::from_static(b"a"))));
        let passed = passed_on(&original);
        let passed: Vec<(&str, &[u8])> =
            passed.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 5] = [
            ("x-tenant", b"acme"),
            ("x-tenant", b"second"),
            ("traceparent", b"00-1-2-01"),
            ("x-name", "Grüße".as_bytes()),
            ("x-count", b"3"),
        ];
        assert_eq!(passed, expected);
    }

    #[test]
    fn too_many_headers_are_cut() {
        let original: Vec<_> = (0..100).map(|n| (format!("x-{n}"), "v".repeat(1_000).into())).collect();
        let passed = passed_on(&original);
        assert!(passed.len() > 20 && passed.len() < 40, "{}", passed.len());
    }
}
