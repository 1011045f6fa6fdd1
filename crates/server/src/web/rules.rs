//! Rules: what happens by itself, what is kept for how long, how errors are told apart, and what nobody may remove.
//!
//! Each tab shows what is in effect and where it comes from. Rules are made in the configuration; here they are only
//! switched. Holds are made here as well.

mod classes;
mod hold;
mod holds;
mod replay;
mod retention;

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

const ADDRESS: &str = "/rules";

/// The tabs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum View {
    Replay,
    Retention,
    Classes,
    Holds,
}

impl View {
    const ALL: [View; 4] = [View::Replay, View::Retention, View::Classes, View::Holds];

    const fn name(self) -> &'static str {
        match self {
            View::Replay => "replay",
            View::Retention => "retention",
            View::Classes => "classes",
            View::Holds => "holds",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            View::Replay => "Replay",
            View::Retention => "Retention",
            View::Classes => "Classes and grouping",
            View::Holds => "Holds",
        }
    }

    fn tabs(self) -> Vec<Tab> {
        tabs(ADDRESS, &View::ALL.map(|view| (view.name(), view.label())), self.name())
    }
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/rules", get(show))
        .route("/rules/replay/enable", post(replay::enable))
        .route("/rules/replay/disable", post(replay::disable))
        .route("/rules/prune", post(retention::prune))
        .route("/rules/holds", post(holds::place))
        .route("/rules/holds/{id}", get(hold::show))
        .route("/rules/holds/{id}/release", post(hold::release))
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    let view = match asked.get("view") {
        None => View::Replay,
        Some(name) => View::ALL.into_iter().find(|view| view.name() == name).ok_or_else(|| {
            Problem::new(Code::NotFound, format!("unknown rules view `{}`", shown(name)))
                .hint("views: replay, retention, classes, holds")
        })?,
    };
    match view {
        View::Replay => replay::page(&app, &viewer, None).await,
        View::Retention => retention::page(&app, &viewer, &asked, None).await,
        View::Classes => classes::page(&app, &viewer).await,
        View::Holds => holds::page(&app, &viewer, &asked, None).await,
    }
}
