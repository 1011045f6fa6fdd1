//! When a failed message is tried again, and when it is given up.
//!
//! Nothing here draws randomness: the caller brings a random number, so that every delay can be told beforehand in a
//! test. A delay is never below the floor and never above the cap, whatever policy and number come in.

mod by_class;
mod preset;

use crate::limits;
pub use by_class::RetryPolicies;
pub use preset::Preset;

/// How often and how late a failed message is tried again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetryPolicy {
    /// Runs in all, the first one included.
    pub attempts: u32,
    /// The delay after the first failed attempt.
    pub first_ms: u64,
    /// What the delay is multiplied with (exponential), or the power of the attempt's number (polynomial).
    pub factor: f64,
    pub growth: Growth,
    pub cap_ms: u64,
    pub floor_ms: u64,
    pub jitter: Jitter,
}

/// How delays grow with the number of the failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Growth {
    /// `first`
    Constant,
    /// `first × n`
    Linear,
    /// `first × factor^(n−1)`
    Exponential,
    /// `first × n^factor`
    Polynomial,
}

/// How a delay is spread, so that messages that failed together do not come back together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    None,
    /// Multiplied with a number from `low` to `high`, then capped (OJS).
    Factor {
        low: f64,
        high: f64,
    },
    /// Longer by up to this ratio.
    Up {
        ratio: f64,
    },
    /// Longer or shorter by up to this ratio.
    Around {
        ratio: f64,
    },
}

/// What to do with a message that has just failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    RetryAfter {
        delay_ms: u64,
    },
    /// All attempts are used up.
    DeadLetter,
}

/// A policy that cannot be followed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BadPolicy {
    #[error("attempts must be from 1 to {max}, not {0}", max = limits::ATTEMPTS_MAX)]
    Attempts(u32),
    #[error("factor must be a number of at least 1, not {0}")]
    Factor(f64),
    #[error("floor must be at least {min} ms, not {0} ms", min = limits::RETRY_DELAY_MS_MIN)]
    Floor(u64),
    #[error("cap must be at least the floor of {floor_ms} ms and at most a year, not {cap_ms} ms")]
    Cap { cap_ms: u64, floor_ms: u64 },
    #[error("first delay must be at least 1 ms and at most the cap of {cap_ms} ms, not {first_ms} ms")]
    First { first_ms: u64, cap_ms: u64 },
    #[error("jitter ratio must be from 0 to 1, not {0}")]
    JitterRatio(f64),
    #[error("jitter factor must go from at least 0 up to at most 10, not from {low} to {high}")]
    JitterFactor { low: f64, high: f64 },
}

impl RetryPolicy {
    /// Says what is wrong with a policy that was made by hand.
    pub fn check(&self) -> Result<(), BadPolicy> {
        if self.attempts == 0 || self.attempts as usize > limits::ATTEMPTS_MAX {
            return Err(BadPolicy::Attempts(self.attempts));
        }
        if !self.factor.is_finite() || self.factor < 1.0 {
            return Err(BadPolicy::Factor(self.factor));
        }
        if self.floor_ms < limits::RETRY_DELAY_MS_MIN {
            return Err(BadPolicy::Floor(self.floor_ms));
        }
        if self.cap_ms < self.floor_ms || self.cap_ms > limits::RETRY_DELAY_MS_MAX {
            return Err(BadPolicy::Cap { cap_ms: self.cap_ms, floor_ms: self.floor_ms });
        }
        if self.first_ms == 0 || self.first_ms > self.cap_ms {
            return Err(BadPolicy::First { first_ms: self.first_ms, cap_ms: self.cap_ms });
        }
        match self.jitter {
            Jitter::None => Ok(()),
            Jitter::Factor { low, high } if 0.0 <= low && low <= high && high <= 10.0 => Ok(()),
            Jitter::Factor { low, high } => Err(BadPolicy::JitterFactor { low, high }),
            Jitter::Up { ratio } | Jitter::Around { ratio } if (0.0..=1.0).contains(&ratio) => Ok(()),
            Jitter::Up { ratio } | Jitter::Around { ratio } => Err(BadPolicy::JitterRatio(ratio)),
        }
    }

    /// What to do when `failed_attempts` runs have failed by now, this one included. `unit` is a random number from 0
    /// to 1.
    pub fn decide(&self, failed_attempts: u32, unit: f64) -> Verdict {
        if failed_attempts >= self.attempts {
            return Verdict::DeadLetter;
        }
        Verdict::RetryAfter { delay_ms: self.delay_ms(failed_attempts, unit) }
    }

