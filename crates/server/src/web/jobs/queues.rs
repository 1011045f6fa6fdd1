//! The queues: what is in them, and whether they give jobs out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use lazaret_core::job::state::JobState;

use super::{ADDRESS, View};
use crate::access::Permission;
use crate::api::problem::Problem;
use crate::app::App;
use crate::ojs;
use crate::ojs::admin::{Pagination, QueueValue, queue_list};
use crate::web::asked::{Asked, pairs};
use crate::web::form::Form;
use crate::web::format as filters;
use crate::web::format::rounded;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

/// Rows of a page: as many as the list gives at once.
const ROWS: &str = "100";

#[derive(Template)]
#[template(path = "jobs_queues.html")]
struct Queues {
    shell: Shell,
    tabs: Vec<Tab>,
    queues: Vec<QueueValue>,
    pagination: Pagination,
    /// Why the viewer may not pause and resume.
    hindrance: Option<String>,
    /// What was typed as a queue's name.
    name: String,
}

impl Queues {
    fn states(&self) -> [&'static str; 8] {
        JobState::ALL.map(JobState::name)
    }

    fn count(&self, queue: &QueueValue, state: &str) -> u64 {
        queue.counts.get(state).copied().unwrap_or(0)
    }

    /// Jobs in a state, over the queues that are shown.
    fn sum(&self, state: &str) -> String {
        rounded(self.queues.iter().map(|queue| self.count(queue, state)).sum())
    }

    fn paused(&self) -> usize {
        self.queues.iter().filter(|queue| queue.paused).count()
    }
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    refused: Option<(Problem, &Form)>,
) -> Result<Response, Problem> {
    let number = asked.get("page").unwrap_or("1");
    let list = queue_list(app, pairs(&[("page", number), ("per_page", ROWS)])).await?;
    let problem = refused.as_ref().map(|(problem, _)| problem);
    let page = Queues {
        shell: Shell::new(app, viewer, "Jobs", ADDRESS).await?.with(problem),
        tabs: View::Queues.tabs(),
        queues: list.items,
        pagination: list.pagination,
        hindrance: viewer.hindrance(Permission::Decide),
        name: refused.as_ref().map(|(_, form)| form.get("name").to_owned()).unwrap_or_default(),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    set(&app, &viewer, &form, true).await
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    set(&app, &viewer, &form, false).await
}

async fn set(app: &Arc<App>, viewer: &Viewer, form: &Form, paused: bool) -> Result<Response, Problem> {
    let name = form.get("name").trim().to_owned();
    let path = Ok(Path(name.clone()));
    match ojs::queues::set_paused(app, &viewer.caller, &viewer.request, path, paused).await {
        Ok(_) if paused => {
            Ok(done("/jobs?view=queues", &format!("Queue {name} paused: jobs are accepted, not delivered.")))
        }
        Ok(_) => Ok(done("/jobs?view=queues", &format!("Queue {name} resumed."))),
        Err(problem) => page(app, viewer, &Asked::default(), Some((problem.into(), form))).await,
    }
}
