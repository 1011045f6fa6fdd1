//! `[alerts]`: rules, routes and receivers.
//!
//! Addresses of receivers and their keys are secrets: they are shown masked, or as the file they are kept in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lazaret_core::alert::{AlertRule, LOG_RECEIVER, Matchers, Route, RuleKind, Rules, Scope, Severity};
use lazaret_core::limits;

use super::check::{parse_scalar, parse_texts};
use super::destination::Secret;
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Place, Problems, quoted};
use super::schema::{Key, Shape, key};
use super::value;

mod receiver;
mod show;

pub(super) use receiver::RECEIVER;
pub use receiver::{Credential, ReceiverConfig, ReceiverKind, SmtpTls, WebhookFormat};
pub(super) use show::{ShownAlerts, shown};

pub(super) const RULE: &[Key] = &[
    key("name", Shape::Text),
    key("kind", Shape::Text),
    key("scope", Shape::Text),
    key("match", Shape::Text),
    key("above", Shape::Number),
    key("clear", Shape::Number),
    key("window", Shape::Length),
    key("for", Shape::Length),
    key("resolve_after", Shape::Length),
    key("min_count", Shape::Count),
    key("severity", Shape::Text),
    key("enabled", Shape::Flag),
];

pub(super) const ROUTE: &[Key] = &[
    key("receivers", Shape::Texts),
    key("match", Shape::Text),
    key("group_by", Shape::Texts),
    key("group_wait", Shape::Length),
    key("group_interval", Shape::Length),
    key("repeat_interval", Shape::Length),
    key("continue", Shape::Flag),
];

/// What an operator wants to be notified of, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct AlertsConfig {
    pub enabled: bool,
    /// Where this server is reached, for links in notifications.
    pub public_url: Option<String>,
    /// The configured rules, without the defaults.
    pub configured: Vec<AlertRule>,
    pub rules: Rules,
    pub routes: Vec<Route>,
    pub receivers: BTreeMap<String, ReceiverConfig>,
}

impl Default for AlertsConfig {
    fn default() -> AlertsConfig {
        AlertsConfig {
            enabled: true,
            public_url: None,
            configured: Vec::new(),
            rules: Rules::new(Vec::new()),
            routes: vec![Route::default()],
            receivers: BTreeMap::new(),
        }
    }
}

impl AlertsConfig {
    /// A link to a page of this server, if it is known where that is.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        self.public_url.as_ref().map(|url| format!("{}{path}", url.trim_end_matches('/')))
    }

    /// The names of all receivers, the log among them.
    pub(crate) fn receiver_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.receivers.keys().cloned().collect();
        if !self.receivers.contains_key(LOG_RECEIVER) {
            names.push(LOG_RECEIVER.to_owned());
        }
        names
    }

    /// The secret values, by key: only to compare.
    pub(super) fn secrets(&self) -> BTreeMap<String, &str> {
        let mut secrets = BTreeMap::new();
        for (name, receiver) in &self.receivers {
            for (key, value) in receiver.credentials() {
                if let Credential::Value(secret) = value {
                    secrets.insert(format!("alerts.receivers.{name}.{key}"), secret.reveal());
                }
            }
        }
        secrets
    }
}

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> AlertsConfig {
    let flag = parse_scalar(settings, "alerts.enabled", "alerts.enabled", value::flag, problems);
    let public_url = parse_scalar(settings, "alerts.public_url", "alerts.public_url", public_url, problems);
    let configured = entries(settings, "alerts.rules", limits::ALERT_RULES_MAX, problems, rule);
    let receivers = receiver::check(settings, problems);
    let mut routes =
        entries(settings, "alerts.routes", limits::ALERT_ROUTES_MAX, problems, |entry, problems| {
            route(entry, &receivers, problems)
        });
    if routes.is_empty() {
        // Whoever names receivers and no routes wants all of them to be notified, and the log.
        let mut names: Vec<String> = receivers.keys().cloned().collect();
        if !receivers.contains_key(LOG_RECEIVER) {
            names.push(LOG_RECEIVER.to_owned());
        }
        routes = vec![Route { receivers: names, ..Route::default() }];
    }
    AlertsConfig {
        enabled: flag.unwrap_or(true),
        public_url,
        rules: Rules::new(configured.clone()),
        configured,
        routes,
        receivers,
    }
}

fn entries<T>(
    settings: &Settings,
    path: &str,
    max: usize,
    problems: &mut Problems,
    mut read: impl FnMut(&Entry, &mut Problems) -> Option<T>,
) -> Vec<T> {
    let Some(Setting { given: Given::Entries(entries), place }) = settings.get(path) else {
        return Vec::new();
    };
    if entries.len() > max {
        problems.add(place.clone(), path, format!("more than {max} entries"));
    }
    entries.iter().filter_map(|entry| read(entry, problems)).collect()
}

