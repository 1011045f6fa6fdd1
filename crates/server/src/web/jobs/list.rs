//! The jobs, newest first, by state, queue, type and worker.

use std::sync::Arc;

use askama::Template;
use axum::response::{IntoResponse, Response};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;

use super::{ADDRESS, View};
use crate::api::problem::Problem;
use crate::app::App;
use crate::ojs::admin::jobs::{JobPage, job_page};
use crate::ojs::admin::{Pagination, queue_list};
use crate::web::asked::{Asked, pairs};
use crate::web::format as filters;
use crate::web::frame::Page;
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

/// What narrows the list.
const KEYS: [&str; 5] = ["view", "state", "queue", "type", "worker"];

/// What the list is asked for.
const ASKED: [&str; 5] = ["state", "queue", "type", "worker", "cursor"];

/// Names of queues that are offered while one is typed.
const QUEUES_OFFERED: &str = "100";

#[derive(Template)]
#[template(path = "jobs_list.html")]
struct Jobs {
    shell: Shell,
    tabs: Vec<Tab>,
    jobs: Vec<Job>,
    pagination: Option<Pagination>,
    queues: Vec<String>,
    state: String,
    queue: String,
    job_type: String,
    worker: String,
    /// Whether anything narrows the list.
    narrowed: bool,
    /// Whether this is not the first page.
    further: bool,
    first: String,
    next: Option<String>,
}

impl Jobs {
    fn states(&self) -> [&'static str; 8] {
        JobState::ALL.map(JobState::name)
    }
}

pub(super) async fn page(app: &Arc<App>, viewer: &Viewer, asked: &Asked) -> Result<Response, Problem> {
    let queues = queue_list(app, pairs(&[("per_page", QUEUES_OFFERED)])).await?;
    let found = job_page(app, asked.pairs(&ASKED)).await.map_err(Problem::from);
    let (jobs, pagination, problem) = match found {
        Ok(JobPage { jobs, pagination }) => (jobs, Some(pagination), None),
        // What was typed stays, so that it can be corrected.
        Err(problem) => (Vec::new(), None, Some(problem)),
    };
    let next = pagination.as_ref().and_then(|pagination| pagination.next_cursor.as_deref());
    let page = Jobs {
        shell: Shell::new(app, viewer, "Jobs", ADDRESS).await?.with(problem.as_ref()),
        tabs: View::Jobs.tabs(),
        jobs,
        queues: queues
            .items
            .into_iter()
            .map(|queue| queue.name)
            .filter(|name| filters::visible(name) == *name)
            .collect(),
        state: asked.text("state"),
        queue: asked.text("queue"),
        job_type: asked.text("type"),
        worker: asked.text("worker"),
        narrowed: ASKED[..4].iter().any(|name| asked.get(name).is_some()),
        further: asked.get("cursor").is_some(),
        first: asked.with(ADDRESS, &KEYS, "view", View::Jobs.name()),
        next: next.map(|cursor| asked.with(ADDRESS, &KEYS, "cursor", cursor)),
        pagination,
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}
