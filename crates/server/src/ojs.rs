//! The door for clients of the Open Job Specification: `/ojs/v1` and `/ojs/manifest`, in their words and shapes.
//!
//! Translates and does nothing else: what happens to jobs is in `jobs`, what is allowed in `lazaret_core::job`. Requests
//! pass the same guards as those to the API; what the guards answer is put into the envelope of the specification here.

mod about;
pub(crate) mod admin;
mod dead_letter;
mod events;
mod jobs;
pub(crate) mod origin;
pub(crate) mod problem;
pub(crate) mod queues;
mod workers;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, body::Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use lazaret_core::id::EventId;
use lazaret_core::job::Job;
use lazaret_core::job::json::{job_bytes, job_json};
use lazaret_core::limits;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use crate::raw_json::{RawObject, kind, shown};
use crate::redaction::Masker;
use problem::{Code, Problem};

const MEDIA_TYPE: &str = "application/openjobspec+json";
const VERSION: &str = "1.0";
const VERSION_HEADER: HeaderName = HeaderName::from_static("ojs-version");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds the routes of the specification.
pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    about::begin();
    let mut routes = routes
        .route("/ojs/manifest", get(about::manifest))
        .route("/ojs/v1/health", get(about::health))
        .route("/ojs/v1/jobs", post(jobs::push))
        .route("/ojs/v1/jobs/batch", post(jobs::push_batch))
        .route("/ojs/v1/jobs/{id}", get(jobs::show).delete(jobs::cancel))
        .route("/ojs/v1/jobs/{id}/activate", post(jobs::activate))
        .route("/ojs/v1/workers/fetch", post(workers::fetch))
        .route("/ojs/v1/workers/ack", post(workers::ack))
        .route("/ojs/v1/workers/nack", post(workers::nack))
        .route("/ojs/v1/workers/ack/batch", post(workers::ack_batch))
        .route("/ojs/v1/workers/nack/batch", post(workers::nack_batch))
        .route("/ojs/v1/workers/heartbeat", post(workers::heartbeat))
        .route("/ojs/v1/queues", get(queues::list))
        .route("/ojs/v1/queues/{name}/stats", get(queues::stats))
        .route("/ojs/v1/queues/{name}/pause", post(queues::pause))
        .route("/ojs/v1/queues/{name}/resume", post(queues::resume))
        .route("/ojs/v1/events", get(events::events))
        .route("/ojs/v1/admin/stats", get(admin::stats))
        .route("/ojs/v1/admin/queues", get(admin::queues))
        .route("/ojs/v1/admin/queues/{name}", get(admin::queue))
        .route("/ojs/v1/admin/queues/{name}/pause", post(queues::pause))
        .route("/ojs/v1/admin/queues/{name}/resume", post(queues::resume))
        .route("/ojs/v1/admin/workers", get(admin::workers))
        .route("/ojs/v1/admin/workers/{id}/quiet", post(admin::quiet))
        .route("/ojs/v1/admin/workers/{id}/terminate", post(admin::terminate))
        .route("/ojs/v1/admin/workers/{id}/resume", post(admin::resume))
        .route("/ojs/v1/admin/jobs", get(admin::jobs))
        .route("/ojs/v1/admin/jobs/{id}", get(jobs::admin_show))
        .route("/ojs/v1/admin/jobs/{id}/cancel", post(jobs::cancel))
        .route("/ojs/v1/dead-letter", get(dead_letter::list).delete(dead_letter::delete_many))
        .route("/ojs/v1/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::delete))
        .route("/ojs/v1/admin/dead-letter", get(dead_letter::admin_list).delete(dead_letter::delete_many))
        .route("/ojs/v1/admin/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::admin_delete));
    for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
        routes = routes
            .route(&format!("{base}/stats"), get(dead_letter::stats))
            .route(&format!("{base}/retry"), post(dead_letter::retry_many))
            .route(&format!("{base}/purge"), post(dead_letter::purge))
            .route(&format!("{base}/{{id}}/retry"), post(dead_letter::retry));
    }
    routes
}

