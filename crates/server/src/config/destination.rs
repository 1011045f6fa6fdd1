//! `[sources.<name>.destination]` and `[sources.<name>.subscribers.<id>]`: where letters go back to.
//!
//! An address may hold credentials and a secret is one: both are shown masked, and no error repeats them.

use std::collections::BTreeMap;
use std::fmt;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use reqwest::Url;
use serde::Serialize;

use super::check::parse_scalar;
use super::layer::{Given, Settings};
use super::problem::{Problems, quoted};
use super::value;
use crate::destination::address;

/// A receiver of letters over HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DestinationConfig {
    pub url: DestinationUrl,
    /// Signs what is sent.
    pub secret: Option<Secret>,
    /// How long one letter may take, from the connection to the end of the answer.
    pub timeout_ms: u64,
    /// How many letters are on their way to it at once.
    pub connections_max: usize,
    /// Whether its address may be private, of this machine, or otherwise not on the open net.
    pub allow_private: bool,
    /// Whether it takes a letter with a known `Idempotency-Key` only once.
    pub deduplicates: bool,
    pub success: Success,
}

/// What tells that the work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Success {
    /// An answer of 2xx.
    Response,
    /// A receipt that comes later; an answer of 2xx says that the letter was taken.
    Receipt,
}

/// `http://…` or `https://…`, checked. Its `Debug` and `Display` hold no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct DestinationUrl(Url);

/// A key to sign with. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

const MASK: &str = "***";

impl DestinationConfig {
    /// A receiver of which nothing but the address is set.
    pub fn new(url: DestinationUrl) -> DestinationConfig {
        DestinationConfig {
            url,
            secret: None,
            timeout_ms: limits::DESTINATION_MS,
            connections_max: limits::DESTINATION_CONNECTIONS,
            allow_private: false,
            deduplicates: false,
            success: Success::Response,
        }
    }
}

impl Success {
    pub const ALL: [Success; 2] = [Success::Response, Success::Receipt];

    pub const fn name(self) -> &'static str {
        match self {
            Success::Response => "response",
            Success::Receipt => "receipt",
        }
    }
}

impl DestinationUrl {
    /// Says what is wrong without repeating the value: it may hold a password.
    pub fn parse(text: &str) -> Result<DestinationUrl, String> {
        let url: Url = text
            .parse()
            .map_err(|_| "not an address; write it like https://billing.example.org/events".to_owned())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("not an address of http or https".to_owned());
        }
        if url.fragment().is_some() {
            return Err("has a fragment (#…), which is never sent; leave it out".to_owned());
        }
        if url.port() == Some(0) {
            return Err("has port 0, where nothing can listen".to_owned());
        }
        if text.contains(MASK) {
            return Err(format!("is masked ({MASK}); write it with its credentials"));
        }
        Ok(DestinationUrl(url))
    }

    /// The whole address, for the connection alone.
    pub fn secret(&self) -> &Url {
        &self.0
    }
}

