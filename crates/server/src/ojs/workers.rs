//! What workers ask and say: fetch, ack, nack, heartbeat.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::Job;
use lazaret_core::job::failure::read_nack;
use lazaret_core::job::worker::{read_ack, read_fetch, read_heartbeat};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::problem::Problem;
use super::{Answer, Text, job_value};
use crate::app::App;
use crate::jobs::{self, workers::Alive};

#[derive(Serialize)]
struct FetchAnswer {
    jobs: Vec<Box<RawValue>>,
}

pub(super) async fn fetch(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let jobs = jobs::fetch(&app, read_fetch(&body)?).await?;
    let jobs = jobs.iter().map(job_value).collect::<Result<Vec<_>, Problem>>()?;
    Ok(Answer(StatusCode::OK, FetchAnswer { jobs }).into_response())
}

#[derive(Serialize)]
struct AckAnswer {
    acknowledged: bool,
    id: String,
    job_id: String,
    state: &'static str,
    completed_at: Option<String>,
    job: Box<RawValue>,
}

pub(super) async fn ack(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let job = jobs::ack(&app, &read_ack(&body)?).await?.job;
    let answer = AckAnswer {
        acknowledged: true,
        id: job.id.to_string(),
        job_id: job.id.to_string(),
        state: job.state.name(),
        completed_at: job.completed_at.map(|time| time.to_string()),
        job: job_value(&job)?,
    };
    Ok(Answer(StatusCode::OK, answer).into_response())
}

/// What became of the job. Of the times only those are there that the new state has.
#[derive(Serialize)]
struct NackAnswer {
    id: String,
    job_id: String,
    state: &'static str,
    attempt: u32,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    job: Box<RawValue>,
}

pub(super) async fn nack(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let job = jobs::nack(&app, &read_nack(&body)?).await?.job;
    let answer = NackAnswer {
        id: job.id.to_string(),
        job_id: job.id.to_string(),
        state: job.state.name(),
        attempt: job.attempt,
        max_attempts: job.retry.max_attempts,
        next_attempt_at: job.next_attempt_at.map(|time| time.to_string()),
        // The last delay stays with the job; here it is told only if one was just decided on.
        retry_delay_ms: job.next_attempt_at.and(job.retry_delay_ms),
        discarded_at: job.discarded_at.map(|time| time.to_string()),
        completed_at: job.completed_at.map(|time| time.to_string()),
        job: job_value(&job)?,
    };
    Ok(Answer(StatusCode::OK, answer).into_response())
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
