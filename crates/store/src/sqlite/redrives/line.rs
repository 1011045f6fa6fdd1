//! What a run did minute by minute, kept as its letters move.

use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::writer::Write;
use crate::StoreError;
use crate::redrive::{Did, RunLine, RunPoint};

const ADD: &str = "
insert into run_minutes (redrive, minute, sent, good, bad)
values (?1, ?2, ?3, ?4, ?5)
    on conflict (redrive, minute)
    do update set sent = sent + excluded.sent, good = good + excluded.good, bad = bad + excluded.bad";

pub(super) fn add(write: &Write, redrive: RedriveId, did: Did, at: Time) -> Result<(), StoreError> {
    if did == Did::default() {
        return Ok(());
    }
    let counts = (did.sent as i64, did.good as i64, did.bad as i64);
    write.conn.prepare_cached(ADD)?.execute((redrive.bytes(), at.minute(), counts.0, counts.1, counts.2))?;
    Ok(())
}

const POINTS: &str = "
select minute - minute % ?4, sum(sent), sum(good), sum(bad)
  from run_minutes
 where redrive = ?1
   and minute >= ?2
   and minute < ?3
 group by 1
 order by 1
 limit ?5";

pub(super) fn points(conn: &Connection, asked: &RunLine) -> Result<Vec<RunPoint>, StoreError> {
    let (from, until) = asked.minutes();
    let mut statement = conn.prepare_cached(POINTS)?;
    let limit = limits::SERIES_POINTS_MAX as i64;
    let asked = (asked.redrive.bytes(), from, until, asked.step.minutes(), limit);
    let found = statement.query_map(asked, |row| {
        let count = |column| row.get::<_, i64>(column).map(|count| count as u64);
        let did = Did { sent: count(1)?, good: count(2)?, bad: count(3)? };
        Ok(RunPoint { at: Time::from_minute(row.get(0)?), did })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
