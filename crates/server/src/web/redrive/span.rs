//! The time of a run, cut into the bars that its charts have.

use std::collections::BTreeMap;

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::series::Step;

use crate::api::wire::redrive::RedriveBody;
use crate::web::chart::{Bar, clock};
use crate::web::zone::Zone;

/// Bars of a chart; a run that takes longer is drawn by the hour, and of a very long one the last part.
const BARS_MAX: i64 = 120;

/// With fewer bars each would be a wall; what was before the launch stands there instead.
const BARS_MIN: i64 = 15;

/// Whole steps around a run, and some before a short one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub step: Step,
    pub from: Time,
    /// Exclusive.
    pub until: Time,
    pub zone: Zone,
}

impl Span {
    /// From the launch to the end, or to now; nothing if it was not launched.
    pub fn of_run(redrive: &RedriveBody, now: Time, zone: Zone) -> Option<Span> {
        let moment = |text: &Option<String>| text.as_deref().and_then(|at| Time::parse(at).ok());
        let launched = moment(&redrive.launched_at)?;
        Some(Span::of(launched, moment(&redrive.finished_at).unwrap_or(now), zone))
    }

    fn of(launched: Time, until: Time, zone: Zone) -> Span {
        let is_short = until.since(launched) < limits::RUN_MINUTES_MS_MAX;
        let step = if is_short { Step::Minute } else { Step::Hour };
        let step_ms = step.ms();
        let start = |at: Time| at.ms().div_euclid(step_ms) * step_ms;
        let end = start(until) + step_ms;
        let from = start(launched).min(end - BARS_MIN * step_ms).max(end - BARS_MAX * step_ms);
        Span { step, from: Time::from_ms(from), until: Time::from_ms(end), zone }
    }

    /// A bar for each step, with what moved up and down in it.
    pub fn bars(&self, moved: &BTreeMap<Time, (u64, u64)>) -> Vec<Bar> {
        let step_ms = self.step.ms();
        let steps = self.until.since(self.from) / step_ms;
        (0..steps)
            .map(|at| {
                let at = self.from.plus_ms(at * step_ms);
                let (up, down) = moved.get(&at).copied().unwrap_or_default();
                Bar { label: clock(self.zone.local(at)), up, down }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time::parse(text).unwrap()
    }

    #[test]
    fn a_short_run_is_drawn_by_the_minute_and_a_long_one_by_the_hour() {
        let (launched, hour) = (at("2026-11-15T03:20:30Z"), 3_600_000);
        let short = Span::of(launched, launched.plus_ms(90_000), Zone::default());
        assert_eq!((short.step.name(), short.bars(&BTreeMap::new()).len()), ("minute", 15));
        let long = Span::of(launched, launched.plus_ms(5 * hour), Zone::default());
        assert_eq!((long.step.name(), long.bars(&BTreeMap::new()).len()), ("hour", 15));
        let very_long = Span::of(launched, launched.plus_ms(1_000 * hour), Zone::default());
        assert_eq!(very_long.bars(&BTreeMap::new()).len() as i64, BARS_MAX);
    }

    #[test]
    fn what_moved_stands_in_its_minute() {
        let zone = Zone::parse("60").unwrap();
        let span = Span::of(at("2026-11-15T03:20:30Z"), at("2026-11-15T03:21:10Z"), zone);
        let bars = span.bars(&[(at("2026-11-15T03:21:00Z"), (1, 2))].into());
        let empty = Bar { label: "04:20".into(), up: 0, down: 0 };
        assert_eq!(bars[13..], [empty, Bar { label: "04:21".into(), up: 1, down: 2 }]);
    }
}
