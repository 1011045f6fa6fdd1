//! Decisions on one letter, and on all that match a filter.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::decision::{Decided, Decision, Expected, OperationState, Verb};
use serde_json::{Map, Value};

use super::archive::no_live_letter;
use super::guard::{RequestId, actor};
use super::letters::{parse_id, read_filter};
use super::problem::{Code, Located, Problem};
use super::reveal::may_ask;
use super::wire::{LetterSummary, OperationBody};
use crate::access::Caller;
use crate::app::App;
use crate::archive;
use crate::operations;
use crate::raw_json::shown;
use crate::redaction::Masker;
use crate::retention::{self, Policies};

/// Skipped letters that are named in an answer.
const SKIPPED_SHOWN: usize = 100;

/// Decides on one letter. The body may hold a reason; a hold needs one.
pub(crate) async fn by_id(
    verb: Verb,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<LetterSummary>, Problem> {
    let id = parse_id(id)?;
    let mut body = read_object(&body?)?;
    let reason = take_reason(&mut body, verb)?;
    nothing_else(&body, &["reason"])?;
    let decision = Decision {
        verb,
        actor: actor(&caller, &request),
        reason,
        at: app.clock.now(),
        from: None,
        floor_ms: retention::floor_ms(&app, verb, id).await?,
    };
    // What is deleted cannot be read afterwards.
    let before = match verb {
        Verb::Delete => found(&app, id).await?,
        Verb::Resolve
        | Verb::Discard
        | Verb::Reopen
        | Verb::Hold
        | Verb::Release
        | Verb::Retry
        | Verb::Restore => None,
    };
    let decided = match verb {
        // Its content may stand in a file.
        Verb::Restore => archive::restore(&app, id, decision).await?,
        Verb::Resolve
        | Verb::Discard
        | Verb::Reopen
        | Verb::Hold
        | Verb::Release
        | Verb::Retry
        | Verb::Delete => app.store.decide(id, decision).await?,
    };
    match decided {
        Decided::Done => {}
        Decided::Refused(refused) => return Err(refused.into()),
        Decided::Unknown => return Err(no_live_letter(&app, id).await),
        Decided::NoWayBack => {
            return Err(Problem::new(Code::NoWayBack, format!("letter {id} cannot be redriven")).hint(
                "its source does not accept redrives: repeat the work at the source, then resolve the letter",
            ));
        }
        Decided::Replaced => {
            return Err(Problem::new(
                Code::Replaced,
                format!("letter {id} cannot be restored: its key is used by another letter or job"),
            )
            .hint("the same message was captured again: search by its eventId"));
        }
    }
    let after = match before {
        Some(letter) => Some(Letter { place: Place::Deleted, ..letter }),
        None => found(&app, id).await?,
    };
    let masker = Masker::new(&app.redactor);
    let shown = after.as_ref().map(|letter| Json(LetterSummary::shown(letter, &masker)));
    shown.ok_or_else(|| Problem::no_letter(id))
}

/// The letter, live or archived.
async fn found(app: &App, id: LetterId) -> Result<Option<Letter>, StoreError> {
    if let Some(history) = app.store.history(id).await? {
        return Ok(Some(history.letter));
    }
    Ok(app.store.archived_letter(id).await?.map(|archived| archived.letter))
}

/// Brings a deleted or archived letter back, as it was.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters/{id}/restore",
    tag = "decisions",
    params(("id" = String, Path)),
    request_body(content = Option<Object>, description = "`{\"reason\": \"…\"}`; optional"),
    responses(
        (status = 200, body = LetterSummary),
        (status = 404, description = "not_found: unknown, or its content is no longer kept"),
        (status = 409, description = "not_allowed, or replaced: its key is used by another letter or job")
    )
)]
pub(crate) async fn restore(
    state: State<Arc<App>>,
    caller: Extension<Caller>,
    request: Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<LetterSummary>, Problem> {
    by_id(Verb::Restore, state, caller, request, id, body).await
}

/// Decides on all letters that match, if they are as many as expected.
pub(crate) async fn by_filter(
    verb: Verb,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Located<OperationBody>, Problem> {
    let mut body = read_object(&body?)?;
    let reason = take_reason(&mut body, verb)?;
    if verb == Verb::Delete && reason.is_none() {
        return Err(Problem::new(Code::ReasonRequired, "reason required to delete by filter")
            .hint(r#"send {"reason":"…"}: it is recorded in the audit log"#));
    }
    let filter = take_filter(&mut body, verb, app.clock.now())?;
    let expected = match body.remove("expectedCount") {
        Some(value) => value.as_u64().ok_or_else(|| {
            Problem::new(
                Code::BadRequest,
                format!("expectedCount must be an integer, got {}", shown(&value.to_string())),
            )
        })?,
        None => {
            return Err(Problem::new(Code::BadRequest, "expectedCount is missing")
                .hint("get the count with POST /api/v1/dead-letters/count, then send it"));
        }
    };
    nothing_else(&body, &["filter", "all", "expectedCount", "reason"])?;
    may_ask(&app, &caller, &filter)?;
    let decision = Decision {
        verb,
        actor: actor(&caller, &request),
        reason,
        at: app.clock.now(),
        from: None,
        // The letters may be of any queue.
        floor_ms: Some(Policies::of(&app.config).longest_floor_ms()),
    };
    let operation = operations::decide(&app, decision, filter, Expected::Exactly(expected)).await?;
    if operation.state == OperationState::Refused {
        let filter = lazaret_core::filter::Filter::from_text(&operation.filter)?;
        let count = super::wire::TotalBody::from(app.store.count_all(filter, operation.opened_at).await?);
        let at_least = if count.total_is_at_least.is_some() { "at least " } else { "" };
        return Err(Problem::new(
            Code::CountMismatch,
            format!("{at_least}{} letters match, expected {expected}: nothing was changed", count.total),
        )
        .with("count", count.total)
        .with("expectedCount", expected)
        .hint("check the current count, then send it"));
    }
    let status = if operation.state == OperationState::Done { StatusCode::OK } else { StatusCode::ACCEPTED };
    let skipped = app.store.skipped(operation.id, SKIPPED_SHOWN).await?;
    let location = HeaderValue::from_str(&format!("/api/v1/operations/{}", operation.id))
        .unwrap_or(HeaderValue::from_static("/api/v1/operations"));
    let body = Json(OperationBody::new(operation, skipped));
    Ok((status, [(header::LOCATION, location)], body))
}

/// Shows how far an operation is.
#[utoipa::path(
    get,
    path = "/api/v1/operations/{id}",
    tag = "decisions",
    params(("id" = String, Path)),
    responses((status = 200, body = OperationBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn operation(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<OperationBody>, Problem> {
    let Path(text) = id?;
    let id = OperationId::parse(&text)?;
    let Some(operation) = app.store.operation(id).await? else {
        return Err(Problem::new(Code::NotFound, format!("operation {id} not found")));
    };
    let skipped = app.store.skipped(id, SKIPPED_SHOWN).await?;
    let mut body = OperationBody::new(operation, skipped);
    body.hide(&Masker::new(&app.redactor));
    Ok(Json(body))
}

/// A body that is an object, or nothing at all.
pub(crate) fn read_object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::new(Code::BadJson, "the body must be an object")),
        Err(error) => Err(Problem::new(Code::BadJson, format!("the body is not JSON: {error}"))),
    }
}

fn take_reason(body: &mut Map<String, Value>, verb: Verb) -> Result<Option<String>, Problem> {
    let reason = match body.remove("reason") {
        Some(Value::String(reason)) if reason.len() > limits::REASON_BYTES_MAX => {
            let max = limits::REASON_BYTES_MAX;
            return Err(Problem::new(Code::BadRequest, format!("the reason is longer than {max} bytes")));
        }
        Some(Value::String(reason)) => Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty()),
        Some(Value::Null) | None => None,
        Some(_) => return Err(Problem::new(Code::BadRequest, "reason must be a string")),
    };
    if verb == Verb::Hold && reason.is_none() {
        return Err(Problem::new(Code::ReasonRequired, "reason required")
            .hint(r#"send {"reason":"…"}: it is shown to whoever releases the hold"#));
    }
    Ok(reason)
}

/// The filter of the body; one that spares nothing only with `"all": true`, so that a slip never means everything.
fn take_filter(body: &mut Map<String, Value>, verb: Verb, now: Time) -> Result<Filter, Problem> {
    let filter = match body.remove("filter") {
        Some(filter) => read_filter(&filter)?,
        None => Filter::default(),
    };
    let all = match body.remove("all") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(Problem::new(Code::BadRequest, "all must be true or false")),
    };
    match (filter.spares_nothing(verb.action(), now), all) {
        (false, false) | (true, true) => Ok(filter),
        (true, false) => Err(Problem::filter_required(&filter)
            .hint(r#"send {"filter":{"queue":"billing"},"expectedCount":12}, or {"all":true,"expectedCount":12} for everything"#)),
        (false, true) => Err(Problem::new(Code::BadRequest, "all conflicts with a filter")),
    }
}

pub(crate) fn nothing_else(body: &Map<String, Value>, known: &[&str]) -> Result<(), Problem> {
    match body.keys().next() {
        Some(key) => Err(Problem::new(Code::BadRequest, format!("unknown field `{}`", shown(key)))
            .hint(format!("known: {}", known.join(", ")))),
        None => Ok(()),
    }
}
