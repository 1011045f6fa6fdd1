//! The policies that the requirement documents ask for, by name.

use std::fmt;

use super::{Growth, Jitter, Permanent, RetryPolicy};
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
            business_attempts: None,
            permanent: Permanent::StraightToDeadLetter,
        };
        match self {
            Preset::Ojs => RetryPolicy {
                attempts: 3,
                cap_ms: 300_000,
                jitter: Jitter::Factor { low: 0.5, high: 1.5 },
                permanent: Permanent::ByJobPolicy,
                ..base
            },
            Preset::Outbox => RetryPolicy { business_attempts: Some(3), ..base },
            Preset::ExternalApi => RetryPolicy { cap_ms: 300_000, ..base },
            Preset::Jetstream => base,
            // Three retries after the first delivery.
            Preset::Rabbitmq => {
                RetryPolicy { attempts: 4, first_ms: 2_000, jitter: Jitter::Around { ratio: 0.2 }, ..base }
            }
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
