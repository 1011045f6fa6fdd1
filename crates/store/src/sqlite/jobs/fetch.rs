//! A fetch: the next jobs of some queues go to a worker, in one commit and to nobody else.

use std::collections::HashSet;
use std::sync::Mutex;

use lazaret_core::job::Job;
use lazaret_core::job::state::{JobRefused, JobState};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use super::super::writer::Write;
use super::change::{Effect, take_effect};
use super::queues::{Depths, is_paused};
use super::row::{self, Packed};
use super::tell;
use crate::StoreError;
use crate::job::handed::Handed;
use crate::job::{JobEvent, StoredJob, key_of};
use crate::worker::Wish;

/// What a worker asks for.
pub(in crate::sqlite) struct Fetch {
    /// Tried one after the other.
    pub queues: Vec<String>,
    pub count: usize,
    pub worker: Option<String>,
    /// How long the worker holds a job, if it does not want the job's own time.
    pub visibility_ms: Option<u64>,
    pub at: Time,
}

/// Expired jobs that one fetch puts away, so that no worker waits for all that nobody fetched over a week end.
const EXPIRED_PER_FETCH: usize = 1_000;

/// Queues that the last fetch of them found empty. Workers poll, and most of what they ask for is not there: then a look
/// from a reader comes first, which writes nothing. Where something was found there is likely more.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Dry(Mutex<HashSet<Vec<String>>>);

/// Lists of queues that are remembered; a worker asks for the same ones all its life.
const DRY_MAX: usize = 1_000;

impl Dry {
    pub fn holds(&self, queues: &[String]) -> bool {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner()).contains(queues)
    }

    pub fn note(&self, queues: &[String], found: usize) {
        let mut dry = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        if found > 0 {
            dry.remove(queues);
        } else if !dry.contains(queues) {
            if dry.len() >= DRY_MAX {
                dry.clear();
            }
            dry.insert(queues.to_vec());
        }
    }
}

const ANYTHING: &str = "
select exists (select 1
                 from jobs indexed by jobs_waiting
                where queue = ?1
                  and state = 'available')";

/// Whether a fetch would find anything.
pub(in crate::sqlite) fn anything(conn: &Connection, asked: &Fetch) -> Result<bool, StoreError> {
    if !may_fetch(conn, asked)? {
        return Ok(false);
    }
    for queue in &asked.queues {
        let waits: bool = conn.prepare_cached(ANYTHING)?.query_row([queue], |row| row.get(0))?;
        if waits && !is_paused(conn, queue)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Remembers what it hands out, in the order of commits: a job that comes again under an old id is remembered after it.
pub(in crate::sqlite) fn fetch(
    write: &mut Write,
    asked: &Fetch,
    handed: &Handed,
) -> Result<Vec<Job>, StoreError> {
    let mut depths = Depths::default();
    let mut fetched = Vec::new();
    // Asked again: the wish may have been written since a reader looked.
    if !may_fetch(&write.conn, asked)? {
        return Ok(fetched);
    }
    let mut may_expire = EXPIRED_PER_FETCH;
    for queue in &asked.queues {
        if is_paused(&write.conn, queue)? {
            continue;
        }
        while fetched.len() < asked.count {
            let waiting = next(&write.conn, queue, asked.count - fetched.len())?;
            let (found, before) = (waiting.len(), fetched.len());
            for StoredJob { job, version } in waiting {
                if job.is_expired(asked.at) {
                    may_expire = may_expire.saturating_sub(1);
                    expire(write, job, version, asked.at, &mut depths)?;
                } else {
                    let job = take(write, job, asked, &mut depths)?;
                    handed.remember(&job, version + 1);
                    fetched.push(job);
                }
            }
            // Only what has expired makes room for another look.
            if found == fetched.len() - before || may_expire == 0 {
                break;
            }
        }
    }
    depths.defer(write, asked.at);
    Ok(fetched)
}

const WISH: &str = "select wish from workers where name = ?1";

/// Whether the worker gets jobs at all: one that was told to be quiet or to exit is to finish what it has.
fn may_fetch(conn: &Connection, asked: &Fetch) -> Result<bool, StoreError> {
    let Some(worker) = &asked.worker else { return Ok(true) };
    let wish: Option<String> = conn.prepare_cached(WISH)?.query_row([worker], |row| row.get(0)).optional()?;
    Ok(wish.is_none_or(|wish| wish == Wish::Running.name()))
}

/// The first jobs of a queue: highest priority first, then who waits longest.
fn next(conn: &Connection, queue: &str, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
    let columns = row::COLUMNS;
    let mut statement = conn.prepare_cached(&format!(
        "select {columns}
           from jobs indexed by jobs_waiting
          where queue = ?1
            and state = 'available'
          order by priority desc, enqueued_at, job
          limit ?2"
    ))?;
    let mut found = statement.query((queue, limit as i64))?;
    let mut waiting = Vec::new();
    while let Some(row) = found.next()? {
        waiting.push(row::read(row)?);
    }
    Ok(waiting)
}

fn take(write: &Write, job: Job, asked: &Fetch, depths: &mut Depths) -> Result<Job, StoreError> {
    depths.add(&job.queue, job.state, -1);
    let job = job.fetched(asked.worker.as_deref(), asked.at, asked.visibility_ms).map_err(not_waiting)?;
    depths.add(&job.queue, job.state, 1);
    row::take(write, &job)?;
    let data = json!({
        "job_type": job.job_type,
        "queue": job.queue,
        "worker_id": asked.worker,
        "attempt": job.attempt,
    });
    tell(write, job.id, &[JobEvent { kind: "job.started", data: data.to_string() }], asked.at)?;
    Ok(job)
}

fn expire(
    write: &mut Write,
    job: Job,
    version: u64,
    at: Time,
    depths: &mut Depths,
) -> Result<(), StoreError> {
    depths.add(&job.queue, job.state, -1);
    let job = job.expired(at).map_err(not_waiting)?;
    depths.add(&job.queue, job.state, 1);
    take_effect(write, &job, &key_of(job.id), &Effect::End { evidence: "expired" }, at)?;
    let data = json!({
        "job_type": job.job_type,
        "queue": job.queue,
        "total_attempts": job.attempt,
        "reason": "expired",
    });
    write.tally.note_job("job.expired", &job.queue, &job.job_type);
    let packed = Packed::new(job)?;
    if !row::put(write, &packed, version)? {
        return Err(StoreError::Corrupt(format!("job {} moved while it was held still", packed.job.id)));
    }
    tell(write, packed.job.id, &[JobEvent { kind: "job.discarded", data: data.to_string() }], at)
}

fn not_waiting(refused: JobRefused) -> StoreError {
    StoreError::Corrupt(format!("a job that is {} does not stand so: {refused}", JobState::Available))
}
