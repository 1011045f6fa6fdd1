//! What a plan shows of a frozen list: read, not kept, and however long the list is, little of it at a time.

use std::collections::HashMap;

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use rusqlite::Connection;

use crate::StoreError;
use crate::engine::redrives::row::{LANE_MARK, aggregate_of};
use crate::redrive::PlanCounts;

const LETTERS: &str = "
select l.type, l.queue, t.lane is null, t.letter, t.life, t.grp
  from redrive_letters t
  join dead_letter_queue l on l.id = t.letter
 where t.redrive = ?1
   and t.outcome = ?2
 order by t.ordinal";

pub(super) fn counts(conn: &Connection, id: RedriveId) -> Result<PlanCounts, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut counts = PlanCounts::default();
    let (mut types, mut queues) = (HashMap::new(), HashMap::new());
    let mut statement = conn.prepare_cached(LETTERS)?;
    let mut found = statement.query((id.bytes(), Outcome::Waiting.name()))?;
    while let Some(row) = found.next()? {
        for (at, values) in [&mut types, &mut queues].into_iter().enumerate() {
            let value = row.get_ref(at)?.as_str().map_err(rusqlite::Error::from)?;
            match values.get_mut(value) {
                Some(count) => *count += 1,
                None => {
                    values.insert(value.to_owned(), 1);
                }
            }
        }
        counts.unordered += u64::from(row.get::<_, bool>(2)?);
        *counts.groups.entry(row.get(5)?).or_default() += 1;
        if counts.samples.len() < limits::PLAN_SAMPLES {
            counts.samples.push((LetterId::from_bytes(row.get(3)?), row.get(4)?));
        }
    }
    counts.types = largest(types);
    counts.queues = largest(queues);
    count_lanes(conn, id, &mut counts)?;
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(counts)
}

fn largest(values: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut values: Vec<_> = values.into_iter().collect();
    sort(&mut values);
    values
}

/// The largest first, and no more than are shown.
fn sort(values: &mut Vec<(String, u64)>) {
    values.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    values.truncate(limits::PLAN_VALUES_SHOWN);
}

/// Each lane with its letters that go, and the last of them.
const LANES: &str = "
select lane, count(*), max(ordinal)
  from redrive_letters indexed by redrive_letters_in_lane
 where redrive = ?1
   and lane is not null
   and outcome = ?2
 group by lane
 order by lane";

/// Letters that wait, are not on the list, and died before the last one of a lane that is.
const OLDER: &str = "
select count(*)
  from redrive_letters t
  join dead_letter_queue e on e.id = t.letter
  join dead_letter_queue l indexed by letters_by_aggregate
    on l.aggregate = ?3
   and l.listed = 1
   and (l.died_at, l.id) < (e.died_at, e.id)
 where t.redrive = ?1
   and t.ordinal = ?2
   and l.source = ?4
   and l.status = ?5
   and not exists (select 1 from redrive_letters o where o.letter = l.id and o.redrive = ?1)";

fn count_lanes(conn: &Connection, id: RedriveId, counts: &mut PlanCounts) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(LANES)?;
    let mut older = conn.prepare_cached(OLDER)?;
    let mut found = statement.query((id.bytes(), Outcome::Waiting.name()))?;
    let mut largest: Vec<(String, u64)> = Vec::new();
    while let Some(row) = found.next()? {
        let (lane, letters, last): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (source, aggregate) = lane.split_once(LANE_MARK).unwrap_or(("", &lane));
        counts.lanes_total += 1;
        let before: i64 = older
            .query_row((id.bytes(), last, aggregate, source, Status::Pending.name()), |row| row.get(0))?;
        if before > 0 {
            counts.older_outside += before as u64;
            if counts.older_lanes.len() < limits::PLAN_VALUES_SHOWN {
                counts.older_lanes.push(aggregate.to_owned());
            }
        }
        largest.push((aggregate_of(&lane).to_owned(), letters as u64));
        // There may be as many lanes as letters: only the largest are kept.
        if largest.len() > 2 * limits::PLAN_VALUES_SHOWN {
            sort(&mut largest);
        }
    }
    sort(&mut largest);
    counts.lanes = largest;
    Ok(())
}
