//! What a plan shows of a frozen list: read and not kept.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;

use super::super::cell::{Cells, Uid};
use super::super::conn::Conn;
use crate::StoreError;
use crate::engine::redrives::row::aggregate_of;
use crate::redrive::PlanCounts;

const TYPES: &str = "
select l.type, count(*)
  from redrive_letters t
  join dead_letter_queue l on l.id = t.letter and l.created_at = uuid_time(t.letter)
 where t.redrive = $1
   and t.outcome = 'waiting'
 group by l.type
 order by count(*) desc, l.type
 limit $2";

const QUEUES: &str = "
select l.queue, count(*)
  from redrive_letters t
  join dead_letter_queue l on l.id = t.letter and l.created_at = uuid_time(t.letter)
 where t.redrive = $1
   and t.outcome = 'waiting'
 group by l.queue
 order by count(*) desc, l.queue
 limit $2";

const LANES: &str = "
select lane, count(*)
  from redrive_letters
 where redrive = $1
   and lane is not null
   and outcome = 'waiting'
 group by lane
 order by count(*) desc, lane
 limit $2";

const LANES_TOTAL: &str = "
select count(distinct lane), count(*) filter (where lane is null)
  from redrive_letters
 where redrive = $1
   and outcome = 'waiting'";

const BY_GROUP: &str = "
select grp, count(*)
  from redrive_letters
 where redrive = $1
   and outcome = 'waiting'
 group by grp
 order by grp";

const SAMPLES: &str = "
select letter, life
  from redrive_letters
 where redrive = $1
   and outcome = 'waiting'
 order by ordinal
 limit $2";

/// Letters that wait, are not on the list, and died before the last one of a lane that is.
const OLDER: &str = "
with lanes as (select lane, max(ordinal) as last
                 from redrive_letters
                where redrive = $1
                  and lane is not null
                  and outcome = 'waiting'
                group by lane)
select n.lane, count(*)
  from lanes n
  join redrive_letters t on t.redrive = $1 and t.ordinal = n.last
  join dead_letter_queue e on e.id = t.letter and e.created_at = uuid_time(t.letter)
  join dead_letter_queue l
    on l.aggregate = substr(n.lane, strpos(n.lane, chr(31)) + 1)
   and l.source = split_part(n.lane, chr(31), 1)
   and (l.died_at, l.id) < (e.died_at, e.id)
 where l.status = $2
   and not exists (select 1 from redrive_letters o where o.letter = l.id and o.redrive = $1)
 group by n.lane
 order by n.lane";

/// Asked within a snapshot.
pub(super) async fn counts(conn: &Conn, id: RedriveId) -> Result<PlanCounts, StoreError> {
    let key = Uid(*id.bytes());
    let totals = conn.query_one(LANES_TOTAL, &[&key]).await?;
    let mut counts = PlanCounts {
        types: values(conn, TYPES, id).await?,
        queues: values(conn, QUEUES, id).await?,
        lanes: values(conn, LANES, id).await?,
        lanes_total: totals.count(0)?,
        unordered: totals.count(1)?,
        ..PlanCounts::default()
    };
    for (lane, _) in &mut counts.lanes {
        *lane = aggregate_of(lane).to_owned();
    }
    for row in conn.query(OLDER, &[&key, &Status::Pending.name()]).await? {
        counts.older_outside += row.count(1)?;
        if counts.older_lanes.len() < limits::PLAN_VALUES_SHOWN {
            counts.older_lanes.push(aggregate_of(row.cell(0)?).to_owned());
        }
    }
    for row in conn.query(BY_GROUP, &[&key]).await? {
        counts.groups.insert(row.small(0)?, row.count(1)?);
    }
    for row in conn.query(SAMPLES, &[&key, &(limits::PLAN_SAMPLES as i64)]).await? {
        counts.samples.push((LetterId::from_bytes(row.id(0)?), row.small(1)?));
    }
    Ok(counts)
}

async fn values(conn: &Conn, sql: &str, id: RedriveId) -> Result<Vec<(String, u64)>, StoreError> {
    let limit = limits::PLAN_VALUES_SHOWN as i64;
    let found = conn.query(sql, &[&Uid(*id.bytes()), &limit]).await?;
    found.iter().map(|row| Ok((row.cell(0)?, row.count(1)?))).collect()
}
