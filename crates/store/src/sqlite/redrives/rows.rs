//! Letters on the list of a redrive, many at once: refused by the verdicts of a plan, and ended when they have no turn.

use std::collections::HashMap;

use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use rusqlite::OptionalExtension;

use super::super::writer::Write;
use super::outcomes::Shifts;
use crate::StoreError;
use crate::engine::redrives::plan::goes;
use crate::engine::redrives::row;
use crate::seam::ready;

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
pub(in crate::sqlite) fn refuse_chunk(
    write: &mut Write,
    id: RedriveId,
    after: u64,
) -> Result<Option<u64>, StoreError> {
    // Whoever judged it at the same time may have launched it: rows of a run are not for verdicts to move.
    if !ready(row::find(write, id))?.is_some_and(|run| run.is_plan()) {
        return Ok(None);
    }
    let conn = &write.conn;
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

const WAITING: &str = "
select ordinal
  from redrive_letters
 where redrive = ?1
   and ordinal > ?2
   and outcome = 'waiting'
 order by ordinal
 limit ?3";

const END_WAITING: &str = "
update redrive_letters
   set outcome = ?3, evidence = ?4, outcome_at = ?5, head = 0
 where redrive = ?1
   and ordinal = ?2";

/// Ends the next letters of a run that wait; says where it came to, nothing if that was the last.
pub(in crate::sqlite) fn end_waiting(
    write: &Write,
    id: RedriveId,
    after: i64,
    to: Outcome,
    why: Option<&str>,
    at: Time,
) -> Result<Option<i64>, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE;
    let chunk: Vec<i64> = write
        .conn
        .prepare_cached(WAITING)?
        .query_map((id.bytes(), after, limit as i64), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut set = write.conn.prepare_cached(END_WAITING)?;
    for ordinal in &chunk {
        set.execute((id.bytes(), ordinal, to.name(), why, at.ms()))?;
    }
    let mut shifts = Shifts::default();
    shifts.count(id, Outcome::Waiting, to, chunk.len() as i64);
    shifts.flush(write, at)?;
    Ok(chunk.last().copied().filter(|_| chunk.len() == limit))
}
