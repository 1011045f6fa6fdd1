//! What workers ask and say: fetch, ack and nack, for one job or many, and heartbeat.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::Job;
use lazaret_core::job::failure::read_nack;
use lazaret_core::job::json::{ObjectText, job_bytes, job_fields, job_onto};
use lazaret_core::job::problem::JobProblem;
use lazaret_core::job::worker::{read_ack, read_fetch, read_heartbeat};
use serde_json::json;

use super::problem::Problem;
use super::{Answer, Text, all_bytes, batch, json_response};
use crate::api::guard::RequestId;
use crate::app::App;
use crate::jobs::{self, End, workers::Alive};

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

/// Acknowledges many jobs; each has an answer of its own.
pub(super) async fn ack_batch(
    State(app): State<Arc<App>>,
    Extension(request): Extension<RequestId>,
    Text(body): Text,
) -> Result<Response, Problem> {
    let asked = read_ends(&body, |text| read_ack(text).map(End::Ack))?;
    end_all(&app, asked, &request, add_acked).await
}

/// Fails many jobs; each has an answer of its own.
pub(super) async fn nack_batch(
    State(app): State<Arc<App>>,
    Extension(request): Extension<RequestId>,
    Text(body): Text,
) -> Result<Response, Problem> {
    let asked = read_ends(&body, |text| read_nack(text).map(|nack| End::Nack(Box::new(nack))))?;
    end_all(&app, asked, &request, add_nacked).await
}

/// Reads the items of a batch. One that cannot be read is answered as such and keeps no other from being done.
fn read_ends(
    body: &str,
    read: impl Fn(&str) -> Result<End, JobProblem>,
) -> Result<Vec<Result<End, JobProblem>>, Problem> {
    Ok(batch(body)?.into_iter().map(|item| read(item.get())).collect())
}

/// Ends all that could be read. The jobs themselves are left out of the answer: who ends many wants to know which of
/// them did not end.
async fn end_all(
    app: &Arc<App>,
    asked: Vec<Result<End, JobProblem>>,
    request: &RequestId,
    add: fn(&mut ObjectText, &Job),
) -> Result<Response, Problem> {
    let (count, mut ends, mut unread) = (asked.len(), Vec::with_capacity(asked.len()), Vec::new());
    for (at, one) in asked.into_iter().enumerate() {
        match one {
            Ok(end) => ends.push(end),
            Err(problem) => unread.push((at, Problem::from(problem))),
        }
    }
    let mut outcomes: Vec<Result<Job, Problem>> =
        jobs::end_all(app, ends).await.into_iter().map(|outcome| Ok(outcome?.job)).collect();
    // In the order of their places, so each of them stands where it belongs once it is put in.
    for (at, problem) in unread {
        outcomes.insert(at, Err(problem));
    }
    let succeeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let mut answer = ObjectText::onto(String::with_capacity(128 + 320 * count));
    answer.list("results", outcomes, |text, outcome| {
        let mut result = ObjectText::onto(text);
        match outcome {
            Ok(job) => {
                result.number("status", StatusCode::OK.as_u16());
                add(&mut result, &job);
            }
            Err(problem) => {
                result.number("status", problem.status().as_u16());
                result.raw("error", &problem.error(request.as_str()).to_string());
            }
        }
        result.end()
    });
    answer.number("count", count as u64);
    answer.number("succeeded", succeeded as u64);
    answer.number("failed", (count - succeeded) as u64);
    Ok(json_response(StatusCode::OK, answer.end()))
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
