//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::time::Time;

use super::cell::{At, Uid, clean, clean_opt};
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;

pub(super) use crate::audit::NewEntry;

/// An entry that waits for its position.
pub(super) struct Entry {
    id: AuditId,
    at: Time,
    actor: String,
    role: String,
    request: Option<String>,
    action: String,
    letter: Option<LetterId>,
    operation: Option<OperationId>,
    incident: Option<IncidentId>,
    redrive: Option<RedriveId>,
    filter: Option<String>,
    count: i64,
    reason: Option<String>,
}

pub(super) fn add(write: &mut Write, entry: &NewEntry<'_>) -> Result<(), StoreError> {
    let id = AuditId::mint(entry.at, write.entropy.take()?);
    let owned = |text: Option<&str>| clean_opt(text).map(|text| text.into_owned());
    write.told.entries.push(Entry {
        id,
        at: entry.at,
        actor: clean(&entry.actor.name).into_owned(),
        role: clean(&entry.actor.role).into_owned(),
        request: owned(entry.actor.request.as_deref()),
        action: entry.action.to_owned(),
        letter: entry.letter,
        operation: entry.operation,
        incident: entry.incident,
        redrive: entry.redrive,
        filter: owned(entry.filter),
        count: entry.count as i64,
        reason: owned(entry.reason),
    });
    Ok(())
}

const ADD_ENTRIES: &str = "
insert into audit (position, id, at, actor, role, action, letter, operation, filter, count, reason, request, incident,
       redrive)
select $1 + e.n, e.id, e.at, e.actor, e.role, e.action, e.letter, e.operation, e.filter, e.count, e.reason, e.request,
       e.incident, e.redrive
  from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::text[],
              $10::bigint[], $11::text[], $12::text[], $13::uuid[], $14::uuid[])
  with ordinality as e (id, at, actor, role, action, letter, operation, filter, count, reason, request, incident,
                        redrive, n)";

/// Writes entries behind a position.
pub(super) async fn add_all(conn: &Conn, before: i64, entries: &[Entry]) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let texts = |of: fn(&Entry) -> Option<&str>| entries.iter().map(of).collect::<Vec<_>>();
    conn.execute(
        ADD_ENTRIES,
        &[
            &before,
            &entries.iter().map(|entry| Uid(*entry.id.bytes())).collect::<Vec<_>>(),
            &entries.iter().map(|entry| At(entry.at)).collect::<Vec<_>>(),
            &texts(|entry| Some(&entry.actor)),
            &texts(|entry| Some(&entry.role)),
            &texts(|entry| Some(&entry.action)),
            &entries.iter().map(|entry| entry.letter.map(|id| Uid(*id.bytes()))).collect::<Vec<_>>(),
            &entries.iter().map(|entry| entry.operation.map(|id| Uid(*id.bytes()))).collect::<Vec<_>>(),
            &texts(|entry| entry.filter.as_deref()),
            &entries.iter().map(|entry| entry.count).collect::<Vec<_>>(),
            &texts(|entry| entry.reason.as_deref()),
            &texts(|entry| entry.request.as_deref()),
            &entries.iter().map(|entry| entry.incident.map(|id| Uid(*id.bytes()))).collect::<Vec<_>>(),
            &entries.iter().map(|entry| entry.redrive.map(|id| Uid(*id.bytes()))).collect::<Vec<_>>(),
        ],
    )
    .await?;
    Ok(())
}
