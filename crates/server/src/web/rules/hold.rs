//! One hold: why it is there, the letters under it, and its release.

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};

use super::ADDRESS;
use crate::access::Permission;
use crate::api::holds;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::wire::LetterSummary;
use crate::api::wire::hold::{HoldDetail, HoldRecordBody};
use crate::app::App;
use crate::web::asked::Asked;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "hold.html")]
struct OneHold {
    shell: Shell,
    hold: HoldRecordBody,
    letters: Vec<LetterSummary>,
    next: Option<String>,
    reason: String,
    hindrance: Option<String>,
}

type Id = Result<Path<String>, PathRejection>;

pub(super) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    page(&app, &viewer, &id, &Asked::read(pairs)?, None).await
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    asked: &Asked,
    refused: Option<(Problem, &Form)>,
) -> Result<Response, Problem> {
    let path = Ok(Path(id.to_owned()));
    let HoldDetail { hold, items, next_cursor } =
        holds::show(State(Arc::clone(app)), path, asked.pairs(&["cursor"])).await?.0;
    let problem = refused.as_ref().map(|(problem, _)| problem);
    let page = OneHold {
        shell: Shell::new(app, viewer, "Hold", ADDRESS).await?.with(problem),
        next: next_cursor
            .map(|cursor| asked.with(&format!("/rules/holds/{}", hold.id), &[], "cursor", &cursor)),
        letters: items,
        reason: refused.as_ref().map(|(_, form)| form.get("reason").to_owned()).unwrap_or_default(),
        hindrance: viewer
            .hindrance(Permission::Decide)
            .or_else(|| hold.released_at.as_ref().map(|_| "already released".to_owned())),
        hold,
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn release(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = Ok(form::body(form.texts(&["reason"])));
    match holds::release(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), body).await {
        Ok(_) => Ok(done(&format!("/rules/holds/{id}"), "Hold released.")),
        Err(problem) => page(&app, &viewer, &id, &Asked::default(), Some((problem, &form))).await,
    }
}
