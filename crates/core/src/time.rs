//! A moment, as Unix milliseconds: the one resolution that both stores and the wire share.
//!
//! Never reads a clock; the caller brings the time.

use std::fmt;

use jiff::Timestamp;

/// A moment in UTC with millisecond resolution, within the years 0000 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(i64);

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("`{0}` is not an RFC 3339 time; write it like 2026-11-15T03:00:00Z")]
    Malformed(String),
    #[error("`{0}` has no time zone; add `Z` or an offset such as +02:00")]
    NoZone(String),
}

const MS_MIN: i64 = -62_167_219_200_000;
/// The last moment that jiff can show, a day before the year ends: it keeps room for offsets.
const MS_MAX: i64 = 253_402_207_200_000;

impl Time {
    /// Takes Unix milliseconds; what lies outside the years 0000 to 9999 is moved to the nearest end.
    pub fn from_ms(ms: i64) -> Time {
        Time(ms.clamp(MS_MIN, MS_MAX))
    }

    pub fn ms(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 with any offset; a time without a zone is refused because it would be a guess.
    pub fn parse(text: &str) -> Result<Time, TimeError> {
        // Error texts quote the value, and the value may be anything a stranger sent.
        let shown = || text.chars().take(64).collect::<String>();
        match text.parse::<Timestamp>() {
            Ok(stamp) => Ok(Time::from_ms(stamp.as_millisecond())),
            Err(_) if text.parse::<jiff::civil::DateTime>().is_ok() => Err(TimeError::NoZone(shown())),
            Err(_) => Err(TimeError::Malformed(shown())),
        }
    }

    /// This moment moved by `ms`, kept within range.
    pub fn plus_ms(self, ms: i64) -> Time {
        Time::from_ms(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; negative if it lies before.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The minute this moment lies in, counted from the epoch: the key of the per-minute series.
    pub fn minute(self) -> i64 {
        self.0.div_euclid(60_000)
    }

    /// The beginning of a minute.
    pub fn from_minute(minute: i64) -> Time {
        Time::from_ms(minute.saturating_mul(60_000))
    }
}

/// RFC 3339 in UTC with three decimals and `Z`. Written by hand: an answer about one job holds a dozen times.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        let (year, month, day) = civil(days);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts: [(usize, usize, i64); 7] = [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, ms / 3_600_000),
            (14, 2, ms / 60_000 % 60),
            (17, 2, ms / 1_000 % 60),
            (20, 3, ms % 1_000),
        ];
        for (at, digits, mut number) in parts {
            for place in text[at..at + digits].iter_mut().rev() {
                *place = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

const DAY_MS: i64 = 86_400_000;

/// Year, month and day of a day counted from 1970, within the years 0000 to 9999. Years are counted from March on, so
/// that the day that some of them have more is their last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400, if month < 10 { month + 3 } else { month - 9 });
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_with_any_offset_and_go_out_in_utc() {
        let cases = [
            ("2026-11-15T03:00:00Z", "2026-11-15T03:00:00.000Z"),
            ("2026-11-15T03:00:00.5+02:00", "2026-11-15T01:00:00.500Z"),
            ("2026-11-15T03:00:00.123456789-05:30", "2026-11-15T08:30:00.123Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ];
        for (given, shown) in cases {
            assert_eq!(Time::parse(given).unwrap().to_string(), shown, "{given}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_refused_by_name() {
        assert!(matches!(Time::parse("2026-11-15T03:00:00"), Err(TimeError::NoZone(_))));
        for bad in ["", "yesterday", "1699999999", "2026-13-01T00:00:00Z", "\u{0}"] {
            assert!(matches!(Time::parse(bad), Err(TimeError::Malformed(_))), "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn times_are_shown_as_a_calendar_shows_them(ms in MS_MIN..=MS_MAX) {
            let stamp = Timestamp::from_millisecond(ms).unwrap();
            proptest::prop_assert_eq!(Time::from_ms(ms).to_string(), format!("{stamp:.3}"));
        }
    }

    #[test]
    fn the_ends_of_the_range_can_be_shown() {
        assert_eq!(Time::from_ms(i64::MAX).to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(Time::from_ms(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
    }
}
