//! Queues: which there are, what is in them, and whether they give jobs out.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_store::job::QueueInfo;
use serde_json::{Map, Value, json};

use super::dead_letter::retention;
use super::problem::{Code, Problem};
use super::{Answer, Pairs, Part, given, read_limit};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::jobs::SOURCE;
use crate::raw_json::shown;
use crate::retention::Policies;

/// What a queue that says nothing is: given out.
pub(super) const fn status(paused: bool) -> &'static str {
    if paused { "paused" } else { "active" }
}

pub(super) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let (mut limit, mut offset) = (limits::PAGE_ROWS, 0);
    for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key.as_str(), given(value)?))) {
        match key {
            "limit" => limit = read_limit("limit", value, limits::OJS_PAGE_ROWS_MAX)?,
            "offset" => offset = read_offset(value)?,
            _ => {}
        }
    }
    let queues = app.store.queues().await?;
    let total = queues.len();
    let page: Vec<Value> = queues
        .iter()
        .skip(offset)
        .take(limit)
        .map(|queue| {
            json!({
                "name": queue.name,
                "status": status(queue.paused),
                "created_at": queue.created_at.to_string(),
            })
        })
        .collect();
    let has_more = offset.saturating_add(page.len()) < total;
    let pagination = json!({"total": total, "limit": limit, "offset": offset, "has_more": has_more});
    let body = json!({"queues": page, "total": total, "pagination": pagination});
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// Rows to skip. They have to be looked at, so far ones are not taken.
pub(super) fn read_offset(value: &str) -> Result<usize, Problem> {
    let bad = |message: String| Problem::new(Code::InvalidRequest, message).detail("field", "offset");
    let offset: u64 =
        value.parse().map_err(|_| bad(format!("offset must be a number, got `{}`", shown(value))))?;
    usize::try_from(offset).ok().filter(|offset| *offset <= limits::OJS_OFFSET_MAX).ok_or_else(too_far)
}

pub(super) fn too_far() -> Problem {
    let max = limits::OJS_OFFSET_MAX;
    Problem::new(Code::TooMany, format!("the maximum offset is {max}"))
        .hint("continue with cursor: next_cursor of the previous page")
        .detail("field", "offset")
}

pub(super) async fn stats(State(app): State<Arc<App>>, name: Part) -> Result<Response, Problem> {
    let Path(name) = name?;
    let queue = find(&app, &name).await?;
    let policy = Policies::of(&app.config).effective(SOURCE, &queue.name);
    let mut counts = Map::new();
    for state in JobState::ALL {
        counts.insert(state.name().into(), queue.counts.get(&state).copied().unwrap_or(0).into());
    }
    let body = json!({
        "queue": queue.name,
        "status": status(queue.paused),
        "stats": counts,
        "dead_letter": {"retention": retention(&app, &policy)},
        "computed_at": app.clock.now().to_string(),
    });
    Ok(Answer(StatusCode::OK, body).into_response())
}

pub(super) async fn find(app: &App, name: &str) -> Result<QueueInfo, Problem> {
    let found = app.store.queues().await?.into_iter().find(|queue| queue.name == name);
    found.ok_or_else(|| {
        Problem::new(Code::NotFound, format!("unknown queue {}", shown(name)))
            .hint("the first job creates a queue")
            .detail("resource_type", "queue")
            .detail("resource_id", shown(name))
    })
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Part,
) -> Result<Response, Problem> {
    answer(set_paused(&app, &caller, &request, name, true).await)
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Part,
) -> Result<Response, Problem> {
    answer(set_paused(&app, &caller, &request, name, false).await)
}

fn answer(set: Result<Value, Problem>) -> Result<Response, Problem> {
    Ok(Answer(StatusCode::OK, set?).into_response())
}

/// A queue can be paused before its first job comes; jobs are still taken in.
pub(crate) async fn set_paused(
    app: &App,
    caller: &Caller,
    request: &RequestId,
    name: Part,
    paused: bool,
) -> Result<Value, Problem> {
    let Path(name) = name?;
    if !is_queue_name(&name) {
        let message = format!("`{}` is not a valid queue name", shown(&name));
        return Err(Problem::new(Code::InvalidRequest, message)
            .hint("up to 128 of a-z, 0-9, dot and hyphen, starting with a letter or digit")
            .detail("field", "name"));
    }
    let at = app.clock.now();
    let by = actor(caller, request);
    app.store.pause_queue(name.clone(), paused, by, at).await?;
    let mut body = json!({"queue": name, "name": name, "status": status(paused)});
    body[if paused { "paused_at" } else { "resumed_at" }] = at.to_string().into();
    Ok(body)
}

/// The same rule as for the queue of a job that is enqueued.
fn is_queue_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte == b'.' || byte == b'-')
        && name.len() <= limits::JOB_QUEUE_BYTES_MAX
}
