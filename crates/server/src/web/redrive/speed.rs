//! How fast a run goes and how long the rest takes.
//!
//! Nothing keeps what a run did in each minute, so its rate is an average over the whole of it, pauses included.

use lazaret_core::redrive::RunState;
use lazaret_core::time::Time;

use crate::api::wire::redrive::{PaceBody, RedriveBody};
use crate::web::format::length;

/// Before so long an average says more about the start than about the run.
const AVERAGE_MS_MIN: i64 = 60_000;

/// How fast, and how long still.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Speed {
    /// Letters a minute.
    pub average: Option<f64>,
    pub left_ms: Option<i64>,
    /// From the launch to the end or to now.
    pub took_ms: Option<i64>,
}

impl Speed {
    pub fn of(redrive: &RedriveBody, state: RunState, now: Time) -> Speed {
        let Some(launched) = redrive.launched_at.as_deref().and_then(|at| Time::parse(at).ok()) else {
            return Speed::default();
        };
        let finished = redrive.finished_at.as_deref().and_then(|at| Time::parse(at).ok());
        let took_ms = finished.unwrap_or(now).since(launched).max(0);
        let letters = &redrive.letters;
        let gone = letters.sent
            + letters.unknown
            + letters.succeeded
            + letters.assumed
            + letters.ended
            + letters.failed
            + letters.relapsed;
        let average = (gone > 0 && took_ms >= 1_000).then(|| gone as f64 * 60_000.0 / took_ms as f64);
        let pace = match redrive.options.pace {
            PaceBody::PerMinute(rate) => Some(f64::from(rate)),
            PaceBody::Word(_) => None,
        };
        let settled = average.filter(|_| took_ms >= AVERAGE_MS_MIN);
        let rate = match (pace, settled) {
            (Some(pace), Some(average)) => Some(pace.min(average)),
            (Some(pace), None) => Some(pace),
            (None, _) => average,
        };
        let goes = state.claims() && letters.waiting > 0;
        let left_ms = rate.filter(|rate| goes && *rate > 0.0).map(|rate| left_ms(letters.waiting, rate));
        Speed { average, left_ms, took_ms: Some(took_ms) }
    }

    pub fn average_told(&self) -> Option<String> {
        self.average.map(|rate| match rate {
            rate if rate < 10.0 => format!("{rate:.1}"),
            rate => crate::web::format::grouped(rate.round() as u64),
        })
    }

    pub fn left_told(&self) -> Option<String> {
        self.left_ms.map(length)
    }

    pub fn took_told(&self) -> Option<String> {
        self.took_ms.map(length)
    }
}

fn left_ms(letters: u64, rate: f64) -> i64 {
    // A float beyond the range of a number becomes its end.
    (letters as f64 * 60_000.0 / rate) as i64
}

/// A pace in words.
pub(super) fn pace_told(pace: &PaceBody) -> String {
    match pace {
        PaceBody::PerMinute(rate) => {
            format!("{} a minute", crate::web::format::grouped(u64::from(*rate)))
        }
        PaceBody::Word("unlimited") => "as fast as they are taken".to_owned(),
        PaceBody::Word(word) => (*word).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_rate_says() {
        assert_eq!(left_ms(100, 100.0), 60_000);
        assert_eq!(left_ms(u64::MAX, 0.000_001), i64::MAX);
    }

    #[test]
    fn a_slow_average_keeps_its_tenths() {
        let told = |average| Speed { average: Some(average), ..Speed::default() }.average_told();
        assert_eq!(told(1.25).as_deref(), Some("1.2"));
        assert_eq!(told(1_234.4).as_deref(), Some("1,234"));
    }

    #[test]
    fn a_pace_reads_as_a_sentence() {
        assert_eq!(pace_told(&PaceBody::PerMinute(1_000)), "1,000 a minute");
        assert_eq!(pace_told(&PaceBody::Word("unlimited")), "as fast as they are taken");
    }
}
