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

/// RFC 3339 in UTC with three decimals and `Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = Timestamp::from_millisecond(self.0).expect("the range is kept by the constructor");
        write!(f, "{stamp:.3}")
    }
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

    #[test]
    fn the_ends_of_the_range_can_be_shown() {
        assert_eq!(Time::from_ms(i64::MAX).to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(Time::from_ms(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
    }
}
