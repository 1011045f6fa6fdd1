//! What people do about an incident: written down, told, and the incident moves as the machine says.

use lazaret_core::id::IncidentId;
use lazaret_core::incident::{Happening, Unmoved};
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, Fix};
use lazaret_core::time::Time;

use super::record::{TimelineNote, add_fix, add_note, add_rca, revision};
use super::{Locked, lock_incidents};
use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::incident::{IncidentStep, IncidentStepped};
use crate::seam::{Sql, Tx, binds, sql};

const ASSIGN: Sql = sql!(
    "
update incidents
   set assignee = $2
 where id = $1"
);

/// Writes down what a person found out or did, moves the incident and adds the audit entry.
pub(super) async fn step(
    tx: &mut impl Tx,
    id: IncidentId,
    step: &IncidentStep,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let Some(mut incident) = lock_incidents(tx, &[id]).await?.pop() else {
        return Ok(IncidentStepped::Unknown);
    };
    let who = Some(by.name.as_str());
    let (action, reason, stepped) = match step {
        IncidentStep::Diagnose(analysis) => {
            ("diagnose", None, diagnose(tx, &mut incident, analysis, &by.name, at).await?)
        }
        IncidentStep::Fix { kind, reference, fixed_at } => {
            let fix = Fix {
                kind: *kind,
                reference: reference.clone(),
                fixed_at: *fixed_at,
                author: by.name.clone(),
                at,
                revision: revision(tx, id).await?,
            };
            ("fix", Some(reference.as_str()), name_fix(tx, &mut incident, &fix).await?)
        }
        IncidentStep::Close(reason) => {
            ("close", reason.as_deref(), close(tx, &mut incident, reason.as_deref(), who, at).await?)
        }
        IncidentStep::Assign(assignee) => {
            let text = assignee.as_deref();
            tx.execute(&ASSIGN, binds![id, text]).await?;
            add_note(tx, id, &TimelineNote { at, kind: "assigned", by: who, text }).await?;
            ("assign", text, IncidentStepped::Done(incident.state))
        }
        IncidentStep::Note(text) => {
            add_note(tx, id, &TimelineNote { at, kind: "note", by: who, text: Some(text) }).await?;
            ("note", None, IncidentStepped::Done(incident.state))
        }
    };
    match stepped {
        IncidentStepped::Done(_) => {
            tx.add_audit(&NewEntry { incident: Some(id), reason, ..NewEntry::new(by, action, at) })?;
        }
        IncidentStepped::Refused(_) | IncidentStepped::TooMany | IncidentStepped::Unknown => {}
    }
    Ok(stepped)
}

const DIAGNOSE: Sql = sql!(
    "
update incidents
   set category = $2, fix_at = case when $3 then null else fix_at end,
       fix_kind = case when $3 then null else fix_kind end, fix_disproved = false
 where id = $1"
);

async fn diagnose(
    tx: &mut impl Tx,
    incident: &mut Locked,
    analysis: &Analysis,
    by: &str,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let revision = revision(tx, incident.id).await? + 1;
    if revision > limits::RCA_REVISIONS_MAX {
        return Ok(IncidentStepped::TooMany);
    }
    add_rca(tx, incident.id, revision, analysis, by, at).await?;
    // A fix was named for a category: it is none for another one.
    let recategorized = incident.category.is_some_and(|before| before != analysis.category);
    tx.execute(&DIAGNOSE, binds![incident.id, analysis.category, recategorized]).await?;
    let before = incident.state;
    let happening = if recategorized { Happening::Recategorized } else { Happening::Diagnosed };
    incident.happen(tx, happening, Some(by), at).await?;
    if incident.state == before {
        let revised = TimelineNote { at, kind: "revised", by: Some(by), text: None };
        add_note(tx, incident.id, &revised).await?;
    }
    Ok(IncidentStepped::Done(incident.state))
}

const NAME_FIX: Sql = sql!(
    "
update incidents
   set fix_at = $2, fix_kind = $3
 where id = $1"
);

async fn name_fix(tx: &mut impl Tx, incident: &mut Locked, fix: &Fix) -> Result<IncidentStepped, StoreError> {
    if let Err(unmoved) = incident.state.takes_fix(incident.fix) {
        return Ok(IncidentStepped::Refused(unmoved));
    }
    if fix.revision == 0 {
        return Ok(IncidentStepped::Refused(Unmoved::NotDiagnosed));
    }
    if !add_fix(tx, incident.id, fix).await? {
        return Ok(IncidentStepped::TooMany);
    }
    tx.execute(&NAME_FIX, binds![incident.id, fix.fixed_at, fix.kind]).await?;
    let by = Some(fix.author.as_str());
    let named = TimelineNote { at: fix.at, kind: "fix_named", by, text: Some(&fix.reference) };
    add_note(tx, incident.id, &named).await?;
    incident.happen(tx, Happening::FixNamed, by, fix.at).await?;
    Ok(IncidentStepped::Done(incident.state))
}

async fn close(
    tx: &mut impl Tx,
    incident: &mut Locked,
    reason: Option<&str>,
    by: Option<&str>,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    if incident.unsettled > 0 {
        return Ok(IncidentStepped::Refused(Unmoved::LettersLeft));
    }
    let next = incident.state.after(Happening::LastLetterEnded);
    incident.change(tx, next, by, reason, at).await?;
    Ok(IncidentStepped::Done(incident.state))
}
