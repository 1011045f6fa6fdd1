//! Turns settings into a configuration. Goes on after a problem with the default, so that all of them are found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use lazaret_core::class::{Conditions, ErrorClass, StatusRange};
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;

use super::event_path::EventPath;
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Place, Problems, quoted};
use super::{
    AuditConfig, ClassRule, Config, EventsConfig, FingerprintConfig, LimitsConfig, LogConfig, REPORT_SOURCE,
    SearchConfig, SourceConfig, SourceKind, StoreUrl, alerts, archive, destination, grouping, jetstream,
    jobs, outbox, rabbitmq, redaction, redrive, replay, retention, value,
};

/// A request or a pause that is allowed to last longer is a leak.
pub(crate) const REQUEST_MS_CEILING: u64 = 3_600_000;
const BODY_PAUSE_MS_CEILING: u64 = 600_000;
/// The ports of one address.
const CONNECTIONS_CEILING: u64 = 65_535;

const EVENTS_KEPT: RangeInclusive<u64> = limits::EVENTS_KEPT_FLOOR..=limits::EVENTS_KEPT_CEILING;

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> Config {
    let defaults = Config::default();
    let mut check = Check { settings, problems };
    let config = Config {
        listen: check.scalar("listen", value::listen).unwrap_or(defaults.listen),
        data: check.scalar("data", value::filled).map_or(defaults.data, Into::into),
        store: check.scalar("store", StoreUrl::parse).unwrap_or(defaults.store),
        allowed_hosts: check.texts("allowed_hosts", value::allowed_host),
        log: LogConfig {
            level: check.scalar("log.level", value::log_level).unwrap_or(defaults.log.level),
            format: check.scalar("log.format", value::log_format).unwrap_or(defaults.log.format),
        },
        limits: check.limits(defaults.limits),
        class_rules: check.class_rules(),
        fingerprint_rules: grouping::rules(settings, check.problems),
        replay_rules: replay::rules(settings, check.problems),
        fingerprint: FingerprintConfig {
            in_app: check.texts("fingerprint.in_app", value::name),
            library: check.texts("fingerprint.library", value::name),
        },
        search: SearchConfig {
            bodies: check.scalar("search.bodies", value::flag).unwrap_or(defaults.search.bodies),
        },
        events: EventsConfig {
            keep: check
                .scalar("events.keep", |text| value::count(text, EVENTS_KEPT))
                .unwrap_or(defaults.events.keep),
        },
        audit: AuditConfig { key_file: check.scalar("audit.key_file", value::filled).map(Into::into) },
        redaction: redaction::check(settings, check.problems),
        archive: archive::check(settings, check.problems),
        jobs: jobs::check(settings, check.problems),
        alerts: alerts::check(settings, check.problems),
        redrive: redrive::check(settings, check.problems),
        retention: retention::check("retention", settings, check.problems),
        sources: check.sources(defaults.sources),
    };
    redrive::check_timeouts(&config, settings, problems);
    retention::check_floor(&config, settings, problems);
    config
}

struct Check<'a> {
    settings: &'a Settings,
    problems: &'a mut Problems,
}

