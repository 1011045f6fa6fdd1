//! The one writer: takes whatever is waiting into one transaction, commits, then answers everyone.
//!
//! A request that fails leaves no trace in the commit of the others: they are done again without it.
//! Nobody is answered before the commit; a commit that fails fails all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lazaret_core::limits;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::counters::Tally;
use super::holds::standing::StandingHolds;
use super::keys::{self, Filing, Keys};
use super::listing::{self, Listing};
use super::numbers::Numbers;
use super::redrives::doors::Hall;
use crate::StoreError;
use crate::entropy::Entropy;
use crate::failure::{FailurePoint, Failures};
use crate::health::WriteHealth;
use crate::moves::Committed;

/// The handle by which requests reach the writer's thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Request>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a request works with: the open transaction and the tally it adds to. The writer's thread owns one for its whole
/// life; through `&mut` it is `Send`, which the shared operations need.
pub(crate) struct Write {
    pub(in crate::sqlite) conn: Connection,
    pub(in crate::sqlite) entropy: Arc<Entropy>,
    pub(in crate::sqlite) failures: Arc<Failures>,
    pub(in crate::sqlite) numbers: Arc<Numbers>,
    pub(in crate::sqlite) standing: Arc<StandingHolds>,
    pub(in crate::sqlite) listing: Arc<Listing>,
    /// The last letter that the present transaction listed.
    pub(in crate::sqlite) listed: Option<i64>,
    pub(in crate::sqlite) keys: Arc<Keys>,
    pub(in crate::sqlite) filing: Option<Filing>,
    /// Counter changes of the present request, written once per commit.
    pub(in crate::sqlite) tally: Tally,
    /// The redrive that the letters of the present request go out by, if they are many.
    pub(in crate::sqlite) hall: Option<Hall>,
}

/// What the writer's thread owns besides its connection.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub entropy: Arc<Entropy>,
    pub failures: Arc<Failures>,
    pub numbers: Arc<Numbers>,
    pub standing: Arc<StandingHolds>,
    pub listing: Arc<Listing>,
    pub keys: Arc<Keys>,
    pub changes: Arc<watch::Sender<u64>>,
    pub committed: Arc<Committed>,
    pub health: Arc<WriteHealth>,
}

trait Request: Send {
    /// Does the work, again if need be, and remembers its result; says whether it worked.
    fn run(&mut self, write: &mut Write) -> bool;
    fn failure(&self) -> Option<&StoreError>;
    fn answer(self: Box<Self>, commit: Result<(), &StoreError>);
    fn letters(&self) -> usize;
}

struct Waiting<T, F> {
    work: F,
    result: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
    letters: usize,
}

impl<T, F> Request for Waiting<T, F>
where
    T: Send,
    F: FnMut(&mut Write) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, write: &mut Write) -> bool {
        // A panic in one request must not take the writer, and with it the store, away from all others.
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(write)))
            .unwrap_or(Err(StoreError::Unavailable { doing: "carrying out a write", source: None }));
        let worked = result.is_ok();
        self.result = Some(result);
        worked
    }

    fn answer(self: Box<Self>, commit: Result<(), &StoreError>) {
        let result = match (commit, self.result) {
            (_, Some(Err(error))) => Err(error),
            (Ok(()), Some(Ok(value))) => Ok(value),
            (Ok(()), None) => Err(StoreError::Unavailable { doing: "carrying out a write", source: None }),
            (Err(error), _) => Err(error.again()),
        };
        // The caller may have gone away; what it asked for stands all the same.
        self.answer.send(result).ok();
    }

    fn failure(&self) -> Option<&StoreError> {
        self.result.as_ref().and_then(|result| result.as_ref().err())
    }

    fn letters(&self) -> usize {
        self.letters
    }
}

