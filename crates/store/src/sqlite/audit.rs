//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, LetterId, OperationId};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::writer::Write;
use crate::StoreError;
use crate::audit::{Actor, AuditEntry};

/// An entry that is about to be written; it gets its id and position there.
pub(super) struct NewEntry<'a> {
    pub at: Time,
    pub actor: &'a Actor,
    pub action: &'a str,
    pub letter: Option<LetterId>,
    pub operation: Option<OperationId>,
    pub filter: Option<&'a str>,
    pub count: u64,
    pub reason: Option<&'a str>,
}

const ADD_ENTRY: &str = "
insert into audit (id, at, actor, role, action, letter, operation, filter, count, reason, request)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

pub(super) fn add(write: &Write<'_>, entry: &NewEntry<'_>) -> Result<(), StoreError> {
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
    ))?;
    Ok(())
}

const ENTRIES_BEFORE: &str = "
select position, id, at, actor, role, action, letter, operation, filter, count, reason, request
  from audit
 where position < ?1
 order by position desc
 limit ?2";

pub(super) fn page(
    conn: &Connection,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let mut statement = conn.prepare_cached(ENTRIES_BEFORE)?;
    let before = before.map_or(i64::MAX, |position| i64::try_from(position).unwrap_or(i64::MAX));
    let mut rows = statement.query((before, limit as i64))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(AuditEntry {
            position: row.get::<_, i64>(0)? as u64,
            id: AuditId::from_bytes(row.get(1)?),
            at: Time::from_ms(row.get(2)?),
            actor: Actor { name: row.get(3)?, role: row.get(4)?, request: row.get(11)? },
            action: row.get(5)?,
            letter: row.get::<_, Option<[u8; 16]>>(6)?.map(LetterId::from_bytes),
            operation: row.get::<_, Option<[u8; 16]>>(7)?.map(OperationId::from_bytes),
            filter: row.get(8)?,
            count: row.get::<_, i64>(9)? as u64,
            reason: row.get(10)?,
        });
    }
    Ok(entries)
}
