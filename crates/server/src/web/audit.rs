//! Who did what, when and why, and whether the log of it is still what was written.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;

use super::format as filters;
use super::frame::Page;
use super::redrive::address;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::api::admin::{self, AuditList};
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
    /// What is asked for, by the names that the API has.
    asked: Vec<(String, String)>,
}

impl Audit {
    fn get(&self, key: &str) -> &str {
        self.asked.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Of the page behind this one.
    fn older(&self, before: &u64) -> String {
        let before = before.to_string();
        let asked = self.asked.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        address("/audit", &asked.chain([("before", before.as_str())]).collect::<Vec<_>>())
    }

    /// Of the newest entries, with the same question.
    fn newest(&self) -> String {
        let asked = self.asked.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        address("/audit", &asked.collect::<Vec<_>>())
    }
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let (verify, mut asked): (Vec<_>, Vec<_>) = pairs?.0.into_iter().partition(|(key, _)| key == "verify");
    // A form sends its empty fields too.
    asked.retain(|(_, value)| !value.trim().is_empty());
    let later = asked.iter().any(|(key, _)| key == "before");
    let (list, problem) = match admin::audit(State(Arc::clone(&app)), Ok(Query(asked.clone()))).await {
        Ok(list) => (list.0, None),
        Err(problem) if problem.code() == Code::BadId => (AuditList::default(), Some(problem)),
        Err(problem) => return Err(problem),
    };
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    let shell = Shell::new(&app, &viewer, "Audit", "/audit").await?.with(problem.as_ref());
    asked.retain(|(key, _)| key != "before" && key != "limit");
    let chain = match verify.is_empty() {
        true => Chain::NotAsked,
        false => match audit::verify(State(Arc::clone(&app)), Ok(Query(Vec::new()))).await {
            Ok(verdict) => Chain::Checked(verdict.0),
            Err(problem) if problem.code() == Code::NoAuditKey => Chain::NoKey(problem),
            Err(problem) => return Err(problem),
        },
    };
    let page = Audit { shell, items: list.items, next_before: list.next_before, later, chain, asked };
    Ok((status, Page(page)).into_response())
}
