//! The forms of an incident: each is the request of the API that does the same.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use lazaret_core::class::Category;
use lazaret_core::rca::FixKind;
use lazaret_core::time::Time;
use serde_json::Value;

use super::super::form::{self, Form};
use super::super::frame::done;
use super::super::viewer::Viewer;
use super::super::zone::Zone;
use super::page;
use crate::api::incident_steps::{self, Asking};
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

impl Step {
    pub const ALL: [Step; 5] = [Step::Diagnose, Step::Fix, Step::Assign, Step::Note, Step::Close];

    /// Where its form is sent to, below the incident.
    pub const fn address(self) -> &'static str {
        match self {
            Step::Diagnose => "rca",
            Step::Fix => "fix",
            Step::Assign => "assign",
            Step::Note => "notes",
            Step::Close => "close",
        }
    }
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

pub(super) async fn take(
    step: Step,
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (viewer.caller.clone(), viewer.request.clone());
    let asking = Asking::new(&app, caller, request, Ok(Path(id.clone())))?;
    let body = Ok(form::body(fields(step, &viewer, &form)));
    let stepped = match step {
        Step::Diagnose => incident_steps::diagnose(asking, body).await,
        Step::Fix => incident_steps::fix(asking, body).await,
        Step::Assign => incident_steps::assign(asking, body).await,
        Step::Note => incident_steps::note(asking, body).await,
        Step::Close => incident_steps::close(asking, body).await,
    };
    match stepped {
        Ok(Json(entry)) => Ok(done(&format!("/incidents/{}", entry.incident.id), &told(step, &entry))),
        // The page again, with what was typed.
        Err(problem) => page(app, &viewer, id, Some(Refused { step, problem, form })).await,
    }
}

/// What the form asks for, as the API reads it.
fn fields(step: Step, viewer: &Viewer, form: &Form) -> serde_json::Map<String, Value> {
    match step {
        Step::Diagnose => form.texts(&["category", "rootCause", "remediation"]),
        Step::Fix => {
            let mut fields = form.texts(&["kind", "reference"]);
            if let Some(text) = form.text("fixedAt") {
                fields.insert("fixedAt".into(), Value::String(in_utc(&text, form.text("zone").as_deref())));
            }
            fields
        }
        Step::Assign => {
            let assignee = match form.is_checked("me") {
                true => Value::String(viewer.caller.name.clone()),
                false => form.text("assignee").map_or(Value::Null, Value::String),
            };
            serde_json::Map::from_iter([("assignee".to_owned(), assignee)])
        }
        Step::Note => form.texts(&["text"]),
        Step::Close => form.texts(&["reason"]),
    }
}

fn told(step: Step, entry: &IncidentEntry) -> String {
    match (step, entry.record.rcas.len(), &entry.incident.assignee) {
        (Step::Diagnose, 1, _) => "Root cause saved.".into(),
        (Step::Diagnose, revision, _) => format!("RCA revision {revision} saved."),
        (Step::Fix, ..) => "Fix linked: letters that died before it are ready to redrive.".into(),
        (Step::Assign, _, Some(who)) => format!("Assigned to {who}."),
        (Step::Assign, _, None) => "Incident unassigned.".into(),
        (Step::Note, ..) => "Note added.".into(),
        (Step::Close, ..) => "Incident closed.".into(),
    }
}

/// A time as a browser's field gives it, which has no zone: it is meant in the one that stood beside the field.
fn in_utc(text: &str, zone: Option<&str>) -> String {
    if Time::parse(text).is_ok() {
        return text.to_owned();
    }
    let zone = zone.and_then(Zone::parse).unwrap_or_default();
    let local = [format!("{text}Z"), format!("{text}:00Z")].iter().find_map(|text| Time::parse(text).ok());
    local.map_or_else(|| text.to_owned(), |local| zone.utc(local).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_meant_in_the_zone_beside_it() {
        for (typed, zone, meant) in [
            ("2026-11-15T03:00", None, "2026-11-15T03:00:00.000Z"),
            ("2026-11-15T03:00:30", Some("nowhere"), "2026-11-15T03:00:30.000Z"),
            ("2026-11-15T03:00", Some("60"), "2026-11-15T02:00:00.000Z"),
            ("2026-11-15T03:00:30", Some("-210"), "2026-11-15T06:30:30.000Z"),
            ("2026-11-15T03:00:00+01:00", Some("-210"), "2026-11-15T02:00:00.000Z"),
        ] {
            assert_eq!(Time::parse(&in_utc(typed, zone)).unwrap().to_string(), meant, "{typed}");
        }
        assert_eq!(in_utc("yesterday", Some("60")), "yesterday");
    }
}
