//! The writer of one instance: takes whatever is waiting into one transaction, commits, then answers everyone.
//!
//! There are three lanes, so that capture never waits for long work, nor a run for either. Other instances write at the
//! same time: what is contended is locked in one order (letters, fingerprints, redrives, holds, counters, flows,
//! incidents, queues, positions), and a deadlock that happens all the same does the group again. Nobody is answered before the
//! commit.

mod group;
mod request;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::letter::Receipt;
use lazaret_core::limits;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::changes::Changes;
use super::conn::{Conn, Connections};
use super::counters::Tally;
use super::events::Told;
use super::holds;
use super::insert::Incoming;
use super::jobs::NewJobs;
use super::jobs::change::JobMove;
use super::jobs::queues::Depths;
use super::opening::Timeouts;
use super::redrives::Outcomes;
use crate::StoreError;
use crate::entropy::Entropy;
use crate::failure::Failures;
use crate::health::WriteHealth;
use crate::job::Changed;
use crate::moves::Committed;
use group::Group;
use request::{Queued, Request, Waiting, Work};

/// What a request works with: the open transaction, and what is written once at its end.
pub(crate) struct Write {
    pub(in crate::postgres) conn: Conn,
    pub(in crate::postgres) entropy: Arc<Entropy>,
    pub(in crate::postgres) failures: Arc<Failures>,
    /// What became of letters that redrives have out, and letters that were put back without a plan.
    pub(in crate::postgres) outcomes: Outcomes,
    /// Letters that came under holds and left them.
    pub(in crate::postgres) holds: holds::Totals,
    /// Counter changes of the whole transaction.
    pub(in crate::postgres) tally: Tally,
    /// Changes to what queues hold.
    pub(in crate::postgres) depths: Depths,
    /// Events, audit entries and lives that get their positions at the end.
    pub(in crate::postgres) told: Told,
}

/// What the lanes share.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub lanes: Connections,
    pub timeouts: Timeouts,
    pub entropy: Arc<Entropy>,
    pub failures: Arc<Failures>,
    pub changes: Arc<Changes>,
    pub committed: Arc<Committed>,
    pub health: Arc<WriteHealth>,
}

#[derive(Debug)]
pub(super) struct Writer {
    quick: Lane,
    long: Lane,
    runs: Lane,
}

#[derive(Debug)]
struct Lane {
    queue: Mutex<Option<mpsc::Sender<Work>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(around: &Surroundings) -> Writer {
        let Timeouts { quick_write, write, .. } = around.timeouts;
        let lane = |statement| Lane::start(around.clone(), statement);
        Writer { quick: lane(quick_write), long: lane(write), runs: lane(write) }
    }

    /// Captures a batch, together with all batches that wait for the same commit.
    pub async fn capture(&self, batch: Arc<Vec<Incoming>>) -> Result<Vec<Receipt>, StoreError> {
        let (capture, result) = Queued::new(batch);
        self.quick.send(Work::Capture(capture))?;
        result.await.map_err(|_| closed())?
    }

    /// Enqueues new jobs, together with all others that wait for the same commit.
    pub async fn enqueue(&self, jobs: NewJobs) -> Result<Result<(), JobId>, StoreError> {
        let (enqueue, result) = Queued::new(jobs);
        self.quick.send(Work::Enqueue(enqueue))?;
        result.await.map_err(|_| closed())?
    }

    /// Moves a job, together with all others that wait for the same commit.
    pub async fn change(&self, change: Arc<JobMove>) -> Result<Changed, StoreError> {
        let (change, result) = Queued::new(change);
        self.quick.send(Work::Change(change))?;
        result.await.map_err(|_| closed())?
    }

    /// Runs `work` in the next commit and returns its result after it. `letters` is how many letters it touches. It may
    /// be run more than once, and must change nothing outside of the transaction.
    pub async fn write<I, T, F>(&self, letters: usize, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.quick.write(Weight { letters, of: None }, Company::Welcome, input, work).await
    }

