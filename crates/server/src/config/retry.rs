//! `[sources.<name>.relay]`, the numbers of retries: for every class of error, and for single ones under `classes`.

use std::collections::BTreeMap;

use lazaret_core::class::ErrorClass;
use lazaret_core::limits;
use lazaret_core::retry::{Jitter, Preset, RetryPolicies, RetryPolicy};
use serde::Serialize;

use super::check::parse_scalar;
use super::layer::Settings;
use super::problem::{Problems, quoted};
use super::schema::{Key, Shape, key};
use super::value;

/// The keys of one policy.
pub(super) const KEYS: &[Key] = &[
    key("attempts", Shape::Count),
    key("first_delay", Shape::Length),
    key("factor", Shape::Number),
    key("max_delay", Shape::Length),
    key("jitter", Shape::Number),
];

/// The presets that a relay may have.
const PRESETS: [Preset; 2] = [Preset::Outbox, Preset::ExternalApi];

pub(super) fn preset(text: &str) -> Result<Preset, String> {
    PRESETS.into_iter().find(|known| known.name() == text).ok_or_else(|| {
        format!("{} is not known; write {}", quoted(text), PRESETS.map(Preset::name).join(" or "))
    })
}

/// Reads the numbers under `path`, a relay's. A class without a number of its own has the relay's.
pub(super) fn check(
    path: &str,
    preset: Preset,
    settings: &Settings,
    problems: &mut Problems,
) -> RetryPolicies {
    let base = policy(path, preset.policy(), settings, problems);
    let mut policies = RetryPolicies::new(preset, base);
    for class in ErrorClass::ALL {
        let own = format!("{path}.classes.{class}");
        policies.set(class, policy(&own, *policies.of(class), settings, problems));
    }
    policies
}

/// The numbers under `path`; those that are not set are taken from `defaults`.
fn policy(path: &str, defaults: RetryPolicy, settings: &Settings, problems: &mut Problems) -> RetryPolicy {
    let at = |key: &str| format!("{path}.{key}");
    let attempts = |text: &str| value::count(text, 1..=limits::ATTEMPTS_MAX as u64);
    let attempts = parse_scalar(settings, &at("attempts"), &at("attempts"), attempts, problems);
    let mut length = |key: &str| {
        let parse = |text: &str| value::length_ms(text, limits::RETRY_DELAY_MS_MAX);
        parse_scalar(settings, &at(key), &at(key), parse, problems)
    };
    let (first_ms, cap_ms) = (length("first_delay"), length("max_delay"));
    let mut number = |key: &str, max: f64| {
        let least = if key == "factor" { 1.0 } else { 0.0 };
        let parse = |text: &str| value::number(text, least..=max);
        parse_scalar(settings, &at(key), &at(key), parse, problems)
    };
    let (factor, jitter) = (number("factor", FACTOR_MAX), number("jitter", 1.0));
    let policy = RetryPolicy {
        attempts: attempts.map_or(defaults.attempts, |attempts| attempts as u32),
        first_ms: first_ms.unwrap_or(defaults.first_ms),
        factor: factor.unwrap_or(defaults.factor),
        cap_ms: cap_ms.unwrap_or(defaults.cap_ms),
        jitter: jitter.map_or(defaults.jitter, |ratio| Jitter::Up { ratio }),
        ..defaults
    };
    if policy == defaults {
        return defaults;
    }
    if let Err(bad) = policy.check() {
        let inside = format!("{path}.");
        let place =
            settings.iter().find(|(key, _)| key.starts_with(&inside)).map(|(_, set)| set.place.clone());
        problems.add(place.unwrap_or(super::problem::Place::File), path, bad.to_string());
        return defaults;
    }
    policy
}

/// The largest factor between two delays: the cap is reached at once.
const FACTOR_MAX: f64 = 1_000.0;

/// The numbers of one policy as they are written to a file.
#[derive(Serialize)]
pub(super) struct ShownPolicy {
    attempts: u32,
    first_delay: String,
    factor: f64,
    max_delay: String,
    jitter: f64,
}

