//! What a plan shows of a frozen list: read, not kept, and however long the list is, only its largest values.

use lazaret_core::id::RedriveId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;

use super::row::aggregate_of;
use crate::StoreError;
use crate::redrive::PlanCounts;
use crate::seam::{Conn, Row, Sql, binds, sql};

/// Letters that go, by a column of theirs.
macro_rules! by_column {
    ($column:literal) => {
        sql!(concat!(
            "select l.",
            $column,
            " as value, count(*) as letters
               from redrive_letters t
               join dead_letter_queue l on l.id = t.letter{postgres  and l.created_at = uuid_time(t.letter)}
              where t.redrive = $1
                and t.outcome = $2
              group by l.",
            $column,
            "
              order by count(*) desc, l.",
            $column,
            "
              limit $3"
        ))
    };
}

const TYPES: Sql = by_column!("type");
const QUEUES: Sql = by_column!("queue");

const LANES: Sql = sql!(
    "
select lane as value, count(*) as letters
  from redrive_letters{sqlite  indexed by redrive_letters_in_lane}
 where redrive = $1
   and lane is not null
   and outcome = $2
 group by lane
 order by count(*) desc, lane
 limit $3"
);

const TOTALS: Sql = sql!(
    "
select count(distinct lane) as lanes, count(*) filter (where lane is null) as unordered
  from redrive_letters
 where redrive = $1
   and outcome = $2"
);

const BY_GROUP: Sql = sql!(
    "
select grp, count(*) as letters
  from redrive_letters
 where redrive = $1
   and outcome = $2
 group by grp
 order by grp"
);

const SAMPLES: Sql = sql!(
    "
select letter, life
  from redrive_letters
 where redrive = $1
   and outcome = $2
 order by ordinal
 limit $3"
);

/// Letters that wait, are not on the list, and died before the last one of a lane that is.
const OLDER: Sql = sql!(
    "
with lanes as (select lane, max(ordinal) as last
                 from redrive_letters{sqlite  indexed by redrive_letters_in_lane}
                where redrive = $1
                  and lane is not null
                  and outcome = $2
                group by lane)
select n.lane, count(*) as letters
  from lanes n
 {sqlite cross }join redrive_letters t on t.redrive = $1 and t.ordinal = n.last
 {sqlite cross }join dead_letter_queue e on e.id = t.letter{postgres  and e.created_at = uuid_time(t.letter)}
 {sqlite cross }join dead_letter_queue l{sqlite  indexed by letters_by_aggregate}
    on l.aggregate = substr(n.lane, {sqlite instr(n.lane, char(31))}{postgres strpos(n.lane, chr(31))} + 1)
   and l.source = substr(n.lane, 1, {sqlite instr(n.lane, char(31))}{postgres strpos(n.lane, chr(31))} - 1)
   and (l.died_at, l.id) < (e.died_at, e.id){sqlite 
   and l.listed = 1}
 where l.status = $3
   and not exists (select 1 from redrive_letters o where o.letter = l.id and o.redrive = $1)
 group by n.lane
 order by n.lane"
);

/// Asked within a snapshot.
pub(super) async fn counts(conn: &mut impl Conn, id: RedriveId) -> Result<PlanCounts, StoreError> {
    let list = binds![id, Outcome::Waiting];
    let read = |row: &Row<'_>| Ok((row.get("lanes")?, row.get("unordered")?));
    let (lanes_total, unordered) = conn.query_one(&TOTALS, list, read).await?;
    let mut counts = PlanCounts {
        types: values(conn, &TYPES, id).await?,
        queues: values(conn, &QUEUES, id).await?,
        lanes: values(conn, &LANES, id).await?,
        lanes_total,
        unordered,
        ..PlanCounts::default()
    };
    for (lane, _) in &mut counts.lanes {
        *lane = aggregate_of(lane).to_owned();
    }
    let binds = binds![id, Outcome::Waiting, Status::Pending];
    let read = |row: &Row<'_>| Ok((row.get::<String>("lane")?, row.get::<u64>("letters")?));
    for (lane, letters) in conn.query(&OLDER, binds, read).await? {
        counts.older_outside += letters;
        if counts.older_lanes.len() < limits::PLAN_VALUES_SHOWN {
            counts.older_lanes.push(aggregate_of(&lane).to_owned());
        }
    }
    let read = |row: &Row<'_>| Ok((row.get("grp")?, row.get("letters")?));
    counts.groups = conn.query(&BY_GROUP, list, read).await?.into_iter().collect();
    let binds = binds![id, Outcome::Waiting, limits::PLAN_SAMPLES];
    counts.samples = conn.query(&SAMPLES, binds, |row| Ok((row.get("letter")?, row.get("life")?))).await?;
    Ok(counts)
}

async fn values(conn: &mut impl Conn, sql: &Sql, id: RedriveId) -> Result<Vec<(String, u64)>, StoreError> {
    let binds = binds![id, Outcome::Waiting, limits::PLAN_VALUES_SHOWN];
    conn.query(sql, binds, |row| Ok((row.get("value")?, row.get("letters")?))).await
}
