//! How fast a run goes and how long the rest takes.

use lazaret_core::redrive::RunState;
use lazaret_core::time::Time;

use crate::api::wire::redrive::{PaceBody, RedriveBody};
use crate::web::format::length;

/// How fast, and how long still.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Speed {
    /// Letters a minute over the whole of it, pauses included.
    pub average: Option<f64>,
    /// Letters a minute in the last minutes, while it goes.
    pub now: Option<f64>,
    pub left_ms: Option<i64>,
    /// From the launch to the end or to now.
    pub took_ms: Option<i64>,
}

impl Speed {
    pub fn of(
        redrive: &RedriveBody,
        state: RunState,
        launched: Option<Time>,
        just_now: Option<f64>,
        now: Time,
    ) -> Speed {
        let Some(launched) = launched else { return Speed::default() };
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
        let goes = state.claims() && letters.waiting > 0;
        let just_now = just_now.filter(|_| goes);
        let left_ms =
            rest_rate(pace, average, just_now).filter(|_| goes).map(|rate| left_ms(letters.waiting, rate));
        Speed { average, now: just_now, left_ms, took_ms: Some(took_ms) }
    }

    pub fn average_told(&self) -> Option<String> {
        self.average.map(told)
    }

    pub fn now_told(&self) -> Option<String> {
        self.now.map(told)
    }

    pub fn left_told(&self) -> Option<String> {
        self.left_ms.map(length)
    }

    pub fn took_told(&self) -> Option<String> {
        self.took_ms.map(length)
    }
}

fn told(rate: f64) -> String {
    match rate {
        rate if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        rate => crate::web::format::grouped(rate.round() as u64),
    }
}

/// The rate at which the rest will go: that of the last minutes, at most the pace. Before it is known, the pace, or the
/// average of an unpaced run. Nothing while nothing moves.
fn rest_rate(pace: Option<f64>, average: Option<f64>, just_now: Option<f64>) -> Option<f64> {
    let rate = match (pace, just_now) {
        (Some(pace), Some(now)) => Some(pace.min(now)),
        (Some(pace), None) => Some(pace),
        (None, now) => now.or(average),
    };
    rate.filter(|rate| *rate > 0.0)
}

fn left_ms(letters: u64, rate: f64) -> i64 {
    // A float beyond the range of a number becomes its end.
    (letters as f64 * 60_000.0 / rate) as i64
}

/// A pace in words.
pub(super) fn pace_told(pace: &PaceBody) -> String {
    match pace {
        PaceBody::PerMinute(rate) => {
            format!("{}/min", crate::web::format::grouped(u64::from(*rate)))
        }
        PaceBody::Word("unlimited") => "unlimited".to_owned(),
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
    fn a_slow_rate_keeps_its_tenths() {
        let texts = [0.0, 1.25, 9.99, 1_234.4].map(told);
        assert_eq!(texts, ["0", "1.2", "10.0", "1,234"]);
    }

    #[test]
    fn the_rest_goes_as_fast_as_the_last_minutes_and_no_faster_than_the_pace() {
        assert_eq!(rest_rate(Some(60.0), Some(10.0), None), Some(60.0));
        assert_eq!(rest_rate(Some(60.0), Some(10.0), Some(30.0)), Some(30.0));
        assert_eq!(rest_rate(Some(60.0), None, Some(90.0)), Some(60.0));
        assert_eq!(rest_rate(None, Some(10.0), Some(30.0)), Some(30.0));
        assert_eq!(rest_rate(None, Some(10.0), None), Some(10.0));
        assert_eq!(rest_rate(None, Some(10.0), Some(0.0)), None);
    }

    #[test]
    fn a_pace_reads_as_a_sentence() {
        assert_eq!(pace_told(&PaceBody::PerMinute(1_000)), "1,000/min");
        assert_eq!(pace_told(&PaceBody::Word("unlimited")), "unlimited");
    }
}
