//! The letter leads: whatever a person decides on a job's letter, its job stands as the letter says, in the same commit.

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Job, NotRetried};
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Action;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::letters;
use super::super::verdicts::{Mark, apply, standing};
use super::super::writer::Write;
use super::live_letter;
use super::queues::Depths;
use super::row::{self, Packed};
use crate::StoreError;
use crate::decision::Decided;
use crate::job::{SOURCE, StoredJob, key_of};

const JOB_OF: &str = "
select event_id
  from dead_letter_queue
 where id = ?1
   and source = ?2";

/// The job of a live letter. Letters that are no job's have none, even if a report gave them the name of our source.
pub(in crate::sqlite) fn job_of(write: &Write, letter: LetterId) -> Result<Option<JobId>, StoreError> {
    let named: Option<String> = write
        .conn
        .prepare_cached(JOB_OF)?
        .query_row((letter.bytes(), SOURCE), |row| row.get(0))
        .optional()?;
    let Some(id) = named.and_then(|name| JobId::parse(&name).ok()) else { return Ok(None) };
    let own = live_letter(&write.keys, &write.conn, &key_of(id))? == Some(letter);
    Ok(own.then_some(id))
}

/// Whether a letter that is to be put in is a job's, and the job is there without it.
pub(in crate::sqlite) fn names_a_job(
    conn: &Connection,
    source: &str,
    event_id: &str,
    key: &CaptureKey,
) -> Result<bool, StoreError> {
    let own = JobId::parse(event_id).ok().filter(|id| source == SOURCE && key_of(*id) == *key);
    match own {
        Some(id) => Ok(row::standing(conn, id)?.is_some()),
        None => Ok(false),
    }
}

/// Writes the job of a letter that waits again as discarded and in the dead letter, made from the letter's last life:
/// the row may tell of a run that came after it, or be gone.
pub(in crate::sqlite) fn follow(write: &Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    let Some(id) = job_of(write, letter)? else { return Ok(()) };
    let before = row::standing(&write.conn, id)?;
    if before.as_ref().is_some_and(|before| before.state == JobState::Discarded && before.in_dead_letter) {
        return Ok(());
    }
    let Some(job) = last_life(write, id, letter)? else { return Ok(()) };
    let mut depths = Depths::default();
    depths.add(&job.queue, job.state, 1);
    if let Some(before) = &before {
        depths.add(&before.queue, before.state, -1);
    }
    if !row::put(write, &Packed::new(job)?, before.map_or(0, |before| before.version))? {
        return Err(StoreError::Corrupt(format!("job {id} moved while it was held still")));
    }
    depths.flush(write, at)
}

/// Removes the row of a job whose letter was settled by hand or is about to go. One that has not ended stays: it is out
/// without the letter, and its death will be told.
pub(in crate::sqlite) fn withdraw(write: &Write, job: JobId) -> Result<(), StoreError> {
    let Some(gone) = row::remove_ended(write, job)? else { return Ok(()) };
    let mut depths = Depths::default();
    depths.add(&gone.queue, gone.state, -1);
    // Its queue is there already: the time is not that of a beginning.
    depths.flush(write, Time::default())
}

/// What putting a letter's job back did, and to which job.
pub(in crate::sqlite) struct Retried {
    pub decided: Decided,
    pub job: Option<JobId>,
}

/// Puts the job of a pending letter back into its queue, and the letter goes out with it. What is told of it is the
/// caller's affair.
pub(in crate::sqlite) fn retry(
    write: &mut Write,
    letter: LetterId,
    with: &Override,
    at: Time,
) -> Result<Retried, StoreError> {
    let not = |decided| Ok(Retried { decided, job: None });
    match standing(&write.conn, letter)?.map(|standing| standing.after(Action::Redrive)) {
        None => return not(Decided::Unknown),
        Some(Err(refused)) => return not(Decided::Refused(refused)),
        Some(Ok(_)) => {}
    }
    let Some(id) = job_of(write, letter)? else { return not(Decided::NoWayBack) };
    let Some(StoredJob { job, version }) = dead_job(write, id, letter)? else {
        return not(Decided::NoWayBack);
    };
    let mut depths = Depths::default();
    if version > 0 {
        depths.add(&job.queue, job.state, -1);
    }
    // A job that does not stand as its letter says is out already: nobody puts a second one beside it.
    let Some(after) = retried(job, with, at) else { return not(Decided::NoWayBack) };
    depths.add(&after.queue, after.state, 1);
    let decided = apply(write, letter, Action::Redrive, Mark::Sends, at)?;
    if decided == Decided::Done {
        if !row::put(write, &Packed::new(after)?, version)? {
            return Err(StoreError::Corrupt(format!("job {id} moved while it was held still")));
        }
        depths.defer(write, at);
    }
    Ok(Retried { decided, job: Some(id) })
}

/// The job out of the dead letter; nothing if it is not there, and so is out already.
fn retried(job: Job, with: &Override, at: Time) -> Option<Job> {
    match job.clone().retried_from_dead_letter(with, at) {
        Ok(after) => Some(after),
        // What does not fit into the job's meta is no reason to leave the job dead.
        Err(NotRetried::Override(_)) => job.retried_from_dead_letter(&Override::default(), at).ok(),
        Err(NotRetried::State(_) | NotRetried::NotDead) => None,
    }
}

/// The row of a letter's job, or the job made from the letter if it has no row.
fn dead_job(write: &Write, id: JobId, letter: LetterId) -> Result<Option<StoredJob>, StoreError> {
    match super::job(&write.conn, id)? {
        Some(stored) => Ok(Some(stored)),
        None => Ok(last_life(write, id, letter)?.map(|job| StoredJob { job, version: 0 })),
    }
}

/// The job as it died last; nothing if a report under the name of our source left no job to be made, or another one.
fn last_life(write: &Write, id: JobId, letter: LetterId) -> Result<Option<Job>, StoreError> {
    let Some(history) = letters::history_in(&write.conn, letter)? else { return Ok(None) };
    let Some(original) = letters::original(&write.conn, letter, None)? else { return Ok(None) };
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
