//! Rows of the letters table and the values they hold.

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::{Hold, Letter, Resolution, Strategy};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;
use rusqlite::Row;

use super::counters::Counted;
use crate::StoreError;

/// The columns that `letter` reads, in its order. The alias `l` is the letters table, `f` the fingerprints.
pub(super) const LETTER_COLUMNS: &str = "
l.id, l.source, l.event_id, l.type, l.queue, l.subscriber_id, l.tenant, l.aggregate, l.schema_version,
l.error_type, l.error_code, l.error_message, l.class, l.fingerprint, f.incident, l.retry_count, l.max_retries,
l.status, l.place, l.life, l.held_at, l.held_by, l.hold_reason, l.resolution_timestamp, l.resolution_strategy,
l.resolved_by, l.resolution_notes, l.previous, l.updated_at, l.died_at, l.retention_at";

pub(super) fn letter(row: &Row<'_>) -> Result<Letter, StoreError> {
    let id = LetterId::from_bytes(row.get(0)?);
    let strategy: Option<String> = row.get(24)?;
    let resolution = match (row.get::<_, Option<i64>>(23)?, strategy) {
        (Some(at), Some(strategy)) => Some(Resolution {
            at: Time::from_ms(at),
            strategy: Strategy::parse(&strategy).ok_or_else(|| unknown("strategy", &strategy))?,
            by: row.get::<_, Option<String>>(25)?.unwrap_or_default(),
            notes: row.get(26)?,
        }),
        (_, _) => None,
    };
    let hold = match row.get::<_, Option<i64>>(20)? {
        Some(at) => Some(Hold {
            at: Time::from_ms(at),
            by: row.get::<_, Option<String>>(21)?.unwrap_or_default(),
            reason: row.get::<_, Option<String>>(22)?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Letter {
        id,
        source: row.get(1)?,
        event_id: row.get(2)?,
        letter_type: row.get(3)?,
        queue: row.get(4)?,
        subscriber: row.get(5)?,
        tenant: row.get(6)?,
        aggregate: row.get(7)?,
        schema_version: row.get(8)?,
        error_type: row.get(9)?,
        error_code: row.get(10)?,
        error_message: row.get(11)?,
        class: class(&row.get::<_, String>(12)?)?,
        fingerprint: Fingerprint::stored(row.get(13)?),
        incident: IncidentId::from_bytes(row.get(14)?),
        retry_count: row.get(15)?,
        max_retries: row.get(16)?,
        status: status(&row.get::<_, String>(17)?)?,
        place: place(&row.get::<_, String>(18)?)?,
        life: row.get(19)?,
        hold,
        resolution,
        previous: row.get::<_, Option<[u8; 16]>>(27)?.map(LetterId::from_bytes),
        created_at: id.at(),
        updated_at: Time::from_ms(row.get(28)?),
        died_at: Time::from_ms(row.get(29)?),
        retention_at: Time::from_ms(row.get(30)?),
    })
}

/// The columns that `counted` reads, in its order.
pub(super) const COUNTED_COLUMNS: &str =
    "source, queue, type, error_type, class, fingerprint, aggregate, status";

/// Reads what a letter counts under, from the column `from` on.
pub(super) fn counted(row: &Row<'_>, from: usize) -> Result<Counted, StoreError> {
    Ok(Counted {
        source: row.get(from)?,
        queue: row.get(from + 1)?,
        letter_type: row.get(from + 2)?,
        error_type: row.get(from + 3)?,
        class: class(&row.get::<_, String>(from + 4)?)?.name(),
        fingerprint: row.get(from + 5)?,
        aggregate: row.get(from + 6)?,
        status: status(&row.get::<_, String>(from + 7)?)?,
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
