//! The topology: our streams and durable consumers, and the retry policy of watched consumers, compared with the server and applied.
//! Changes nothing of an application's consumer but `max_deliver` and `backoff`.

use lazaret_core::broker::RECEIPTS_SUBJECT;
use lazaret_core::limits;
use serde_json::{Map, Value, json};

use super::JetStream;
use super::api::text;
use super::config::{JetStreamConfig, Scope, WatchedConsumer};
use crate::{Change, ChangeKind, Declare, SourceError};

pub(super) const MAX_DELIVERIES: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES";
pub(super) const MSG_TERMINATED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED";
pub(super) const ACK_METRIC: &str = "$JS.EVENT.METRIC.CONSUMER.ACK";
/// The subjects of acknowledgements: `$JS.ACK.<stream>.<consumer>.<delivery>.<sequence>.…`.
pub(super) const ACK: &str = "$JS.ACK";
/// The subjects of the dead-letter stream.
pub(super) const DEAD_LETTERS: &str = "dlq.>";
/// The subjects of records of the sampling that consumers had before a redrive.
pub(super) const SAMPLING: &str = "lazaret.sampling";

/// Settings that the server cannot change on an existing stream or consumer.
const FIXED: [&str; 5] = ["storage", "retention", "ack_policy", "deliver_policy", "deliver_subject"];

/// Returns the differences, and applies them for `Declare::Apply`.
pub(super) async fn declare(jetstream: &JetStream, how: Declare) -> Result<Vec<Change>, SourceError> {
    let config = &jetstream.config;
    let mut changes = Vec::new();
    for wanted in streams(config) {
        changes.extend(declare_stream(jetstream, &wanted, how).await?);
    }
    for (stream, wanted) in own_consumers(config) {
        changes.extend(declare_own_consumer(jetstream, &stream, &wanted, how).await?);
    }
    for watched in &config.consumers {
        changes.extend(declare_watched(jetstream, watched, how).await?);
    }
    Ok(changes)
}

fn nanoseconds(ms: u64) -> Value {
    json!(ms.saturating_mul(1_000_000))
}

fn advisory_subjects(config: &JetStreamConfig) -> Vec<String> {
    let mut subjects = match config.scope {
        Scope::Account => vec![format!("{MAX_DELIVERIES}.>"), format!("{MSG_TERMINATED}.>")],
        Scope::Configured => config
            .consumers
            .iter()
            .flat_map(|it| {
                [MAX_DELIVERIES, MSG_TERMINATED].map(|event| format!("{event}.{}.{}", it.stream, it.consumer))
            })
            .collect(),
    };
    subjects.extend([format!("{SAMPLING}.>"), RECEIPTS_SUBJECT.to_owned()]);
    subjects
}

fn metric_subjects(config: &JetStreamConfig) -> Vec<String> {
    let mut subjects = match config.scope {
        Scope::Account => vec![format!("{ACK_METRIC}.>")],
        Scope::Configured => {
            config.consumers.iter().map(|it| format!("{ACK_METRIC}.{}.{}", it.stream, it.consumer)).collect()
        }
    };
    // The server publishes no metric for the acknowledgement of an exhausted message. With `max_deliver` 1 these would be all
    // acknowledgements.
    let watched = config.consumers.iter().filter(|it| it.max_deliver > 1);
    subjects.extend(watched.map(|it| format!("{ACK}.{}.{}.{}.>", it.stream, it.consumer, it.max_deliver)));
    subjects
}

/// The streams that Lazaret needs, with the settings that it relies on.
fn streams(config: &JetStreamConfig) -> Vec<Value> {
    let kept = |name: &str, subjects: Vec<String>, window_ms: u64| {
        json!({
            "name": name, "subjects": subjects, "retention": "limits", "storage": "file", "discard": "old",
            "num_replicas": config.replicas, "max_age": nanoseconds(config.max_age_ms),
            "duplicate_window": nanoseconds(window_ms), "max_msgs": -1, "max_bytes": -1,
            "max_msgs_per_subject": -1,
        })
    };
    let mut streams = vec![
        kept(&config.dlq_stream, vec![DEAD_LETTERS.to_owned()], config.duplicate_window_ms),
        // Advisories carry no message id; receipts do.
        kept(&config.advisory_stream, advisory_subjects(config), 120_000),
    ];
    let metrics = metric_subjects(config);
    if !metrics.is_empty() {
        streams.push(json!({
            "name": config.metrics_stream, "subjects": metrics, "retention": "limits", "storage": "file",
            "discard": "old", "num_replicas": config.replicas, "max_age": nanoseconds(limits::JETSTREAM_METRICS_AGE_MS),
            "max_bytes": limits::JETSTREAM_METRICS_BYTES_MAX, "duplicate_window": nanoseconds(120_000),
            // Acknowledgements are confirmed by the consumer, not by this stream.
            "no_ack": true,
        }));
    }
    streams
}

