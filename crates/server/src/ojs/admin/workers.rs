//! Workers: who there is, and what they are told.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::worker::{Wish, Wished, WorkerInfo};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Numbered, Pagination};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::ojs::problem::{Code, Problem};
use crate::ojs::{Answer, Pairs, Part, raw};
use crate::raw_json::shown;

/// The word for a worker that is dead, whatever was wished of it.
const STALE: &str = "stale";

#[derive(Serialize)]
pub(crate) struct WorkerValue {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    pub state: &'static str,
    /// What it is wished to do, alive or not.
    pub wished: &'static str,
    pub queues: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    pub active_jobs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Absent if it holds jobs and never sent a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

#[derive(Serialize)]
pub(crate) struct WorkerList {
    pub items: Vec<WorkerValue>,
    total: u64,
    pub summary: Map<String, Value>,
    pub pagination: Pagination,
}

pub(in crate::ojs) async fn workers(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    Ok(Answer(StatusCode::OK, worker_list(&app, pairs).await?).into_response())
}

/// A page of the workers, and how many there are of each state.
pub(crate) async fn worker_list(app: &App, pairs: Pairs) -> Result<WorkerList, Problem> {
    let Query(pairs) = pairs?;
    let numbered = Numbered::read(&pairs)?;
    let (all, now) = (app.store.workers().await?, app.clock.now());
    let all = all.into_iter().map(|worker| value(worker, now)).collect::<Result<Vec<_>, Problem>>()?;
    let mut summary = Map::new();
    summary.insert("total".into(), all.len().into());
    for state in Wish::ALL.map(Wish::name).into_iter().chain([STALE]) {
        let count = all.iter().filter(|worker| worker.state == state).count();
        summary.insert(state.into(), count.into());
    }
    let (items, pagination) = numbered.of(all)?;
    Ok(WorkerList { items, total: pagination.total, summary, pagination })
}

fn value(worker: WorkerInfo, now: Time) -> Result<WorkerValue, Problem> {
    let state = if is_dead(&worker, now) { STALE } else { worker.wish.name() };
    let beat = worker.beat;
    let said: Option<Value> = beat.said.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Ok(WorkerValue {
        id: beat.worker,
        hostname: beat.hostname,
        pid: beat.pid,
        state,
        wished: worker.wish.name(),
        queues: beat.queues,
        concurrency: beat.concurrency,
        active_jobs: worker.active,
        started_at: beat.started_at.or(worker.first_seen_at).map(|time| time.to_string()),
        last_heartbeat_at: worker.last_beat_at.map(|time| time.to_string()),
        version: said.and_then(|said| Some(said.get("version")?.as_str()?.to_owned())),
        metadata: beat.said.map(raw).transpose()?,
    })
}

pub(super) fn is_dead(worker: &WorkerInfo, now: Time) -> bool {
    worker.last_beat_at.is_some_and(|at| now.since(at) > limits::WORKER_SILENT_MS)
}

pub(in crate::ojs) async fn quiet(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Part,
) -> Result<Response, Problem> {
    answer(wish(&app, &caller, &request, name, Wish::Quiet).await)
}

pub(in crate::ojs) async fn terminate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Part,
) -> Result<Response, Problem> {
    answer(wish(&app, &caller, &request, name, Wish::Terminate).await)
}

pub(in crate::ojs) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Part,
) -> Result<Response, Problem> {
    answer(wish(&app, &caller, &request, name, Wish::Running).await)
}

fn answer(wished: Result<Value, Problem>) -> Result<Response, Problem> {
    Ok(Answer(StatusCode::OK, wished?).into_response())
}

/// The worker learns of it with its next heartbeat; until then it fetches and gets nothing.
pub(crate) async fn wish(
    app: &App,
    caller: &Caller,
    request: &RequestId,
    name: Part,
    wish: Wish,
) -> Result<Value, Problem> {
    let Path(name) = name?;
    let by = actor(caller, request);
    match app.store.wish_worker(name.clone(), wish, by, app.clock.now()).await? {
        Wished::Done => {
            Ok(json!({"id": name, "worker_id": name, "state": wish.name(), "wished": wish.name()}))
        }
        Wished::Unknown => Err(Problem::new(Code::NotFound, format!("unknown worker {}", shown(&name)))
            .hint("a worker is registered by its first heartbeat")
            .detail("resource_type", "worker")
            .detail("resource_id", shown(&name))),
        Wished::Terminating => {
            let message = format!("worker {} is terminating: this cannot be undone", shown(&name));
            Err(Problem::new(Code::Conflict, message)
                .hint("start another worker under another name")
                .detail("current_state", Wish::Terminate.name()))
        }
    }
}
