//! The text of the messages that a reader gets. A message is one block of lines; its data is always one line.

use std::fmt::Write;

use lazaret_core::redaction::Redactor;
use lazaret_store::event::Event;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::wire::LetterSummary;
use crate::events::Lost;
use crate::redaction::Masker;

/// One event. What it does not tell of is left out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventMessage {
    pub id: String,
    /// The place of the event, to go on after.
    pub position: u64,
    pub at: String,
    /// Such as `dead_letter.added` or `incident.opened`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub detail: Option<Box<RawValue>>,
    /// The letter as it stands now, not as it stood then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter: Option<LetterSummary>,
}

/// Events for those who poll.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPage {
    pub items: Vec<EventMessage>,
    /// The position to ask after next.
    pub next: u64,
    /// The place asked for is no longer kept; the page begins with the oldest that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostMessage>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LostMessage {
    #[schema(value_type = String)]
    pub reason: &'static str,
    pub asked: u64,
    pub oldest: u64,
}

impl EventMessage {
    pub fn new(event: &Event, redactor: &Redactor) -> EventMessage {
        let masker = Masker::new(redactor);
        let detail = event.detail.as_deref().map(|text| redactor.json_text(text).into_owned());
        EventMessage {
            id: format!("evt_{}", event.id),
            position: event.position,
            at: event.at.to_string(),
            kind: event.kind.clone(),
            letter_id: event.letter.map(|id| id.to_string()),
            incident_id: event.incident.map(|id| id.to_string()),
            operation_id: event.operation.map(|id| id.to_string()),
            job_id: event.job.map(|id| id.to_string()),
            actor: event.actor.clone(),
            detail: detail.and_then(|text| RawValue::from_string(text).ok()),
            letter: event.about.as_deref().map(|letter| LetterSummary::shown(letter, &masker)),
        }
    }
}

impl From<&Lost> for LostMessage {
    fn from(lost: &Lost) -> LostMessage {
        LostMessage { reason: lost.reason, asked: lost.asked, oldest: lost.oldest }
    }
}

/// What a stream begins with: how soon to come back, and the place it begins at.
pub(crate) fn greeting(place: u64) -> String {
    format!("retry: 1000\nid: {place}\n\n")
}

/// Moves the reader's place without an event: a block with an id and no data is kept in mind and not dispatched.
pub(crate) fn moved(place: u64) -> String {
    format!("id: {place}\n\n")
}

pub(crate) fn beat(place: u64) -> String {
    format!(": beat\nid: {place}\n\n")
}

pub(crate) fn event(text: &mut String, event: &Event, redactor: &Redactor) {
    let data = one_line(&EventMessage::new(event, redactor));
    block(text, event.position, &event.kind, &data);
}

pub(crate) fn lost(lost: &Lost) -> String {
    let mut text = String::new();
    block(&mut text, lost.oldest.saturating_sub(1), "lost", &one_line(&LostMessage::from(lost)));
    text
}

pub(crate) fn dropped(reason: &str, resume_after: u64) -> String {
    let mut text = String::new();
    let data = serde_json::json!({ "reason": reason, "resumeAfter": resume_after });
    block(&mut text, resume_after, "dropped", &data.to_string());
    text
}

fn block(text: &mut String, place: u64, kind: &str, data: &str) {
    // Writing to a text cannot fail.
    write!(text, "id: {place}\nevent: {kind}\ndata: {data}\n\n").ok();
}

/// JSON on one line. What was stored verbatim may hold line ends, which in JSON are never part of a value.
fn one_line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("texts and numbers can always be written");
    text.replace(['\n', '\r'], " ")
}
