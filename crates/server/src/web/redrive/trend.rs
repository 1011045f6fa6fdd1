//! How the incidents of a run moved while it went: deaths above the line, letters that were settled below it.
//!
//! No minute of a run is kept by itself. What is kept are the minutes of incidents, so this is what came in and went out
//! of those that the run has letters of, whoever it was that moved them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::time::Time;

use crate::api::problem::Problem;
use crate::api::series;
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;
use crate::web::chart::{self, Bar};

/// Incidents that are shown with a run: the largest.
const INCIDENTS: usize = 5;

/// Bars of the chart; a run that takes longer is drawn by the hour, and of a very long one the last part.
const BARS_MAX: i64 = 120;

/// With fewer bars each would be a wall; what was before the launch stands there instead.
const BARS_MIN: i64 = 15;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// An incident that a run has letters of.
pub(super) struct Touched {
    pub id: String,
    pub title: String,
    pub state: &'static str,
    /// Letters of it in the run.
    pub letters: u64,
}

/// The incidents of a run, the largest first.
pub(super) async fn incidents(app: &App, redrive: &RedriveBody) -> Result<Vec<Touched>, Problem> {
    // The API names them in plans alone, and shows an incident only with its whole story.
    let groups = app.store.redrive_groups(RedriveId::parse(&redrive.id)?).await?;
    let mut letters: BTreeMap<IncidentId, u64> = BTreeMap::new();
    for group in groups {
        *letters.entry(group.incident).or_default() += group.letters;
    }
    let mut largest: Vec<(IncidentId, u64)> = letters.into_iter().collect();
    largest.sort_by_key(|(_, letters)| std::cmp::Reverse(*letters));
    let mut touched = Vec::new();
    for (id, letters) in largest.into_iter().take(INCIDENTS) {
        if let Some(detail) = app.store.incident(id).await? {
            let (title, state) = (detail.incident.title, detail.incident.state.name());
            touched.push(Touched { id: id.to_string(), title, state, letters });
        }
    }
    Ok(touched)
}

/// A chart with the numbers behind it.
pub(super) struct Trend {
    pub svg: String,
    pub step: &'static str,
    /// The steps in which anything moved.
    pub bars: Vec<Bar>,
}

/// Draws what moved from the launch to the end, or to now; nothing if nothing did.
pub(super) async fn of(
    app: &Arc<App>,
    redrive: &RedriveBody,
    incidents: &[Touched],
    now: Time,
) -> Result<Option<Trend>, Problem> {
    let moment = |text: &Option<String>| text.as_deref().and_then(|at| Time::parse(at).ok());
    let Some(launched) = moment(&redrive.launched_at) else { return Ok(None) };
    let until = moment(&redrive.finished_at).unwrap_or(now);
    let span = Span::of(launched, until);
    let mut moved: BTreeMap<Time, (u64, u64)> = BTreeMap::new();
    for incident in incidents {
        let pairs = [
            ("incident", incident.id.clone()),
            ("step", span.step.to_owned()),
            ("since", span.from.to_string()),
            ("until", span.until.to_string()),
        ];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value)).to_vec();
        let lines = series::series(State(Arc::clone(app)), Ok(Query(pairs))).await?.0;
        for point in lines.items.iter().flat_map(|line| &line.points) {
            let Ok(at) = Time::parse(&point.at) else { continue };
            let (arrived, departed) = moved.entry(at).or_default();
            *arrived += point.arrived;
            *departed += point.departed;
        }
    }
    if moved.is_empty() {
        return Ok(None);
    }
    let bars = span.bars(&moved);
    let label = format!("Letters of its incidents, by the {}: deaths above, settled below", span.step);
    let svg = chart::flow(&bars, &label, "deaths", "settled");
    let bars = bars.into_iter().filter(|bar| bar.up + bar.down > 0).collect();
    Ok(Some(Trend { svg, step: span.step, bars }))
}

/// Whole steps around a run, and some before a short one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Span {
    step: &'static str,
    step_ms: i64,
    from: Time,
    /// Exclusive.
    until: Time,
}

impl Span {
    fn of(launched: Time, until: Time) -> Span {
        let is_short = until.since(launched) < (BARS_MAX - 2) * MINUTE_MS;
        let (step, step_ms) = if is_short { ("minute", MINUTE_MS) } else { ("hour", HOUR_MS) };
        let start = |at: Time| at.ms().div_euclid(step_ms) * step_ms;
        let end = start(until) + step_ms;
        let from = start(launched).min(end - BARS_MIN * step_ms).max(end - BARS_MAX * step_ms);
        Span { step, step_ms, from: Time::from_ms(from), until: Time::from_ms(end) }
    }

    fn bars(&self, moved: &BTreeMap<Time, (u64, u64)>) -> Vec<Bar> {
        let steps = self.until.since(self.from) / self.step_ms;
        (0..steps)
            .map(|at| {
                let at = self.from.plus_ms(at * self.step_ms);
                let (up, down) = moved.get(&at).copied().unwrap_or_default();
                Bar { label: clock(at), up, down }
            })
            .collect()
    }
}

/// The time of day.
fn clock(at: Time) -> String {
    at.to_string().get(11..16).unwrap_or_default().to_owned()
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
        let short = Span::of(launched, launched.plus_ms(90_000));
        assert_eq!((short.step, short.bars(&BTreeMap::new()).len()), ("minute", 15));
        let long = Span::of(launched, launched.plus_ms(5 * hour));
        assert_eq!((long.step, long.bars(&BTreeMap::new()).len()), ("hour", 15));
        let very_long = Span::of(launched, launched.plus_ms(1_000 * hour));
        assert_eq!(very_long.bars(&BTreeMap::new()).len() as i64, BARS_MAX);
    }

    #[test]
    fn what_moved_stands_in_its_minute() {
        let span = Span::of(at("2026-11-15T03:20:30Z"), at("2026-11-15T03:21:10Z"));
        let bars = span.bars(&[(at("2026-11-15T03:21:00Z"), (1, 2))].into());
        let empty = Bar { label: "03:20".into(), up: 0, down: 0 };
        assert_eq!(bars[13..], [empty, Bar { label: "03:21".into(), up: 1, down: 2 }]);
    }
}