/// The durable consumers that all instances share.
fn own_consumers(config: &JetStreamConfig) -> Vec<(String, Value)> {
    let durable = |name: String, filter: &str| {
        json!({
            "durable_name": name, "filter_subject": filter, "ack_policy": "explicit", "deliver_policy": "all",
            "replay_policy": "instant", "ack_wait": nanoseconds(config.ack_wait_ms), "max_deliver": -1,
            "max_ack_pending": limits::JETSTREAM_ACK_PENDING_MAX,
        })
    };
    let mut follow_up = durable(config.follow_up_durable(), DEAD_LETTERS);
    follow_up["max_ack_pending"] = json!(limits::JETSTREAM_FOLLOWED_MAX);
    follow_up["headers_only"] = json!(true);
    vec![
        (config.dlq_stream.clone(), durable(config.capture_durable(), DEAD_LETTERS)),
        (config.dlq_stream.clone(), follow_up),
        (config.advisory_stream.clone(), durable(config.bridge_durable(), "$JS.EVENT.ADVISORY.CONSUMER.>")),
        (config.advisory_stream.clone(), durable(config.receipts_durable(), RECEIPTS_SUBJECT)),
    ]
}

async fn declare_stream(
    jetstream: &JetStream,
    wanted: &Value,
    how: Declare,
) -> Result<Option<Change>, SourceError> {
    let name = text(wanted, "name");
    let subject = format!("stream {name}");
    if let Some(why) = conflict(jetstream, name, wanted).await? {
        return Ok(Some(Change { subject, kind: ChangeKind::Blocked(why), details: Vec::new() }));
    }
    let Some(there) = jetstream.link.stream(name).await? else {
        if how == Declare::Apply {
            jetstream.link.create_stream(wanted).await?;
        }
        return Ok(Some(Change { subject, kind: ChangeKind::Create, details: settings(wanted) }));
    };
    let Some((change, merged)) = diff(subject, there.config(), wanted) else { return Ok(None) };
    if how == Declare::Apply && change.kind == ChangeKind::Update {
        jetstream.link.update_stream(&merged).await?;
    }
    Ok(Some(change))
}

/// Finds another stream that captures a subject of ours.
async fn conflict(jetstream: &JetStream, name: &str, wanted: &Value) -> Result<Option<String>, SourceError> {
    let subjects = wanted.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    for subject in subjects.iter().filter_map(Value::as_str) {
        let others = jetstream.link.streams_on(subject).await?;
        if let Some(other) = others.iter().find(|other| *other != name) {
            return Ok(Some(format!(
                "stream {other} captures {subject}: configure that stream's name, or take the subject from it"
            )));
        }
    }
    Ok(None)
}

async fn declare_own_consumer(
    jetstream: &JetStream,
    stream: &str,
    wanted: &Value,
    how: Declare,
) -> Result<Option<Change>, SourceError> {
    let name = text(wanted, "durable_name");
    let subject = format!("consumer {stream}.{name}");
    let (change, config) = match jetstream.link.consumer(stream, name).await? {
        None => (Change { subject, kind: ChangeKind::Create, details: settings(wanted) }, wanted.clone()),
        Some(there) => match diff(subject, there.config(), wanted) {
            None => return Ok(None),
            Some(diff) => diff,
        },
    };
    let is_possible = !matches!(change.kind, ChangeKind::Blocked(_));
    // A stream that is blocked may be missing altogether.
    if how == Declare::Apply && is_possible && jetstream.link.stream(stream).await?.is_some() {
        jetstream.link.put_consumer(stream, &config).await?;
    }
    Ok(Some(change))
}

async fn declare_watched(
    jetstream: &JetStream,
    watched: &WatchedConsumer,
    how: Declare,
) -> Result<Option<Change>, SourceError> {
    let WatchedConsumer { stream, consumer, max_deliver, backoff_ms } = watched;
    let subject = format!("consumer {stream}.{consumer}");
    let blocked = |why: &str| {
        let kind = ChangeKind::Blocked(why.to_owned());
        Ok(Some(Change { subject: subject.clone(), kind, details: Vec::new() }))
    };
    let Some(there) = jetstream.link.consumer(stream, consumer).await? else {
        return blocked(
            "it does not exist: its application creates it, or the name in the configuration is wrong",
        );
    };
    if text(there.config(), "ack_policy") == "none" {
        return blocked("it has no acknowledgements (ack_policy none), so no delivery can fail");
    }
    let backoff: Vec<Value> = backoff_ms.iter().map(|ms| nanoseconds(*ms)).collect();
    let wanted = json!({"max_deliver": max_deliver, "backoff": backoff});
    let Some((change, merged)) = diff(subject.clone(), there.config(), &wanted) else { return Ok(None) };
    if how == Declare::Apply {
        jetstream.link.put_consumer(stream, &merged).await?;
    }
    Ok(Some(change))
}