impl Check<'_> {
    /// The parsed value at `path`; `None` when it is not set, or bad and reported.
    fn scalar<T>(&mut self, path: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        parse_scalar(self.settings, path, path, parse, self.problems)
    }

    /// The parsed values of the list at `path`; bad ones are reported and left out.
    fn texts<T>(&mut self, path: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        parse_texts(self.settings, path, path, parse, self.problems)
    }

    fn limits(&mut self, defaults: LimitsConfig) -> LimitsConfig {
        let mut size = |path: &str, max, default| -> usize {
            self.scalar(path, |text| value::size(text, max)).unwrap_or(default)
        };
        let body_bytes_max =
            size("limits.body_bytes_max", limits::BODY_BYTES_CEILING, defaults.body_bytes_max);
        let entry_bytes_max =
            size("limits.entry_bytes_max", limits::ENTRY_BYTES_CEILING, defaults.entry_bytes_max);
        let ndjson_bytes_max =
            size("limits.ndjson_bytes_max", limits::NDJSON_BYTES_CEILING, defaults.ndjson_bytes_max);
        let mut length = |path: &str, max, default| -> u64 {
            self.scalar(path, |text| value::length_ms(text, max)).unwrap_or(default)
        };
        let request_ms_max = length("limits.request_time_max", REQUEST_MS_CEILING, defaults.request_ms_max);
        let body_pause_ms_max =
            length("limits.body_pause_max", BODY_PAUSE_MS_CEILING, defaults.body_pause_ms_max);
        let connections_max = self
            .scalar("limits.connections_max", |text| value::count(text, 1..=CONNECTIONS_CEILING))
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(defaults.connections_max);
        if entry_bytes_max > body_bytes_max {
            self.entry_exceeds_body(entry_bytes_max, body_bytes_max);
        }
        LimitsConfig {
            body_bytes_max,
            entry_bytes_max,
            ndjson_bytes_max,
            request_ms_max,
            body_pause_ms_max,
            connections_max,
        }
    }

    fn entry_exceeds_body(&mut self, entry_bytes_max: usize, body_bytes_max: usize) {
        let set = ["limits.entry_bytes_max", "limits.body_bytes_max"].map(|path| self.settings.get(path));
        let place = set.into_iter().flatten().next().map_or(Place::File, |setting| setting.place.clone());
        let message = format!(
            "entry_bytes_max ({}) is above body_bytes_max ({}), so the largest entries could not be sent",
            value::size_text(entry_bytes_max as u64),
            value::size_text(body_bytes_max as u64)
        );
        self.problems.add_with_hint(place, "limits", message, "set both; what is not set has its default");
    }

    fn class_rules(&mut self) -> Vec<ClassRule> {
        let Some(Setting { given: Given::Entries(entries), .. }) = self.settings.get("class_rules") else {
            return Vec::new();
        };
        entries.iter().filter_map(|entry| self.class_rule(entry)).collect()
    }

    fn class_rule(&mut self, entry: &Entry) -> Option<ClassRule> {
        let path = |key: &str| format!("{}.{key}", entry.path);
        let mut pattern = |key: &str| -> Option<Pattern> {
            parse_scalar(&entry.settings, key, &path(key), value::name, self.problems).map(Pattern::new)
        };
        let mut when = Conditions {
            error_type: pattern("error_type"),
            code: pattern("code"),
            message: pattern("message"),
            http_status: None,
            source: pattern("source"),
        };
        let status = |text: &str| StatusRange::parse(text).map_err(|bad| bad.to_string());
        let key = "http_status";
        when.http_status = parse_scalar(&entry.settings, key, &path(key), status, self.problems);
        let class = parse_scalar(&entry.settings, "class", &path("class"), error_class, self.problems);
        let Some(class) = class else {
            if !entry.settings.contains_key("class") {
                let message = format!("class is missing; known are {}", known_classes());
                self.problems.add(entry.place.clone(), &entry.path, message);
            }
            return None;
        };
        let has_condition = entry.settings.keys().any(|key| key != "class");
        match ClassRule::new(when, class) {
            Ok(rule) => Some(rule),
            // Its conditions were bad and have been reported as such.
            Err(_) if has_condition => None,
            Err(empty) => {
                self.problems.add(entry.place.clone(), &entry.path, empty.to_string());
                None
            }
        }
    }

    fn sources(&mut self, defaults: BTreeMap<String, SourceConfig>) -> BTreeMap<String, SourceConfig> {
        let mut places: BTreeMap<&str, &Place> = BTreeMap::new();
        for (path, setting) in self.settings {
            if let Some(name) = path.strip_prefix("sources.").and_then(|rest| rest.split('.').next()) {
                places.entry(name).or_insert(&setting.place);
            }
        }
        let mut sources = defaults;
        for (name, place) in places {
            let source = self.source(name, place);
            sources.insert(name.to_owned(), source);
        }
        sources
    }

    fn source(&mut self, name: &str, place: &Place) -> SourceConfig {
        let path = |key: &str| format!("sources.{name}.{key}");
        let kind = self.scalar(&path("kind"), value::source_kind);
        // The source that is always there need not say what it is.
        if !self.settings.contains_key(&path("kind")) && name != REPORT_SOURCE {
            let known = SourceKind::ALL.map(SourceKind::name).join(", ");
            let message = format!("kind is missing; known are {known}");
            self.problems.add(place.clone(), &format!("sources.{name}"), message);
        }
        let event_path = |text: &str| EventPath::parse(text).map_err(|bad| bad.to_string());
        let mut source = SourceConfig::new(name, kind.unwrap_or(SourceKind::Report));
        if let Some(queue) = self.scalar(&path("queue"), value::name) {
            source.queue = queue;
        }
        if let Some(governance) = self.scalar(&path("governance"), jobs::governance) {
            source.governance = governance;
        }
        let own = keys_of(source.kind);
        let foreign: BTreeSet<&str> = SourceKind::ALL.into_iter().flat_map(keys_of).copied().collect();
        self.refuse(name, source.kind, foreign.into_iter().filter(|key| !own.contains(key)));
        match source.kind {
            SourceKind::Report => {
                source.aggregate = self.scalar(&path("aggregate"), event_path);
                if let Some(tenant) = self.scalar(&path("tenant"), event_path) {
                    source.tenant = tenant;
                }
                source.destination = destination::check(&path("destination"), self.settings, self.problems);
                source.subscribers =
                    destination::subscribers(&path("subscribers"), self.settings, self.problems);
            }
            SourceKind::Outbox => {
                source.outbox = outbox::check(name, place, self.settings, self.problems);
            }
            SourceKind::JetStream => {
                source.jetstream = jetstream::check(name, place, self.settings, self.problems);
            }
            SourceKind::RabbitMq => {
                source.rabbitmq = rabbitmq::check(name, place, self.settings, self.problems);
            }
        }
        source.retention = retention::check(&path("retention"), self.settings, self.problems);
        source.queues = retention::queues(&path("queues"), self.settings, self.problems);
        source
    }

    /// Refuses keys that another kind of source has: what is silently ignored is found in production.
    fn refuse<'a>(&mut self, name: &str, kind: SourceKind, foreign: impl Iterator<Item = &'a str>) {
        for key in foreign {
            let path = format!("sources.{name}.{key}");
            let inside = format!("{path}.");
            let found = self.settings.iter().find(|(set, _)| **set == path || set.starts_with(&inside));
            if let Some((_, setting)) = found {
                let message = format!("a source of the kind {} has no {key}", kind.name());
                self.problems.add(setting.place.clone(), &path, message);
            }
        }
    }
}

