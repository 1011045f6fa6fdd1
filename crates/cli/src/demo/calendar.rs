//! When things happen: fourteen days that end at a given moment, busy by day, calm by night and at week-ends.
//!
//! Never reads a clock.

use lazaret_core::time::Time;

use super::dice::Dice;

pub(super) const SECOND: i64 = 1_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// How long the history is.
pub(super) const HISTORY: i64 = 14 * DAY;

/// How busy the shop is at each hour of the day in UTC, in percent: a lunch peak, an evening peak, a quiet night.
const BUSY_BY_HOUR: [u64; 24] = [
    14, 9, 6, 5, 6, 12, 24, 40, 55, 66, 74, 84, 92, 80, 70, 66, 70, 80, 94, 100, 96, 78, 52, 28, //
];

/// What is left of a working day's business on Saturdays and Sundays, in percent.
const WEEKEND: u64 = 60;

/// The days of the demo, counted back from their end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    until: Time,
}

impl Calendar {
    pub(super) fn new(until: Time) -> Calendar {
        Calendar { until }
    }

    /// The moment that lies `ms` before the end.
    pub(super) fn ago(self, ms: i64) -> Time {
        self.until.plus_ms(-ms)
    }

    /// The beginning of the day that was so long before the end.
    pub(super) fn day_of(self, ago: i64) -> Time {
        let at = self.ago(ago);
        at.plus_ms(-at.ms().rem_euclid(DAY))
    }

    /// How long before the end a moment lies; negative in the live part.
    pub(super) fn age(self, at: Time) -> i64 {
        self.until.since(at)
    }

    pub(super) fn history(self) -> Window {
        // A minute of distance keeps every death inside, whatever is added to it.
        Window { from: self.ago(HISTORY - MINUTE), length: HISTORY - 2 * MINUTE }
    }

    /// From so long before the end, for so long.
    pub(super) fn window(self, ago: i64, length: i64) -> Window {
        Window { from: self.ago(ago), length }
    }

    /// From so long before the end up to it.
    pub(super) fn last(self, ago: i64) -> Window {
        self.window(ago, ago - MINUTE)
    }
}

/// A stretch of time in which something goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Time,
    pub(super) length: i64,
}

impl Window {
    pub(super) fn end(self) -> Time {
        self.from.plus_ms(self.length)
    }

    /// Any moment, all alike.
    pub(super) fn moment(self, dice: &mut Dice) -> Time {
        self.from.plus_ms(dice.between(0, self.length))
    }

    /// A moment when the shop is busy rather than one when it sleeps.
    pub(super) fn busy_moment(self, dice: &mut Dice) -> Time {
        let mut at = self.moment(dice);
        // A window may lie wholly in the night: after some throws any moment will do.
        for _ in 0..40 {
            if dice.chance(busy_percent(at)) {
                break;
            }
            at = self.moment(dice);
        }
        at
    }

    /// A moment towards the end: density grows with the square of the time gone by.
    pub(super) fn late_moment(self, dice: &mut Dice) -> Time {
        self.moment(dice).max(self.moment(dice)).max(self.moment(dice))
    }
}

/// How busy the shop is, in percent of its busiest hour.
pub(super) fn busy_percent(at: Time) -> u64 {
    let hour = at.ms().div_euclid(HOUR).rem_euclid(24) as usize;
    // The first of January 1970 was a Thursday.
    let weekday = (at.ms().div_euclid(DAY) + 3).rem_euclid(7);
    let percent = BUSY_BY_HOUR[hour];
    if weekday >= 5 { percent * WEEKEND / 100 } else { percent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shop_is_busy_by_day_and_less_so_at_weekends() {
        let at = |text: &str| busy_percent(Time::parse(text).unwrap());
        // 13 November 2026 is a Friday.
        assert!(at("2026-11-13T19:30:00Z") > 5 * at("2026-11-13T03:30:00Z"));
        assert!(at("2026-11-14T19:30:00Z") < at("2026-11-13T19:30:00Z"));
        assert_eq!(at("2026-11-14T19:30:00Z"), at("2026-11-15T19:30:00Z"));
        assert_eq!(at("2026-11-16T19:30:00Z"), at("2026-11-13T19:30:00Z"));
    }

    #[test]
    fn moments_stay_inside_of_their_window() {
        let window = Calendar::new(Time::from_ms(100 * DAY)).window(3 * DAY, HOUR);
        let mut dice = Dice::new(3);
        for _ in 0..500 {
            for at in [window.moment(&mut dice), window.busy_moment(&mut dice), window.late_moment(&mut dice)]
            {
                assert!(window.from <= at && at <= window.end(), "{at}");
            }
        }
    }
}
