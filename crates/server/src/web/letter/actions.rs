//! What can be done with a letter, and doing it. What cannot be done is shown with the reason.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use lazaret_core::lifecycle::{Action, Place, Standing, Status};
use lazaret_store::decision::Verb;
use serde_json::Value;

use super::{Asked, Found, render};
use crate::access::Permission;
use crate::api::problem::{Code, Problem};
use crate::api::wire::LetterSummary;
use crate::api::wire::redrive::RedriveBody;
use crate::api::{decisions, holds, retry as retries};
use crate::app::App;
use crate::jobs::SOURCE;
use crate::redrive;
use crate::web::form::{self, Form};
use crate::web::format::beginning;
use crate::web::frame::done;
use crate::web::viewer::Viewer;

/// Decisions that need nothing but a reason.
pub(crate) const PLAIN: [Verb; 6] =
    [Verb::Resolve, Verb::Discard, Verb::Reopen, Verb::Release, Verb::Delete, Verb::Restore];

/// A decision as the page offers it.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub name: &'static str,
    pub label: &'static str,
    pub meaning: &'static str,
    pub kind: &'static str,
    /// Why it cannot be taken.
    pub hindrance: Option<String>,
}

/// Everything that may be done with a letter, or why not.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    pub plain: Vec<Door>,
    pub retry: Option<String>,
    pub edit: Option<String>,
    pub hold: Option<String>,
    /// Where a retry goes.
    pub way: Option<String>,
    /// Why the gate is shut.
    pub shut: Option<Closed>,
    /// Whether the viewer may pass it by force.
    pub glass: bool,
}

/// A gate that is shut.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub why: String,
    /// What opens it.
    pub hint: &'static str,
}

/// What somebody typed into one of the forms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typed {
    pub action: &'static str,
    pub form: Form,
}

impl Typed {
    /// What stands in a field of a form: empty in those that were not sent.
    pub fn value(&self, action: &str, field: &str) -> &str {
        if self.action == action { self.form.get(field) } else { "" }
    }

    pub fn is(&self, action: &str) -> bool {
        self.action == action
    }
}

const fn words(verb: Verb) -> (&'static str, &'static str, &'static str) {
    match verb {
        Verb::Resolve => ("Resolve", "Marks the letter as resolved. It is not sent again.", ""),
        Verb::Discard => (
            "Discard",
            "A discarded letter is never sent again. It stays readable and can be reopened.",
            "danger",
        ),
        Verb::Reopen => ("Reopen", "A reopened letter is pending again.", ""),
        Verb::Hold => ("Hold", "Prevents discard, archive and deletion until released.", ""),
        Verb::Release => ("Release", "Allows discard, archive and deletion again.", ""),
        Verb::Retry => ("Retry", "Sends the letter to its destination.", "primary"),
        Verb::Delete => (
            "Delete",
            "A letter that died recently moves to the archive and can be restored; an older one is deleted \
             permanently.",
            "danger",
        ),
        Verb::Restore => ("Restore", "Restores the letter in its previous state.", "primary"),
    }
}

/// How a decision reads when it was taken.
pub(crate) const fn past(verb: Verb) -> &'static str {
    match verb {
        Verb::Resolve => "resolved",
        Verb::Discard => "discarded",
        Verb::Reopen => "reopened",
        Verb::Hold => "held",
        Verb::Release => "released",
        Verb::Retry => "sent",
        Verb::Delete => "deleted",
        Verb::Restore => "restored",
    }
}

fn standing(summary: &LetterSummary) -> Standing {
    Standing {
        status: Status::parse(summary.status).unwrap_or(Status::Pending),
        place: Place::parse(summary.place).unwrap_or(Place::Live),
        held: summary.hold.is_some(),
        // What is shown has its content.
        content_kept: true,
    }
}

