//! Jobs for those who enqueue them: push, look, cancel, activate.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use lazaret_core::job::Job;
use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
use lazaret_core::job::json::{ObjectText, job_bytes, job_fields, job_json, job_json_with, job_onto};

use super::problem::{Code, Problem};
use super::{Part, Text, all_bytes, batch, json_response, shown_job};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::jobs::{self, Moved, NotDone};

pub(super) async fn push(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let new = read_enqueue(&body, &JobDefaults::default())?;
    let jobs = jobs::enqueue(&app, vec![new]).await?;
    let job = jobs.first().ok_or_else(|| Problem::new(Code::Internal, "the job was not stored"))?;
    let mut answer = ObjectText::onto(String::with_capacity(16 + job_bytes(job)));
    answer.object("job", |object| job_fields(object, job));
    let mut response = json_response(StatusCode::CREATED, answer.end());
    if let Ok(address) = HeaderValue::try_from(format!("/ojs/v1/jobs/{}", job.id)) {
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
    let mut answer = ObjectText::onto(String::with_capacity(64 + all_bytes(&jobs)));
    answer.list("jobs", &jobs, job_onto);
    answer.number("count", jobs.len() as u64);
    Ok(json_response(StatusCode::CREATED, answer.end()))
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
