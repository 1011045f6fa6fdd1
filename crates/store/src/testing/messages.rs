//! Messages that hold everything that a broker can give: what tests carry through stores, files and destinations.

use bytes::Bytes;
use lazaret_core::envelope::Envelope;
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::origin::{JetStreamOrigin, Origin};

/// Headers of every type, with repeated names, in an order that no sort gives.
pub fn every_header() -> Headers {
    let nested = HeaderValue::Table(vec![
        ("queue".to_owned(), HeaderValue::from("orders")),
        ("count".to_owned(), HeaderValue::Int64(3)),
        ("count".to_owned(), HeaderValue::Void),
        ("routing-keys".to_owned(), HeaderValue::Array(vec!["eu.new".into(), HeaderValue::Boolean(false)])),
    ]);
    let all = [
        ("trace", HeaderValue::from("7")),
        ("boolean", HeaderValue::Boolean(true)),
        ("int8", HeaderValue::Int8(i8::MIN)),
        ("int16", HeaderValue::Int16(i16::MIN)),
        ("int32", HeaderValue::Int32(i32::MIN)),
        ("int64", HeaderValue::Int64(i64::MIN)),
        ("trace", HeaderValue::Int64(9_007_199_254_740_993)),
        ("uint8", HeaderValue::UInt8(u8::MAX)),
        ("uint16", HeaderValue::UInt16(u16::MAX)),
        ("uint32", HeaderValue::UInt32(u32::MAX)),
        ("float32", HeaderValue::float32(0.1)),
        ("float64", HeaderValue::float64(-0.0)),
        ("inf", HeaderValue::float32(f32::NEG_INFINITY)),
        ("nan", HeaderValue::Float64(0x7ff0_0000_dead_beef)),
        ("decimal", HeaderValue::Decimal { scale: 2, unscaled: 1_999 }),
        ("timestamp", HeaderValue::Timestamp(u64::MAX)),
        ("bytes", HeaderValue::Bytes(Bytes::from_static(b"\x00\xff text"))),
        ("raw", HeaderValue::long_string(Bytes::from_static(b"caf\xe9"))),
        ("short", HeaderValue::ShortText("short".to_owned())),
        ("x-death", HeaderValue::Array(vec![nested.clone(), nested])),
        ("void", HeaderValue::Void),
        ("looks-typed", HeaderValue::from(r#"{"type":"void","value":null}"#)),
        ("trace", HeaderValue::from("")),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A message with everything: headers of every type, and an origin.
pub fn full(body: &'static [u8]) -> Envelope {
    let origin = JetStreamOrigin {
        stream: Some("ORDERS".to_owned()),
        stream_created_at: Some("2026-11-15T03:00:00.123456789Z".to_owned()),
        sequence: Some(u64::MAX),
        subject: "orders.eu.new".to_owned(),
        consumer: Some("billing".to_owned()),
        published_at: Some("2026-11-15T03:00:01Z".to_owned()),
    };
    Envelope::seal(Bytes::from_static(body), "application/json", every_header())
        .with_origin(Some(Origin::JetStream(origin)))
}

/// Why the message of `without_body` has no body.
pub const GONE: &str = "the stream no longer has sequence 4711";

/// A message whose body is gone, from a broker that this version does not know.
pub fn without_body() -> Envelope {
    let origin = r#"{ "kind": "unheard-of", "offset": 1.50 }"#.to_owned();
    Envelope::seal(Bytes::new(), "", every_header())
        .with_origin(Some(Origin::Other(origin)))
        .with_body_missing(Some(GONE.to_owned()))
}
