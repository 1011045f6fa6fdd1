//! Jobs: enqueued, read, found when they are due, and forgotten when they have ended long ago.
//!
//! Every request is one commit and finds its rows by an index. What may become of a job is not decided here.

pub(super) mod change;
pub(super) mod fetch;
pub(super) mod follow;
pub(super) mod list;
pub(super) mod queues;
mod row;

use std::collections::HashSet;

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::events::{self, NewEvent};
use super::keys::Keys;
use super::letters;
use super::writer::Write;
use crate::StoreError;
use crate::job::{JobEvent, StoredJob, key_of};
use crate::page::LetterHistory;
use queues::Depths;
use row::Packed;

/// A job that is about to be enqueued, packed: that needs no database.
pub(super) struct Enqueued {
    packed: Packed,
    key: CaptureKey,
    events: Vec<JobEvent>,
}

impl Enqueued {
    pub fn new(job: Job, events: Vec<JobEvent>) -> Result<Enqueued, StoreError> {
        let key = key_of(job.id);
        Ok(Enqueued { packed: Packed::new(job)?, key, events })
    }
}

/// Enqueues all jobs, or none and says which one stands in the way.
pub(super) fn enqueue(
    write: &mut Write,
    jobs: &[Enqueued],
    at: Time,
) -> Result<Result<(), JobId>, StoreError> {
    let mut seen = HashSet::with_capacity(jobs.len());
    for Enqueued { packed, key, .. } in jobs {
        let id = packed.job.id;
        let known = write.keys.latest(&write.conn, key)?;
        let letter_keeps_it = known.is_some_and(|known| known.place != Place::Deleted);
        // Of one job the insert itself says whether its id is taken; of several, none may be written before all are
        // known to be new.
        let stands = jobs.len() > 1 && row::standing(&write.conn, id)?.is_some();
        if letter_keeps_it || stands || !seen.insert(id) {
            return Ok(Err(id));
        }
    }
    let mut depths = Depths::default();
    for Enqueued { packed, events, .. } in jobs {
        let id = packed.job.id;
        match (row::put(write, packed, 0)?, jobs.len()) {
            (true, _) => {}
            (false, 1) => return Ok(Err(id)),
            (false, _) => return Err(StoreError::Corrupt(format!("job {id} appeared meanwhile"))),
        }
        depths.add(&packed.job.queue, packed.job.state, 1);
        tell(write, id, events, at)?;
    }
    depths.defer(write, at);
    Ok(Ok(()))
}

fn tell(write: &Write, job: JobId, events: &[JobEvent], at: Time) -> Result<(), StoreError> {
    for event in events {
        let event = NewEvent {
            at,
            kind: event.kind,
            job: Some(job),
            detail: Some(event.data.clone()),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
    }
    Ok(())
}

pub(super) fn job(conn: &Connection, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let columns = row::COLUMNS;
    let mut statement = conn.prepare_cached(&format!("select {columns} from jobs where id = ?1"))?;
    let mut found = statement.query([id.bytes()])?;
    found.next()?.map(row::read).transpose()
}

pub(super) fn due(conn: &Connection, at: Time, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
    let columns = row::COLUMNS;
    let mut statement = conn.prepare_cached(&format!(
        "select {columns}
           from jobs indexed by jobs_due
          where due_at <= ?1
          order by due_at, job
          limit ?2"
    ))?;
    let mut found = statement.query((at.ms(), limit as i64))?;
    let mut due = Vec::new();
    while let Some(row) = found.next()? {
        due.push(row::read(row)?);
    }
    Ok(due)
}

/// Jobs that a worker holds, in the order they came in.
pub(super) fn held_by(conn: &Connection, worker: &str, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
    let columns = row::COLUMNS;
    let mut statement = conn.prepare_cached(&format!(
        "select {columns}
           from jobs indexed by jobs_held
          where worker = ?1
            and state = 'active'
          order by job
          limit ?2"
    ))?;
    let mut found = statement.query((worker, limit as i64))?;
    let mut held = Vec::new();
    while let Some(row) = found.next()? {
        held.push(row::read(row)?);
    }
    Ok(held)
}

const NEXT_DUE: &str = "
select due_at
  from jobs indexed by jobs_due
 where due_at is not null
 order by due_at
 limit 1";

pub(super) fn next_due(conn: &Connection) -> Result<Option<Time>, StoreError> {
    let next: Option<i64> = conn.prepare_cached(NEXT_DUE)?.query_row([], |row| row.get(0)).optional()?;
    Ok(next.map(Time::from_ms))
}

/// The live letter under a key.
fn live_letter(keys: &Keys, conn: &Connection, key: &CaptureKey) -> Result<Option<LetterId>, StoreError> {
    let known = keys.latest(conn, key)?;
    Ok(known.filter(|known| known.place == Place::Live).map(|known| known.letter))
}

pub(super) fn letter_of(
    keys: &Keys,
    conn: &Connection,
    id: JobId,
) -> Result<Option<LetterHistory>, StoreError> {
    match live_letter(keys, conn, &key_of(id))? {
        Some(letter) => letters::history(conn, letter),
        None => Ok(None),
    }
}

const ENDED: &str = "
select job, queue,
       octet_length(detail) + coalesce((select octet_length(r.request) from job_requests r where r.job = jobs.job), 0)
  from jobs indexed by jobs_ended
 where state = ?1
   and ended_at < ?2
   and dead = 0
 order by ended_at
 limit ?3";

/// Forgets jobs that ended in one of these states before the time beside it, of large ones only a few; a job in the dead
/// letter stays.
pub(super) fn prune(write: &Write, before: &[(JobState, Time)], limit: usize) -> Result<u64, StoreError> {
    let (mut depths, mut pruned, mut bytes) = (Depths::default(), 0, 0);
    let mut forget = write.conn.prepare_cached("delete from jobs where job = ?1")?;
    for (state, before) in before {
        let ended: Vec<(i64, String, i64)> = write
            .conn
            .prepare_cached(ENDED)?
            .query_map((state.name(), before.ms(), (limit - pruned) as i64), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_, _>>()?;
        for (job, queue, size) in ended {
            if bytes >= limits::CONTENT_BYTES_DROPPED_PER_WRITE as i64 {
                break;
            }
            forget.execute([job])?;
            depths.add(&queue, *state, -1);
            (pruned, bytes) = (pruned + 1, bytes + size);
        }
    }
    // Their queues are there already: the time is not that of a beginning.
    depths.flush(write, Time::default())?;
    Ok(pruned as u64)
}

#[cfg(test)]
mod tests;
