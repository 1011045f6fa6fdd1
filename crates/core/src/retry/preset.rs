//! The policies that the requirement documents ask for, by name.

use std::fmt;

use super::{Growth, Jitter, RetryPolicies, RetryPolicy};
use crate::class::{ErrorClass, Retryable};
use crate::limits;

/// The policies that the requirement documents ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Preset {
    Ojs,
    Outbox,
    ExternalApi,
    Jetstream,
    Rabbitmq,
}

impl Preset {
    pub const ALL: [Preset; 5] =
        [Preset::Ojs, Preset::Outbox, Preset::ExternalApi, Preset::Jetstream, Preset::Rabbitmq];

    pub const fn name(self) -> &'static str {
        match self {
            Preset::Ojs => "ojs",
            Preset::Outbox => "outbox",
            Preset::ExternalApi => "external_api",
            Preset::Jetstream => "jetstream",
            Preset::Rabbitmq => "rabbitmq",
        }
    }

    pub fn parse(text: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == text)
    }

    /// The policy of errors that may pass by themselves.
    pub const fn policy(self) -> RetryPolicy {
        // What the outbox rules and the stream have in common; the others say where they differ.
        let base = RetryPolicy {
            attempts: 5,
            first_ms: 1_000,
            factor: 2.0,
            growth: Growth::Exponential,
            cap_ms: 30_000,
            floor_ms: limits::RETRY_DELAY_MS_MIN,
            jitter: Jitter::Up { ratio: 0.1 },
        };
        match self {
            Preset::Ojs => RetryPolicy {
                attempts: 3,
                cap_ms: 300_000,
                jitter: Jitter::Factor { low: 0.5, high: 1.5 },
                ..base
            },
            Preset::Outbox | Preset::Jetstream => base,
            Preset::ExternalApi => RetryPolicy { cap_ms: 300_000, ..base },
            // Three retries after the first delivery.
            Preset::Rabbitmq => {
                RetryPolicy { attempts: 4, first_ms: 2_000, jitter: Jitter::Around { ratio: 0.2 }, ..base }
            }
        }
    }

    /// How many attempts an error of this class gets at most; `None` where it gets as many as the policy has.
    ///
    /// The outbox rules (RULE-040-002) try validation and business failures three times, everything of the
    /// infrastructure as often as transient failures. Nobody retries what cannot even be read.
    pub const fn class_attempts(self, class: ErrorClass) -> Option<u32> {
        match (self, class) {
            // The job's own policy and its handler say what is not to be retried.
            (Preset::Ojs, _) => None,
            (
                Preset::Outbox,
                ErrorClass::Validation
                | ErrorClass::Authorization
                | ErrorClass::NotFound
                | ErrorClass::Business,
            ) => Some(3),
            (Preset::Outbox, ErrorClass::Malformed) => Some(1),
            (Preset::Outbox, ErrorClass::Transient | ErrorClass::Configuration | ErrorClass::Unknown) => None,
            (Preset::ExternalApi | Preset::Jetstream | Preset::Rabbitmq, _) => match class.retryable() {
                Retryable::Yes => None,
                Retryable::No | Retryable::PresetDecides => Some(1),
            },
        }
    }

    /// The policies of all classes.
    pub fn policies(self) -> RetryPolicies {
        RetryPolicies::new(self, self.policy())
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
