//! Retention: the policy of every queue, where each setting comes from, and what would go now.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use lazaret_core::lifecycle::Status;
use serde_json::Value;

use super::{ADDRESS, View};
use crate::access::Permission;
use crate::api::guard;
use crate::api::problem::Problem;
use crate::api::retention::{self, PruneBody, QueueRetentionBody, RetentionBody, SettingBody};
use crate::app::App;
use crate::web::asked::Asked;
use crate::web::form::Form;
use crate::web::format as filters;
use crate::web::format::grouped;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "rules_retention.html")]
struct Retention {
    shell: Shell,
    tabs: Vec<Tab>,
    retention: RetentionBody,
    /// What would go now, if that was asked for.
    preview: Option<PruneBody>,
    hindrance: Option<String>,
    source: String,
    queue: String,
}

impl Retention {
    /// The settings of a queue in the order in which they matter.
    fn settings<'a>(&self, queue: &'a QueueRetentionBody) -> [(&'static str, &'a SettingBody); 6] {
        [
            ("max_age", &queue.max_age),
            ("max_count", &queue.max_count),
            ("min_age", &queue.min_age),
            ("pruning_policy", &queue.pruning_policy),
            ("resolved_max_age", &queue.resolved_max_age),
            ("discarded_max_age", &queue.discarded_max_age),
        ]
    }

    /// Live letters of a queue that are in one of the states, with their number.
    fn letters(&self, queue: &QueueRetentionBody) -> Vec<(&'static str, u64)> {
        let count =
            |status: Status| (status.name(), queue.letters.get(status.name()).and_then(Value::as_u64));
        let known = Status::ALL.into_iter().map(count);
        known.filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?))).collect()
    }

    /// The letters of a queue, as the filter says it.
    fn filter(&self, queue: &QueueRetentionBody) -> String {
        filter_of(&[("source", &queue.source), ("queue", &queue.queue)])
    }
}

/// A filter that asks for these values, quoted as its text form wants them.
fn filter_of(parts: &[(&str, &str)]) -> String {
    let pairs = parts.iter().map(|(key, value)| (*key, *value));
    lazaret_core::filter::Filter::from_query(pairs).map(|filter| filter.to_string()).unwrap_or_default()
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    refused: Option<Problem>,
) -> Result<Response, Problem> {
    let retention = retention::show(State(Arc::clone(app)), asked.pairs(&["source", "queue"])).await?.0;
    let (preview, failed) = match asked.get("preview") {
        Some(_) => match preview(app, viewer).await {
            Ok(found) => (Some(found), None),
            Err(problem) => (None, Some(problem)),
        },
        None => (None, None),
    };
    let problem = refused.or(failed);
    let page = Retention {
        shell: Shell::new(app, viewer, "Retention", ADDRESS).await?.with(problem.as_ref()),
        tabs: View::Retention.tabs(),
        retention,
        preview,
        hindrance: viewer.hindrance(Permission::Decide),
        source: asked.text("source"),
        queue: asked.text("queue"),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

/// What would go now. It reads many letters, and the API asks for the same permission.
async fn preview(app: &Arc<App>, viewer: &Viewer) -> Result<PruneBody, Problem> {
    guard::may(&viewer.caller, Permission::Decide)?;
    let caller = Extension(viewer.caller.clone());
    let wish = Bytes::from_static(br#"{"dryRun": true}"#);
    Ok(retention::prune(State(Arc::clone(app)), caller, Ok(wish)).await?.0)
}

pub(super) async fn prune(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    _form: Form,
) -> Result<Response, Problem> {
    let caller = Extension(viewer.caller.clone());
    match retention::prune(State(Arc::clone(&app)), caller, Ok(Bytes::new())).await {
        Ok(pruned) => {
            let (archived, deleted) = (grouped(pruned.archived), grouped(pruned.deleted));
            let rest = if pruned.complete { "" } else { " The rest is pruned in the background." };
            Ok(done(
                "/rules?view=retention",
                &format!("Pruned: {archived} letters archived, {deleted} deleted.{rest}"),
            ))
        }
        Err(problem) => page(&app, &viewer, &Asked::default(), Some(problem)).await,
    }
}
