//! A letter with everything that is kept of it, as one JSON object: the format of an export, written and read here.
//!
//! Texts that hold JSON are carried as texts, so that no digit and no space of them is lost. What is left out (error,
//! fingerprint and incident of the letter itself) follows from the attempts and from the rules where it arrives.

mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::letter::{Hold, Resolution};
use lazaret_store::page::{Life, LifeAttempt};
use lazaret_store::transfer::{DecisionRecord, Exported};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::wire::hex;

pub(crate) use read::{Door, NotTaken, read};

/// The version of the format; a reader that does not know it refuses the letter.
const FORMAT: u32 = 1;

type Text<'a> = Cow<'a, str>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LetterForm<'a> {
    format: u32,
    /// The capture key in hex.
    key: String,
    id: String,
    source: Text<'a>,
    event_id: Text<'a>,
    #[serde(rename = "type")]
    letter_type: Text<'a>,
    queue: Text<'a>,
    subscriber_id: Option<Text<'a>>,
    tenant: Option<Text<'a>>,
    aggregate: Option<Text<'a>>,
    schema_version: Option<Text<'a>>,
    status: Text<'a>,
    life: u32,
    ever_sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HoldForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<ResolutionForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    created_at: String,
    updated_at: String,
    died_at: String,
    retention_at: String,
    retry_count: u32,
    max_retries: Option<u32>,
    class: Text<'a>,
    lives: Vec<LifeForm<'a>>,
    attempts: Vec<AttemptForm<'a>>,
    decisions: Vec<DecisionForm<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HoldForm<'a> {
    at: String,
    by: Text<'a>,
    reason: Text<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResolutionForm<'a> {
    at: String,
    strategy: Text<'a>,
    by: Text<'a>,
    notes: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LifeForm<'a> {
    life: u32,
    captured_at: String,
    died_at: String,
    class: Text<'a>,
    content_type: Text<'a>,
    /// Pairs of name and value, in the JSON form of `lazaret_core::header`.
    headers: Vec<(Text<'a>, Value)>,
    /// The original if it is UTF-8; otherwise it is in `body_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    sha256: String,
    fatal: u32,
    retry_count: u32,
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redrive_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported: Option<Text<'a>>,
    /// JSON text, as `reported` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Text<'a>>,
    /// Why neither `body` nor `body_base64` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_missing: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AttemptForm<'a> {
    ordinal: u32,
    life: u32,
    at: Option<String>,
    duration_ms: Option<u64>,
    error: ErrorForm<'a>,
    extra: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ErrorForm<'a> {
    #[serde(rename = "type")]
    error_type: Text<'a>,
    code: Option<Text<'a>>,
    message: Text<'a>,
    backtrace: Option<Text<'a>>,
    context: Option<Text<'a>>,
    extra: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DecisionForm<'a> {
    at: String,
    action: Text<'a>,
    actor: Text<'a>,
    role: Text<'a>,
    reason: Option<Text<'a>>,
    operation_id: Option<String>,
}

/// Writes a letter as one line of JSON, without its end.
pub(crate) fn write(exported: &Exported) -> String {
    serde_json::to_string(&LetterForm::from(exported)).expect("texts and numbers can be written as JSON")
}

fn borrowed(text: &str) -> Text<'_> {
    Cow::Borrowed(text)
}

fn optional(text: &Option<String>) -> Option<Text<'_>> {
    text.as_deref().map(Cow::Borrowed)
}

