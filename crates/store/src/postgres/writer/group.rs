//! One group of requests and the transaction they share. One that fails is left out and the others are done again
//! without it, as in the embedded store.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join};
use lazaret_core::id::JobId;
use lazaret_core::letter::Receipt;
use lazaret_core::limits;
use tokio::sync::mpsc;

use super::super::changes::CHANNEL;
use super::super::conn::{AnswerLimit, Conn};
use super::super::events;
use super::super::failure::{Kind, kind_of};
use super::super::insert::{self, Incoming};
use super::super::jobs::change::{JobMove, change_all};
use super::super::jobs::{self, NewJobs, queues};
use super::request::{Queued, Request, Work, broken};
use super::{Company, Surroundings, Write};
use crate::StoreError;
use crate::failure::FailurePoint;
use crate::job::Changed;

pub(super) struct Group {
    captures: Vec<Queued<Arc<Vec<Incoming>>, Vec<Receipt>>>,
    enqueues: Vec<Queued<NewJobs, Result<(), JobId>>>,
    changes: Vec<Queued<Arc<JobMove>, Changed>>,
    requests: Vec<Box<dyn Request>>,
    letters: usize,
    company: Company,
    /// What is otherwise written together is written one by one, to find the request that fails.
    apart: bool,
}

/// Whoever writes holds this in common; who must be alone waits for all of them. Taken first, so nobody who holds it
/// waits for one who is alone.
const GATE: &str = "hashtextextended('lazaret writers', 0)";

impl Group {
    pub fn new(first: Work) -> Group {
        let company = first.company();
        let mut group = Group {
            captures: Vec::new(),
            enqueues: Vec::new(),
            changes: Vec::new(),
            requests: Vec::new(),
            letters: 0,
            company,
            apart: false,
        };
        group.add(first);
        group
    }

    fn add(&mut self, work: Work) {
        self.letters += work.letters();
        match work {
            Work::Capture(capture) => self.captures.push(capture),
            Work::Enqueue(enqueue) => self.enqueues.push(enqueue),
            Work::Change(change) => self.changes.push(change),
            Work::Request(request) => self.requests.push(request),
        }
    }

    /// Takes whatever is waiting by now; returns what has to begin the next group.
    pub fn fill(&mut self, waiting: &mut mpsc::Receiver<Work>) -> Option<Work> {
        while self.company == Company::Welcome && self.letters < limits::COMMIT_LETTERS_MAX {
            let next = waiting.try_recv().ok()?;
            match next.company() {
                Company::Welcome => {}
                Company::Apart | Company::Alone => return Some(next),
            }
            self.add(next);
        }
        None
    }

    pub fn len(&self) -> usize {
        self.captures.len() + self.enqueues.len() + self.changes.len() + self.requests.len()
    }

    /// What failed by itself, apart from the commit.
    pub fn failures(&self) -> impl Iterator<Item = &StoreError> {
        let captures = self.captures.iter().filter_map(Queued::failure);
        let jobs = self.enqueues.iter().filter_map(Queued::failure);
        let jobs = jobs.chain(self.changes.iter().filter_map(Queued::failure));
        captures.chain(jobs).chain(self.requests.iter().filter_map(|request| request.failure()))
    }

    pub fn answer(self, commit: Result<(), &StoreError>) {
        for capture in self.captures {
            capture.answer(commit);
        }
        for enqueue in self.enqueues {
            enqueue.answer(commit);
        }
        for change in self.changes {
            change.answer(commit);
        }
        for request in self.requests {
            request.answer(commit);
        }
    }

    /// Commits what does not fail; returns the newest position of an event, if there was one. One statement may take as
    /// long as `statement`.
    pub async fn commit(
        &mut self,
        around: &Surroundings,
        statement: Duration,
    ) -> Result<Option<u64>, StoreError> {
        let limit = AnswerLimit::of(statement);
        let mut again = 0;
        // Stable: what is asked of one letter stays in its order.
        self.requests.sort_by_key(|request| request.of());
        loop {
            let ended = AssertUnwindSafe(self.try_commit(around, statement, limit)).catch_unwind().await;
            match ended.unwrap_or_else(|_| Ended::Failed(broken())) {
                Ended::Committed(newest) => return Ok(newest),
                Ended::WithoutOne => {}
                Ended::Undone(_) if again < limits::WRITE_AGAIN_MAX && !limit.is_over() => {
                    again += 1;
                    tokio::time::sleep(Duration::from_millis(again as u64 * 5)).await;
                }
                Ended::Undone(error) | Ended::Failed(error) => return Err(error),
            }
        }
    }

