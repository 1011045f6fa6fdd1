//! What a run did, step by step, from its launch to its end.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::redrive::{Did, Redrive, RunLine, RunPoint};
use lazaret_store::series::Step;
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, once, unknown_parameter};
use super::problem::Problem;
use super::redrives::parse_redrive;
use super::series::{Span, no_step};
use crate::app::App;
use crate::redrive::NotRedriven;

#[derive(Serialize, ToSchema)]
pub(crate) struct RunSeriesBody {
    /// minute or hour
    #[schema(value_type = String)]
    pub step: &'static str,
    /// The beginning of the first step.
    pub from: Option<String>,
    /// The end of the last step.
    pub until: Option<String>,
    /// Oldest first; steps in which nothing moved are left out.
    pub points: Vec<RunPointBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RunPointBody {
    /// The beginning of the step.
    pub at: String,
    /// Letters that were sent.
    pub sent: u64,
    /// Letters that came to a good end: succeeded, assumed or ended.
    pub good: u64,
    /// Letters that failed or died again.
    pub bad: u64,
}

impl From<RunPoint> for RunPointBody {
    fn from(point: RunPoint) -> RunPointBody {
        let Did { sent, good, bad } = point.did;
        RunPointBody { at: point.at.to_string(), sent, good, bad }
    }
}

/// Tells how fast a run went, and how its letters came out, step by step.
#[utoipa::path(
    get,
    path = "/api/v1/redrives/{id}/series",
    tag = "redrives",
    params(
        ("id" = String, Path),
        ("step" = Option<String>, Query, description = "minute or hour; default: minute for a run of up to two hours; includes relapses after the end"),
    ),
    responses((status = 200, body = RunSeriesBody), (status = 400, description = "bad_request or bad_id"), (status = 404, description = "not_found"))
)]
pub(crate) async fn series(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<RunSeriesBody>, Problem> {
    let id = parse_redrive(id)?;
    let mut step = None;
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "step" => once(&mut step, "step", Step::parse(&value).ok_or_else(|| no_step(&value))?)?,
            _ => return Err(unknown_parameter(&key, &["step"])),
        }
    }
    let Some(redrive) = app.store.redrive(id).await? else { return Err(NotRedriven::Unknown(id).into()) };
    let now = app.clock.now();
    let Some(span) = span(&redrive, step, now) else {
        let step = step.unwrap_or(Step::Minute).name();
        return Ok(Json(RunSeriesBody { step, from: None, until: None, points: Vec::new() }));
    };
    // What was sent may die again long after the end.
    let asked = RunLine { redrive: id, step: span.step, from: span.from, until: now.max(span.until) };
    let points = app.store.run_line(asked).await?;
    let last = points.last().map_or(span.until, |point| point.at.plus_ms(span.step.ms()));
    Ok(Json(RunSeriesBody {
        step: span.step.name(),
        from: Some(span.from.to_string()),
        until: Some(span.until.max(last).to_string()),
        points: points.into_iter().map(RunPointBody::from).collect(),
    }))
}

/// From the launch to the end, or to now; of a very long run the last part. Nothing if it was not launched.
fn span(redrive: &Redrive, step: Option<Step>, now: Time) -> Option<Span> {
    let launched = redrive.launched_at?;
    let until = redrive.finished_at.unwrap_or(now).max(launched);
    let is_short = until.since(launched) < limits::RUN_MINUTES_MS_MAX;
    let step = step.unwrap_or(if is_short { Step::Minute } else { Step::Hour });
    let whole = Span::around(step, launched, until);
    let longest = Span::last(step, limits::SERIES_STEPS_MAX as i64, until);
    Some(Span { from: whole.from.max(longest.from), ..whole })
}
