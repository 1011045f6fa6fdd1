//! The embedded store's writer: many requests share one commit, and none of them spoils it for the others.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;

use lazaret_core::class::ClassRules;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::letter::{Admitted, Captured, Outcome, admit};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::StatsOf;
use lazaret_store::{Numbers, Store, StoreError};
use rusqlite::Connection;

use crate::books;
use crate::rig::{at, captured, decision, dying};

/// An embedded store whose writer can be made to wait.
struct Desk {
    store: SqliteStore,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        Desk { store: SqliteStore::open(folder.path(), Mode::Real).unwrap(), folder }
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("lazaret.db")
    }

    /// Keeps the writer from beginning; whatever is asked for until `go` shares one commit.
    fn stop(&self) -> Connection {
        let other = Connection::open(self.database()).unwrap();
        other.execute_batch("begin immediate").unwrap();
        other
    }

    async fn insert(&self, event: String) -> Result<Outcome, StoreError> {
        let receipts = self.store.insert(vec![admitted(captured(&event), at(0))]).await?;
        Ok(receipts[0].outcome)
    }
}

fn go(other: Connection) {
    other.execute_batch("rollback").unwrap();
}

fn admitted(captured: Captured, at: Time) -> Admitted {
    let random = |part: u8| {
        let mut bytes = [part; 10];
        for (to, from) in bytes.iter_mut().zip(captured.message_id.bytes()) {
            *to ^= from;
        }
        bytes
    };
    let random = [random(1), random(2)];
    admit(captured, at, random, &ClassRules::default(), &FingerprintRules::default())
}

type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Asks for something without waiting: one poll brings it into the writer's queue. An answer at once is the error.
async fn poll_once<'a, T>(work: impl Future<Output = T> + 'a) -> Result<Asked<'a, T>, T> {
    let mut work: Asked<'a, T> = Box::pin(work);
    match std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        Poll::Pending => Ok(work),
        Poll::Ready(answer) => Err(answer),
    }
}

/// Asks for something that cannot be answered yet.
async fn start<'a, T>(work: impl Future<Output = T> + 'a) -> Asked<'a, T> {
    poll_once(work).await.unwrap_or_else(|_| panic!("the writer was to wait"))
}

#[tokio::test]
async fn requests_that_wait_together_share_one_commit() {
    let desk = Desk::new();
    let before = *desk.store.changes().borrow();
    let other = desk.stop();
    let mut asked = Vec::new();
    for n in 0..20 {
        asked.push(start(desk.insert(format!("e{}", n % 10))).await);
    }
    go(other);
    for (n, work) in asked.into_iter().enumerate() {
        let expected = if n < 10 { Outcome::Created } else { Outcome::Duplicate };
        assert_eq!(work.await.unwrap(), expected, "the same key twice in one commit is one letter");
    }
    assert_eq!(*desk.store.changes().borrow(), before + 1);
    books::agree(&desk.store).await;
}

#[tokio::test]
async fn a_failed_commit_fails_all_of_its_requests_and_keeps_nothing() {
    let desk = Desk::new();
    let old = desk.store.insert(vec![admitted(captured("old"), at(0))]).await.unwrap()[0].letter;
    let before = desk.store.dump().await.unwrap();
    let mut changes = desk.store.changes();
    changes.mark_unchanged();
    for failure in [Failure::DiskFull, Failure::ReadOnly, Failure::Unavailable] {
        let other = desk.stop();
        // Planned once and met by all: they share the commit.
        desk.store.failures().plan(FailurePoint::Commit, failure, 1);
        let decided = start(desk.store.decide(old, decision(Verb::Discard, at(1)))).await;
        let (one, two) = (start(desk.insert("e1".into())).await, start(desk.insert("e2".into())).await);
        go(other);
        assert_failed_by(failure, decided.await);
        assert_failed_by(failure, one.await);
        assert_failed_by(failure, two.await);
        assert_eq!(desk.store.dump().await.unwrap(), before, "{failure:?}");
        desk.store.failures().plan(FailurePoint::Begin, failure, 1);
        assert_failed_by(failure, desk.insert("e1".into()).await);
        assert_eq!(desk.store.dump().await.unwrap(), before, "{failure:?}");
    }
    assert!(!changes.has_changed().unwrap(), "nobody is woken for nothing");
    assert_eq!(desk.insert("e1".into()).await.unwrap(), Outcome::Created);
    books::agree(&desk.store).await;
}

