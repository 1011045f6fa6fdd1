//! The letter leads: whatever a person decides on a job's letter, its job stands as the letter says, in the same commit.
//!
//! Jobs are locked before their letters, as by whoever moves a job and takes its letter along.

use std::collections::{HashMap, HashSet};

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::key::CaptureKey;
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::letters;
use super::super::writer::Write;
use super::row::{self, Packed};
use super::{Place, letters_of};
use crate::StoreError;
use crate::job::{SOURCE, key_of};

/// The jobs of letters.
pub(in crate::postgres) type Jobs = HashMap<LetterId, JobId>;

const JOBS_OF: &str = "
select l.id, l.event_id
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
 where l.source = $3";

/// The jobs of live letters. Letters that are no job's have none, even if a report gave them the name of our source.
pub(in crate::postgres) async fn jobs_of(conn: &Conn, letters: &[LetterId]) -> Result<Jobs, StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|letter| Uid(*letter.bytes())).collect();
    let begun_at: Vec<At> = letters.iter().map(|letter| At(letter.at())).collect();
    let mut named: Vec<(LetterId, JobId, CaptureKey)> = Vec::new();
    for row in conn.query(JOBS_OF, &[&ids, &begun_at, &SOURCE]).await? {
        if let Ok(job) = JobId::parse(row.cell(1)?) {
            named.push((LetterId::from_bytes(row.id(0)?), job, key_of(job)));
        }
    }
    if named.is_empty() {
        return Ok(Jobs::new());
    }
    let keys: Vec<&CaptureKey> = named.iter().map(|(_, _, key)| key).collect();
    let own: HashSet<(usize, LetterId)> =
        letters_of(conn, &keys, &[Place::Live]).await?.into_iter().collect();
    let named = named.iter().enumerate().filter(|(n, (letter, _, _))| own.contains(&(*n, *letter)));
    Ok(named.map(|(_, (letter, job, _))| (*letter, *job)).collect())
}

/// The job of one letter, if it has one.
pub(in crate::postgres) async fn job_of(conn: &Conn, letter: LetterId) -> Result<Option<JobId>, StoreError> {
    Ok(jobs_of(conn, &[letter]).await?.remove(&letter))
}

const LOCK_JOBS: &str = "
select id
  from jobs
 where id = any($1)
 order by id
   for no key update";

/// The jobs of letters, whose rows are locked until the commit; asked before the letters are locked.
pub(in crate::postgres) async fn lock_jobs(write: &Write, letters: &[LetterId]) -> Result<Jobs, StoreError> {
    let jobs = jobs_of(&write.conn, letters).await?;
    if !jobs.is_empty() {
        let ids: Vec<Uid> = jobs.values().map(|id| Uid(*id.bytes())).collect();
        write.conn.execute(LOCK_JOBS, &[&ids]).await?;
    }
    Ok(jobs)
}

const LOCK_FREE_JOBS: &str = "
select id
  from jobs
 where id = any($1)
 order by id
   for no key update skip locked";

/// The jobs of letters, locked without waiting: letters whose jobs somebody else has locked are left out.
pub(in crate::postgres) async fn lock_free_jobs(
    write: &Write,
    letters: &[LetterId],
) -> Result<(Vec<LetterId>, Jobs), StoreError> {
    let jobs = jobs_of(&write.conn, letters).await?;
    if jobs.is_empty() {
        return Ok((letters.to_vec(), jobs));
    }
    let ids: Vec<JobId> = jobs.values().copied().collect();
    let mut busy = with_rows(&write.conn, &ids).await?;
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    for row in write.conn.query(LOCK_FREE_JOBS, &[&ids]).await? {
        busy.remove(&JobId::from_bytes(row.id(0)?));
    }
    let is_free = |letter: &&LetterId| jobs.get(letter).is_none_or(|job| !busy.contains(job));
    Ok((letters.iter().filter(is_free).copied().collect(), jobs))
}

/// The job that a letter speaks of, if it is under that job's key.
pub(in crate::postgres) fn named_job(source: &str, event_id: &str, key: &CaptureKey) -> Option<JobId> {
    JobId::parse(event_id).ok().filter(|id| source == SOURCE && key_of(*id) == *key)
}

/// Those of the jobs that have a row.
pub(in crate::postgres) async fn with_rows(
    conn: &Conn,
    jobs: &[JobId],
) -> Result<HashSet<JobId>, StoreError> {
    if jobs.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uid> = jobs.iter().map(|id| Uid(*id.bytes())).collect();
    let found = conn.query("select id from jobs where id = any($1)", &[&ids]).await?;
    found.iter().map(|row| Ok(JobId::from_bytes(row.id(0)?))).collect()
}

/// Writes the job of a letter that waits again as discarded and in the dead letter, made from the letter's last life:
/// the row may tell of a run that came after it, or be gone.
pub(in crate::postgres) async fn follow(
    write: &mut Write,
    letter: LetterId,
    at: Time,
) -> Result<(), StoreError> {
    let Some(id) = job_of(&write.conn, letter).await? else { return Ok(()) };
    let before = row::standing(&write.conn, id).await?;
    if before.as_ref().is_some_and(|before| before.state == JobState::Discarded && before.in_dead_letter) {
        return Ok(());
    }
    let Some(job) = last_life(&write.conn, id, letter).await? else { return Ok(()) };
    let packed = Packed::new(job)?;
    match row::put(&write.conn, &packed, before.map_or(0, |before| before.version)).await? {
        None => return Err(moved(id)),
        Some(None) => {}
        Some(Some((queue, state))) => write.depths.add(&queue, state, -1, at),
    }
    write.depths.add(&packed.job.queue, packed.job.state, 1, at);
    Ok(())
}

pub(super) fn moved(id: JobId) -> StoreError {
    StoreError::Corrupt(format!("job {id} moved while it was held still"))
}

/// Removes the rows of jobs whose letters were settled by hand or are about to go. One that has not ended stays: it is
/// out without the letter, and its death will be told.
pub(in crate::postgres) async fn withdraw(
    write: &mut Write,
    jobs: impl Iterator<Item = JobId>,
) -> Result<(), StoreError> {
    let ids: Vec<JobId> = jobs.collect();
    if ids.is_empty() {
        return Ok(());
    }
    for (queue, state) in row::remove_ended(&write.conn, &ids).await? {
        // Its queue is there already: the time is not that of a beginning.
        write.depths.add(&queue, state, -1, Time::default());
    }
    Ok(())
}

/// The job as it died last; nothing if a report under the name of our source left no job to be made, or another one.
pub(super) async fn last_life(conn: &Conn, id: JobId, letter: LetterId) -> Result<Option<Job>, StoreError> {
    let Some(history) = letters::history(conn, letter).await? else { return Ok(None) };
    let Some(original) = letters::original(conn, letter, None).await? else { return Ok(None) };
    let record = history.lives.last().and_then(|life| life.reported.as_deref()).unwrap_or("");
    let attempts = history.attempts.iter().map(|told| &told.attempt);
    match Job::from_letter(&original.envelope, record, attempts) {
        Ok(job) if job.id == id => Ok(Some(job)),
        Ok(job) => {
            tracing::warn!(letter.id = %letter, "letter {letter} of job {id} tells of job {}", job.id);
            Ok(None)
        }
        Err(error) => {
            tracing::warn!(letter.id = %letter, %error, "no job can be made from letter {letter}");
            Ok(None)
        }
    }
}
