//! Jobs: enqueued, read, found when they are due, and forgotten when they have ended long ago.
//!
//! Every request is one commit and finds its rows by an index. What may become of a job is not decided here. Other
//! instances take and change jobs at the same time: a row is changed only over the version it was read in, or while it
//! is locked.

pub(super) mod change;
pub(super) mod fetch;
pub(super) mod follow;
pub(super) mod list;
pub(super) mod queues;
pub(super) mod retry;
mod row;

use std::collections::HashSet;

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid, clean};
use super::conn::Conn;
use super::events::{self, NewEvent};
use super::insert::{LOCK_KEYS, lock_keys};
use super::letters;
use super::writer::Write;
use crate::StoreError;
use crate::job::{JobEvent, StoredJob, key_of};
use crate::page::LetterHistory;
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

/// Jobs that one request enqueues: all of them or none.
pub(super) struct NewJobs {
    pub jobs: Vec<Enqueued>,
    pub at: Time,
}

/// Enqueues the jobs of several requests; the answer of each is nothing, or the job that stands in its way.
pub(super) async fn enqueue_all(
    write: &mut Write,
    asked: &[&NewJobs],
) -> Result<Vec<Result<(), JobId>>, StoreError> {
    let all: Vec<&Enqueued> = asked.iter().flat_map(|one| &one.jobs).collect();
    if asked.len() > 1 && add(write, &all).await?.is_ok() {
        asked.iter().try_for_each(|one| tell_enqueued(write, one))?;
        return Ok(asked.iter().map(|_| Ok(())).collect());
    }
    // An id is taken: which request that concerns is found out one by one.
    let mut answers = Vec::with_capacity(asked.len());
    for one in asked {
        let added = add(write, &one.jobs.iter().collect::<Vec<_>>()).await?;
        if added.is_ok() {
            tell_enqueued(write, one)?;
        }
        answers.push(added);
    }
    Ok(answers)
}

/// Adds the rows of all jobs, or none and says which one stands in the way.
async fn add(write: &Write, jobs: &[&Enqueued]) -> Result<Result<(), JobId>, StoreError> {
    let packed: Vec<&Packed> = jobs.iter().map(|new| &new.packed).collect();
    let keys: Vec<&CaptureKey> = jobs.iter().map(|new| &new.key).collect();
    // Asked and done in one round trip: that an id is taken is rare. Whoever restores a letter of such an id has to be
    // waited for first.
    write.conn.prepare(LOCK_KEYS).await?;
    let ((), letters, added) = tokio::try_join!(biased;
        lock_keys(&write.conn, &keys),
        letters_of(&write.conn, &keys, &KEEPING),
        row::add(&write.conn, &packed)
    )?;
    let kept: HashSet<usize> = letters.into_iter().map(|(n, _)| n).collect();
    let mut seen = HashSet::with_capacity(jobs.len());
    for (n, job) in packed.iter().map(|packed| &packed.job).enumerate() {
        if kept.contains(&n) || !seen.insert(job.id) || !added.contains(&job.id) {
            row::take_back(&write.conn, &added).await?;
            return Ok(Err(job.id));
        }
    }
    Ok(Ok(()))
}

fn tell_enqueued(write: &mut Write, new: &NewJobs) -> Result<(), StoreError> {
    for Enqueued { packed, events, .. } in &new.jobs {
        write.depths.add(&packed.job.queue, packed.job.state, 1, new.at);
        tell(write, packed.job.id, events, new.at)?;
    }
    Ok(())
}

