//! The row of a job: what stands in columns, and the packed text that holds the rest.
//!
//! A job comes out exactly as it went in; what it holds of JSON is kept as text and never looked into.

use lazaret_core::id::JobId;
use lazaret_core::job::failure::Fate;
use lazaret_core::job::policy::{JobRetry, RetryPatch};
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row};

use super::super::rows::unknown;
use super::super::writer::Write;
use super::detail::{Detail, open_error, owned};
use crate::StoreError;
use crate::job::StoredJob;
use crate::packing::{json, pack_lightly, unpack};

/// A job and the part of its row that takes work to make.
pub(super) struct Packed {
    pub job: Job,
    detail: Vec<u8>,
}

impl Packed {
    pub fn new(job: Job) -> Result<Packed, StoreError> {
        let detail = pack_lightly(json(&Detail::of(&job))?.as_bytes());
        Ok(Packed { job, detail })
    }
}

/// When the clock has something to do with a job; one that waits for a worker can still expire.
pub(super) fn due_at(job: &Job) -> Option<Time> {
    match job.state {
        JobState::Available => job.expires_at,
        JobState::Scheduled
        | JobState::Pending
        | JobState::Active
        | JobState::Completed
        | JobState::Retryable
        | JobState::Cancelled
        | JobState::Discarded => job.due_at(),
    }
}

/// When a job ended; one that has ended without a time of it counts from when it was last enqueued.
fn ended_at(job: &Job) -> Option<Time> {
    let ended = match job.state {
        JobState::Completed => job.completed_at,
        JobState::Cancelled => job.cancelled_at,
        JobState::Discarded => job.discarded_at,
        JobState::Scheduled
        | JobState::Available
        | JobState::Pending
        | JobState::Active
        | JobState::Retryable => return None,
    };
    Some(ended.unwrap_or(job.enqueued_at))
}

const ADD: &str = "
insert into jobs (id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms, held_until,
       timeout_at, due_at, ended_at, dead, type, detail, version)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17 + 1)
on conflict (id) do nothing";

const CHANGE: &str = "
update jobs
   set queue = ?2, state = ?3, priority = ?4, attempt = ?5, enqueued_at = ?6, started_at = ?7, worker = ?8,
       visibility_ms = ?9, held_until = ?10, timeout_at = ?11, due_at = ?12, ended_at = ?13, dead = ?14, type = ?15,
       detail = ?16, version = version + 1
 where id = ?1
   and version = ?17";

/// Writes a job over the version that was read, or as a new one if that is 0; false if it stands otherwise.
pub(super) fn put(write: &Write<'_>, packed: &Packed, version: u64) -> Result<bool, StoreError> {
    let Packed { job, detail } = packed;
    let held = job.held.as_ref();
    let ms = |time: Option<Time>| time.map(Time::ms);
    let sql = if version == 0 { ADD } else { CHANGE };
    let written = write.conn.prepare_cached(sql)?.execute(rusqlite::params![
        job.id.bytes(),
        job.queue,
        job.state.name(),
        job.priority,
        job.attempt,
        job.enqueued_at.ms(),
        ms(job.started_at),
        held.and_then(|held| held.worker.as_deref()),
        held.map(|held| whole(held.visibility_ms)),
        ms(held.map(|held| held.until)),
        ms(held.map(|held| held.timeout_at)),
        ms(due_at(job)),
        ms(ended_at(job)),
        job.in_dead_letter,
        job.job_type,
        detail,
        whole(version),
    ])?;
    Ok(written == 1)
}

const TAKE: &str = "
update jobs
   set state = ?2, attempt = ?3, started_at = ?4, worker = ?5, visibility_ms = ?6, held_until = ?7, timeout_at = ?8,
       due_at = ?9, version = version + 1
 where id = ?1";

