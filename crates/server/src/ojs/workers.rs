//! What workers ask and say: fetch, ack, nack, heartbeat.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::Job;
use lazaret_core::job::failure::read_nack;
use lazaret_core::job::json::{ObjectText, job_bytes, job_fields, job_onto};
use lazaret_core::job::worker::{read_ack, read_fetch, read_heartbeat};
use serde_json::json;

use super::problem::Problem;
use super::{Answer, Text, all_bytes, json_response};
use crate::app::App;
use crate::jobs::{self, workers::Alive};

pub(super) async fn fetch(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let jobs = jobs::fetch(&app, read_fetch(&body)?).await?;
    let mut answer = ObjectText::onto(String::with_capacity(64 + all_bytes(&jobs)));
    answer.list("jobs", &jobs, job_onto);
    Ok(json_response(StatusCode::OK, answer.end()))
}

pub(super) async fn ack(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let job = jobs::ack(&app, &read_ack(&body)?).await?.job;
    Ok(ended(&job, add_acked))
}

pub(super) async fn nack(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let job = jobs::nack(&app, &read_nack(&body)?).await?.job;
    Ok(ended(&job, add_nacked))
}

/// What became of the job, and the job.
fn ended(job: &Job, add: fn(&mut ObjectText, &Job)) -> Response {
    let mut answer = ObjectText::onto(String::with_capacity(256 + job_bytes(job)));
    add(&mut answer, job);
    answer.object("job", |object| job_fields(object, job));
    json_response(StatusCode::OK, answer.end())
}

fn add_acked(answer: &mut ObjectText, job: &Job) {
    answer.raw("acknowledged", "true");
    answer.shown("id", job.id);
    answer.shown("job_id", job.id);
    answer.text("state", job.state.name());
    match job.completed_at {
        Some(time) => answer.shown("completed_at", time),
        None => answer.raw("completed_at", "null"),
    }
}

/// What became of the job. Of the times only those are there that the new state has.
fn add_nacked(answer: &mut ObjectText, job: &Job) {
    answer.shown("id", job.id);
    answer.shown("job_id", job.id);
    answer.text("state", job.state.name());
    answer.number("attempt", job.attempt);
    answer.number("max_attempts", job.retry.max_attempts);
    answer.time("next_attempt_at", job.next_attempt_at);
    // The last delay stays with the job; here it is told only if one was just decided on.
    if let Some(delay_ms) = job.next_attempt_at.and(job.retry_delay_ms) {
        answer.number("retry_delay_ms", delay_ms);
    }
    answer.time("discarded_at", job.discarded_at);
    answer.time("completed_at", job.completed_at);
}

pub(super) async fn heartbeat(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let beat = read_heartbeat(&body)?;
    let Alive { wish, extended } = jobs::workers::heartbeat(&app, &beat).await?;
    let directed = if app.test_mode { directive(&extended) } else { None };
    let ids: Vec<String> = extended.iter().map(|job| job.id.to_string()).collect();
    let answer = json!({
        "state": directed.unwrap_or(wish.name()),
        "jobs_extended": ids,
        "server_time": app.clock.now().to_string(),
    });
    Ok(Answer(StatusCode::OK, answer).into_response())
}

/// The state that a test wishes for by the `meta` of a job; there is no way back from `terminate`, so it wins.
fn directive(jobs: &[Job]) -> Option<&'static str> {
    let asks = |word: &str| jobs.iter().any(|job| job.meta_text("test_directive").as_deref() == Some(word));
    ["terminate", "quiet"].into_iter().find(|word| asks(word))
}
