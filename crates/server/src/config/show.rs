//! Writes a configuration as a file that loads to the same, but for credentials, which are masked.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::fingerprint::{FingerprintRule, RuleEffect};
use lazaret_core::pattern::Pattern;
use lazaret_core::replay::ReplayRule;
use serde::Serialize;

use super::alerts::{self, ShownAlerts};
use super::archive::{self, ShownArchive};
use super::destination::{self, ShownDestination};
use super::jetstream::{self, ShownJetStream};
use super::jobs::{self, ShownJobs};
use super::outbox::{self, ShownOutbox};
use super::rabbitmq::{self, ShownRabbitMq};
use super::redaction::{self, ShownRedaction};
use super::redrive::{self, ShownRedrive};
use super::retention::{self, ShownQueue, ShownRetention};
use super::{ClassRule, Config, LimitsConfig, SourceConfig, SourceKind, value};

pub(super) fn to_toml(config: &Config) -> String {
    let shown = Shown {
        listen: &config.listen,
        // A path that is not UTF-8 can only come from a flag and cannot be written to a file.
        data: config.data.to_string_lossy().into_owned(),
        store: config.store.to_string(),
        allowed_hosts: &config.allowed_hosts,
        log: ShownLog { level: &config.log.level, format: config.log.format.name() },
        limits: limits(&config.limits),
        class_rules: config.class_rules.iter().map(class_rule).collect(),
        fingerprint_rules: config.fingerprint_rules.iter().map(fingerprint_rule).collect(),
        replay_rules: config.replay_rules.iter().map(replay_rule).collect(),
        fingerprint: ShownFingerprint {
            in_app: &config.fingerprint.in_app,
            library: &config.fingerprint.library,
        },
        search: ShownSearch { bodies: config.search.bodies },
        events: ShownEvents { keep: config.events.keep },
        audit: ShownAudit {
            key_file: config.audit.key_file.as_ref().map(|path| path.to_string_lossy().into_owned()),
        },
        redaction: redaction::shown(&config.redaction),
        archive: archive::shown(&config.archive),
        jobs: jobs::shown(&config.jobs),
        alerts: alerts::shown(&config.alerts),
        redrive: redrive::shown(&config.redrive),
        retention: retention::shown(&config.retention),
        sources: config.sources.iter().map(|(name, it)| (name.as_str(), source(it))).collect(),
    };
    toml::to_string(&shown).expect("texts and small integers can always be written")
}

#[derive(Serialize)]
struct Shown<'a> {
    listen: &'a str,
    data: String,
    store: String,
    allowed_hosts: &'a [String],
    log: ShownLog<'a>,
    limits: ShownLimits,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    class_rules: Vec<ShownRule<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fingerprint_rules: Vec<ShownFingerprintRule<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replay_rules: Vec<ShownReplayRule<'a>>,
    fingerprint: ShownFingerprint<'a>,
    search: ShownSearch,
    events: ShownEvents,
    audit: ShownAudit,
    redaction: ShownRedaction<'a>,
    archive: ShownArchive<'a>,
    jobs: ShownJobs<'a>,
    alerts: ShownAlerts<'a>,
    redrive: ShownRedrive,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<ShownRetention>,
    sources: BTreeMap<&'a str, ShownSource<'a>>,
}

#[derive(Serialize)]
struct ShownLog<'a> {
    level: &'a str,
    format: &'a str,
}

#[derive(Serialize)]
struct ShownLimits {
    body_bytes_max: String,
    entry_bytes_max: String,
    ndjson_bytes_max: String,
    request_time_max: String,
    body_pause_max: String,
    connections_max: u32,
}

#[derive(Serialize)]
struct ShownRule<'a> {
    class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
}

#[derive(Serialize)]
struct ShownFingerprintRule<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    letter_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    split_by: Vec<&'static str>,
}

#[derive(Serialize)]
struct ShownReplayRule<'a> {
    name: &'a str,
    filter: String,
    delay: String,
    max_replays: u32,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a str>,
    category: &'static str,
}

