//! Calls for many jobs of the dead letter: retry, delete, purge.

use std::sync::Arc;

use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::limits;
use lazaret_store::decision::{Decision, Verb};
use serde_json::{Value, json};

use super::read::{self, Confirmed};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::app::App;
use crate::jobs::dead::{self, Bulk, BulkRefused};
use crate::ojs::problem::{Code, Problem};
use crate::ojs::{Answer, Pairs, Text};

/// Puts back all that match. `confirm` stands for the count, which is compared when it is sent.
pub(in crate::ojs) async fn retry_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    pairs: Pairs,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let call = read::bulk(&pairs, &body, Confirmed::InWords)?;
    let done = all(&app, &caller, &request, Verb::Retry, call).await?;
    Ok(answer("retry", "retried", done))
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
    let call = read::bulk(&pairs, &body, Confirmed::InWords)?;
    let done = all(&app, &caller, &request, Verb::Delete, call).await?;
    Ok(answer("delete", "deleted", done))
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
    let call = read::bulk(&pairs, &body, Confirmed::ByPath)?;
    let done = all(&app, &caller, &request, Verb::Delete, call).await?;
    Ok(answer("purge", "deleted", done))
}

async fn all(
    app: &App,
    caller: &Caller,
    request: &RequestId,
    verb: Verb,
    call: read::Bulk,
) -> Result<Bulk, Problem> {
    let read::Bulk { filter, expected, reason } = call;
    let decision = Decision { verb, actor: actor(caller, request), reason, at: app.clock.now(), from: None };
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