    /// The delay after failed attempt `n`, counted from 1. `unit` is a random number from 0 to 1; anything else is
    /// taken as the nearest of the two, and not-a-number as 0.
    ///
    /// A spread that would pass the cap is moved below it at its full width and hangs from the cap: a herd that waits
    /// at the cap or near it comes back as spread out as any other. `Jitter::Factor` is cut off instead, as OJS says.
    pub fn delay_ms(&self, n: u32, unit: f64) -> u64 {
        let unit = if unit.is_nan() { 0.0 } else { unit.clamp(0.0, 1.0) };
        let plain = self.plain_ms(n);
        let (floor, cap) = self.bounds_ms();
        let (low, high) = match self.jitter {
            Jitter::None => (plain, plain),
            Jitter::Factor { low, high } => {
                return within(plain * (low + (high - low) * unit), floor, cap);
            }
            Jitter::Up { ratio } => (plain, plain * (1.0 + ratio)),
            Jitter::Around { ratio } => (plain * (1.0 - ratio), plain * (1.0 + ratio)),
        };
        let width = high - low;
        if high > cap as f64 {
            within(cap as f64 - width * unit, floor, cap)
        } else {
            // The floor bends the spread upwards in the same way.
            within(low.max(floor as f64) + width * unit, floor, cap)
        }
    }

    /// The longest time that the policy's retries can take, runs not counted. Used for quiet windows.
    pub fn total_ms_max(&self) -> u64 {
        let retries = self.attempts.saturating_sub(1);
        let counted = retries.min(limits::ATTEMPTS_MAX as u32);
        let mut total = 0_u64;
        for n in 1..=counted {
            total = total.saturating_add(self.delay_ms(n, 0.0).max(self.delay_ms(n, 1.0)));
        }
        // An unchecked policy may ask for more attempts than anybody counts: they wait at most the cap.
        total.saturating_add(u64::from(retries - counted).saturating_mul(self.bounds_ms().1))
    }

    /// The delay without jitter, within floor and cap.
    fn plain_ms(&self, n: u32) -> f64 {
        let n = n.max(1);
        let first = self.first_ms as f64;
        let grown = match self.growth {
            Growth::Constant => first,
            Growth::Linear => first * f64::from(n),
            Growth::Exponential => first * self.factor.powf(f64::from(n - 1)),
            Growth::Polynomial => first * f64::from(n).powf(self.factor),
        };
        let (floor, cap) = self.bounds_ms();
        // Infinity is the cap's; `min` and `max` also take the number when the other side is none.
        grown.min(cap as f64).max(floor as f64)
    }

    /// Floor and cap that can be kept together: an unchecked cap below the floor gives way, because an immediate
    /// retry is worse than a late one.
    fn bounds_ms(&self) -> (u64, u64) {
        let floor = self.floor_ms.clamp(limits::RETRY_DELAY_MS_MIN, limits::RETRY_DELAY_MS_MAX);
        (floor, self.cap_ms.clamp(floor, limits::RETRY_DELAY_MS_MAX))
    }
}