fn scalar<T>(
    entry: &Entry,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
    problems: &mut Problems,
) -> Option<T> {
    parse_scalar(&entry.settings, key, &format!("{}.{key}", entry.path), parse, problems)
}

fn rule(entry: &Entry, problems: &mut Problems) -> Option<AlertRule> {
    if !entry.settings.contains_key("kind") {
        let message = format!("kind is missing; known are {}", known_kinds());
        problems.add(entry.place.clone(), &entry.path, message);
    }
    let kind = scalar(entry, "kind", kind, problems)?;
    let scope = scalar(entry, "scope", |text| scope(kind, text), problems).unwrap_or(kind.scopes()[0]);
    let defaults = AlertRule::new(kind, scope);
    let number = |text: &str| value::number(text, 0.0..=1e15);
    let count = |text: &str| value::count(text, 1..=1_000_000_000);
    Some(AlertRule {
        name: scalar(entry, "name", name, problems).unwrap_or(defaults.name),
        matchers: scalar(entry, "match", matchers, problems).unwrap_or_default(),
        above: scalar(entry, "above", number, problems).unwrap_or(defaults.above),
        clear: scalar(entry, "clear", number, problems),
        window_ms: scalar(entry, "window", length, problems).unwrap_or(defaults.window_ms),
        for_ms: scalar(entry, "for", length, problems).unwrap_or(defaults.for_ms),
        resolve_after_ms: scalar(entry, "resolve_after", length, problems)
            .unwrap_or(defaults.resolve_after_ms),
        min_count: scalar(entry, "min_count", count, problems).unwrap_or(defaults.min_count),
        severity: scalar(entry, "severity", severity, problems).unwrap_or(defaults.severity),
        enabled: scalar(entry, "enabled", value::flag, problems).unwrap_or(true),
        kind,
        scope,
    })
}

fn route(
    entry: &Entry,
    receivers: &BTreeMap<String, ReceiverConfig>,
    problems: &mut Problems,
) -> Option<Route> {
    let defaults = Route::default();
    let path = |key: &str| format!("{}.{key}", entry.path);
    let known = |text: &str| match receivers.contains_key(text) || text == LOG_RECEIVER {
        true => Ok(text.to_owned()),
        false => Err(format!("there is no receiver {}; add [alerts.receivers.NAME]", quoted(text))),
    };
    let to = parse_texts(&entry.settings, "receivers", &path("receivers"), known, problems);
    if !entry.settings.contains_key("receivers") {
        problems.add(entry.place.clone(), &entry.path, "receivers is missing".to_owned());
        return None;
    }
    let group_by = parse_texts(&entry.settings, "group_by", &path("group_by"), label, problems);
    Some(Route {
        receivers: to,
        matchers: scalar(entry, "match", matchers, problems).unwrap_or_default(),
        group_by: if entry.settings.contains_key("group_by") { group_by } else { defaults.group_by },
        group_wait_ms: scalar(entry, "group_wait", length, problems).unwrap_or(defaults.group_wait_ms),
        group_interval_ms: scalar(entry, "group_interval", length, problems)
            .unwrap_or(defaults.group_interval_ms),
        repeat_ms: scalar(entry, "repeat_interval", length, problems).unwrap_or(defaults.repeat_ms),
        go_on: scalar(entry, "continue", value::flag, problems).unwrap_or(false),
    })
}

/// None at all is a length too.
fn length(text: &str) -> Result<i64, String> {
    let length = lazaret_core::duration::Length::parse(text)
        .map_err(|_| format!("{} is not a length of time; write it like 30s, 5m or 4h", quoted(text)))?;
    match u64::try_from(length.ms()) {
        Ok(ms) if ms <= limits::ALERT_WINDOW_MS_MAX => Ok(length.ms()),
        Ok(_) | Err(_) => Err(format!("{} is out of range; write 0s to 7d", quoted(text))),
    }
}

fn label(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
    match !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{} is not a label; use rule, severity, source, queue or type", quoted(text))),
    }
}

fn name(text: &str) -> Result<String, String> {
    lazaret_core::replay::ReplayRule::check_name(text)
        .map(|()| text.to_owned())
        .map_err(|message| format!("{} {message}", quoted(text)))
}

fn matchers(text: &str) -> Result<Matchers, String> {
    Matchers::parse(text).map_err(|bad| bad.to_string())
}

fn kind(text: &str) -> Result<RuleKind, String> {
    RuleKind::parse(text)
        .ok_or_else(|| format!("{} is not a kind of rule; known are {}", quoted(text), known_kinds()))
}

fn known_kinds() -> String {
    RuleKind::ALL.map(RuleKind::name).join(", ")
}

