//! Who did what, when and why, and whether the log of it is still what was written.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::format as filters;
use super::frame::Page;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::api::admin;
use crate::api::audit::{self, VerdictBody};
use crate::api::letters::Pairs;
use crate::api::problem::{Code, Problem};
use crate::api::wire::AuditBody;
use crate::app::App;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/audit", get(show))
}

/// What was found out about the chain.
enum Chain {
    NotAsked,
    Checked(VerdictBody),
    /// There is no key to check it with.
    NoKey(Problem),
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    items: Vec<AuditBody>,
    next_before: Option<u64>,
    /// Whether newer ones are on another page.
    later: bool,
    chain: Chain,
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let shell = Shell::new(&app, &viewer, "Audit", "/audit").await?;
    let (verify, asked): (Vec<_>, Vec<_>) = pairs?.0.into_iter().partition(|(key, _)| key == "verify");
    let later = asked.iter().any(|(key, _)| key == "before");
    let list = admin::audit(State(Arc::clone(&app)), Ok(Query(asked))).await?.0;
    let chain = match verify.is_empty() {
        true => Chain::NotAsked,
        false => match audit::verify(State(Arc::clone(&app)), Ok(Query(Vec::new()))).await {
            Ok(verdict) => Chain::Checked(verdict.0),
            Err(problem) if problem.code() == Code::NoAuditKey => Chain::NoKey(problem),
            Err(problem) => return Err(problem),
        },
    };
    let page = Audit { shell, items: list.items, next_before: list.next_before, later, chain };
    Ok(Page(page).into_response())
}