impl Doors {
    pub(super) async fn of(app: &App, viewer: &Viewer, found: &Found) -> Result<Doors, Problem> {
        let summary = &found.entry.summary;
        let standing = standing(summary);
        let hindered = viewer.hindrance(Permission::Decide);
        let against = |action: Action| {
            hindered.clone().or_else(|| standing.after(action).err().map(|refused| refused.to_string()))
        };
        let plain = PLAIN.into_iter().map(|verb| {
            let (label, meaning, kind) = words(verb);
            Door { name: verb.name(), label, meaning, kind, hindrance: against(verb.action()) }
        });
        let way = app.destinations.of(&summary.source, summary.subscriber_id.as_deref());
        let (way, lost) = match way {
            Ok(named) => (Some(format!("{} ({})", named.name, named.address())), None),
            // It names the subscriber, whom a stranger named.
            Err(why) => (None, Some(beginning(&format!("{why}; {}", why.hint()), 300))),
        };
        // The API tells of the gate only by refusing, and a page says it before.
        let shut = match app.store.history(found.id).await? {
            Some(history) => redrive::shut_for(app, &history.letter).await?,
            None => None,
        };
        let shut = shut.map(|one| Closed { why: one.shut.to_string(), hint: one.shut.hint() });
        let glass = viewer.may(Permission::Administer);
        let barred = match (&shut, glass) {
            (Some(closed), false) => Some(closed.why.clone()),
            (Some(_), true) | (None, _) => None,
        };
        let sending = against(Action::Redrive).or(barred);
        // A changed job goes by the way of the specification, which knows no force.
        let of_job = shut.as_ref().filter(|_| summary.source == SOURCE);
        let of_job = of_job.map(|closed| format!("{}; no emergency override for edited jobs", closed.why));
        Ok(Doors {
            plain: plain.collect(),
            retry: sending.clone().or(lost),
            // Another destination can be named in an edit.
            edit: sending.or(of_job),
            // One in the archive is held by its id alone, whatever its state.
            hold: if found.removal.is_some() { hindered } else { against(Action::Hold) },
            way,
            shut,
            glass,
        })
    }
}

/// Takes a decision that needs nothing but a reason.
pub(crate) async fn decide(
    verb: Verb,
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let body = form::body(form.texts(&["reason"]));
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let state = State(Arc::clone(&app));
    match decisions::by_id(verb, state, caller, request, Ok(Path(id.clone())), Ok(body)).await {
        Ok(_) if verb == Verb::Delete => Ok(done(
            "/letters",
            &format!("Letter {id} deleted. It can be restored from the archive while its content is kept."),
        )),
        Ok(_) => Ok(done(&format!("/letters/{id}"), &format!("Letter {}.", past(verb)))),
        Err(problem) => refused(&app, &viewer, &id, problem, Typed { action: verb.name(), form }).await,
    }
}

/// Holds a letter, perhaps for a while.
pub(crate) async fn hold(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let mut wish = form.texts(&["reason", "until"]);
    wish.insert("letterId".into(), Value::String(id.clone()));
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    match holds::place(State(Arc::clone(&app)), caller, request, Ok(form::body(wish))).await {
        Ok(_) => Ok(done(&format!("/letters/{id}"), "Letter held.")),
        Err(problem) => refused(&app, &viewer, &id, problem, Typed { action: "hold", form }).await,
    }
}

/// Sends a letter as it is.
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let body = form::body(form.texts(&["reason", "breakGlass"]));
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    match retries::retry(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), Ok(body)).await {
        Ok((_, _, redrive)) => Ok(done(&format!("/letters/{id}"), told(&redrive))),
        Err(problem) => refused(&app, &viewer, &id, problem, Typed { action: "retry", form }).await,
    }
}

/// What became of a letter that was sent by itself.
pub(super) fn told(redrive: &RedriveBody) -> &'static str {
    let letters = &redrive.letters;
    match () {
        () if letters.succeeded + letters.assumed > 0 => "Delivered and resolved.",
        () if letters.failed + letters.relapsed > 0 => {
            "Rejected by the destination. The letter is pending again."
        }
        () if letters.unknown > 0 => "Outcome unknown: settle it on the redrive page.",
        () => "Letter sent. The redrive page shows the outcome.",
    }
}

/// The page again, with the reason, and with what was typed. A letter that is not there has no page.
async fn refused(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    problem: Problem,
    typed: Typed,
) -> Result<Response, Problem> {
    match problem.code() {
        Code::BadId => Err(problem),
        _ => render(app, viewer, id, Asked::default(), Some((problem, typed))).await,
    }
}
