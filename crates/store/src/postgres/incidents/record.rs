//! What people wrote about an incident, and what happened to it. Entries are added while the incident's row is held.

use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, Fix, FixKind, Rca};
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::rows::unknown;
use super::super::writer::Write;
use super::fix_standing;
use crate::StoreError;
use crate::incident::{IncidentRecord, TimelineEntry};

/// An entry of the timeline that is about to be written.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Entry<'a> {
    pub at: Time,
    pub kind: &'a str,
    pub by: Option<&'a str>,
    pub text: Option<&'a str>,
}

const NOTE: &str = "
insert into incident_timeline (incident, ordinal, at, kind, author, text)
select $1, coalesce(max(ordinal), 0) + 1, $2, $3, $4, $5
  from incident_timeline
 where incident = $1";

/// Adds an entry to the timeline of an incident whose row is held.
pub(in crate::postgres) async fn note(
    write: &Write,
    id: IncidentId,
    entry: &Entry<'_>,
) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            NOTE,
            &[&Uid(*id.bytes()), &At(entry.at), &entry.kind, &clean_opt(entry.by), &clean_opt(entry.text)],
        )
        .await?;
    Ok(())
}

const NOTE_OPENED: &str = "
insert into incident_timeline (incident, ordinal, at, kind)
select o.incident, 1, o.at, $3
  from unnest($1::uuid[], $2::timestamptz[]) as o (incident, at)";

/// Begins the timelines of incidents that are opened now.
pub(super) async fn note_opened(write: &Write, opened: &[(IncidentId, Time)]) -> Result<(), StoreError> {
    let ids: Vec<Uid> = opened.iter().map(|(id, _)| Uid(*id.bytes())).collect();
    let at: Vec<At> = opened.iter().map(|(_, at)| At(*at)).collect();
    write.conn.execute(NOTE_OPENED, &[&ids, &at, &IncidentState::Open.name()]).await?;
    Ok(())
}

const OF_INCIDENT: &str = "
select fix_at, fix_disproved, redriven_at
  from incidents
 where id = $1";

/// Asked within a snapshot.
pub(super) async fn record(conn: &Conn, id: IncidentId) -> Result<IncidentRecord, StoreError> {
    let row = conn.query_one(OF_INCIDENT, &[&Uid(*id.bytes())]).await?;
    Ok(IncidentRecord {
        rcas: rcas(conn, id).await?,
        fixes: fixes(conn, id).await?,
        fix: fix_standing(row.time_opt(0)?, row.cell(1)?),
        redriven_at: row.time_opt(2)?,
        timeline: timeline(conn, id).await?,
    })
}

const RCAS: &str = "
select revision, category, root_cause, remediation, author, at
  from rcas
 where incident = $1
 order by revision";

pub(super) async fn rcas(conn: &Conn, id: IncidentId) -> Result<Vec<Rca>, StoreError> {
    let mut rcas = Vec::new();
    for row in conn.query(RCAS, &[&Uid(*id.bytes())]).await? {
        let category = category(row.cell(1)?)?;
        let analysis = Analysis { category, root_cause: row.cell(2)?, remediation: row.cell(3)? };
        rcas.push(Rca { revision: row.small(0)?, analysis, author: row.cell(4)?, at: row.time(5)? });
    }
    Ok(rcas)
}

pub(in crate::postgres) fn category(text: &str) -> Result<Category, StoreError> {
    Category::parse(text).ok_or_else(|| unknown("category", text))
}

pub(in crate::postgres) fn fix_kind(text: &str) -> Result<FixKind, StoreError> {
    FixKind::parse(text).ok_or_else(|| unknown("kind of fix", text))
}

const FIXES: &str = "
select kind, reference, fixed_at, author, at, revision
  from fixes
 where incident = $1
 order by number";

pub(super) async fn fixes(conn: &Conn, id: IncidentId) -> Result<Vec<Fix>, StoreError> {
    let mut fixes = Vec::new();
    for row in conn.query(FIXES, &[&Uid(*id.bytes())]).await? {
        fixes.push(Fix {
            kind: fix_kind(row.cell(0)?)?,
            reference: row.cell(1)?,
            fixed_at: row.time(2)?,
            author: row.cell(3)?,
            at: row.time(4)?,
            revision: row.small(5)?,
        });
    }
    Ok(fixes)
}

const TIMELINE: &str = "
select at, kind, author, text
  from incident_timeline
 where incident = $1
 order by ordinal desc
 limit $2";

async fn timeline(conn: &Conn, id: IncidentId) -> Result<Vec<TimelineEntry>, StoreError> {
    let limit = limits::TIMELINE_ENTRIES_SHOWN as i64;
    let mut timeline = Vec::new();
    for row in conn.query(TIMELINE, &[&Uid(*id.bytes()), &limit]).await? {
        timeline.push(TimelineEntry {
            at: row.time(0)?,
            kind: row.cell(1)?,
            by: row.cell(2)?,
            text: row.cell(3)?,
        });
    }
    timeline.reverse();
    Ok(timeline)
}

const ADD_RCA: &str = "
insert into rcas (incident, revision, category, root_cause, remediation, author, at)
values ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn add_rca(
    write: &Write,
    id: IncidentId,
    revision: u32,
    analysis: &Analysis,
    by: &str,
    at: Time,
) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            ADD_RCA,
            &[
                &Uid(*id.bytes()),
                &(revision as i32),
                &analysis.category.name(),
                &clean(&analysis.root_cause),
                &clean(&analysis.remediation),
                &clean(by),
                &At(at),
            ],
        )
        .await?;
    Ok(())
}

const ADD_FIX: &str = "
insert into fixes (incident, number, kind, reference, fixed_at, author, at, revision)
select $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6, $7
  from fixes
 where incident = $1
having count(*) < $8";

/// Keeps a fix; false if too many were named.
pub(super) async fn add_fix(write: &Write, id: IncidentId, fix: &Fix) -> Result<bool, StoreError> {
    let added = write
        .conn
        .execute(
            ADD_FIX,
            &[
                &Uid(*id.bytes()),
                &fix.kind.name(),
                &clean(&fix.reference),
                &At(fix.fixed_at),
                &clean(&fix.author),
                &At(fix.at),
                &(fix.revision as i32),
                &i64::from(limits::RCA_REVISIONS_MAX),
            ],
        )
        .await?;
    Ok(added == 1)
}
