//! What becomes of a frozen list: its groups, what a plan writes down of them, and the end of plans nobody launched.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::gate::{Cause, Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunAction, RunState};
use lazaret_core::time::Time;
use serde_json::json;
use tokio_postgres::Row;

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::events::{self, NewEvent};
use super::super::incidents;
use super::super::insert::column;
use super::super::rows::{self, unknown};
use super::super::writer::{Write, Writer};
use super::open::against;
use super::row::{self, Run};
use crate::StoreError;
use crate::redrive::{Group, GroupVerdict, Overdue, Redrive};

/// The incident as it stands now; one that was merged is judged by what took it over.
const GROUPS: &str = "
select g.number, i.id, g.source, g.subscriber, g.died, g.letters, g.verdict, g.detail, i.state, i.category, i.class,
       case when i.fix_at is not null then i.fix_kind end, g.body_missing
  from redrive_groups g
  join incidents m on m.id = g.incident
  join incidents i on i.id = coalesce(m.merged_into, m.id)
 where g.redrive = $1
 order by g.number
 limit $2";

pub(super) async fn groups(conn: &Conn, id: RedriveId) -> Result<Vec<Group>, StoreError> {
    let limit = limits::PLAN_GROUPS_MAX as i64;
    conn.query(GROUPS, &[&Uid(*id.bytes()), &limit]).await?.iter().map(group).collect()
}

