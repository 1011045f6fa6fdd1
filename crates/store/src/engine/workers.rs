//! Workers: known by their heartbeats, with what is wished of them. What they claimed is in the rows of their jobs.
//!
//! A worker is whoever says its name, to any instance. Names come from outside: how many are kept is bounded.

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::event::NewEvent;
use crate::packing::json;
use crate::seam::{Backend, Conn, Lane, Row, Sql, Table, Tx, View, binds, sql, table};
use crate::worker::{Beat, Wish, Wished, WorkerInfo, Workers};

#[async_trait]
impl<S: Backend> Workers for S {
    async fn beat(&self, beat: Beat, at: Time) -> Result<Wish, StoreError> {
        let beat = Arc::new((beat.bounded(), at));
        // Most heartbeats say nothing new and are answered by a reader.
        let fresh =
            self.read(View::Newest, Arc::clone(&beat), |conn, beat| Box::pin(fresh(conn, &beat.0, beat.1)));
        match fresh.await? {
            Some(wish) => Ok(wish),
            None => {
                self.write(Lane::Quick(1), beat, |tx, beat| Box::pin(self::beat(tx, &beat.0, beat.1))).await
            }
        }
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>, StoreError> {
        self.read(View::Snapshot, (), |conn, ()| Box::pin(all(conn))).await
    }

    async fn wish_worker(
        &self,
        worker: String,
        wish: Wish,
        by: Actor,
        at: Time,
    ) -> Result<Wished, StoreError> {
        self.write(Lane::Quick(1), (worker, wish, by, at), |tx, (worker, wish, by, at)| {
            Box::pin(self::wish(tx, worker, *wish, by, *at))
        })
        .await
    }

    async fn silent_workers(&self, before: Time, limit: usize) -> Result<Vec<String>, StoreError> {
        self.read(View::Newest, (before, limit), |conn, (before, limit)| {
            Box::pin(silent(conn, *before, *limit))
        })
        .await
    }

    async fn forget_workers(&self, before: Time, limit: usize) -> Result<u64, StoreError> {
        self.write(Lane::Long(1), (before, limit), |tx, (before, limit)| {
            Box::pin(forget(tx, *before, *limit))
        })
        .await
    }
}

pub(super) const WORKERS: Table = table!(
    "workers" as "w": "name", "hostname", "pid", "queues", "concurrency", "started_at", "said", "wish", "first_seen_at",
    "last_beat_at",
);

/// Reads a worker and, from the column `active`, how many jobs it has.
fn read(row: &Row<'_>) -> Result<WorkerInfo, StoreError> {
    let name: String = row.get("name")?;
    let hostname = row.get("hostname")?;
    let pid = row.get("pid")?;
    let queues = match row.get::<Option<String>>("queues")? {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| StoreError::Corrupt(format!("the queues of worker {name}: {error}")))?,
        None => Vec::new(),
    };
    Ok(WorkerInfo {
        beat: Beat {
            worker: name,
            hostname,
            pid,
            queues,
            concurrency: row.get("concurrency")?,
            started_at: row.get("started_at")?,
            said: row.get("said")?,
        },
        wish: row.get("wish")?,
        first_seen_at: row.get("first_seen_at")?,
        last_beat_at: row.get("last_beat_at")?,
        active: row.get("active")?,
    })
}

const WORKER: Sql = sql!(
    "
select {}, 0 as active
  from workers w
 where w.name = $1",
    WORKERS
);

/// The words of a heartbeat as the columns keep them: otherwise they would be news again each time.
fn as_kept(conn: &impl Conn, beat: &Beat) -> Beat {
    let kept = |text: &String| conn.kept(text).into_owned();
    Beat {
        worker: kept(&beat.worker),
        hostname: beat.hostname.as_ref().map(kept),
        queues: beat.queues.iter().map(kept).collect(),
        said: beat.said.as_ref().map(kept),
        ..*beat
    }
}

/// The wish for a worker that was heard of a moment ago and says nothing new: then there is nothing to write.
async fn fresh(conn: &mut impl Conn, beat: &Beat, at: Time) -> Result<Option<Wish>, StoreError> {
    let beat = as_kept(conn, beat);
    let Some(known) = conn.query_opt(&WORKER, binds![&beat.worker], read).await? else { return Ok(None) };
    let since = known.last_beat_at.map_or(i64::MAX, |last| at.since(last));
    let fresh = since < limits::WORKER_BEAT_KEPT_MS && known.beat.with(&beat) == known.beat;
    Ok(fresh.then_some(known.wish))
}

