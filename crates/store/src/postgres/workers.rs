//! Workers: known by their heartbeats, with what is wished of them. What they hold is in the rows of their jobs.
//!
//! A worker is whoever says its name, to any instance. Its name is a stranger's word: how many are kept is bounded.

use std::sync::Arc;

use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::PostgresStore;
use super::audit::{self, NewEntry};
use super::cell::{At, Bind, Cells, clean};
use super::conn::Conn;
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
fn read(row: &Row) -> Result<WorkerInfo, StoreError> {
    let (name, queues, wish): (String, Option<&str>, &str) = (row.cell(0)?, row.cell(3)?, row.cell(7)?);
    let queues = match queues {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| StoreError::Corrupt(format!("the queues of worker {name}: {error}")))?,
        None => Vec::new(),
    };
    Ok(WorkerInfo {
        beat: Beat {
            worker: name,
            hostname: row.cell(1)?,
            pid: row.cell::<Option<i64>>(2)?.map(|pid| pid as u64),
            queues,
            concurrency: row.cell::<Option<i64>>(4)?.map(|number| number as u64),
            started_at: row.time_opt(5)?,
            said: row.cell(6)?,
        },
        wish: Wish::parse(wish).ok_or_else(|| unknown("wish", wish))?,
        first_seen_at: row.time_opt(8)?,
        last_beat_at: row.time_opt(9)?,
        active: row.count(10)?,
    })
}

async fn known(conn: &Conn, name: &str, lock: &str) -> Result<Option<WorkerInfo>, StoreError> {
    let sql = format!("select {COLUMNS}, 0::bigint from workers w where w.name = $1 {lock}");
    conn.query_opt(&sql, &[&clean(name)]).await?.map(|row| read(&row)).transpose()
}

/// Takes a sign of life; most say nothing new and are answered by a reader.
pub(super) async fn hear(store: &PostgresStore, beat: Beat, at: Time) -> Result<Wish, StoreError> {
    let asked = Arc::new((as_kept(beat.bounded()), at));
    let heard = store
        .readers
        .read(Arc::clone(&asked), |conn, asked| Box::pin(self::heard(conn, &asked.0, asked.1)))
        .await?;
    match heard {
        Some(wish) => Ok(wish),
        None => {
            store.writer.write(1, asked, |write, asked| Box::pin(self::beat(write, &asked.0, asked.1))).await
        }
    }
}

/// What a worker says, as the columns can hold it: otherwise it would be news again each time.
fn as_kept(beat: Beat) -> Beat {
    let kept = |text: String| clean(&text).into_owned();
    Beat {
        worker: kept(beat.worker),
        hostname: beat.hostname.map(kept),
        queues: beat.queues.into_iter().map(kept).collect(),
        said: beat.said.map(kept),
        ..beat
    }
}

/// What is wished of a worker that was heard of a moment ago and says nothing new: then there is nothing to write.
async fn heard(conn: &Conn, beat: &Beat, at: Time) -> Result<Option<Wish>, StoreError> {
    let Some(known) = known(conn, &beat.worker, "").await? else { return Ok(None) };
    let since = known.last_beat_at.map_or(i64::MAX, |last| at.since(last));
    let fresh = since < limits::WORKER_BEAT_KEPT_MS && known.beat.with(beat) == known.beat;
    Ok(fresh.then_some(known.wish))
}