fn tell(write: &mut Write, job: JobId, events: &[JobEvent], at: Time) -> Result<(), StoreError> {
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

pub(super) async fn job(conn: &Conn, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let sql = format!("select {} from jobs j where j.id = $1", row::COLUMNS);
    conn.query_opt(&sql, &[&Uid(*id.bytes())]).await?.map(|found| row::read(&found)).transpose()
}

fn due_sql() -> String {
    format!(
        "select {}
           from jobs j
          where j.due_at <= $1
          order by j.due_at, j.job
          limit $2",
        row::COLUMNS
    )
}

pub(super) async fn due(conn: &Conn, at: Time, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
    conn.query(&due_sql(), &[&At(at), &(limit as i64)]).await?.iter().map(row::read).collect()
}

fn held_by_sql() -> String {
    format!(
        "select {}
           from jobs j
          where j.worker = $1
            and j.state = 'active'
          order by j.job
          limit $2",
        row::COLUMNS
    )
}

/// Jobs that a worker holds, in the order they came in.
pub(super) async fn held_by(conn: &Conn, worker: &str, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
    let held = conn.query(&held_by_sql(), &[&clean(worker), &(limit as i64)]).await?;
    held.iter().map(row::read).collect()
}

const NEXT_DUE: &str = "
select due_at
  from jobs
 where due_at is not null
 order by due_at
 limit 1";

pub(super) async fn next_due(conn: &Conn) -> Result<Option<Time>, StoreError> {
    conn.query_opt(NEXT_DUE, &[]).await?.map(|row| row.time(0)).transpose()
}

/// Where a letter has to be to keep the id of its job.
const KEEPING: [Place; 2] = [Place::Live, Place::Archived];

const LETTERS_OF: &str = "
select a.n, k.id
  from unnest($1::bytea[]) with ordinality as a (key, n)
 cross join lateral (select id, place
                       from letter_keys
                      where key = a.key
                      order by place = 'deleted', generation desc
                      limit 1) k
 where k.place = any($2::text[])
 order by a.n";

/// The letters that keys stand for, if they are in one of these places; each with the place of its key among the keys.
async fn letters_of(
    conn: &Conn,
    keys: &[&CaptureKey],
    places: &[Place],
) -> Result<Vec<(usize, LetterId)>, StoreError> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    let places: Vec<&str> = places.iter().map(|place| place.name()).collect();
    let mut letters = Vec::new();
    for row in conn.query(LETTERS_OF, &[&keys, &places]).await? {
        letters.push((row.count(0)? as usize - 1, LetterId::from_bytes(row.id(1)?)));
    }
    Ok(letters)
}

/// The live letter under a key.
async fn live_letter(conn: &Conn, key: &CaptureKey) -> Result<Option<LetterId>, StoreError> {
    let found = letters_of(conn, &[key], &[Place::Live]).await?;
    Ok(found.first().map(|(_, letter)| *letter))
}

pub(super) async fn letter_of(conn: &Conn, id: JobId) -> Result<Option<LetterHistory>, StoreError> {
    match live_letter(conn, &key_of(id)).await? {
        Some(letter) => letters::history(conn, letter).await,
        None => Ok(None),
    }
}

/// What somebody else is changing now has not ended long ago, or is being forgotten by another instance. Both ends say
/// what is meant: with the numbers alone PostgreSQL goes through all rows of a table that it takes to be small.
const PRUNE: &str = "
delete from jobs
 where job = any(array(select job
                         from (select job, bytes, sum(bytes) over (rows unbounded preceding) as so_far
                                 from (select job, octet_length(detail) as bytes
                                         from jobs
                                        where state = $1
                                          and ended_at < $2
                                          and not dead
                                        order by ended_at
                                        limit $3
                                          for update skip locked) as ended) as weighed
                        where so_far - bytes < $4))
   and state = $1
   and ended_at < $2
   and not dead
returning queue, octet_length(detail)";

/// Forgets jobs that ended in one of these states before the time beside it, of large ones only a few; a job in the dead
/// letter stays.
pub(super) async fn prune(
    write: &mut Write,
    before: &[(JobState, Time)],
    limit: usize,
) -> Result<u64, StoreError> {
    let (mut pruned, mut bytes) = (0, limits::CONTENT_BYTES_DROPPED_PER_WRITE as i64);
    for (state, before) in before {
        let room = (limit - pruned) as i64;
        for row in write.conn.query(PRUNE, &[&state.name(), &At(*before), &room, &bytes]).await? {
            bytes -= i64::from(row.cell::<i32>(1)?);
            // Their queues are there already: the time is not that of a beginning.
            write.depths.add(row.cell(0)?, *state, -1, Time::default());
            pruned += 1;
        }
    }
    Ok(pruned as u64)
}

#[cfg(test)]
mod tests;
