//! Ends of jobs and new jobs that share a commit: written by a few statements, and each still gets an answer of its own.

use futures_util::future::join_all;
use lazaret_core::id::JobId;
use lazaret_core::job::state::JobState;
use lazaret_store::job::{Changed, JobChange, LetterEffect, SOURCE, StoredJob};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::testing::TestDatabase;
use lazaret_store::{JobStore, Store};

use crate::books;
use crate::jobs::{enqueue, failure, fetch, new, stored, told};
use crate::postgres_many::{connect, deadlocks, open, rig};
use crate::rig::{Rig, at};

const DYING: &str = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
const JOBS: usize = 60;

/// How a job ends that was fetched: every third one is acknowledged, the others die.
fn end(rig: &Rig, n: usize, before: &StoredJob) -> JobChange {
    let job = before.job.clone();
    let (after, letter) = match n.is_multiple_of(3) {
        true => (job.acked(None, at(500)).unwrap(), LetterEffect::Confirm { evidence: "acked" }),
        false => {
            let verdict = job.verdict(&failure("no"), 0.5);
            let failed = job.failed(failure("no"), verdict, at(500)).unwrap();
            let letter = rig.admit(failed.to_captured(SOURCE, None), at(500));
            (failed, LetterEffect::Die(Box::new(letter)))
        }
    };
    let before = (after.id, before.version);
    JobChange { before, after, letter, events: told("job.changed"), by: None, at: at(500) }
}

/// Jobs that a worker has, as they are stored.
async fn fetched(rig: &Rig) -> Vec<StoredJob> {
    let jobs = (0..JOBS).map(|_| new(rig, DYING, at(0))).collect();
    let ids: Vec<JobId> = enqueue(rig, jobs, at(0)).await;
    assert_eq!(fetch(rig, &["default"], JOBS, at(1)).await.len(), JOBS);
    let mut before = Vec::new();
    for id in ids {
        before.push(stored(rig, id).await);
    }
    before
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_group_is_answered_and_a_second_one_is_stale() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let before = fetched(&rig).await;
    let store = rig.store();
    // Both ends of a job wait for the same writer, most of them for the same commit.
    let ends = before.iter().enumerate().flat_map(|(n, one)| [end(&rig, n, one), end(&rig, n + 1, one)]);
    let answers = join_all(ends.map(|change| store.change_job(change))).await;
    let answers: Vec<Changed> = answers.into_iter().map(Result::unwrap).collect();
    let mut dead = 0;
    for (pair, before) in answers.chunks(2).zip(&before) {
        assert_eq!(pair.iter().filter(|one| **one == Changed::Done).count(), 1, "{pair:?}");
        assert_eq!(pair.iter().filter(|one| **one == Changed::Stale).count(), 1, "{pair:?}");
        let now = stored(&rig, before.job.id).await;
        assert_eq!(now.version, before.version + 1);
        assert_eq!(store.letter_of_job(now.job.id).await.unwrap().is_some(), now.job.in_dead_letter);
        dead += usize::from(now.job.in_dead_letter);
    }
    let queue = store.queues().await.unwrap().remove(0);
    assert_eq!(queue.counts[&JobState::Discarded], dead as u64);
    assert_eq!(queue.counts[&JobState::Completed], (JOBS - dead) as u64);
    let events = store.events(0, 10_000).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, position)| event.position == position), "no gap");
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count("job.changed"), count("dead_letter.added")), (JOBS, dead));
    books::agree(store).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_end_the_same_jobs_end_each_once_and_lock_in_one_order() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let before = fetched(&rig).await;
    let other: PostgresStore = open(&database).await;
    let here = before.iter().enumerate().map(|(n, one)| rig.store().change_job(end(&rig, n, one)));
    let there = before.iter().enumerate().rev().map(|(n, one)| other.change_job(end(&rig, n, one)));
    let (here, there) = tokio::join!(join_all(here), join_all(there));
    for (here, there) in here.into_iter().zip(there.into_iter().rev()) {
        let answers = [here.unwrap(), there.unwrap()];
        assert_eq!(answers.iter().filter(|one| **one == Changed::Done).count(), 1, "{answers:?}");
    }
    books::agree(rig.store()).await;
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
    assert_eq!(deadlocks(&database).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_group_that_enqueue_the_same_id_fail_alone() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let store = rig.shared();
    let shared = new(&rig, "", at(0));
    let own: Vec<_> = (0..20).map(|_| new(&rig, "", at(0))).collect();
    let asked = own.iter().enumerate().map(|(n, own)| {
        let mut jobs = vec![(own.clone(), told("job.enqueued"))];
        if n.is_multiple_of(4) {
            jobs.push((shared.clone(), told("job.enqueued")));
        }
        store.enqueue_jobs(jobs, at(0))
    });
    let answers = join_all(asked).await;
    let mut taken = 0;
    for (n, (own, answer)) in own.iter().zip(answers).enumerate() {
        let answer = answer.unwrap();
        assert_eq!(store.job(own.id).await.unwrap().is_some(), answer.is_ok(), "all or none");
        match n.is_multiple_of(4) {
            true => taken += usize::from(answer.is_ok()),
            false => assert_eq!(answer, Ok(())),
        }
    }
    assert_eq!(taken, 1, "the id belongs to one request");
    let rows: i64 =
        connect(&database).await.query_one("select count(*) from jobs", &[]).await.unwrap().get(0);
    assert_eq!(rows, 15 + 2);
    books::agree(&*store).await;
    store.close().await.unwrap();
}
