//! The row of a job: what stands in columns, and the packed text that holds the rest.
//!
//! A job comes out exactly as it went in; what it holds of JSON is kept as text and never looked into.

use std::borrow::Cow;
use std::collections::HashSet;

use lazaret_core::id::JobId;
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job};
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::super::cell::{At, Bind, Cells, Uid, clean};
use super::super::conn::Conn;
use super::super::insert::chunks;
use super::super::rows::unknown;
use crate::StoreError;
use crate::job::StoredJob;
use crate::job::detail::{self, Columns, due_at, ended_at};

/// A job and the part of its row that takes work to make.
pub(super) struct Packed {
    pub job: Job,
    detail: Vec<u8>,
}

impl Packed {
    pub fn new(job: Job) -> Result<Packed, StoreError> {
        let detail = detail::pack(&job)?;
        Ok(Packed { job, detail })
    }
}

fn at(time: Option<Time>) -> Option<At> {
    time.map(At)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// One value of each row.
fn each<'a, T>(rows: &[&'a Packed], of: impl Fn(&'a Job) -> T) -> Vec<T> {
    rows.iter().map(|row| of(&row.job)).collect()
}

fn held<'a, T>(rows: &[&'a Packed], of: impl Fn(&'a Held) -> T) -> Vec<Option<T>> {
    each(rows, |job| job.held.as_ref().map(&of))
}

const ADD: &str = "
insert into jobs (id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms, held_until,
       timeout_at, due_at, ended_at, dead, type, detail, version)
select n.id, n.queue, n.state, n.priority, n.attempt, n.enqueued_at, n.started_at, n.worker, n.visibility_ms,
       n.held_until, n.timeout_at, n.due_at, n.ended_at, n.dead, n.type, n.detail, 1
  from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[],
              $8::text[], $9::bigint[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[],
              $13::timestamptz[], $14::boolean[], $15::text[], $16::bytea[])
  with ordinality as n (id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms,
                        held_until, timeout_at, due_at, ended_at, dead, type, detail, n)
 order by n.n
on conflict (id) do nothing
returning id";

/// Adds rows in this order; returns the ids that were free, each once.
pub(super) async fn add(conn: &Conn, rows: &[&Packed]) -> Result<HashSet<JobId>, StoreError> {
    let mut added = HashSet::with_capacity(rows.len());
    for chunk in chunks(rows, |row| row.detail.len()) {
        let columns = JobColumns::of(chunk);
        for row in conn.query(ADD, &columns.binds()).await? {
            added.insert(JobId::from_bytes(row.id(0)?));
        }
    }
    Ok(added)
}

/// Rows as lists, one for each column that a job is written in.
struct JobColumns<'a> {
    ids: Vec<Uid>,
    queues: Vec<&'a str>,
    states: Vec<&'static str>,
    priorities: Vec<i64>,
    attempts: Vec<i64>,
    enqueued_at: Vec<At>,
    started_at: Vec<Option<At>>,
    workers: Vec<Option<&'a str>>,
    visibility_ms: Vec<Option<i64>>,
    held_until: Vec<Option<At>>,
    timeout_at: Vec<Option<At>>,
    due_at: Vec<Option<At>>,
    ended_at: Vec<Option<At>>,
    dead: Vec<bool>,
    types: Vec<Cow<'a, str>>,
    details: Vec<&'a [u8]>,
}

