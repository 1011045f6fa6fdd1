//! The properties and headers of an AMQP message as headers of an envelope, and back.
//!
//! A property is a header `amqp.<name>`, such as `amqp.message-id`; a header of the application that begins with `amqp.` itself
//! is kept under `amqp.header.`. AMQP clients do not keep the order of headers, so they are sorted by name.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};
use lazaret_core::header::{HeaderValue, Headers};

/// Before the name of a property.
const PROPERTY: &str = "amqp.";
/// Before the name of an application's header that would be taken for a property.
const HEADER: &str = "amqp.header.";

pub(super) const CONTENT_TYPE: &str = "amqp.content-type";
pub(super) const CONTENT_ENCODING: &str = "amqp.content-encoding";
pub(super) const DELIVERY_MODE: &str = "amqp.delivery-mode";
pub(super) const PRIORITY: &str = "amqp.priority";
pub(super) const CORRELATION_ID: &str = "amqp.correlation-id";
pub(super) const REPLY_TO: &str = "amqp.reply-to";
pub(super) const EXPIRATION: &str = "amqp.expiration";
pub(super) const MESSAGE_ID: &str = "amqp.message-id";
pub(super) const TIMESTAMP: &str = "amqp.timestamp";
pub(super) const TYPE: &str = "amqp.type";
pub(super) const USER_ID: &str = "amqp.user-id";
pub(super) const APP_ID: &str = "amqp.app-id";
pub(super) const CLUSTER_ID: &str = "amqp.cluster-id";

/// A property of text: its name among an envelope's headers, how it is read and how it is set.
type TextProperty = (
    &'static str,
    fn(&BasicProperties) -> &Option<ShortString>,
    fn(BasicProperties, ShortString) -> BasicProperties,
);

const TEXTS: [TextProperty; 10] = [
    (CONTENT_TYPE, BasicProperties::content_type, BasicProperties::with_content_type),
    (CONTENT_ENCODING, BasicProperties::content_encoding, BasicProperties::with_content_encoding),
    (CORRELATION_ID, BasicProperties::correlation_id, BasicProperties::with_correlation_id),
    (REPLY_TO, BasicProperties::reply_to, BasicProperties::with_reply_to),
    (EXPIRATION, BasicProperties::expiration, BasicProperties::with_expiration),
    (MESSAGE_ID, BasicProperties::message_id, BasicProperties::with_message_id),
    (TYPE, BasicProperties::kind, BasicProperties::with_type),
    (USER_ID, BasicProperties::user_id, BasicProperties::with_user_id),
    (APP_ID, BasicProperties::app_id, BasicProperties::with_app_id),
    (CLUSTER_ID, BasicProperties::cluster_id, BasicProperties::with_cluster_id),
];

/// Why a header cannot be sent over AMQP.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("header {name:?} cannot be sent over AMQP: {why}")]
pub(super) struct Unsendable {
    pub name: String,
    pub why: &'static str,
}

const TOO_LONG: &str = "names and properties have at most 255 bytes";

/// All properties that are set, then the headers by name.
pub(super) fn to_headers(properties: &BasicProperties) -> Headers {
    let mut headers: Headers = Vec::new();
    for (name, read, _) in TEXTS {
        if let Some(text) = read(properties) {
            headers.push((name.to_owned(), HeaderValue::Text(text.as_str().to_owned())));
        }
    }
    for (name, value) in [(DELIVERY_MODE, properties.delivery_mode()), (PRIORITY, properties.priority())] {
        if let Some(value) = value {
            headers.push((name.to_owned(), HeaderValue::UInt8(*value)));
        }
    }
    if let Some(seconds) = properties.timestamp() {
        headers.push((TIMESTAMP.to_owned(), HeaderValue::Timestamp(*seconds)));
    }
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, value) in properties.headers().iter().flatten() {
        headers.push((header_name(name.as_str()), to_value(value)));
    }
    headers
}

