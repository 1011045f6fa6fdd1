//! What becomes of a frozen list: its groups, what a plan writes down of them, and the end of plans nobody launched.

use lazaret_core::gate::{Cause, Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunAction, RunState};
use lazaret_core::time::Time;
use serde_json::json;

use super::row::{self, Run, lock_redrive};
use crate::StoreError;
use crate::event::NewEvent;
use crate::redrive::{Group, GroupVerdict, Overdue, Redrive};
use crate::seam::{Backend, Conn, Lane, Row, Sql, Tx, Value, binds, sql};

/// The incident as it stands now; one that was merged is judged by what took it over.
const GROUPS: Sql = sql!(
    "
select g.number, i.id, g.source, g.subscriber, g.died, g.letters, g.verdict, g.detail, g.body_missing, i.state,
       i.category, i.class, case when i.fix_at is not null then i.fix_kind end as fix_kind
  from redrive_groups g
  join incidents m on m.id = g.incident
  join incidents i on i.id = coalesce(m.merged_into, m.id)
 where g.redrive = $1
 order by g.number
 limit $2"
);

pub(crate) async fn groups(conn: &mut impl Conn, id: RedriveId) -> Result<Vec<Group>, StoreError> {
    conn.query(&GROUPS, binds![id, limits::PLAN_GROUPS_MAX], group).await
}

fn group(row: &Row<'_>) -> Result<Group, StoreError> {
    let (number, incident) = (row.get("number")?, row.get("id")?);
    let (source, subscriber) = (row.get("source")?, row.get("subscriber")?);
    let (died, letters) = (row.get("died")?, row.get("letters")?);
    let (verdict, detail): (Option<String>, Option<String>) = (row.get("verdict")?, row.get("detail")?);
    Ok(Group {
        number,
        incident,
        source,
        subscriber,
        died,
        letters,
        verdict: verdict.map(|word| open_verdict(&word, detail)).transpose()?,
        body_missing: row.get("body_missing")?,
        cause: Cause {
            state: row.get("state")?,
            analysed: row.get("category")?,
            class: row.get::<lazaret_core::class::ErrorClass>("class")?.category(),
            fix: row.get("fix_kind")?,
        },
    })
}

const NO_WAY_BACK: &str = "no_way_back";

const BODY_MISSING: &str = "body_missing";

fn open_verdict(word: &str, detail: Option<String>) -> Result<GroupVerdict, StoreError> {
    let detail = detail.unwrap_or_default();
    for passed in [Passed::Freely, Passed::Governed] {
        if word == passed.name() {
            return Ok(GroupVerdict::Goes { passed, destination: detail });
        }
    }
    match word {
        NO_WAY_BACK => Ok(GroupVerdict::NoWayBack(detail)),
        BODY_MISSING => Ok(GroupVerdict::BodyMissing(detail)),
        word => Shut::parse(word)
            .map(GroupVerdict::Shut)
            .ok_or_else(|| StoreError::Corrupt(format!("the verdict `{word}` on a group is unknown"))),
    }
}

/// A verdict as it is kept: a word, and the destination or the reason.
fn closed_verdict(verdict: &GroupVerdict) -> (&'static str, Option<&str>) {
    match verdict {
        GroupVerdict::Goes { passed, destination } => (passed.name(), Some(destination)),
        GroupVerdict::Shut(shut) => (shut.name(), None),
        GroupVerdict::NoWayBack(reason) => (NO_WAY_BACK, Some(reason)),
        GroupVerdict::BodyMissing(reason) => (BODY_MISSING, Some(reason)),
    }
}

/// What is left to do once verdicts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    /// There is no list that could be planned.
    NoPlan,
    /// Every letter goes: no row changes.
    AllGo,
    /// Rows have to be gone through.
    Some,
}

const JUDGE: Sql = sql!(
    "
update redrive_groups
   set verdict = $3, detail = $4
 where redrive = $1
   and number = $2"
);

const PLAN_AGAIN: Sql = sql!(
    "
update redrives
   set state = $2, updated_at = $3
 where id = $1"
);

/// Writes the verdicts down.
pub(super) async fn judge(
    tx: &mut impl Tx,
    id: RedriveId,
    verdicts: &[(u32, GroupVerdict)],
    at: Time,
) -> Result<Judged, StoreError> {
    let Some(run) = lock_redrive(tx, id).await?.filter(Run::is_plan) else { return Ok(Judged::NoPlan) };
    let rows: Vec<Vec<Value<'_>>> = verdicts
        .iter()
        .map(|(number, verdict)| {
            let (word, detail) = closed_verdict(verdict);
            vec![id.into(), (*number).into(), word.into(), detail.into()]
        })
        .collect();
    tx.execute_each(&JUDGE, &rows).await?;
    let all_go = verdicts.iter().all(|(_, verdict)| matches!(verdict, GroupVerdict::Goes { .. }));
    let changed = run.redrive.refused + run.count(Outcome::LaneBlocked) > 0;
    if all_go && !changed {
        return Ok(Judged::AllGo);
    }
    // Nobody launches it while half of its rows are as they were planned before.
    tx.execute(&PLAN_AGAIN, binds![id, RunState::Planning, at]).await?;
    Ok(Judged::Some)
}

