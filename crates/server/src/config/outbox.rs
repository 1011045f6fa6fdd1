//! `[sources.<name>]` of the kind `outbox`: a table in an application's PostgreSQL, and a relay for it.
//!
//! The address may hold a password: it is shown masked, and no error repeats it.

use std::collections::BTreeMap;

use lazaret_core::limits;
use lazaret_sources::outbox::{Columns, Order, OutboxConfig, RelayConfig, Statuses, TableName};
use serde::Serialize;

use super::check::parse_scalar;
use super::destination::{self, DestinationConfig, ShownDestination};
use super::layer::Settings;
use super::problem::{Place, Problems, quoted};
use super::retry::ShownPolicy;
use super::schema::{Key, Shape, key};
use super::store_url::PostgresUrl;
use super::{retry, value};

/// An outbox as it is configured.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboxSource {
    pub outbox: OutboxConfig,
    /// The address as it is shown.
    pub url: PostgresUrl,
    /// Where the relay delivers to; there is one exactly if there is a relay.
    pub sink: Option<DestinationConfig>,
    /// Whether somebody takes the responsibility for deleting its letters before the floor of 90 days.
    pub acknowledge_early_delete: bool,
}

/// Every key of an outbox, beside those that all sources have.
pub(super) const KEYS: &[&str] =
    &["url", "table", "columns", "statuses", "subscriber", "sweep", "poll", "relay", ACKNOWLEDGE];

pub(super) const ACKNOWLEDGE: &str = "acknowledge_early_delete";

pub(super) const COLUMNS: &[Key] = &[
    key("id", Shape::Text),
    key("event_type", Shape::Text),
    key("aggregate_type", Shape::Text),
    key("aggregate_id", Shape::Text),
    key("payload", Shape::Text),
    key("schema_version", Shape::Text),
    key("status", Shape::Text),
    key("retry_count", Shape::Text),
    key("max_retries", Shape::Text),
    key("last_error", Shape::Text),
    key("next_attempt_at", Shape::Text),
    key("created_at", Shape::Text),
    key("processed_at", Shape::Text),
    key("tenant", Shape::Text),
];

pub(super) const STATUSES: &[Key] = &[
    key("pending", Shape::Text),
    key("processing", Shape::Text),
    key("processed", Shape::Text),
    key("dead_letter", Shape::Text),
];

/// The longest pause between two looks at all dead rows: a day.
const SWEEP_MS_MAX: u64 = 86_400_000;

/// The longest that a claim may last: an hour. A row that is stuck for longer is missed.
const STUCK_MS_MAX: u64 = 3_600_000;

/// Reads what is set under `path`. Nothing if something of it is bad, which is reported.
pub(super) fn check(
    name: &str,
    place: &Place,
    settings: &Settings,
    problems: &mut Problems,
) -> Option<OutboxSource> {
    let path = format!("sources.{name}");
    let at = |key: &str| format!("{path}.{key}");
    for needed in ["url", "table"] {
        if !settings.contains_key(&at(needed)) {
            problems.add(place.clone(), &path, format!("{needed} is missing"));
        }
    }
    let url = parse_scalar(settings, &at("url"), &at("url"), PostgresUrl::parse, problems);
    let named = |text: &str| TableName::parse(text).map_err(|bad| bad.to_string());
    let table = parse_scalar(settings, &at("table"), &at("table"), named, problems);
    let subscriber = parse_scalar(settings, &at("subscriber"), &at("subscriber"), value::name, problems);
    let mut length = |key: &str, max| {
        parse_scalar(settings, &at(key), &at(key), |text| value::length_ms(text, max), problems)
    };
    let (sweep_ms, poll_ms) = (length("sweep", SWEEP_MS_MAX), length("poll", SWEEP_MS_MAX));
    let acknowledged = parse_scalar(settings, &at(ACKNOWLEDGE), &at(ACKNOWLEDGE), value::flag, problems);
    let columns = columns(&at("columns"), settings, problems);
    let statuses = statuses(&at("statuses"), settings, problems);
    let (relay, sink) = relay(&at("relay"), settings, problems);
    let (url, table) = (url?, table?);
    let defaults = OutboxConfig::new(name, url.secret(), table);
    let outbox = OutboxConfig {
        columns,
        statuses,
        // The sink that the relay has is who the events are for.
        subscriber,
        sweep_ms: sweep_ms.unwrap_or(defaults.sweep_ms),
        poll_ms: poll_ms.unwrap_or(defaults.poll_ms),
        relay,
        ..defaults
    };
    if let Err(unfit) = lazaret_sources::outbox::Outbox::new(outbox.clone()) {
        problems.add(place.clone(), &path, unfit.to_string());
        return None;
    }
    let acknowledge_early_delete = acknowledged.unwrap_or(false);
    Some(OutboxSource { outbox, url, sink, acknowledge_early_delete })
}