/// Writes what a fetch changes, which is in columns: the packed text stays as it is.
pub(super) fn take(write: &Write<'_>, job: &Job) -> Result<(), StoreError> {
    let held = job.held.as_ref();
    let ms = |time: Option<Time>| time.map(Time::ms);
    write.conn.prepare_cached(TAKE)?.execute((
        job.id.bytes(),
        job.state.name(),
        job.attempt,
        ms(job.started_at),
        held.and_then(|held| held.worker.as_deref()),
        held.map(|held| whole(held.visibility_ms)),
        ms(held.map(|held| held.until)),
        ms(held.map(|held| held.timeout_at)),
        ms(due_at(job)),
    ))?;
    Ok(())
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What is needed of a job that is about to be written over.
pub(super) struct Standing {
    pub queue: String,
    pub state: JobState,
    pub in_dead_letter: bool,
    pub version: u64,
}

const STANDING: &str = "select queue, state, dead, version from jobs where id = ?1";

pub(super) fn standing(conn: &Connection, id: JobId) -> Result<Option<Standing>, StoreError> {
    read_standing(conn, STANDING, id)
}

fn read_standing(conn: &Connection, sql: &str, id: JobId) -> Result<Option<Standing>, StoreError> {
    let found: Option<(String, String, bool, i64)> = conn
        .prepare_cached(sql)?
        .query_row([id.bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((queue, word, in_dead_letter, version)) = found else { return Ok(None) };
    Ok(Some(Standing { queue, state: state(&word)?, in_dead_letter, version: version as u64 }))
}

const REMOVE_ENDED: &str = "
delete from jobs
 where id = ?1
   and ended_at is not null
returning queue, state, dead, version";

/// Removes the row of a job if that has ended; says how it stood.
pub(super) fn remove_ended(write: &Write<'_>, id: JobId) -> Result<Option<Standing>, StoreError> {
    read_standing(write.conn, REMOVE_ENDED, id)
}

fn state(word: &str) -> Result<JobState, StoreError> {
    JobState::parse(word).ok_or_else(|| unknown("job's state", word))
}

/// The columns that `read` reads, in its order.
pub(super) const COLUMNS: &str =
    "id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms,
held_until, timeout_at, dead, version, detail";

pub(super) fn read(row: &Row<'_>) -> Result<StoredJob, StoreError> {
    let id = JobId::from_bytes(row.get(0)?);
    let time = |at: usize| -> Result<Option<Time>, StoreError> {
        Ok(row.get::<_, Option<i64>>(at)?.map(Time::from_ms))
    };
    let held = match (time(9)?, time(10)?) {
        (Some(until), Some(timeout_at)) => Some(Held {
            worker: row.get(7)?,
            visibility_ms: row.get::<_, Option<i64>>(8)?.unwrap_or(0) as u64,
            until,
            timeout_at,
        }),
        (Some(_) | None, Some(_) | None) => None,
    };
    let text = unpack(row.get_ref(13)?.as_blob().map_err(rusqlite::Error::from)?)?;
    let broken = |why: String| StoreError::Corrupt(format!("job {id} cannot be read: {why}"));
    let detail: Detail<'_> = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
    let retry = RetryPatch::read(&detail.retry, "retry").map_err(|problem| broken(problem.message))?;
    let job = Job {
        id,
        job_type: detail.job_type.into_owned(),
        queue: row.get(1)?,
        args: detail.args.into_owned(),
        meta: detail.meta.into_owned(),
        schema: owned(detail.schema),
        priority: row.get(3)?,
        timeout_ms: detail.timeout_ms,
        visibility_ms: detail.visibility_ms,
        scheduled_at: moment(detail.scheduled_at),
        expires_at: moment(detail.expires_at),
        retry: retry.over(&JobRetry::default()),
        fate: if detail.returns { Fate::DeadLetter } else { Fate::ByPolicy },
        unique: owned(detail.unique),
        tags: detail.tags.into_owned(),
        extra: detail.extra.into_owned(),
        state: state(&row.get::<_, String>(2)?)?,
        in_dead_letter: row.get(11)?,
        attempt: row.get(4)?,
        created_at: Time::from_ms(detail.created_at),
        enqueued_at: Time::from_ms(row.get(5)?),
        started_at: time(6)?,
        completed_at: moment(detail.completed_at),
        cancelled_at: moment(detail.cancelled_at),
        discarded_at: moment(detail.discarded_at),
        activated_at: moment(detail.activated_at),
        re_enqueued_at: moment(detail.re_enqueued_at),
        next_attempt_at: moment(detail.next_attempt_at),
        retry_delay_ms: detail.retry_delay_ms,
        errors: detail.errors.into_iter().map(open_error).collect(),
        result: owned(detail.result),
        held,
    };
    Ok(StoredJob { job, version: row.get::<_, i64>(12)? as u64 })
}

fn moment(ms: Option<i64>) -> Option<Time> {
    ms.map(Time::from_ms)
}
