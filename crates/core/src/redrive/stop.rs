//! When a run stops by itself: too many of its last letters failed or relapsed.

use crate::limits;

/// More than `percent` of the last `of` outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StopRule {
    pub percent: u32,
    pub of: u32,
}

impl Default for StopRule {
    fn default() -> StopRule {
        StopRule { percent: limits::STOP_PERCENT, of: limits::STOP_OUTCOMES }
    }
}

impl StopRule {
    /// How a good and a bad outcome are noted among the last ones.
    pub const GOOD: char = '+';
    pub const BAD: char = '-';

    pub const fn mark(good: bool) -> char {
        if good { StopRule::GOOD } else { StopRule::BAD }
    }

    /// Whether the last outcomes, newest last, are too bad to go on.
    pub fn stops(self, recent: &str) -> bool {
        let last = recent.chars().rev().take(self.of as usize);
        let (mut all, mut bad) = (0_u64, 0_u64);
        for mark in last {
            all += 1;
            bad += u64::from(mark == StopRule::BAD);
        }
        bad * 100 > u64::from(self.percent) * all.max(u64::from(limits::STOP_OUTCOMES_MIN.min(self.of)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_last_fifty_is_the_bound() {
        let rule = StopRule::default();
        assert!(!rule.stops(""));
        assert!(!rule.stops("--"));
        assert!(rule.stops("---"));
        assert!(!rule.stops(&("-".repeat(10) + &"+".repeat(40))));
        assert!(rule.stops(&("-".repeat(11) + &"+".repeat(39))));
        // What lies further back is forgotten.
        assert!(!rule.stops(&("-".repeat(40) + &"+".repeat(50))));
        assert!(!StopRule { percent: 100, of: 50 }.stops(&"-".repeat(50)));
        assert!(StopRule { percent: 0, of: 50 }.stops("-"));
    }
}
