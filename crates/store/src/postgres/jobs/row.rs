//! The row of a job: what stands in columns, and the packed text that holds the rest.
//!
//! A job comes out exactly as it went in; what it holds of JSON is kept as text and never looked into.

use std::collections::HashSet;

use lazaret_core::id::JobId;
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job};
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::super::cell::{At, Bind, Cells, Uid, clean};
use super::super::conn::Conn;
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
    let added = conn
        .query(
            ADD,
            &[
                &each(rows, |job| Uid(*job.id.bytes())),
                &each(rows, |job| job.queue.as_str()),
                &each(rows, |job| job.state.name()),
                &each(rows, |job| i64::from(job.priority)),
                &each(rows, |job| i64::from(job.attempt)),
                &each(rows, |job| At(job.enqueued_at)),
                &each(rows, |job| at(job.started_at)),
                &each(rows, |job| job.held.as_ref().and_then(|held| held.worker.as_deref())),
                &held(rows, |held| whole(held.visibility_ms)),
                &held(rows, |held| At(held.until)),
                &held(rows, |held| At(held.timeout_at)),
                &each(rows, |job| at(due_at(job))),
                &each(rows, |job| at(ended_at(job))),
                &each(rows, |job| job.in_dead_letter),
                &each(rows, |job| clean(&job.job_type)),
                &rows.iter().map(|row| row.detail.as_slice()).collect::<Vec<_>>(),
            ],
        )
        .await?;
    added.iter().map(|row| Ok(JobId::from_bytes(row.id(0)?))).collect()
}

/// Takes back rows that this transaction has added.
pub(super) async fn take_back(conn: &Conn, added: &HashSet<JobId>) -> Result<(), StoreError> {
    let ids: Vec<Uid> = added.iter().map(|id| Uid(*id.bytes())).collect();
    conn.execute("delete from jobs where id = any($1)", &[&ids]).await?;
    Ok(())
}

/// Looks at the row first, because what it held is not known after the update. If somebody else changes it now, this
/// waits, and finds another version.
const PUT: &str = "
with before as (select id, queue, state
                  from jobs
                 where id = $1
                   and version = $17
                   for no key update)
update jobs j
   set queue = $2, state = $3, priority = $4, attempt = $5, enqueued_at = $6, started_at = $7, worker = $8,
       visibility_ms = $9, held_until = $10, timeout_at = $11, due_at = $12, ended_at = $13, dead = $14, type = $15,
       detail = $16, version = j.version + 1
  from before b
 where j.id = b.id
returning b.queue, b.state";

/// What was written over: the queue and the state of a row, or no row.
pub(super) type Before = Option<(String, JobState)>;

/// Writes a job over the version that was read, or as a new one if that is 0; nothing if it stands otherwise.
pub(super) async fn put(conn: &Conn, packed: &Packed, version: u64) -> Result<Option<Before>, StoreError> {
    if version == 0 {
        let added = add(conn, &[packed]).await?;
        return Ok((!added.is_empty()).then_some(None));
    }
    let Packed { job, detail } = packed;
    let held = job.held.as_ref();
    let binds: [Bind<'_>; 17] = [
        &Uid(*job.id.bytes()),
        &job.queue,
        &job.state.name(),
        &i64::from(job.priority),
        &i64::from(job.attempt),
        &At(job.enqueued_at),
        &at(job.started_at),
        &held.and_then(|held| held.worker.as_deref()),
        &held.map(|held| whole(held.visibility_ms)),
        &held.map(|held| At(held.until)),
        &held.map(|held| At(held.timeout_at)),
        &at(due_at(job)),
        &at(ended_at(job)),
        &job.in_dead_letter,
        &clean(&job.job_type),
        detail,
        &whole(version),
    ];
    let Some(row) = conn.query_opt(PUT, &binds).await? else { return Ok(None) };
    Ok(Some(Some((row.cell(0)?, state(row.cell(1)?)?))))
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
pub(super) async fn take(conn: &Conn, jobs: &[Job]) -> Result<(), StoreError> {
    fn held<'a, T>(jobs: &'a [Job], of: impl Fn(&'a Held) -> T) -> Vec<Option<T>> {
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
