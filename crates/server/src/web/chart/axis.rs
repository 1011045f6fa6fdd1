//! The names below a chart: hours and days by the reader's clock, as few as fit on a telephone.
//!
//! Times are local ones here: what they say in UTC is what the clock of the reader says.

use lazaret_core::time::Time;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A name on an axis, by the number of the bar where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub at: usize,
    pub text: String,
    pub strong: bool,
}

/// A name every six hours; midnight has that of its day.
pub(super) fn of_hours(hours: impl IntoIterator<Item = Time>) -> Vec<Tick> {
    let sixth = |(at, time): (usize, Time)| {
        let hour = hour_of(time);
        match hour {
            0 => Some(Tick { at, text: day(time), strong: true }),
            6 | 12 | 18 => Some(Tick { at, text: clock(time), strong: false }),
            _ => None,
        }
    };
    hours.into_iter().enumerate().filter_map(sixth).collect()
}

/// A name for every third day, counted from the last, which is today.
pub(super) fn of_days(days: &[Time]) -> Vec<Tick> {
    let third = |(at, time): (usize, &Time)| {
        let back = days.len() - 1 - at;
        back.is_multiple_of(3).then(|| Tick { at, text: day(*time), strong: back == 0 })
    };
    days.iter().enumerate().filter_map(third).collect()
}

fn hour_of(at: Time) -> i64 {
    at.ms().rem_euclid(DAY_MS) / HOUR_MS
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// `15 Nov`
pub(super) fn day(at: Time) -> String {
    let text = at.to_string();
    let number = |from: usize| text.get(from..from + 2).and_then(|part| part.parse::<usize>().ok());
    // A time is written as 2026-11-15T03:00:00.000Z; what is not cannot be cut, and is shown as it is.
    match (number(5).and_then(|month| MONTHS.get(month.checked_sub(1)?)), number(8)) {
        (Some(month), Some(day)) => format!("{day} {month}"),
        (_, _) => text,
    }
}

/// `Sun 15 Nov`
pub(super) fn weekday(at: Time) -> String {
    // The epoch was a Thursday.
    let name = usize::try_from(at.ms().div_euclid(DAY_MS).rem_euclid(7)).ok().and_then(|at| WEEKDAYS.get(at));
    format!("{} {}", name.unwrap_or(&""), day(at))
}

/// `03:00`
pub(crate) fn clock(at: Time) -> String {
    format!("{:02}:{:02}", hour_of(at), at.ms().rem_euclid(HOUR_MS) / 60_000)
}

/// `Sun 15 Nov 03:00`
pub(crate) fn moment(at: Time) -> String {
    format!("{} {}", weekday(at), clock(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time::parse(text).unwrap()
    }

    #[test]
    fn a_moment_reads_as_people_say_it() {
        assert_eq!(moment(at("2026-11-15T03:05:00Z")), "Sun 15 Nov 03:05");
        assert_eq!(moment(at("1969-12-31T23:00:00Z")), "Wed 31 Dec 23:00");
        assert_eq!(day(at("2024-02-29T00:00:00Z")), "29 Feb");
    }

    #[test]
    fn hours_are_named_by_the_clock_and_midnight_by_its_day() {
        let from = at("2026-11-13T04:00:00Z");
        let ticks = of_hours((0..48).map(|hour| from.plus_ms(hour * HOUR_MS)));
        let texts: Vec<&str> = ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["06:00", "12:00", "18:00", "14 Nov", "06:00", "12:00", "18:00", "15 Nov"]);
        assert_eq!((ticks[0].at, ticks[3].at, ticks[3].strong), (2, 20, true));
    }

    #[test]
    fn today_is_always_named() {
        let days: Vec<Time> = (0..14).map(|day| at("2026-11-02T00:00:00Z").plus_ms(day * DAY_MS)).collect();
        let ticks = of_days(&days);
        assert_eq!(ticks.iter().map(|tick| tick.at).collect::<Vec<_>>(), [1, 4, 7, 10, 13]);
        assert_eq!((ticks[4].text.as_str(), ticks[4].strong), ("15 Nov", true));
        assert_eq!(of_days(&[]), []);
    }
}
