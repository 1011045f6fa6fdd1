//! How fast a run goes, by what was seen of it, and how long it will take.

use std::collections::VecDeque;

use lazaret_core::time::Time;

use crate::answers::redrive::{Pace, Redrive};

/// The time over which speed is measured: long enough to be steady, short enough to see a change.
const WINDOW_MS: i64 = 30_000;

/// With less than this a speed would be a guess.
const MEASURED_MS_MIN: i64 = 3_000;

/// Processed letters over time.
#[derive(Debug, Default)]
pub struct Speed {
    seen: VecDeque<(Time, u64)>,
}

impl Speed {
    pub fn look(&mut self, redrive: &Redrive, now: Time) {
        let turned = redrive.count.saturating_sub(redrive.letters.waiting);
        // Time in which it may not send says nothing about how fast it does.
        if !matches!(redrive.state.as_str(), "canary" | "running") {
            self.seen.clear();
        }
        self.seen.push_back((now, turned));
        while self.seen.front().is_some_and(|(at, _)| now.since(*at) > WINDOW_MS) {
            self.seen.pop_front();
        }
    }

    /// Letters a minute, once enough was seen.
    pub fn per_minute(&self) -> Option<u64> {
        let ((from, first), (until, last)) = (self.seen.front()?, self.seen.back()?);
        let ms = until.since(*from);
        if ms < MEASURED_MS_MIN {
            return None;
        }
        Some(last.saturating_sub(*first).saturating_mul(60_000) / ms.unsigned_abs())
    }

    /// How long the letters that wait will take: by what was seen, or else by the pace.
    pub fn left_ms(&self, redrive: &Redrive) -> Option<u64> {
        if redrive.state != "running" || redrive.letters.waiting == 0 {
            return None;
        }
        let pace = match redrive.options.pace {
            Pace::PerMinute(rate) => Some(rate),
            Pace::Word(_) => None,
        };
        let rate = self.per_minute().filter(|rate| *rate > 0).or(pace).filter(|rate| *rate > 0)?;
        Some(redrive.letters.waiting.saturating_mul(60_000) / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(waiting: u64) -> Redrive {
        let mut redrive: Redrive = serde_json::from_str(include_str!("../run.json")).unwrap();
        redrive.letters.waiting = waiting;
        redrive
    }

    #[test]
    fn speed_is_what_was_seen_of_the_last_half_minute() {
        let mut speed = Speed::default();
        assert_eq!((speed.per_minute(), speed.left_ms(&run(200))), (None, Some(120_000)), "by the pace");
        for second in 0..=60 {
            // Two a second, then one a second.
            let turned = if second <= 30 { second * 2 } else { 60 + (second - 30) };
            speed.look(&run(412 - turned), Time::from_ms(second as i64 * 1_000));
        }
        assert_eq!(speed.per_minute(), Some(60));
        assert_eq!(speed.left_ms(&run(120)), Some(120_000));
        speed.look(&Redrive { state: "paused".into(), ..run(120) }, Time::from_ms(90_000));
        assert_eq!(speed.per_minute(), None);
    }
}
