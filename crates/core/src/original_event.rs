//! The original event of a letter as entries and the database's column show it.
//!
//! A reported event is its own description and stays verbatim. Jobs and outbox rows are described by the fields of the
//! published entry, made from what was captured with them; their bytes are the payload.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::job;
use crate::time::Time;

/// What a letter holds that its original event is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventParts<'a> {
    pub source: &'a str,
    pub event_id: &'a str,
    pub letter_type: &'a str,
    pub queue: &'a str,
    pub schema_version: Option<&'a str>,
    pub body: &'a [u8],
    /// What came with the life and was not obeyed, JSON text of an object.
    pub reported: Option<&'a str>,
}

/// The event of a job or of an outbox row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginalEvent<'a> {
    pub event_id: &'a str,
    pub pattern: &'a str,
    pub version: Option<&'a str>,
    pub source: EventSource<'a>,
    pub timestamp: Option<Time>,
    /// JSON text, verbatim; nothing if the body is not JSON.
    pub payload: Option<&'a str>,
    /// JSON text of an object, verbatim.
    pub metadata: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSource<'a> {
    pub kind: &'static str,
    pub id: &'a str,
    pub name: &'a str,
}

impl<'a> OriginalEvent<'a> {
    /// Describes the event of a job or an outbox row; `None` for a reported one, whose body describes itself.
    pub fn of(parts: EventParts<'a>) -> Option<OriginalEvent<'a>> {
        let reported = parts.reported.and_then(fields).unwrap_or_default();
        let (kind, timestamp, metadata) = if parts.source == job::SOURCE {
            ("task", "created_at", "meta")
        } else if OUTBOX_FIELDS.iter().all(|name| reported.contains_key(*name)) {
            ("integration", "createdAt", "row")
        } else {
            return None;
        };
        let timestamp = reported.get(timestamp).and_then(|raw| serde_json::from_str(raw).ok());
        let object = |raw: &&str| raw.starts_with('{');
        Some(OriginalEvent {
            event_id: parts.event_id,
            pattern: parts.letter_type,
            version: parts.schema_version,
            source: EventSource { kind, id: parts.source, name: parts.queue },
            timestamp: timestamp.and_then(|text: String| Time::parse(&text).ok()),
            payload: json(parts.body),
            metadata: reported.get(metadata).copied().filter(object).unwrap_or("{}"),
        })
    }

    /// The event as JSON text.
    pub fn to_json(&self) -> String {
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        format!(
            "{{\"eventId\":{},\"pattern\":{},\"version\":{},\"source\":{{\"type\":{},\"id\":{},\"name\":{}}},\
             \"timestamp\":{},\"payload\":{},\"metadata\":{}}}",
            Value::from(self.event_id),
            Value::from(self.pattern),
            text(self.version),
            Value::from(self.source.kind),
            Value::from(self.source.id),
            Value::from(self.source.name),
            text(self.timestamp.map(|at| at.to_string()).as_deref()),
            self.payload.unwrap_or("null"),
            self.metadata,
        )
    }
}

/// What is kept of every outbox row. No report keeps all of these: `retryCount` is obeyed and not kept.
const OUTBOX_FIELDS: [&str; 3] = ["table", "rowVersion", "retryCount"];

/// The fields of a JSON object, verbatim.
fn fields(text: &str) -> Option<BTreeMap<String, &str>> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    Some(fields.into_iter().map(|(name, raw)| (name, raw.get())).collect())
}

/// The text of a body that is JSON.
fn json(body: &[u8]) -> Option<&str> {
    let raw: &RawValue = serde_json::from_slice(body).ok()?;
    Some(raw.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(source: &'a str, body: &'a str, reported: Option<&'a str>) -> EventParts<'a> {
        EventParts {
            source,
            event_id: "7",
            letter_type: "OrderCreated",
            queue: "public.outbox",
            schema_version: Some("2"),
            body: body.as_bytes(),
            reported,
        }
    }

    #[test]
    fn a_job_is_described_by_its_record() {
        let record =
            r#"{"id":"7","meta":{"tenant_id":"t","n":1.10},"created_at":"2026-01-02T03:04:05.678Z"}"#;
        let event = OriginalEvent::of(parts("jobs", "[1.10, \"a\"]", Some(record))).unwrap();
        assert_eq!(
            event.to_json(),
            r#"{"eventId":"7","pattern":"OrderCreated","version":"2","source":{"type":"task","id":"jobs","name":"public.outbox"},"timestamp":"2026-01-02T03:04:05.678Z","payload":[1.10, "a"],"metadata":{"tenant_id":"t","n":1.10}}"#
        );
        // Without a record, and with a body that is not JSON, the rest is still there.
        let bare =
            OriginalEvent::of(EventParts { schema_version: None, ..parts("jobs", "a", None) }).unwrap();
        assert_eq!(
            bare.to_json(),
            r#"{"eventId":"7","pattern":"OrderCreated","version":null,"source":{"type":"task","id":"jobs","name":"public.outbox"},"timestamp":null,"payload":null,"metadata":{}}"#
        );
    }

    #[test]
    fn an_outbox_row_is_described_by_what_is_kept_of_it() {
        let row = r#"{"table":"t","rowVersion":"8","retryCount":5,"createdAt":"2026-01-02T03:04:05.678Z","row":{"id":7}}"#;
        let event = OriginalEvent::of(parts("shop", "{\"a\":1}", Some(row))).unwrap();
        assert_eq!((event.source.kind, event.source.id), ("integration", "shop"));
        assert_eq!((event.payload, event.metadata), (Some("{\"a\":1}"), "{\"id\":7}"));
        assert_eq!(event.timestamp.unwrap().to_string(), "2026-01-02T03:04:05.678Z");
        // Rows that were captured before their time of creation was kept.
        let old = r#"{"table":"t","rowVersion":"8","retryCount":5,"lastError":null}"#;
        let event = OriginalEvent::of(parts("shop", "{}", Some(old))).unwrap();
        assert_eq!((event.timestamp, event.metadata), (None, "{}"));
    }

    #[test]
    fn a_reported_event_describes_itself() {
        for reported in [None, Some("{}"), Some("not JSON"), Some(r#"{"table":"t","rowVersion":"8"}"#)] {
            assert_eq!(OriginalEvent::of(parts("billing", "{}", reported)), None, "{reported:?}");
        }
    }
}
