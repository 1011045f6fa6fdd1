//! One letter whole, as the API shows it: the original, every life and attempt, what was decided, why it is grouped.

use std::collections::BTreeMap;

use lazaret_core::attempt::LetterError;
use lazaret_core::fingerprint::{self, Grouping, Subject};
use lazaret_core::header::Headers;
use lazaret_core::letter::Letter;
use lazaret_core::origin::Origin;
use lazaret_core::original_event::{EventParts, OriginalEvent};
use lazaret_store::page::{LetterHistory, Life, LifeAttempt, Original};
use lazaret_store::transfer::DecisionRecord;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::archive::OlderLivesBody;
use super::edit::EditBody;
use super::hold::HoldRecordBody;
use super::incident::PartsBody;
use super::redrive::LetterRedriveBody;
use super::{ErrorBody, LetterSummary, fields, hex, raw};

/// The whole entry.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LetterEntry {
    #[serde(flatten)]
    pub summary: LetterSummary,
    /// The original event: a reported one verbatim, a job or an outbox row as `eventId`, `pattern`, `version`, `source`,
    /// `timestamp`, `payload` and `metadata`. The exact bytes are at `/body`.
    #[schema(value_type = Object)]
    pub original_event: EventBody,
    /// The headers of the present life, in their order: pairs of name and value. A value is a text, or an object with
    /// `type` and `value`.
    #[serde(skip_serializing_if = "HeaderList::is_empty")]
    #[schema(value_type = Vec<Vec<Object>>)]
    pub headers: HeaderList,
    /// Where the message came from at its broker: `kind` says which fields there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub origin: Option<Box<RawValue>>,
    /// Why there is no body, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_missing: Option<String>,
    /// Every failed run of every life, oldest first.
    pub retry_history: Vec<AttemptBody>,
    pub lives: Vec<LifeBody>,
    /// What was reported with the present life and not obeyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub reported: Option<Box<RawValue>>,
    /// What was decided on it and by whom, oldest first.
    pub decisions: Vec<DecisionBody>,
    /// What every redrive made of it, newest first.
    pub redrives: Vec<LetterRedriveBody>,
    /// What people changed of it before it was sent, oldest first; with the bodies at `/edits`.
    pub edits: Vec<EditBody>,
    /// The holds that it is under, oldest first.
    pub holds: Vec<HoldRecordBody>,
    /// Older lives that stand in files of the archive, oldest first; with `older=true` they are among `lives` as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub older_lives: Vec<OlderLivesBody>,
    /// Why it is in its incident, by the rules in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouping: Option<GroupingBody>,
    /// Present and true when something is masked, which `reveal` with a reason shows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// Headers in the JSON form of `lazaret_core::header`.
pub(crate) struct HeaderList(pub Headers);

impl HeaderList {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for HeaderList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(name, value)| (name, value.to_json())))
    }
}

/// The original event of a letter.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum EventBody {
    /// What was reported; null if it is not JSON.
    Verbatim(Box<RawValue>),
    Described(DescribedEvent),
}

/// The event of a job or of an outbox row.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DescribedEvent {
    event_id: String,
    pattern: String,
    version: Option<String>,
    source: EventSourceBody,
    timestamp: Option<String>,
    /// The body; null if it is not JSON.
    pub payload: Box<RawValue>,
    pub metadata: Box<RawValue>,
}

#[derive(Serialize)]
struct EventSourceBody {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    name: String,
}

impl EventBody {
    fn new(parts: EventParts<'_>) -> EventBody {
        let json = |text: Option<&str>| {
            text.map(str::to_owned).and_then(raw).unwrap_or_else(|| RawValue::NULL.to_owned())
        };
        let Some(event) = OriginalEvent::of(parts) else {
            return EventBody::Verbatim(json(std::str::from_utf8(parts.body).ok()));
        };
        EventBody::Described(DescribedEvent {
            event_id: event.event_id.to_owned(),
            pattern: event.pattern.to_owned(),
            version: event.version.map(str::to_owned),
            source: EventSourceBody {
                kind: event.source.kind,
                id: event.source.id.to_owned(),
                name: event.source.name.to_owned(),
            },
            timestamp: event.timestamp.map(|at| at.to_string()),
            payload: json(event.payload),
            metadata: json(Some(event.metadata)),
        })
    }
}

