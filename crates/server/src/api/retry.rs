//! One letter put back by itself, as it is or changed, and the changes that were made to it.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use lazaret_core::header;
use lazaret_core::id::LetterId;
use lazaret_core::redaction::{MASK, Redactor, masks};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::archive::no_live_letter;
use super::fields::{Fields, bad, wrong};
use super::guard::{RequestId, actor};
use super::letters::parse_id;
use super::problem::{Code, Problem};
use super::redrives::{Answered, accepted, glass};
use super::wire::edit::{Bodies, EditBody, EditList};
use super::wire::redrive::RedriveBody;
use crate::access::Caller;
use crate::app::App;
use crate::destination::is_passed_on;
use crate::redrive::{self, Edited, NotRedriven, SingleRequest};

/// Puts one letter back, as it is or changed.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters/{id}/retry",
    tag = "redrives",
    params(("id" = String, Path)),
    request_body(content = Option<Object>, description = "Optional. `reason`; `edit` with `body` (a string, or JSON sent as written) or `bodyBase64`, `contentType`, `headers` (merged into the original headers: a string, an object with `type` and `value`, or null to remove one) and `destination`; `breakGlass` with a reason is the emergency override, for administrators"),
    responses(
        (status = 200, body = RedriveBody, description = "Finished; see `letters` for the outcome"),
        (status = 202, body = RedriveBody, description = "In flight; see Location"),
        (status = 400, description = "bad_request: `field` says which; break_glass: the reason is too short"),
        (status = 403, description = "break_glass: only an administrator may"),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_allowed, no_way_back, rca_required, fix_required, decision_required or poison")
    )
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Answered {
    let id = parse_id(id)?;
    let body = body?;
    let mut fields = Fields::read(&body)?;
    let reason = fields.reason("reason")?;
    let break_glass = fields.reason("breakGlass")?;
    let edit = fields.object("edit")?.map(|edit| read_edit(edit, &body)).transpose()?;
    fields.end()?;
    if let Some(edit) = &edit {
        refuse_masks(&app, id, edit).await?;
    }
    let by = actor(&caller, &request);
    let request = SingleRequest { edit, reason, break_glass, glass: glass(&caller), by };
    let redrive = match redrive::single(&app, id, request).await {
        Err(NotRedriven::UnknownLetter(id)) => return Err(no_live_letter(&app, id).await),
        redriven => redriven?,
    };
    let status = if redrive.finished_at.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(accepted(&app, redrive, status))
}

/// Refuses an edit that was made from what is shown instead of from what is there: it would send the mask on.
async fn refuse_masks(app: &App, id: LetterId, edit: &Edited) -> Result<(), Problem> {
    let made_from_shown = |field: &str| {
        bad(field, format!("contains a mask, `{MASK}` or `•••• 1234`, that the original does not contain"))
            .hint("replace it with the value; `reveal=REASON` returns the unmasked letter to permitted roles")
    };
    let masks_in = |value: &header::HeaderValue| masks(value.to_json().to_string().as_bytes());
    let in_headers = edit.headers.iter().any(|(_, value)| value.as_ref().is_some_and(|it| masks_in(it) > 0));
    let in_body = edit.body.as_deref().is_some_and(|body| masks(body) > 0);
    if app.redactor.is_off() || !(in_headers || in_body) {
        return Ok(());
    }
    let original = app.store.original(id, None).await?;
    let envelope = original.as_ref().map(|original| &original.envelope);
    for (name, value) in &edit.headers {
        let before = envelope.map_or(&[][..], |envelope| envelope.headers());
        let before = before.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let before: usize = before.map(|(_, value)| masks_in(value)).sum();
        if value.as_ref().is_some_and(|value| masks_in(value) > before) {
            return Err(made_from_shown(&format!("edit.headers.{}", crate::raw_json::shown(name))));
        }
    }
    let before = envelope.map_or(0, |envelope| masks(envelope.body()));
    match edit.body.as_ref().is_some_and(|body| masks(body) > before) {
        true => Err(made_from_shown("edit.body")),
        false => Ok(()),
    }
}