pub(super) fn shown(policy: &RetryPolicy) -> ShownPolicy {
    ShownPolicy {
        attempts: policy.attempts,
        first_delay: value::length_text(policy.first_ms),
        factor: policy.factor,
        max_delay: value::length_text(policy.cap_ms),
        jitter: match policy.jitter {
            Jitter::Up { ratio } | Jitter::Around { ratio } => ratio,
            Jitter::None | Jitter::Factor { .. } => 0.0,
        },
    }
}

pub(super) fn shown_classes(policies: &RetryPolicies) -> BTreeMap<&'static str, ShownPolicy> {
    ErrorClass::ALL.into_iter().map(|class| (class.name(), shown(policies.of(class)))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{load_env, load_text};
    use super::super::{Config, ConfigError};
    use super::*;

    const SHOP: &str = "[sources.shop]\nkind = 'outbox'\nurl = 'postgres://db/shop'\ntable = 'outbox'\n\
                        [sources.shop.relay.sink]\nurl = 'https://events.example.org/in'\n";

    fn load(relay: &str) -> Result<Config, ConfigError> {
        load_text(&format!("{SHOP}{relay}"))
    }

    fn retry(config: &Config) -> RetryPolicies {
        config.sources["shop"].outbox.as_ref().unwrap().outbox.relay.as_ref().unwrap().retry
    }

    #[test]
    fn every_number_is_set_for_the_relay_and_for_single_classes() {
        assert_eq!(retry(&load("").unwrap()), Preset::Outbox.policies());
        let text = "[sources.shop.relay]\nattempts = 12\nfirst_delay = '2s'\nfactor = 3\nmax_delay = '1m'\n\
                    jitter = 0.25\n[sources.shop.relay.classes.validation]\nattempts = 7\nfactor = 1.5\n";
        let config = load(text).unwrap();
        let policies = retry(&config);
        let expected = RetryPolicy {
            attempts: 12,
            first_ms: 2_000,
            factor: 3.0,
            cap_ms: 60_000,
            jitter: Jitter::Up { ratio: 0.25 },
            ..Preset::Outbox.policy()
        };
        assert_eq!(*policies.of(ErrorClass::Transient), expected);
        // What is not set for a class is the relay's, and the preset still tries it less often.
        assert_eq!(*policies.of(ErrorClass::Business), RetryPolicy { attempts: 3, ..expected });
        let validation = RetryPolicy { attempts: 7, factor: 1.5, ..expected };
        assert_eq!(*policies.of(ErrorClass::Validation), validation);
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn the_environment_sets_the_numbers_of_a_class() {
        let shop = [
            ("LAZARET_SOURCES__SHOP__KIND", "outbox"),
            ("LAZARET_SOURCES__SHOP__URL", "postgres://db/shop"),
            ("LAZARET_SOURCES__SHOP__TABLE", "outbox"),
            ("LAZARET_SOURCES__SHOP__RELAY__SINK__URL", "https://events.example.org/in"),
        ];
        let with = |name, value| load_env(&[shop.as_slice(), &[(name, value)]].concat());
        let config = with("LAZARET_SOURCES__SHOP__RELAY__CLASSES__NOT_FOUND__ATTEMPTS", "2").unwrap();
        assert_eq!(retry(&config).of(ErrorClass::NotFound).attempts, 2);
        let error = with("LAZARET_SOURCES__SHOP__RELAY__CLASSES__FOUND__ATTEMPTS", "2").unwrap_err();
        assert!(error.to_string().contains("\"found\" is not a class"), "{error}");
    }

    #[test]
    fn numbers_that_cannot_be_followed_are_named() {
        for (relay, told) in [
            ("[sources.shop.relay]\nattempts = 0", "not a number from 1 to 1000"),
            ("[sources.shop.relay]\nfactor = 0.5", "not a number from 1 to 1000"),
            ("[sources.shop.relay]\nfactor = nan", "not a number from 1 to 1000"),
            ("[sources.shop.relay]\njitter = '0.1'", "expected a number, found a text"),
            (
                "[sources.shop.relay]\nmax_delay = '500ms'",
                "first delay must be at least 1 ms and at most the cap",
            ),
            ("[sources.shop.relay.classes.business]\njitter = 1.5", "not a number from 0 to 1"),
            ("[sources.shop.relay.classes.busines]\nattempts = 1", "\"busines\" is not a class"),
        ] {
            let error = load(relay).unwrap_err().to_string();
            assert!(error.contains(told), "{relay}: {error}");
        }
    }
}
