//! Pace: how many letters a minute, as a bucket that all instances draw from.
//!
//! The bucket is one number: up to when its tokens are spent. Whoever takes some moves it on; nothing fills it but time.

use std::num::NonZeroU32;

use crate::limits;
use crate::time::Time;

/// How fast letters are put back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pace {
    PerMinute(NonZeroU32),
    Unlimited,
}

/// What a bucket gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    pub letters: u32,
    /// Up to when the tokens are spent now, in microseconds; to be kept.
    pub spent_until_us: i64,
    /// When the next one can be had, if none could now.
    pub next_at: Option<Time>,
}

impl Pace {
    pub const DEFAULT: Pace =
        Pace::PerMinute(NonZeroU32::new(limits::PACE_PER_MINUTE).expect("it is not zero"));
    pub const CRITICAL: Pace =
        Pace::PerMinute(NonZeroU32::new(limits::PACE_PER_MINUTE_CRITICAL).expect("it is not zero"));

    /// Letters a minute, or nothing where there is no limit.
    pub fn per_minute(self) -> Option<u32> {
        match self {
            Pace::PerMinute(rate) => Some(rate.get()),
            Pace::Unlimited => None,
        }
    }

    pub fn from_per_minute(rate: Option<u32>) -> Option<Pace> {
        match rate {
            None => Some(Pace::Unlimited),
            Some(rate) if rate > limits::PACE_PER_MINUTE_MAX => None,
            Some(rate) => NonZeroU32::new(rate).map(Pace::PerMinute),
        }
    }

    /// Takes up to `wanted` letters from a bucket whose tokens are spent up to then; nothing was spent yet if that is
    /// not given.
    pub fn take(self, spent_until_us: Option<i64>, now: Time, wanted: u32) -> Granted {
        let now_us = now.ms().saturating_mul(1_000);
        let Pace::PerMinute(rate) = self else {
            return Granted { letters: wanted, spent_until_us: now_us, next_at: None };
        };
        let step_us = self.step_us(rate);
        // A pace slower than one in the time that may be saved up still gives one.
        let saved_us = (limits::PACE_SAVED_MS_MAX * 1_000).max(step_us);
        let start_us = match spent_until_us {
            None => now_us - step_us,
            // Nothing is spent that far ahead of time: the clock was set back, and the bucket begins anew.
            Some(spent_us) if spent_us > now_us + limits::PACE_SAVED_MS_MAX * 1_000 => now_us - step_us,
            Some(spent_us) => spent_us.max(now_us - saved_us),
        };
        let there = (now_us - start_us).max(0) / step_us;
        let letters = u32::try_from(there).unwrap_or(u32::MAX).min(wanted);
        let spent_until_us = start_us + i64::from(letters) * step_us;
        let next_us = spent_until_us + step_us;
        let next_at = (letters == 0)
            .then(|| Time::from_ms(next_us.div_euclid(1_000) + i64::from(next_us % 1_000 != 0)));
        Granted { letters, spent_until_us, next_at }
    }

    const fn step_us(self, rate: NonZeroU32) -> i64 {
        60_000_000 / rate.get() as i64
    }

    /// How long so many letters take at this pace.
    pub fn duration_ms(self, letters: u64) -> u64 {
        match self {
            Pace::Unlimited => 0,
            Pace::PerMinute(rate) => letters.saturating_sub(1).saturating_mul(60_000) / u64::from(rate.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: u32) -> Pace {
        Pace::from_per_minute(Some(rate)).unwrap()
    }

    #[test]
    fn three_thousand_a_minute_is_three_thousand_a_minute() {
        for every_ms in [7, 100, 333, 900] {
            let (mut spent, mut sent) = (None, 0);
            for ms in (0..=60_000).step_by(every_ms) {
                let granted = pace(3_000).take(spent, Time::from_ms(1_000_000 + ms), 1_000);
                spent = Some(granted.spent_until_us);
                sent += granted.letters;
            }
            assert!((2_850..=3_150).contains(&sent), "{sent} at every {every_ms} ms");
        }
    }

    #[test]
    fn a_pause_saves_up_a_second_and_no_more() {
        let first = pace(600).take(None, Time::from_ms(0), 100);
        assert_eq!(first.letters, 1);
        let later = pace(600).take(Some(first.spent_until_us), Time::from_ms(3_600_000), 100);
        assert_eq!(later.letters, 10);
    }

    #[test]
    fn a_slow_pace_gives_one_at_a_time_and_says_when() {
        let one = pace(1).take(None, Time::from_ms(0), 5);
        assert_eq!((one.letters, one.next_at), (1, None));
        let none = pace(1).take(Some(one.spent_until_us), Time::from_ms(59_999), 5);
        assert_eq!((none.letters, none.next_at), (0, Some(Time::from_ms(60_000))));
        let next = pace(1).take(Some(none.spent_until_us), Time::from_ms(60_000), 5);
        assert_eq!(next.letters, 1);
    }

    #[test]
    fn a_clock_that_was_set_back_stalls_nothing() {
        let before = pace(60).take(None, Time::from_ms(600_000), 1);
        let after = pace(60).take(Some(before.spent_until_us), Time::from_ms(0), 10);
        assert_eq!((after.letters, after.next_at), (1, None));
        let next = pace(60).take(Some(after.spent_until_us), Time::from_ms(999), 10);
        assert_eq!((next.letters, next.next_at), (0, Some(Time::from_ms(1_000))));
        // Clocks of instances that differ a little share one bucket: the one behind waits.
        let behind = pace(60).take(Some(before.spent_until_us), Time::from_ms(599_990), 10);
        assert_eq!((behind.letters, behind.next_at), (0, Some(Time::from_ms(601_000))));
    }

    #[test]
    fn no_limit_gives_what_is_wanted() {
        assert_eq!(Pace::Unlimited.take(Some(i64::MAX / 2), Time::from_ms(0), 77).letters, 77);
        assert_eq!(Pace::Unlimited.duration_ms(1_000_000), 0);
        assert_eq!(Pace::DEFAULT.duration_ms(101), 60_000);
        assert_eq!(Pace::from_per_minute(Some(0)), None);
        assert_eq!(Pace::from_per_minute(Some(u32::MAX)), None);
    }
}
