//! How long to wait before a lost connection is made again: longer each time, and never for all at once.

use std::time::Duration;

use lazaret_core::limits;
use lazaret_core::retry::{Growth, Jitter, RetryPolicy};

/// Counts failures in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

const POLICY: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    first_ms: limits::POSTGRES_RETRY_MS,
    factor: 2.0,
    growth: Growth::Exponential,
    cap_ms: limits::SOURCE_RETRY_MS_MAX,
    floor_ms: limits::RETRY_DELAY_MS_MIN,
    jitter: Jitter::Around { ratio: 0.2 },
};

impl Backoff {
    /// It failed again: how long to wait now.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(POLICY.delay_ms(self.failures, unit()))
    }

    /// It worked.
    pub fn worked(&mut self) {
        self.failures = 0;
    }
}

/// A random number from 0 to 1. Without randomness all wait equally long, which is worse and not wrong.
pub(crate) fn unit() -> f64 {
    getrandom::u64().map_or(0.5, |bits| (bits >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_the_limit() {
        let mut backoff = Backoff::default();
        for expected in [500, 1_000, 2_000, 4_000] {
            let waited = backoff.failed().as_millis() as u64;
            assert!((expected * 8 / 10..=expected * 12 / 10).contains(&waited), "{expected}: {waited}");
        }
        for _ in 0..100 {
            assert!(backoff.failed().as_millis() as u64 <= limits::SOURCE_RETRY_MS_MAX);
        }
        backoff.worked();
        assert!(backoff.failed().as_millis() <= 600);
    }

    #[test]
    fn random_numbers_lie_between_0_and_1() {
        let units: Vec<f64> = (0..1_000).map(|_| unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        assert!(units.iter().any(|unit| *unit < 0.3) && units.iter().any(|unit| *unit > 0.7));
    }
}
