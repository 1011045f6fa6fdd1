//! A PostgreSQL whose connections stay open and answer nothing, as behind a broken proxy or on a hung machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::letter::Outcome;
use lazaret_store::postgres::{PostgresStore, Timeouts};
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::proxy::Proxy;
use lazaret_store::{Store, StoreError};

use crate::books;
use crate::postgres_many::{connect, until_somebody_waits};
use crate::rig::{Rig, at, captured};

/// A store behind a proxy that can fall silent; one statement may take as long as `statement`.
async fn behind_proxy(database: &TestDatabase, statement: Duration) -> (Proxy, Rig) {
    let proxy = Proxy::start(&database.url()).await;
    let url = proxy.url().to_owned();
    let timeouts = Timeouts { read: statement, quick_write: statement, write: statement };
    let rig = Rig::open(Box::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let store = PostgresStore::open_within(&url, Mode::Test, timeouts).await.unwrap();
            Arc::new(store) as Arc<dyn Store>
        })
    }));
    (proxy, rig.await)
}

fn is_unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_given_up_by_everyone_who_waits_for_it() {
    let database = TestDatabase::new();
    let (proxy, rig) = behind_proxy(&database, Duration::from_secs(1)).await;
    let (store, first) = (rig.store(), rig.create(captured("e1"), at(0)).await);
    assert!(store.lead().await.unwrap());
    store.ready().await.unwrap();
    proxy.fall_silent();
    let batch = vec![rig.admit(captured("e2"), at(1))];
    // The second time nobody has a connection any more.
    for _ in 0..2 {
        let begun = Instant::now();
        let (written, read, ready, leads, tick) = tokio::join!(
            store.insert(batch.clone()),
            store.history(first),
            store.ready(),
            store.lead(),
            store.index_bodies(10),
        );
        is_unavailable(written);
        is_unavailable(read);
        is_unavailable(ready);
        is_unavailable(leads);
        is_unavailable(tick);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert!(!store.leads());
    }
    proxy.answer_again();
    assert_eq!(rig.insert(batch).await[0].outcome, Outcome::Created);
    store.ready().await.unwrap();
    assert_eq!(rig.find("").await.len(), 2);
    books::agree(store).await;
    // The session that led has to be gone first.
    while !store.lead().await.unwrap() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fell_silent_alone_are_made_again_without_an_error() {
    let database = TestDatabase::new();
    let (proxy, rig) = behind_proxy(&database, Duration::from_secs(1)).await;
    let first = rig.create(captured("e1"), at(0)).await;
    proxy.forget_connections();
    let batch = vec![rig.admit(captured("e2"), at(1))];
    let begun = Instant::now();
    let (written, read) = tokio::join!(rig.insert(batch), rig.history(first));
    assert_eq!((written[0].outcome, read.letter.id), (Outcome::Created, first));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    rig.store().ready().await.unwrap();
    assert_eq!(rig.find("").await.len(), 2);
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

/// Lets a capture wait for an advisory lock of the test, when its key is stored or when it is committed.
fn waits(when: &str) -> String {
    format!(
        "create function wait_for_test() returns trigger language plpgsql as
         $$ begin perform pg_advisory_xact_lock(42); return null; end $$;
         create constraint trigger waits after insert on letter_keys deferrable initially {when}
         for each row execute function wait_for_test()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_whose_answer_is_lost_is_stored_once() {
    // If the commit was done before the silence, whoever sends the letter again is told that it is known.
    for (when, outcome) in [("immediate", Outcome::Created), ("deferred", Outcome::Duplicate)] {
        let database = TestDatabase::new();
        let (proxy, rig) = behind_proxy(&database, Duration::from_secs(4)).await;
        let (other, watch) = (connect(&database).await, connect(&database).await);
        rig.create(captured("e1"), at(0)).await;
        other.batch_execute(&waits(when)).await.unwrap();
        other.batch_execute("select pg_advisory_lock(42)").await.unwrap();
        let batch = vec![rig.admit(captured("e2"), at(1))];
        let written = tokio::spawn({
            let (store, batch) = (rig.shared(), batch.clone());
            async move { store.insert(batch).await }
        });
        until_somebody_waits(&watch).await;
        proxy.fall_silent();
        other.batch_execute("select pg_advisory_unlock(42)").await.unwrap();
        is_unavailable(written.await.unwrap());
        proxy.answer_again();
        assert_eq!(rig.insert(batch).await[0].outcome, outcome, "{when}");
        assert_eq!(rig.find("").await.len(), 2, "{when}");
        books::agree(rig.store()).await;
        rig.store().close().await.unwrap();
    }
}