impl<'a> From<&'a Exported> for LetterForm<'a> {
    fn from(exported: &'a Exported) -> LetterForm<'a> {
        let letter = &exported.letter;
        LetterForm {
            format: FORMAT,
            key: hex(&exported.key.0),
            id: letter.id.to_string(),
            source: borrowed(&letter.source),
            event_id: borrowed(&letter.event_id),
            letter_type: borrowed(&letter.letter_type),
            queue: borrowed(&letter.queue),
            subscriber_id: optional(&letter.subscriber),
            tenant: optional(&letter.tenant),
            aggregate: optional(&letter.aggregate),
            schema_version: optional(&letter.schema_version),
            status: borrowed(letter.status.name()),
            life: letter.life,
            ever_sent: exported.ever_sent,
            hold: letter.hold.as_ref().map(HoldForm::from),
            resolution: letter.resolution.as_ref().map(ResolutionForm::from),
            previous: letter.previous.map(|id| id.to_string()),
            created_at: letter.created_at.to_string(),
            updated_at: letter.updated_at.to_string(),
            died_at: letter.died_at.to_string(),
            retention_at: letter.retention_at.to_string(),
            retry_count: letter.retry_count,
            max_retries: letter.max_retries,
            class: borrowed(letter.class.name()),
            lives: exported.lives.iter().map(|(life, envelope)| LifeForm::new(life, envelope)).collect(),
            attempts: exported.attempts.iter().map(AttemptForm::from).collect(),
            decisions: exported.decisions.iter().map(DecisionForm::from).collect(),
        }
    }
}

impl<'a> From<&'a Hold> for HoldForm<'a> {
    fn from(hold: &'a Hold) -> HoldForm<'a> {
        HoldForm { at: hold.at.to_string(), by: borrowed(&hold.by), reason: borrowed(&hold.reason) }
    }
}

impl<'a> From<&'a Resolution> for ResolutionForm<'a> {
    fn from(resolution: &'a Resolution) -> ResolutionForm<'a> {
        ResolutionForm {
            at: resolution.at.to_string(),
            strategy: borrowed(resolution.strategy.name()),
            by: borrowed(&resolution.by),
            notes: optional(&resolution.notes),
        }
    }
}

impl<'a> LifeForm<'a> {
    fn new(life: &'a Life, envelope: &'a Envelope) -> LifeForm<'a> {
        let is_missing = envelope.body_missing().is_some();
        let text = std::str::from_utf8(envelope.body()).ok();
        LifeForm {
            life: life.life,
            captured_at: life.captured_at.to_string(),
            died_at: life.died_at.to_string(),
            class: borrowed(life.class.name()),
            content_type: borrowed(envelope.content_type()),
            headers: envelope
                .headers()
                .iter()
                .map(|(name, value)| (borrowed(name), value.to_json()))
                .collect(),
            body: text.filter(|_| !is_missing).map(Cow::Borrowed),
            body_base64: text.is_none().then(|| STANDARD.encode(envelope.body())),
            sha256: hex(envelope.sha256()),
            fatal: life.fatal,
            retry_count: life.retry_count,
            max_retries: life.max_retries,
            redrive_id: life.redrive.map(|id| id.to_string()),
            reported: optional(&life.reported),
            origin: envelope.origin().map(|origin| Cow::Owned(origin.to_json())),
            body_missing: envelope.body_missing().map(Cow::Borrowed),
        }
    }
}

impl<'a> From<&'a LifeAttempt> for AttemptForm<'a> {
    fn from(life_attempt: &'a LifeAttempt) -> AttemptForm<'a> {
        let Attempt { at, duration_ms, error, extra } = &life_attempt.attempt;
        AttemptForm {
            ordinal: life_attempt.ordinal,
            life: life_attempt.life,
            at: at.map(|at| at.to_string()),
            duration_ms: *duration_ms,
            error: ErrorForm::from(error),
            extra: optional(extra),
        }
    }
}

impl<'a> From<&'a LetterError> for ErrorForm<'a> {
    fn from(error: &'a LetterError) -> ErrorForm<'a> {
        ErrorForm {
            error_type: borrowed(&error.error_type),
            code: optional(&error.code),
            message: borrowed(&error.message),
            backtrace: optional(&error.backtrace),
            context: optional(&error.context),
            extra: optional(&error.extra),
        }
    }
}

impl<'a> From<&'a DecisionRecord> for DecisionForm<'a> {
    fn from(record: &'a DecisionRecord) -> DecisionForm<'a> {
        DecisionForm {
            at: record.at.to_string(),
            action: borrowed(&record.action),
            actor: borrowed(&record.actor),
            role: borrowed(&record.role),
            reason: optional(&record.reason),
            operation_id: record.operation.map(|id| id.to_string()),
        }
    }
}