/// Returns true for addresses under `/ojs`.
pub(crate) fn is_ours(path: &str) -> bool {
    path.strip_prefix("/ojs").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What stands around these routes: the headers that every answer has, and one shape for every error.
pub(crate) async fn frame<Inner: Future<Output = Response>>(
    app: &App,
    mut request: Request,
    next: impl FnOnce(Request) -> Inner,
) -> Response {
    let origin = origin::allowed(app, request.uri().path(), request.headers());
    if !request.headers().contains_key(REQUEST_ID)
        && let Some(id) = mint_request_id(app)
    {
        request.headers_mut().insert(REQUEST_ID, id);
    }
    let is_preflight = origin.is_some() && origin::is_preflight(request.method(), request.headers());
    let mut response = match refused_version(request.headers()) {
        _ if is_preflight => answer_unheard(app, origin::preflight(), request.headers()),
        Some(problem) => answer_unheard(app, problem.into_response(), request.headers()),
        None => next(request).await,
    };
    if let Some(problem) = problem::take(&mut response).await {
        let id = response.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let mut shaped = problem.shape(id);
        for (name, value) in response.headers() {
            if !shaped.headers().contains_key(name) && *name != header::CONTENT_LENGTH {
                shaped.headers_mut().append(name, value.clone());
            }
        }
        response = shaped;
    }
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    if !app.config.jobs.allowed_origins.is_empty() {
        origin::tell(&mut response, origin);
    }
    response
}

fn mint_request_id(app: &App) -> Option<HeaderValue> {
    let id = EventId::mint(app.clock.now(), app.entropy.take().ok()?);
    HeaderValue::try_from(format!("req_{id}")).ok()
}

/// A client that speaks another version than ours must not be taken at its word.
fn refused_version(headers: &HeaderMap) -> Option<Problem> {
    let asked = headers.get(VERSION_HEADER)?.to_str().unwrap_or("?").trim();
    let major = asked.split('.').next().unwrap_or_default();
    (major != "1").then(|| {
        Problem::new(Code::Unsupported, format!("unsupported version `{}`", shown(asked)))
            .hint("send OJS-Version: 1.0, or omit it")
    })
}

/// An answer before the request came as far as getting its id.
fn answer_unheard(app: &App, mut response: Response, headers: &HeaderMap) -> Response {
    let given = headers.get(REQUEST_ID).filter(|id| id.len() <= limits::REQUEST_ID_BYTES_MAX);
    if let Some(id) = given.cloned().or_else(|| mint_request_id(app)) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// An answer whose body is JSON.
struct Answer<T>(StatusCode, T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.1) {
            Ok(text) => json_response(self.0, text),
            Err(error) => {
                tracing::error!(%error, "response could not be serialised");
                Problem::new(Code::Internal, "response could not be serialised").into_response()
            }
        }
    }
}

/// An answer whose body is JSON text already.
fn json_response(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// The body of a request as text. A route that can do without one gets an empty text.
struct Text(String);

impl FromRequest<Arc<App>> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Text, Problem> {
        let given = request.headers().get(header::CONTENT_TYPE).cloned();
        let bytes = Bytes::from_request(request, app).await?;
        // Nothing has no type: some clients name one with every request.
        if let Some(given) = given.filter(|_| !bytes.is_empty()) {
            let given = given.to_str().unwrap_or("?");
            let name = given.split(';').next().unwrap_or_default().trim();
            if ![MEDIA_TYPE, "application/json"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
                let message = format!("unsupported content type `{}`", shown(given));
                return Err(
                    Problem::new(Code::InvalidRequest, message).hint("send Content-Type: application/json")
                );
            }
        }
        String::from_utf8(bytes.into())
            .map(Text)
            .map_err(|_| Problem::new(Code::InvalidPayload, "body is not UTF-8"))
    }
}

/// A part of the path, as it came.
pub(crate) type Part = Result<Path<String>, PathRejection>;

/// Query parameters as they came, in order.
pub(crate) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// A job for whoever looks at it: with what is hidden masked.
pub(crate) fn shown_job(app: &App, job: Job) -> Job {
    Masker::new(&app.redactor).job(job)
}

/// The items of a batch of jobs, or of what is said about them.
fn batch(body: &str) -> Result<Vec<&RawValue>, Problem> {
    let object: RawObject<'_> = serde_json::from_str(body).map_err(|error| {
        Problem::new(Code::InvalidPayload, format!("not a JSON object: {error}"))
            .hint("send {\"jobs\": [...]}")
    })?;
    let Some((_, raw)) = object.0.into_iter().find(|(name, _)| name == "jobs") else {
        return Err(Problem::new(Code::InvalidRequest, "jobs is missing").detail("field", "jobs"));
    };
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| {
        let message = format!("jobs must be an array, not {}", kind(raw));
        Problem::new(Code::SchemaValidation, message).detail("field", "jobs")
    })?;
    if items.is_empty() || items.len() > limits::JOB_BATCH_MAX {
        let message = format!("jobs must hold from 1 to {} jobs, not {}", limits::JOB_BATCH_MAX, items.len());
        return Err(Problem::new(Code::InvalidRequest, message).detail("field", "jobs"));
    }
    Ok(items)
}

/// About as many bytes as these jobs have as JSON.
fn all_bytes(jobs: &[Job]) -> usize {
    jobs.iter().map(|job| job_bytes(job) + 1).sum()
}

/// A job for a list.
fn job_value(job: &Job) -> Result<Box<RawValue>, Problem> {
    raw(job_json(job))
}

fn raw(text: String) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(text).map_err(|error| {
        tracing::error!(%error, "stored job is not JSON");
        Problem::new(Code::Internal, "store contains invalid data")
    })
}

/// A parameter that is not there, or says nothing.
fn given(value: &str) -> Option<&str> {
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// A number of rows; more than there may be is brought down, nonsense is refused.
fn read_limit(name: &str, value: &str, max: usize) -> Result<usize, Problem> {
    match value.parse::<u64>() {
        Ok(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(max).min(max)),
        Ok(_) | Err(_) => Err(Problem::new(
            Code::InvalidRequest,
            format!("{name} must be a number from 1 to {max}, got `{}`", shown(value)),
        )
        .detail("field", name)),
    }
}
