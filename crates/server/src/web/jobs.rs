//! Jobs: the queues, the workers, and the jobs themselves, each under its own tab.
//!
//! What is shown and done is made by the functions behind `/ojs/v1/admin`.

mod list;
mod queues;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};

use super::asked::Asked;
use super::tabs::{Tab, tabs};
use super::viewer::Viewer;
use crate::api::letters::Pairs;
use crate::api::problem::{Code, Problem};
use crate::app::App;
use crate::raw_json::shown;

const ADDRESS: &str = "/jobs";

/// The tabs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum View {
    Queues,
    Workers,
    Jobs,
}

impl View {
    const ALL: [View; 3] = [View::Queues, View::Workers, View::Jobs];

    const fn name(self) -> &'static str {
        match self {
            View::Queues => "queues",
            View::Workers => "workers",
            View::Jobs => "jobs",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            View::Queues => "Queues",
            View::Workers => "Workers",
            View::Jobs => "Jobs",
        }
    }

    fn tabs(self) -> Vec<Tab> {
        tabs(ADDRESS, &View::ALL.map(|view| (view.name(), view.label())), self.name())
    }
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/jobs", get(show))
        .route("/jobs/queues/pause", post(queues::pause))
        .route("/jobs/queues/resume", post(queues::resume))
        .route("/jobs/workers/quiet", post(workers::quiet))
        .route("/jobs/workers/resume", post(workers::resume))
        .route("/jobs/workers/terminate", post(workers::terminate))
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    let view = match asked.get("view") {
        None => View::Queues,
        Some(name) => View::ALL.into_iter().find(|view| view.name() == name).ok_or_else(|| {
            Problem::new(Code::NotFound, format!("unknown jobs view `{}`", shown(name)))
                .hint("views: queues, workers, jobs")
        })?,
    };
    match view {
        View::Queues => queues::page(&app, &viewer, &asked, None).await,
        View::Workers => workers::page(&app, &viewer, &asked, None).await,
        View::Jobs => list::page(&app, &viewer, &asked).await,
    }
}
