//! `[redrive]`: how long a server that claimed letters has to send them.

use lazaret_core::duration::Length;
use lazaret_core::limits;
use serde::Serialize;

use super::Config;
use super::check::parse_scalar;
use super::layer::Settings;
use super::problem::{Place, Problems, quoted};

const LEASE: &str = "redrive.lease";

/// What is set for putting letters back, whatever they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveConfig {
    /// How long whoever claimed letters has to begin with them, and again to send them.
    pub lease_ms: u64,
}

impl Default for RedriveConfig {
    fn default() -> RedriveConfig {
        RedriveConfig { lease_ms: limits::CLAIM_LEASE_MS }
    }
}

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> RedriveConfig {
    let lease_ms = parse_scalar(settings, LEASE, LEASE, lease, problems);
    lease_ms.map_or_else(RedriveConfig::default, |lease_ms| RedriveConfig { lease_ms })
}

fn lease(text: &str) -> Result<u64, String> {
    let (min, max) = (limits::CLAIM_LEASE_MS_MIN, limits::CLAIM_LEASE_MS_MAX);
    let length = Length::parse(text)
        .map_err(|_| format!("{} is not a length of time; write it like 60s", quoted(text)))?;
    let ms = u64::try_from(length.ms()).ok().filter(|ms| (min..=max).contains(ms));
    ms.ok_or_else(|| format!("{} is out of range; write {}s to {}s", quoted(text), min / 1_000, max / 1_000))
}

/// A letter that is still on its way when its lease ends could be sent a second time meanwhile.
pub(super) fn check_timeouts(config: &Config, settings: &Settings, problems: &mut Problems) {
    let lease_ms = config.redrive.lease_ms;
    for (name, source) in &config.sources {
        let own = source.destination.iter().map(|it| ("destination".to_owned(), it));
        let subscribers = source.subscribers.iter().map(|(id, it)| (format!("subscribers.{id}"), it));
        for (place, destination) in own.chain(subscribers) {
            let needed_ms = limits::DESTINATION_WAIT_MS + destination.timeout_ms + limits::CLAIM_SLACK_MS;
            if needed_ms <= lease_ms {
                continue;
            }
            let message = format!(
                "{} is too short for sources.{name}.{place}, where a letter may take {}: at least {} is needed",
                length(lease_ms),
                length(destination.timeout_ms),
                length(needed_ms)
            );
            let at = settings.get(LEASE).map_or(Place::File, |setting| setting.place.clone());
            problems.add_with_hint(
                at,
                LEASE,
                message,
                "make it longer, or that destination's timeout shorter",
            );
        }
    }
}

fn length(ms: u64) -> String {
    Length::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)).to_string()
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownRedrive {
    lease: String,
}

pub(super) fn shown(redrive: &RedriveConfig) -> ShownRedrive {
    ShownRedrive { lease: length(redrive.lease_ms) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    fn with(lease: &str, timeout: &str) -> String {
        format!(
            "[redrive]\nlease = '{lease}'\n[sources.report.subscribers.'a.b']\nurl = 'https://x'\ntimeout = '{timeout}'\n"
        )
    }

    #[test]
    fn a_lease_is_set_and_shown_as_it_is_set() {
        let config = load_text(&with("10s", "4s")).unwrap();
        assert_eq!(config.redrive, RedriveConfig { lease_ms: 10_000 });
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
        assert_eq!(load_text("").unwrap().redrive.lease_ms, 60_000);
    }

    #[test]
    fn a_lease_that_is_too_short_is_told_with_what_it_is_too_short_for() {
        for (lease, timeout, told) in [
            ("6s", "1s", "redrive.lease: \"6s\" is out of range; write 7s to 600s"),
            ("601s", "1s", "out of range"),
            ("soon", "1s", "not a length of time"),
            ("10s", "5s", "redrive.lease: PT10S is too short for sources.report.subscribers.a.b, where"),
            ("55s", "50s", "a letter may take PT50S: at least PT56S is needed"),
        ] {
            let error = load_text(&with(lease, timeout)).unwrap_err().to_string();
            assert!(error.contains(told), "{lease}: {error}");
        }
        let unset = "[redrive]\nlease = '30s'\n[sources.report.destination]\nurl = 'https://x'\n";
        let error = load_text(unset).unwrap_err().to_string();
        assert!(error.contains("too short for sources.report.destination"), "{error}");
    }
}
