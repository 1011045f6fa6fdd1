//! What becomes of a frozen list: its groups, what a plan writes down of them, and the end of plans nobody launched.

use std::collections::HashMap;

use lazaret_core::gate::{Cause, Passed, Shut};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::AgainstFix;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunAction, RunState};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::json;

use super::super::events::{self, NewEvent};
use super::super::incidents;
use super::super::rows::{self, unknown};
use super::super::writer::Write;
use super::open::against;
use super::row::{self, Run};
use crate::StoreError;
use crate::redrive::{Group, GroupVerdict, Overdue, Redrive};

/// The incident as it stands now; one that was merged is judged by what took it over.
const GROUPS: &str = "
select g.number, i.id, g.source, g.subscriber, g.died, g.letters, g.verdict, g.detail, i.state, i.category, i.class,
       iif(i.fix_at is null, null, i.fix_kind), g.body_missing
  from redrive_groups g
  join incidents m on m.id = g.incident
  join incidents i on i.id = coalesce(m.merged_into, m.id)
 where g.redrive = ?1
 order by g.number
 limit ?2";

pub(super) fn groups(conn: &Connection, id: RedriveId) -> Result<Vec<Group>, StoreError> {
    let mut statement = conn.prepare_cached(GROUPS)?;
    let mut found = statement.query((id.bytes(), limits::PLAN_GROUPS_MAX as i64))?;
    let mut groups = Vec::new();
    while let Some(row) = found.next()? {
        groups.push(group(row)?);
    }
    Ok(groups)
}

