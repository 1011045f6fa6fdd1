//! One group of requests and the transaction they share. One that fails is left out and the others are done again
//! without it, as in the embedded store.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join;
use lazaret_core::limits;
use tokio::sync::mpsc;

use super::super::changes::CHANNEL;
use super::super::conn::{AnswerLimit, Conn};
use super::super::failure::{Kind, kind_of};
use super::super::jobs::queues;
use super::super::{events, insert};
use super::request::{Capture, Request, Work, broken};
use super::{Company, Surroundings, Write};
use crate::StoreError;
use crate::failure::FailurePoint;

pub(super) struct Group {
    captures: Vec<Capture>,
    requests: Vec<Box<dyn Request>>,
    letters: usize,
    company: Company,
    /// Captures are stored one by one, to find the one that fails.
    apart: bool,
}

/// Whoever writes holds this in common; who must be alone waits for all of them. Taken first, so nobody who holds it
/// waits for one who is alone.
const GATE: &str = "hashtextextended('lazaret writers', 0)";

impl Group {
    pub fn new(first: Work) -> Group {
        let company = first.company();
        let mut group =
            Group { captures: Vec::new(), requests: Vec::new(), letters: 0, company, apart: false };
        group.add(first);
        group
    }

    fn add(&mut self, work: Work) {
        self.letters += work.letters();
        match work {
            Work::Capture(capture) => self.captures.push(capture),
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
        self.captures.len() + self.requests.len()
    }

    /// What failed by itself, apart from the commit.
    pub fn failures(&self) -> impl Iterator<Item = &StoreError> {
        let captures = self.captures.iter().filter_map(Capture::failure);
        captures.chain(self.requests.iter().filter_map(|request| request.failure()))
    }

    pub fn answer(self, commit: Result<(), &StoreError>) {
        for capture in self.captures {
            capture.answer(commit);
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
        let mut captures: Vec<&mut Capture> =
            self.captures.iter_mut().filter(|capture| capture.failure().is_none()).collect();
        let step = if self.apart { 1 } else { captures.len().max(1) };
        for together in captures.chunks_mut(step) {
            let batches: Vec<&[_]> = together.iter().map(|capture| capture.batch.as_slice()).collect();
            let stored = AssertUnwindSafe(insert::insert(write, &batches)).catch_unwind().await;
            match stored.unwrap_or_else(|_| Err(broken())) {
                Ok(receipts) => {
                    for (capture, receipts) in together.iter_mut().zip(receipts) {
                        capture.result = Some(Ok(receipts));
                    }
                }
                Err(error) if is_of_all(&error) => return Err(error),
                Err(error) => {
                    fail(together, error, &mut self.apart);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A failure of several batches is that of one of them: they are tried apart. A single one first goes without what was
/// taken out of it for search, because that is what PostgreSQL may not like, and is never a reason to refuse a letter.
fn fail(together: &mut [&mut Capture], error: StoreError, apart: &mut bool) {
    match together {
        [alone] if kind_of(&error) == Kind::Value && alone.batch.iter().any(|one| !one.is_bare()) => {
            tracing::warn!(%error, "PostgreSQL does not take what was extracted from a letter, it goes without");
            alone.batch.iter().for_each(insert::Incoming::make_bare);
        }
        [alone] => alone.result = Some(Err(error)),
        _ => *apart = true,
    }
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
