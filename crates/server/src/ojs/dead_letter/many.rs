//! Calls for many jobs of the dead letter: retry, delete, purge.

use std::sync::Arc;

use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use lazaret_core::limits;
use lazaret_store::decision::{Decision, Verb};
use lazaret_store::redrive::Redrive;
use serde_json::{Value, json};

use super::read::{self, Confirmed};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::jobs::dead::{self, All, Bulk, BulkRefused};
use crate::ojs::problem::{Code, Problem};
use crate::ojs::{Answer, Pairs, Text};
use crate::retention::Policies;

/// Puts back all that match. `confirm` stands for the count, which is compared when it is sent.
pub(in crate::ojs) async fn retry_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    pairs: Pairs,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let call = read::bulk(&pairs, &body, Confirmed::InWords, app.clock.now())?;
    let done = all(&app, &caller, &request, Verb::Retry, call).await?;
    Ok(match done {
        All::Done(done) => answer("retry", "retried", done),
        All::Redriven(redrive) => accepted(&redrive),
    })
}

/// Deletes all that match; those on hold stay.
pub(in crate::ojs) async fn delete_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    pairs: Pairs,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let call = read::bulk(&pairs, &body, Confirmed::InWords, app.clock.now())?;
    deleted("delete", all(&app, &caller, &request, Verb::Delete, call).await?)
}

/// The same at an address that says that it is meant.
pub(in crate::ojs) async fn purge(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    pairs: Pairs,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let call = read::bulk(&pairs, &body, Confirmed::ByPath, app.clock.now())?;
    deleted("purge", all(&app, &caller, &request, Verb::Delete, call).await?)
}

async fn all(
    app: &App,
    caller: &Caller,
    request: &RequestId,
    verb: Verb,
    call: read::Bulk,
) -> Result<All, Problem> {
    let read::Bulk { filter, expected, reason } = call;
    super::may_ask(app, caller, &filter)?;
    let decision = Decision {
        verb,
        actor: actor(caller, request),
        reason,
        at: app.clock.now(),
        from: None,
        // The jobs may be of any queue.
        floor_ms: Some(Policies::of(&app.config).longest_floor_ms()),
    };
    dead::all(app, decision, &filter, expected).await.map_err(|refused| {
        let text = refused.to_string();
        match refused {
            BulkRefused::TooMany => Problem::new(Code::TooMany, text).detail("max", limits::OJS_BULK_MAX),
            BulkRefused::CountMismatch { matched, expected } => Problem::new(Code::CountMismatch, text)
                .detail("expected_count", expected)
                .detail("matched", matched),
            BulkRefused::NotDone(error) => error.into(),
        }
    })
}

fn deleted(action: &str, done: All) -> Result<Response, Problem> {
    match done {
        All::Done(done) => Ok(answer(action, "deleted", done)),
        All::Redriven(_) => Err(Problem::new(Code::Internal, "a removal re-enqueued jobs")),
    }
}

/// They go back one after the other; the redrive says how far it has come.
fn accepted(redrive: &Redrive) -> Response {
    let (id, url) = (redrive.id.to_string(), format!("/api/v1/redrives/{}", redrive.id));
    let body = json!({
        "action": "retry",
        "matched": redrive.total,
        "redrive_id": id,
        "redrive_url": url,
        "state": redrive.state.name(),
    });
    let mut response = Answer(StatusCode::ACCEPTED, body).into_response();
    if let Ok(url) = url.parse() {
        response.headers_mut().insert(header::LOCATION, url);
    }
    response
}

/// `counted` is the name under which some clients look for the number.
fn answer(action: &str, counted: &str, done: Bulk) -> Response {
    let errors: Vec<Value> = done
        .left
        .into_iter()
        .map(|(job, letter, error)| match job {
            Some(job) => json!({"job_id": job, "letter_id": letter, "error": error}),
            None => json!({"letter_id": letter, "error": error}),
        })
        .collect();
    let mut body = json!({
        "action": action,
        "matched": done.matched,
        "succeeded": done.succeeded,
        "failed": done.failed,
        "errors": errors,
    });
    body[counted] = done.succeeded.into();
    // A hold stands in the way of deletions only.
    if counted == "deleted" {
        body["held"] = done.held.into();
    }
    Answer(StatusCode::OK, body).into_response()
}
