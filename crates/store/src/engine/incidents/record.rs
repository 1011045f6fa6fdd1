//! What people wrote about an incident, and what happened to it. Nothing of it is ever changed.

use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, Fix, Rca};
use lazaret_core::time::Time;

use super::fix_standing;
use crate::StoreError;
use crate::incident::{IncidentRecord, TimelineEntry};
use crate::seam::{Conn, Sql, Table, Tx, binds, sql, table};

/// An entry of the timeline that is about to be written.
#[derive(Clone, Copy)]
pub(crate) struct TimelineNote<'a> {
    pub at: Time,
    pub kind: &'a str,
    pub by: Option<&'a str>,
    pub text: Option<&'a str>,
}

const ADD_NOTE: Sql = sql!(
    "
insert into incident_timeline (incident, ordinal, at, kind, author, text)
select $1, coalesce(max(ordinal), 0) + 1, $2, $3, $4, $5
  from incident_timeline
 where incident = $1"
);

/// Adds an entry to the timeline of an incident whose row is locked.
pub(crate) async fn add_note(
    tx: &mut impl Tx,
    id: IncidentId,
    note: &TimelineNote<'_>,
) -> Result<(), StoreError> {
    tx.execute(&ADD_NOTE, binds![id, note.at, note.kind, note.by, note.text]).await?;
    Ok(())
}

const OF_INCIDENT: Sql = sql!("select fix_at, fix_disproved, redriven_at from incidents where id = $1");

/// Everything that is on record of an incident.
pub(super) async fn record(conn: &mut impl Conn, id: IncidentId) -> Result<IncidentRecord, StoreError> {
    let (fix, redriven_at) = conn
        .query_one(&OF_INCIDENT, binds![id], |row| Ok((fix_standing(row)?, row.get("redriven_at")?)))
        .await?;
    Ok(IncidentRecord {
        rcas: rcas(conn, id).await?,
        fixes: fixes(conn, id).await?,
        fix,
        redriven_at,
        timeline: timeline(conn, id).await?,
    })
}

pub(crate) const RCAS: Table =
    table!("rcas": "revision", "category", "root_cause", "remediation", "author", "at");

const RCAS_OF: Sql = sql!(
    "
select {}
  from rcas
 where incident = $1
 order by revision
 limit $2",
    RCAS
);

pub(super) async fn rcas(conn: &mut impl Conn, id: IncidentId) -> Result<Vec<Rca>, StoreError> {
    conn.query(&RCAS_OF, binds![id, limits::RCA_REVISIONS_MAX], |row| {
        let revision = row.get("revision")?;
        let analysis = Analysis {
            category: row.get("category")?,
            root_cause: row.get("root_cause")?,
            remediation: row.get("remediation")?,
        };
        Ok(Rca { revision, analysis, author: row.get("author")?, at: row.get("at")? })
    })
    .await
}

const REVISION: Sql = sql!("select coalesce(max(revision), 0) as revision from rcas where incident = $1");

/// The revision of the analysis that holds; 0 if there is none.
pub(super) async fn revision(conn: &mut impl Conn, id: IncidentId) -> Result<u32, StoreError> {
    conn.query_one(&REVISION, binds![id], |row| row.get("revision")).await
}

const ADD_RCA: Sql = sql!(
    "
insert into rcas (incident, {})
values ($1, $2, $3, $4, $5, $6, $7)",
    RCAS
);

pub(super) async fn add_rca(
    tx: &mut impl Tx,
    id: IncidentId,
    revision: u32,
    analysis: &Analysis,
    by: &str,
    at: Time,
) -> Result<(), StoreError> {
    let Analysis { category, root_cause, remediation } = analysis;
    tx.execute(&ADD_RCA, binds![id, revision, *category, root_cause, remediation, by, at]).await?;
    Ok(())
}

pub(crate) const FIXES: Table = table!("fixes": "kind", "reference", "fixed_at", "author", "at", "revision");

const FIXES_OF: Sql = sql!(
    "
select {}
  from fixes
 where incident = $1
 order by number
 limit $2",
    FIXES
);

pub(super) async fn fixes(conn: &mut impl Conn, id: IncidentId) -> Result<Vec<Fix>, StoreError> {
    conn.query(&FIXES_OF, binds![id, limits::RCA_REVISIONS_MAX], |row| {
        Ok(Fix {
            kind: row.get("kind")?,
            reference: row.get("reference")?,
            fixed_at: row.get("fixed_at")?,
            author: row.get("author")?,
            at: row.get("at")?,
            revision: row.get("revision")?,
        })
    })
    .await
}

const ADD_FIX: Sql = sql!(
    "
insert into fixes (incident, number, {})
select $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6, $7
  from fixes
 where incident = $1
having count(*) < $8",
    FIXES
);

/// Keeps a fix; false if too many were named.
pub(super) async fn add_fix(tx: &mut impl Tx, id: IncidentId, fix: &Fix) -> Result<bool, StoreError> {
    let Fix { kind, reference, fixed_at, author, at, revision } = fix;
    let max = limits::RCA_REVISIONS_MAX;
    let values = binds![id, *kind, reference, *fixed_at, author, *at, *revision, max];
    Ok(tx.execute(&ADD_FIX, values).await? == 1)
}

pub(crate) const TIMELINE: Table = table!("incident_timeline": "at", "kind", "author", "text");

const TIMELINE_OF: Sql = sql!(
    "
select {}
  from incident_timeline
 where incident = $1
 order by ordinal desc
 limit $2",
    TIMELINE
);

async fn timeline(conn: &mut impl Conn, id: IncidentId) -> Result<Vec<TimelineEntry>, StoreError> {
    let values = binds![id, limits::TIMELINE_ENTRIES_SHOWN];
    let newest_first = conn.query(&TIMELINE_OF, values, |row| {
        Ok(TimelineEntry {
            at: row.get("at")?,
            kind: row.get("kind")?,
            by: row.get("author")?,
            text: row.get("text")?,
        })
    });
    let mut timeline = newest_first.await?;
    timeline.reverse();
    Ok(timeline)
}
