//! Dead-letter queues at the broker of a source: what could be captured, and what is.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use lazaret_sources::{FoundQueue, SourceError};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Code, Problem};
use super::sources::unknown;
use crate::app::App;

#[derive(Serialize, ToSchema)]
pub(crate) struct SourceQueues {
    pub source: String,
    /// Whether the broker can be asked: RabbitMQ needs `management.url`.
    pub known: bool,
    /// Fullest first.
    pub items: Vec<SourceQueue>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceQueue {
    pub queue: String,
    /// Messages in it; null while the broker has not counted them.
    pub depth: Option<u64>,
    /// Messages per second that arrive there.
    pub publish_rate: f64,
    /// Messages per second that are taken from there.
    pub deliver_rate: f64,
    pub consumers: Option<u64>,
    /// Queues that dead-letter into it; empty for a queue that is known by its name alone.
    pub fed_by: Vec<String>,
    /// Whether this source captures from it.
    pub captured: bool,
}

/// Lists the queues of a source's broker that seem to hold dead letters.
#[utoipa::path(
    get,
    path = "/api/v1/sources/{name}/queues",
    tag = "sources",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = SourceQueues),
        (status = 404, description = "not_found"),
        (status = 503, description = "source_unavailable: the broker is unreachable or refuses the request")
    )
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<SourceQueues>, Problem> {
    let Path(name) = name?;
    let found = match app.sources.get(&name) {
        Some(running) => running.source.discover().await.map_err(|error| unavailable(&error))?,
        None if app.config.sources.contains_key(&name) || name == crate::jobs::SOURCE => None,
        None => return Err(unknown(&app, &name)),
    };
    let known = found.is_some();
    let items = found.unwrap_or_default().into_iter().map(SourceQueue::from).collect();
    Ok(Json(SourceQueues { source: name, known, items }))
}

fn unavailable(error: &SourceError) -> Problem {
    Problem::new(Code::SourceUnavailable, error.to_string())
}

impl From<FoundQueue> for SourceQueue {
    fn from(found: FoundQueue) -> SourceQueue {
        SourceQueue {
            queue: found.name,
            depth: found.depth,
            publish_rate: found.publish_rate,
            deliver_rate: found.deliver_rate,
            consumers: found.consumers,
            fed_by: found.fed_by,
            captured: found.is_captured,
        }
    }
}
