//! What a run did step by step, from the minutes that are kept as its letters move.

use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::redrive::{Did, RunLine, RunPoint};
use crate::seam::{Conn, Sql, binds, sql};

const POINTS: Sql = sql!(
    "
select minute - minute % $4 as step, sum(sent){postgres ::bigint} as sent, sum(good){postgres ::bigint} as good,
       sum(bad){postgres ::bigint} as bad
  from run_minutes
 where redrive = $1
   and minute >= $2
   and minute < $3
 group by 1
 order by 1
 limit $5"
);

pub(super) async fn points(conn: &mut impl Conn, asked: &RunLine) -> Result<Vec<RunPoint>, StoreError> {
    let (from, until) = asked.minutes();
    let values = binds![asked.redrive, from, until, asked.step.minutes(), limits::SERIES_POINTS_MAX];
    conn.query(&POINTS, values, |row| {
        let at = Time::from_minute(row.get("step")?);
        let did = Did { sent: row.get("sent")?, good: row.get("good")?, bad: row.get("bad")? };
        Ok(RunPoint { at, did })
    })
    .await
}