fn assert_failed_by<T: std::fmt::Debug>(failure: Failure, result: Result<T, StoreError>) {
    let as_planned = match (failure, &result) {
        (Failure::DiskFull, Err(StoreError::Full)) => true,
        (Failure::ReadOnly, Err(StoreError::ReadOnly)) => true,
        (Failure::Unavailable | Failure::Panic, Err(StoreError::Unavailable { .. })) => true,
        (Failure::DiskFull | Failure::ReadOnly | Failure::Unavailable | Failure::Panic, _) => false,
    };
    assert!(as_planned, "{failure:?}: {result:?}");
}

#[tokio::test]
async fn a_request_that_fails_leaves_the_others_of_its_commit_alone() {
    for failure in [Failure::DiskFull, Failure::ReadOnly, Failure::Unavailable, Failure::Panic] {
        let desk = Desk::new();
        let old = desk.store.insert(vec![admitted(dying("old", at(-10)), at(0))]).await.unwrap()[0].letter;
        let other = desk.stop();
        desk.store.failures().plan(FailurePoint::InsertLetter, failure, 1);
        let first = start(desk.store.decide(old, decision(Verb::Resolve, at(1)))).await;
        // It moves a letter and its counters before it fails at the next one.
        let moved = vec![admitted(dying("old", at(5)), at(9)), admitted(captured("e1"), at(9))];
        let broken = start(desk.store.insert(moved)).await;
        let last = start(desk.insert("e2".into())).await;
        go(other);
        assert_eq!(first.await.unwrap(), Decided::Done);
        assert_failed_by(failure, broken.await);
        assert_eq!(last.await.unwrap(), Outcome::Created);
        let letter = desk.store.history(old).await.unwrap().unwrap().letter;
        assert_eq!((letter.status, letter.life), (Status::Resolved, 1), "{failure:?}");
        assert_eq!(desk.store.stats(StatsOf::All).await.unwrap().total, 2);
        books::agree(&desk.store).await;
        assert_eq!(desk.insert("e1".into()).await.unwrap(), Outcome::Created, "the writer lives");
    }
}

#[tokio::test]
async fn a_full_queue_asks_to_come_back_later() {
    let desk = Desk::new();
    let other = desk.stop();
    let mut asked: Vec<Asked<'_, _>> = Vec::new();
    let busy = loop {
        match poll_once(desk.insert(format!("e{}", asked.len()))).await {
            Ok(waiting) => asked.push(waiting),
            Err(answer) => break answer,
        }
    };
    assert!(matches!(busy, Err(StoreError::Busy)), "{busy:?}");
    // The writer has taken one from the queue, or has not yet.
    assert!((limits::WRITER_QUEUE_MAX..=limits::WRITER_QUEUE_MAX + 1).contains(&asked.len()));
    go(other);
    for work in asked {
        assert_eq!(work.await.unwrap(), Outcome::Created);
    }
    assert_eq!(desk.insert("later".into()).await.unwrap(), Outcome::Created);
    books::agree(&desk.store).await;
}

#[tokio::test]
async fn what_a_caller_asked_for_stands_though_it_went_away() {
    let desk = Desk::new();
    let other = desk.stop();
    drop(start(desk.insert("left".into())).await);
    let last = start(desk.insert("stayed".into())).await;
    go(other);
    last.await.unwrap();
    assert_eq!(desk.insert("left".into()).await.unwrap(), Outcome::Duplicate);
}

#[tokio::test]
async fn a_close_finishes_what_waits() {
    let desk = Desk::new();
    let other = desk.stop();
    let waiting = start(desk.insert("e1".into())).await;
    let closing = start(desk.store.close()).await;
    go(other);
    assert_eq!(waiting.await.unwrap(), Outcome::Created);
    closing.await.unwrap();
    assert!(!desk.folder.path().join("lazaret.db-wal").exists(), "a clean end leaves one file");
}
