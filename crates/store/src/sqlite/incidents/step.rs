//! What a person or a run does to an incident: written down, told, and the incident moves as the machine says.

use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, Happening, IncidentState, Unmoved};
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, FixKind};
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::writer::Write;
use super::{Change, Entry, change_state, fix_standing, note, record, state};
use crate::StoreError;
use crate::audit::Actor;
use crate::incident::{IncidentStep, IncidentStepped};

/// How an incident stands before a step.
struct Standing {
    state: IncidentState,
    unsettled: i64,
    title: String,
    category: Option<Category>,
    fix: FixStanding,
}

const STANDING: &str = "
select state, unsettled, title, category, fix_at, fix_disproved
  from incidents
 where id = ?1
   and merged_into is null";

fn standing(write: &Write, id: IncidentId) -> Result<Option<Standing>, StoreError> {
    let mut statement = write.conn.prepare_cached(STANDING)?;
    let mut found = statement.query([id.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(Standing {
        state: state(&row.get::<_, String>(0)?)?,
        unsettled: row.get(1)?,
        title: row.get(2)?,
        category: row.get::<_, Option<String>>(3)?.as_deref().map(record::category).transpose()?,
        fix: fix_standing(row.get(4)?, row.get(5)?),
    }))
}

/// Moves an incident by something that happened to it; one that was merged into another stays where it is.
pub(in crate::sqlite) fn happen(
    write: &Write,
    id: IncidentId,
    happening: Happening,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let Some(Standing { state, title, .. }) = standing(write, id)? else { return Ok(()) };
    let next = state.after(happening);
    if next == state {
        return Ok(());
    }
    change_state(write, id, &Change { from: state, to: next, title: &title, by, text: None }, at)
}

/// Does what a person asks for, with the audit entry.
pub(in crate::sqlite) fn step(
    write: &Write,
    id: IncidentId,
    step: &IncidentStep,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let Some(standing) = standing(write, id)? else { return Ok(IncidentStepped::Unknown) };
    let (who, state) = (Some(by.name.as_str()), standing.state);
    let (action, reason, stepped) = match step {
        IncidentStep::Diagnose(analysis) => {
            ("diagnose", None, diagnose(write, id, &standing, analysis, by, at)?)
        }
        IncidentStep::Fix { kind, reference, fixed_at } => {
            let named = Named { kind: *kind, reference, fixed_at: *fixed_at };
            ("fix", Some(reference.as_str()), fix(write, id, &standing, &named, by, at)?)
        }
        IncidentStep::Close(reason) => {
            ("close", reason.as_deref(), close(write, id, &standing, reason.as_deref(), by, at)?)
        }
        IncidentStep::Assign(assignee) => {
            write
                .conn
                .prepare_cached("update incidents set assignee = ?2 where id = ?1")?
                .execute((id.bytes(), assignee))?;
            let text = assignee.as_deref();
            note(write, id, &Entry { at, kind: "assigned", by: who, text })?;
            ("assign", text, IncidentStepped::Done(state))
        }
        IncidentStep::Note(text) => {
            note(write, id, &Entry { at, kind: "note", by: who, text: Some(text) })?;
            ("note", None, IncidentStepped::Done(state))
        }
    };
    if matches!(stepped, IncidentStepped::Done(_)) {
        let entry = NewEntry {
            at,
            actor: by,
            action,
            letter: None,
            operation: None,
            incident: Some(id),
            redrive: None,
            filter: None,
            count: 1,
            reason,
        };
        audit::add(write, &entry)?;
    }
    Ok(stepped)
}

const REVISION: &str = "select coalesce(max(revision), 0) from rcas where incident = ?1";

fn revision(write: &Write, id: IncidentId) -> Result<u32, StoreError> {
    Ok(write.conn.prepare_cached(REVISION)?.query_row([id.bytes()], |row| row.get(0))?)
}

const ADD_RCA: &str = "
insert into rcas (incident, revision, category, root_cause, remediation, author, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const DIAGNOSE: &str = "
update incidents
   set category = ?2, fix_at = iif(?3, null, fix_at), fix_kind = iif(?3, null, fix_kind), fix_disproved = 0
 where id = ?1";

fn diagnose(
    write: &Write,
    id: IncidentId,
    standing: &Standing,
    analysis: &Analysis,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let revision = revision(write, id)? + 1;
    if revision > limits::RCA_REVISIONS_MAX {
        return Ok(IncidentStepped::TooMany);
    }
    let category = analysis.category.name();
    write.conn.prepare_cached(ADD_RCA)?.execute((
        id.bytes(),
        revision,
        category,
        &analysis.root_cause,
        &analysis.remediation,
        &by.name,
        at.ms(),
    ))?;
    // A fix was named for a category: it is none for another one.
    let recategorized = standing.category.is_some_and(|before| before != analysis.category);
    let happening = if recategorized { Happening::Recategorized } else { Happening::Diagnosed };
    let next = standing.state.after(happening);
    write.conn.prepare_cached(DIAGNOSE)?.execute((id.bytes(), category, recategorized))?;
    let by = Some(by.name.as_str());
    if next == standing.state {
        note(write, id, &Entry { at, kind: "revised", by, text: None })?;
    } else {
        let change = Change { from: standing.state, to: next, title: &standing.title, by, text: None };
        change_state(write, id, &change, at)?;
    }
    Ok(IncidentStepped::Done(next))
}

/// A fix as it was named.
struct Named<'a> {
    kind: FixKind,
    reference: &'a str,
    fixed_at: Time,
}

const FIXES: &str = "select coalesce(max(number), 0) from fixes where incident = ?1";

const ADD_FIX: &str = "
insert into fixes (incident, number, kind, reference, fixed_at, author, at, revision)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

fn fix(
    write: &Write,
    id: IncidentId,
    standing: &Standing,
    named: &Named<'_>,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    if let Err(unmoved) = standing.state.takes_fix(standing.fix) {
        return Ok(IncidentStepped::Refused(unmoved));
    }
    let revision = revision(write, id)?;
    if revision == 0 {
        return Ok(IncidentStepped::Refused(Unmoved::NotDiagnosed));
    }
    let number = write.conn.prepare_cached(FIXES)?.query_row([id.bytes()], |row| row.get::<_, u32>(0))? + 1;
    if number > limits::RCA_REVISIONS_MAX {
        return Ok(IncidentStepped::TooMany);
    }
    let Named { kind, reference, fixed_at } = *named;
    write.conn.prepare_cached(ADD_FIX)?.execute((
        id.bytes(),
        number,
        kind.name(),
        reference,
        fixed_at.ms(),
        &by.name,
        at.ms(),
        revision,
    ))?;
    write.conn.prepare_cached("update incidents set fix_at = ?2, fix_kind = ?3 where id = ?1")?.execute((
        id.bytes(),
        fixed_at.ms(),
        kind.name(),
    ))?;
    let by = Some(by.name.as_str());
    note(write, id, &Entry { at, kind: "fix_named", by, text: Some(reference) })?;
    let next = standing.state.after(Happening::FixNamed);
    if next != standing.state {
        let change = Change { from: standing.state, to: next, title: &standing.title, by, text: None };
        change_state(write, id, &change, at)?;
    }
    Ok(IncidentStepped::Done(next))
}

fn close(
    write: &Write,
    id: IncidentId,
    standing: &Standing,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    if standing.unsettled > 0 {
        return Ok(IncidentStepped::Refused(Unmoved::LettersLeft));
    }
    let next = standing.state.after(Happening::LastLetterEnded);
    if next != standing.state {
        let by = Some(by.name.as_str());
        let change = Change { from: standing.state, to: next, title: &standing.title, by, text: reason };
        change_state(write, id, &change, at)?;
    }
    Ok(IncidentStepped::Done(next))
}