impl Writer {
    pub fn start(conn: Connection, around: Surroundings) -> Result<Writer, StoreError> {
        let (queue, waiting) = mpsc::channel(limits::WRITER_QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("lazaret-writer".into())
            .spawn(move || run(conn, waiting, &around))
            .map_err(|error| StoreError::Unavailable {
                doing: "starting the writer",
                source: Some(Box::new(error)),
            })?;
        Ok(Writer { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` in the next commit and returns its result after it. `letters` is how many letters it touches.
    pub async fn write<T, F>(&self, letters: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Write) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let request = Box::new(Waiting { work, result: None, answer, letters });
        let closed = || StoreError::Unavailable { doing: "shutting down", source: None };
        let queue = {
            let guard = self.queue.lock().unwrap_or_else(|broken| broken.into_inner());
            guard.clone().ok_or_else(closed)?
        };
        queue.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => closed(),
        })?;
        drop(queue);
        result.await.map_err(|_| closed())?
    }

    /// Finishes what is waiting and ends the thread. Blocks.
    pub fn close(&self) {
        let queue = self.queue.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        drop(queue);
        let thread = self.thread.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writer ended by a panic");
        }
    }
}

/// A store that is dropped without being closed still finishes, before the lock on its folder goes.
impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(conn: Connection, mut waiting: mpsc::Receiver<Box<dyn Request>>, around: &Surroundings) {
    let mut write = Write {
        conn,
        entropy: Arc::clone(&around.entropy),
        failures: Arc::clone(&around.failures),
        numbers: Arc::clone(&around.numbers),
        standing: Arc::clone(&around.standing),
        listing: Arc::clone(&around.listing),
        listed: None,
        keys: Arc::clone(&around.keys),
        filing: None,
        tally: Tally::default(),
        hall: None,
    };
    let mut last = 1;
    while let Some(first) = waiting.blocking_recv() {
        let mut taken = vec![first];
        gather(&mut taken, &mut waiting, last);
        // Whatever breaks here must not end the thread: with it the store would be gone for everyone.
        let committing = AssertUnwindSafe(|| commit_group(&mut write, &mut taken, &mut waiting, around));
        let commit = catch_unwind(committing)
            .unwrap_or(Err(StoreError::Unavailable { doing: "committing", source: None }));
        match &commit {
            // Listing alone shows nobody anything new.
            Ok(()) if taken.iter().all(|request| request.letters() == 0) => {}
            Ok(()) => around.changes.send_modify(|count| *count += 1),
            Err(error) => {
                tracing::error!(error = %error, requests = taken.len(), "a commit failed, its requests were told");
                if !write.conn.is_autocommit()
                    && let Err(error) = write.conn.execute_batch("rollback")
                {
                    tracing::error!(%error, "a failed transaction could not be rolled back");
                }
            }
        }
        last = taken.len();
        let failures = taken.iter().filter_map(|request| request.failure()).chain(commit.as_ref().err());
        failures.for_each(|error| around.health.note(error));
        for request in taken {
            request.answer(commit.as_ref().copied());
        }
    }
    // A clean end leaves one file, which is what people copy.
    if let Err(error) = write.conn.execute_batch("pragma wal_checkpoint(truncate)") {
        tracing::warn!(%error, "the write-ahead log could not be folded in at the end");
    }
}

/// How long a group waits for as many requests as the last one had, and in which steps it looks.
const GATHER: Duration = Duration::from_micros(300);
const GATHER_STEP: Duration = Duration::from_micros(50);

/// Waits a little for as many requests as shared the last commit. Those who were answered then are about to ask again, and
/// a commit of few writes almost as many pages as one of many; one that was alone is not kept waiting.
fn gather(taken: &mut Vec<Box<dyn Request>>, waiting: &mut mpsc::Receiver<Box<dyn Request>>, wanted: usize) {
    let started = Instant::now();
    while taken.len() < wanted {
        match waiting.try_recv() {
            Ok(request) => taken.push(request),
            Err(mpsc::error::TryRecvError::Disconnected) => return,
            Err(mpsc::error::TryRecvError::Empty) if started.elapsed() < GATHER => {
                std::thread::sleep(GATHER_STEP);
            }
            Err(mpsc::error::TryRecvError::Empty) => return,
        }
    }
}

/// Commits the requests in `taken`, and whatever else is waiting by then, in one transaction. One that fails is left
/// out and the others are done again without it: that is rare, and costs nothing when it does not happen, whereas a
/// savepoint for each request would copy every page it touches and empty the message index's buffer each time.
fn commit_group(
    write: &mut Write,
    taken: &mut Vec<Box<dyn Request>>,
    waiting: &mut mpsc::Receiver<Box<dyn Request>>,
    around: &Surroundings,
) -> Result<(), StoreError> {
    loop {
        around.failures.at(FailurePoint::Begin)?;
        write.conn.prepare_cached("begin immediate")?.execute([])?;
        around.standing.begin();
        write.listed = None;
        keys::begin(write);
        if let Some(mut tally) = run_all(write, taken, waiting) {
            let moves = tally.take_moves();
            write.forget_request();
            tally.flush(write)?;
            listing::catch_up_if_due(write)?;
            keys::file(write, taken.iter().map(|request| request.letters()).sum())?;
            around.failures.at(FailurePoint::Commit)?;
            write.conn.prepare_cached("commit")?.execute([])?;
            keys::committed(write);
            if let Some(listed) = write.listed {
                around.listing.reach(listed);
            }
            around.committed.add(moves);
            return Ok(());
        }
        // Some failures, a full disk among them, have ended the transaction already.
        if !write.conn.is_autocommit() {
            write.conn.execute_batch("rollback")?;
        }
    }
}

impl Write {
    /// Drops what a request left behind, be it done, failed or broken off by a panic.
    fn forget_request(&mut self) {
        self.tally = Tally::default();
        self.hall = None;
    }
}

/// Runs every request that has not failed; nothing if one fails now.
fn run_all(
    write: &mut Write,
    taken: &mut Vec<Box<dyn Request>>,
    waiting: &mut mpsc::Receiver<Box<dyn Request>>,
) -> Option<Tally> {
    let mut group = Tally::default();
    let mut letters = 0;
    let mut next = 0;
    loop {
        while let Some(request) = taken.get_mut(next) {
            next += 1;
            if request.failure().is_some() {
                continue;
            }
            letters += request.letters();
            write.forget_request();
            if !request.run(write) {
                return None;
            }
            group.add(std::mem::take(&mut write.tally));
        }
        if letters >= limits::COMMIT_LETTERS_MAX {
            return Some(group);
        }
        match waiting.try_recv() {
            Ok(request) => taken.push(request),
            Err(_) => return Some(group),
        }
    }
}
