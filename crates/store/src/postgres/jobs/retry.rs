//! Jobs out of the dead letter, back into their queues: many at once, each with its letter.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::job::{Job, NotRetried};
use lazaret_core::lifecycle::{Action, Next, Refused, Standing, Status};
use lazaret_core::time::Time;

use super::super::conn::Conn;
use super::super::trash;
use super::super::verdicts::{Mark, lock_letters, move_all};
use super::super::writer::Write;
use super::follow::{Jobs, last_life, lock_jobs, moved};
use super::row::{self, Packed};
use crate::StoreError;
use crate::decision::Decided;
use crate::job::StoredJob;

/// What putting a letter's job back did, and to which job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::postgres) struct Retried {
    pub decided: Decided,
    pub job: Option<JobId>,
}

/// A letter whose job is to be put back, and what is written into the job by that.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Asked<'a> {
    pub letter: LetterId,
    pub with: &'a Override,
}

/// Puts the jobs of pending letters back into their queues, and the letters go out with them; the answers come in their
/// order. Each letter is asked for once. What is told of it is the caller's affair.
pub(in crate::postgres) async fn retry_all(
    write: &mut Write,
    asked: &[Asked<'_>],
    at: Time,
) -> Result<Vec<Retried>, StoreError> {
    let letters: Vec<LetterId> = asked.iter().map(|one| one.letter).collect();
    let jobs = lock_jobs(write, &letters).await?;
    let held = lock_letters(write, &letters).await?;
    let mut retried = Vec::with_capacity(asked.len());
    let (mut going, mut places) = (Vec::new(), Vec::new());
    for (n, one) in asked.iter().enumerate() {
        let standing = match held.get(&one.letter) {
            Some((_, standing)) => Some(*standing),
            None => trash::tombstone(&write.conn, one.letter).await?,
        };
        let decided = match standing.map(|standing| standing.after(Action::Redrive)) {
            None => Decided::Unknown,
            Some(Err(refused)) => Decided::Refused(refused),
            Some(Ok(_)) => Decided::Done,
        };
        if let (Decided::Done, Some(standing)) = (&decided, standing) {
            going.push((*one, standing));
            places.push(n);
        }
        retried.push(Retried { decided, job: None });
    }
    for (n, done) in places.into_iter().zip(retry_held(write, &going, &jobs, at).await?) {
        retried[n] = done;
    }
    Ok(retried)
}

/// Puts the job of one letter back.
pub(in crate::postgres) async fn retry(
    write: &mut Write,
    letter: LetterId,
    with: &Override,
    at: Time,
) -> Result<Retried, StoreError> {
    let retried = retry_all(write, &[Asked { letter, with }], at).await?.pop();
    retried.ok_or_else(|| StoreError::Corrupt(format!("letter {letter} was put back without an answer")))
}

/// A job that goes back.
struct Return {
    version: u64,
    after: Packed,
}

/// Puts the jobs of letters back that are locked with them, and that the machine lets go.
pub(in crate::postgres) async fn retry_held(
    write: &mut Write,
    asked: &[(Asked<'_>, Standing)],
    jobs: &Jobs,
    at: Time,
) -> Result<Vec<Retried>, StoreError> {
    let ids: Vec<JobId> = asked.iter().filter_map(|(one, _)| jobs.get(&one.letter).copied()).collect();
    let mut rows = rows_of(&write.conn, &ids).await?;
    let mut retried = Vec::with_capacity(asked.len());
    let mut returns = Vec::with_capacity(asked.len());
    let mut moves: BTreeMap<(Status, Status), Vec<LetterId>> = BTreeMap::new();
    for (Asked { letter, with }, standing) in asked {
        let going = match jobs.get(letter) {
            Some(id) => back(&write.conn, (*id, *letter), rows.remove(id), with, at).await?,
            None => None,
        };
        // A job that does not stand as its letter says is out already: nobody puts a second one beside it.
        let Some(going) = going else {
            retried.push(Retried { decided: Decided::NoWayBack, job: None });
            continue;
        };
        moves.entry((standing.status, status_after(*standing)?)).or_default().push(*letter);
        retried.push(Retried { decided: Decided::Done, job: Some(going.after.job.id) });
        returns.push(going);
    }
    for ((from, to), letters) in moves {
        move_all(write, &letters, from, to, Mark::Sends, at).await?;
    }
    let conn = &write.conn;
    let rows: Vec<(&Packed, u64)> = returns.iter().map(|one| (&one.after, one.version)).collect();
    let put = row::put_all(conn, &rows).await?;
    for (Return { after, .. }, before) in returns.iter().zip(put) {
        match before {
            None => return Err(moved(after.job.id)),
            Some(None) => {}
            Some(Some((queue, state))) => write.depths.add(&queue, state, -1, at),
        }
        write.depths.add(&after.job.queue, after.job.state, 1, at);
    }
    Ok(retried)
}

fn status_after(standing: Standing) -> Result<Status, StoreError> {
    match standing.after(Action::Redrive) {
        Ok(Next::Moves { status, .. }) => Ok(status),
        Ok(Next::NewLetter) | Err(Refused { .. }) => {
            Err(StoreError::Corrupt(format!("a letter that is {standing} was to be put back")))
        }
    }
}

/// The rows of jobs.
async fn rows_of(conn: &Conn, ids: &[JobId]) -> Result<HashMap<JobId, StoredJob>, StoreError> {
    let mut rows = HashMap::with_capacity(ids.len());
    for stored in row::read_all(conn, ids).await? {
        rows.insert(stored.job.id, stored);
    }
    Ok(rows)
}

/// The job of a letter out of the dead letter, made from the letter if it has no row; nothing if it is not in there.
async fn back(
    conn: &Conn,
    (id, letter): (JobId, LetterId),
    stored: Option<StoredJob>,
    with: &Override,
    at: Time,
) -> Result<Option<Return>, StoreError> {
    let stored = match stored {
        Some(stored) => Some(stored),
        None => last_life(conn, id, letter).await?.map(|job| StoredJob { job, version: 0 }),
    };
    let Some(StoredJob { job, version }) = stored else { return Ok(None) };
    let Some(after) = retried(job, with, at) else { return Ok(None) };
    Ok(Some(Return { version, after: Packed::new(after)? }))
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
