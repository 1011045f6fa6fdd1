//! The shapes on the wire: camelCase, times in RFC 3339. The domain's types are converted here, by hand.

pub(crate) mod archive;
pub(crate) mod edit;
pub(crate) mod entry;
mod hide;
pub(crate) mod hold;
pub(crate) mod incident;
pub(crate) mod record;
pub(crate) mod redrive;

use std::collections::BTreeMap;

use lazaret_core::attempt::LetterError;
use lazaret_core::class::Retryable;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Standing;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::audit::AuditEntry;
use lazaret_store::decision::{Operation, Skipped, Verb};
use lazaret_store::page::Total;
use lazaret_store::search::{BodyIndex, Scan};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::app::App;
use crate::redaction::Masker;

/// What a person may do with a letter that stands like this, by the names of the API.
pub(crate) fn offered(standing: Standing) -> impl Iterator<Item = &'static str> {
    Verb::BY_FILTER.into_iter().filter(move |verb| standing.after(verb.action()).is_ok()).map(Verb::name)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LetterSummary {
    pub id: String,
    /// The message's own id at its source.
    pub event_id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriber_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The order key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    pub error: ErrorBody,
    /// transient, configuration, validation, malformed, authorization, not_found, business or unknown
    #[schema(value_type = String)]
    pub class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub category: Option<&'static str>,
    /// yes, no or preset_decides
    #[schema(value_type = String)]
    pub retryable: &'static str,
    pub fingerprint: String,
    pub incident_id: String,
    pub retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// pending, reprocessing, resolved or discarded
    #[schema(value_type = String)]
    pub status: &'static str,
    /// live, archived or deleted
    #[schema(value_type = String)]
    pub place: &'static str,
    /// How often it has died.
    pub life: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<ResolutionBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_id: Option<String>,
    /// When it was captured.
    pub created_at: String,
    pub updated_at: String,
    /// When it died last.
    pub died_at: String,
    /// What may be done with it now.
    #[schema(value_type = Vec<String>)]
    pub allowed_actions: Vec<&'static str>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoldBody {
    pub at: String,
    pub by: String,
    pub reason: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResolutionBody {
    pub timestamp: String,
    /// automatic_retry, manual_retry, manual_resolution or discard
    #[schema(value_type = String)]
    pub strategy: &'static str,
    pub resolved_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorBody {
    pub message: String,
    #[serde(rename = "type")]
    pub error_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub context: Option<Box<RawValue>>,
    /// Fields of the error that were reported under other names.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: BTreeMap<String, Box<RawValue>>,
}

impl From<&Letter> for LetterSummary {
    fn from(letter: &Letter) -> LetterSummary {
        LetterSummary {
            id: letter.id.to_string(),
            event_id: letter.event_id.clone(),
            source: letter.source.clone(),
            letter_type: letter.letter_type.clone(),
            queue: letter.queue.clone(),
            subscriber_id: letter.subscriber.clone(),
            tenant_id: letter.tenant.clone(),
            aggregate_id: letter.aggregate.clone(),
            schema_version: letter.schema_version.clone(),
            error: ErrorBody {
                message: letter.error_message.clone(),
                error_type: letter.error_type.clone(),
                code: letter.error_code.clone(),
                stack_trace: None,
                context: None,
                extra: BTreeMap::new(),
            },
            class: letter.class.name(),
            category: letter.class.category().map(|category| category.name()),
            retryable: match letter.class.retryable() {
                Retryable::Yes => "yes",
                Retryable::No => "no",
                Retryable::PresetDecides => "preset_decides",
            },
            fingerprint: letter.fingerprint.to_string(),
            incident_id: letter.incident.to_string(),
            retry_count: letter.retry_count,
            max_retries: letter.max_retries,
            status: letter.status.name(),
            place: letter.place.name(),
            life: letter.life,
            hold: letter.hold.as_ref().map(|hold| HoldBody {
                at: hold.at.to_string(),
                by: hold.by.clone(),
                reason: hold.reason.clone(),
            }),
            resolution: letter.resolution.as_ref().map(|resolution| ResolutionBody {
                timestamp: resolution.at.to_string(),
                strategy: resolution.strategy.name(),
                resolved_by: resolution.by.clone(),
                notes: resolution.notes.clone(),
            }),
            previous_id: letter.previous.map(|id| id.to_string()),
            created_at: letter.created_at.to_string(),
            updated_at: letter.updated_at.to_string(),
            died_at: letter.died_at.to_string(),
            allowed_actions: offered(letter.standing()).collect(),
        }
    }
}

impl LetterSummary {
    /// A letter in short, with what is hidden masked.
    pub fn shown(letter: &Letter, masker: &Masker<'_>) -> LetterSummary {
        let mut summary = LetterSummary::from(letter);
        summary.hide(masker);
        summary
    }
}

fn raw(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text).ok()
}

fn fields(text: Option<&String>) -> BTreeMap<String, Box<RawValue>> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

impl From<&LetterError> for ErrorBody {
    fn from(error: &LetterError) -> ErrorBody {
        ErrorBody {
            message: error.message.clone(),
            error_type: error.error_type.clone(),
            code: error.code.clone(),
            stack_trace: error.backtrace.clone(),
            context: error.context.clone().and_then(raw),
            extra: fields(error.extra.as_ref()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LetterList {
    pub items: Vec<LetterSummary>,
    #[serde(flatten)]
    pub total: TotalBody,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Present when letters had to be opened to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanBody>,
    /// Present together with `scan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_index: Option<BodyIndexBody>,
}

/// What a page cost that indexes alone could not answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanBody {
    /// Letters that were opened.
    pub letters: u64,
    /// Whether time ran out before the page was full: the next page goes on from there.
    pub cut_short: bool,
}

impl From<Scan> for ScanBody {
    fn from(scan: Scan) -> ScanBody {
        ScanBody { letters: scan.letters, cut_short: scan.cut_short }
    }
}

/// How far the index of bodies has come.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BodyIndexBody {
    /// on or off
    #[schema(value_type = String)]
    pub state: &'static str,
    pub indexed: u64,
    /// Lives that are not in it yet; searches look into them one by one.
    pub behind: u64,
    /// How long the oldest of them has been waiting.
    pub lag_ms: u64,
}

impl BodyIndexBody {
    /// How far the index is now. One that is switched off is not filled, whatever it still holds.
    pub async fn of(app: &App, now: Time) -> Result<BodyIndexBody, StoreError> {
        let BodyIndex { indexed, behind, behind_since } = app.store.body_index().await?;
        let lag_ms = behind_since.map_or(0, |since| now.since(since).max(0).unsigned_abs());
        let state = if app.config.search.bodies { "on" } else { "off" };
        Ok(BodyIndexBody { state, indexed, behind, lag_ms })
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalBody {
    pub total: u64,
    /// Present and true when counting stopped at `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_is_at_least: Option<bool>,
}

impl From<Total> for TotalBody {
    fn from(total: Total) -> TotalBody {
        match total {
            Total::Exact(total) => TotalBody { total, total_is_at_least: None },
            Total::AtLeast(total) => TotalBody { total, total_is_at_least: Some(true) },
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationBody {
    pub id: String,
    #[schema(value_type = String)]
    pub action: &'static str,
    /// freezing, working, done or refused
    #[schema(value_type = String)]
    pub state: &'static str,
    pub filter: String,
    pub expected_count: u64,
    pub total: u64,
    pub done: u64,
    pub skipped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_letters: Vec<SkippedBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub actor: String,
    pub opened_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SkippedBody {
    pub id: String,
    pub reason: String,
}

impl OperationBody {
    pub fn new(operation: Operation, skipped: Vec<Skipped>) -> OperationBody {
        OperationBody {
            id: operation.id.to_string(),
            action: operation.verb.name(),
            state: operation.state.name(),
            filter: operation.filter,
            expected_count: operation.expected.number(),
            total: operation.total,
            done: operation.done,
            skipped: operation.skipped,
            skipped_letters: skipped
                .into_iter()
                .map(|one| SkippedBody { id: one.letter.to_string(), reason: one.reason })
                .collect(),
            reason: operation.reason,
            actor: operation.actor,
            opened_at: operation.opened_at.to_string(),
            finished_at: operation.finished_at.map(|at| at.to_string()),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditBody {
    pub position: u64,
    pub id: String,
    pub at: String,
    pub actor: String,
    pub role: String,
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redrive_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    pub count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl From<AuditEntry> for AuditBody {
    fn from(entry: AuditEntry) -> AuditBody {
        AuditBody {
            position: entry.position,
            id: entry.id.to_string(),
            at: entry.at.to_string(),
            actor: entry.actor.name,
            role: entry.actor.role,
            action: entry.action,
            letter_id: entry.letter.map(|id| id.to_string()),
            operation_id: entry.operation.map(|id| id.to_string()),
            incident_id: entry.incident.map(|id| id.to_string()),
            redrive_id: entry.redrive.map(|id| id.to_string()),
            filter: entry.filter,
            count: entry.count,
            reason: entry.reason,
            request_id: entry.actor.request,
        }
    }
}
