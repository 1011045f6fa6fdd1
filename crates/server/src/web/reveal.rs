//! Reveals one letter on its page, wherever it is: the form sends the reason, and the answer shows the letter as it is, once.
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
use lazaret_core::redaction::Redactor;
use lazaret_store::page::Original;

use super::form::Form;
use super::format as filters;
use super::frame::Page;
use super::letter::payload::{Extent, Shown, View, Viewed, Wanted};
use super::letter::room::Fitted;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::{Lives, parse_id};
use crate::api::problem::{Code, Problem};
use crate::api::reveal::Reveal;
use crate::api::wire::entry::LetterEntry;
use crate::api::{archive, letters};
use crate::app::App;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/letters/{id}/reveal", post(reveal))
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

/// A revealed letter: its error, its headers, and its body in the view that fits.
struct Laid {
    entry: LetterEntry,
    context: Option<String>,
    body: Viewed,
    headers: Vec<(Fitted, Fitted)>,
    headers_left_out: usize,
}

type Id = Result<Path<String>, PathRejection>;

async fn reveal(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let id = parse_id(id)?;
    let reason = form.text("reason").unwrap_or_default();
    let found = match live(&app, &viewer, id, &reason).await {
        Err(problem) if problem.code() == Code::NotFound => archived(&app, &viewer, id, &reason).await,
        found => found,
    };
    page(&app, &viewer, id, reason, found).await
}

type Found = Result<(LetterEntry, Original), Problem>;

async fn live(app: &App, viewer: &Viewer, id: LetterId, reason: &str) -> Found {
    let reveal = Reveal::new(app, &viewer.caller, &viewer.request, reason)?;
    let entry = reveal.letter(id, Lives::Kept).await?;
    let original = letters::found_original(app, id, Some(entry.summary.life)).await?;
    Ok((entry, original))
}

async fn archived(app: &App, viewer: &Viewer, id: LetterId, reason: &str) -> Found {
    let reveal = Reveal::new(app, &viewer.caller, &viewer.request, reason)?;
    let entry = reveal.archived(id).await?.letter;
    let original = archive::found_original(app, id, None).await?;
    Ok((entry, original))
}

/// The letter as it is, or the form once more if what was typed into it is not enough.
async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    id: LetterId,
    reason: String,
    found: Found,
) -> Result<Response, Problem> {
    let (letter, problem) = match found {
        Ok((entry, original)) => (Some(Laid::new(entry, original).await?), None),
        Err(problem) if problem.field().is_some() => (None, Some(problem)),
        Err(problem) => return Err(problem),
    };
    let title = format!("Letter {id}, revealed");
    let page = Revealed {
        shell: Shell::new(app, viewer, title, "/letters").await?.with(problem.as_ref()),
        id: id.to_string(),
        reason,
        hindrance: viewer.hindrance(Permission::Reveal),
        letter,
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

impl Laid {
    async fn new(entry: LetterEntry, original: Original) -> Result<Laid, Problem> {
        let context = entry.summary.error.context.as_ref().map(|raw| laid_out(raw.get()));
        let shown = Shown::of(original.envelope, &Arc::new(Redactor::off())).await?;
        let body = shown.view(Wanted { extent: Extent::Whole, ..Wanted::default() });
        let (headers, headers_left_out) = shown.header_rows();
        Ok(Laid { entry, context, body, headers, headers_left_out })
    }
}

/// JSON in lines; as it is written where that cannot be done without changing a number.
fn laid_out(raw: &str) -> String {
    crate::api::wire::edit::laid_out(raw)
}
