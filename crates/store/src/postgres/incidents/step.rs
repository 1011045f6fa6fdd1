//! What people do about an incident, and what runs do to it: its row is held, moved by the machine, and told of.

use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, Happening, IncidentState, Unmoved};
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, Fix};
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid, clean_opt};
use super::super::writer::Write;
use super::record::{Entry, add_fix, add_rca, category, note};
use super::{Change, change_state, fix_standing, state};
use crate::StoreError;
use crate::audit::Actor;
use crate::incident::{IncidentStep, IncidentStepped};

/// An incident whose row is held until the commit.
#[derive(Clone, Debug)]
pub(in crate::postgres) struct Held {
    pub id: IncidentId,
    pub state: IncidentState,
    unsettled: i64,
    title: String,
    category: Option<Category>,
    fix: FixStanding,
}

/// In the order of their ids, so that two instances never wait for each other in a circle.
const HOLD: &str = "
select id, state, unsettled, title, category, fix_at, fix_disproved
  from incidents
 where id = any($1)
   and merged_into is null
 order by id
   for no key update";

/// Holds incidents until the commit, without those that were merged into others; they come in the order of their ids.
pub(in crate::postgres) async fn hold(write: &Write, ids: &[IncidentId]) -> Result<Vec<Held>, StoreError> {
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let mut held = Vec::with_capacity(ids.len());
    for row in write.conn.query(HOLD, &[&ids]).await? {
        held.push(Held {
            id: IncidentId::from_bytes(row.id(0)?),
            state: state(row.cell(1)?)?,
            unsettled: row.cell(2)?,
            title: row.cell(3)?,
            category: row.cell::<Option<&str>>(4)?.map(category).transpose()?,
            fix: fix_standing(row.time_opt(5)?, row.cell(6)?),
        });
    }
    Ok(held)
}

/// Moves an incident that is held by something that happened to it.
pub(in crate::postgres) async fn happen(
    write: &mut Write,
    held: &mut Held,
    happening: Happening,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let next = held.state.after(happening);
    if next != held.state {
        change(write, held, next, by, None, at).await?;
    }
    Ok(())
}

async fn change(
    write: &mut Write,
    held: &mut Held,
    to: IncidentState,
    by: Option<&str>,
    text: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let change = Change { from: held.state, to, title: &held.title, by, text };
    change_state(write, held.id, &change, at).await?;
    held.state = to;
    Ok(())
}

/// Writes down what a person found out or did, moves the incident and puts it on record.
pub(in crate::postgres) async fn step(
    write: &mut Write,
    id: IncidentId,
    step: &IncidentStep,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let Some(mut held) = hold(write, &[id]).await?.pop() else { return Ok(IncidentStepped::Unknown) };
    let (action, reason, stepped) = match step {
        IncidentStep::Diagnose(analysis) => {
            ("diagnose", None, diagnose(write, &mut held, analysis, by, at).await?)
        }
        IncidentStep::Fix { kind, reference, fixed_at } => {
            let fix = Fix {
                kind: *kind,
                reference: reference.clone(),
                fixed_at: *fixed_at,
                author: by.name.clone(),
                at,
                revision: revision(write, id).await?,
            };
            ("fix", Some(reference.as_str()), name_fix(write, &mut held, &fix).await?)
        }
        IncidentStep::Close(reason) => {
            ("close", reason.as_deref(), close(write, &mut held, reason.as_deref(), by, at).await?)
        }
        IncidentStep::Assign(assignee) => {
            write.conn.execute(ASSIGN, &[&Uid(*id.bytes()), &clean_opt(assignee.as_deref())]).await?;
            let text = assignee.as_deref();
            note(write, id, &Entry { at, kind: "assigned", by: Some(&by.name), text }).await?;
            ("assign", text, IncidentStepped::Done(held.state))
        }
        IncidentStep::Note(text) => {
            let text = Some(text.as_str());
            note(write, id, &Entry { at, kind: "note", by: Some(&by.name), text }).await?;
            ("note", None, IncidentStepped::Done(held.state))
        }
    };
    match stepped {
        IncidentStepped::Done(_) => {}
        IncidentStepped::Refused(_) | IncidentStepped::TooMany | IncidentStepped::Unknown => {
            return Ok(stepped);
        }
    }
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
    Ok(stepped)
}

async fn close(
    write: &mut Write,
    held: &mut Held,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    if held.unsettled > 0 {
        return Ok(IncidentStepped::Refused(Unmoved::LettersLeft));
    }
    let next = held.state.after(Happening::LastLetterEnded);
    if next != held.state {
        change(write, held, next, Some(&by.name), reason, at).await?;
    }
    Ok(IncidentStepped::Done(held.state))
}

const ASSIGN: &str = "
update incidents
   set assignee = $2
 where id = $1";

const REVISION: &str = "
select coalesce(max(revision), 0)
  from rcas
 where incident = $1";

/// The revision of the analysis that holds; 0 if there is none.
async fn revision(write: &Write, id: IncidentId) -> Result<u32, StoreError> {
    write.conn.query_one(REVISION, &[&Uid(*id.bytes())]).await?.small(0)
}

const DIAGNOSE: &str = "
update incidents
   set category = $2, fix_at = case when $3 then null else fix_at end,
       fix_kind = case when $3 then null else fix_kind end, fix_disproved = false
 where id = $1";

async fn diagnose(
    write: &mut Write,
    held: &mut Held,
    analysis: &Analysis,
    by: &Actor,
    at: Time,
) -> Result<IncidentStepped, StoreError> {
    let revision = revision(write, held.id).await? + 1;
    if revision > limits::RCA_REVISIONS_MAX {
        return Ok(IncidentStepped::TooMany);
    }
    add_rca(write, held.id, revision, analysis, &by.name, at).await?;
    // A fix was named for a category: it is none for another one.
    let recategorized = held.category.is_some_and(|before| before != analysis.category);
    let category = analysis.category.name();
    write.conn.execute(DIAGNOSE, &[&Uid(*held.id.bytes()), &category, &recategorized]).await?;
    let before = held.state;
    let happening = if recategorized { Happening::Recategorized } else { Happening::Diagnosed };
    happen(write, held, happening, Some(&by.name), at).await?;
    if held.state == before {
        let revised = Entry { at, kind: "revised", by: Some(&by.name), text: None };
        note(write, held.id, &revised).await?;
    }
    Ok(IncidentStepped::Done(held.state))
}

const NAME_FIX: &str = "
update incidents
   set fix_at = $2, fix_kind = $3
 where id = $1";

async fn name_fix(write: &mut Write, held: &mut Held, fix: &Fix) -> Result<IncidentStepped, StoreError> {
    if let Err(unmoved) = held.state.takes_fix(held.fix) {
        return Ok(IncidentStepped::Refused(unmoved));
    }
    if fix.revision == 0 {
        return Ok(IncidentStepped::Refused(Unmoved::NotDiagnosed));
    }
    if !add_fix(write, held.id, fix).await? {
        return Ok(IncidentStepped::TooMany);
    }
    write.conn.execute(NAME_FIX, &[&Uid(*held.id.bytes()), &At(fix.fixed_at), &fix.kind.name()]).await?;
    let named = Entry { at: fix.at, kind: "fix_named", by: Some(&fix.author), text: Some(&fix.reference) };
    note(write, held.id, &named).await?;
    happen(write, held, Happening::FixNamed, Some(&fix.author), fix.at).await?;
    Ok(IncidentStepped::Done(held.state))
}