    async fn try_commit(&mut self, around: &Surroundings, statement: Duration, limit: AnswerLimit) -> Ended {
        if let Err(error) = around.failures.at(FailurePoint::Begin) {
            return Ended::Failed(error);
        }
        let mut write = match begin(around, self.company, statement, limit).await {
            Ok(write) => write,
            Err(error) => return Ended::undone(error),
        };
        match self.run_all(&mut write).await {
            Ok(true) => {}
            Ok(false) => {
                roll_back(write.conn).await;
                return Ended::WithoutOne;
            }
            Err(error) => return abandon(write.conn, error).await,
        }
        let moves = write.tally.take_moves();
        let newest = match flush(&mut write).await {
            Ok(newest) => newest,
            Err(error) => return abandon(write.conn, error).await,
        };
        if let Err(error) = around.failures.at(FailurePoint::Commit) {
            roll_back(write.conn).await;
            return Ended::Failed(error);
        }
        let end = format!("select pg_notify('{CHANNEL}', '{}'); commit", around.changes.instance());
        match write.conn.batch(&end).await {
            Ok(()) => {
                write.conn.give_back();
                around.committed.add(moves);
                Ended::Committed(newest)
            }
            // PostgreSQL said no: nothing is kept.
            Err(error) if kind_of(&error) == Kind::Again => Ended::Undone(error),
            // It may have been committed and the answer lost: only the caller can tell by asking again.
            Err(error) => Ended::Failed(error),
        }
    }

    /// Runs every request that has not failed; false if one fails now, which is remembered. The error is that of all.
    async fn run_all(&mut self, write: &mut Write) -> Result<bool, StoreError> {
        for request in self.requests.iter_mut().filter(|request| request.failure().is_none()) {
            if let Err(error) = request.run(write).await {
                if is_of_all(&error) {
                    return Err(error);
                }
                request.fail(error);
                return Ok(false);
            }
        }
        let apart = &mut self.apart;
        Ok(run_together(write, &mut self.enqueues, apart, enqueue_together, |_, _| false).await?
            && run_together(write, &mut self.changes, apart, change_together, mend_change).await?
            && run_together(write, &mut self.captures, apart, capture_together, mend_capture).await?)
    }
}

/// Writes requests of one kind by a few statements; the results come in their order.
type Together<I, T> = for<'a> fn(&'a mut Write, &'a [&'a I]) -> BoxFuture<'a, Result<Vec<T>, StoreError>>;

/// Writes all requests of a kind that have not failed; false if one fails now, or if they have to be tried one by one to
/// find out which. `mend` changes a request that failed by itself so that it may be tried again.
async fn run_together<I: Sync, T: Send>(
    write: &mut Write,
    queue: &mut [Queued<I, T>],
    apart: &mut bool,
    run: Together<I, T>,
    mend: fn(&I, &StoreError) -> bool,
) -> Result<bool, StoreError> {
    let mut open: Vec<&mut Queued<I, T>> = queue.iter_mut().filter(|one| one.failure().is_none()).collect();
    let step = if *apart { 1 } else { open.len().max(1) };
    for together in open.chunks_mut(step) {
        let done = {
            let inputs: Vec<&I> = together.iter().map(|one| &one.input).collect();
            AssertUnwindSafe(run(write, &inputs)).catch_unwind().await.unwrap_or_else(|_| Err(broken()))
        };
        match done {
            Ok(results) => {
                for (one, result) in together.iter_mut().zip(results) {
                    one.result = Some(Ok(result));
                }
            }
            Err(error) if is_of_all(&error) => return Err(error),
            Err(error) => {
                match together {
                    [alone] if mend(&alone.input, &error) => {}
                    [alone] => alone.result = Some(Err(error)),
                    _ => *apart = true,
                }
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn capture_together<'a>(
    write: &'a mut Write,
    batches: &'a [&'a Arc<Vec<Incoming>>],
) -> BoxFuture<'a, Result<Vec<Vec<Receipt>>, StoreError>> {
    Box::pin(async move {
        let batches: Vec<&[Incoming]> = batches.iter().map(|batch| batch.as_slice()).collect();
        insert::insert(write, &batches).await
    })
}

fn enqueue_together<'a>(
    write: &'a mut Write,
    asked: &'a [&'a NewJobs],
) -> BoxFuture<'a, Result<Vec<Result<(), JobId>>, StoreError>> {
    Box::pin(jobs::enqueue_all(write, asked))
}