/// A whole number of milliseconds from `floor` to `cap`; not-a-number becomes the floor.
fn within(ms: f64, floor: u64, cap: u64) -> u64 {
    (ms.round() as u64).clamp(floor, cap)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    /// The shortest and longest delay after each failed attempt, until the message is given up.
    fn waits(policy: &RetryPolicy) -> Vec<(u64, u64)> {
        let mut waits = Vec::new();
        for failed in 1.. {
            let bounds = [0.0, 1.0].map(|unit| policy.decide(failed, unit));
            match bounds {
                [Verdict::RetryAfter { delay_ms: a }, Verdict::RetryAfter { delay_ms: b }] => {
                    waits.push((a.min(b), a.max(b)));
                }
                [Verdict::DeadLetter, Verdict::DeadLetter] => break,
                other => panic!("{other:?}"),
            }
        }
        waits
    }

    #[test]
    fn the_presets_wait_as_the_table_says() {
        let doubling_up_a_tenth = vec![(1_000, 1_100), (2_000, 2_200), (4_000, 4_400), (8_000, 8_800)];
        let rows = [
            (Preset::Ojs, "ojs", vec![(500, 1_500), (1_000, 3_000)]),
            (Preset::Outbox, "outbox", doubling_up_a_tenth.clone()),
            (Preset::ExternalApi, "external_api", doubling_up_a_tenth.clone()),
            (Preset::Jetstream, "jetstream", doubling_up_a_tenth),
            (Preset::Rabbitmq, "rabbitmq", vec![(1_600, 2_400), (3_200, 4_800), (6_400, 9_600)]),
        ];
        assert_eq!(rows.each_ref().map(|row| row.0), Preset::ALL);
        for (preset, name, expected) in rows {
            let policy = preset.policy();
            assert_eq!(policy.check(), Ok(()), "{name}");
            assert_eq!(Preset::parse(name), Some(preset));
            assert_eq!(waits(&policy), expected, "{name}");
            let longest: u64 = expected.iter().map(|wait| wait.1).sum();
            assert_eq!(policy.total_ms_max(), longest, "{name}");
        }
    }

    #[test]
    fn the_presets_stop_growing_at_their_cap() {
        let rows = [
            (Preset::Ojs, 10, (150_000, 300_000)),
            (Preset::Outbox, 6, (27_000, 30_000)),
            (Preset::ExternalApi, 10, (270_000, 300_000)),
            (Preset::Jetstream, 6, (27_000, 30_000)),
            (Preset::Rabbitmq, 5, (18_000, 30_000)),
        ];
        for (preset, n, (low, high)) in rows {
            let policy = preset.policy();
            for n in [n, n + 1, u32::MAX] {
                let (at_0, at_1) = (policy.delay_ms(n, 0.0), policy.delay_ms(n, 1.0));
                assert_eq!((at_0.min(at_1), at_0.max(at_1)), (low, high), "{preset} {n}");
            }
        }
    }

    #[test]
    fn growth_without_jitter_is_exact() {
        let policy = RetryPolicy { jitter: Jitter::None, ..Preset::Ojs.policy() };
        let rows = [
            (Growth::Constant, 2.0, [1_000, 1_000, 1_000, 1_000]),
            (Growth::Linear, 2.0, [1_000, 2_000, 3_000, 4_000]),
            (Growth::Exponential, 2.0, [1_000, 2_000, 4_000, 8_000]),
            (Growth::Exponential, 10.0, [1_000, 10_000, 100_000, 300_000]),
            (Growth::Polynomial, 4.0, [1_000, 16_000, 81_000, 256_000]),
        ];
        for (growth, factor, expected) in rows {
            let policy = RetryPolicy { growth, factor, ..policy };
            assert_eq!([1, 2, 3, 4].map(|n| policy.delay_ms(n, 0.7)), expected, "{growth:?}");
        }
    }

    #[test]
    fn a_delay_just_below_the_cap_keeps_its_spread_and_stays_below() {
        let policy = RetryPolicy { cap_ms: 8_200, ..Preset::Outbox.policy() };
        // 8 s and a tenth would be 8.0 to 8.8 s; the same 800 ms now end at the cap.
        assert_eq!((policy.delay_ms(4, 1.0), policy.delay_ms(4, 0.0)), (7_400, 8_200));
    }

    #[test]
    fn a_random_number_out_of_range_is_taken_as_the_nearest() {
        let policy = Preset::Rabbitmq.policy();
        for (unit, expected) in [
            (f64::NAN, 1_600),
            (-1.0, 1_600),
            (f64::NEG_INFINITY, 1_600),
            (7.0, 2_400),
            (f64::INFINITY, 2_400),
        ] {
            assert_eq!(policy.delay_ms(1, unit), expected, "{unit}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_followed_is_named() {
        let good = Preset::Outbox.policy();
        let bad = [
            RetryPolicy { attempts: 0, ..good },
            RetryPolicy { attempts: 1_001, ..good },
            RetryPolicy { factor: 0.9, ..good },
            RetryPolicy { factor: f64::NAN, ..good },
            RetryPolicy { factor: f64::INFINITY, ..good },
            RetryPolicy { floor_ms: 99, ..good },
            RetryPolicy { floor_ms: 30_001, ..good },
            RetryPolicy { cap_ms: limits::RETRY_DELAY_MS_MAX + 1, ..good },
            RetryPolicy { first_ms: 0, ..good },
            RetryPolicy { first_ms: 30_001, ..good },
            RetryPolicy { jitter: Jitter::Up { ratio: -0.1 }, ..good },
            RetryPolicy { jitter: Jitter::Around { ratio: 1.1 }, ..good },
            RetryPolicy { jitter: Jitter::Around { ratio: f64::NAN }, ..good },
            RetryPolicy { jitter: Jitter::Factor { low: 1.5, high: 0.5 }, ..good },
            RetryPolicy { jitter: Jitter::Factor { low: 0.5, high: f64::INFINITY }, ..good },
        ];
        for policy in bad {
            assert!(policy.check().is_err(), "{policy:?}");
        }
        let message = RetryPolicy { floor_ms: 99, ..good }.check().unwrap_err().to_string();
        assert_eq!(message, "floor must be at least 100 ms, not 99 ms");
    }

    fn growths() -> impl Strategy<Value = Growth> {
        prop_oneof![
            Just(Growth::Constant),
            Just(Growth::Linear),
            Just(Growth::Exponential),
            Just(Growth::Polynomial),
        ]
    }

    fn jitters() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::None),
            (0.0..1.0, 1.0..10.0).prop_map(|(low, high)| Jitter::Factor { low, high }),
            (0.0..1.0).prop_map(|ratio| Jitter::Up { ratio }),
            (0.0..1.0).prop_map(|ratio| Jitter::Around { ratio }),
        ]
    }

    /// Policies that pass the check.
    fn policies() -> impl Strategy<Value = RetryPolicy> {
        let numbers = (1_u32..=1_000, 1.0..1_000.0, 0_u64..1 << 30, 0_u64..1 << 30, 0.0..1.0);
        (numbers, growths(), jitters()).prop_map(|((attempts, factor, floor, span, part), growth, jitter)| {
            let floor_ms = limits::RETRY_DELAY_MS_MIN + floor;
            let cap_ms = floor_ms + span;
            RetryPolicy {
                attempts,
                first_ms: ((cap_ms as f64 * part) as u64).max(1),
                factor,
                growth,
                cap_ms,
                floor_ms,
                jitter,
            }
        })
    }

    proptest! {
        #[test]
        fn a_delay_stays_between_floor_and_cap(policy in policies(), n in any::<u32>(), unit in any::<f64>()) {
            prop_assert_eq!(policy.check(), Ok(()));
            let delay_ms = policy.delay_ms(n, unit);
            prop_assert!(delay_ms >= policy.floor_ms && delay_ms >= 100 && delay_ms <= policy.cap_ms);
            let waited_ms = if policy.attempts > 1 { policy.delay_ms(1, unit) } else { 0 };
            prop_assert!(policy.total_ms_max() >= waited_ms);
        }

        #[test]
        fn delays_never_shrink_without_jitter(policy in policies(), n in 1_u32..u32::MAX) {
            let policy = RetryPolicy { jitter: Jitter::None, ..policy };
            prop_assert!(policy.delay_ms(n, 0.5) <= policy.delay_ms(n + 1, 0.5));
        }

        #[test]
        fn a_herd_at_the_cap_still_spreads(cap_ms in 10_000_u64..1 << 34, ratio in 0.01..0.45, share in 0.9..1.1) {
            // The plain delay is at, just below or above the cap; the spread is as wide as anywhere else.
            for (jitter, width) in
                [(Jitter::Up { ratio }, ratio), (Jitter::Around { ratio }, 2.0 * ratio)]
            {
                let first_ms = (cap_ms as f64 * share) as u64;
                let policy = RetryPolicy { first_ms, cap_ms, jitter, ..Preset::Outbox.policy() };
                let mut delays: Vec<u64> = (0..=100).map(|i| policy.delay_ms(1, f64::from(i) / 100.0)).collect();
                delays.sort_unstable();
                delays.dedup();
                prop_assert_eq!(delays.len(), 101);
                let spread = (delays[100] - delays[0]) as f64;
                prop_assert!(spread + 2.0 >= width * first_ms.min(cap_ms) as f64);
                prop_assert!(delays[100] <= cap_ms);
            }
        }

        #[test]
        fn nothing_overflows(
            attempts in any::<u32>(), first_ms in any::<u64>(), factor in any::<f64>(), growth in growths(),
            cap_ms in any::<u64>(), floor_ms in any::<u64>(), low in any::<f64>(), high in any::<f64>(),
            n in any::<u32>(), unit in any::<f64>(),
        ) {
            for jitter in [Jitter::Factor { low, high }, Jitter::Up { ratio: low }, Jitter::Around { ratio: high }] {
                let policy = RetryPolicy { attempts, first_ms, factor, growth, cap_ms, floor_ms, jitter };
                let delay_ms = policy.delay_ms(n, unit);
                prop_assert!((limits::RETRY_DELAY_MS_MIN..=limits::RETRY_DELAY_MS_MAX).contains(&delay_ms));
                policy.total_ms_max();
                policy.decide(n, unit);
            }
        }
    }
}
