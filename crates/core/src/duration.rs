//! Lengths of time as people and configurations write them: `24h`, `7d`, `P180D`, `PT1H30M`; out as ISO 8601.

use jiff::{Span, SpanRelativeTo};

/// A length of time in milliseconds; a day is 24 hours, a week seven days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Length(i64);

/// A text that is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a length of time; write it like 15m, 24h, 7d or P180D (months and years have no fixed length)"
)]
pub struct BadLength(pub String);

impl Length {
    pub fn from_ms(ms: i64) -> Length {
        Length(ms)
    }

    pub fn ms(self) -> i64 {
        self.0
    }

    pub fn parse(text: &str) -> Result<Length, BadLength> {
        let bad = || BadLength(text.chars().take(64).collect());
        let span: Span = text.trim().parse().map_err(|_| bad())?;
        let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| bad())?;
        let ms = i64::try_from(length.as_millis()).map_err(|_| bad())?;
        if ms < 0 {
            return Err(bad());
        }
        Ok(Length(ms))
    }
}

/// ISO 8601, in days, hours, minutes and seconds.
impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, rest) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (hours, rest) = (rest / 3_600_000, rest % 3_600_000);
        let (minutes, rest) = (rest / 60_000, rest % 60_000);
        let (seconds, ms) = (rest / 1_000, rest % 1_000);
        if self.0 == 0 {
            return write!(f, "PT0S");
        }
        write!(f, "P")?;
        if days != 0 {
            write!(f, "{days}D")?;
        }
        if rest == 0 && hours == 0 && minutes == 0 {
            return Ok(());
        }
        write!(f, "T")?;
        if hours != 0 {
            write!(f, "{hours}H")?;
        }
        if minutes != 0 {
            write!(f, "{minutes}M")?;
        }
        match (seconds, ms) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, "{seconds}S"),
            _ => write!(f, "{seconds}.{ms:03}S"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_in_many_ways_and_go_out_as_iso() {
        let cases = [
            ("24h", "P1D"),
            ("7d", "P7D"),
            ("P180D", "P180D"),
            ("PT1H30M", "PT1H30M"),
            ("P1W", "P7D"),
            ("90 minutes", "PT1H30M"),
            ("1d 2h", "P1DT2H"),
            ("250ms", "PT0.250S"),
            ("0s", "PT0S"),
        ];
        for (given, shown) in cases {
            assert_eq!(Length::parse(given).unwrap().to_string(), shown, "{given}");
        }
        for bad in ["", "7", "d", "-3h", "P1Y", "1 month", "soon", "99999999999999999999h"] {
            assert!(Length::parse(bad).is_err(), "{bad}");
        }
    }
}
