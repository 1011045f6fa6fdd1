//! How many letters a run sent, minute by minute: sent above the line, failed and dead again below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use lazaret_core::id::RedriveId;
use lazaret_core::time::Time;
use lazaret_store::redrive::RunLine;
use lazaret_store::series::Step;

use super::span::Span;
use crate::api::problem::Problem;
use crate::api::run_series::{self, RunPointBody};
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;
use crate::web::chart;

/// A chart with the numbers behind it.
pub(super) struct Rate {
    pub svg: String,
    /// With the moment in words, oldest first.
    pub rows: Vec<(String, RunPointBody)>,
    /// Letters that died again after the end, which are behind the last bar.
    pub late: u64,
}

/// Draws what a run did; nothing if it did nothing yet.
pub(super) async fn of(app: &Arc<App>, redrive: &RedriveBody, span: &Span) -> Result<Option<Rate>, Problem> {
    let step = vec![("step".to_owned(), span.step.name().to_owned())];
    let id = Ok(Path(redrive.id.clone()));
    let points = run_series::series(State(Arc::clone(app)), id, Ok(Query(step))).await?.0.points;
    let (mut moved, mut rows, mut late) = (BTreeMap::new(), Vec::new(), 0);
    for point in points {
        let Some(at) = Time::parse(&point.at).ok().filter(|at| *at >= span.from) else { continue };
        if at >= span.until {
            late += point.bad;
        }
        moved.insert(at, (point.sent, point.bad));
        rows.push((chart::moment(span.zone.local(at)), point));
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let label = format!("Letters sent per {}: sent above, failed or relapsed below", span.step.name());
    Ok(Some(Rate { svg: chart::flow(&span.bars(&moved), &label, "sent", "failed"), rows, late }))
}

/// The whole minutes before this one that a rate of now is taken from.
const MINUTES: i64 = 4;

/// Letters a minute just now: over the last minutes, or since it was launched or resumed, if that was later. Nothing
/// before the first minute.
pub(super) async fn now(app: &App, redrive: &RedriveBody, now: Time) -> Result<Option<f64>, Problem> {
    let id = RedriveId::parse(&redrive.id)?;
    let Some(run) = app.store.redrive(id).await? else { return Ok(None) };
    let Some(going_since) = run.resumed_at.or(run.launched_at) else { return Ok(None) };
    let from = Time::from_minute(now.minute() - MINUTES).max(going_since);
    let asked = RunLine { redrive: id, step: Step::Minute, from, until: now };
    let sent: u64 = app.store.run_line(asked).await?.iter().map(|point| point.did.sent).sum();
    Ok(a_minute(sent, now.since(from)))
}

fn a_minute(sent: u64, in_ms: i64) -> Option<f64> {
    (in_ms >= Step::Minute.ms()).then(|| sent as f64 * Step::Minute.ms() as f64 / in_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_a_minute() {
        assert_eq!(a_minute(10, 59_999), None);
        assert_eq!(a_minute(10, 60_000), Some(10.0));
        assert_eq!(a_minute(10, 240_000), Some(2.5));
        assert_eq!(a_minute(0, 240_000), Some(0.0));
        assert_eq!(a_minute(u64::MAX, i64::MIN), None);
    }
}