fn read_edit(mut edit: Fields, body: &[u8]) -> Result<Edited, Problem> {
    let base64 = edit.text("bodyBase64")?;
    let body = match (edit.take("body"), base64) {
        (None, None) => None,
        (Some(Value::String(text)), None) => Some(text.into_bytes()),
        (Some(_), None) => Some(verbatim(body).ok_or_else(|| bad("edit.body", "cannot be read"))?),
        (None, Some(text)) => {
            Some(STANDARD.decode(text).map_err(|_| bad("edit.bodyBase64", "is not base64"))?)
        }
        (Some(_), Some(_)) => return Err(bad("edit.body", "conflicts with edit.bodyBase64")),
    };
    let content_type = edit.text("contentType")?;
    if let Some(text) = &content_type
        && HeaderValue::from_str(text).is_err()
    {
        return Err(bad("edit.contentType", "cannot be sent as a header"));
    }
    let headers = match edit.take("headers") {
        None => Vec::new(),
        Some(Value::Object(headers)) => {
            headers.into_iter().map(|(name, value)| read_header(name, value)).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(wrong("edit.headers", "an object of headers", &other)),
    };
    let destination = edit.text("destination")?;
    edit.end()?;
    let edited = Edited { body, content_type, headers, destination };
    if edited == Edited::default() {
        return Err(bad("edit", "changes nothing").hint("omit it to send the letter unchanged"));
    }
    Ok(edited)
}

fn read_header(name: String, value: Value) -> Result<(String, Option<header::HeaderValue>), Problem> {
    let path = format!("edit.headers.{}", crate::raw_json::shown(&name));
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(bad(&path, "is not a header name"));
    }
    match value {
        Value::Null => Ok((name, None)),
        Value::String(_) | Value::Object(_) if !is_passed_on(&name) => Err(bad(&path, "is never forwarded")
            .hint("connection and authentication headers are set by the configuration of the destination")),
        Value::String(text) if HeaderValue::from_str(&text).is_ok() => Ok((name, Some(text.into()))),
        Value::String(_) => Err(bad(&path, "cannot be sent as a header")),
        Value::Object(_) => match header::HeaderValue::from_json(value) {
            Ok(typed) => Ok((name, Some(typed))),
            Err(error) => Err(bad(&path, error.to_string())),
        },
        other => Err(wrong(&path, "a string, a typed value, or null to remove it", &other)),
    }
}

/// The body of the edit as it was written: a number keeps its digits, and fields their order. Nothing if it is written
/// twice.
fn verbatim(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        edit: Part<'a>,
    }

    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        body: &'a RawValue,
    }

    let whole: Whole<'_> = serde_json::from_slice(body).ok()?;
    Some(whole.edit.body.get().as_bytes().to_vec())
}

/// Lists what people changed of a letter before it was sent, oldest first. The original stays as it is.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters/{id}/edits",
    tag = "redrives",
    params(("id" = String, Path)),
    responses((status = 200, body = EditList), (status = 404, description = "not_found"))
)]
pub(crate) async fn edits(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<EditList>, Problem> {
    let id = parse_id(id)?;
    if app.store.history(id).await?.is_none() {
        return Err(no_live_letter(&app, id).await);
    }
    Ok(Json(EditList { items: edits_of(&app, id, Bodies::Shown, &app.redactor).await? }))
}

/// The edits of a letter beside the originals that they were made of.
pub(crate) async fn edits_of(
    app: &App,
    id: LetterId,
    bodies: Bodies,
    redactor: &Arc<Redactor>,
) -> Result<Vec<EditBody>, Problem> {
    let edits = app.store.edits(id).await?;
    let mut originals = Vec::new();
    for life in edits.iter().map(|edit| edit.life) {
        if originals.iter().all(|(known, _)| *known != life) {
            originals.push((life, app.store.original(id, Some(life)).await?));
        }
    }
    let redactor = Arc::clone(redactor);
    // A diff is work for a processor; requests beside this one go on.
    let shown = move || {
        let original = |life: u32| {
            let found = originals.iter().find(|(known, _)| *known == life);
            found.and_then(|(_, original)| original.as_ref()).map(|original| &original.envelope)
        };
        edits
            .into_iter()
            .map(|edit| (original(edit.life), edit))
            .map(|(of, edit)| EditBody::new(edit, of, bodies, &redactor))
            .collect()
    };
    let compared = tokio::task::spawn_blocking(shown).await;
    compared.map_err(|_| Problem::new(Code::Internal, "the edits could not be compared"))
}