/// Returns true if a group's verdict lets its letters go.
pub(crate) fn goes(verdict: &str) -> bool {
    verdict == Passed::Freely.name() || verdict == Passed::Governed.name()
}

const KEEP: Sql = sql!(
    "
update redrives
   set state = $2, plan = $3, updated_at = $4
 where id = $1"
);

/// Keeps the plan as it is shown; from here on it can be launched.
pub(super) async fn keep(
    tx: &mut impl Tx,
    id: RedriveId,
    plan: &str,
    at: Time,
) -> Result<Option<Redrive>, StoreError> {
    let Some(run) = lock_redrive(tx, id).await?.filter(Run::is_plan) else { return Ok(None) };
    // One that was planned before is judged anew and stays planned.
    let next = run.state().after(RunAction::Freeze).unwrap_or(run.state());
    tx.execute(&KEEP, binds![id, next, plan, at]).await?;
    if run.redrive.plan.is_none()
        && let Some(kind) = next.event()
    {
        add_event(tx, &run, kind, Some(&run.redrive.by.name), at).await?;
    }
    Ok(row::find(tx, id).await?.map(|run| run.redrive))
}

/// Tells of a redrive; its incident goes with it if there is only one.
pub(super) async fn add_event(
    tx: &mut impl Tx,
    run: &Run,
    kind: &'static str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let detail = json!({ "redrive": id.to_string(), "count": run.redrive.goes() });
    let incident = only_incident(tx, id).await?;
    let detail = Some(detail.to_string());
    tx.add_event(&NewEvent { at, kind, incident, actor: by, detail, ..NewEvent::default() })
}

const INCIDENTS_OF: Sql = sql!("select distinct incident from redrive_groups where redrive = $1 limit 2");

/// The incident of all letters of a list, if they have only one.
pub(super) async fn only_incident(
    conn: &mut impl Conn,
    id: RedriveId,
) -> Result<Option<IncidentId>, StoreError> {
    match conn.query(&INCIDENTS_OF, binds![id], |row| row.get("incident")).await?.as_slice() {
        [only] => Ok(Some(*only)),
        _ => Ok(None),
    }
}

/// Drops plans that are overdue, part by part: other writes come in between.
pub(crate) async fn drop_overdue(store: &impl Backend, overdue: Overdue) -> Result<u64, StoreError> {
    let mut dropped = 0;
    let lane = Lane::Long(limits::FREEZE_ROWS_PER_WRITE);
    while let Some(ended) =
        store.write(lane, overdue, |tx, overdue| Box::pin(drop_chunk(tx, *overdue))).await?
    {
        dropped += ended;
    }
    Ok(dropped)
}

/// What somebody else plans, launches or drops now is theirs.
const UNLAUNCHED: Sql = sql!(
    "
select id
  from redrives{sqlite  indexed by redrives_unlaunched}
 where state in ('planning', 'planned')
   and opened_at < $1
 order by opened_at, id
 limit 1
{postgres for no key update skip locked}"
);

/// The index knows only its own condition, so that stands here too.
pub(crate) const ABANDONED: Sql = sql!(
    "
select id
  from redrives{sqlite  indexed by redrives_unlaunched}
 where state in ('planning', 'planned')
   and state = 'planning'
   and updated_at < $1
 order by opened_at, id
 limit 1
{postgres for no key update skip locked}"
);

const DROP_CHUNK: Sql = sql!(
    "
delete from redrive_letters
 where redrive = $1
   and ordinal <= (select min(ordinal) - 1 + $2 from redrive_letters where redrive = $1)"
);

/// Drops a bounded part of a list that came to nothing; says whether there may be more.
pub(crate) async fn drop_list(tx: &mut impl Tx, id: RedriveId) -> Result<bool, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE;
    Ok(tx.execute(&DROP_CHUNK, binds![id, limit]).await? == limit as u64)
}

/// What is half gone must neither be launched nor taken down further.
const HALF_GONE: Sql = sql!(
    "
update redrives
   set state = $2, frozen = false
 where id = $1"
);

const DROPPED: Sql = sql!(
    "
update redrives
   set state = $2, why = $4, waiting = 0, lane_blocked = 0, refused = 0, cancelled = total, finished_at = $3,
       updated_at = $3
 where id = $1"
);

/// Drops a bounded part of the oldest plan that is overdue. Says how many plans ended with it, nothing if there is none.
async fn drop_chunk(tx: &mut impl Tx, overdue: Overdue) -> Result<Option<u64>, StoreError> {
    let sql = match overdue {
        Overdue::Unlaunched(_) => UNLAUNCHED,
        Overdue::Abandoned(_) => ABANDONED,
    };
    let before = overdue.before();
    let found = tx.query_opt(&sql, binds![before], |row| row.get::<RedriveId>("id")).await?;
    let Some(id) = found else { return Ok(None) };
    let more = drop_list(tx, id).await?;
    tx.execute(&HALF_GONE, binds![id, RunState::Planning]).await?;
    if more {
        return Ok(Some(0));
    }
    tx.execute(&DROPPED, binds![id, RunState::Cancelled, before, overdue.why()]).await?;
    Ok(Some(1))
}