impl<'a> JobColumns<'a> {
    fn of(rows: &[&'a Packed]) -> JobColumns<'a> {
        JobColumns {
            ids: each(rows, |job| Uid(*job.id.bytes())),
            queues: each(rows, |job| job.queue.as_str()),
            states: each(rows, |job| job.state.name()),
            priorities: each(rows, |job| i64::from(job.priority)),
            attempts: each(rows, |job| i64::from(job.attempt)),
            enqueued_at: each(rows, |job| At(job.enqueued_at)),
            started_at: each(rows, |job| at(job.started_at)),
            workers: each(rows, |job| job.held.as_ref().and_then(|held| held.worker.as_deref())),
            visibility_ms: held(rows, |held| whole(held.visibility_ms)),
            held_until: held(rows, |held| At(held.until)),
            timeout_at: held(rows, |held| At(held.timeout_at)),
            due_at: each(rows, |job| at(due_at(job))),
            ended_at: each(rows, |job| at(ended_at(job))),
            dead: each(rows, |job| job.in_dead_letter),
            types: each(rows, |job| clean(&job.job_type)),
            details: rows.iter().map(|row| row.detail.as_slice()).collect(),
        }
    }

    fn binds(&self) -> Vec<Bind<'_>> {
        vec![
            &self.ids,
            &self.queues,
            &self.states,
            &self.priorities,
            &self.attempts,
            &self.enqueued_at,
            &self.started_at,
            &self.workers,
            &self.visibility_ms,
            &self.held_until,
            &self.timeout_at,
            &self.due_at,
            &self.ended_at,
            &self.dead,
            &self.types,
            &self.details,
        ]
    }
}

/// Takes back rows that this transaction has added.
pub(super) async fn take_back(conn: &Conn, added: &HashSet<JobId>) -> Result<(), StoreError> {
    let ids: Vec<Uid> = added.iter().map(|id| Uid(*id.bytes())).collect();
    conn.execute("delete from jobs where id = any($1)", &[&ids]).await?;
    Ok(())
}

/// Locks the rows first, in the order of their ids, because what they held is not known after the update. If somebody else
/// changes one now, this waits, and finds another version.
const PUT: &str = "
with before as (select j.id, j.queue, j.state, v.n
                  from unnest($1::uuid[], $17::bigint[]) with ordinality as v (id, version, n)
                  join jobs j on j.id = v.id and j.version = v.version
                 order by j.id
                   for no key update of j)
update jobs j
   set queue = t.queue, state = t.state, priority = t.priority, attempt = t.attempt, enqueued_at = t.enqueued_at,
       started_at = t.started_at, worker = t.worker, visibility_ms = t.visibility_ms, held_until = t.held_until,
       timeout_at = t.timeout_at, due_at = t.due_at, ended_at = t.ended_at, dead = t.dead, type = t.type,
       detail = t.detail, version = j.version + 1
  from before b
  join unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::text[],
              $9::bigint[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
              $14::boolean[], $15::text[], $16::bytea[])
  with ordinality as t (queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms, held_until,
                        timeout_at, due_at, ended_at, dead, type, detail, n) on t.n = b.n
 where j.id = b.id
returning b.n, b.queue, b.state";

/// What was written over: the queue and the state of a row, or no row.
pub(super) type Before = Option<(String, JobState)>;

/// Writes jobs over the versions that were read, or as new ones where that is 0; nothing where one stands otherwise. Each
/// job is named once; the answers come in their order.
pub(super) async fn put_all(conn: &Conn, rows: &[(&Packed, u64)]) -> Result<Vec<Option<Before>>, StoreError> {
    let new: Vec<&Packed> = rows.iter().filter(|(_, version)| *version == 0).map(|(row, _)| *row).collect();
    let added = if new.is_empty() { HashSet::new() } else { add(conn, &new).await? };
    let mut put: Vec<Option<Before>> = rows
        .iter()
        .map(|(row, version)| (*version == 0 && added.contains(&row.job.id)).then_some(None))
        .collect();
    let known: Vec<usize> = (0..rows.len()).filter(|n| rows[*n].1 != 0).collect();
    for chunk in chunks(&known, |n| rows[*n].0.detail.len()) {
        let columns = chunk.iter().map(|n| rows[*n].0).collect::<Vec<_>>();
        let columns = JobColumns::of(&columns);
        let versions: Vec<i64> = chunk.iter().map(|n| whole(rows[*n].1)).collect();
        let mut binds = columns.binds();
        binds.push(&versions);
        for row in conn.query(PUT, &binds).await? {
            let before = Some((row.cell(1)?, state(row.cell(2)?)?));
            if let Some(n) = chunk.get((row.count(0)? as usize).saturating_sub(1)) {
                put[*n] = Some(before);
            }
        }
    }
    Ok(put)
}

/// Writes one job over the version that was read, or as a new one if that is 0; nothing if it stands otherwise.
pub(super) async fn put(conn: &Conn, packed: &Packed, version: u64) -> Result<Option<Before>, StoreError> {
    Ok(put_all(conn, &[(packed, version)]).await?.pop().flatten())
}

const TAKE: &str = "
update jobs j
   set state = t.state, attempt = t.attempt, started_at = t.started_at, worker = t.worker,
       visibility_ms = t.visibility_ms, held_until = t.held_until, timeout_at = t.timeout_at, due_at = t.due_at,
       version = j.version + 1
  from unnest($1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[], $5::text[], $6::bigint[], $7::timestamptz[],
              $8::timestamptz[], $9::timestamptz[])
    as t (id, state, attempt, started_at, worker, visibility_ms, held_until, timeout_at, due_at)
 where j.id = t.id";

/// Writes what a fetch changes, which is in columns: the packed text stays as it is. The rows are locked.
pub(super) async fn take(conn: &Conn, jobs: &[&Job]) -> Result<(), StoreError> {
    fn held<'a, T>(jobs: &[&'a Job], of: impl Fn(&'a Held) -> T) -> Vec<Option<T>> {
        jobs.iter().map(|job| job.held.as_ref().map(&of)).collect()
    }
    let taken = conn
        .execute(
            TAKE,
            &[
                &jobs.iter().map(|job| Uid(*job.id.bytes())).collect::<Vec<_>>(),
                &jobs.iter().map(|job| job.state.name()).collect::<Vec<_>>(),
                &jobs.iter().map(|job| i64::from(job.attempt)).collect::<Vec<_>>(),
                &jobs.iter().map(|job| at(job.started_at)).collect::<Vec<_>>(),
                &jobs
                    .iter()
                    .map(|job| job.held.as_ref().and_then(|held| held.worker.as_deref()))
                    .collect::<Vec<_>>(),
                &held(jobs, |held| whole(held.visibility_ms)),
                &held(jobs, |held| At(held.until)),
                &held(jobs, |held| At(held.timeout_at)),
                &jobs.iter().map(|job| at(due_at(job))).collect::<Vec<_>>(),
            ],
        )
        .await?;
    stood_still(taken, jobs.len())
}

