//! The forms of an incident: each is the request of the API that does the same.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use lazaret_core::class::Category;
use lazaret_core::rca::FixKind;
use lazaret_core::time::Time;
use serde_json::Value;

use super::super::form::{self, Form};
use super::super::frame::done;
use super::super::viewer::Viewer;
use super::page;
use crate::api::incident_steps;
use crate::api::problem::Problem;
use crate::api::wire::incident::IncidentEntry;
use crate::app::App;

/// What a person does about an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Diagnose,
    Fix,
    Assign,
    Note,
    Close,
}

/// A form that was not taken.
pub(super) struct Refused {
    pub step: Step,
    pub problem: Problem,
    pub form: Form,
}

/// What stands in the fields of the page.
#[derive(Default)]
pub(super) struct Typed {
    pub category: String,
    pub root_cause: String,
    pub remediation: String,
    pub kind: String,
    pub reference: String,
    pub fixed_at: String,
    pub assignee: String,
    pub note: String,
    pub reason: String,
}

impl Typed {
    /// What is known already, and in a form that was refused what was typed.
    pub fn of(entry: &IncidentEntry, refused: Option<&Refused>) -> Typed {
        let rca = entry.record.rca.as_ref();
        let business = rca.is_some_and(|rca| rca.category == Category::Business.name());
        let kind = if business { FixKind::Decision } else { FixKind::Deployed };
        let category = rca.map(|rca| rca.category).or(entry.record.suggested_category);
        let mut typed = Typed {
            category: category.unwrap_or_default().to_owned(),
            root_cause: rca.map(|rca| rca.root_cause.clone()).unwrap_or_default(),
            remediation: rca.map(|rca| rca.remediation.clone()).unwrap_or_default(),
            kind: kind.name().to_owned(),
            assignee: entry.incident.assignee.clone().unwrap_or_default(),
            ..Typed::default()
        };
        let Some(Refused { step, form, .. }) = refused else { return typed };
        let field = |name: &str| form.get(name).to_owned();
        match step {
            Step::Diagnose => {
                (typed.category, typed.root_cause, typed.remediation) =
                    (field("category"), field("rootCause"), field("remediation"));
            }
            Step::Fix => {
                (typed.kind, typed.reference, typed.fixed_at) =
                    (field("kind"), field("reference"), field("fixedAt"));
            }
            Step::Assign => typed.assignee = field("assignee"),
            Step::Note => typed.note = field("text"),
            Step::Close => typed.reason = field("reason"),
        }
        typed
    }
}

type Id = Result<Path<String>, PathRejection>;
type Stepped = Result<Json<IncidentEntry>, Problem>;

pub(super) async fn diagnose(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = form::body(form.texts(&["category", "rootCause", "remediation"]));
    let stepped =
        incident_steps::diagnose(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), Ok(body))
            .await;
    let told = |entry: &IncidentEntry| match entry.record.rcas.len() {
        1 => "The cause is written down.".to_owned(),
        revision => format!("The analysis is revised; this is revision {revision}."),
    };
    answer(app, &viewer, id, (Step::Diagnose, form), stepped, told).await
}

pub(super) async fn fix(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let mut fields = form.texts(&["kind", "reference"]);
    if let Some(text) = form.text("fixedAt") {
        fields.insert("fixedAt".into(), Value::String(in_utc(&text)));
    }
    let stepped = incident_steps::fix(
        State(Arc::clone(&app)),
        caller,
        request,
        Ok(Path(id.clone())),
        Ok(form::body(fields)),
    )
    .await;
    let told = |_: &IncidentEntry| "The fix is named: letters that died before it may go back.".to_owned();
    answer(app, &viewer, id, (Step::Fix, form), stepped, told).await
}

pub(super) async fn assign(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let me = || Value::String(viewer.caller.name.clone());
    let assignee = match form.is_checked("me") {
        true => me(),
        false => form.text("assignee").map_or(Value::Null, Value::String),
    };
    let fields = serde_json::Map::from_iter([("assignee".to_owned(), assignee)]);
    let stepped = incident_steps::assign(
        State(Arc::clone(&app)),
        caller,
        request,
        Ok(Path(id.clone())),
        Ok(form::body(fields)),
    )
    .await;
    let told = |entry: &IncidentEntry| match &entry.incident.assignee {
        Some(who) => format!("{who} looks after this incident."),
        None => "Nobody looks after this incident now.".to_owned(),
    };
    answer(app, &viewer, id, (Step::Assign, form), stepped, told).await
}

pub(super) async fn note(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = form::body(form.texts(&["text"]));
    let stepped =
        incident_steps::note(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), Ok(body)).await;
    answer(app, &viewer, id, (Step::Note, form), stepped, |_| "The note is on the timeline.".to_owned()).await
}

pub(super) async fn close(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = form::body(form.texts(&["reason"]));
    let stepped =
        incident_steps::close(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), Ok(body)).await;
    answer(app, &viewer, id, (Step::Close, form), stepped, |_| "The incident is closed.".to_owned()).await
}

/// Back to the incident if it was done; otherwise the page again, with what was typed.
async fn answer(
    app: Arc<App>,
    viewer: &Viewer,
    id: String,
    (step, form): (Step, Form),
    stepped: Stepped,
    told: impl Fn(&IncidentEntry) -> String,
) -> Result<Response, Problem> {
    match stepped {
        Ok(Json(entry)) => Ok(done(&format!("/incidents/{}", entry.incident.id), &told(&entry))),
        Err(problem) => page(app, viewer, id, Some(Refused { step, problem, form })).await,
    }
}

/// A time as a browser's field gives it, which has no zone: the page says that it is UTC.
fn in_utc(text: &str) -> String {
    let zoned = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
    zoned.into_iter().find(|text| Time::parse(text).is_ok()).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_zone_is_utc() {
        for (typed, meant) in [
            ("2026-11-15T03:00", "2026-11-15T03:00:00.000Z"),
            ("2026-11-15T03:00:30", "2026-11-15T03:00:30.000Z"),
            ("2026-11-15T03:00:00+01:00", "2026-11-15T02:00:00.000Z"),
        ] {
            assert_eq!(Time::parse(&in_utc(typed)).unwrap().to_string(), meant, "{typed}");
        }
        assert_eq!(in_utc("yesterday"), "yesterday");
    }
}
