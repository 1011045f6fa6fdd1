//! What only PostgreSQL can be asked: how a database becomes a store, and which ones do not.

use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;
use lazaret_store::{Store, StoreError};

use crate::rig::{Rig, at, captured};

/// Runs SQL of the test's own on a database.
async fn sql(database: &TestDatabase, statement: &str) {
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    client.batch_execute(statement).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_instances_that_start_at_once_make_one_store() {
    let database = TestDatabase::bare();
    let opening = (0..10).map(|_| {
        let url = database.url();
        tokio::spawn(async move { PostgresStore::open(&url, Mode::Real).await })
    });
    let mut stores = Vec::new();
    for opened in opening.collect::<Vec<_>>() {
        stores.push(opened.await.unwrap().unwrap());
    }
    let mut leaders = 0;
    for store in &stores {
        store.ready().await.unwrap();
        leaders += u32::from(store.lead().await.unwrap());
    }
    assert_eq!(leaders, 1);
    for store in &stores {
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_moves_when_the_leader_closes() {
    let database = TestDatabase::new();
    let one = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let two = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    assert!(one.lead().await.unwrap());
    assert!(!two.lead().await.unwrap());
    assert!(one.lead().await.unwrap(), "who leads goes on leading");
    one.close().await.unwrap();
    assert!(two.lead().await.unwrap());
    two.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn test_mode_and_real_use_never_share_a_database() {
    let database = TestDatabase::new();
    let refused = PostgresStore::open(&database.url(), Mode::Real).await.unwrap_err();
    assert!(matches!(refused, StoreError::WrongMode(_)), "{refused}");
    let real = TestDatabase::bare();
    let store = PostgresStore::open(&real.url(), Mode::Real).await.unwrap();
    assert!(matches!(store.reset().await.unwrap_err(), StoreError::WrongMode(_)));
    store.close().await.unwrap();
    let refused = PostgresStore::open(&real.url(), Mode::Test).await.unwrap_err();
    assert!(matches!(refused, StoreError::WrongMode(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_is_refused_and_left_alone() {
    let database = TestDatabase::new();
    sql(&database, "update lazaret.meta set value = '9999' where key = 'format'").await;
    let refused = PostgresStore::open(&database.url(), Mode::Test).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { found: 9999, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_somebody_else_is_refused_and_left_alone() {
    for theirs in [
        "create schema lazaret; create table lazaret.orders (id int)",
        "create schema lazaret; create table lazaret.meta (key text, value text)",
        "create schema lazaret; create table lazaret.meta (id int)",
    ] {
        let database = TestDatabase::bare();
        sql(&database, theirs).await;
        let refused = PostgresStore::open(&database.url(), Mode::Real).await.unwrap_err();
        assert!(matches!(refused, StoreError::Foreign(_)), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_others_in_the_same_database_are_no_hindrance() {
    let database = TestDatabase::bare();
    sql(&database, "create table dead_letter_queue (id int); create table jobs (id int)").await;
    let store = PostgresStore::open(&database.url(), Mode::Real).await.unwrap();
    store.ready().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_said_to_be_unavailable_without_the_password() {
    let url = "postgres://lazaret:secret@127.0.0.1:1/none";
    let error = PostgresStore::open(url, Mode::Real).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_instance_is_woken_by_a_commit() {
    let database = TestDatabase::new();
    let one = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let two = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let mut changes = two.changes();
    changes.mark_unchanged();
    // Listening begins a moment after opening: what is committed before that is found by looking.
    let rig = Rig::open(Box::new({
        let url = database.url();
        move || {
            let url = url.clone();
            Box::pin(async move {
                let store = PostgresStore::open(&url, Mode::Test).await.unwrap();
                std::sync::Arc::new(store) as std::sync::Arc<dyn Store>
            })
        }
    }))
    .await;
    rig.create(captured("e1"), at(0)).await;
    changes.changed().await.unwrap();
    for store in [one, two] {
        store.close().await.unwrap();
    }
}