/// Returns the differences and the merged configuration. Settings that are not wanted keep their values.
fn diff(subject: String, there: &Value, wanted: &Value) -> Option<(Change, Value)> {
    let (mut merged, mut details, mut fixed) = (there.clone(), Vec::new(), Vec::new());
    for (key, to) in wanted.as_object().into_iter().flatten() {
        let from = there.get(key).unwrap_or(&Value::Null);
        if is_same(key, from, to) {
            continue;
        }
        let difference = format!("{key}: {} -> {}", shown(key, from), shown(key, to));
        if FIXED.contains(&key.as_str()) {
            fixed.push(difference.clone());
        }
        details.push(difference);
        merged.as_object_mut().unwrap_or(&mut Map::new()).insert(key.clone(), to.clone());
    }
    if details.is_empty() {
        return None;
    }
    let kind = match fixed.is_empty() {
        true => ChangeKind::Update,
        false => ChangeKind::Blocked(format!(
            "the server cannot change {}: delete and create it anew, or configure another name",
            fixed.join(", ")
        )),
    };
    Some((Change { subject, kind, details }, merged))
}

fn is_same(key: &str, from: &Value, to: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut texts: Vec<String> =
            value.as_array().into_iter().flatten().map(|it| it.to_string()).collect();
        texts.sort();
        texts
    };
    match (from, to) {
        (from, to) if from == to => true,
        (from @ Value::Array(_), to @ Value::Array(_)) if key == "subjects" => sorted(from) == sorted(to),
        // The server omits empty values.
        (Value::Null, Value::Array(to)) => to.is_empty(),
        (Value::Null, Value::String(to)) => to.is_empty(),
        (Value::Null, Value::Number(to)) => matches!(to.as_i64(), Some(0 | -1)),
        _ => false,
    }
}

/// Lists the settings of a stream or consumer to create.
fn settings(wanted: &Value) -> Vec<String> {
    let named = ["name", "durable_name"];
    let settings = wanted.as_object().into_iter().flatten();
    let settings = settings.filter(|(key, value)| !named.contains(&key.as_str()) && **value != json!(-1));
    settings.map(|(key, value)| format!("{key}: {}", shown(key, value))).collect()
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(|value| shown(key, value)).collect::<Vec<_>>().join(", "),
        Value::Number(number) => match (key, number.as_u64()) {
            ("max_age" | "duplicate_window" | "ack_wait" | "backoff", Some(ns)) => duration(ns / 1_000_000),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

pub(super) fn duration(ms: u64) -> String {
    for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms >= unit && ms.is_multiple_of(unit) {
            return format!("{}{name}", ms / unit);
        }
    }
    format!("{ms}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_changed_and_what_cannot_be_is_told() {
        let there = json!({"max_deliver": -1, "ack_wait": 30_000_000_000_u64, "ack_policy": "explicit", "new": {"a": 1}});
        let wanted = json!({"max_deliver": 5, "backoff": [1_000_000_000_u64, 2_000_000_000_u64]});
        let (change, merged) = diff("consumer A.b".to_owned(), &there, &wanted).unwrap();
        assert_eq!(change.kind, ChangeKind::Update);
        assert_eq!(change.details, ["backoff: none -> 1s, 2s", "max_deliver: -1 -> 5"]);
        assert_eq!(merged["new"], json!({"a": 1}));
        assert_eq!(merged["ack_wait"], there["ack_wait"]);
        assert!(diff(String::new(), &merged, &wanted).is_none());
        let (change, _) =
            diff(String::new(), &json!({"storage": "memory"}), &json!({"storage": "file"})).unwrap();
        assert!(matches!(change.kind, ChangeKind::Blocked(why) if why.contains("storage: memory -> file")));
    }

    #[test]
    fn subjects_in_another_order_and_missing_defaults_are_no_difference() {
        let there = json!({"subjects": ["b", "a"]});
        assert!(diff(String::new(), &there, &json!({"subjects": ["a", "b"], "max_msgs": -1})).is_none());
    }

    #[test]
    fn durations_are_shown_in_their_largest_unit() {
        let shown = [90 * 86_400_000, 3_600_000, 120_000, 1_500, 250].map(duration);
        assert_eq!(shown, ["90d", "1h", "2m", "1500ms", "250ms"]);
    }
}
