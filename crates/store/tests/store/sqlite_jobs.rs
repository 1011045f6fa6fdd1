//! Jobs in the embedded store when a write fails, and when there are many of them.

use std::sync::Arc;

use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::job::{Changed, JobChange, JobQuery, LetterEffect, SOURCE};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{JobStore, Store, StoreError};

use crate::books;
use crate::jobs::{enqueue, failure, fetch, new, stored, told};
use crate::rig::{Rig, at};

/// A rig, and the same store with what only the embedded one has.
pub async fn rig() -> (Rig, Arc<SqliteStore>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Test).unwrap());
    let same = Arc::clone(&store);
    let opening = Box::new(move || {
        let store = Arc::clone(&same) as Arc<dyn Store>;
        Box::pin(async move { store }) as std::pin::Pin<Box<dyn Future<Output = Arc<dyn Store>>>>
    });
    (Rig::open(opening).await, store, folder)
}

#[tokio::test]
async fn a_death_that_cannot_be_stored_leaves_the_job_with_its_worker() {
    let (rig, store, _folder) = rig().await;
    let dying = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let id = enqueue(&rig, vec![new(&rig, dying, at(0))], at(0)).await[0];
    fetch(&rig, &["default"], 1, at(1)).await;
    let before = stored(&rig, id).await;
    let verdict = before.job.verdict(&failure("no"), 0.5);
    let after = before.job.clone().failed(failure("no"), verdict, at(2)).unwrap();
    let change = JobChange {
        before: (id, before.version),
        letter: LetterEffect::Die(Box::new(rig.admit(after.to_captured(SOURCE, None), at(2)))),
        after,
        events: told("job.changed"),
        by: None,
        at: at(2),
    };
    let dump = rig.dump().await;
    for (point, fault) in [
        (FailurePoint::InsertLetter, Failure::DiskFull),
        (FailurePoint::InsertLetter, Failure::Panic),
        (FailurePoint::Commit, Failure::ReadOnly),
    ] {
        store.failures().plan(point, fault, 1);
        assert!(store.change_job(change.clone()).await.is_err());
        assert_eq!(rig.dump().await, dump, "{point:?}");
    }
    store.change_job(change).await.unwrap();
    assert!(stored(&rig, id).await.job.in_dead_letter);
    books::agree(&*store).await;
}

#[tokio::test]
async fn what_shares_a_commit_with_a_failure_is_done_once() {
    let (rig, store, folder) = rig().await;
    let ids = enqueue(&rig, vec![new(&rig, "", at(0)), new(&rig, "", at(0))], at(0)).await;
    fetch(&rig, &["default"], 1, at(1)).await;
    let before = stored(&rig, ids[0]).await;
    let ack = JobChange {
        before: (ids[0], before.version),
        after: before.job.acked(None, at(2)).unwrap(),
        letter: LetterEffect::Confirm { evidence: "acked" },
        events: told("job.changed"),
        by: None,
        at: at(2),
    };
    let more = vec![(new(&rig, "", at(2)), told("job.enqueued"))];
    let other = rusqlite::Connection::open(folder.path().join("lazaret.db")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    store.failures().plan(FailurePoint::InsertLetter, Failure::Unavailable, 1);
    let letter = rig.admit(crate::rig::captured("e1"), at(2));
    // Each is with the writer after its first poll, and the last one lets the writer go on.
    let release = async { other.execute_batch("rollback").unwrap() };
    let (changed, broken, enqueued, ()) = tokio::join!(
        store.change_job(ack),
        store.insert(vec![letter]),
        store.enqueue_jobs(more, at(2)),
        release
    );
    assert!(matches!(broken, Err(StoreError::Unavailable { .. })));
    assert_eq!((changed.unwrap(), enqueued.unwrap()), (Changed::Done, Ok(())));
    assert_eq!(stored(&rig, ids[0]).await.version, 3);
    let expected = ["job.enqueued", "job.enqueued", "job.started", "job.changed", "job.enqueued"];
    assert_eq!(rig.told().await, expected);
    books::agree(&*store).await;
}

#[tokio::test]
async fn a_fetch_puts_a_bounded_number_of_expired_jobs_away() {
    let (rig, store, _folder) = rig().await;
    let jobs = (0..2_500).map(|_| new(&rig, r#""expires_at":"+PT1S","priority":1"#, at(0))).collect();
    enqueue(&rig, jobs, at(0)).await;
    let last = enqueue(&rig, vec![new(&rig, "", at(0))], at(0)).await;
    let mut fetches = 0;
    while fetch(&rig, &["default"], 10, at(5_000)).await != last {
        fetches += 1;
        assert!(fetches < 10);
    }
    assert!(fetches >= 2);
    assert_eq!(store.queues().await.unwrap()[0].counts[&JobState::Discarded], 2_500);
    books::agree(&*store).await;
}

#[tokio::test]
async fn jobs_from_before_are_found_by_their_type_too() {
    let (rig, store, folder) = rig().await;
    let ids = enqueue(&rig, (0..3).map(|_| new(&rig, "", at(0))).collect(), at(0)).await;
    let other = rusqlite::Connection::open(folder.path().join("lazaret.db")).unwrap();
    other.execute("update jobs set type = null where id = ?1", [ids[1].bytes()]).unwrap();
    let query = |pattern: &str| JobQuery {
        queue: None,
        state: None,
        job_type: Some(Pattern::new(pattern)),
        worker: None,
        before: None,
        limit: 10,
    };
    assert_eq!(store.jobs(query("order.*")).await.unwrap().jobs.len(), 3);
    assert_eq!(store.jobs(query("order.ship")).await.unwrap().jobs.len(), 3);
    assert_eq!(store.jobs(query("*.pay")).await.unwrap().jobs, []);
    assert_eq!(store.jobs(query("order\0*")).await.unwrap().jobs, []);
}

#[tokio::test]
async fn a_page_of_jobs_looks_at_a_bounded_number_of_them() {
    let (rig, store, _folder) = rig().await;
    let count = limits::JOBS_LOOKED_AT_MAX + 500;
    let first = enqueue(&rig, vec![new(&rig, r#""queue":"rare","pending":true"#, at(0))], at(0)).await[0];
    let parked = r#""pending":true"#;
    for chunk in (0..count).collect::<Vec<_>>().chunks(1_000) {
        enqueue(&rig, chunk.iter().map(|_| new(&rig, parked, at(1))).collect(), at(1)).await;
    }
    let rare = |before| JobQuery {
        queue: Some("rare".into()),
        state: None,
        job_type: None,
        worker: None,
        before,
        limit: 10,
    };
    let page = store.jobs(rare(None)).await.unwrap();
    assert_eq!(page.jobs, []);
    let page = store.jobs(rare(page.next)).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [first]);
    assert_eq!(page.next, None);
    // What cannot be there is not looked for, and what runs is found at once.
    let none = store.jobs(JobQuery { queue: Some("other".into()), ..rare(None) }).await.unwrap();
    assert_eq!((none.jobs.len(), none.next), (0, None));
    let running = enqueue(&rig, vec![new(&rig, r#""queue":"runs""#, at(0))], at(0)).await;
    fetch(&rig, &["runs"], 1, at(2)).await;
    let active = JobQuery { queue: None, state: Some(JobState::Active), ..rare(None) };
    let page = store.jobs(active).await.unwrap();
    assert_eq!((page.jobs[0].id, page.next), (running[0], None));
}