const END: &str = "
update jobs j
   set state = e.state, due_at = e.due_at, ended_at = e.ended_at, detail = e.detail, version = j.version + 1
  from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bytea[])
    as e (id, state, due_at, ended_at, detail)
 where j.id = e.id";

/// Writes jobs that end without having been run. The rows are locked.
pub(super) async fn end(conn: &Conn, rows: &[Packed]) -> Result<(), StoreError> {
    let ended = conn
        .execute(
            END,
            &[
                &rows.iter().map(|row| Uid(*row.job.id.bytes())).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.job.state.name()).collect::<Vec<_>>(),
                &rows.iter().map(|row| at(due_at(&row.job))).collect::<Vec<_>>(),
                &rows.iter().map(|row| at(ended_at(&row.job))).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.detail.as_slice()).collect::<Vec<_>>(),
            ],
        )
        .await?;
    stood_still(ended, rows.len())
}

fn stood_still(written: u64, locked: usize) -> Result<(), StoreError> {
    match written == locked as u64 {
        true => Ok(()),
        false => {
            Err(StoreError::Corrupt(format!("of {locked} jobs that were held still, {written} are there")))
        }
    }
}

/// What is needed of a job that is about to be written over.
pub(super) struct Standing {
    pub state: JobState,
    pub in_dead_letter: bool,
    pub version: u64,
}

const STANDING: &str = "
select state, dead, version
  from jobs
 where id = $1
   for no key update";

/// How a job stands; it stands still until the commit.
pub(super) async fn standing(conn: &Conn, id: JobId) -> Result<Option<Standing>, StoreError> {
    let Some(row) = conn.query_opt(STANDING, &[&Uid(*id.bytes())]).await? else { return Ok(None) };
    Ok(Some(Standing { state: state(row.cell(0)?)?, in_dead_letter: row.cell(1)?, version: row.count(2)? }))
}

const REMOVE_ENDED: &str = "
delete from jobs
 where id = any($1)
   and ended_at is not null
returning queue, state";

/// Removes the rows of those jobs that have ended; says what they were in.
pub(super) async fn remove_ended(conn: &Conn, ids: &[JobId]) -> Result<Vec<(String, JobState)>, StoreError> {
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let removed = conn.query(REMOVE_ENDED, &[&ids]).await?;
    removed.iter().map(|row| Ok((row.cell(0)?, state(row.cell(1)?)?))).collect()
}

fn state(word: &str) -> Result<JobState, StoreError> {
    JobState::parse(word).ok_or_else(|| unknown("job's state", word))
}

/// The columns that `read` reads, in its order.
pub(super) const COLUMNS: &str =
    "j.id, j.queue, j.state, j.priority, j.attempt, j.enqueued_at, j.started_at, j.worker, j.visibility_ms,
j.held_until, j.timeout_at, j.dead, j.version, j.detail";

/// The jobs that have a row.
pub(super) async fn read_all(conn: &Conn, ids: &[JobId]) -> Result<Vec<StoredJob>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let sql = format!("select {COLUMNS} from jobs j where j.id = any($1)");
    conn.query(&sql, &[&ids]).await?.iter().map(read).collect()
}

pub(super) fn read(row: &Row) -> Result<StoredJob, StoreError> {
    let held = match (row.time_opt(9)?, row.time_opt(10)?) {
        (Some(until), Some(timeout_at)) => Some(Held {
            worker: row.cell(7)?,
            visibility_ms: row.cell::<Option<i64>>(8)?.unwrap_or(0) as u64,
            until,
            timeout_at,
        }),
        (Some(_) | None, Some(_) | None) => None,
    };
    let columns = Columns {
        id: JobId::from_bytes(row.id(0)?),
        queue: row.cell(1)?,
        state: state(row.cell(2)?)?,
        priority: row.cell::<i64>(3)? as i32,
        attempt: row.count(4)? as u32,
        enqueued_at: row.time(5)?,
        started_at: row.time_opt(6)?,
        held,
        in_dead_letter: row.cell(11)?,
    };
    Ok(StoredJob { job: detail::open(columns, None, row.cell(13)?)?, version: row.count(12)? })
}