/// The keys that only some kinds of sources have.
fn keys_of(kind: SourceKind) -> &'static [&'static str] {
    match kind {
        SourceKind::Report => &["aggregate", "tenant", "queue", "destination", "subscribers"],
        SourceKind::Outbox => outbox::KEYS,
        SourceKind::JetStream => jetstream::KEYS,
        SourceKind::RabbitMq => rabbitmq::KEYS,
    }
}

/// The parsed values of the list under `key`; problems name it by its `path`.
pub(super) fn parse_texts<T>(
    settings: &Settings,
    key: &str,
    path: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    problems: &mut Problems,
) -> Vec<T> {
    let Some(Setting { given: Given::Texts(texts), .. }) = settings.get(key) else { return Vec::new() };
    let mut values = Vec::new();
    for (text, place) in texts {
        match parse(text) {
            Ok(value) => values.push(value),
            Err(message) => problems.add(place.clone(), path, message),
        }
    }
    values
}

/// The parsed value of `key`; problems name it by its `path`.
pub(super) fn parse_scalar<T>(
    settings: &Settings,
    key: &str,
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
    problems: &mut Problems,
) -> Option<T> {
    let Some(Setting { given: Given::Scalar(text), place }) = settings.get(key) else { return None };
    match parse(text) {
        Ok(value) => Some(value),
        Err(message) => {
            problems.add(place.clone(), path, message);
            None
        }
    }
}

pub(super) fn error_class(text: &str) -> Result<ErrorClass, String> {
    ErrorClass::parse(text)
        .ok_or_else(|| format!("{} is not a class; known are {}", quoted(text), known_classes()))
}

fn known_classes() -> String {
    ErrorClass::ALL.map(ErrorClass::name).join(", ")
}
