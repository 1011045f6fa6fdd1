//! The workers: who there is, what they have at hand, and what they are told.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use lazaret_store::worker::Wish;

use super::{ADDRESS, View};
use crate::access::Permission;
use crate::api::problem::Problem;
use crate::app::App;
use crate::ojs::admin::Pagination;
use crate::ojs::admin::workers::{WorkerValue, wish, worker_list};
use crate::web::asked::{Asked, pairs};
use crate::web::form::Form;
use crate::web::format as filters;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

/// Rows of a page: as many as the list gives at once.
const ROWS: &str = "100";

#[derive(Template)]
#[template(path = "jobs_workers.html")]
struct Workers {
    shell: Shell,
    tabs: Vec<Tab>,
    workers: Vec<WorkerValue>,
    /// How many are in each state.
    summary: Vec<(String, u64)>,
    pagination: Pagination,
    hindrance: Option<String>,
    /// The worker that is about to be told to terminate.
    terminating: Option<String>,
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let number = asked.get("page").unwrap_or("1");
    let list = worker_list(app, pairs(&[("page", number), ("per_page", ROWS)])).await?;
    let summary = list.summary.iter().filter(|(name, _)| *name != "total");
    let page = Workers {
        shell: Shell::new(app, viewer, "Workers", ADDRESS).await?.with(problem),
        tabs: View::Workers.tabs(),
        workers: list.items,
        summary: summary.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0))).collect(),
        pagination: list.pagination,
        hindrance: viewer.hindrance(Permission::Decide),
        terminating: asked.get("terminate").map(str::to_owned),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn quiet(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    tell(&app, &viewer, &form, Wish::Quiet, "is quiet: it finishes active jobs and fetches no new ones").await
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    tell(&app, &viewer, &form, Wish::Running, "is running again").await
}

pub(super) async fn terminate(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    tell(&app, &viewer, &form, Wish::Terminate, "terminates with its next heartbeat").await
}

async fn tell(
    app: &Arc<App>,
    viewer: &Viewer,
    form: &Form,
    wished: Wish,
    what: &str,
) -> Result<Response, Problem> {
    // Workers choose their own names, which may begin or end with a space.
    let name = form.get("worker").to_owned();
    match wish(app, &viewer.caller, &viewer.request, Ok(Path(name.clone())), wished).await {
        Ok(_) => Ok(done("/jobs?view=workers", &format!("Worker {name} {what}."))),
        Err(problem) => page(app, viewer, &Asked::default(), Some(&problem.into())).await,
    }
}