/// The properties and headers that were read by [`to_headers`]. A name that occurs again is taken once, the last time.
pub(super) fn from_headers(headers: &[(String, HeaderValue)]) -> Result<BasicProperties, Unsendable> {
    let mut properties = BasicProperties::default();
    let mut table = FieldTable::default();
    for (name, value) in headers {
        properties = match as_property(properties, name, value)? {
            Ok(set) => set,
            Err(properties) => {
                let original = name.strip_prefix(HEADER).unwrap_or(name);
                table.insert(short(name, original)?, from_value(name, value)?);
                properties
            }
        };
    }
    Ok(properties.with_headers(table))
}

/// The properties with the one that is meant; as they were if the name is not that of a property.
fn as_property(
    properties: BasicProperties,
    name: &str,
    value: &HeaderValue,
) -> Result<Result<BasicProperties, BasicProperties>, Unsendable> {
    if !name.starts_with(PROPERTY) {
        return Ok(Err(properties));
    }
    let wrong = |why| Unsendable { name: name.to_owned(), why };
    if let Some((_, _, set)) = TEXTS.iter().find(|(known, _, _)| *known == name) {
        let text = value.simple_text().ok_or_else(|| wrong("it is not a text"))?;
        return Ok(Ok(set(properties, short(name, &text)?)));
    }
    let octet = || match value {
        HeaderValue::UInt8(octet) => Ok(*octet),
        other => {
            other.simple_text().and_then(|text| text.parse().ok()).ok_or_else(|| wrong("it is not an octet"))
        }
    };
    Ok(match name {
        DELIVERY_MODE => Ok(properties.with_delivery_mode(octet()?)),
        PRIORITY => Ok(properties.with_priority(octet()?)),
        TIMESTAMP => match value {
            HeaderValue::Timestamp(seconds) => Ok(properties.with_timestamp(*seconds)),
            _ => return Err(wrong("it is not a timestamp")),
        },
        _ => Err(properties),
    })
}

/// The name under which a header of a message is kept.
pub(super) fn header_name(name: &str) -> String {
    match name.starts_with(PROPERTY) {
        true => format!("{HEADER}{name}"),
        false => name.to_owned(),
    }
}

/// Bytes of the frame that carries these headers and properties. It cannot be split: a broker closes the connection over one
/// that is larger than was negotiated.
pub(super) fn frame_bytes(headers: &[(String, HeaderValue)]) -> usize {
    // Frame, class, weight, body size and flags; the length of the table of headers.
    const FIXED: usize = 8 + 2 + 2 + 8 + 2 + 4;
    FIXED + entries_bytes(headers)
}

fn entries_bytes(entries: &[(String, HeaderValue)]) -> usize {
    entries.iter().map(|(name, value)| 1 + name.len() + value_bytes(value)).sum()
}

/// Bytes of a value with the letter that names its type.
fn value_bytes(value: &HeaderValue) -> usize {
    1 + match value {
        HeaderValue::Text(text) | HeaderValue::ShortText(text) => 4 + text.len(),
        HeaderValue::Bytes(bytes) | HeaderValue::RawText(bytes) => 4 + bytes.len(),
        HeaderValue::Boolean(_) | HeaderValue::Int8(_) | HeaderValue::UInt8(_) => 1,
        HeaderValue::Int16(_) | HeaderValue::UInt16(_) => 2,
        HeaderValue::Int32(_) | HeaderValue::UInt32(_) | HeaderValue::Float32(_) => 4,
        HeaderValue::Int64(_) | HeaderValue::Float64(_) | HeaderValue::Timestamp(_) => 8,
        HeaderValue::Decimal { .. } => 5,
        HeaderValue::Array(values) => 4 + values.iter().map(value_bytes).sum::<usize>(),
        HeaderValue::Table(entries) => 4 + entries_bytes(entries),
        HeaderValue::Void => 0,
    }
}

fn short(name: &str, text: &str) -> Result<ShortString, Unsendable> {
    ShortString::try_new(text).map_err(|_| Unsendable { name: name.to_owned(), why: TOO_LONG })
}

