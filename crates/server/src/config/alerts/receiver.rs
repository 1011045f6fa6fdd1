//! `[alerts.receivers.<name>]`: where notifications go.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::check::{parse_scalar, parse_texts};
use super::super::destination::{DestinationConfig, DestinationUrl, Secret};
use super::super::layer::{Given, Settings};
use super::super::problem::{Problems, quoted};
use super::super::schema::{Key, Shape, key};
use super::super::value;
use super::{file, place_of, secret};
use crate::destination::address;

pub(in crate::config) const RECEIVER: &[Key] = &[
    key("type", Shape::Text),
    key("url", Shape::Text),
    key("url_file", Shape::Text),
    key("secret", Shape::Text),
    key("secret_file", Shape::Text),
    key("key", Shape::Text),
    key("key_file", Shape::Text),
    key("format", Shape::Text),
    key("allow_private", Shape::Flag),
    key("host", Shape::Text),
    key("port", Shape::Count),
    key("tls", Shape::Text),
    key("user", Shape::Text),
    key("password", Shape::Text),
    key("password_file", Shape::Text),
    key("from", Shape::Text),
    key("to", Shape::Texts),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverKind {
    Log,
    Webhook,
    Alertmanager,
    Slack,
    Teams,
    PagerDuty,
    Opsgenie,
    Smtp,
}

/// A value that must not be shown, or the file that holds it. The file is read with each delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credential {
    Value(Secret),
    File(PathBuf),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WebhookFormat {
    Json,
    CloudEvents,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmtpTls {
    /// Plain first, then encrypted; without encryption nothing is sent.
    StartTls,
    /// Encrypted from the beginning.
    Tls,
    None,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    pub kind: ReceiverKind,
    pub url: Option<Credential>,
    /// Signs what is sent to a webhook.
    pub secret: Option<Credential>,
    /// The routing key, the API key or the password.
    pub key: Option<Credential>,
    pub format: WebhookFormat,
    pub allow_private: bool,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub tls: SmtpTls,
    pub user: Option<String>,
    pub from: Option<String>,
    pub to: Vec<String>,
}

impl ReceiverKind {
    pub const ALL: [ReceiverKind; 8] = [
        ReceiverKind::Log,
        ReceiverKind::Webhook,
        ReceiverKind::Alertmanager,
        ReceiverKind::Slack,
        ReceiverKind::Teams,
        ReceiverKind::PagerDuty,
        ReceiverKind::Opsgenie,
        ReceiverKind::Smtp,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ReceiverKind::Log => "log",
            ReceiverKind::Webhook => "webhook",
            ReceiverKind::Alertmanager => "alertmanager",
            ReceiverKind::Slack => "slack",
            ReceiverKind::Teams => "teams",
            ReceiverKind::PagerDuty => "pagerduty",
            ReceiverKind::Opsgenie => "opsgenie",
            ReceiverKind::Smtp => "smtp",
        }
    }

    /// The keys that it has, those that it needs first.
    const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            ReceiverKind::Log => (&[], &[]),
            ReceiverKind::Webhook => {
                (&["url"], &["url_file", "secret", "secret_file", "format", "allow_private"])
            }
            ReceiverKind::Alertmanager | ReceiverKind::Slack | ReceiverKind::Teams => {
                (&["url"], &["url_file", "allow_private"])
            }
            ReceiverKind::PagerDuty | ReceiverKind::Opsgenie => {
                (&["key"], &["key_file", "url", "url_file", "allow_private"])
            }
            ReceiverKind::Smtp => (
                &["host", "from", "to"],
                &["port", "tls", "user", "password", "password_file", "allow_private"],
            ),
        }
    }

    const fn default_url(self) -> Option<&'static str> {
        match self {
            ReceiverKind::PagerDuty => Some("https://events.pagerduty.com/v2/enqueue"),
            ReceiverKind::Opsgenie => Some("https://api.opsgenie.com"),
            _ => None,
        }
    }
}

impl WebhookFormat {
    pub const ALL: [WebhookFormat; 2] = [WebhookFormat::Json, WebhookFormat::CloudEvents];

    pub const fn name(self) -> &'static str {
        match self {
            WebhookFormat::Json => "json",
            WebhookFormat::CloudEvents => "cloudevents",
        }
    }
}

impl SmtpTls {
    pub const ALL: [SmtpTls; 3] = [SmtpTls::StartTls, SmtpTls::Tls, SmtpTls::None];

    pub const fn name(self) -> &'static str {
        match self {
            SmtpTls::StartTls => "starttls",
            SmtpTls::Tls => "tls",
            SmtpTls::None => "none",
        }
    }

    pub const fn port(self) -> u16 {
        match self {
            SmtpTls::StartTls => 587,
            SmtpTls::Tls => 465,
            SmtpTls::None => 25,
        }
    }
}

impl ReceiverConfig {
    /// The values that are secret, by their keys.
    pub(super) fn credentials(&self) -> Vec<(&'static str, &Credential)> {
        let key = if self.kind == ReceiverKind::Smtp { "password" } else { "key" };
        let all = [("url", &self.url), ("secret", &self.secret), (key, &self.key)];
        all.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect()
    }