/// The columns, each as it is called here. One that is named "" is not there.
fn columns(path: &str, settings: &Settings, problems: &mut Problems) -> Columns {
    let mut columns = Columns::default();
    let mut read = |name: &str| {
        let at = format!("{path}.{name}");
        parse_scalar(settings, &at, &at, |text| Ok::<_, String>(text.to_owned()), problems)
    };
    for (name, column) in [
        ("id", &mut columns.id),
        ("event_type", &mut columns.event_type),
        ("payload", &mut columns.payload),
        ("status", &mut columns.status),
        ("retry_count", &mut columns.retry_count),
        ("last_error", &mut columns.last_error),
        ("created_at", &mut columns.created_at),
    ] {
        if let Some(own) = read(name) {
            *column = own;
        }
    }
    for (name, column) in [
        ("aggregate_type", &mut columns.aggregate_type),
        ("aggregate_id", &mut columns.aggregate_id),
        ("schema_version", &mut columns.schema_version),
        ("max_retries", &mut columns.max_retries),
        ("next_attempt_at", &mut columns.next_attempt_at),
        ("processed_at", &mut columns.processed_at),
        ("tenant", &mut columns.tenant),
    ] {
        if let Some(own) = read(name) {
            *column = Some(own).filter(|own| !own.is_empty());
        }
    }
    columns
}

fn statuses(path: &str, settings: &Settings, problems: &mut Problems) -> Statuses {
    let mut statuses = Statuses::default();
    for (name, word) in [
        ("pending", &mut statuses.pending),
        ("processing", &mut statuses.processing),
        ("processed", &mut statuses.processed),
        ("dead_letter", &mut statuses.dead_letter),
    ] {
        let at = format!("{path}.{name}");
        if let Some(own) = parse_scalar(settings, &at, &at, value::filled, problems) {
            *word = own;
        }
    }
    statuses
}

/// The relay and its sink, if either is set.
fn relay(
    path: &str,
    settings: &Settings,
    problems: &mut Problems,
) -> (Option<RelayConfig>, Option<DestinationConfig>) {
    let inside = format!("{path}.");
    let first = settings.iter().find(|(key, _)| *key == path || key.starts_with(&inside));
    let Some(place) = first.map(|(_, setting)| setting.place.clone()) else { return (None, None) };
    let at = |key: &str| format!("{path}.{key}");
    let sink = destination::check(&at("sink"), settings, problems);
    let sink_is_set = settings.keys().any(|key| key.starts_with(&at("sink")));
    if !sink_is_set {
        let message = "a relay needs a sink to deliver to".to_owned();
        problems.add_with_hint(place, path, message, "set url under [sources.<name>.relay.sink]");
    }
    let mut count = |key: &str, max: usize| {
        let number = |text: &str| value::count(text, 1..=max as u64);
        parse_scalar(settings, &at(key), &at(key), number, problems).map(|number| number as usize)
    };
    let concurrency = count("concurrency", limits::RELAY_CONCURRENCY_MAX);
    let batch = count("batch", limits::RELAY_BATCH_MAX);
    let mut length = |key: &str, max| {
        parse_scalar(settings, &at(key), &at(key), |text| value::length_ms(text, max), problems)
    };
    let (stuck_after_ms, poll_ms) = (length("stuck_after", STUCK_MS_MAX), length("poll", STUCK_MS_MAX));
    let preset = parse_scalar(settings, &at("preset"), &at("preset"), retry::preset, problems);
    let order = parse_scalar(settings, &at("order"), &at("order"), order, problems);
    let defaults = RelayConfig::default();
    let preset = preset.unwrap_or(defaults.preset);
    let relay = RelayConfig {
        preset,
        retry: retry::check(path, preset, settings, problems),
        concurrency: concurrency.unwrap_or(defaults.concurrency),
        batch: batch.unwrap_or(defaults.batch),
        order: order.unwrap_or(defaults.order),
        stuck_after_ms: stuck_after_ms.unwrap_or(defaults.stuck_after_ms),
        poll_ms: poll_ms.unwrap_or(defaults.poll_ms),
    };
    (Some(relay), sink)
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "pass" => Ok(Order::Pass),
        "wait" => Ok(Order::Wait),
        _ => Err(format!("{} is not known; write pass or wait", quoted(text))),
    }
}

