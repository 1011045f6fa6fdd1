//! The audit log: its pages, and the chain of its links. The stores add entries themselves, at the end of a commit.

use async_trait::async_trait;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Act, Actor, AuditEntry, AuditLog, AuditQuery, Link};
use crate::seam::{Backend, Conn, Lane, Query, Row, Sql, Table, Tx, Value, View, binds, sql, table};

#[async_trait]
impl<S: Backend> AuditLog for S {
    async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        self.read(View::Newest, query, |conn, query| Box::pin(page(conn, query))).await
    }

    async fn note_act(&self, act: Act, by: Actor, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (act, by, at), |tx, (act, by, at)| {
            Box::pin(async move { tx.add_act(act, by, *at) })
        })
        .await
    }

    async fn unlinked_audit(&self, limit: usize) -> Result<(Option<Link>, Vec<AuditEntry>), StoreError> {
        self.read(View::Snapshot, limit, |conn, limit| Box::pin(unlinked(conn, *limit))).await
    }

    async fn link_audit(&self, links: Vec<(u64, Link)>) -> Result<bool, StoreError> {
        self.write(Lane::Run(1), links, |tx, links| Box::pin(link(tx, links))).await
    }

    async fn audit_links(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(AuditEntry, Option<Link>)>, StoreError> {
        self.read(View::Newest, (after, limit), |conn, (after, limit)| Box::pin(links(conn, *after, *limit)))
            .await
    }
}

pub(super) const AUDIT: Table = table!(
    "audit": "position", "id", "at", "actor", "role", "request", "action", "letter", "operation", "incident", "redrive",
    "filter", "count", "reason", "link"
);

fn read(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        position: row.get("position")?,
        id: row.get("id")?,
        at: row.get("at")?,
        actor: Actor { name: row.get("actor")?, role: row.get("role")?, request: row.get("request")? },
        action: row.get("action")?,
        letter: row.get("letter")?,
        operation: row.get("operation")?,
        incident: row.get("incident")?,
        redrive: row.get("redrive")?,
        filter: row.get("filter")?,
        count: row.get("count")?,
        reason: row.get("reason")?,
    })
}

/// Lists entries, newest first. The statement is composed: only some combinations of conditions have an index.
async fn page(conn: &mut impl Conn, asked: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
    let mut query = Query::new(format!("select {} from audit", AUDIT.list));
    query.bind(" where position < $", asked.before.unwrap_or(u64::MAX));
    let conditions = [
        (" and letter = $", asked.letter.map(Value::from)),
        (" and incident = $", asked.incident.map(Value::from)),
        (" and redrive = $", asked.redrive.map(Value::from)),
        (" and actor = $", asked.actor.as_ref().map(Value::from)),
        (" and action = $", asked.action.as_ref().map(Value::from)),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            query.bind(condition, value);
        }
    }
    query.bind(" order by position desc limit $", asked.limit);
    conn.ask(&query, read).await
}

const UNLINKED: Sql = sql!(
    "
select {}
  from audit{sqlite  indexed by audit_unlinked}
 where link is null
 order by position
 limit $1",
    AUDIT
);

const LINK_BEFORE: Sql = sql!(
    "
select link
  from audit
 where position < $1
 order by position desc
 limit 1"
);

/// The oldest entries without a link, and the link of the one before them. Asked within a snapshot.
async fn unlinked(conn: &mut impl Conn, limit: usize) -> Result<(Option<Link>, Vec<AuditEntry>), StoreError> {
    let entries = conn.query(&UNLINKED, binds![limit], read).await?;
    let first = entries.first().map_or(u64::MAX, |entry| entry.position);
    let before = conn.query_opt(&LINK_BEFORE, binds![first], |row| row.get::<Option<Link>>("link")).await?;
    Ok((before.flatten(), entries))
}

/// Entries get their positions in the order of commits, so nobody adds one before those that are seen here. Whoever
/// links them at the same time is waited for by the locks of the rows, and then they are others.
const LOCK_UNLINKED: Sql = sql!(
    "
select position
  from audit{sqlite  indexed by audit_unlinked}
 where link is null
 order by position
 limit $1{postgres 
   for no key update}"
);

const SET_LINKS: Sql = sql!(
    "
update audit{postgres  a
   set link = l.link
  from unnest($1::bigint[], $2::bytea[]) as l (position, link)
 where a.position = l.position
   and a.link is null}{sqlite 
   set link = $2
 where position = $1
   and link is null}"
);

/// Writes links to the oldest entries without one; nothing if these are others by now.
async fn link(tx: &mut impl Tx, links: &[(u64, Link)]) -> Result<bool, StoreError> {
    let oldest: Vec<u64> = tx.query(&LOCK_UNLINKED, binds![links.len()], |row| row.get("position")).await?;
    if !links.iter().map(|(position, _)| *position).eq(oldest) {
        return Ok(false);
    }
    let rows: Vec<Vec<Value<'_>>> =
        links.iter().map(|(position, link)| vec![Value::from(*position), Value::from(link)]).collect();
    tx.execute_rows(&SET_LINKS, &rows).await?;
    Ok(true)
}

const LINKS: Sql = sql!(
    "
select {}
  from audit
 where position > $1
 order by position
 limit $2",
    AUDIT
);

/// Entries after a position in order, with their links.
async fn links(
    conn: &mut impl Conn,
    after: u64,
    limit: usize,
) -> Result<Vec<(AuditEntry, Option<Link>)>, StoreError> {
    conn.query(&LINKS, binds![after, limit], |row| Ok((read(row)?, row.get("link")?))).await
}