fn change_together<'a>(
    write: &'a mut Write,
    changes: &'a [&'a Arc<JobMove>],
) -> BoxFuture<'a, Result<Vec<Changed>, StoreError>> {
    Box::pin(async move {
        let changes: Vec<&JobMove> = changes.iter().map(|change| change.as_ref()).collect();
        change_all(write, &changes).await
    })
}

/// Leaves out what was taken out of letters for search, if PostgreSQL may have refused that: it is never a reason to refuse
/// a letter.
fn mend<'a>(letters: impl Iterator<Item = &'a Incoming> + Clone, error: &StoreError) -> bool {
    if kind_of(error) != Kind::Value || letters.clone().all(Incoming::is_bare) {
        return false;
    }
    tracing::warn!(%error, "PostgreSQL does not take what was extracted from a letter, it goes without");
    letters.for_each(Incoming::make_bare);
    true
}

fn mend_capture(batch: &Arc<Vec<Incoming>>, error: &StoreError) -> bool {
    mend(batch.iter(), error)
}

fn mend_change(change: &Arc<JobMove>, error: &StoreError) -> bool {
    mend(change.dies().into_iter(), error)
}

/// How one try to commit ended.
enum Ended {
    Committed(Option<u64>),
    /// One request failed and is left out from now on.
    WithoutOne,
    /// Nothing is kept, and the same again may work.
    Undone(StoreError),
    Failed(StoreError),
}

impl Ended {
    fn undone(error: StoreError) -> Ended {
        if is_of_all(&error) { Ended::Undone(error) } else { Ended::Failed(error) }
    }
}

/// Whether a failure has nothing to do with the request that met it.
fn is_of_all(error: &StoreError) -> bool {
    match kind_of(error) {
        Kind::Lost | Kind::Silent | Kind::Again => true,
        Kind::Value | Kind::NoMonth | Kind::Late | Kind::Untrusted | Kind::Other => false,
    }
}

async fn begin(
    around: &Surroundings,
    company: Company,
    statement: Duration,
    limit: AnswerLimit,
) -> Result<Write, StoreError> {
    let conn = Conn::of(&around.lanes).await?.within(limit);
    let gate = match company {
        Company::Welcome | Company::Apart => "pg_advisory_xact_lock_shared",
        Company::Alone => "pg_advisory_xact_lock",
    };
    let statement = statement.as_millis();
    conn.batch(&format!("begin; set local statement_timeout to {statement}; select {gate}({GATE})")).await?;
    Ok(Write {
        conn,
        entropy: Arc::clone(&around.entropy),
        failures: Arc::clone(&around.failures),
        outcomes: Default::default(),
        holds: Default::default(),
        tally: Default::default(),
        depths: Default::default(),
        told: Default::default(),
    })
}

/// Writes what was only added up so far. Positions come last: whoever gets one holds up all others until the commit.
async fn flush(write: &mut Write) -> Result<Option<u64>, StoreError> {
    std::mem::take(&mut write.outcomes).flush(write).await?;
    std::mem::take(&mut write.holds).flush(&write.conn).await?;
    std::mem::take(&mut write.tally).flush(write).await?;
    let (depths, told) = (std::mem::take(&mut write.depths), std::mem::take(&mut write.told));
    if depths.is_empty() {
        return events::flush(&write.conn, told).await;
    }
    // Prepared first: then the queues are sent, and locked, before the positions.
    write.conn.prepare(queues::CHANGE).await?;
    let ((), newest) = try_join(depths.flush(&write.conn), events::flush(&write.conn, told)).await?;
    Ok(newest)
}

async fn abandon(conn: Conn, error: StoreError) -> Ended {
    // A connection that is lost, or leads to a server that became read-only, is not used again.
    if !kind_of(&error).is_gone() {
        roll_back(conn).await;
    }
    Ended::undone(error)
}

/// A connection on which this fails is closed, which undoes the same.
async fn roll_back(conn: Conn) {
    if conn.batch("rollback").await.is_ok() {
        conn.give_back();
    }
}
