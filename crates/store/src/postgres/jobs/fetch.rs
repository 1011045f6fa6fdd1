//! A fetch: the next jobs of some queues go to a worker, in one commit and to nobody else.
//!
//! Every look locks what it finds and passes over what another instance has locked, so that no worker waits for another
//! and none gets what another has. How many statements it takes does not depend on how many jobs are asked for.

use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::{JobRefused, JobState};
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;
use serde_json::json;

use super::super::cell::{At, Bind, clean_opt};
use super::super::conn::Conn;
use super::super::writer::Write;
use super::change::{Ending, settle};
use super::row::{self, Packed};
use super::{letters_of, tell};
use crate::StoreError;
use crate::job::{JobEvent, StoredJob, key_of};
use crate::worker::Wish;

/// What a worker asks for.
pub(in crate::postgres) struct Fetch {
    /// Tried one after the other, each once.
    queues: Vec<String>,
    count: usize,
    worker: Option<String>,
    /// How long the worker holds a job, if it does not want the job's own time.
    visibility_ms: Option<u64>,
    at: Time,
}

impl Fetch {
    pub fn new(
        queues: Vec<String>,
        count: usize,
        worker: &str,
        visibility_ms: Option<u64>,
        at: Time,
    ) -> Fetch {
        let mut once: Vec<String> = Vec::with_capacity(queues.len());
        for queue in queues {
            // No queue has a NUL in its name, and none can be bound.
            if !once.contains(&queue) && !queue.contains('\0') {
                once.push(queue);
            }
        }
        let worker = clean_opt(Some(worker).filter(|name| !name.is_empty())).map(|name| name.into_owned());
        Fetch { queues: once, count, worker, visibility_ms, at }
    }
}

/// Expired jobs that one fetch puts away, so that no worker waits for all that nobody fetched over a week end.
const EXPIRED_PER_FETCH: usize = 1_000;

/// Whether the worker gets jobs at all: one that was told to be quiet or to exit is to finish what it has.
const MAY_FETCH: &str = "
not exists (select 1
              from workers w
             where w.name = $3
               and w.wish <> $4)";

pub(super) fn anything_sql() -> String {
    format!(
        "{ANYTHING}
           and $2::bigint > 0
           and {MAY_FETCH}"
    )
}

const ANYTHING: &str = "
select 1
 where exists (select 1
                 from unnest($1::text[]) as q (name)
                where exists (select 1
                                from jobs j
                               where j.queue = q.name
                                 and j.state = 'available')
                  and not exists (select 1
                                    from queues p
                                   where p.name = q.name
                                     and p.paused))";