    /// Runs work that moves one letter: the requests of a commit go in the order of their letters, so that two
    /// instances never wait for each other in a circle.
    pub async fn write_of<I, T, F>(&self, letter: LetterId, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.quick.write(Weight { letters: 1, of: Some(letter) }, Company::Welcome, input, work).await
    }

    /// Runs work that takes long: capture goes on beside it.
    pub async fn write_long<I, T, F>(&self, letters: usize, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.long.write(Weight { letters, of: None }, Company::Welcome, input, work).await
    }

    /// Runs long work in a transaction of its own: for what takes a lock before it comes to letters.
    pub async fn write_apart<I, T, F>(&self, letters: usize, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.long.write(Weight { letters, of: None }, Company::Apart, input, work).await
    }

    /// Runs work with nobody else writing meanwhile, in any instance: for what moves fingerprints between incidents, and
    /// for holds that letters come under as they are stored.
    pub async fn write_alone<I, T, F>(&self, letters: usize, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.long.write(Weight { letters, of: None }, Company::Alone, input, work).await
    }

    /// Runs what redrives do: each has a transaction to itself, because it locks from a run down to incidents,
    /// and whatever came behind it in the same one would begin again at letters.
    pub async fn write_run<I, T, F>(&self, letters: usize, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        self.runs.write(Weight { letters, of: None }, Company::Apart, input, work).await
    }

    /// Finishes what is waiting and ends the lanes.
    pub async fn close(&self) {
        for lane in [&self.quick, &self.long, &self.runs] {
            lane.close().await;
        }
    }
}

/// How many letters a request touches, and which one if it is one.
#[derive(Clone, Copy)]
struct Weight {
    letters: usize,
    of: Option<LetterId>,
}

/// Whether others may write while a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Company {
    Welcome,
    /// In other transactions.
    Apart,
    Alone,
}

impl Lane {
    /// Starts a lane in whose transactions one statement may take as long as `statement`.
    fn start(around: Surroundings, statement: Duration) -> Lane {
        let (queue, waiting) = mpsc::channel(limits::WRITER_QUEUE_MAX);
        // Dropping the store drops the queue: the task finishes what is in it and ends by itself.
        let task = tokio::spawn(run(around, statement, waiting));
        Lane { queue: Mutex::new(Some(queue)), task: Mutex::new(Some(task)) }
    }

    async fn write<I, T, F>(
        &self,
        weight: Weight,
        company: Company,
        input: I,
        work: F,
    ) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let request: Box<dyn Request> =
            Box::new(Waiting { input, work, result: None, answer, weight, company });
        self.send(Work::Request(request))?;
        result.await.map_err(|_| closed())?
    }

    fn send(&self, work: Work) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(|broken| broken.into_inner());
        queue.as_ref().ok_or_else(closed)?.try_send(work).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => closed(),
        })
    }

    async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(|broken| broken.into_inner()).take());
        let task = self.task.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("a writer ended by a panic");
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { doing: "shutting down", source: None }
}

async fn run(around: Surroundings, statement: Duration, mut waiting: mpsc::Receiver<Work>) {
    let mut first = None;
    loop {
        let next = match first.take() {
            Some(work) => work,
            None => match waiting.recv().await {
                Some(work) => work,
                None => return,
            },
        };
        let mut group = Group::new(next);
        first = group.fill(&mut waiting);
        let commit = group.commit(&around, statement).await;
        match &commit {
            Ok(newest_event) => around.changes.committed(*newest_event),
            Err(error) => {
                tracing::error!(%error, requests = group.len(), "a commit failed, its requests were told");
            }
        }
        let failures = group.failures().chain(commit.as_ref().err());
        failures.for_each(|error| around.health.note(error));
        group.answer(commit.as_ref().map(|_| ()));
    }
}
