//! The zone of whoever looks: clocks on charts go by it. Our script says it in a cookie; before that, and without
//! scripts, they go by UTC and say so.

use lazaret_core::time::Time;

/// The cookie: how many minutes the clocks of the reader are before UTC.
pub(crate) const ZONE: &str = "lazaret_zone";

/// No place on earth is farther from UTC.
const MINUTES_MAX: i32 = 14 * 60;

/// How far clocks are before UTC, in minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Zone(i32);

impl Zone {
    pub fn parse(text: &str) -> Option<Zone> {
        let minutes: i32 = text.parse().ok()?;
        (-MINUTES_MAX..=MINUTES_MAX).contains(&minutes).then_some(Zone(minutes))
    }

    /// As the cookie has it.
    pub fn minutes(self) -> i32 {
        self.0
    }

    /// The time that, read as UTC, says what the reader's clock says.
    pub fn local(self, at: Time) -> Time {
        at.plus_ms(i64::from(self.0) * 60_000)
    }

    /// The other way round.
    pub fn utc(self, local: Time) -> Time {
        local.plus_ms(i64::from(self.0) * -60_000)
    }

    /// `UTC`, `UTC+01:00`
    pub fn name(self) -> String {
        let (sign, minutes) = (if self.0 < 0 { '-' } else { '+' }, self.0.unsigned_abs());
        match minutes {
            0 => "UTC".to_owned(),
            _ => format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_named_by_how_far_it_is() {
        for (text, name) in [("0", "UTC"), ("60", "UTC+01:00"), ("-210", "UTC-03:30"), ("840", "UTC+14:00")] {
            assert_eq!(Zone::parse(text).unwrap().name(), name);
        }
        for text in ["", "841", "-99999999999", "1.5", "Europe/Berlin", "<b>"] {
            assert_eq!(Zone::parse(text), None, "{text}");
        }
    }

    #[test]
    fn clocks_go_there_and_back() {
        let (zone, at) = (Zone::parse("-210").unwrap(), Time::parse("2026-11-15T03:00:00Z").unwrap());
        assert_eq!(zone.local(at).to_string(), "2026-11-14T23:30:00.000Z");
        assert_eq!(zone.utc(zone.local(at)), at);
    }
}
