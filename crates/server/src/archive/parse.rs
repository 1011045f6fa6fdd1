//! Reading the rows of a file of the archive. Only of bytes that have the hash on record: what somebody else made or
//! changed is never opened.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ErrorClass;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::header::headers_from_json;
use lazaret_core::id::{IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Hold, Letter, Resolution, Strategy};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_store::page::{Life, LifeAttempt};
use lazaret_store::transfer::{DecisionRecord, Exported};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::TreeBuilder;

use super::row::Row;
use super::schema::{Record, VERSION, VERSION_KEY, VERSION_WITHOUT_ORIGINS};

/// Reads all rows in order, with their numbers; ends with the first problem, the visitor's too.
pub(super) fn each(
    content: Bytes,
    mut visit: impl FnMut(u64, Row) -> Result<(), String>,
) -> Result<u64, String> {
    let reader = open(content)?;
    let mut number = 0;
    for group in 0..reader.num_row_groups() {
        visit_group(&reader, group, |_, row| {
            visit(number, read(row)?)?;
            number += 1;
            Ok(())
        })?;
    }
    Ok(number)
}

/// Reads some rows, by their numbers in ascending order. Groups that hold none of them stay packed.
pub(super) fn some(content: Bytes, numbers: &[u64]) -> Result<Vec<Row>, String> {
    let reader = open(content)?;
    let mut wanted = numbers.iter().copied().peekable();
    let mut found = Vec::with_capacity(numbers.len());
    let mut first = 0;
    for group in 0..reader.num_row_groups() {
        let rows = reader.metadata().row_group(group).num_rows().cast_unsigned();
        if wanted.peek().is_some_and(|number| *number < first + rows) {
            visit_group(&reader, group, |at, row| {
                if wanted.next_if_eq(&(first + at)).is_some() {
                    found.push(read(row)?);
                }
                Ok(())
            })?;
        }
        first += rows;
    }
    match wanted.next() {
        Some(number) => Err(format!("row {number} is asked for, and there are {first}")),
        None => Ok(found),
    }
}

fn open(content: Bytes) -> Result<SerializedFileReader<Bytes>, String> {
    let reader = SerializedFileReader::new(content).map_err(unreadable)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let version = metadata
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == VERSION_KEY))
        .and_then(|pair| pair.value.as_deref());
    match version {
        Some(VERSION | VERSION_WITHOUT_ORIGINS) => Ok(reader),
        Some(other) => Err(format!("its columns have version {other}, and this server knows {VERSION}")),
        None => Err("it does not say which version its columns have".to_owned()),
    }
}

