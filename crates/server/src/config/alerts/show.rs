//! `[alerts]` as it is written to a file.

use std::collections::BTreeMap;

use lazaret_core::alert::{AlertRule, Route};
use lazaret_core::duration::Length;
use serde::Serialize;

use super::super::destination::DestinationUrl;
use super::{AlertsConfig, Credential, ReceiverConfig, ReceiverKind};

const MASK: &str = "***";

#[derive(Serialize)]
pub(in crate::config) struct ShownAlerts<'a> {
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<ShownRule<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<ShownRoute<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    receivers: BTreeMap<&'a str, BTreeMap<&'static str, toml::Value>>,
}

#[derive(Serialize)]
struct ShownRule<'a> {
    name: &'a str,
    kind: &'static str,
    scope: &'static str,
    #[serde(rename = "match", skip_serializing_if = "String::is_empty")]
    matchers: String,
    above: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clear: Option<f64>,
    window: String,
    #[serde(rename = "for")]
    hold: String,
    resolve_after: String,
    min_count: u64,
    severity: &'static str,
    enabled: bool,
}

#[derive(Serialize)]
struct ShownRoute<'a> {
    receivers: &'a [String],
    #[serde(rename = "match", skip_serializing_if = "String::is_empty")]
    matchers: String,
    group_by: &'a [String],
    group_wait: String,
    group_interval: String,
    repeat_interval: String,
    #[serde(rename = "continue")]
    go_on: bool,
}

fn length(ms: i64) -> String {
    Length::from_ms(ms).to_string()
}

pub(in crate::config) fn shown(alerts: &AlertsConfig) -> ShownAlerts<'_> {
    // What is so by default is not written: it would name the log as a receiver that nobody configured.
    let by_default = [Route::default()];
    let routes: &[Route] = if alerts.routes == by_default { &[] } else { &alerts.routes };
    ShownAlerts {
        enabled: alerts.enabled,
        public_url: alerts.public_url.as_deref(),
        rules: alerts.configured.iter().map(rule).collect(),
        routes: routes.iter().map(route).collect(),
        receivers: alerts.receivers.iter().map(|(name, it)| (name.as_str(), receiver(it))).collect(),
    }
}

fn rule(rule: &AlertRule) -> ShownRule<'_> {
    ShownRule {
        name: &rule.name,
        kind: rule.kind.name(),
        scope: rule.scope.name(),
        matchers: rule.matchers.to_string(),
        above: rule.above,
        clear: rule.clear,
        window: length(rule.window_ms),
        hold: length(rule.for_ms),
        resolve_after: length(rule.resolve_after_ms),
        min_count: rule.min_count,
        severity: rule.severity.name(),
        enabled: rule.enabled,
    }
}

fn route(route: &Route) -> ShownRoute<'_> {
    ShownRoute {
        receivers: &route.receivers,
        matchers: route.matchers.to_string(),
        group_by: &route.group_by,
        group_wait: length(route.group_wait_ms),
        group_interval: length(route.group_interval_ms),
        repeat_interval: length(route.repeat_ms),
        go_on: route.go_on,
    }
}

/// Whoever knows the address of a chat can write to it; other addresses are shown without credentials.
fn masked(kind: ReceiverKind, key: &str, value: &str) -> String {
    let is_secret = key != "url" || matches!(kind, ReceiverKind::Slack | ReceiverKind::Teams);
    match DestinationUrl::parse(value) {
        Ok(url) if !is_secret => url.to_string(),
        Ok(_) | Err(_) => MASK.to_owned(),
    }
}

fn receiver(receiver: &ReceiverConfig) -> BTreeMap<&'static str, toml::Value> {
    let mut shown: BTreeMap<&'static str, toml::Value> = BTreeMap::new();
    shown.insert("type", receiver.kind.name().into());
    for (key, value) in receiver.credentials() {
        let file_key = match key {
            "url" => "url_file",
            "secret" => "secret_file",
            "key" => "key_file",
            _ => "password_file",
        };
        match value {
            Credential::Value(value) => shown.insert(key, masked(receiver.kind, key, value.reveal()).into()),
            Credential::File(path) => shown.insert(file_key, path.display().to_string().into()),
        };
    }
    if receiver.kind == ReceiverKind::Webhook {
        shown.insert("format", receiver.format.name().into());
    }
    if receiver.kind != ReceiverKind::Log {
        shown.insert("allow_private", receiver.allow_private.into());
    }
    if receiver.kind == ReceiverKind::Smtp {
        shown.insert("tls", receiver.tls.name().into());
        let texts = [("host", &receiver.host), ("user", &receiver.user), ("from", &receiver.from)];
        shown.extend(texts.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?.into()))));
        shown.extend(receiver.port.map(|port| ("port", i64::from(port).into())));
        shown.insert("to", receiver.to.clone().into());
    }
    shown
}
