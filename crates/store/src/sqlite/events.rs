//! Events: written with what they tell of, read in commit order.

use lazaret_core::id::{EventId, IncidentId, LetterId, OperationId};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::writer::Write;
use crate::StoreError;
use crate::event::Event;

/// An event that is about to be written; it gets its id and position there.
#[derive(Default)]
pub(super) struct NewEvent<'a> {
    pub at: Time,
    pub kind: &'static str,
    pub letter: Option<LetterId>,
    pub incident: Option<IncidentId>,
    pub operation: Option<OperationId>,
    pub actor: Option<&'a str>,
    pub detail: Option<String>,
}

const ADD_EVENT: &str = "
insert into events (id, at, kind, letter, incident, operation, actor, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

pub(super) fn add(write: &Write<'_>, event: &NewEvent<'_>) -> Result<(), StoreError> {
    let id = EventId::mint(event.at, write.entropy.take()?);
    write.conn.prepare_cached(ADD_EVENT)?.execute((
        id.bytes(),
        event.at.ms(),
        event.kind,
        event.letter.as_ref().map(LetterId::bytes),
        event.incident.as_ref().map(IncidentId::bytes),
        event.operation.as_ref().map(OperationId::bytes),
        event.actor,
        event.detail.as_deref(),
    ))?;
    Ok(())
}

const EVENTS_AFTER: &str = "
select position, id, at, kind, letter, incident, operation, actor, detail
  from events
 where position > ?1
 order by position
 limit ?2";

pub(super) fn after(conn: &Connection, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    let mut statement = conn.prepare_cached(EVENTS_AFTER)?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query((after, limit as i64))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(Event {
            position: row.get::<_, i64>(0)? as u64,
            id: EventId::from_bytes(row.get(1)?),
            at: Time::from_ms(row.get(2)?),
            kind: row.get(3)?,
            letter: row.get::<_, Option<[u8; 16]>>(4)?.map(LetterId::from_bytes),
            incident: row.get::<_, Option<[u8; 16]>>(5)?.map(IncidentId::from_bytes),
            operation: row.get::<_, Option<[u8; 16]>>(6)?.map(OperationId::from_bytes),
            actor: row.get(7)?,
            detail: row.get(8)?,
        });
    }
    Ok(events)
}
