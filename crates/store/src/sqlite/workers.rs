//! Workers: known by their heartbeats, with what is wished of them. What they hold is in the rows of their jobs.
//!
//! A worker is whoever says its name. Its name is a stranger's word: how many are kept is bounded.

use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, Row};

use super::audit::{self, NewEntry};
use super::events::{self, NewEvent};
use super::rows::unknown;
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::packing::json;
use crate::worker::{Beat, Wish, Wished, WorkerInfo};

const COLUMNS: &str = "
w.name, w.hostname, w.pid, w.queues, w.concurrency, w.started_at, w.said, w.wish, w.first_seen_at, w.last_beat_at";

/// A worker with what it holds, from the columns above and the number behind them.
fn read(row: &Row<'_>) -> Result<WorkerInfo, StoreError> {
    let (name, queues, wish): (String, Option<String>, String) = (row.get(0)?, row.get(3)?, row.get(7)?);
    let queues = match queues {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| StoreError::Corrupt(format!("the queues of worker {name}: {error}")))?,
        None => Vec::new(),
    };
    let time = |at: usize| -> Result<Option<Time>, StoreError> {
        Ok(row.get::<_, Option<i64>>(at)?.map(Time::from_ms))
    };
    Ok(WorkerInfo {
        beat: Beat {
            worker: name,
            hostname: row.get(1)?,
            pid: row.get::<_, Option<i64>>(2)?.map(|pid| pid as u64),
            queues,
            concurrency: row.get::<_, Option<i64>>(4)?.map(|number| number as u64),
            started_at: time(5)?,
            said: row.get(6)?,
        },
        wish: Wish::parse(&wish).ok_or_else(|| unknown("wish", &wish))?,
        first_seen_at: time(8)?,
        last_beat_at: time(9)?,
        active: row.get::<_, i64>(10)? as u64,
    })
}

fn known(conn: &Connection, name: &str) -> Result<Option<WorkerInfo>, StoreError> {
    let mut statement =
        conn.prepare_cached(&format!("select {COLUMNS}, 0 from workers w where w.name = ?1"))?;
    let mut found = statement.query([name])?;
    found.next()?.map(read).transpose()
}

/// What is wished of a worker that was heard of a moment ago and says nothing new: then there is nothing to write.
pub(super) fn heard(conn: &Connection, beat: &Beat, at: Time) -> Result<Option<Wish>, StoreError> {
    let Some(known) = known(conn, &beat.worker)? else { return Ok(None) };
    let since = known.last_beat_at.map_or(i64::MAX, |last| at.since(last));
    let fresh = since < limits::WORKER_BEAT_KEPT_MS && known.beat.with(beat) == known.beat;
    Ok(fresh.then_some(known.wish))
}

const ADD: &str = "
insert into workers (name, hostname, pid, queues, concurrency, started_at, said, wish, first_seen_at, last_beat_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)";

const TOUCH: &str = "update workers set last_beat_at = max(last_beat_at, ?2) where name = ?1";

const CHANGE: &str = "
update workers
   set hostname = ?2, pid = ?3, queues = ?4, concurrency = ?5, started_at = ?6, said = ?7, wish = ?8,
       last_beat_at = max(last_beat_at, ?9)
 where name = ?1";

/// Notes a sign of life; what a worker leaves out stays as it was.
pub(super) fn beat(write: &Write, beat: &Beat, at: Time) -> Result<Wish, StoreError> {
    let Some(known) = known(&write.conn, &beat.worker)? else {
        if beat.worker.len() <= limits::NAME_BYTES_MAX && make_room(write)? {
            put(write, ADD, beat, Wish::Running, at)?;
            tell(write, "worker.started", &beat.worker, None, at)?;
        }
        return Ok(Wish::Running);
    };
    let now = known.beat.with(beat);
    // Who was told to exit and starts anew under the old name has done so.
    let wish = match known.wish {
        Wish::Terminate if known.beat.is_another_process(beat) => Wish::Running,
        wish => wish,
    };
    if known.beat.is_another_process(beat) {
        tell(write, "worker.started", &beat.worker, None, at)?;
    }
    if now == known.beat && wish == known.wish {
        write.conn.prepare_cached(TOUCH)?.execute((&beat.worker, at.ms()))?;
    } else {
        put(write, CHANGE, &now, wish, at)?;
    }
    Ok(wish)
}

/// What is wished of a worker; of one that is not known nothing but to run.
pub(super) fn wish_of(conn: &Connection, name: &str) -> Result<Wish, StoreError> {
    Ok(known(conn, name)?.map_or(Wish::Running, |known| known.wish))
}

/// Tells of a worker, which is neither a letter nor a job.
fn tell(
    write: &Write,
    kind: &'static str,
    worker: &str,
    actor: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let detail = Some(serde_json::json!({ "worker_id": worker }).to_string());
    events::add(write, &NewEvent { at, kind, actor, detail, ..NewEvent::default() })
}

fn put(write: &Write, sql: &str, beat: &Beat, wish: Wish, at: Time) -> Result<(), StoreError> {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let queues = match beat.queues.as_slice() {
        [] => None,
        queues => Some(json(&queues)?),
    };
    write.conn.prepare_cached(sql)?.execute((
        &beat.worker,
        &beat.hostname,
        beat.pid.map(whole),
        queues,
        beat.concurrency.map(whole),
        beat.started_at.map(Time::ms),
        &beat.said,
        wish.name(),
        at.ms(),
    ))?;
    Ok(())
}