/// Parsing has bounded the depth already: a header fits into one frame.
pub(super) fn to_value(value: &AMQPValue) -> HeaderValue {
    match value {
        AMQPValue::Boolean(value) => HeaderValue::Boolean(*value),
        AMQPValue::ShortShortInt(value) => HeaderValue::Int8(*value),
        AMQPValue::ShortShortUInt(value) => HeaderValue::UInt8(*value),
        AMQPValue::ShortInt(value) => HeaderValue::Int16(*value),
        AMQPValue::ShortUInt(value) => HeaderValue::UInt16(*value),
        AMQPValue::LongInt(value) => HeaderValue::Int32(*value),
        AMQPValue::LongUInt(value) => HeaderValue::UInt32(*value),
        AMQPValue::LongLongInt(value) => HeaderValue::Int64(*value),
        AMQPValue::Float(value) => HeaderValue::float32(*value),
        AMQPValue::Double(value) => HeaderValue::float64(*value),
        AMQPValue::DecimalValue(DecimalValue { scale, value }) => {
            HeaderValue::Decimal { scale: *scale, unscaled: *value }
        }
        AMQPValue::ShortString(text) => HeaderValue::ShortText(text.as_str().to_owned()),
        AMQPValue::LongString(text) => HeaderValue::long_string(Bytes::copy_from_slice(text.as_bytes())),
        AMQPValue::FieldArray(values) => HeaderValue::Array(values.as_slice().iter().map(to_value).collect()),
        AMQPValue::Timestamp(seconds) => HeaderValue::Timestamp(*seconds),
        AMQPValue::FieldTable(table) => {
            let entries = table.into_iter().map(|(name, value)| (name.as_str().to_owned(), to_value(value)));
            HeaderValue::Table(entries.collect())
        }
        AMQPValue::ByteArray(bytes) => HeaderValue::Bytes(Bytes::copy_from_slice(bytes.as_slice())),
        AMQPValue::Void => HeaderValue::Void,
    }
}

