//! One incident: what went wrong, why it is thought to be one thing, what is to be done, and everything that was.
//!
//! The page holds its forms; `steps` takes them. What is refused is shown here again, with what was typed.

mod document;
mod reach;
mod state;
mod steps;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use lazaret_core::class::Category;
use lazaret_core::time::Time;

use self::reach::Reach;
use self::state::{Hindrances, Next};
use self::steps::{Refused, Step, Typed};
use super::chart::{self, Figure};
use super::format as filters;
use super::frame::Page;
use super::overview::{Run, asking};
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use super::zone::Zone;
use crate::api::incident_steps::document_of;
use crate::api::incidents::{find, parse_incident, whole};
use crate::api::letters;
use crate::api::problem::Problem;
use crate::api::wire::LetterSummary;
use crate::api::wire::incident::IncidentEntry;
use crate::api::wire::record::TimelineBody;
use crate::app::App;

/// Letters that are shown with it; the list has all.
const LETTERS_SHOWN: &str = "5";

/// Entries of the timeline that a person reads; the API has more.
const TIMELINE_SHOWN: usize = 60;

const HOURS: i64 = 48;
const DAYS: i64 = 14;

pub(crate) fn add_to(mut routes: Router<Arc<App>>) -> Router<Arc<App>> {
    for step in Step::ALL {
        let take = post(move |state, viewer, id, form| steps::take(step, state, viewer, id, form));
        routes = routes.route(&format!("/incidents/{{id}}/{}", step.address()), take);
    }
    routes.route("/incidents/{id}", get(show))
}

#[derive(Template)]
#[template(path = "incident.html")]
struct IncidentPage {
    shell: Shell,
    entry: IncidentEntry,
    next: Next,
    hindrances: Hindrances,
    /// The filter of its pending letters, in its text form.
    pending: String,
    hours: Figure,
    days: Figure,
    reach: Vec<Reach>,
    letters: Vec<LetterSummary>,
    runs: Vec<Run>,
    /// Newest first.
    timeline: Vec<TimelineBody>,
    /// Entries that are not shown.
    older: usize,
    /// The analysis as HTML of our own making.
    document: String,
    typed: Typed,
    refused: Option<Step>,
    zone: Zone,
}

impl IncidentPage {
    fn categories(&self) -> [Category; 4] {
        Category::ALL
    }

    /// Whether a field of this form is what was refused.
    fn is_wrong(&self, step: Step, field: &str) -> bool {
        let named = self.shell.trouble.as_ref().and_then(|trouble| trouble.field.as_deref());
        self.refused == Some(step) && named == Some(field)
    }
}

async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    page(app, &viewer, id, None).await
}

/// The page, as it is or with a form that was refused.
async fn page(
    app: Arc<App>,
    viewer: &Viewer,
    id: String,
    refused: Option<Refused>,
) -> Result<Response, Problem> {
    let detail = find(&app, parse_incident(Ok(Path(id)))?).await?;
    let document = document::html(&document_of(detail.clone(), &app.redactor));
    let mut entry = whole(&app, detail).await?;
    let mut timeline = std::mem::take(&mut entry.record.timeline);
    timeline.reverse();
    let older = timeline.len().saturating_sub(TIMELINE_SHOWN);
    timeline.truncate(TIMELINE_SHOWN);
    let id = entry.incident.id.as_str();
    let newest = [("q", format!("incident:{id}")), ("limit", LETTERS_SHOWN.to_owned())];
    let newest = asking(&newest.each_ref().map(|(key, value)| (*key, value.as_str())));
    let letters = letters::list(State(Arc::clone(&app)), newest).await?.0.items;
    let gate = state::gate(&app, &entry).await?;
    let problem = refused.as_ref().map(|refused| &refused.problem);
    let shell = Shell::new(&app, viewer, entry.incident.title.clone(), "/incidents").await?.with(problem);
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let until = Time::parse(&entry.series.until).unwrap_or(shell.now);
    let page = IncidentPage {
        next: Next::of(&entry, gate.as_ref()),
        hindrances: Hindrances::of(viewer, &entry, gate.as_ref()),
        pending: format!("incident:{id} status:pending"),
        hours: chart::hours("hours", &entry.series.points, until, HOURS, viewer.zone),
        days: chart::days("days", &entry.series.points, until, DAYS, viewer.zone),
        reach: reach::of(&entry),
        letters,
        timeline,
        older,
        typed: Typed::of(&entry, refused.as_ref()),
        refused: refused.map(|refused| refused.step),
        document,
        zone: viewer.zone,
        runs: std::mem::take(&mut entry.record.redrives).into_iter().map(Run::new).collect(),
        shell,
        entry,
    };
    Ok((status, Page(page)).into_response())
}
