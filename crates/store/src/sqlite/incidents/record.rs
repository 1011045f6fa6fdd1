//! What people wrote about an incident, and what happened to it. Nothing of it is ever changed.

use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::FixStanding;
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, Fix, FixKind, Rca};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::rows;
use super::super::writer::Write;
use super::fix_standing;
use crate::StoreError;
use crate::incident::{IncidentRecord, TimelineEntry};

/// An entry of the timeline that is about to be written.
pub(in crate::sqlite) struct Entry<'a> {
    pub at: Time,
    pub kind: &'a str,
    pub by: Option<&'a str>,
    pub text: Option<&'a str>,
}

const NOTE: &str = "
insert into incident_timeline (incident, ordinal, at, kind, author, text)
select ?1, coalesce(max(ordinal), 0) + 1, ?2, ?3, ?4, ?5
  from incident_timeline
 where incident = ?1";

/// Puts an entry at the end of an incident's timeline.
pub(in crate::sqlite) fn note(
    write: &Write,
    incident: IncidentId,
    entry: &Entry<'_>,
) -> Result<(), StoreError> {
    let Entry { at, kind, by, text } = entry;
    write.conn.prepare_cached(NOTE)?.execute((incident.bytes(), at.ms(), kind, by, text))?;
    Ok(())
}

const HEAD: &str = "select fix_at, fix_disproved, redriven_at from incidents where id = ?1";

/// Everything that is on record of an incident.
pub(super) fn record(conn: &Connection, id: IncidentId) -> Result<IncidentRecord, StoreError> {
    let (fix, redriven_at): (FixStanding, Option<i64>) = conn
        .prepare_cached(HEAD)?
        .query_row([id.bytes()], |row| Ok((fix_standing(row.get(0)?, row.get(1)?), row.get(2)?)))?;
    Ok(IncidentRecord {
        rcas: rcas(conn, id)?,
        fixes: fixes(conn, id)?,
        fix,
        redriven_at: redriven_at.map(Time::from_ms),
        timeline: timeline(conn, id)?,
    })
}

const RCAS: &str = "
select revision, category, root_cause, remediation, author, at
  from rcas
 where incident = ?1
 order by revision
 limit ?2";

pub(super) fn rcas(conn: &Connection, id: IncidentId) -> Result<Vec<Rca>, StoreError> {
    let mut statement = conn.prepare_cached(RCAS)?;
    let mut found = statement.query((id.bytes(), limits::RCA_REVISIONS_MAX))?;
    let mut rcas = Vec::new();
    while let Some(row) = found.next()? {
        let analysis = Analysis {
            category: category(&row.get::<_, String>(1)?)?,
            root_cause: row.get(2)?,
            remediation: row.get(3)?,
        };
        let at = Time::from_ms(row.get(5)?);
        rcas.push(Rca { revision: row.get(0)?, analysis, author: row.get(4)?, at });
    }
    Ok(rcas)
}

const FIXES: &str = "
select kind, reference, fixed_at, author, at, revision
  from fixes
 where incident = ?1
 order by number
 limit ?2";

pub(super) fn fixes(conn: &Connection, id: IncidentId) -> Result<Vec<Fix>, StoreError> {
    let mut statement = conn.prepare_cached(FIXES)?;
    let mut found = statement.query((id.bytes(), limits::RCA_REVISIONS_MAX))?;
    let mut fixes = Vec::new();
    while let Some(row) = found.next()? {
        fixes.push(Fix {
            kind: fix_kind(&row.get::<_, String>(0)?)?,
            reference: row.get(1)?,
            fixed_at: Time::from_ms(row.get(2)?),
            author: row.get(3)?,
            at: Time::from_ms(row.get(4)?),
            revision: row.get(5)?,
        });
    }
    Ok(fixes)
}

const TIMELINE: &str = "
select at, kind, author, text
  from incident_timeline
 where incident = ?1
 order by ordinal desc
 limit ?2";

fn timeline(conn: &Connection, id: IncidentId) -> Result<Vec<TimelineEntry>, StoreError> {
    let mut statement = conn.prepare_cached(TIMELINE)?;
    let found = statement.query_map((id.bytes(), limits::TIMELINE_ENTRIES_SHOWN as i64), |row| {
        Ok(TimelineEntry {
            at: Time::from_ms(row.get(0)?),
            kind: row.get(1)?,
            by: row.get(2)?,
            text: row.get(3)?,
        })
    })?;
    let mut timeline = found.collect::<Result<Vec<_>, _>>()?;
    timeline.reverse();
    Ok(timeline)
}

pub(in crate::sqlite) fn category(text: &str) -> Result<Category, StoreError> {
    Category::parse(text).ok_or_else(|| rows::unknown("category", text))
}

pub(in crate::sqlite) fn fix_kind(text: &str) -> Result<FixKind, StoreError> {
    FixKind::parse(text).ok_or_else(|| rows::unknown("kind of fix", text))
}
