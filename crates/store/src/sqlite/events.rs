//! Events: written with what they tell of, read in commit order.

use lazaret_core::id::{EventId, IncidentId, JobId, LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::retention::index;
use super::rows::{self, LETTER_COLUMNS};
use super::writer::Write;
use crate::StoreError;
use crate::event::{Event, EventsKept};
use crate::moves::Move;

pub(super) use crate::event::NewEvent;

const ADD_EVENT: &str = "
insert into events (id, at, kind, letter, incident, operation, job, actor, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

pub(super) fn add(write: &Write, event: &NewEvent<'_>) -> Result<(), StoreError> {
    let id = EventId::mint(event.at, write.entropy.take()?);
    write.conn.prepare_cached(ADD_EVENT)?.execute((
        id.bytes(),
        event.at.ms(),
        event.kind,
        event.letter.as_ref().map(LetterId::bytes),
        event.incident.as_ref().map(IncidentId::bytes),
        event.operation.as_ref().map(OperationId::bytes),
        event.job.as_ref().map(JobId::bytes),
        event.actor,
        event.detail.as_deref(),
    ))?;
    Ok(())
}

const NAMES: &str = "select source, queue, type from dead_letter_queue where id = ?1";

/// Counts what happened to a live letter for whoever watches this instance.
pub(super) fn note(
    write: &mut Write,
    kind: &'static str,
    letter: LetterId,
    rule: &str,
) -> Result<(), StoreError> {
    let named = write.conn.prepare_cached(NAMES)?.query_row([letter.bytes()], |row| {
        Ok(Move {
            kind,
            source: row.get(0)?,
            queue: row.get(1)?,
            letter_type: row.get(2)?,
            rule: rule.to_owned(),
        })
    });
    if let Some(named) = named.optional()? {
        write.tally.note(named);
    }
    Ok(())
}

/// The letter comes with the event: whoever filters or shows it would ask for it next.
fn events_after() -> String {
    format!(
        "select {LETTER_COLUMNS}, e.position, e.id, e.at, e.kind, e.letter, e.incident, e.operation, e.job, e.actor,
                e.detail
           from events e
           left join dead_letter_queue l on l.id = e.letter
           left join fingerprints f on f.fingerprint = l.fingerprint
          where e.position > ?1
          order by e.position
          limit ?2"
    )
}

pub(super) fn after(conn: &Connection, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    let mut statement = conn.prepare_cached(&events_after())?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut found = statement.query((after, limit as i64))?;
    let mut events = Vec::new();
    while let Some(row) = found.next()? {
        let letter = row.get::<_, Option<[u8; 16]>>(35)?.map(LetterId::from_bytes);
        let about = match (row.get_ref(0)?, letter) {
            (ValueRef::Null, Some(gone)) => index::letter(conn, gone)?.map(Box::new),
            (ValueRef::Null, None) => None,
            _ => Some(Box::new(rows::letter(row)?)),
        };
        events.push(Event {
            position: row.get::<_, i64>(31)? as u64,
            id: EventId::from_bytes(row.get(32)?),
            at: Time::from_ms(row.get(33)?),
            kind: row.get(34)?,
            letter,
            incident: row.get::<_, Option<[u8; 16]>>(36)?.map(IncidentId::from_bytes),
            operation: row.get::<_, Option<[u8; 16]>>(37)?.map(OperationId::from_bytes),
            job: row.get::<_, Option<[u8; 16]>>(38)?.map(JobId::from_bytes),
            actor: row.get(39)?,
            detail: row.get(40)?,
            about,
        });
    }
    Ok(events)
}

/// The newest position ever given outlives its event.
const NEWEST: &str = "select seq from sqlite_sequence where name = 'events'";

const OLDEST: &str = "select min(position) from events";

pub(super) fn kept(conn: &Connection) -> Result<EventsKept, StoreError> {
    let newest: Option<i64> = conn.prepare_cached(NEWEST)?.query_row([], |row| row.get(0)).optional()?;
    let newest = newest.unwrap_or(0) as u64;
    let oldest: Option<i64> = conn.prepare_cached(OLDEST)?.query_row([], |row| row.get(0))?;
    Ok(EventsKept { oldest: oldest.map_or(newest + 1, |position| position as u64), newest })
}

const PRUNE: &str = "
delete from events
 where position in (select position
                      from events
                     where position <= ?1
                     order by position
                     limit ?2)";

pub(super) fn prune(write: &Write, keep: u64) -> Result<u64, StoreError> {
    let EventsKept { newest, .. } = kept(&write.conn)?;
    let Some(last) = newest.checked_sub(keep) else { return Ok(0) };
    let pruned =
        write.conn.prepare_cached(PRUNE)?.execute((last as i64, limits::EVENTS_PRUNED_PER_WRITE as i64))?;
    Ok(pruned as u64)
}