/// Whether a fetch would find anything. Asked first by a reader: workers poll, and most of what they ask for is not
/// there.
pub(in crate::postgres) async fn anything(conn: &Conn, asked: &Fetch) -> Result<bool, StoreError> {
    let running = Wish::Running.name();
    let binds: [Bind<'_>; 4] = [&asked.queues, &(asked.count as i64), &asked.worker, &running];
    Ok(conn.query_opt(&anything_sql(), &binds).await?.is_some())
}

/// Hands the next jobs to a worker; each comes with the version that it has from now on.
pub(in crate::postgres) async fn fetch(
    write: &mut Write,
    asked: &Fetch,
) -> Result<Vec<StoredJob>, StoreError> {
    let mut queues: Vec<&str> = asked.queues.iter().map(String::as_str).collect();
    let mut fetched = Vec::new();
    let mut may_expire = EXPIRED_PER_FETCH;
    while fetched.len() < asked.count && !queues.is_empty() {
        let waiting = next(&write.conn, &queues, asked.count - fetched.len(), asked).await?;
        let (expired, waiting): (Vec<StoredJob>, Vec<StoredJob>) =
            waiting.into_iter().partition(|stored| stored.job.is_expired(asked.at));
        let expired: Vec<Job> = expired.into_iter().map(|stored| stored.job).collect();
        fetched.extend(take(write, waiting, asked).await?);
        // Only what has expired makes room for another look.
        if expired.is_empty() {
            break;
        }
        may_expire = may_expire.saturating_sub(expired.len());
        if may_expire == 0 {
            queues.retain(|queue| !expired.iter().any(|job| job.queue == *queue));
        }
        put_away(write, expired, asked.at).await?;
        if may_expire > 0 {
            let more = next_expired(&write.conn, &queues, may_expire, asked.at).await?;
            may_expire = may_expire.saturating_sub(more.len());
            put_away(write, more, asked.at).await?;
        }
    }
    Ok(fetched)
}

/// The jobs that wait in a queue `q.name` which is not paused, in the order they are fetched in.
const WAITING: &str = "
from jobs j
where j.queue = q.name
  and j.state = 'available'
  and not coalesce((select p.paused from queues p where p.name = q.name), false)
order by j.priority desc, j.enqueued_at, j.job
limit $2";

/// Queue after queue, until there are enough: what is behind them is neither read nor locked.
pub(super) fn next_sql() -> String {
    let columns = row::COLUMNS;
    format!(
        "select {columns}
           from unnest($1::text[]) with ordinality as q (name, n)
          cross join lateral (select {columns} {WAITING} for no key update of j skip locked) j
          where {MAY_FETCH}
          order by q.n
          limit $2"
    )
}

/// The first jobs of queues: highest priority first, then who waits longest.
async fn next(
    conn: &Conn,
    queues: &[&str],
    limit: usize,
    asked: &Fetch,
) -> Result<Vec<StoredJob>, StoreError> {
    let running = Wish::Running.name();
    let found = conn.query(&next_sql(), &[&queues, &(limit as i64), &asked.worker, &running]).await?;
    found.iter().map(row::read).collect()
}

/// Looks at the heads of queues and locks only what has expired.
pub(super) fn next_expired_sql() -> String {
    format!(
        "select {}
           from jobs j
          where j.job = any(array(select w.job
                                    from unnest($1::text[]) with ordinality as q (name, n)
                                   cross join lateral (select j.job, j.due_at {WAITING}) w
                                   where w.due_at <= $3
                                   order by q.n
                                   limit $2))
            and j.state = 'available'
            and j.due_at <= $3
          order by j.job
            for no key update skip locked",
        row::COLUMNS
    )
}

async fn next_expired(conn: &Conn, queues: &[&str], limit: usize, at: Time) -> Result<Vec<Job>, StoreError> {
    let found = conn.query(&next_expired_sql(), &[&queues, &(limit as i64), &At(at)]).await?;
    found.iter().map(|found| Ok(row::read(found)?.job)).collect()
}

async fn take(
    write: &mut Write,
    waiting: Vec<StoredJob>,
    asked: &Fetch,
) -> Result<Vec<StoredJob>, StoreError> {
    if waiting.is_empty() {
        return Ok(waiting);
    }
    let mut taken = Vec::with_capacity(waiting.len());
    for StoredJob { job, version } in waiting {
        write.depths.add(&job.queue, job.state, -1, asked.at);
        let job = job.fetched(asked.worker.as_deref(), asked.at, asked.visibility_ms).map_err(not_waiting)?;
        write.depths.add(&job.queue, job.state, 1, asked.at);
        let data = json!({
            "job_type": job.job_type,
            "queue": job.queue,
            "worker_id": asked.worker,
            "attempt": job.attempt,
        });
        tell(write, job.id, &[JobEvent { kind: "job.started", data: data.to_string() }], asked.at)?;
        taken.push(StoredJob { job, version: version + 1 });
    }
    let jobs: Vec<&Job> = taken.iter().map(|stored| &stored.job).collect();
    row::take(&write.conn, &jobs).await?;
    Ok(taken)
}

/// Discards what nobody ran in time; a letter that was out with it ends with it.
async fn put_away(write: &mut Write, expired: Vec<Job>, at: Time) -> Result<(), StoreError> {
    if expired.is_empty() {
        return Ok(());
    }
    let mut ended = Vec::with_capacity(expired.len());
    for job in expired {
        write.depths.add(&job.queue, job.state, -1, at);
        let job = job.expired(at).map_err(not_waiting)?;
        write.depths.add(&job.queue, job.state, 1, at);
        ended.push(Packed::new(job)?);
    }
    row::end(&write.conn, &ended).await?;
    end_letters(write, &ended, at).await?;
    for Packed { job, .. } in &ended {
        write.tally.note_job("job.expired", &job.queue, &job.job_type);
        let data = json!({
            "job_type": job.job_type,
            "queue": job.queue,
            "total_attempts": job.attempt,
            "reason": "expired",
        });
        tell(write, job.id, &[JobEvent { kind: "job.discarded", data: data.to_string() }], at)?;
    }
    Ok(())
}

/// Ends the letters that were out with jobs: only a job that left the dead letter has one.
async fn end_letters(write: &mut Write, ended: &[Packed], at: Time) -> Result<(), StoreError> {
    let out = ended.iter().map(|ended| &ended.job).filter(|job| job.re_enqueued_at.is_some());
    let out: Vec<(JobId, CaptureKey)> = out.map(|job| (job.id, key_of(job.id))).collect();
    if out.is_empty() {
        return Ok(());
    }
    let keys: Vec<&CaptureKey> = out.iter().map(|(_, key)| key).collect();
    for (n, letter) in letters_of(&write.conn, &keys, &[Place::Live]).await? {
        settle(write, out[n].0, letter, Ending::Ended { evidence: "expired" }, at).await?;
    }
    Ok(())
}

fn not_waiting(refused: JobRefused) -> StoreError {
    StoreError::Corrupt(format!("a job that is {} does not stand so: {refused}", JobState::Available))
}
