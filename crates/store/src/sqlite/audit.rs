//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, IncidentId, LetterId, OperationId, RedriveId};

use super::writer::Write;
use crate::StoreError;

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
