//! Reveals one letter on its page: the form sends the reason, and the answer shows the letter as it is, once.
//!
//! There is no address to come back to: whoever loads the page again sees it masked.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lazaret_core::id::LetterId;

use super::form::Form;
use super::format as filters;
use super::frame::Page;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::{Lives, parse_id};
use crate::api::problem::Problem;
use crate::api::reveal::Reveal;
use crate::api::wire::entry::LetterEntry;
use crate::app::App;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/letters/{id}/reveal", post(show))
}

/// A live letter as it is, for a viewer who may see it and says why; on record.
pub(crate) async fn reveal(
    app: &App,
    viewer: &Viewer,
    id: LetterId,
    reason: &str,
) -> Result<LetterEntry, Problem> {
    Reveal::new(app, &viewer.caller, &viewer.request, reason)?.letter(id, Lives::Kept).await
}

#[derive(Template)]
#[template(path = "revealed.html")]
struct Revealed {
    shell: Shell,
    id: String,
    /// What was typed, if it was refused.
    reason: String,
    /// Why the viewer may not.
    hindrance: Option<String>,
    letter: Option<Laid>,
}

/// A revealed letter, its JSON in lines.
struct Laid {
    entry: LetterEntry,
    payload: String,
    context: Option<String>,
}

async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let id = parse_id(id)?;
    let reason = form.text("reason").unwrap_or_default();
    let shell = Shell::new(&app, &viewer, format!("Letter {id}, revealed"), "/letters").await?;
    let hindrance = viewer.hindrance(Permission::Reveal);
    match reveal(&app, &viewer, id, &reason).await {
        Ok(entry) => {
            let letter = Some(Laid::new(entry));
            let page = Revealed { shell, id: id.to_string(), reason, hindrance, letter };
            Ok(Page(page).into_response())
        }
        Err(problem) if problem.field().is_some() => {
            let shell = shell.with(Some(&problem));
            let page = Revealed { shell, id: id.to_string(), reason, hindrance, letter: None };
            Ok((problem.status(), Page(page)).into_response())
        }
        Err(problem) => Err(problem),
    }
}

impl Laid {
    fn new(entry: LetterEntry) -> Laid {
        let context = entry.summary.error.context.as_ref().map(|raw| laid_out(raw.get()));
        Laid { payload: laid_out(entry.original_event.get()), context, entry }
    }
}

/// JSON in lines; as it is written where that cannot be done without changing a number.
fn laid_out(raw: &str) -> String {
    crate::api::wire::edit::laid_out(raw)
}
