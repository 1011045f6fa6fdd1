//! The letter leads: when a person makes a job's letter wait again, its job is in the dead letter again.

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::time::Time;
use rusqlite::OptionalExtension;

use super::super::letters;
use super::super::writer::Write;
use super::live_letter;
use super::queues::Depths;
use super::row::{self, Packed};
use crate::StoreError;
use crate::job::{SOURCE, key_of};

const JOB_OF: &str = "
select event_id
  from dead_letter_queue
 where id = ?1
   and source = ?2";

/// Writes the job of a letter that was reopened as discarded and in the dead letter, made from the letter's last life:
/// the row may tell of a run that came after it, or be gone. Letters that are no job's are none of our business.
pub(in crate::sqlite) fn follow(write: &Write<'_>, letter: LetterId, at: Time) -> Result<(), StoreError> {
    let named: Option<String> = write
        .conn
        .prepare_cached(JOB_OF)?
        .query_row((letter.bytes(), SOURCE), |row| row.get(0))
        .optional()?;
    let Some(id) = named.and_then(|name| JobId::parse(&name).ok()) else { return Ok(()) };
    if live_letter(write.conn, &key_of(id))? != Some(letter) {
        return Ok(());
    }
    let before = row::standing(write.conn, id)?;
    if before.as_ref().is_some_and(|before| before.state == JobState::Discarded && before.in_dead_letter) {
        return Ok(());
    }
    let Some(job) = last_life(write, letter)? else { return Ok(()) };
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

/// The job as it died last; nothing if a report under the name of our source left no job to be made.
fn last_life(write: &Write<'_>, letter: LetterId) -> Result<Option<Job>, StoreError> {
    let Some(history) = letters::history_in(write.conn, letter)? else { return Ok(None) };
    let Some(original) = letters::original(write.conn, letter, None)? else { return Ok(None) };
    let record = history.lives.last().and_then(|life| life.reported.as_deref()).unwrap_or("");
    let attempts = history.attempts.iter().map(|told| &told.attempt);
    match Job::from_letter(&original.envelope, record, attempts) {
        Ok(job) => Ok(Some(job)),
        Err(error) => {
            tracing::warn!(letter.id = %letter, %error, "no job can be made from letter {letter}");
            Ok(None)
        }
    }
}