const KNOWN: &str = "select count(*) from workers";

/// Nothing that holds jobs goes: it could not be found silent any more. What somebody wished something of goes last.
const FORGET_SILENT: &str = "
delete from workers
 where name in (select w.name
                  from workers w
                 where not exists (select 1
                                     from jobs indexed by jobs_held
                                    where worker = w.name
                                      and state = 'active')
                 order by w.wish <> ?1, w.last_beat_at
                 limit ?2)";

/// Whether one more worker can be kept, after the most silent ones were forgotten if need be.
fn make_room(write: &Write) -> Result<bool, StoreError> {
    let count: i64 = write.conn.prepare_cached(KNOWN)?.query_row([], |row| row.get(0))?;
    if (count as usize) < limits::WORKERS_MAX {
        return Ok(true);
    }
    let gone = write
        .conn
        .prepare_cached(FORGET_SILENT)?
        .execute((Wish::Running.name(), limits::WORKERS_FORGOTTEN_WHEN_FULL as i64))?;
    Ok(gone > 0)
}

const HOLDING_UNKNOWN: &str = "
select worker, count(*)
  from jobs indexed by jobs_held
 where state = 'active'
   and worker is not null
   and not exists (select 1 from workers where name = worker)
 group by worker
 order by worker
 limit ?1";

/// All workers that are known or hold jobs, in the order of their names.
pub(super) fn all(conn: &Connection) -> Result<Vec<WorkerInfo>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let limit = limits::WORKERS_SHOWN_MAX as i64;
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS}, (select count(*) from jobs indexed by jobs_held where worker = w.name and state = 'active')
           from workers w
          order by w.name
          limit ?1"
    ))?;
    let mut found = statement.query([limit])?;
    let mut workers = Vec::new();
    while let Some(row) = found.next()? {
        workers.push(read(row)?);
    }
    let mut statement = conn.prepare_cached(HOLDING_UNKNOWN)?;
    let silent = statement.query_map([limit], |row| {
        let beat = Beat { worker: row.get(0)?, ..Beat::default() };
        let active = row.get::<_, i64>(1)? as u64;
        Ok(WorkerInfo { beat, wish: Wish::Running, first_seen_at: None, last_beat_at: None, active })
    })?;
    for worker in silent {
        workers.push(worker?);
    }
    drop(snapshot);
    workers.sort_by(|one, other| one.beat.worker.cmp(&other.beat.worker));
    workers.truncate(limits::WORKERS_SHOWN_MAX);
    Ok(workers)
}

const WISH: &str = "
update workers
   set wish = ?2
 where name = ?1
   and wish in (?2, ?3, ?4)";

/// Wishes something of a worker, unless it was told to exit.
pub(super) fn wish(
    write: &Write,
    name: &str,
    wish: Wish,
    by: &Actor,
    at: Time,
) -> Result<Wished, StoreError> {
    let open = (Wish::Running.name(), Wish::Quiet.name());
    if write.conn.prepare_cached(WISH)?.execute((name, wish.name(), open.0, open.1))? == 0 {
        return Ok(match known(&write.conn, name)? {
            Some(_) => Wished::Terminating,
            None => Wished::Unknown,
        });
    }
    let (action, event) = match wish {
        Wish::Running => ("worker_running", "worker.running"),
        Wish::Quiet => ("worker_quiet", "worker.quiet"),
        Wish::Terminate => ("worker_terminate", "worker.terminate"),
    };
    tell(write, event, name, Some(&by.name), at)?;
    let entry = NewEntry {
        at,
        actor: by,
        action,
        letter: None,
        operation: None,
        incident: None,
        redrive: None,
        filter: None,
        count: 1,
        reason: Some(name),
    };
    audit::add(write, &entry)?;
    Ok(Wished::Done)
}

const SILENT: &str = "
select w.name
  from workers w
 where w.last_beat_at < ?1
   and exists (select 1
                 from jobs indexed by jobs_held
                where worker = w.name
                  and state = 'active')
 order by w.name
 limit ?2";

pub(super) fn silent(conn: &Connection, before: Time, limit: usize) -> Result<Vec<String>, StoreError> {
    let mut statement = conn.prepare_cached(SILENT)?;
    let names = statement.query_map((before.ms(), limit as i64), |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

const FORGET: &str = "
delete from workers
 where name in (select w.name
                  from workers w
                 where w.last_beat_at < ?1
                   and not exists (select 1
                                     from jobs indexed by jobs_held
                                    where worker = w.name
                                      and state = 'active')
                 order by w.name
                 limit ?2)";

pub(super) fn forget(write: &Write, before: Time, limit: usize) -> Result<u64, StoreError> {
    Ok(write.conn.prepare_cached(FORGET)?.execute((before.ms(), limit as i64))? as u64)
}

#[cfg(test)]
mod tests {
    use super::super::migrate;
    use super::*;

    #[test]
    fn what_a_worker_holds_is_found_by_its_name() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for sql in [SILENT, FORGET, FORGET_SILENT, HOLDING_UNKNOWN] {
            let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
            let binds = vec![7_i64; statement.parameter_count()];
            let steps =
                statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().any(|step| step.contains("jobs_held")), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step == "SCAN jobs"), "{sql}: {steps:?}");
        }
    }
}