const ADD: &str = "
insert into workers (name, hostname, pid, queues, concurrency, started_at, said, wish, first_seen_at, last_beat_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
on conflict (name) do nothing";

const TOUCH: &str = "
update workers
   set last_beat_at = greatest(last_beat_at, $2)
 where name = $1";

const CHANGE: &str = "
update workers
   set hostname = $2, pid = $3, queues = $4, concurrency = $5, started_at = $6, said = $7, wish = $8,
       last_beat_at = greatest(last_beat_at, $9)
 where name = $1";

/// How often a worker is looked up that comes and goes meanwhile.
const LOOKS_MAX: usize = 4;

/// Notes a sign of life; what a worker leaves out stays as it was.
async fn beat(write: &mut Write, beat: &Beat, at: Time) -> Result<Wish, StoreError> {
    for _ in 0..LOOKS_MAX {
        // It stands still until the commit: somebody may wish something of it at the same time.
        if let Some(known) = known(&write.conn, &beat.worker, "for no key update").await? {
            return go_on(write, &known, beat, at).await;
        }
        if beat.worker.len() > limits::NAME_BYTES_MAX || !make_room(write).await? {
            return Ok(Wish::Running);
        }
        if put(write, ADD, beat, Wish::Running, at).await? == 1 {
            tell(write, "worker.started", &beat.worker, None, at)?;
            return Ok(Wish::Running);
        }
    }
    // Others add and forget it all the time: the next heartbeat will do.
    Ok(Wish::Running)
}

/// The next sign of life of a worker that is known.
async fn go_on(write: &mut Write, known: &WorkerInfo, beat: &Beat, at: Time) -> Result<Wish, StoreError> {
    let now = known.beat.with(beat);
    let another = known.beat.is_another_process(beat);
    // Who was told to exit and starts anew under the old name has done so.
    let wish = match known.wish {
        Wish::Terminate if another => Wish::Running,
        wish => wish,
    };
    if another {
        tell(write, "worker.started", &beat.worker, None, at)?;
    }
    if now == known.beat && wish == known.wish {
        write.conn.execute(TOUCH, &[&beat.worker, &At(at)]).await?;
    } else {
        put(write, CHANGE, &now, wish, at).await?;
    }
    Ok(wish)
}

/// Tells of a worker, which is neither a letter nor a job.
fn tell(
    write: &mut Write,
    kind: &'static str,
    worker: &str,
    actor: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let detail = Some(serde_json::json!({ "worker_id": worker }).to_string());
    events::add(write, &NewEvent { at, kind, actor, detail, ..NewEvent::default() })
}

async fn put(write: &Write, sql: &str, beat: &Beat, wish: Wish, at: Time) -> Result<u64, StoreError> {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let queues = match beat.queues.as_slice() {
        [] => None,
        queues => Some(json(&queues)?),
    };
    let binds: [Bind<'_>; 9] = [
        &beat.worker,
        &beat.hostname,
        &beat.pid.map(whole),
        &queues,
        &beat.concurrency.map(whole),
        &beat.started_at.map(At),
        &beat.said,
        &wish.name(),
        &At(at),
    ];
    write.conn.execute(sql, &binds).await
}

const KNOWN: &str = "select count(*) from workers";

/// Nothing that holds jobs goes: it could not be found silent any more. What somebody wished something of goes last. Who
/// is heard of in another instance at this moment is not silent.
const FORGET_SILENT: &str = "
delete from workers
 where name = any(array(select w.name
                          from workers w
                         where not exists (select 1
                                             from jobs j
                                            where j.worker = w.name
                                              and j.state = 'active')
                         order by w.wish <> $1, w.last_beat_at
                         limit $2
                           for update skip locked))";

/// Whether one more worker can be kept, after the most silent ones were forgotten if need be.
async fn make_room(write: &Write) -> Result<bool, StoreError> {
    let count = write.conn.query_one(KNOWN, &[]).await?.count(0)?;
    if (count as usize) < limits::WORKERS_MAX {
        return Ok(true);
    }
    let most = limits::WORKERS_FORGOTTEN_WHEN_FULL as i64;
    Ok(write.conn.execute(FORGET_SILENT, &[&Wish::Running.name(), &most]).await? > 0)
}

const HOLDING_UNKNOWN: &str = "
select j.worker, count(*)
  from jobs j
 where j.state = 'active'
   and j.worker is not null
   and not exists (select 1 from workers w where w.name = j.worker)
 group by j.worker
 order by j.worker
 limit $1";

/// All workers that are known or hold jobs, in the order of their names.
pub(super) async fn all(conn: &Conn) -> Result<Vec<WorkerInfo>, StoreError> {
    let limit = limits::WORKERS_SHOWN_MAX as i64;
    let sql = format!(
        "select {COLUMNS}, (select count(*) from jobs j where j.worker = w.name and j.state = 'active')
           from workers w
          order by w.name
          limit $1"
    );
    let mut workers = Vec::new();
    for row in conn.query(&sql, &[&limit]).await? {
        workers.push(read(&row)?);
    }
    for row in conn.query(HOLDING_UNKNOWN, &[&limit]).await? {
        let beat = Beat { worker: row.cell(0)?, ..Beat::default() };
        let active = row.count(1)?;
        workers.push(WorkerInfo {
            beat,
            wish: Wish::Running,
            first_seen_at: None,
            last_beat_at: None,
            active,
        });
    }
    workers.sort_by(|one, other| one.beat.worker.cmp(&other.beat.worker));
    workers.truncate(limits::WORKERS_SHOWN_MAX);
    Ok(workers)
}

const WISH: &str = "
update workers
   set wish = $2
 where name = $1
   and wish = any($3)";

/// Wishes something of a worker, unless it was told to exit.
pub(super) async fn wish(
    write: &mut Write,
    name: &str,
    wish: Wish,
    by: &Actor,
    at: Time,
) -> Result<Wished, StoreError> {
    let open = [wish.name(), Wish::Running.name(), Wish::Quiet.name()];
    if write.conn.execute(WISH, &[&clean(name), &wish.name(), &open.as_slice()]).await? == 0 {
        return Ok(match known(&write.conn, name, "").await? {
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
 where w.last_beat_at < $1
   and exists (select 1
                 from jobs j
                where j.worker = w.name
                  and j.state = 'active')
 order by w.name
 limit $2";

pub(super) async fn silent(conn: &Conn, before: Time, limit: usize) -> Result<Vec<String>, StoreError> {
    conn.query(SILENT, &[&At(before), &(limit as i64)]).await?.iter().map(|row| row.cell(0)).collect()
}

const FORGET: &str = "
delete from workers
 where name = any(array(select w.name
                          from workers w
                         where w.last_beat_at < $1
                           and not exists (select 1
                                             from jobs j
                                            where j.worker = w.name
                                              and j.state = 'active')
                         order by w.name
                         limit $2
                           for update skip locked))";

pub(super) async fn forget(write: &Write, before: Time, limit: usize) -> Result<u64, StoreError> {
    write.conn.execute(FORGET, &[&At(before), &(limit as i64)]).await
}
