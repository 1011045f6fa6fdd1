//! Rows of the letters table and the values they hold.

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::{Hold, Letter, Resolution, Strategy};
use lazaret_core::lifecycle::{Place, Status};
use tokio_postgres::Row;

use super::cell::Cells;
use super::counters::Counted;
use crate::StoreError;

/// The columns that `letter` reads, in its order. The alias `l` is the letters table, `f` the fingerprints.
pub(super) const LETTER_COLUMNS: &str = "
l.id, l.source, l.event_id, l.type, l.queue, l.subscriber_id, l.tenant, l.aggregate, l.schema_version,
l.error_type, l.error_code, l.error_message, l.class, l.fingerprint, f.incident, l.retry_count, l.max_retries,
l.status, l.place, l.life, l.held_at, l.held_by, l.hold_reason, l.resolution_timestamp, l.resolution_strategy,
l.resolved_by, l.resolution_notes, l.previous, l.updated_at, l.died_at, l.retention_at";

/// How many these are.
pub(super) const LETTER_COLUMNS_COUNT: usize = 31;

pub(super) fn letter(row: &Row) -> Result<Letter, StoreError> {
    let id = LetterId::from_bytes(row.id(0)?);
    let strategy: Option<String> = row.cell(24)?;
    let resolution = match (row.time_opt(23)?, strategy) {
        (Some(at), Some(strategy)) => Some(Resolution {
            at,
            strategy: Strategy::parse(&strategy).ok_or_else(|| unknown("strategy", &strategy))?,
            by: row.cell::<Option<String>>(25)?.unwrap_or_default(),
            notes: row.cell(26)?,
        }),
        (_, _) => None,
    };
    let hold = match row.time_opt(20)? {
        Some(at) => Some(Hold {
            at,
            by: row.cell::<Option<String>>(21)?.unwrap_or_default(),
            reason: row.cell::<Option<String>>(22)?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Letter {
        id,
        source: row.cell(1)?,
        event_id: row.cell(2)?,
        letter_type: row.cell(3)?,
        queue: row.cell(4)?,
        subscriber: row.cell(5)?,
        tenant: row.cell(6)?,
        aggregate: row.cell(7)?,
        schema_version: row.cell(8)?,
        error_type: row.cell(9)?,
        error_code: row.cell(10)?,
        error_message: row.cell(11)?,
        class: class(&row.cell::<String>(12)?)?,
        fingerprint: Fingerprint::stored(row.cell(13)?),
        incident: IncidentId::from_bytes(row.id(14)?),
        retry_count: row.count(15)? as u32,
        max_retries: row.cell::<Option<i64>>(16)?.map(|most| most as u32),
        status: status(&row.cell::<String>(17)?)?,
        place: place(&row.cell::<String>(18)?)?,
        life: row.small(19)?,
        hold,
        resolution,
        previous: row.id_opt(27)?.map(LetterId::from_bytes),
        created_at: id.at(),
        updated_at: row.time(28)?,
        died_at: row.time(29)?,
        retention_at: row.time(30)?,
    })
}

/// The columns that `counted` reads, in its order.
pub(super) const COUNTED_COLUMNS: &str =
    "source, queue, type, error_type, class, fingerprint, aggregate, status";

/// Reads what a letter counts under, from the column `from` on.
pub(super) fn counted(row: &Row, from: usize) -> Result<Counted, StoreError> {
    Ok(Counted {
        source: row.cell(from)?,
        queue: row.cell(from + 1)?,
        letter_type: row.cell(from + 2)?,
        error_type: row.cell(from + 3)?,
        class: class(&row.cell::<String>(from + 4)?)?.name(),
        fingerprint: row.cell(from + 5)?,
        aggregate: row.cell(from + 6)?,
        status: status(&row.cell::<String>(from + 7)?)?,
    })
}

pub(super) fn status(text: &str) -> Result<Status, StoreError> {
    Status::parse(text).ok_or_else(|| unknown("status", text))
}

pub(super) fn place(text: &str) -> Result<Place, StoreError> {
    Place::parse(text).ok_or_else(|| unknown("place", text))
}

pub(super) fn class(text: &str) -> Result<ErrorClass, StoreError> {
    ErrorClass::parse(text).ok_or_else(|| unknown("class", text))
}

pub(super) fn unknown(what: &str, value: &str) -> StoreError {
    StoreError::Corrupt(format!("the {what} `{value}` is unknown"))
}