#[derive(Serialize)]
struct ShownFingerprint<'a> {
    in_app: &'a [String],
    library: &'a [String],
}

#[derive(Serialize)]
struct ShownSearch {
    bodies: bool,
}

#[derive(Serialize)]
struct ShownEvents {
    keep: u64,
}

#[derive(Serialize)]
struct ShownAudit {
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
}

#[derive(Serialize)]
struct ShownSource<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    governance: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<ShownDestination>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    subscribers: BTreeMap<&'a str, ShownDestination>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<ShownRetention>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    queues: BTreeMap<&'a str, ShownQueue>,
    #[serde(flatten)]
    outbox: Option<ShownOutbox>,
    #[serde(flatten)]
    jetstream: Option<ShownJetStream>,
    #[serde(flatten)]
    rabbitmq: Option<ShownRabbitMq>,
}

fn limits(limits: &LimitsConfig) -> ShownLimits {
    let size = |bytes: usize| value::size_text(bytes as u64);
    let length = |ms: u64| Length::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)).to_string();
    ShownLimits {
        body_bytes_max: size(limits.body_bytes_max),
        entry_bytes_max: size(limits.entry_bytes_max),
        ndjson_bytes_max: size(limits.ndjson_bytes_max),
        request_time_max: length(limits.request_ms_max),
        body_pause_max: length(limits.body_pause_ms_max),
        connections_max: u32::try_from(limits.connections_max).unwrap_or(u32::MAX),
    }
}

fn class_rule(rule: &ClassRule) -> ShownRule<'_> {
    let when = &rule.written;
    ShownRule {
        class: rule.rule.class().name(),
        error_type: when.error_type.as_ref().map(Pattern::text),
        code: when.code.as_ref().map(Pattern::text),
        message: when.message.as_ref().map(Pattern::text),
        http_status: when.http_status.map(|range| range.to_string()),
        source: when.source.as_ref().map(Pattern::text),
    }
}

fn fingerprint_rule(rule: &FingerprintRule) -> ShownFingerprintRule<'_> {
    let when = &rule.when;
    let (group, split_by) = match &rule.then {
        RuleEffect::Group(key) => (Some(key.as_str()), Vec::new()),
        RuleEffect::SplitBy(parts) => (None, parts.iter().map(|part| part.name()).collect()),
    };
    ShownFingerprintRule {
        name: &rule.name,
        source: when.source.as_ref().map(Pattern::text),
        letter_type: when.letter_type.as_ref().map(Pattern::text),
        error_type: when.error_type.as_ref().map(Pattern::text),
        code: when.code.as_ref().map(Pattern::text),
        message: when.message.as_ref().map(Pattern::text),
        frame: when.frame.as_ref().map(Pattern::text),
        group,
        split_by,
    }
}

fn replay_rule(rule: &ReplayRule) -> ShownReplayRule<'_> {
    ShownReplayRule {
        name: &rule.name,
        filter: rule.filter.to_string(),
        delay: rule.delay.to_string(),
        max_replays: rule.max_replays,
        enabled: rule.enabled,
        cause: rule.cause.as_deref(),
        category: rule.category.name(),
    }
}

fn source(source: &SourceConfig) -> ShownSource<'_> {
    // What is read out of events; a table has columns for it.
    let read = source.kind == SourceKind::Report;
    ShownSource {
        kind: source.kind.name(),
        aggregate: source.aggregate.as_ref().map(|path| path.text()),
        tenant: read.then(|| source.tenant.text()),
        queue: read.then_some(source.queue.as_str()),
        governance: source.governance.name(),
        destination: source.destination.as_ref().map(destination::shown),
        subscribers: source
            .subscribers
            .iter()
            .map(|(id, it)| (id.as_str(), destination::shown(it)))
            .collect(),
        retention: retention::shown(&source.retention),
        queues: retention::shown_queues(&source.queues),
        outbox: source.outbox.as_ref().map(outbox::shown),
        jetstream: source.jetstream.as_ref().map(jetstream::shown),
        rabbitmq: source.rabbitmq.as_ref().map(rabbitmq::shown),
    }
}
