//! One retry policy for each class of error, and what a message's own limit changes.

use super::{Preset, RetryPolicy, Verdict};
use crate::class::ErrorClass;
use crate::limits;

/// A retry policy for each class of error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetryPolicies {
    base: RetryPolicy,
    /// In the order of `ErrorClass::ALL`.
    by_class: [RetryPolicy; ErrorClass::ALL.len()],
    /// Whether the class has a number of attempts of its own, in the same order.
    limited: [bool; ErrorClass::ALL.len()],
}

impl RetryPolicies {
    /// Gives every class the policy `base`, with fewer attempts where the preset limits them.
    pub fn new(preset: Preset, base: RetryPolicy) -> RetryPolicies {
        let by_class = ErrorClass::ALL.map(|class| {
            let attempts = preset.class_attempts(class).map_or(base.attempts, |most| most.min(base.attempts));
            RetryPolicy { attempts, ..base }
        });
        let limited = ErrorClass::ALL.map(|class| preset.class_attempts(class).is_some());
        RetryPolicies { base, by_class, limited }
    }

    /// Replaces the policy of one class.
    pub fn set(&mut self, class: ErrorClass, policy: RetryPolicy) {
        self.by_class[class as usize] = policy;
        self.limited[class as usize] |= policy.attempts != self.base.attempts;
    }

    /// The policy that classes without a limit of their own have.
    pub const fn base(&self) -> &RetryPolicy {
        &self.base
    }

    pub const fn of(&self, class: ErrorClass) -> &RetryPolicy {
        &self.by_class[class as usize]
    }

    /// What to do with a message that has failed `failed_attempts` times, this one included, and whose own limit is
    /// `max_attempts`. `unit` is a random number from 0 to 1.
    ///
    /// The message's own limit beats the policy's, upwards too. Where a class has a number of attempts of its own, the
    /// message's limit can only lower it: who wrote it did not know what the message would die of.
    pub fn decide(
        &self,
        class: ErrorClass,
        max_attempts: Option<u32>,
        failed_attempts: u32,
        unit: f64,
    ) -> Verdict {
        let policy = *self.of(class);
        let own = max_attempts.map(|own| own.clamp(1, limits::ATTEMPTS_MAX as u32));
        let attempts = match own {
            Some(own) if self.limited[class as usize] => own.min(policy.attempts),
            Some(own) => own,
            None => policy.attempts,
        };
        RetryPolicy { attempts, ..policy }.decide(failed_attempts, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many attempts a message gets.
    fn attempts(policies: &RetryPolicies, class: ErrorClass, own: Option<u32>) -> u32 {
        let given_up = |failed: &u32| policies.decide(class, own, *failed, 0.5) == Verdict::DeadLetter;
        (1..).find(given_up).expect("every policy gives up")
    }

    #[test]
    fn rule_040_002_each_class_gets_the_attempts_of_its_scenario() {
        let table = ErrorClass::ALL.map(|class| {
            let of = |preset: Preset| attempts(&preset.policies(), class, None);
            format!("{class} {} {} {}", of(Preset::Outbox), of(Preset::ExternalApi), of(Preset::Ojs))
        });
        assert_eq!(
            table,
            [
                "transient 5 5 3",
                "configuration 5 1 3",
                "validation 3 1 3",
                "malformed 1 1 3",
                "authorization 3 1 3",
                "not_found 3 1 3",
                "business 3 1 3",
                "unknown 5 5 3",
            ]
        );
    }

    #[test]
    fn a_messages_own_limit_beats_the_policy_and_does_not_raise_a_classs_own() {
        let policies = Preset::Outbox.policies();
        for (class, own, expected) in [
            (ErrorClass::Transient, 9, 9),
            (ErrorClass::Transient, 2, 2),
            (ErrorClass::Transient, 0, 1),
            (ErrorClass::Transient, u32::MAX, limits::ATTEMPTS_MAX as u32),
            (ErrorClass::Unknown, 9, 9),
            (ErrorClass::Validation, 9, 3),
            (ErrorClass::Validation, 2, 2),
            (ErrorClass::Malformed, 9, 1),
        ] {
            assert_eq!(attempts(&policies, class, Some(own)), expected, "{class} {own}");
        }
        // However few attempts the others get.
        let few = RetryPolicies::new(Preset::Outbox, RetryPolicy { attempts: 2, ..*policies.base() });
        assert_eq!(attempts(&few, ErrorClass::Validation, Some(9)), 2);
        assert_eq!(attempts(&few, ErrorClass::Transient, Some(9)), 9);
    }

    #[test]
    fn a_class_with_a_policy_of_its_own_follows_it() {
        let mut policies = Preset::Outbox.policies();
        let slow = RetryPolicy { attempts: 2, first_ms: 60_000, cap_ms: 120_000, ..*policies.base() };
        policies.set(ErrorClass::Business, slow);
        assert_eq!(attempts(&policies, ErrorClass::Business, None), 2);
        let verdict = policies.decide(ErrorClass::Business, None, 1, 0.0);
        assert_eq!(verdict, Verdict::RetryAfter { delay_ms: 60_000 });
        assert_eq!(attempts(&policies, ErrorClass::Transient, None), 5);
        policies.set(ErrorClass::Transient, RetryPolicy { attempts: 8, ..slow });
        assert_eq!(attempts(&policies, ErrorClass::Transient, Some(9)), 8);
    }
}
