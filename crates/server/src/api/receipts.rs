//! Receipts: subscribers say what became of letters that they got.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use serde::Serialize;
use utoipa::ToSchema;

use super::fields::{Fields, bad, word};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::app::App;
use crate::redrive::{self, NotRedriven, ReceiptGiven, ReceiptOutcome, Received};

#[derive(Serialize, ToSchema)]
pub(crate) struct ReceiptAnswers {
    /// In the order of the receipts.
    pub items: Vec<ReceiptAnswer>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptAnswer {
    pub letter_id: String,
    pub life: u32,
    /// resolved, relapsed, late (another life, or it has come to its end: nothing moved), unknown or refused
    #[schema(value_type = String)]
    pub result: &'static str,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Takes receipts, one or many. One that comes twice changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/receipts",
    tag = "redrives",
    request_body(content = Object, description = "`{\"letterId\": id, \"life\": 1, \"redriveId\": id, \"outcome\": \"succeeded|failed\", \"error\": {\"type\", \"message\", \"code\"}, \"at\": time}`, the first two are required; or up to 1000 as `{\"receipts\": […]}`"),
    responses(
        (status = 200, body = ReceiptAnswers),
        (status = 400, description = "bad_request or bad_id: see `field`; nothing was accepted"),
        (status = 404, description = "not_found: the letter does not exist, or has no such life"),
        (status = 409, description = "not_allowed: the letter belongs to a job")
    )
)]
pub(crate) async fn receive(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ReceiptAnswers>, Problem> {
    let mut fields = Fields::read(&body?)?;
    let Some(items) = fields.list("receipts", limits::BATCH_ITEMS_MAX)? else {
        let given = read(fields, &caller)?;
        let (letter, life) = (given.letter, given.life);
        let received = redrive::receive(&app, given).await?;
        if received == Received::Unknown {
            let text = format!("letter {letter} does not exist, or has no life {life}");
            return Err(Problem::new(Code::NotFound, text)
                .hint("send the values of the Lazaret-* headers of the message"));
        }
        return Ok(Json(ReceiptAnswers { items: vec![answer(letter, life, result(received), None)] }));
    };
    fields.end()?;
    // All are read before the first is taken: a slip in the last must not leave half of them done.
    let mut given = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        given.push(read(Fields::of_item(item, &format!("receipts[{at}]"))?, &caller)?);
    }
    let mut answers = Vec::with_capacity(given.len());
    for receipt in given {
        let (letter, life) = (receipt.letter, receipt.life);
        answers.push(match redrive::receive(&app, receipt).await {
            Ok(received) => answer(letter, life, result(received), None),
            Err(NotRedriven::UnknownLetter(_)) => answer(letter, life, "unknown", None),
            Err(error @ NotRedriven::NotByReceipt(_)) => {
                answer(letter, life, "refused", Some(error.to_string()))
            }
            // What was taken before stays so, and taking it twice does no harm.
            Err(error) => return Err(error.into()),
        });
    }
    Ok(Json(ReceiptAnswers { items: answers }))
}

const fn result(received: Received) -> &'static str {
    match received {
        Received::Resolved => "resolved",
        Received::Relapsed => "relapsed",
        Received::Late => "late",
        Received::Unknown => "unknown",
    }
}

fn answer(letter: LetterId, life: u32, result: &'static str, detail: Option<String>) -> ReceiptAnswer {
    ReceiptAnswer { letter_id: letter.to_string(), life, result, detail }
}

fn read(mut fields: Fields, caller: &Caller) -> Result<ReceiptGiven, Problem> {
    let at_path = |fields: &Fields, name: &str| fields.path(name);
    let bad_id = |path: String, error: lazaret_core::id::BadId| {
        Problem::new(Code::BadId, error.to_string()).with("field", path)
    };
    let letter = LetterId::parse(&fields.needed_text("letterId")?)
        .map_err(|error| bad_id(at_path(&fields, "letterId"), error))?;
    let Some(life) = fields.number("life", 1..=u32::MAX)? else { return Err(fields.missing("life")) };
    let redrive = fields
        .text("redriveId")?
        .map(|text| RedriveId::parse(&text))
        .transpose()
        .map_err(|error| bad_id(at_path(&fields, "redriveId"), error))?;
    let (path, error_path) = (fields.path("outcome"), fields.path("error"));
    let failed = match fields.text("outcome")? {
        None => false,
        Some(text) => {
            let known = |text: &str| match text {
                "succeeded" => Some(false),
                "failed" => Some(true),
                _ => None,
            };
            word(&path, &text, known, &["succeeded", "failed"])?
        }
    };
    let error = fields.object("error")?.map(read_error).transpose()?;
    let outcome = match (failed, error) {
        (false, None) => ReceiptOutcome::Succeeded,
        (true, Some(error)) => ReceiptOutcome::Failed { error },
        (true, None) => return Err(bad(&error_path, "is missing: required for a failure")),
        (false, Some(_)) => return Err(bad(&error_path, "conflicts with success")),
    };
    let at = fields.time("at")?;
    fields.end()?;
    Ok(ReceiptGiven { letter, life, redrive, outcome, at, by: caller.name.clone() })
}

fn read_error(mut fields: Fields) -> Result<LetterError, Problem> {
    let message = fields.needed_text("message")?;
    let error_type = fields.text("type")?.unwrap_or_default();
    let (code, backtrace) = (fields.text("code")?, fields.text("stackTrace")?);
    let context = fields.take("context").map(|context| context.to_string());
    fields.end()?;
    Ok(LetterError { error_type, code, message, backtrace, context, extra: None })
}