/// Whoever is named before the `@` may be a token, and so may any value behind the `?`.
impl fmt::Display for DestinationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = &self.0;
        write!(f, "{}://", url.scheme())?;
        if !url.username().is_empty() || url.password().is_some() {
            write!(f, "{MASK}@")?;
        }
        f.write_str(url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path())?;
        let Some(query) = url.query() else { return Ok(()) };
        for (index, setting) in query.split('&').enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            match setting.split_once('=') {
                Some((name, _)) => write!(f, "{name}={MASK}")?,
                None => f.write_str(MASK)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for DestinationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Secret {
    /// Says what is wrong without repeating the value.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let chars_min = limits::DESTINATION_SECRET_CHARS_MIN;
        if text.chars().count() < chars_min {
            return Err(format!(
                "shorter than {chars_min} characters; `openssl rand -hex 32` makes a good one"
            ));
        }
        Ok(Secret(text.to_owned()))
    }

    /// A key of somebody else's making, whatever its length.
    pub(crate) fn unchecked(text: String) -> Secret {
        Secret(text)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// What is set under `path`, if anything is. A bad one is reported and left out.
pub(super) fn check(path: &str, settings: &Settings, problems: &mut Problems) -> Option<DestinationConfig> {
    let inside = format!("{path}.");
    let (_, first) = settings.iter().find(|(key, _)| *key == path || key.starts_with(&inside))?;
    let at = |key: &str| format!("{path}.{key}");
    if !settings.contains_key(&at("url")) {
        problems.add(first.place.clone(), path, "url is missing".to_owned());
    }
    let url = scalar(&at("url"), DestinationUrl::parse, settings, problems);
    let secret = scalar(&at("secret"), Secret::parse, settings, problems);
    let length = |text: &str| value::length_ms(text, limits::DESTINATION_MS_MAX);
    let timeout_ms = scalar(&at("timeout"), length, settings, problems);
    let number = |text: &str| value::count(text, 1..=limits::DESTINATION_CONNECTIONS_MAX as u64);
    let connections_max = scalar(&at("connections_max"), number, settings, problems);
    let allow_private = scalar(&at("allow_private"), value::flag, settings, problems);
    let deduplicates = scalar(&at("deduplicates"), value::flag, settings, problems);
    let success = scalar(&at("success"), success, settings, problems);
    let defaults = DestinationConfig::new(url?);
    let destination = DestinationConfig {
        secret,
        timeout_ms: timeout_ms.unwrap_or(defaults.timeout_ms),
        connections_max: connections_max
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(defaults.connections_max),
        allow_private: allow_private.unwrap_or(defaults.allow_private),
        deduplicates: deduplicates.unwrap_or(defaults.deduplicates),
        success: success.unwrap_or(defaults.success),
        ..defaults
    };
    if let Err(forbidden) = address::check(&destination) {
        let place = settings.get(&at("url")).map_or(first.place.clone(), |setting| setting.place.clone());
        problems.add(place, &at("url"), forbidden.to_string());
    }
    Some(destination)
}

/// The destinations of subscribers, by the names that letters give them.
pub(super) fn subscribers(
    path: &str,
    settings: &Settings,
    problems: &mut Problems,
) -> BTreeMap<String, DestinationConfig> {
    let inside = format!("{path}.");
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (key, setting) in settings {
        let Some(rest) = key.strip_prefix(&inside) else { continue };
        match &setting.given {
            // A table comes before its keys, and knows the name as it was written.
            Given::Named(name) => {
                names.insert(rest.to_owned(), name.clone());
            }
            // From the environment, where names are plain.
            _ if !rest.starts_with('"') => {
                let part = rest.split('.').next().unwrap_or_default();
                names.entry(part.to_owned()).or_insert_with(|| part.to_owned());
            }
            _ => {}
        }
    }
    let checked = names.into_iter().filter_map(|(part, name)| {
        check(&format!("{inside}{part}"), settings, problems).map(|destination| (name, destination))
    });
    checked.collect()
}

fn scalar<T>(
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
    settings: &Settings,
    problems: &mut Problems,
) -> Option<T> {
    parse_scalar(settings, path, path, parse, problems)
}

fn success(text: &str) -> Result<Success, String> {
    Success::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
        let known = Success::ALL.map(Success::name).join(" or ");
        format!("{} is not known; write {known}", quoted(text))
    })
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownDestination {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'static str>,
    timeout: String,
    connections_max: u32,
    allow_private: bool,
    deduplicates: bool,
    success: &'static str,
}

pub(super) fn shown(destination: &DestinationConfig) -> ShownDestination {
    let timeout_ms = i64::try_from(destination.timeout_ms).unwrap_or(i64::MAX);
    ShownDestination {
        url: destination.url.to_string(),
        secret: destination.secret.as_ref().map(|_| MASK),
        timeout: Length::from_ms(timeout_ms).to_string(),
        connections_max: u32::try_from(destination.connections_max).unwrap_or(u32::MAX),
        allow_private: destination.allow_private,
        deduplicates: destination.deduplicates,
        success: destination.success.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{load_env, load_text};
    use super::*;
    use crate::config::{Config, Governance, SourceConfig};

    fn source(config: &Config) -> &SourceConfig {
        &config.sources["orders"]
    }

    fn with(lines: &str) -> String {
        format!("[sources.orders]\nkind = 'report'\n[sources.orders.destination]\n{lines}\n")
    }

    #[test]
    fn a_destination_is_set_and_shown_as_it_is_set() {
        let text = "[sources.orders]\nkind = 'report'\ngovernance = 'optional'\n\
                    [sources.orders.destination]\nurl = 'http://10.0.0.7:8080/in'\ntimeout = '5s'\nconnections_max = 4\n\
                    allow_private = true\ndeduplicates = true\nsuccess = 'receipt'\n\
                    [sources.orders.subscribers.ledger]\nurl = 'https://ledger.example.org'\n\
                    [sources.orders.subscribers.'com.acme.url \"x\"']\nurl = 'https://acme.example.org/?'\n";
        let config = load_text(text).unwrap();
        let expected = DestinationConfig {
            timeout_ms: 5_000,
            connections_max: 4,
            allow_private: true,
            deduplicates: true,
            success: Success::Receipt,
            ..DestinationConfig::new(DestinationUrl::parse("http://10.0.0.7:8080/in").unwrap())
        };
        assert_eq!(source(&config).destination, Some(expected));
        assert_eq!(source(&config).governance, Governance::Optional);
        let names: Vec<&String> = source(&config).subscribers.keys().collect();
        assert_eq!(names, ["com.acme.url \"x\"", "ledger"]);
        let ledger = DestinationConfig::new(DestinationUrl::parse("https://ledger.example.org/").unwrap());
        assert_eq!(source(&config).subscribers["ledger"], ledger);
        assert_eq!(config.sources["report"].governance, Governance::Required);
    }

    #[test]
    fn what_is_shown_loads_to_the_same_when_there_is_nothing_to_mask() {
        let text = with("url = 'https://orders.example.org/in'\ntimeout = '1500ms'");
        let text = format!("{text}[sources.orders.subscribers.'a.url']\nurl = 'https://a.example.org'\n");
        let config = load_text(&text).unwrap();
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn the_environment_holds_the_secret() {
        let config = load_env(&[
            ("LAZARET_SOURCES__ORDERS__KIND", "report"),
            ("LAZARET_SOURCES__ORDERS__DESTINATION__URL", "https://orders.example.org/"),
            ("LAZARET_SOURCES__ORDERS__DESTINATION__SECRET", "0123456789abcdef"),
            ("LAZARET_SOURCES__ORDERS__SUBSCRIBERS__LEDGER__URL", "https://ledger.example.org/"),
        ])
        .unwrap();
        let destination = source(&config).destination.as_ref().unwrap();
        assert_eq!(destination.secret.as_ref().map(Secret::reveal), Some("0123456789abcdef"));
        assert!(source(&config).subscribers.contains_key("ledger"));
    }

    #[test]
    fn credentials_are_shown_nowhere() {
        let secret = "hunter2-hunter2-hunter2";
        let url = "https://me:hunter2@orders.example.org/in?key=hunter2&hunter2";
        let config = load_text(&with(&format!("url = '{url}'\nsecret = '{secret}'"))).unwrap();
        assert_eq!(source(&config).destination.as_ref().unwrap().url.secret().as_str(), url);
        let shown = config.to_toml();
        assert!(!format!("{shown} {config:?}").contains("hunter2"), "{shown}");
        assert!(shown.contains("url = \"https://***@orders.example.org/in?key=***&***\""), "{shown}");
        assert!(shown.contains("secret = \"***\""), "{shown}");
        // What was masked is not taken for the real thing.
        let error = load_text(&shown).unwrap_err().to_string();
        assert!(error.contains("destination.url: is masked"), "{error}");
        assert!(error.contains("destination.secret: shorter than 16"), "{error}");
    }

    #[test]
    fn each_mistake_is_named_and_no_credential_repeated() {
        for (lines, told) in [
            ("", "sources.orders.destination: url is missing"),
            ("timeout = '5s'", "sources.orders.destination: url is missing"),
            ("url = 'hunter2'", "sources.orders.destination.url: not an address"),
            ("url = 'ftp://me:hunter2@x'", "destination.url: not an address of http or https"),
            ("url = 'https://me:hunter2@x/#hunter2'", "destination.url: has a fragment"),
            ("url = 'https://x:0'", "destination.url: has port 0"),
            ("url = 'https://x'\nsecret = 'hunter2'", "destination.secret: shorter than 16 characters"),
            ("url = 'https://x'\ntimeout = '51s'", "destination.timeout: \"51s\" is out of range"),
            ("url = 'https://x'\nconnections_max = 0", "destination.connections_max: \"0\" is not a number"),
            ("url = 'https://x'\nsuccess = 'maybe'", "write response or receipt"),
            ("url = 'https://x'\nallow_private = 'yes'", "expected true or false"),
            ("url = 'https://x'\nsecrt = 'hunter2'", "unknown key \"secrt\"; did you mean \"secret\"?"),
            ("url = 'http://127.0.0.1/'", "destination.url: 127.0.0.1 is a private address"),
            ("url = 'http://2130706433/'", "127.0.0.1 is a private address"),
            ("url = 'http://[::ffff:10.0.0.1]/'", "is a private address"),
            ("url = 'http://169.254.169.254/latest'", "set allow_private = true"),
            ("url = 'http://api.localhost:80/'", "api.localhost is a private address"),
        ] {
            let error = load_text(&with(lines)).unwrap_err().to_string();
            assert!(error.contains(told), "{lines}: {error}");
            assert!(!error.contains("hunter2"), "{lines}: {error}");
        }
        let error = load_text("[sources.report.subscribers.'']\nurl = 'https://x'").unwrap_err().to_string();
        assert!(error.contains("sources.report.subscribers: \"\" cannot name a subscriber"), "{error}");
        let error = load_text("[sources.report.subscribers.a]\n").unwrap_err().to_string();
        assert!(error.contains("sources.report.subscribers.a: url is missing"), "{error}");
        let error = load_text("[sources.report]\ngovernance = 'strict'").unwrap_err().to_string();
        assert!(error.contains("sources.report.governance: \"strict\" is not known"), "{error}");
    }
}