/// Shows the rows of a group with their numbers in it.
fn visit_group(
    reader: &SerializedFileReader<Bytes>,
    group: usize,
    mut visit: impl FnMut(u64, Record<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let group = reader.get_row_group(group).map_err(unreadable)?;
    let tree = TreeBuilder::new().with_batch_size(limits::ARCHIVE_ROWS_PER_BATCH);
    let rows = tree.as_iter(schema, group.as_ref()).map_err(unreadable)?;
    for (at, row) in (0..).zip(rows) {
        visit(at, Record(&row.map_err(unreadable)?))?;
    }
    Ok(())
}

fn unreadable(error: impl std::fmt::Display) -> String {
    format!("it cannot be read: {error}")
}

fn read(record: Record<'_>) -> Result<Row, String> {
    let id = record.text("id")?;
    read_row(record).map_err(|problem| format!("letter {id}: {problem}"))
}

fn read_row(record: Record<'_>) -> Result<Row, String> {
    Ok(Row {
        entry: record.entry("entry")?,
        exported: Exported {
            letter: letter(record)?,
            key: CaptureKey(record.digest("key")?),
            ever_sent: record.flag("ever_sent")?,
            lives: record.list("lives", life)?,
            attempts: record.list("attempts", attempt)?,
            decisions: record.list("decisions", decision)?,
        },
        removed_at: record.time("removed_at")?,
        removed_by: record.text("removed_by")?,
        reason: record.text("removed_reason")?,
    })
}

fn letter(record: Record<'_>) -> Result<Letter, String> {
    Ok(Letter {
        id: record.one_of("id", |text| LetterId::parse(text).ok())?,
        source: record.text("source")?,
        event_id: record.text("event_id")?,
        letter_type: record.text("type")?,
        queue: record.text("queue")?,
        subscriber: record.text_or_null("subscriber_id")?,
        tenant: record.text_or_null("tenant")?,
        aggregate: record.text_or_null("aggregate")?,
        schema_version: record.text_or_null("schema_version")?,
        error_type: record.text("error_type")?,
        error_code: record.text_or_null("error_code")?,
        error_message: record.text("error_message")?,
        class: record.one_of("class", ErrorClass::parse)?,
        fingerprint: Fingerprint::stored(record.text("fingerprint")?),
        incident: record.one_of("incident_id", |text| IncidentId::parse(text).ok())?,
        retry_count: record.number("retry_count")?,
        max_retries: record.number_or_null("max_retries")?,
        status: record.one_of("status", Status::parse)?,
        place: record.one_of("place", Place::parse)?,
        life: record.number("life")?,
        hold: hold(record)?,
        resolution: resolution(record)?,
        previous: record.one_of_or_null("previous", |text| LetterId::parse(text).ok())?,
        created_at: record.time("created_at")?,
        updated_at: record.time("updated_at")?,
        died_at: record.time("died_at")?,
        retention_at: record.time("retention_at")?,
    })
}

fn hold(record: Record<'_>) -> Result<Option<Hold>, String> {
    let Some(at) = record.time_or_null("held_at")? else { return Ok(None) };
    Ok(Some(Hold { at, by: record.text("held_by")?, reason: record.text("hold_reason")? }))
}

fn resolution(record: Record<'_>) -> Result<Option<Resolution>, String> {
    let Some(at) = record.time_or_null("resolution_timestamp")? else { return Ok(None) };
    Ok(Some(Resolution {
        at,
        strategy: record.one_of("resolution_strategy", Strategy::parse)?,
        by: record.text("resolved_by")?,
        notes: record.text_or_null("resolution_notes")?,
    }))
}

fn life(record: Record<'_>) -> Result<(Life, Envelope), String> {
    let content_type = record.text("content_type")?;
    let headers = record.one_of("headers", |text| headers_from_json(text).ok())?;
    let origin = match record.later_text("origin")? {
        Some(text) => Some(Origin::from_json(&text).map_err(|error| format!("column origin: {error}"))?),
        None => None,
    };
    let body_missing = record.later_text("body_missing")?;
    let envelope = Envelope::seal(Bytes::from(record.bytes("body")?), content_type.clone(), headers)
        .with_origin(origin.clone())
        .with_body_missing(body_missing.clone());
    if record.digest("sha256")? != *envelope.sha256() {
        return Err("the body does not have its sha256".to_owned());
    }
    let life = Life {
        life: record.number("life")?,
        captured_at: record.time("captured_at")?,
        died_at: record.time("died_at")?,
        class: record.one_of("class", ErrorClass::parse)?,
        fingerprint: Fingerprint::stored(record.text("fingerprint")?),
        content_type,
        body_bytes: envelope.body().len() as u64,
        sha256: *envelope.sha256(),
        fatal: record.number("fatal")?,
        retry_count: record.number("retry_count")?,
        max_retries: record.number_or_null("max_retries")?,
        redrive: record.one_of_or_null("redrive_id", |text| RedriveId::parse(text).ok())?,
        reported: record.text_or_null("reported")?,
        origin,
        body_missing,
    };
    Ok((life, envelope))
}

fn attempt(record: Record<'_>) -> Result<LifeAttempt, String> {
    let error = LetterError {
        error_type: record.text("error_type")?,
        code: record.text_or_null("error_code")?,
        message: record.text("error_message")?,
        backtrace: record.text_or_null("backtrace")?,
        context: record.text_or_null("context")?,
        extra: record.text_or_null("error_extra")?,
    };
    Ok(LifeAttempt {
        ordinal: record.number("ordinal")?,
        life: record.number("life")?,
        attempt: Attempt {
            at: record.time_or_null("at")?,
            duration_ms: record.long_or_null("duration_ms")?,
            error,
            extra: record.text_or_null("extra")?,
        },
    })
}

fn decision(record: Record<'_>) -> Result<DecisionRecord, String> {
    Ok(DecisionRecord {
        at: record.time("at")?,
        action: record.text("action")?,
        actor: record.text("actor")?,
        role: record.text("role")?,
        reason: record.text_or_null("reason")?,
        operation: record.one_of_or_null("operation_id", |text| OperationId::parse(text).ok())?,
        imported: record.flag("imported")?,
    })
}
