//! Letters, their lives and attempts, as rows of either database.

use lazaret_core::attempt::Attempt;
use lazaret_core::class::ErrorClass;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Hold, Letter, Resolution};
use lazaret_core::lifecycle::{Place, Status};

use crate::StoreError;
use crate::packing::{open_body, open_error, open_headers, open_origin, open_text};
use crate::page::{Life, LifeAttempt};
use crate::seam::{Row, Table, sql, table};

/// The columns of a letter, live or archived. The incident comes from its fingerprint.
pub(crate) const LETTERS: Table = table!(
    "dead_letter_queue" as "l": "id", "source", "event_id", "type", "queue", "subscriber_id", "tenant", "aggregate",
    "schema_version", "error_type", "error_code", "error_message", "class", "fingerprint", "retry_count", "max_retries",
    "status", "place", "life", "held_at", "held_by", "hold_reason", "resolution_timestamp", "resolution_strategy",
    "resolved_by", "resolution_notes", "previous", "updated_at", "died_at", "retention_at"
);

/// The columns that `letter` reads, in its order. The alias `l` is the letters table, `f` the fingerprints.
pub(crate) const LETTER_COLUMNS: &str = sql!("{}, f.incident", LETTERS).sqlite;

pub(crate) fn letter(row: &Row<'_>) -> Result<Letter, StoreError> {
    let id: LetterId = row.get("id")?;
    Ok(Letter {
        id,
        source: row.get("source")?,
        event_id: row.get("event_id")?,
        letter_type: row.get("type")?,
        queue: row.get("queue")?,
        subscriber: row.get("subscriber_id")?,
        tenant: row.get("tenant")?,
        aggregate: row.get("aggregate")?,
        schema_version: row.get("schema_version")?,
        error_type: row.get("error_type")?,
        error_code: row.get("error_code")?,
        error_message: row.get("error_message")?,
        class: row.get("class")?,
        fingerprint: Fingerprint::stored(row.get("fingerprint")?),
        retry_count: row.get("retry_count")?,
        max_retries: row.get("max_retries")?,
        status: row.get("status")?,
        place: row.get("place")?,
        life: row.get("life")?,
        hold: hold(row)?,
        resolution: resolution(row)?,
        previous: row.get("previous")?,
        created_at: id.at(),
        updated_at: row.get("updated_at")?,
        died_at: row.get("died_at")?,
        retention_at: row.get("retention_at")?,
        incident: row.get("incident")?,
    })
}

fn hold(row: &Row<'_>) -> Result<Option<Hold>, StoreError> {
    let Some(at) = row.get("held_at")? else { return Ok(None) };
    let by: Option<String> = row.get("held_by")?;
    let reason: Option<String> = row.get("hold_reason")?;
    Ok(Some(Hold { at, by: by.unwrap_or_default(), reason: reason.unwrap_or_default() }))
}

fn resolution(row: &Row<'_>) -> Result<Option<Resolution>, StoreError> {
    let at = row.get::<Option<_>>("resolution_timestamp")?;
    let Some((at, strategy)) = at.zip(row.get("resolution_strategy")?) else { return Ok(None) };
    let by: Option<String> = row.get("resolved_by")?;
    Ok(Some(Resolution { at, strategy, by: by.unwrap_or_default(), notes: row.get("resolution_notes")? }))
}

/// The columns of a life, but for its content.
pub(crate) const LIVES: Table = table!(
    "lives" as "v": "life", "captured_at", "died_at", "class", "fingerprint", "content_type", "body_bytes", "sha256",
    "fatal", "retry_count", "max_retries", "redrive", "reported", "origin", "body_missing"
);

pub(crate) fn life(row: &Row<'_>) -> Result<Life, StoreError> {
    Ok(Life {
        life: row.get("life")?,
        captured_at: row.get("captured_at")?,
        died_at: row.get("died_at")?,
        class: row.get("class")?,
        fingerprint: Fingerprint::stored(row.get("fingerprint")?),
        content_type: row.get("content_type")?,
        body_bytes: row.get("body_bytes")?,
        sha256: row.get("sha256")?,
        fatal: row.get("fatal")?,
        retry_count: row.get("retry_count")?,
        max_retries: row.get("max_retries")?,
        redrive: row.get("redrive")?,
        reported: row.get::<Option<Vec<u8>>>("reported")?.map(|packed| open_text(&packed)).transpose()?,
        origin: open_origin(row.get::<Option<String>>("origin")?.as_deref())?,
        body_missing: row.get("body_missing")?,
    })
}

/// Reads the original of a life from its content type, headers and body, and checks it against its hash.
pub(crate) fn original(row: &Row<'_>, letter: LetterId, life: &Life) -> Result<Envelope, StoreError> {
    let headers: Option<String> = row.get("headers")?;
    let body: Vec<u8> = row.get("body")?;
    let envelope =
        Envelope::seal(open_body(&body)?, life.content_type.clone(), open_headers(headers.as_deref())?)
            .with_origin(life.origin.clone())
            .with_body_missing(life.body_missing.clone());
    if *envelope.sha256() != life.sha256 {
        return Err(StoreError::Corrupt(format!(
            "the body of letter {letter}, life {}, does not have its hash",
            life.life
        )));
    }
    Ok(envelope)
}

pub(crate) const ATTEMPTS: Table = table!(
    "attempts" as "a": "ordinal", "life", "at", "duration_ms", "error_type", "error_code", "message", "detail"
);

pub(crate) fn attempt(row: &Row<'_>) -> Result<LifeAttempt, StoreError> {
    let (ordinal, life, at, duration_ms) =
        (row.get("ordinal")?, row.get("life")?, row.get("at")?, row.get("duration_ms")?);
    let (error_type, code, message) = (row.get("error_type")?, row.get("error_code")?, row.get("message")?);
    let detail: Option<Vec<u8>> = row.get("detail")?;
    let (error, extra) = open_error(error_type, code, message, detail.as_deref())?;
    Ok(LifeAttempt { ordinal, life, attempt: Attempt { at, duration_ms, error, extra } })
}

pub(crate) fn parse_status(text: &str) -> Result<Status, StoreError> {
    Status::parse(text).ok_or_else(|| unknown("status", text))
}

pub(crate) fn parse_place(text: &str) -> Result<Place, StoreError> {
    Place::parse(text).ok_or_else(|| unknown("place", text))
}

pub(crate) fn parse_class(text: &str) -> Result<ErrorClass, StoreError> {
    ErrorClass::parse(text).ok_or_else(|| unknown("class", text))
}

pub(crate) fn unknown(what: &str, value: &str) -> StoreError {
    StoreError::Corrupt(format!("the {what} `{value}` is unknown"))
}