fn group(row: &Row<'_>) -> Result<Group, StoreError> {
    let analysed: Option<String> = row.get(9)?;
    let fix: Option<String> = row.get(11)?;
    let cause = Cause {
        state: incidents::state(&row.get::<_, String>(8)?)?,
        analysed: analysed.as_deref().map(incidents::category).transpose()?,
        class: rows::class(&row.get::<_, String>(10)?)?.category(),
        fix: fix.as_deref().map(incidents::fix_kind).transpose()?,
    };
    let verdict: Option<String> = row.get(6)?;
    let detail: Option<String> = row.get(7)?;
    let died: AgainstFix = against(&row.get::<_, String>(4)?)?;
    Ok(Group {
        number: row.get(0)?,
        incident: IncidentId::from_bytes(row.get(1)?),
        cause,
        source: row.get(2)?,
        subscriber: row.get(3)?,
        died,
        body_missing: row.get(12)?,
        letters: row.get::<_, i64>(5)?.max(0) as u64,
        verdict: verdict.map(|word| open_verdict(&word, detail)).transpose()?,
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

/// Writes the verdicts down.
pub(super) fn judge(
    write: &Write,
    id: RedriveId,
    verdicts: &[(u32, GroupVerdict)],
    at: Time,
) -> Result<Judged, StoreError> {
    let Some(run) = row::find(&write.conn, id)? else { return Ok(Judged::NoPlan) };
    if !run.frozen || !matches!(run.state(), RunState::Planning | RunState::Planned) {
        return Ok(Judged::NoPlan);
    }
    // Until all rows are gone through it must not be launched half changed.
    write.conn.prepare_cached("update redrives set state = ?2, updated_at = ?3 where id = ?1")?.execute((
        id.bytes(),
        RunState::Planning.name(),
        at.ms(),
    ))?;
    let mut set = write.conn.prepare_cached(
        "update redrive_groups set verdict = ?3, detail = ?4 where redrive = ?1 and number = ?2",
    )?;
    for (number, verdict) in verdicts {
        let (word, detail) = closed_verdict(verdict);
        set.execute((id.bytes(), number, word, detail))?;
    }
    let all_go = verdicts.iter().all(|(_, verdict)| matches!(verdict, GroupVerdict::Goes { .. }));
    let changed = run.redrive.refused + run.count(Outcome::LaneBlocked) > 0;
    Ok(if all_go && !changed { Judged::AllGo } else { Judged::Some })
}

const REFUSED: &str = "refused";

const BEHIND_REFUSED: &str = "an earlier letter of its key is refused";

const NEXT_ROWS: &str = "
select t.ordinal, t.outcome, t.lane, g.verdict
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = ?1
   and t.ordinal > ?2
 order by t.ordinal
 limit ?3";

const BEFORE_IN_LANE: &str = "
select outcome
  from redrive_letters indexed by redrive_letters_in_lane
 where redrive = ?1
   and lane = ?2
   and ordinal < ?3
 order by ordinal desc
 limit 1";

const SET_OUTCOME: &str = "
update redrive_letters
   set outcome = ?3, evidence = ?4
 where redrive = ?1
   and ordinal = ?2";

/// Goes through the next rows of a list and sets what the verdicts make of each; says where it ended, nothing at the end.
/// What is behind a refused letter of the same lane must not overtake it.
pub(super) fn refuse_chunk(write: &Write, id: RedriveId, after: u64) -> Result<Option<u64>, StoreError> {
    let conn = &write.conn;
    // Whoever judged it at the same time may have launched it: rows of a run are not for verdicts to move.
    if !row::find(conn, id)?.is_some_and(|run| is_judged(&run)) {
        return Ok(None);
    }
    let chunk: Vec<(i64, String, Option<String>, Option<String>)> = conn
        .prepare_cached(NEXT_ROWS)?
        .query_map((id.bytes(), after as i64, limits::FREEZE_ROWS_PER_WRITE as i64), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut shifts: HashMap<String, i64> = HashMap::new();
    let mut before = conn.prepare_cached(BEFORE_IN_LANE)?;
    let mut set = conn.prepare_cached(SET_OUTCOME)?;
    for (ordinal, was, lane, verdict) in &chunk {
        let goes = verdict.as_deref().is_some_and(goes);
        let behind: Option<String> = match lane {
            Some(lane) => before.query_row((id.bytes(), lane, ordinal), |row| row.get(0)).optional()?,
            None => None,
        };
        let blocked = behind.is_some_and(|word| word == REFUSED || word == Outcome::LaneBlocked.name());
        let (now, evidence) = match (goes, blocked) {
            (false, _) => (REFUSED, None),
            (true, true) => (Outcome::LaneBlocked.name(), Some(BEHIND_REFUSED)),
            (true, false) => (Outcome::Waiting.name(), None),
        };
        if now != was {
            set.execute((id.bytes(), ordinal, now, evidence))?;
            *shifts.entry(was.clone()).or_default() -= 1;
            *shifts.entry(now.to_owned()).or_default() += 1;
        }
    }
    let by = |word: &str| shifts.get(word).copied().unwrap_or(0);
    conn.prepare_cached(
        "update redrives
            set refused = refused + ?2, waiting = waiting + ?3, lane_blocked = lane_blocked + ?4
          where id = ?1",
    )?
    .execute((id.bytes(), by(REFUSED), by(Outcome::Waiting.name()), by(Outcome::LaneBlocked.name())))?;
    Ok(chunk.last().map(|(ordinal, ..)| *ordinal as u64))
}

/// Whether a list is complete and about to be planned.
fn is_judged(run: &Run) -> bool {
    run.frozen && run.state() == RunState::Planning
}

fn goes(verdict: &str) -> bool {
    verdict == Passed::Freely.name() || verdict == Passed::Governed.name()
}

/// Keeps the plan as it is shown; from here on it can be launched.
pub(super) fn keep(
    write: &Write,
    id: RedriveId,
    plan: &str,
    at: Time,
) -> Result<Option<Redrive>, StoreError> {
    let Some(run) = row::find(&write.conn, id)? else { return Ok(None) };
    if !run.frozen {
        return Ok(None);
    }
    let Some(next) = run.state().after(RunAction::Freeze) else { return Ok(None) };
    // It may have been planned before, and be judged anew.
    let is_news = run.redrive.plan.is_none();
    write
        .conn
        .prepare_cached("update redrives set state = ?2, plan = ?3, updated_at = ?4 where id = ?1")?
        .execute((id.bytes(), next.name(), plan, at.ms()))?;
    if is_news && let Some(kind) = next.event() {
        tell(write, &run, kind, Some(&run.redrive.by.name), at)?;
    }
    Ok(Some(row::expect(&write.conn, id)?.redrive))
}

/// Tells of a redrive; its incident goes with it if there is only one.
pub(super) fn tell(
    write: &Write,
    run: &Run,
    kind: &'static str,
    by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let id = run.redrive.id;
    let detail = json!({ "redrive": id.to_string(), "count": run.redrive.total - run.redrive.refused });
    let event = NewEvent {
        at,
        kind,
        incident: only_incident(&write.conn, id)?,
        actor: by,
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)
}

const INCIDENTS: &str = "select distinct incident from redrive_groups where redrive = ?1 limit 2";

/// The incident of all letters of a list, if they have only one.
pub(super) fn only_incident(conn: &Connection, id: RedriveId) -> Result<Option<IncidentId>, StoreError> {
    let incidents: Vec<IncidentId> = conn
        .prepare_cached(INCIDENTS)?
        .query_map([id.bytes()], |row| row.get(0).map(IncidentId::from_bytes))?
        .collect::<Result<_, _>>()?;
    Ok(match incidents.as_slice() {
        [only] => Some(*only),
        _ => None,
    })
}

const UNLAUNCHED: &str = "
select id
  from redrives indexed by redrives_unlaunched
 where state in ('planning', 'planned')
   and opened_at < ?1
 order by opened_at, id
 limit 1";

/// The index knows only its own condition, so that stands here too.
const ABANDONED: &str = "
select id
  from redrives indexed by redrives_unlaunched
 where state in ('planning', 'planned')
   and state = 'planning'
   and updated_at < ?1
 order by opened_at, id
 limit 1";

const DROP_CHUNK: &str = "
delete from redrive_letters
 where redrive = ?1
   and ordinal <= (select min(ordinal) - 1 + ?2 from redrive_letters where redrive = ?1)";

/// Drops a bounded part of a list that came to nothing; says whether there may be more.
pub(super) fn drop_list(write: &Write, id: RedriveId) -> Result<bool, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE;
    Ok(write.conn.prepare_cached(DROP_CHUNK)?.execute((id.bytes(), limit as i64))? == limit)
}

/// Drops a bounded part of the oldest plan that is overdue. Says how many plans ended with it, nothing if there is none.
pub(super) fn drop_chunk(write: &Write, overdue: Overdue) -> Result<Option<u64>, StoreError> {
    let conn = &write.conn;
    let sql = match overdue {
        Overdue::Unlaunched(_) => UNLAUNCHED,
        Overdue::Abandoned(_) => ABANDONED,
    };
    let before = overdue.before().ms();
    let found: Option<[u8; 16]> =
        conn.prepare_cached(sql)?.query_row([before], |row| row.get(0)).optional()?;
    let Some(id) = found else { return Ok(None) };
    let dropped = conn.prepare_cached(DROP_CHUNK)?.execute((id, limits::FREEZE_ROWS_PER_WRITE as i64))?;
    // What is half gone must neither be launched nor taken down further.
    conn.prepare_cached("update redrives set state = ?2, frozen = 0 where id = ?1")?
        .execute((id, RunState::Planning.name()))?;
    if dropped == limits::FREEZE_ROWS_PER_WRITE {
        return Ok(Some(0));
    }
    conn.prepare_cached(
        "update redrives
            set state = ?2, why = ?4, waiting = 0, lane_blocked = 0, refused = 0,
                cancelled = total, finished_at = ?3, updated_at = ?3
          where id = ?1",
    )?
    .execute((id, RunState::Cancelled.name(), before, overdue.why()))?;
    Ok(Some(1))
}
