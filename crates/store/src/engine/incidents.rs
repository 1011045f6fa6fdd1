//! Incidents: what is written about them, how they move, and what lists and pages show of them.
//!
//! An incident's row is locked before it moves. Letters that come and go are added up by the stores themselves.

mod cause;
mod detail;
mod list;
mod record;
mod step;

use async_trait::async_trait;
use lazaret_core::class::{Category, ErrorClass};
use lazaret_core::fingerprint::Grouping;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, Happening, IncidentState};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;
use crate::event::NewEvent;
use crate::incident::{
    IncidentCounts, IncidentDetail, IncidentPage, IncidentQuery, IncidentStep, IncidentStepped, Incidents,
};
use crate::seam::{Backend, Lane, Row, Sql, Tx, View, binds, sql};

pub(crate) use cause::{letter_cause, letter_causes};
#[cfg(feature = "testing")]
pub(super) use list::INCIDENTS;
#[cfg(feature = "testing")]
pub(super) use record::{FIXES, RCAS, TIMELINE};
pub(crate) use record::{TimelineNote, add_note};

#[async_trait]
impl<S: Backend> Incidents for S {
    async fn incidents(&self, query: IncidentQuery) -> Result<IncidentPage, StoreError> {
        self.read(View::Snapshot, query, |conn, query| Box::pin(list::page(conn, query))).await
    }

    async fn incident_counts(&self) -> Result<IncidentCounts, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(list::counts(conn))).await
    }

    async fn incident(&self, id: IncidentId) -> Result<Option<IncidentDetail>, StoreError> {
        self.read(View::Snapshot, id, |conn, id| Box::pin(detail::detail(conn, *id))).await
    }

    async fn step_incident(
        &self,
        id: IncidentId,
        step: IncidentStep,
        by: Actor,
        at: Time,
    ) -> Result<IncidentStepped, StoreError> {
        self.write(Lane::Run(1), (id, step, by, at), |tx, (id, step, by, at)| {
            Box::pin(step::step(tx, *id, step, by, *at))
        })
        .await
    }
}

/// The first letter of a fingerprint.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub id: IncidentId,
    pub at: Time,
    pub grouping: &'a Grouping,
    pub error_type: &'a str,
    pub class: ErrorClass,
}

/// An incident whose row is locked until the commit.
#[derive(Clone, Debug)]
pub(crate) struct Locked {
    pub id: IncidentId,
    pub state: IncidentState,
    unsettled: i64,
    title: String,
    category: Option<Category>,
    fix: FixStanding,
}

/// In the order of their ids, so that two instances never wait for each other in a circle.
const LOCK: Sql = sql!(
    "
select id, state, unsettled, title, category, fix_at, fix_disproved
  from incidents
 where id {any $1}
   and merged_into is null
 order by id
{postgres for no key update}"
);

/// Locks incidents until the commit, without those that were merged into others; they come in the order of their ids.
pub(crate) async fn lock_incidents(tx: &mut impl Tx, ids: &[IncidentId]) -> Result<Vec<Locked>, StoreError> {
    tx.query(&LOCK, binds![ids], |row| {
        Ok(Locked {
            id: row.get("id")?,
            state: row.get("state")?,
            unsettled: row.get("unsettled")?,
            title: row.get("title")?,
            category: row.get("category")?,
            fix: fix_standing(row)?,
        })
    })
    .await
}

/// The standing of a fix as it is kept: its time, and whether a regression disproved it.
pub(crate) fn fix_standing(row: &Row<'_>) -> Result<FixStanding, StoreError> {
    Ok(FixStanding::kept(row.get("fix_at")?, row.get("fix_disproved")?))
}

impl Locked {
    /// Moves the incident by something that happened to it.
    pub async fn happen(
        &mut self,
        tx: &mut impl Tx,
        happening: Happening,
        by: Option<&str>,
        at: Time,
    ) -> Result<(), StoreError> {
        self.change(tx, self.state.after(happening), by, None, at).await
    }

    /// Brings the incident to a state, unless it is there.
    async fn change(
        &mut self,
        tx: &mut impl Tx,
        to: IncidentState,
        by: Option<&str>,
        text: Option<&str>,
        at: Time,
    ) -> Result<(), StoreError> {
        if to != self.state {
            let change = Change { from: self.state, to, title: &self.title, by, text };
            change_state(tx, self.id, &change, at).await?;
            self.state = to;
        }
        Ok(())
    }
}

/// Moves an incident by something that happened to it; one that was merged into another stays where it is.
pub(crate) async fn happen(
    tx: &mut impl Tx,
    id: IncidentId,
    happening: Happening,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    for mut incident in lock_incidents(tx, &[id]).await? {
        incident.happen(tx, happening, by, at).await?;
    }
    Ok(())
}

/// A move of an incident, as it is told.
pub(crate) struct Change<'a> {
    pub from: IncidentState,
    pub to: IncidentState,
    pub title: &'a str,
    pub by: Option<&'a str>,
    pub text: Option<&'a str>,
}

const CHANGE_STATE: Sql = sql!(
    "
update incidents
   set state = $3
 where id = $1
   and state = $2"
);

const DISPROVE_FIX: Sql = sql!(
    "
update incidents
   set fix_at = null, fix_kind = null, fix_disproved = true
 where id = $1"
);

/// Moves an incident whose row is locked, and tells of it. A regression voids the fix, so that no later move finds it in
/// force.
pub(crate) async fn change_state(
    tx: &mut impl Tx,
    id: IncidentId,
    change: &Change<'_>,
    at: Time,
) -> Result<(), StoreError> {
    let Change { from, to, title, by, text } = *change;
    tx.execute(&CHANGE_STATE, binds![id, from, to]).await?;
    if to == IncidentState::Regressed {
        tx.execute(&DISPROVE_FIX, binds![id]).await?;
    }
    add_note(tx, id, &TimelineNote { at, kind: to.name(), by, text }).await?;
    let kind = match to {
        IncidentState::Open => "incident.opened",
        IncidentState::Diagnosed => "incident.diagnosed",
        IncidentState::Fixed => "incident.fixed",
        IncidentState::Regressed => "incident.regressed",
        IncidentState::Closed => "incident.closed",
        // A redrive tells of these itself.
        IncidentState::Redriving | IncidentState::Verifying => return Ok(()),
    };
    let detail = Some(serde_json::json!({"from": from.name(), "title": title}).to_string());
    tx.add_event(&NewEvent { at, kind, incident: Some(id), actor: by, detail, ..NewEvent::default() })
}