    /// Where it is, for people: never more than a host.
    pub(crate) fn address(&self) -> String {
        if let Some(host) = &self.host {
            return format!("{host}:{}", self.port.unwrap_or(self.tls.port()));
        }
        match &self.url {
            Some(Credential::Value(url)) => {
                let url = DestinationUrl::parse(url.reveal());
                url.map_or_else(
                    |_| String::new(),
                    |url| url.secret().host_str().unwrap_or_default().to_owned(),
                )
            }
            Some(Credential::File(path)) => path.display().to_string(),
            None => String::new(),
        }
    }
}

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> BTreeMap<String, ReceiverConfig> {
    let mut names: Vec<String> = Vec::new();
    for (path, setting) in settings {
        let Some(rest) = path.strip_prefix("alerts.receivers.") else { continue };
        let name = rest.split('.').next().unwrap_or_default().to_owned();
        if !names.contains(&name) && !matches!(setting.given, Given::Unusable) {
            names.push(name);
        }
    }
    if names.len() > lazaret_core::limits::ALERT_RECEIVERS_MAX {
        let message = format!("more than {} receivers", lazaret_core::limits::ALERT_RECEIVERS_MAX);
        problems.add(place_of(settings, "alerts.receivers"), "alerts.receivers", message);
    }
    names.into_iter().filter_map(|name| Some((name.clone(), one(&name, settings, problems)?))).collect()
}

fn one(name: &str, settings: &Settings, problems: &mut Problems) -> Option<ReceiverConfig> {
    let path = format!("alerts.receivers.{name}");
    let at = |key: &str| format!("{path}.{key}");
    let is_set = |key: &str| settings.contains_key(&at(key));
    if !is_set("type") {
        let message = format!("type is missing; known are {}", known_kinds());
        problems.add(place_of(settings, &path), &path, message);
    }
    let kind = parse_scalar(settings, &at("type"), &at("type"), kind, problems)?;
    let (needed, more) = kind.keys();
    for key in needed {
        if !is_set(key) && !is_set(&format!("{key}_file")) {
            problems.add(place_of(settings, &path), &path, format!("{key} is missing"));
        }
    }
    for key in RECEIVER.iter().map(|key| key.name).filter(|key| *key != "type" && is_set(key)) {
        if !needed.contains(&key) && !more.contains(&key) {
            let message = format!("a receiver of the type {} has no {key}", kind.name());
            problems.add(place_of(settings, &at(key)), &at(key), message);
        }
    }
    let mut credential = |key: &str| {
        let from_file = format!("{key}_file");
        let given = parse_scalar(settings, &at(key), &at(key), secret, problems);
        given.or_else(|| parse_scalar(settings, &at(&from_file), &at(&from_file), file, problems))
    };
    let (url, signing, api_key, password) =
        (credential("url"), credential("secret"), credential("key"), credential("password"));
    let default_url = kind.default_url().map(|url| Credential::Value(Secret::unchecked(url.to_owned())));
    let mut scalar = |key: &str| parse_scalar(settings, &at(key), &at(key), value::filled, problems);
    let (host, user, from) = (scalar("host"), scalar("user"), scalar("from"));
    let port = |text: &str| value::count(text, 1..=65_535);
    let port = parse_scalar(settings, &at("port"), &at("port"), port, problems);
    let format = parse_scalar(settings, &at("format"), &at("format"), format, problems);
    let tls = parse_scalar(settings, &at("tls"), &at("tls"), tls, problems);
    let flag = parse_scalar(settings, &at("allow_private"), &at("allow_private"), value::flag, problems);
    let receiver = ReceiverConfig {
        kind,
        url: url.or(default_url),
        secret: signing,
        key: if kind == ReceiverKind::Smtp { password } else { api_key },
        format: format.unwrap_or(WebhookFormat::Json),
        allow_private: flag.unwrap_or(false),
        host,
        port: port.and_then(|port| u16::try_from(port).ok()),
        tls: tls.unwrap_or(SmtpTls::StartTls),
        user,
        from,
        to: parse_texts(settings, &at("to"), &at("to"), value::filled, problems),
    };
    if let Some(Credential::Value(url)) = &receiver.url {
        let checked = DestinationUrl::parse(url.reveal()).and_then(|url| {
            let destination =
                DestinationConfig { allow_private: receiver.allow_private, ..DestinationConfig::new(url) };
            address::check(&destination).map_err(|forbidden| forbidden.to_string())
        });
        if let Err(message) = checked {
            problems.add(place_of(settings, &at("url")), &at("url"), message);
        }
    }
    if let (true, Some(host)) = (kind == ReceiverKind::Smtp, &receiver.host)
        && let Err(forbidden) = address::check_host(host, receiver.allow_private)
    {
        problems.add(place_of(settings, &at("host")), &at("host"), forbidden.to_string());
    }
    Some(receiver)
}

fn known_kinds() -> String {
    ReceiverKind::ALL.map(ReceiverKind::name).join(", ")
}

fn kind(text: &str) -> Result<ReceiverKind, String> {
    ReceiverKind::ALL
        .into_iter()
        .find(|kind| kind.name() == text)
        .ok_or_else(|| format!("{} is not a type of receiver; known are {}", quoted(text), known_kinds()))
}

fn format(text: &str) -> Result<WebhookFormat, String> {
    let found = WebhookFormat::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| format!("{} is not a format; write json or cloudevents", quoted(text)))
}

fn tls(text: &str) -> Result<SmtpTls, String> {
    let found = SmtpTls::ALL.into_iter().find(|tls| tls.name() == text);
    found.ok_or_else(|| format!("{} is not known; write starttls, tls or none", quoted(text)))
}
