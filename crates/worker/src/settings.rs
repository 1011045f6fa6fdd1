//! What decides about failures, whichever broker they come from: the retry policy, the class rules, and what the environment
//! overrides.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use lazaret_core::broker::DeathReason;
use lazaret_core::class::{ClassRules, ErrorClass, Retryable};
use lazaret_core::limits;
use lazaret_core::retry::{BadPolicy, Preset, RetryPolicies, RetryPolicy, Verdict};

use crate::failure::Failure;

/// The environment variable that replaces the policy's number of retries.
pub(crate) const MAX_RETRIES: &str = "MAX_RETRIES";

/// The environment variable that names the program's version.
pub(crate) const SERVICE_VERSION: &str = "SERVICE_VERSION";

/// Settings that cannot be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadSettings {
    #[error("{MAX_RETRIES} must be a whole number from 0 to {max}, not `{0}`", max = limits::ATTEMPTS_MAX - 1)]
    MaxRetries(String),
    #[error("the retry policy cannot be followed: {0}")]
    Policy(#[from] BadPolicy),
}

/// What to do about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decision {
    pub(crate) class: ErrorClass,
    pub(crate) action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    RetryAfter { delay_ms: u64 },
    DeadLetter(DeathReason),
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    preset: Preset,
    pub(crate) policy: RetryPolicy,
    pub(crate) rules: ClassRules,
    pub(crate) service_version: Option<String>,
}

impl Settings {
    pub(crate) fn new(preset: Preset) -> Settings {
        Settings { preset, policy: preset.policy(), rules: ClassRules::default(), service_version: None }
    }

    /// Applies the environment, which beats the policy but not a version that the program gave itself.
    pub(crate) fn resolve(
        mut self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings, BadSettings> {
        if let Some(text) = environment(MAX_RETRIES) {
            let retries: Option<u32> = text.trim().parse().ok();
            let attempts = retries
                .and_then(|retries| retries.checked_add(1))
                .filter(|attempts| (*attempts as usize) <= limits::ATTEMPTS_MAX);
            let Some(attempts) = attempts else {
                return Err(BadSettings::MaxRetries(text.chars().take(64).collect()));
            };
            self.policy.attempts = attempts;
        }
        self.policy.check()?;
        self.service_version = self.service_version.or_else(|| environment(SERVICE_VERSION));
        Ok(self)
    }

    /// Decides about the failure of delivery number `delivered`, of which the broker allows `allowed`.
    pub(crate) fn decide(
        &self,
        source: &str,
        failure: &Failure,
        delivered: u32,
        allowed: Option<u32>,
    ) -> Decision {
        let class = failure.class().unwrap_or_else(|| self.rules.classify(source, failure.error()));
        let policies = RetryPolicies::new(self.preset, self.policy);
        let is_last = allowed.is_some_and(|allowed| delivered >= allowed);
        let action = match policies.of(class).decide(delivered, random_unit()) {
            Verdict::RetryAfter { delay_ms } if !is_last => Action::RetryAfter { delay_ms },
            Verdict::RetryAfter { .. } | Verdict::DeadLetter => Action::DeadLetter(match class.retryable() {
                Retryable::Yes => DeathReason::Exhausted,
                Retryable::No | Retryable::PresetDecides => DeathReason::Permanent,
            }),
        };
        Decision { class, action }
    }
}

/// A random number from 0 to 1. The standard library seeds its hash maps at random, which is random enough for jitter.
pub(crate) fn random_unit() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_retries: Option<&str>) -> Result<Settings, BadSettings> {
        let environment = |name: &str| match name {
            MAX_RETRIES => max_retries.map(str::to_owned),
            SERVICE_VERSION => Some("1.4.2".to_owned()),
            _ => None,
        };
        Settings::new(Preset::Jetstream).resolve(environment)
    }

    fn decide(settings: &Settings, failure: &Failure, delivered: u32, allowed: Option<u32>) -> Action {
        settings.decide("billing", failure, delivered, allowed).action
    }

    #[test]
    fn the_environment_replaces_the_number_of_retries() {
        assert_eq!(settings(None).unwrap().policy.attempts, 5);
        assert_eq!(settings(Some("0")).unwrap().policy.attempts, 1);
        assert_eq!(settings(Some(" 7 ")).unwrap().policy.attempts, 8);
        for bad in ["", "-1", "many", "1000", "4294967295"] {
            assert!(matches!(settings(Some(bad)), Err(BadSettings::MaxRetries(_))), "{bad}");
        }
    }

    #[test]
    fn a_version_of_the_programs_own_beats_the_environment() {
        assert_eq!(settings(None).unwrap().service_version.as_deref(), Some("1.4.2"));
        let own = Settings { service_version: Some("2.0".into()), ..Settings::new(Preset::Jetstream) };
        assert_eq!(own.resolve(|_| Some("1".into())).unwrap().service_version.as_deref(), Some("2.0"));
    }

    #[test]
    fn transient_failures_are_retried_and_permanent_ones_are_not() {
        let settings = settings(None).unwrap();
        let timeout = Failure::new("TimeoutError", "timed out");
        let Action::RetryAfter { delay_ms } = decide(&settings, &timeout, 2, None) else { panic!() };
        assert!((2_000..=2_200).contains(&delay_ms), "{delay_ms}");
        assert_eq!(decide(&settings, &timeout, 5, None), Action::DeadLetter(DeathReason::Exhausted));
        // The server would not deliver it again.
        assert_eq!(decide(&settings, &timeout, 3, Some(3)), Action::DeadLetter(DeathReason::Exhausted));
        let invalid = Failure::new("E", "timed out").with_class(ErrorClass::Validation);
        assert_eq!(decide(&settings, &invalid, 1, None), Action::DeadLetter(DeathReason::Permanent));
    }

    #[test]
    fn jitter_is_drawn_from_the_whole_range() {
        let units: Vec<f64> = (0..1_000).map(|_| random_unit()).collect();
        assert!(units.iter().all(|unit| (0.0..=1.0).contains(unit)));
        assert!(units.iter().any(|unit| *unit < 0.1) && units.iter().any(|unit| *unit > 0.9));
    }
}
