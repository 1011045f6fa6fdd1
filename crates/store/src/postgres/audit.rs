//! The audit log: entries are added with the decision they tell of, and never changed.

use lazaret_core::id::{AuditId, IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::cell::{At, Cells, Uid, clean, clean_opt};
use super::conn::{Binds, Conn};
use super::writer::Write;
use crate::StoreError;
use crate::audit::{Actor, AuditEntry, AuditQuery};

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

/// The columns that `read` reads, in its order; behind them comes the link.
const COLUMNS: &str = "
position, id, at, actor, role, action, letter, operation, filter, count, reason, request, incident, redrive, link";

fn read(row: &Row) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        position: row.count(0)?,
        id: AuditId::from_bytes(row.id(1)?),
        at: row.time(2)?,
        actor: Actor { name: row.cell(3)?, role: row.cell(4)?, request: row.cell(11)? },
        action: row.cell(5)?,
        letter: row.id_opt(6)?.map(LetterId::from_bytes),
        operation: row.id_opt(7)?.map(OperationId::from_bytes),
        incident: row.id_opt(12)?.map(IncidentId::from_bytes),
        redrive: row.id_opt(13)?.map(RedriveId::from_bytes),
        filter: row.cell(8)?,
        count: row.count(9)?,
        reason: row.cell(10)?,
    })
}

/// The link of an entry, if it has one.
type Link = Option<[u8; 32]>;

fn link_of(row: &Row, at: usize) -> Result<Link, StoreError> {
    match row.cell::<Option<&[u8]>>(at)? {
        None => Ok(None),
        Some(_) => row.bytes(at).map(Some),
    }
}

pub(super) async fn page(conn: &Conn, query: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
    let before = query.before.map_or(i64::MAX, |position| i64::try_from(position).unwrap_or(i64::MAX));
    let mut binds = Binds::default();
    let mut conditions = format!("position < {}", binds.long(before));
    let ids = [
        ("letter", query.letter.map(|id| *id.bytes())),
        ("incident", query.incident.map(|id| *id.bytes())),
        ("redrive", query.redrive.map(|id| *id.bytes())),
    ];
    for (column, id) in ids {
        if let Some(id) = id {
            conditions.push_str(&format!(" and {column} = {}", binds.id(id)));
        }
    }
    for (column, text) in [("actor", &query.actor), ("action", &query.action)] {
        if let Some(text) = text {
            conditions.push_str(&format!(" and {column} = {}", binds.text(clean(text).into_owned())));
        }
    }
    let limit = binds.long(query.limit as i64);
    let sql = format!("select {COLUMNS} from audit where {conditions} order by position desc limit {limit}");
    conn.ask(&sql, &binds).await?.iter().map(read).collect()
}

const LINK_BEFORE: &str = "
select link
  from audit
 where position < $1
 order by position desc
 limit 1";

/// The oldest entries without a link, and the link of the one before them. Asked within a snapshot.
pub(super) async fn unlinked(conn: &Conn, limit: usize) -> Result<(Link, Vec<AuditEntry>), StoreError> {
    let sql = format!("select {COLUMNS} from audit where link is null order by position limit $1");
    let found = conn.query(&sql, &[&(limit as i64)]).await?;
    let entries: Vec<AuditEntry> = found.iter().map(read).collect::<Result<_, _>>()?;
    let first = entries.first().map_or(i64::MAX, |entry| entry.position as i64);
    let before = conn.query_opt(LINK_BEFORE, &[&first]).await?;
    Ok((before.map(|row| link_of(&row, 0)).transpose()?.flatten(), entries))
}

/// Entries get their positions in the order of commits, so nobody adds one before those that are seen here. Whoever
/// links them at the same time is waited for by the locks of the rows, and then they are others.
const OLDEST_UNLINKED: &str = "
select position
  from audit
 where link is null
 order by position
 limit $1
   for no key update";

const LINK: &str = "
update audit a
   set link = l.link
  from unnest($1::bigint[], $2::bytea[]) as l (position, link)
 where a.position = l.position
   and a.link is null";

/// Writes links to the oldest entries without one; nothing if these are others by now.
pub(super) async fn link(write: &Write, links: &[(u64, [u8; 32])]) -> Result<bool, StoreError> {
    let found = write.conn.query(OLDEST_UNLINKED, &[&(links.len() as i64)]).await?;
    let oldest: Vec<i64> = found.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    let positions: Vec<i64> = links.iter().map(|(position, _)| *position as i64).collect();
    if oldest != positions {
        return Ok(false);
    }
    let links: Vec<&[u8]> = links.iter().map(|(_, link)| link.as_slice()).collect();
    write.conn.execute(LINK, &[&positions, &links]).await?;
    Ok(true)
}

/// Entries after a position in order, with their links.
pub(super) async fn links(
    conn: &Conn,
    after: u64,
    limit: usize,
) -> Result<Vec<(AuditEntry, Link)>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = format!("select {COLUMNS} from audit where position > $1 order by position limit $2");
    let found = conn.query(&sql, &[&after, &(limit as i64)]).await?;
    found.iter().map(|row| Ok((read(row)?, link_of(row, 14)?))).collect()
}
