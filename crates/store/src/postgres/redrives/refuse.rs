//! Letters on the list of a plan that its verdicts refuse, many at once.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;

use super::super::cell::{Cells, Uid};
use super::super::writer::Write;
use crate::StoreError;
use crate::engine::redrives::plan::goes;
use crate::engine::redrives::row::lock_redrive;

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
pub(in crate::postgres) async fn refuse_chunk(
    write: &mut Write,
    id: RedriveId,
    after: u64,
) -> Result<Option<u64>, StoreError> {
    // Somebody else may have planned and launched it meanwhile.
    if !lock_redrive(write, id).await?.is_some_and(|run| run.is_plan()) {
        return Ok(None);
    }
    let (conn, key, after) = (&write.conn, Uid(*id.bytes()), after as i64);
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