const fn order_name(order: Order) -> &'static str {
    match order {
        Order::Pass => "pass",
        Order::Wait => "wait",
    }
}

/// As it is written to a file, beside what all sources have.
#[derive(Serialize)]
pub(super) struct ShownOutbox {
    url: String,
    table: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriber: Option<String>,
    sweep: String,
    poll: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    acknowledge_early_delete: bool,
    columns: BTreeMap<&'static str, String>,
    statuses: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<ShownRelay>,
}

#[derive(Serialize)]
struct ShownRelay {
    preset: &'static str,
    #[serde(flatten)]
    retry: ShownPolicy,
    concurrency: u32,
    batch: u32,
    order: &'static str,
    stuck_after: String,
    poll: String,
    classes: BTreeMap<&'static str, ShownPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<ShownDestination>,
}

pub(super) fn shown(source: &OutboxSource) -> ShownOutbox {
    let OutboxSource { outbox, url, sink, acknowledge_early_delete } = source;
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let columns = &outbox.columns;
    let optional = |column: &Option<String>| column.clone().unwrap_or_default();
    ShownOutbox {
        url: url.to_string(),
        table: outbox.table.to_string(),
        subscriber: outbox.subscriber.clone(),
        sweep: value::length_text(outbox.sweep_ms),
        poll: value::length_text(outbox.poll_ms),
        acknowledge_early_delete: *acknowledge_early_delete,
        columns: BTreeMap::from([
            ("id", columns.id.clone()),
            ("event_type", columns.event_type.clone()),
            ("aggregate_type", optional(&columns.aggregate_type)),
            ("aggregate_id", optional(&columns.aggregate_id)),
            ("payload", columns.payload.clone()),
            ("schema_version", optional(&columns.schema_version)),
            ("status", columns.status.clone()),
            ("retry_count", columns.retry_count.clone()),
            ("max_retries", optional(&columns.max_retries)),
            ("last_error", columns.last_error.clone()),
            ("next_attempt_at", optional(&columns.next_attempt_at)),
            ("created_at", columns.created_at.clone()),
            ("processed_at", optional(&columns.processed_at)),
            ("tenant", optional(&columns.tenant)),
        ]),
        statuses: BTreeMap::from([
            ("pending", outbox.statuses.pending.clone()),
            ("processing", outbox.statuses.processing.clone()),
            ("processed", outbox.statuses.processed.clone()),
            ("dead_letter", outbox.statuses.dead_letter.clone()),
        ]),
        relay: outbox.relay.as_ref().map(|relay| ShownRelay {
            preset: relay.preset.name(),
            retry: retry::shown(relay.retry.base()),
            concurrency: small(relay.concurrency),
            batch: small(relay.batch),
            order: order_name(relay.order),
            stuck_after: value::length_text(relay.stuck_after_ms),
            poll: value::length_text(relay.poll_ms),
            classes: retry::shown_classes(&relay.retry),
            sink: sink.as_ref().map(destination::shown),
        }),
    }
}
