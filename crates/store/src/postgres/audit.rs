//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, LetterId, OperationId};
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid, clean, clean_opt};
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;
use crate::audit::{Actor, AuditEntry};

/// An entry that is about to be written; it gets its id here and its position at the commit.
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
        filter: owned(entry.filter),
        count: entry.count as i64,
        reason: owned(entry.reason),
    });
    Ok(())
}

const ADD_ENTRIES: &str = "
insert into audit (position, id, at, actor, role, action, letter, operation, filter, count, reason, request)
select $1 + e.n, e.id, e.at, e.actor, e.role, e.action, e.letter, e.operation, e.filter, e.count, e.reason, e.request
  from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::text[],
              $10::bigint[], $11::text[], $12::text[])
  with ordinality as e (id, at, actor, role, action, letter, operation, filter, count, reason, request, n)";

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
        ],
    )
    .await?;
    Ok(())
}

const ENTRIES_BEFORE: &str = "
select position, id, at, actor, role, action, letter, operation, filter, count, reason, request
  from audit
 where position < $1
 order by position desc
 limit $2";

pub(super) async fn page(
    conn: &Conn,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let before = before.map_or(i64::MAX, |position| i64::try_from(position).unwrap_or(i64::MAX));
    let mut entries = Vec::new();
    for row in conn.query(ENTRIES_BEFORE, &[&before, &(limit as i64)]).await? {
        entries.push(AuditEntry {
            position: row.count(0)?,
            id: AuditId::from_bytes(row.id(1)?),
            at: row.time(2)?,
            actor: Actor { name: row.cell(3)?, role: row.cell(4)?, request: row.cell(11)? },
            action: row.cell(5)?,
            letter: row.id_opt(6)?.map(LetterId::from_bytes),
            operation: row.id_opt(7)?.map(OperationId::from_bytes),
            filter: row.cell(8)?,
            count: row.count(9)?,
            reason: row.cell(10)?,
        });
    }
    Ok(entries)
}