fn group(row: &Row) -> Result<Group, StoreError> {
    let (analysed, fix): (Option<&str>, Option<&str>) = (row.cell(9)?, row.cell(11)?);
    let cause = Cause {
        state: incidents::state(row.cell(8)?)?,
        analysed: analysed.map(incidents::category).transpose()?,
        class: rows::class(row.cell(10)?)?.category(),
        fix: fix.map(incidents::fix_kind).transpose()?,
    };
    let (verdict, detail): (Option<&str>, Option<String>) = (row.cell(6)?, row.cell(7)?);
    Ok(Group {
        number: row.small(0)?,
        incident: IncidentId::from_bytes(row.id(1)?),
        cause,
        source: row.cell(2)?,
        subscriber: row.cell(3)?,
        died: against(row.cell(4)?)?,
        body_missing: row.cell(12)?,
        letters: row.count(5)?,
        verdict: verdict.map(|word| open_verdict(word, detail)).transpose()?,
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
    if word == NO_WAY_BACK {
        return Ok(GroupVerdict::NoWayBack(detail));
    }
    if word == BODY_MISSING {
        return Ok(GroupVerdict::BodyMissing(detail));
    }
    Shut::parse(word).map(GroupVerdict::Shut).ok_or_else(|| unknown("verdict on a group", word))
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

const JUDGE: &str = "
update redrive_groups g
   set verdict = v.verdict, detail = v.detail
  from unnest($2::integer[], $3::text[], $4::text[]) as v (number, verdict, detail)
 where g.redrive = $1
   and g.number = v.number";

const SET_STATE: &str = "
update redrives
   set state = $2, updated_at = $3
 where id = $1";

/// Whether a list is complete and was not launched: only then may verdicts change it.
fn is_plan(run: &Run) -> bool {
    run.frozen
        && run.redrive.launched_at.is_none()
        && matches!(run.state(), RunState::Planning | RunState::Planned)
}

/// Writes the verdicts down.
pub(super) async fn judge(
    write: &Write,
    id: RedriveId,
    verdicts: &[(u32, GroupVerdict)],
    at: Time,
) -> Result<Judged, StoreError> {
    let Some(run) = row::hold(&write.conn, id).await? else { return Ok(Judged::NoPlan) };
    if !is_plan(&run) {
        return Ok(Judged::NoPlan);
    }
    let key = Uid(*id.bytes());
    let closed: Vec<(&str, Option<&str>)> = column(verdicts, |(_, verdict)| closed_verdict(verdict));
    write
        .conn
        .execute(
            JUDGE,
            &[
                &key,
                &column(verdicts, |(number, _)| *number as i32),
                &column(&closed, |(word, _)| *word),
                &column(&closed, |(_, detail)| clean_opt(*detail)),
            ],
        )
        .await?;
    let all_go = verdicts.iter().all(|(_, verdict)| matches!(verdict, GroupVerdict::Goes { .. }));
    let changed = run.redrive.refused + run.count(Outcome::LaneBlocked) > 0;
    if all_go && !changed {
        return Ok(Judged::AllGo);
    }
    // Nobody launches it while half of its rows are as they were planned before.
    write.conn.execute(SET_STATE, &[&key, &RunState::Planning.name(), &At(at)]).await?;
    Ok(Judged::Some)
}

const REFUSED: &str = "refused";

const BEHIND_REFUSED: &str = "an earlier letter of its key is refused";

/// One row of a list that is gone through.
struct Judging {
    ordinal: i64,
    was: String,
    lane: Option<String>,
    goes: bool,
}

const NEXT_ROWS: &str = "
select t.ordinal, t.outcome, t.lane, g.verdict
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = $1
   and t.ordinal > $2
 order by t.ordinal
 limit $3";

/// Where the lanes of a chunk stand before it; a range gives the order of the index of lanes.
const BEFORE_IN_LANES: &str = "
select l.lane
  from unnest($2::text[]) as l (lane)
 cross join lateral (select outcome
                       from redrive_letters
                      where redrive = $1
                        and lane between l.lane and l.lane
                        and ordinal <= $3
                      order by lane desc, ordinal desc
                      limit 1) b
 where b.outcome = any($4)";

const SET_OUTCOMES: &str = "
update redrive_letters t
   set outcome = n.outcome, evidence = n.evidence
  from unnest($2::bigint[], $3::text[], $4::text[]) as n (ordinal, outcome, evidence)
 where t.redrive = $1
   and t.ordinal = n.ordinal";

const SHIFT: &str = "
update redrives
   set refused = refused + $2, waiting = waiting + $3, lane_blocked = lane_blocked + $4
 where id = $1";

/// Goes through the next rows of a list and sets what the verdicts make of each; says where it ended, nothing at the end.
/// What is behind a refused letter of the same lane must not overtake it.
pub(super) async fn refuse_chunk(
    write: &Write,
    id: RedriveId,
    after: u64,
) -> Result<Option<u64>, StoreError> {
    let (conn, key, after) = (&write.conn, Uid(*id.bytes()), after as i64);
    // Somebody else may have planned and launched it meanwhile.
    if !row::hold(conn, id).await?.is_some_and(|run| is_plan(&run)) {
        return Ok(None);
    }
    let limit = limits::FREEZE_ROWS_PER_WRITE as i64;
    let mut chunk = Vec::new();
    for row in conn.query(NEXT_ROWS, &[&key, &after, &limit]).await? {
        let goes = row.cell::<Option<&str>>(3)?.is_some_and(goes);
        chunk.push(Judging { ordinal: row.cell(0)?, was: row.cell(1)?, lane: row.cell(2)?, goes });
    }
    let lanes: Vec<&str> = chunk.iter().filter_map(|one| one.lane.as_deref()).collect();
    let blocking = [REFUSED, Outcome::LaneBlocked.name()];
    let before = conn.query(BEFORE_IN_LANES, &[&key, &lanes, &after, &blocking.as_slice()]).await?;
    let mut blocked: HashMap<String, ()> =
        before.iter().map(|row| Ok((row.cell(0)?, ()))).collect::<Result<_, StoreError>>()?;
    let mut shifts: BTreeMap<&str, i64> = BTreeMap::new();
    let (mut ordinals, mut outcomes, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
    for one in &chunk {
        let behind = one.lane.as_ref().is_some_and(|lane| blocked.contains_key(lane));
        let (now, why) = match (one.goes, behind) {
            (false, _) => (REFUSED, None),
            (true, true) => (Outcome::LaneBlocked.name(), Some(BEHIND_REFUSED)),
            (true, false) => (Outcome::Waiting.name(), None),
        };
        if let (false, Some(lane)) = (one.goes, &one.lane) {
            blocked.insert(lane.clone(), ());
        }
        if now != one.was {
            ordinals.push(one.ordinal);
            outcomes.push(now);
            evidence.push(why);
            *shifts.entry(&one.was).or_default() -= 1;
            *shifts.entry(now).or_default() += 1;
        }
    }
    if !ordinals.is_empty() {
        conn.execute(SET_OUTCOMES, &[&key, &ordinals, &outcomes, &evidence]).await?;
        let by = |word: &str| shifts.get(word).copied().unwrap_or(0);
        let (refused, waiting) = (by(REFUSED), by(Outcome::Waiting.name()));
        conn.execute(SHIFT, &[&key, &refused, &waiting, &by(Outcome::LaneBlocked.name())]).await?;
    }
    Ok(chunk.last().map(|one| one.ordinal as u64))
}

fn goes(verdict: &str) -> bool {
    verdict == Passed::Freely.name() || verdict == Passed::Governed.name()
}

const KEEP: &str = "
update redrives
   set state = $2, plan = $3, updated_at = $4
 where id = $1";

/// Keeps the plan as it is shown; from here on it can be launched.
pub(super) async fn keep(
    write: &mut Write,
    id: RedriveId,
    plan: &str,
    at: Time,
) -> Result<Option<Redrive>, StoreError> {
    let Some(run) = row::hold(&write.conn, id).await?.filter(is_plan) else { return Ok(None) };
    let next = match run.state() {
        // It was planned before, and is judged anew.
        RunState::Planned => RunState::Planned,
        state => match state.after(RunAction::Freeze) {
            Some(next) => next,
            None => return Ok(None),
        },
    };
    write.conn.execute(KEEP, &[&Uid(*id.bytes()), &next.name(), &clean(plan), &At(at)]).await?;
    if run.redrive.plan.is_none()
        && let Some(kind) = next.event()
    {
        tell(write, &run, kind, Some(&run.redrive.by.name), at).await?;
    }
    Ok(row::find(&write.conn, id).await?.map(|run| run.redrive))
}

/// Tells of a redrive; its incident goes with it if there is only one.
pub(super) async fn tell(
    write: &mut Write,
    run: &Run,
    kind: &'static str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let count = run.redrive.total.saturating_sub(run.redrive.refused);
    let detail = json!({ "redrive": id.to_string(), "count": count });
    let event = NewEvent {
        at,
        kind,
        incident: only_incident(&write.conn, id).await?,
        actor: by,
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)
}

const INCIDENTS: &str = "
select distinct incident
  from redrive_groups
 where redrive = $1
 limit 2";

/// The incident of all letters of a list, if they have only one.
pub(super) async fn only_incident(conn: &Conn, id: RedriveId) -> Result<Option<IncidentId>, StoreError> {
    match conn.query(INCIDENTS, &[&Uid(*id.bytes())]).await?.as_slice() {
        [only] => Ok(Some(IncidentId::from_bytes(only.id(0)?))),
        _ => Ok(None),
    }
}

/// Drops plans that are overdue, part by part: other writes come in between.
pub(in crate::postgres) async fn drop_overdue(writer: &Writer, overdue: Overdue) -> Result<u64, StoreError> {
    let (weight, mut dropped) = (limits::FREEZE_ROWS_PER_WRITE, 0);
    while let Some(ended) =
        writer.write_long(weight, overdue, |write, overdue| Box::pin(drop_chunk(write, *overdue))).await?
    {
        dropped += ended;
    }
    Ok(dropped)
}

/// What somebody else plans, launches or drops now is theirs.
const UNLAUNCHED: &str = "
select id
  from redrives
 where state in ('planning', 'planned')
   and opened_at < $1
 order by opened_at, id
 limit 1
   for no key update skip locked";

/// The state in the list is what the index is for.
pub(in crate::postgres) const ABANDONED: &str = "
select id
  from redrives
 where state in ('planning', 'planned')
   and state = 'planning'
   and updated_at < $1
 order by opened_at, id
 limit 1
   for no key update skip locked";

const DROP_CHUNK: &str = "
delete from redrive_letters
 where redrive = $1
   and ordinal <= (select min(ordinal) - 1 + $2 from redrive_letters where redrive = $1)";

/// Drops a bounded part of a list that came to nothing; says whether there may be more.
pub(super) async fn drop_list(write: &Write, id: RedriveId) -> Result<bool, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE as u64;
    Ok(write.conn.execute(DROP_CHUNK, &[&Uid(*id.bytes()), &(limit as i64)]).await? == limit)
}

/// What is half gone must neither be launched nor taken down further.
const HALF_GONE: &str = "
update redrives
   set state = $2, frozen = false
 where id = $1";

const DROPPED: &str = "
update redrives
   set state = $2, why = $4, waiting = 0, lane_blocked = 0, refused = 0, cancelled = total, finished_at = $3,
       updated_at = $3
 where id = $1";

/// Drops a bounded part of the oldest plan that is overdue. Says how many plans ended with it, nothing if there is none.
async fn drop_chunk(write: &Write, overdue: Overdue) -> Result<Option<u64>, StoreError> {
    let (conn, before) = (&write.conn, At(overdue.before()));
    let sql = match overdue {
        Overdue::Unlaunched(_) => UNLAUNCHED,
        Overdue::Abandoned(_) => ABANDONED,
    };
    let Some(found) = conn.query_opt(sql, &[&before]).await? else { return Ok(None) };
    let id: Uid = found.cell(0)?;
    let limit = limits::FREEZE_ROWS_PER_WRITE as u64;
    let dropped = conn.execute(DROP_CHUNK, &[&id, &(limit as i64)]).await?;
    conn.execute(HALF_GONE, &[&id, &RunState::Planning.name()]).await?;
    if dropped == limit {
        return Ok(Some(0));
    }
    conn.execute(DROPPED, &[&id, &RunState::Cancelled.name(), &before, &overdue.why()]).await?;
    Ok(Some(1))
}
