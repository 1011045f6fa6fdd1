//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};

use super::writer::Write;
use crate::StoreError;
use crate::audit::{Actor, AuditEntry, AuditQuery};

pub(super) use crate::audit::NewEntry;

const ADD_ENTRY: &str = "
insert into audit (id, at, actor, role, action, letter, operation, filter, count, reason, request, incident, redrive)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

pub(super) fn add(write: &Write, entry: &NewEntry<'_>) -> Result<(), StoreError> {
    let id = AuditId::mint(entry.at, write.entropy.take()?);
    write.conn.prepare_cached(ADD_ENTRY)?.execute((
        id.bytes(),
        entry.at.ms(),
        &entry.actor.name,
        &entry.actor.role,
        entry.action,
        entry.letter.as_ref().map(LetterId::bytes),
        entry.operation.as_ref().map(OperationId::bytes),
        entry.filter,
        entry.count as i64,
        entry.reason,
        entry.actor.request.as_deref(),
        entry.incident.as_ref().map(IncidentId::bytes),
        entry.redrive.as_ref().map(RedriveId::bytes),
    ))?;
    Ok(())
}

const COLUMNS: &str = "
position, id, at, actor, role, action, letter, operation, filter, count, reason, request, incident, redrive, link";

fn read(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        position: row.get::<_, i64>(0)? as u64,
        id: AuditId::from_bytes(row.get(1)?),
        at: Time::from_ms(row.get(2)?),
        actor: Actor { name: row.get(3)?, role: row.get(4)?, request: row.get(11)? },
        action: row.get(5)?,
        letter: row.get::<_, Option<[u8; 16]>>(6)?.map(LetterId::from_bytes),
        operation: row.get::<_, Option<[u8; 16]>>(7)?.map(OperationId::from_bytes),
        incident: row.get::<_, Option<[u8; 16]>>(12)?.map(IncidentId::from_bytes),
        redrive: row.get::<_, Option<[u8; 16]>>(13)?.map(RedriveId::from_bytes),
        filter: row.get(8)?,
        count: row.get::<_, i64>(9)? as u64,
        reason: row.get(10)?,
    })
}

pub(super) fn page(conn: &Connection, query: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
    let before = query.before.map_or(i64::MAX, |position| i64::try_from(position).unwrap_or(i64::MAX));
    let (mut conditions, mut binds) = ("position < ?".to_owned(), vec![Value::Integer(before)]);
    let wanted = [
        ("letter", query.letter.map(|id| Value::Blob(id.bytes().to_vec()))),
        ("incident", query.incident.map(|id| Value::Blob(id.bytes().to_vec()))),
        ("redrive", query.redrive.map(|id| Value::Blob(id.bytes().to_vec()))),
        ("actor", query.actor.clone().map(Value::Text)),
        ("action", query.action.clone().map(Value::Text)),
    ];
    for (column, value) in wanted {
        if let Some(value) = value {
            conditions.push_str(&format!(" and {column} = ?"));
            binds.push(value);
        }
    }
    binds.push(Value::Integer(query.limit as i64));
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS} from audit where {conditions} order by position desc limit ?"
    ))?;
    let mut rows = statement.query(rusqlite::params_from_iter(binds))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(read(row)?);
    }
    Ok(entries)
}

const LINK_BEFORE: &str = "select link from audit where position < ?1 order by position desc limit 1";

/// The oldest entries without a link, and the link of the one before them.
pub(super) fn unlinked(
    conn: &Connection,
    limit: usize,
) -> Result<(Option<[u8; 32]>, Vec<AuditEntry>), StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS} from audit indexed by audit_unlinked where link is null order by position limit ?1"
    ))?;
    let mut rows = statement.query([limit as i64])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(read(row)?);
    }
    let first = entries.first().map_or(i64::MAX, |entry| entry.position as i64);
    let before: Option<Option<[u8; 32]>> =
        conn.prepare_cached(LINK_BEFORE)?.query_row([first], |row| row.get(0)).optional()?;
    drop(rows);
    drop(statement);
    drop(snapshot);
    Ok((before.flatten(), entries))
}

const OLDEST_UNLINKED: &str = "
select position
  from audit indexed by audit_unlinked
 where link is null
 order by position
 limit ?1";

/// Writes links to the oldest entries without one; nothing if these are others by now.
pub(super) fn link(write: &Write, links: &[(u64, [u8; 32])]) -> Result<bool, StoreError> {
    let oldest: Vec<i64> = write
        .conn
        .prepare_cached(OLDEST_UNLINKED)?
        .query_map([links.len() as i64], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if !links.iter().map(|(position, _)| *position as i64).eq(oldest) {
        return Ok(false);
    }
    let mut set = write.conn.prepare_cached("update audit set link = ?2 where position = ?1")?;
    for (position, link) in links {
        set.execute((*position as i64, link))?;
    }
    Ok(true)
}

/// An entry and its link, once it has one.
type Linked = (AuditEntry, Option<[u8; 32]>);

/// Entries after a position in order, with their links.
pub(super) fn links(conn: &Connection, after: u64, limit: usize) -> Result<Vec<Linked>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS} from audit where position > ?1 order by position limit ?2"
    ))?;
    let mut rows = statement.query((i64::try_from(after).unwrap_or(i64::MAX), limit as i64))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push((read(row)?, row.get(14)?));
    }
    Ok(entries)
}
