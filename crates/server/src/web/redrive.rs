//! One redrive, from the choice of its letters to what became of them: select, dry run, launch, then the run.
//!
//! What a redrive may do is asked of the API; these pages only show it.

mod letters;
mod new;
pub(in crate::web) mod outcomes;
mod plan;
mod rate;
mod run;
mod span;
mod speed;
mod trend;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use lazaret_core::redrive::RunState;

use super::form::Form;
use super::frame::Page;
use super::redrives;
use super::shell::Shell;
use super::viewer::Viewer;
use crate::api;
use crate::api::letters::Pairs;
use crate::api::problem::{Code, Problem};
use crate::api::redrives::Step;
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;

/// The id in an address.
type IdPath = Result<Path<String>, PathRejection>;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    let mut routes = routes
        .route("/redrives", get(redrives::show))
        .route("/redrives/new", get(new::show).post(new::plan))
        .route("/redrives/{id}", get(show))
        .route("/redrives/{id}/launch", post(plan::launch))
        .route("/redrives/{id}/settle", post(run::settle_all))
        .route("/redrives/{id}/letters/{letter}/settle", post(run::settle));
    for step in Step::ALL {
        routes = routes.route(
            &format!("/redrives/{{id}}/{}", step.name()),
            post(move |app, viewer, id, form| run::step(step, app, viewer, id, form)),
        );
    }
    routes
}

async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: IdPath,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    page(&app, &viewer, &id, pairs?.0, None).await
}

/// What was asked and not done, with what was typed.
type Refused<'a> = Option<(&'a Problem, &'a Form)>;

/// The page of a redrive as it stands now, with what was refused at its top.
async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    asked: Vec<(String, String)>,
    refused: Refused<'_>,
) -> Result<Response, Problem> {
    let redrive = api::redrives::show(State(Arc::clone(app)), Ok(Path(id.to_owned()))).await?.0;
    let state = RunState::parse(redrive.state)
        .ok_or_else(|| Problem::new(Code::Internal, "unknown redrive state"))?;
    let status = refused.map_or(StatusCode::OK, |(problem, _)| problem.status());
    let count = outcomes::letters(redrive.count);
    let title = match state {
        RunState::Planning => "Planning redrive".to_owned(),
        RunState::Planned => format!("Redrive plan: {count}"),
        RunState::Canary | RunState::Running | RunState::Verifying => {
            format!("{} % · Redrive of {count}", turned(&redrive))
        }
        RunState::Paused | RunState::Done | RunState::Stopped | RunState::Cancelled => {
            format!("{state} · Redrive of {count}")
        }
    };
    let shell = Shell::new(app, viewer, title, "/redrives").await?.with(refused.map(|(problem, _)| problem));
    match state {
        RunState::Planning | RunState::Planned => {
            let shown = plan::PlanPage::new(app, viewer, shell, redrive, refused).await?;
            Ok((status, Page(shown)).into_response())
        }
        RunState::Canary
        | RunState::Running
        | RunState::Paused
        | RunState::Verifying
        | RunState::Done
        | RunState::Stopped
        | RunState::Cancelled => {
            let shown = run::RunPage::new(app, viewer, shell, (redrive, state), asked, refused).await?;
            Ok((status, Page(shown)).into_response())
        }
    }
}

/// How many of a hundred letters have had their turn.
fn turned(redrive: &RedriveBody) -> u64 {
    let left = redrive.letters.waiting + redrive.letters.out;
    redrive.count.saturating_sub(left) * 100 / redrive.count.max(1)
}

/// An address with its query.
pub(super) fn address(path: &str, pairs: &[(&str, &str)]) -> String {
    if pairs.is_empty() {
        return path.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("{path}?{query}")
}
