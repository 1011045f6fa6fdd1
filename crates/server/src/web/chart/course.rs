//! A course over time as a chart and the table behind it. Every step is there, also those in which nothing moved.

use lazaret_core::time::Time;

use super::super::format::grouped;
use super::axis::{of_days, of_hours, weekday};
use super::{Bar, Words, columns, line, moment};
use crate::api::wire::incident::PointBody;
use crate::web::zone::Zone;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A chart with what the page puts around it.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What tells this one from others on the page.
    pub id: &'static str,
    pub svg: String,
    /// What the rows of the table are.
    pub step: String,
    pub rows: Vec<Bar>,
    pub up: &'static str,
    pub down: &'static str,
    /// By whose clock it is drawn.
    pub zone: String,
}

/// The hours up to `until`, which is the end of the last one, as bars.
pub(crate) fn hours(id: &'static str, points: &[PointBody], until: Time, count: i64, zone: Zone) -> Figure {
    let from = until.plus_ms(-count * HOUR_MS);
    let times: Vec<Time> = (0..count).map(|hour| from.plus_ms(hour * HOUR_MS)).collect();
    let rows = filled(points, &times, HOUR_MS, |at| moment(zone.local(at)));
    let label = summary(&format!("Letters in and out over the last {count} hours"), "hour", &rows, zone);
    let ticks = of_hours(times.into_iter().map(|at| zone.local(at)));
    let svg = columns(&rows, &ticks, Words { label: &label, up: "in", down: "out" });
    Figure {
        id,
        svg,
        step: format!("Hour ({})", zone.name()),
        rows,
        up: "in",
        down: "out",
        zone: zone.name(),
    }
}

/// The days up to the one that `until` ends in, as lines.
pub(crate) fn days(id: &'static str, points: &[PointBody], until: Time, count: i64, zone: Zone) -> Figure {
    let today = zone.local(until.plus_ms(-1)).ms().div_euclid(DAY_MS) * DAY_MS;
    let local: Vec<Time> = (0..count).rev().map(|back| Time::from_ms(today - back * DAY_MS)).collect();
    let times: Vec<Time> = local.iter().map(|at| zone.utc(*at)).collect();
    let rows = filled(points, &times, DAY_MS, |at| weekday(zone.local(at)));
    let label = summary(&format!("Letters in and out over the last {count} days"), "day", &rows, zone);
    let svg = line(&rows, &of_days(&local), Words { label: &label, up: "in", down: "out" });
    Figure { id, svg, step: format!("Day ({})", zone.name()), rows, up: "in", down: "out", zone: zone.name() }
}

/// Adds up the points of each step.
fn filled(points: &[PointBody], times: &[Time], step_ms: i64, name: impl Fn(Time) -> String) -> Vec<Bar> {
    let mut rows: Vec<Bar> = times.iter().map(|at| Bar { label: name(*at), up: 0, down: 0 }).collect();
    let Some(first) = times.first() else { return rows };
    for point in points {
        let Ok(at) = Time::parse(&point.at) else { continue };
        // What lies before the first step has a negative place and is none of them.
        let place = usize::try_from(at.since(*first).div_euclid(step_ms)).ok();
        if let Some(row) = place.and_then(|place| rows.get_mut(place)) {
            row.up += point.arrived;
            row.down += point.departed;
        }
    }
    rows
}

/// A chart in a sentence, for those who do not see it.
fn summary(what: &str, step: &str, rows: &[Bar], zone: Zone) -> String {
    let (up, down) = rows.iter().fold((0, 0), |(up, down), row| (up + row.up, down + row.down));
    let most = rows.iter().filter(|row| row.up > 0).max_by_key(|row| row.up);
    let all = format!("{what}: {} in, {} out", grouped(up), grouped(down));
    match most {
        Some(most) => {
            format!("{all}; peak per {step}: {}, {} {}", grouped(most.up), most.label, zone.name())
        }
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: &str, arrived: u64, departed: u64) -> PointBody {
        PointBody { at: at.into(), arrived, departed }
    }

    #[test]
    fn every_hour_is_there_and_the_last_is_the_one_under_way() {
        let until = Time::parse("2026-11-15T04:00:00Z").unwrap();
        let points = [
            point("2026-11-13T03:00:00.000Z", 99, 0),
            point("2026-11-13T04:00:00.000Z", 1, 0),
            point("2026-11-15T03:00:00.000Z", 2, 5),
            point("2026-11-15T04:00:00.000Z", 99, 0),
        ];
        let figure = hours("flow", &points, until, 48, Zone::default());
        assert_eq!(figure.rows.len(), 48);
        assert_eq!(figure.rows[0], Bar { label: "Fri 13 Nov 04:00".into(), up: 1, down: 0 });
        assert_eq!(figure.rows[47], Bar { label: "Sun 15 Nov 03:00".into(), up: 2, down: 5 });
        assert!(figure.svg.contains(
            "aria-label=\"Letters in and out over the last 48 hours: 3 in, 5 out; peak per hour: 2, Sun 15 Nov 03:00 UTC\""
        ));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let until = Time::parse("2026-11-15T04:00:00Z").unwrap();
        let points = [
            point("2026-11-01T23:00:00.000Z", 99, 0),
            point("2026-11-02T00:00:00.000Z", 1, 0),
            point("2026-11-14T23:00:00.000Z", 2, 0),
            point("2026-11-15T00:00:00.000Z", 4, 0),
            point("2026-11-15T03:00:00.000Z", 8, 1),
        ];
        let figure = days("days", &points, until, 14, Zone::default());
        let ups: Vec<u64> = figure.rows.iter().map(|row| row.up).collect();
        assert_eq!((ups.len(), ups[0], ups[12], ups[13]), (14, 1, 2, 12));
        assert_eq!(figure.rows[13].label, "Sun 15 Nov");
        // Five hours west the last hour of the 14th has not ended.
        let figure = days("days", &points, until, 14, Zone::parse("-300").unwrap());
        let ups: Vec<u64> = figure.rows.iter().map(|row| row.up).collect();
        assert_eq!((ups[0], ups[1], ups[13]), (100, 0, 14));
        assert_eq!((figure.rows[13].label.as_str(), figure.step.as_str()), ("Sat 14 Nov", "Day (UTC-05:00)"));
    }
}