fn scope(kind: RuleKind, text: &str) -> Result<Scope, String> {
    Scope::parse(text).filter(|scope| kind.scopes().contains(scope)).ok_or_else(|| {
        let known: Vec<&str> = kind.scopes().iter().map(|scope| scope.name()).collect();
        format!("{} is not measured by {}; known are {}", kind.name(), quoted(text), known.join(", "))
    })
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::parse(text).ok_or_else(|| {
        let known = Severity::ALL.map(Severity::name).join(", ");
        format!("{} is not a severity; known are {known}", quoted(text))
    })
}

fn public_url(text: &str) -> Result<String, String> {
    let url: reqwest::Url = text.parse().map_err(|_| format!("{} is not an address", quoted(text)))?;
    match matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.username().is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!("{} is not an address like https://lazaret.example.org", quoted(text))),
    }
}

/// Where the first setting below a path was written.
fn place_of(settings: &Settings, path: &str) -> Place {
    let inside = format!("{path}.");
    let found = settings.iter().find(|(key, _)| *key == path || key.starts_with(&inside));
    found.map_or(Place::File, |(_, setting)| setting.place.clone())
}

fn secret(text: &str) -> Result<Credential, String> {
    value::filled(text).map(|text| Credential::Value(Secret::unchecked(text)))
}

fn file(text: &str) -> Result<Credential, String> {
    value::filled(text).map(|text| Credential::File(PathBuf::from(text)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    #[test]
    fn rules_routes_and_receivers_are_read_and_shown() {
        let text = "[alerts]\npublic_url = 'https://lazaret.example.org'\n\
            [[alerts.rules]]\nname = 'payments'\nkind = 'letter_count'\nmatch = 'type=pay.*'\nabove = 0\nclear = 0\n\
            for = '1m'\nseverity = 'critical'\n\
            [[alerts.rules]]\nkind = 'spike'\nscope = 'queue'\nwindow = '10m'\nabove = 2.5\nmin_count = 5\nenabled = false\n\
            [alerts.receivers.ops]\ntype = 'webhook'\nurl = 'https://ops.example.org/hook'\nsecret_file = '/run/secret'\n\
            [alerts.receivers.mail]\ntype = 'smtp'\nhost = 'mail.example.org'\nfrom = 'lazaret@example.org'\nto = ['ops@example.org']\n\
            [[alerts.routes]]\nreceivers = ['ops', 'log']\nmatch = 'severity=critical'\ngroup_by = ['rule', 'source']\n\
            group_wait = '0s'\ncontinue = true\n[[alerts.routes]]\nreceivers = ['mail']\n";
        let config = load_text(text).unwrap();
        let alerts = &config.alerts;
        assert_eq!(alerts.configured.len(), 2);
        assert_eq!((alerts.configured[0].above, alerts.configured[0].severity), (0.0, Severity::Critical));
        assert_eq!(alerts.routes[0].group_by, ["rule", "source"]);
        assert_eq!((alerts.routes[0].group_wait_ms, alerts.routes[1].group_wait_ms), (0, 30_000));
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
        assert_eq!(alerts.link("/alerts").as_deref(), Some("https://lazaret.example.org/alerts"));
    }

    #[test]
    fn secrets_are_shown_masked_and_mistakes_are_named() {
        let text =
            "[alerts.receivers.chat]\ntype = 'slack'\nurl = 'https://hooks.example.org/services/T0/hush'\n";
        let config = load_text(text).unwrap();
        for shown in [config.to_toml(), format!("{:?}", config.alerts)] {
            assert!(!shown.contains("hush"), "{shown}");
        }
        let receiver = |more: &str| format!("[alerts.receivers.r]\n{more}\n");
        for (bad, told) in [
            (receiver("type = 'pigeon'"), "not a type of receiver; known are log, webhook"),
            (receiver("type = 'webhook'"), "url is missing"),
            (receiver("type = 'webhook'\nurl = 'http://127.0.0.1/x'"), "is a private address"),
            (receiver("type = 'pagerduty'"), "key is missing"),
            (receiver("type = 'smtp'\nhost = 'm'"), "from is missing"),
            (
                receiver("type = 'webhook'\nurl = 'https://x'\nkey = 'k'"),
                "a receiver of the type webhook has no key",
            ),
            ("[[alerts.routes]]\nreceivers = ['nobody']\n".to_owned(), "there is no receiver \"nobody\""),
            ("[[alerts.rules]]\nabove = 1\n".to_owned(), "kind is missing"),
            (
                "[[alerts.rules]]\nkind = 'spike'\nscope = 'tenant'\n".to_owned(),
                "known are type, queue, source, all",
            ),
            ("[[alerts.rules]]\nkind = 'spike'\nmatch = 'x'\n".to_owned(), "is not a matcher"),
        ] {
            let error = load_text(&bad).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
