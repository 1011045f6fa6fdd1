//! The rows of a job: what stands in columns and the packed text of its course in one, what it was enqueued with in
//! another, which is written once. A row from before they were apart holds both, until it is written again.
//!
//! A job comes out exactly as it went in; what it holds of JSON is kept as text and never looked into.

use lazaret_core::id::JobId;
use lazaret_core::job::state::JobState;
use lazaret_core::job::{Held, Job};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row};

use super::super::rows::unknown;
use super::super::writer::Write;
use crate::StoreError;
use crate::job::StoredJob;
use crate::job::detail::{self, Columns, due_at, ended_at};

/// A job and the part of its row that takes work to make.
pub(super) struct Packed {
    pub job: Job,
    request: Vec<u8>,
    course: Vec<u8>,
}

impl Packed {
    pub fn new(job: Job) -> Result<Packed, StoreError> {
        let (request, course) = (detail::pack_request(&job)?, detail::pack_course(&job)?);
        Ok(Packed { job, request, course })
    }
}

const ADD: &str = "
insert into jobs (id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms, held_until,
       timeout_at, due_at, ended_at, dead, type, detail, version)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17 + 1)
on conflict (id) do nothing
returning job";

const CHANGE: &str = "
update jobs
   set queue = ?2, state = ?3, priority = ?4, attempt = ?5, enqueued_at = ?6, started_at = ?7, worker = ?8,
       visibility_ms = ?9, held_until = ?10, timeout_at = ?11, due_at = ?12, ended_at = ?13, dead = ?14, type = ?15,
       detail = ?16, version = version + 1
 where id = ?1
   and version = ?17
returning job";

/// Writes nothing if it is the same as ever.
const KEEP_REQUEST: &str = "
insert into job_requests (job, request)
values (?1, ?2)
on conflict (job)
do update set request = excluded.request
   where request <> excluded.request";

/// Writes a job over the version that was read, or as a new one if that is 0; false if it stands otherwise.
pub(super) fn put(write: &Write, packed: &Packed, version: u64) -> Result<bool, StoreError> {
    let Packed { job, request, course } = packed;
    let held = job.held.as_ref();
    let ms = |time: Option<Time>| time.map(Time::ms);
    let sql = if version == 0 { ADD } else { CHANGE };
    let mut statement = write.conn.prepare_cached(sql)?;
    let binds = rusqlite::params![
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
        course,
        whole(version),
    ];
    let written: Option<i64> = statement.query_row(binds, |row| row.get(0)).optional()?;
    let Some(row) = written else { return Ok(false) };
    write.conn.prepare_cached(KEEP_REQUEST)?.execute((row, request))?;
    Ok(true)
}

const TAKE: &str = "
update jobs
   set state = ?2, attempt = ?3, started_at = ?4, worker = ?5, visibility_ms = ?6, held_until = ?7, timeout_at = ?8,
       due_at = ?9, version = version + 1
 where id = ?1";

/// Writes what a fetch changes, which is in columns: the packed text stays as it is.
pub(super) fn take(write: &Write, job: &Job) -> Result<(), StoreError> {
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
pub(super) fn remove_ended(write: &Write, id: JobId) -> Result<Option<Standing>, StoreError> {
    read_standing(&write.conn, REMOVE_ENDED, id)
}

fn state(word: &str) -> Result<JobState, StoreError> {
    JobState::parse(word).ok_or_else(|| unknown("job's state", word))
}

/// The columns that `read` reads, in its order.
pub(super) const COLUMNS: &str =
    "id, queue, state, priority, attempt, enqueued_at, started_at, worker, visibility_ms,
held_until, timeout_at, dead, version, detail, (select r.request from job_requests r where r.job = jobs.job)";

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
    let columns = Columns {
        id,
        queue: row.get(1)?,
        state: state(&row.get::<_, String>(2)?)?,
        priority: row.get(3)?,
        attempt: row.get(4)?,
        enqueued_at: Time::from_ms(row.get(5)?),
        started_at: time(6)?,
        held,
        in_dead_letter: row.get(11)?,
    };
    let course = row.get_ref(13)?.as_blob().map_err(rusqlite::Error::from)?;
    let request = row.get_ref(14)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
    let job = detail::open(columns, request, course)?;
    Ok(StoredJob { job, version: row.get::<_, i64>(12)? as u64 })
}
