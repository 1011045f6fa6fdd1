//! `[sources.<name>]` of the kind `jetstream`: an account of a NATS server whose exhausted messages become letters.
//!
//! Credentials are shown masked, and no error repeats them.

use std::path::PathBuf;

use lazaret_core::limits;
use lazaret_sources::jetstream::{Auth, JetStream, JetStreamConfig, Scope, WatchedConsumer};
use lazaret_sources::{Secret, Tls};
use serde::Serialize;

use super::check::{parse_scalar, parse_texts};
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Place, Problems, quoted};
use super::schema::{Key, Shape, key};
use super::value;

/// Keys of a JetStream source; some of them belong to other kinds as well.
pub(super) const KEYS: &[&str] = &[
    "servers",
    "auth",
    "tls",
    "consumers",
    "scope",
    "dlq_stream",
    "advisory_stream",
    "metrics_stream",
    "replicas",
    "dlq_max_age",
    "duplicate_window",
    "apply_at_start",
    "delete_exhausted",
    "aggregate_header",
    "schema_version_header",
    "tenant_header",
];

pub(super) const AUTH: &[Key] = &[
    key("token", Shape::Text),
    key("user", Shape::Text),
    key("password", Shape::Text),
    key("nkey_seed", Shape::Text),
    key("credentials_file", Shape::Text),
    key("external", Shape::Flag),
];

pub(super) const TLS: &[Key] = &[
    key("required", Shape::Flag),
    key("ca_file", Shape::Text),
    key("cert_file", Shape::Text),
    key("key_file", Shape::Text),
];

pub(super) const CONSUMERS: &[Key] = &[
    key("stream", Shape::Text),
    key("consumer", Shape::Text),
    key("max_deliver", Shape::Count),
    key("backoff", Shape::Texts),
];

/// The longest wait between two deliveries: a day.
const BACKOFF_MS_MAX: u64 = 86_400_000;

/// The longest time that a stream keeps messages or recognises duplicates: ten years.
const KEEP_MS_MAX: u64 = 10 * 366 * 86_400_000;

pub(super) const MASK: &str = "***";

/// Reads what is set for the source `name`. Nothing if something of it is bad, which is reported.
pub(super) fn check(
    name: &str,
    place: &Place,
    settings: &Settings,
    problems: &mut Problems,
) -> Option<JetStreamConfig> {
    let path = format!("sources.{name}");
    let at = |key: &str| format!("{path}.{key}");
    let known = problems.count();
    let servers = parse_texts(settings, &at("servers"), &at("servers"), value::filled, problems);
    let mut config = JetStreamConfig::new(name, servers);
    let mut text = |key: &str| parse_scalar(settings, &at(key), &at(key), value::filled, problems);
    for (key, own) in [
        ("dlq_stream", &mut config.dlq_stream),
        ("advisory_stream", &mut config.advisory_stream),
        ("metrics_stream", &mut config.metrics_stream),
    ] {
        *own = text(key).unwrap_or_else(|| own.clone());
    }
    config.aggregate_header = text("aggregate_header");
    config.schema_version_header = text("schema_version_header");
    config.tenant_header = text("tenant_header");
    let mut length = |key: &str| {
        let parse = |text: &str| value::length_ms(text, KEEP_MS_MAX);
        parse_scalar(settings, &at(key), &at(key), parse, problems)
    };
    config.max_age_ms = length("dlq_max_age").unwrap_or(config.max_age_ms);
    config.duplicate_window_ms = length("duplicate_window").unwrap_or(config.duplicate_window_ms);
    let mut flag = |key: &str| parse_scalar(settings, &at(key), &at(key), value::flag, problems);
    config.apply_at_start = flag("apply_at_start").unwrap_or(config.apply_at_start);
    config.delete_exhausted = flag("delete_exhausted").unwrap_or(config.delete_exhausted);
    let replicas = |text: &str| value::count(text, 1..=5);
    if let Some(replicas) = parse_scalar(settings, &at("replicas"), &at("replicas"), replicas, problems) {
        config.replicas = u8::try_from(replicas).unwrap_or(u8::MAX);
    }
    config.scope = parse_scalar(settings, &at("scope"), &at("scope"), scope, problems).unwrap_or_default();
    config.auth = auth(&at("auth"), settings, problems);
    config.tls = tls(&at("tls"), settings, problems);
    if let Some(Setting { given: Given::Entries(entries), .. }) = settings.get(&at("consumers")) {
        config.consumers = entries.iter().filter_map(|entry| consumer(entry, problems)).collect();
    }
    if problems.count() > known {
        return None;
    }
    // What else can be wrong is known to the source itself.
    if let Err(unfit) = JetStream::new(config.clone()) {
        problems.add(place.clone(), &path, unfit.to_string());
        return None;
    }
    Some(config)
}

fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "account" => Ok(Scope::Account),
        "configured" => Ok(Scope::Configured),
        _ => Err(format!("{} is not known; write account or configured", quoted(text))),
    }
}

const fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Account => "account",
        Scope::Configured => "configured",
    }
}

/// One way to authenticate, or none.
fn auth(path: &str, settings: &Settings, problems: &mut Problems) -> Auth {
    let inside = format!("{path}.");
    let first = settings.iter().find(|(key, _)| key.starts_with(&inside));
    let Some(place) = first.map(|(_, setting)| setting.place.clone()) else { return Auth::None };
    if let Some(setting) = settings.get(&format!("{path}.external")) {
        let message = "a source of the kind jetstream has no external".to_owned();
        problems.add(setting.place.clone(), &format!("{path}.external"), message);
    }
    let mut text = |key: &str| {
        let at = format!("{path}.{key}");
        parse_scalar(settings, &at, &at, value::filled, problems)
    };
    let token = text("token").map(|token| Auth::Token(Secret::new(token)));
    let (user, password) = (text("user"), text("password"));
    let nkey = text("nkey_seed").map(|seed| Auth::Nkey(Secret::new(seed)));
    let file = text("credentials_file").map(|file| Auth::CredentialsFile(PathBuf::from(file)));
    let user = match (user, password) {
        (Some(user), Some(password)) => Some(Auth::User { user, password: Secret::new(password) }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            problems.add(place.clone(), path, "user and password belong together".to_owned());
            None
        }
    };
    let mut given: Vec<Auth> = [token, user, nkey, file].into_iter().flatten().collect();
    if given.len() > 1 {
        let message = "more than one way to authenticate is set".to_owned();
        problems.add_with_hint(
            place,
            path,
            message,
            "set one of token, user with password, nkey_seed and credentials_file",
        );
    }
    given.pop().unwrap_or_default()
}

pub(super) fn tls(path: &str, settings: &Settings, problems: &mut Problems) -> Tls {
    let at = |key: &str| format!("{path}.{key}");
    let required = parse_scalar(settings, &at("required"), &at("required"), value::flag, problems);
    let mut file =
        |key: &str| parse_scalar(settings, &at(key), &at(key), value::filled, problems).map(PathBuf::from);
    let (ca, cert, key) = (file("ca_file"), file("cert_file"), file("key_file"));
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let place =
                settings.iter().find(|(key, _)| key.starts_with(path)).map(|(_, it)| it.place.clone());
            let message = "cert_file and key_file belong together".to_owned();
            problems.add(place.unwrap_or(Place::File), path, message);
            None
        }
    };
    Tls { is_required: required.unwrap_or(false), ca, client }
}

fn consumer(entry: &Entry, problems: &mut Problems) -> Option<WatchedConsumer> {
    let at = |key: &str| format!("{}.{key}", entry.path);
    for needed in ["stream", "consumer"] {
        if !entry.settings.contains_key(needed) {
            problems.add(entry.place.clone(), &entry.path, format!("{needed} is missing"));
        }
    }
    let mut text = |key: &str| parse_scalar(&entry.settings, key, &at(key), value::filled, problems);
    let (stream, consumer) = (text("stream"), text("consumer"));
    let tries = |text: &str| value::count(text, 1..=limits::ATTEMPTS_MAX as u64);
    let max_deliver = parse_scalar(&entry.settings, "max_deliver", &at("max_deliver"), tries, problems);
    let wait = |text: &str| value::length_ms(text, BACKOFF_MS_MAX);
    let backoff_ms = parse_texts(&entry.settings, "backoff", &at("backoff"), wait, problems);
    let mut watched = match max_deliver.and_then(|tries| u32::try_from(tries).ok()) {
        Some(tries) => WatchedConsumer::with_max_deliver(stream?, consumer?, tries),
        None => WatchedConsumer::new(stream?, consumer?),
    };
    if !backoff_ms.is_empty() {
        watched.backoff_ms = backoff_ms;
    }
    Some(watched)
}