/// The row is locked until the commit: somebody may wish something of the worker at the same time.
const LOCK_WORKER: Sql = sql!(
    "
select {}, 0 as active
  from workers w
 where w.name = $1
 {postgres for no key update}",
    WORKERS
);

const ADD: Sql = sql!(
    "
insert into workers (name, hostname, pid, queues, concurrency, started_at, said, wish, first_seen_at, last_beat_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
on conflict (name) do nothing"
);

const TOUCH: Sql = sql!(
    "
update workers
   set last_beat_at = {sqlite max}{postgres greatest}(last_beat_at, $2)
 where name = $1"
);

const CHANGE: Sql = sql!(
    "
update workers
   set hostname = $2, pid = $3, queues = $4, concurrency = $5, started_at = $6, said = $7, wish = $8,
       last_beat_at = {sqlite max}{postgres greatest}(last_beat_at, $9)
 where name = $1"
);

/// How often a worker is looked up that other instances add and forget meanwhile.
const LOOKUPS_MAX: usize = 4;

/// Records a heartbeat; what a worker leaves out stays as it was.
async fn beat(tx: &mut impl Tx, beat: &Beat, at: Time) -> Result<Wish, StoreError> {
    let beat = as_kept(tx, beat);
    for _ in 0..LOOKUPS_MAX {
        if let Some(known) = tx.query_opt(&LOCK_WORKER, binds![&beat.worker], read).await? {
            return beat_again(tx, &known, &beat, at).await;
        }
        if beat.worker.len() > limits::NAME_BYTES_MAX || !make_room(tx).await? {
            return Ok(Wish::Running);
        }
        if put(tx, &ADD, &beat, Wish::Running, at).await? == 1 {
            add_event(tx, "worker.started", &beat.worker, None, at)?;
            return Ok(Wish::Running);
        }
    }
    // Others add and forget it all the time: the next heartbeat will do.
    Ok(Wish::Running)
}

/// Records the next heartbeat of a worker that is known.
async fn beat_again(tx: &mut impl Tx, known: &WorkerInfo, beat: &Beat, at: Time) -> Result<Wish, StoreError> {
    let now = known.beat.with(beat);
    let another = known.beat.is_another_process(beat);
    // Who was told to exit and starts anew under the old name has done so.
    let wish = match known.wish {
        Wish::Terminate if another => Wish::Running,
        wish => wish,
    };
    if another {
        add_event(tx, "worker.started", &beat.worker, None, at)?;
    }
    if now == known.beat && wish == known.wish {
        tx.execute(&TOUCH, binds![&beat.worker, at]).await?;
    } else {
        put(tx, &CHANGE, &now, wish, at).await?;
    }
    Ok(wish)
}

/// Adds an event of a worker, which is neither a letter nor a job.
fn add_event(
    tx: &mut impl Tx,
    kind: &'static str,
    worker: &str,
    actor: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let detail = Some(serde_json::json!({ "worker_id": worker }).to_string());
    tx.add_event(&NewEvent { at, kind, actor, detail, ..NewEvent::default() })
}

async fn put(tx: &mut impl Tx, sql: &Sql, beat: &Beat, wish: Wish, at: Time) -> Result<u64, StoreError> {
    let queues = match beat.queues.as_slice() {
        [] => None,
        queues => Some(json(&queues)?),
    };
    let values = binds![
        &beat.worker,
        beat.hostname.as_ref(),
        beat.pid,
        queues,
        beat.concurrency,
        beat.started_at,
        beat.said.as_ref(),
        wish,
        at,
    ];
    tx.execute(sql, values).await
}

const KNOWN: Sql = sql!("select count(*) as workers from workers");

/// A worker with jobs stays: it could not be found silent any more. One that somebody wished something of goes last. One
/// that another instance has locked was heard of just now.
const FORGET_SILENT: Sql = sql!(
    "
delete from workers
 where name {sqlite in (}{postgres = any(array(}select w.name
                  from workers w
                 where not exists (select 1
                                     from jobs j{sqlite  indexed by jobs_held}
                                    where j.worker = w.name
                                      and j.state = 'active')
                 order by w.wish <> $1, w.last_beat_at
                 limit $2
                 {postgres for update skip locked)})"
);

/// Returns true if one more worker can be kept, after the most silent ones were forgotten if need be.
async fn make_room(tx: &mut impl Tx) -> Result<bool, StoreError> {
    let count: u64 = tx.query_one(&KNOWN, &[], |row| row.get("workers")).await?;
    if count < limits::WORKERS_MAX as u64 {
        return Ok(true);
    }
    let forgotten = binds![Wish::Running, limits::WORKERS_FORGOTTEN_WHEN_FULL];
    Ok(tx.execute(&FORGET_SILENT, forgotten).await? > 0)
}

const ALL: Sql = sql!(
    "
select {},
       (select count(*)
          from jobs j{sqlite  indexed by jobs_held}
         where j.worker = w.name
           and j.state = 'active') as active
  from workers w
 order by w.name
 limit $1",
    WORKERS
);

const UNKNOWN_WITH_JOBS: Sql = sql!(
    "
select j.worker as name, count(*) as active
  from jobs j{sqlite  indexed by jobs_held}
 where j.state = 'active'
   and j.worker is not null
   and not exists (select 1 from workers w where w.name = j.worker)
 group by j.worker
 order by j.worker
 limit $1"
);

/// All workers that are known or have jobs, in the order of their names. Asked within a snapshot.
async fn all(conn: &mut impl Conn) -> Result<Vec<WorkerInfo>, StoreError> {
    let limit = limits::WORKERS_SHOWN_MAX;
    let mut workers = conn.query(&ALL, binds![limit], read).await?;
    let unknown = |row: &Row<'_>| {
        Ok(WorkerInfo {
            beat: Beat { worker: row.get("name")?, ..Beat::default() },
            wish: Wish::Running,
            first_seen_at: None,
            last_beat_at: None,
            active: row.get("active")?,
        })
    };
    workers.extend(conn.query(&UNKNOWN_WITH_JOBS, binds![limit], unknown).await?);
    workers.sort_by(|one, other| one.beat.worker.cmp(&other.beat.worker));
    workers.truncate(limit);
    Ok(workers)
}

const WISH: Sql = sql!(
    "
update workers
   set wish = $2
 where name = $1
   and wish {any $3}"
);

/// Wishes something of a worker, unless it was told to exit.
async fn wish(tx: &mut impl Tx, name: &str, wish: Wish, by: &Actor, at: Time) -> Result<Wished, StoreError> {
    let open = vec![wish.name(), Wish::Running.name(), Wish::Quiet.name()];
    if tx.execute(&WISH, binds![name, wish, open]).await? == 0 {
        return Ok(match tx.query_opt(&WORKER, binds![name], read).await? {
            Some(_) => Wished::Terminating,
            None => Wished::Unknown,
        });
    }
    let (action, event) = match wish {
        Wish::Running => ("worker_running", "worker.running"),
        Wish::Quiet => ("worker_quiet", "worker.quiet"),
        Wish::Terminate => ("worker_terminate", "worker.terminate"),
    };
    add_event(tx, event, name, Some(&by.name), at)?;
    tx.add_audit(&NewEntry { reason: Some(name), ..NewEntry::new(by, action, at) })?;
    Ok(Wished::Done)
}

const SILENT: Sql = sql!(
    "
select w.name
  from workers w
 where w.last_beat_at < $1
   and exists (select 1
                 from jobs j{sqlite  indexed by jobs_held}
                where j.worker = w.name
                  and j.state = 'active')
 order by w.name
 limit $2"
);

async fn silent(conn: &mut impl Conn, before: Time, limit: usize) -> Result<Vec<String>, StoreError> {
    conn.query(&SILENT, binds![before, limit], |row| row.get("name")).await
}

const FORGET: Sql = sql!(
    "
delete from workers
 where name {sqlite in (}{postgres = any(array(}select w.name
                  from workers w
                 where w.last_beat_at < $1
                   and not exists (select 1
                                     from jobs j{sqlite  indexed by jobs_held}
                                    where j.worker = w.name
                                      and j.state = 'active')
                 order by w.name
                 limit $2
                 {postgres for update skip locked)})"
);

async fn forget(tx: &mut impl Tx, before: Time, limit: usize) -> Result<u64, StoreError> {
    tx.execute(&FORGET, binds![before, limit]).await
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::migrate;

    #[test]
    fn the_jobs_of_a_worker_are_found_by_its_name() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for Sql { sqlite: sql, .. } in [ALL, SILENT, FORGET, FORGET_SILENT, UNKNOWN_WITH_JOBS] {
            let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
            let binds = vec![7_i64; statement.parameter_count()];
            let steps =
                statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().any(|step| step.contains("jobs_held")), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step == "SCAN jobs" || step == "SCAN j"), "{sql}: {steps:?}");
        }
    }
}