/// What is kept beside the letter: how it was sent again and as what, who holds it, and what of it is in the archive.
#[derive(Default)]
pub(crate) struct Beside {
    pub redrives: Vec<LetterRedriveBody>,
    pub edits: Vec<EditBody>,
    pub holds: Vec<HoldRecordBody>,
    pub older_lives: Vec<OlderLivesBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionBody {
    pub at: String,
    pub action: String,
    pub actor: String,
    pub role: String,
    pub reason: Option<String>,
    /// The operation it was a part of, if it was taken on many letters at once.
    pub operation_id: Option<String>,
    /// Whether it was taken in another store and came with the letter.
    pub imported: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupingBody {
    /// The letter's own may still be an older one while letters are being regrouped.
    pub fingerprint: String,
    pub incident_id: String,
    pub parts: PartsBody,
    /// Where this letter says more than the group has in common.
    pub differences: Vec<DifferenceBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DifferenceBody {
    #[schema(value_type = String)]
    pub part: &'static str,
    /// What all letters of the group have.
    pub common: String,
    /// What this one has there.
    pub here: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttemptBody {
    pub life: u32,
    pub timestamp: Option<String>,
    pub error: ErrorBody,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_duration: Option<u64>,
    /// Fields of the attempt that were reported under other names.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: BTreeMap<String, Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LifeBody {
    pub life: u32,
    pub captured_at: String,
    pub died_at: String,
    #[schema(value_type = String)]
    pub class: &'static str,
    pub fingerprint: String,
    pub content_type: String,
    pub body_bytes: u64,
    pub sha256: String,
    pub retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redrive_id: Option<String>,
    /// Where the message came from at its broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub origin: Option<Box<RawValue>>,
    /// Why there is no body, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_missing: Option<String>,
}

impl LetterEntry {
    /// Puts the entry together; an original that is not JSON is shown as null and had at `/body`.
    ///
    /// `group` works out the group of a subject by the rules in force.
    pub fn new(
        history: LetterHistory,
        original: Original,
        beside: Beside,
        group: impl FnOnce(Subject<'_>) -> Grouping,
    ) -> LetterEntry {
        let LetterHistory { letter, lives, attempts, decisions } = history;
        let mut summary = LetterSummary::from(&letter);
        let present = lives.iter().find(|life| life.life == letter.life);
        let fatal = present.and_then(|life| attempts.iter().find(|attempt| attempt.ordinal == life.fatal));
        let mut grouping = None;
        if let Some(fatal) = fatal {
            let error = &fatal.attempt.error;
            summary.error = ErrorBody::from(error);
            grouping = Some(GroupingBody::new(&letter, error, group(subject(&letter, error))));
        }
        let reported = present.and_then(|life| life.reported.as_deref());
        let original_event = EventBody::new(letter.event_parts(&original.envelope, reported));
        LetterEntry {
            summary,
            original_event,
            headers: HeaderList(original.envelope.headers().to_vec()),
            origin: original.envelope.origin().map(Origin::to_json).and_then(raw),
            body_missing: original.envelope.body_missing().map(str::to_owned),
            reported: reported.map(str::to_owned).and_then(raw),
            retry_history: attempts.iter().map(AttemptBody::from).collect(),
            lives: lives.iter().map(LifeBody::from).collect(),
            decisions: decisions.into_iter().map(DecisionBody::from).collect(),
            redrives: beside.redrives,
            edits: beside.edits,
            holds: beside.holds,
            older_lives: beside.older_lives,
            grouping,
            redacted: false,
        }
    }
}

/// What the fingerprint of a letter's present life is made from.
fn subject<'a>(letter: &'a Letter, error: &'a LetterError) -> Subject<'a> {
    Subject {
        source: &letter.source,
        queue: &letter.queue,
        letter_type: &letter.letter_type,
        tenant: letter.tenant.as_deref(),
        error,
    }
}

impl GroupingBody {
    fn new(letter: &Letter, error: &LetterError, grouping: Grouping) -> GroupingBody {
        let differences = fingerprint::differences(&grouping.parts, &letter.letter_type, error);
        GroupingBody {
            fingerprint: grouping.fingerprint.to_string(),
            incident_id: letter.incident.to_string(),
            parts: PartsBody::from(grouping.parts),
            differences: differences
                .into_iter()
                .map(|one| DifferenceBody { part: one.part, common: one.common, here: one.here })
                .collect(),
        }
    }
}

impl From<DecisionRecord> for DecisionBody {
    fn from(record: DecisionRecord) -> DecisionBody {
        DecisionBody {
            at: record.at.to_string(),
            action: record.action,
            actor: record.actor,
            role: record.role,
            reason: record.reason,
            operation_id: record.operation.map(|id| id.to_string()),
            imported: record.imported,
        }
    }
}

impl From<&LifeAttempt> for AttemptBody {
    fn from(attempt: &LifeAttempt) -> AttemptBody {
        AttemptBody {
            life: attempt.life,
            timestamp: attempt.attempt.at.map(|at| at.to_string()),
            error: ErrorBody::from(&attempt.attempt.error),
            processing_duration: attempt.attempt.duration_ms,
            extra: fields(attempt.attempt.extra.as_ref()),
        }
    }
}

impl From<&Life> for LifeBody {
    fn from(life: &Life) -> LifeBody {
        LifeBody {
            life: life.life,
            captured_at: life.captured_at.to_string(),
            died_at: life.died_at.to_string(),
            class: life.class.name(),
            fingerprint: life.fingerprint.to_string(),
            content_type: life.content_type.clone(),
            body_bytes: life.body_bytes,
            sha256: hex(&life.sha256),
            retry_count: life.retry_count,
            max_retries: life.max_retries,
            redrive_id: life.redrive.map(|id| id.to_string()),
            origin: life.origin.as_ref().map(Origin::to_json).and_then(raw),
            body_missing: life.body_missing.clone(),
        }
    }
}
