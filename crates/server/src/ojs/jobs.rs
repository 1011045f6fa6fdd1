//! Jobs for those who enqueue them: push, look, cancel, activate.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use lazaret_core::job::Job;
use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
use lazaret_core::job::json::{job_json, job_json_with};
use lazaret_core::limits;
use serde::Serialize;
use serde_json::value::RawValue;

use super::problem::{Code, Problem};
use super::{Answer, Part, Text, job_value, json_response, shown_job};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::jobs::{self, Moved, NotDone};
use crate::raw_json::{RawObject, kind};

#[derive(Serialize)]
struct JobAnswer {
    job: Box<RawValue>,
}

#[derive(Serialize)]
struct BatchAnswer {
    jobs: Vec<Box<RawValue>>,
    count: usize,
}

pub(super) async fn push(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let new = read_enqueue(&body, &JobDefaults::default())?;
    let jobs = jobs::enqueue(&app, vec![new]).await?;
    let job = jobs.first().ok_or_else(|| Problem::new(Code::Internal, "the job was not stored"))?;
    let mut response = Answer(StatusCode::CREATED, JobAnswer { job: job_value(job)? }).into_response();
    if let Ok(address) = HeaderValue::from_str(&format!("/ojs/v1/jobs/{}", job.id)) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}

/// All of them or none; a bad one is named by its place.
pub(super) async fn push_batch(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let mut new = Vec::new();
    for (index, item) in batch(&body)?.into_iter().enumerate() {
        let job = read_enqueue(item.get(), &JobDefaults::default());
        new.push(job.map_err(|problem| Problem::from(problem).at(index))?);
    }
    let jobs = jobs::enqueue(&app, new).await?;
    let jobs = jobs.iter().map(job_value).collect::<Result<Vec<_>, Problem>>()?;
    let count = jobs.len();
    Ok(Answer(StatusCode::CREATED, BatchAnswer { jobs, count }).into_response())
}

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

pub(super) async fn show(State(app): State<Arc<App>>, id: Part) -> Result<Response, Problem> {
    let Path(text) = id?;
    let job = jobs::find(&app, jobs::read_id(&text)?).await?;
    Ok(both_ways(&shown_job(&app, job), &[]))
}

/// The same bare, as the admin pages want it.
pub(super) async fn admin_show(State(app): State<Arc<App>>, id: Part) -> Result<Response, Problem> {
    let Path(text) = id?;
    let job = jobs::find(&app, jobs::read_id(&text)?).await?;
    Ok(json_response(StatusCode::OK, job_json(&shown_job(&app, job))))
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Part,
) -> Result<Response, Problem> {
    let Path(text) = id?;
    moved(&app, jobs::cancel(&app, jobs::read_id(&text)?, &actor(&caller, &request)).await)
}

pub(super) async fn activate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Part,
) -> Result<Response, Problem> {
    let Path(text) = id?;
    moved(&app, jobs::activate(&app, jobs::read_id(&text)?, &actor(&caller, &request)).await)
}

fn moved(app: &App, moved: Result<Moved, NotDone>) -> Result<Response, Problem> {
    let Moved { previous, job } = moved?;
    let previous = format!("\"{}\"", previous.name());
    Ok(both_ways(&shown_job(app, job), &[("previous_state", &previous)]))
}

/// The job under `job`, as the binding has it, and its fields at the top, where some clients look.
pub(super) fn both_ways(job: &Job, added: &[(&str, &str)]) -> Response {
    let inner = if added.is_empty() { job_json(job) } else { job_json_with(job, added) };
    let mut outer: Vec<(&str, &str)> = added.to_vec();
    outer.push(("job", &inner));
    json_response(StatusCode::OK, job_json_with(job, &outer))
}
