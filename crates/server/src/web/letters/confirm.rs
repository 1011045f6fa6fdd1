//! Before something is done to many letters: how many they are, what it means, and the reason for it.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use lazaret_store::decision::Verb;
use serde_json::json;

use super::bulk::{Many, label, read_verb};
use super::{counted, filter, letters_of};
use crate::access::Permission;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::reveal;
use crate::app::App;
use crate::retention::Policies;
use crate::web::form::Form;
use crate::web::format as filters;
use crate::web::format::{encoded, grouped, length};
use crate::web::frame::Page;
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "letters_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    action: &'static str,
    label: &'static str,
    kind: &'static str,
    meaning: String,
    /// The letters that were chosen; none if all that match are meant.
    letters: Vec<String>,
    q: String,
    back: String,
    count: u64,
    counted: String,
    /// Whether nobody knows how many match.
    uncounted: bool,
    reason: String,
    reason_needed: bool,
    typed_count: String,
    hindrance: Option<String>,
}

/// Asks about all letters that match.
pub(crate) async fn all(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let pairs = pairs?.0;
    let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let q = get("q").unwrap_or(filter::DEFAULT).trim().to_owned();
    if get("action") == Some("redrive") {
        return Ok(Redirect::to(&format!("/redrives/new?q={}", encoded(&q))).into_response());
    }
    // The answer about chosen letters has this address too, and people load it again.
    let Some(action) = get("action") else { return Ok(Redirect::to("/letters").into_response()) };
    let verb = read_verb(action)?;
    render(&app, &viewer, verb, &Many::Matching(q), &Form::default(), None).await
}

/// Asks about the letters that were chosen.
pub(crate) async fn chosen(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    let verb = read_verb(form.get("action"))?;
    let many = Many::read(&form)?;
    render(&app, &viewer, verb, &many, &form, None).await
}

/// The question; with what was refused and what was typed, if it was answered before.
pub(super) async fn render(
    app: &Arc<App>,
    viewer: &Viewer,
    verb: Verb,
    many: &Many,
    form: &Form,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let (letters, q, total) = match many {
        Many::Chosen(letters, q) => (letters.clone(), q.clone(), None),
        Many::Matching(q) => {
            let (caller, filter) = (Extension(viewer.caller.clone()), Json(json!({ "q": q })));
            let total = reveal::count(State(Arc::clone(app)), caller, Ok(filter)).await?.0;
            (Vec::new(), q.clone(), Some(total))
        }
    };
    let count = total.as_ref().map_or(letters.len() as u64, |total| total.total);
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let title = format!("{} {}", label(verb), letters_of(count));
    let shell = Shell::new(app, viewer, title, "/letters").await?.with(problem);
    let page = ConfirmPage {
        shell,
        action: verb.name(),
        label: label(verb),
        kind: if matches!(verb, Verb::Discard | Verb::Delete) { "danger" } else { "primary" },
        meaning: meaning(verb, app),
        back: format!("/letters?q={}", encoded(&q)),
        q,
        count,
        counted: total.as_ref().map_or_else(|| letters_of(count), counted),
        uncounted: total.is_some_and(|total| total.total_is_at_least.is_some()),
        reason: form.get("reason").to_owned(),
        reason_needed: verb == Verb::Hold || verb == Verb::Delete && letters.is_empty(),
        typed_count: form.get("count").to_owned(),
        hindrance: viewer.hindrance(Permission::Decide),
        letters,
    };
    Ok((status, Page(page)).into_response())
}

impl ConfirmPage {
    fn number(&self) -> String {
        grouped(self.count)
    }

    fn letters_of_count(&self) -> String {
        letters_of(self.count)
    }

    fn is_all(&self) -> bool {
        self.letters.is_empty()
    }

    fn is_wrong(&self, field: &str) -> bool {
        self.shell.trouble.as_ref().is_some_and(|trouble| trouble.field.as_deref() == Some(field))
    }
}

fn meaning(verb: Verb, app: &App) -> String {
    match verb {
        Verb::Resolve => "Marks the letters as resolved. They are not sent again.".into(),
        Verb::Discard => {
            "Discarded letters are never sent again. They stay readable and can be reopened.".into()
        }
        Verb::Reopen => "Reopened letters are pending again.".into(),
        Verb::Hold => "Prevents discard, archive and deletion until released.".into(),
        Verb::Release => "Allows discard, archive and deletion again.".into(),
        Verb::Delete => {
            let floor = length(Policies::of(&app.config).longest_floor_ms());
            format!(
                "Letters that died less than {floor} ago move to the archive and can be restored; older letters are \
                 deleted permanently."
            )
        }
        Verb::Retry => "Sends the letters to their destinations.".into(),
        Verb::Restore => "Restores the letters in their previous state.".into(),
    }
}