/// The credentials of a source, by key: only to compare.
pub(super) fn secret(config: &JetStreamConfig) -> Option<(&'static str, &str)> {
    match &config.auth {
        Auth::Token(token) => Some(("token", token.reveal())),
        Auth::User { password, .. } => Some(("password", password.reveal())),
        Auth::Nkey(seed) => Some(("nkey_seed", seed.reveal())),
        Auth::None | Auth::CredentialsFile(_) => None,
    }
}

/// As it is written to a file, beside what all sources have.
#[derive(Serialize)]
pub(super) struct ShownJetStream {
    servers: Vec<String>,
    scope: &'static str,
    dlq_stream: String,
    advisory_stream: String,
    metrics_stream: String,
    replicas: u8,
    dlq_max_age: String,
    duplicate_window: String,
    apply_at_start: bool,
    delete_exhausted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<ShownAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<ShownTls>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consumers: Vec<ShownConsumer>,
}

#[derive(Serialize, Default)]
struct ShownAuth {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey_seed: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_file: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ShownTls {
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cert_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
}

#[derive(Serialize)]
struct ShownConsumer {
    stream: String,
    consumer: String,
    max_deliver: u32,
    backoff: Vec<String>,
}

fn shown_auth(auth: &Auth) -> Option<ShownAuth> {
    let none = ShownAuth::default();
    Some(match auth {
        Auth::None => return None,
        Auth::Token(_) => ShownAuth { token: Some(MASK), ..none },
        Auth::User { user, .. } => ShownAuth { user: Some(user.clone()), password: Some(MASK), ..none },
        Auth::Nkey(_) => ShownAuth { nkey_seed: Some(MASK), ..none },
        Auth::CredentialsFile(file) => {
            ShownAuth { credentials_file: Some(file.display().to_string()), ..none }
        }
    })
}

pub(super) fn shown_tls(tls: &Tls) -> Option<ShownTls> {
    let file = |path: &PathBuf| path.display().to_string();
    (*tls != Tls::default()).then(|| ShownTls {
        required: tls.is_required,
        ca_file: tls.ca.as_ref().map(file),
        cert_file: tls.client.as_ref().map(|(cert, _)| file(cert)),
        key_file: tls.client.as_ref().map(|(_, key)| file(key)),
    })
}

pub(super) fn shown(config: &JetStreamConfig) -> ShownJetStream {
    let consumers = config.consumers.iter().map(|watched| ShownConsumer {
        stream: watched.stream.clone(),
        consumer: watched.consumer.clone(),
        max_deliver: watched.max_deliver,
        backoff: watched.backoff_ms.iter().map(|ms| value::length_text(*ms)).collect(),
    });
    ShownJetStream {
        servers: config.servers.clone(),
        scope: scope_name(config.scope),
        dlq_stream: config.dlq_stream.clone(),
        advisory_stream: config.advisory_stream.clone(),
        metrics_stream: config.metrics_stream.clone(),
        replicas: config.replicas,
        dlq_max_age: value::length_text(config.max_age_ms),
        duplicate_window: value::length_text(config.duplicate_window_ms),
        apply_at_start: config.apply_at_start,
        delete_exhausted: config.delete_exhausted,
        aggregate_header: config.aggregate_header.clone(),
        schema_version_header: config.schema_version_header.clone(),
        tenant_header: config.tenant_header.clone(),
        auth: shown_auth(&config.auth),
        tls: shown_tls(&config.tls),
        consumers: consumers.collect(),
    }
}