/// `header` is the name of the header that the value belongs to.
fn from_value(header: &str, value: &HeaderValue) -> Result<AMQPValue, Unsendable> {
    Ok(match value {
        // RabbitMQ has no short strings among headers.
        HeaderValue::Text(text) | HeaderValue::ShortText(text) => AMQPValue::LongString(text.as_str().into()),
        HeaderValue::Boolean(value) => AMQPValue::Boolean(*value),
        HeaderValue::Int8(value) => AMQPValue::ShortShortInt(*value),
        HeaderValue::Int16(value) => AMQPValue::ShortInt(*value),
        HeaderValue::Int32(value) => AMQPValue::LongInt(*value),
        HeaderValue::Int64(value) => AMQPValue::LongLongInt(*value),
        HeaderValue::UInt8(value) => AMQPValue::ShortShortUInt(*value),
        HeaderValue::UInt16(value) => AMQPValue::ShortUInt(*value),
        HeaderValue::UInt32(value) => AMQPValue::LongUInt(*value),
        HeaderValue::Float32(bits) => AMQPValue::Float(f32::from_bits(*bits)),
        HeaderValue::Float64(bits) => AMQPValue::Double(f64::from_bits(*bits)),
        HeaderValue::Decimal { scale, unscaled } => {
            AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: *unscaled })
        }
        HeaderValue::Timestamp(seconds) => AMQPValue::Timestamp(*seconds),
        HeaderValue::Bytes(bytes) => AMQPValue::ByteArray(bytes.to_vec().into()),
        HeaderValue::RawText(bytes) => AMQPValue::LongString(bytes.to_vec().into()),
        HeaderValue::Array(values) => {
            let values: Result<Vec<_>, _> = values.iter().map(|value| from_value(header, value)).collect();
            AMQPValue::FieldArray(values?.into())
        }
        HeaderValue::Table(entries) => {
            let mut table = FieldTable::default();
            for (name, value) in entries {
                table.insert(short(header, name)?, from_value(header, value)?);
            }
            AMQPValue::FieldTable(table)
        }
        HeaderValue::Void => AMQPValue::Void,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{collection, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn values() -> impl Strategy<Value = HeaderValue> {
        let leaf = prop_oneof![
            any::<String>().prop_map(HeaderValue::Text),
            collection::vec(any::<u8>(), 0..20).prop_map(|it| HeaderValue::long_string(it.into())),
            any::<bool>().prop_map(HeaderValue::Boolean),
            any::<i8>().prop_map(HeaderValue::Int8),
            any::<i16>().prop_map(HeaderValue::Int16),
            any::<i32>().prop_map(HeaderValue::Int32),
            any::<i64>().prop_map(HeaderValue::Int64),
            any::<u8>().prop_map(HeaderValue::UInt8),
            any::<u16>().prop_map(HeaderValue::UInt16),
            any::<u32>().prop_map(HeaderValue::UInt32),
            any::<u32>().prop_map(HeaderValue::Float32),
            any::<u64>().prop_map(HeaderValue::Float64),
            (any::<u8>(), any::<u32>())
                .prop_map(|(scale, unscaled)| HeaderValue::Decimal { scale, unscaled }),
            any::<u64>().prop_map(HeaderValue::Timestamp),
            collection::vec(any::<u8>(), 0..20).prop_map(|it| HeaderValue::Bytes(it.into())),
            Just(HeaderValue::Void),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let tables = collection::btree_map("[a-zé.]{0,9}", inner.clone(), 0..5);
            prop_oneof![
                collection::vec(inner, 0..5).prop_map(HeaderValue::Array),
                tables.prop_map(|it| HeaderValue::Table(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_header_and_property_comes_back(
            table in collection::btree_map("(amqp\\.)?(header\\.|message-id)?[a-z]{0,5}", values(), 0..6),
            texts in collection::vec(proptest::option::of("[a-z0-9é]{0,40}"), 10),
            octet in proptest::option::of(any::<u8>()),
            timestamp in proptest::option::of(any::<u64>()),
        ) {
            let mut properties = BasicProperties::default();
            for ((_, _, set), text) in TEXTS.iter().zip(texts) {
                if let Some(text) = text {
                    properties = set(properties, ShortString::try_new(text).unwrap());
                }
            }
            if let Some(octet) = octet {
                properties = properties.with_delivery_mode(octet).with_priority(octet);
            }
            if let Some(timestamp) = timestamp {
                properties = properties.with_timestamp(timestamp);
            }
            let mut fields = FieldTable::default();
            for (name, value) in &table {
                fields.insert(ShortString::try_new(name.as_str()).unwrap(), from_value(name, value).unwrap());
            }
            let headers = to_headers(&properties.with_headers(fields));
            let again = to_headers(&from_headers(&headers).unwrap());
            prop_assert_eq!(&again, &headers);
            let named: Vec<_> = table.into_iter().map(|(name, value)| (header_name(&name), value)).collect();
            for one in named {
                prop_assert_eq!(headers.iter().filter(|it| **it == one).count(), 1, "{:?}", one);
            }
        }
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let long = "x".repeat(256);
        for (name, value) in [
            (long.as_str(), HeaderValue::Void),
            (CORRELATION_ID, HeaderValue::Text(long.clone())),
            (TIMESTAMP, HeaderValue::Text("now".to_owned())),
            (PRIORITY, HeaderValue::Text("high".to_owned())),
            ("deep", HeaderValue::Array(vec![HeaderValue::Table(vec![(long.clone(), HeaderValue::Void)])])),
        ] {
            assert_eq!(from_headers(&[(name.to_owned(), value)]).unwrap_err().name, name);
        }
        let short = HeaderValue::ShortText("a".to_owned());
        let sent = from_headers(&[("n".to_owned(), short)]).unwrap();
        assert_eq!(to_headers(&sent), [("n".to_owned(), HeaderValue::from("a"))]);
    }
}
