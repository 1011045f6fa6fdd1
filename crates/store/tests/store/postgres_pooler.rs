//! A pooler between the store and its database: in session mode it works, in transaction mode it is refused at the start.

use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::pooler::Pooler;
use lazaret_store::{Store, StoreError};

use crate::books;
use crate::rig::{Rig, at, captured};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_with_what_to_do() {
    let database = TestDatabase::new();
    for settings in [
        "pool_mode = transaction",
        "pool_mode = transaction\nserver_round_robin = 1\nmin_pool_size = 2",
        "pool_mode = transaction\ndefault_pool_size = 1",
    ] {
        let pooler = Pooler::start(&database, settings);
        let url = pooler.url(&database);
        // Once more: the pool has several backends by then.
        for _ in 0..2 {
            let refused = PostgresStore::open(&url, Mode::Test).await.unwrap_err();
            assert!(matches!(refused, StoreError::Unfit(_)), "{settings}: {refused:?}");
            assert!(refused.to_string().contains("set pool_mode = session"), "{refused}");
        }
        let refused = PostgresStore::migrate(&url).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unfit(_)), "{settings}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_serves_two_instances() {
    let database = TestDatabase::new();
    let pooler = Pooler::start(&database, "pool_mode = session\ndefault_pool_size = 60");
    let url = pooler.url(&database);
    let rig = Rig::open(Box::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let store = PostgresStore::open(&url, Mode::Test).await.unwrap();
            std::sync::Arc::new(store) as std::sync::Arc<dyn Store>
        })
    }))
    .await;
    let other = PostgresStore::open(&pooler.url(&database), Mode::Test).await.unwrap();
    assert!(rig.store().lead().await.unwrap());
    assert!(!other.lead().await.unwrap());
    // What one stores wakes the other.
    let mut changes = other.changes();
    changes.mark_unchanged();
    let letter = rig.create(captured("e1"), at(0)).await;
    changes.changed().await.unwrap();
    assert!(other.history(letter).await.unwrap().is_some());
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
    assert!(other.lead().await.unwrap());
    other.close().await.unwrap();
}
