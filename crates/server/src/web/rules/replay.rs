//! Replay rules: what goes back by itself, whether it does, and what it has done.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};

use super::{ADDRESS, View};
use crate::access::Permission;
use crate::api::letters::read_filter;
use crate::api::problem::Problem;
use crate::api::rules::{self, ReplayRuleBody};
use crate::app::App;
use crate::web::form::Form;
use crate::web::format as filters;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "rules_replay.html")]
struct Replay {
    shell: Shell,
    tabs: Vec<Tab>,
    rules: Vec<Rule>,
    hindrance: Option<String>,
}

/// A rule with its filter as people write it.
struct Rule {
    body: ReplayRuleBody,
    filter: String,
    /// The filter of the letters that lie in wait for it.
    waiting: String,
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let listed = rules::list(State(Arc::clone(app))).await?.0;
    let mut rules = Vec::with_capacity(listed.items.len());
    for body in listed.items {
        let configured = app.config.replay_rules.iter().find(|rule| rule.name == body.name);
        rules.push(Rule {
            filter: read_filter(&body.filter)?.to_string(),
            waiting: configured.map(|rule| rule.waiting().to_string()).unwrap_or_default(),
            body,
        });
    }
    let page = Replay {
        shell: Shell::new(app, viewer, "Rules", ADDRESS).await?.with(problem),
        tabs: View::Replay.tabs(),
        rules,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn enable(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let name = Ok(Path(form.get("name").to_owned()));
    let switched = rules::enable(State(Arc::clone(&app)), caller, request, name).await;
    answer(&app, &viewer, switched.map(|body| body.0)).await
}

pub(super) async fn disable(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let name = Ok(Path(form.get("name").to_owned()));
    let switched = rules::disable(State(Arc::clone(&app)), caller, request, name).await;
    answer(&app, &viewer, switched.map(|body| body.0)).await
}

async fn answer(
    app: &Arc<App>,
    viewer: &Viewer,
    switched: Result<ReplayRuleBody, Problem>,
) -> Result<Response, Problem> {
    match switched {
        Ok(rule) => {
            let word = if rule.enabled { "enabled" } else { "disabled" };
            Ok(done("/rules?view=replay", &format!("Replay rule {} is {word}.", rule.name)))
        }
        Err(problem) => page(app, viewer, Some(&problem)).await,
    }
}
