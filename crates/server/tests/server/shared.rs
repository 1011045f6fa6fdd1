//! Instances that share one database: whose clock they go by, and what the leader does for the others.

use std::sync::Arc;

use lazaret_core::filter::Filter;
use lazaret_core::id::OperationId;
use lazaret_core::time::Time;
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use lazaret_server::{months, operations};
use lazaret_store::audit::Actor;
use lazaret_store::decision::{Decision, Expected, NewOperation, OperationState, Verb};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::testing::TestDatabase;
use lazaret_store::{Operations, Store};

async fn instance(database: &TestDatabase, clock: Clock) -> (Arc<PostgresStore>, Arc<App>) {
    let store = Arc::new(PostgresStore::open(&database.url(), Mode::Test).await.unwrap());
    let app = App::new(store.clone(), Config::default(), clock, true).await.unwrap();
    (store, app)
}

const HOUR_MS: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_clock_is_wrong_goes_by_the_databases() {
    let database = TestDatabase::new();
    let store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    for wrong_ms in [-HOUR_MS, HOUR_MS, 6_000] {
        // It stands still while it is compared, so that what is found out is exact.
        let local = Clock::fixed(Clock::System.now().plus_ms(wrong_ms));
        let before = store.now().await.unwrap().unwrap();
        let clock = Clock::of(&store, local.clone()).await.unwrap();
        let after = store.now().await.unwrap().unwrap();
        assert!((before..=after).contains(&clock.now()), "{before} {} {after}", clock.now());
        // It goes on with the local one.
        let (Clock::Fixed(ms), told) = (&local, clock.now()) else { unreachable!("it is fixed") };
        ms.fetch_add(1_000, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(clock.now(), told.plus_ms(1_000));
        // Put right, or wrong in another way: the next comparison tells.
        ms.fetch_add(-2 * HOUR_MS, std::sync::atomic::Ordering::SeqCst);
        let before = store.now().await.unwrap().unwrap();
        clock.adjust(&store).await.unwrap();
        let after = store.now().await.unwrap().unwrap();
        assert!((before..=after).contains(&clock.now()), "{before} {} {after}", clock.now());
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_this_machine_has_this_machines_clock() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), Mode::Test).unwrap();
    let local = Clock::fixed(Time::from_ms(5));
    assert_eq!(Clock::of(&store, local).await.unwrap().now(), Time::from_ms(5));
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_a_killed_instance_left_freezing_is_ended_by_the_leader() {
    let start = Time::parse("2026-11-15T03:00:00Z").unwrap();
    let database = TestDatabase::new();
    let (killed, _) = instance(&database, Clock::fixed(start)).await;
    let clock = Clock::fixed(start);
    let (store, app) = instance(&database, clock.clone()).await;
    let id = OperationId::mint(start, [7; 10]);
    let actor = Actor { name: "ana".into(), role: "operator".into(), request: None };
    let decision =
        Decision { verb: Verb::Discard, actor, reason: None, at: start, from: None, floor_ms: None };
    let filter = Filter::from_text("queue:orders").unwrap();
    killed
        .open_operation(NewOperation { id, decision, filter, expected: Expected::Exactly(1) })
        .await
        .unwrap();
    let pass = |ms| match &clock {
        Clock::Fixed(at) => at.fetch_add(ms, std::sync::atomic::Ordering::SeqCst),
        Clock::System | Clock::Shared(_) => unreachable!("it is fixed"),
    };
    let state = async || store.operation(id).await.unwrap().unwrap().state;
    // Its caller may still be there, as far as anybody else can know.
    pass(HOUR_MS);
    operations::end_abandoned(&app).await.unwrap();
    assert_eq!(state().await, OperationState::Freezing);
    pass(60_001);
    // Whoever does not lead leaves it alone.
    assert!(store.leads());
    store.close().await.unwrap();
    let (store, app) = instance(&database, clock.clone()).await;
    assert!(killed.lead().await.unwrap());
    operations::end_abandoned(&app).await.unwrap();
    assert_eq!(store.operation(id).await.unwrap().unwrap().state, OperationState::Freezing);
    killed.close().await.unwrap();
    operations::end_abandoned(&app).await.unwrap();
    assert_eq!(store.operation(id).await.unwrap().unwrap().state, OperationState::Refused);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn months_that_are_long_over_and_empty_are_taken_away_by_the_leader() {
    let database = TestDatabase::new();
    let now = Time::parse("2026-11-15T03:00:00Z").unwrap();
    let (store, app) = instance(&database, Clock::fixed(now)).await;
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set search_path to lazaret, public").await.unwrap();
    for month in ["2026-07-01", "2026-08-01", "2026-09-01", "2026-11-01"] {
        client.batch_execute(&format!("select make_month('{month}')")).await.unwrap();
    }
    const MONTHS: &str = "
        select right(c.relname::text, 7) from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'dead_letter_queue'::regclass and c.relname ~ '[0-9]$' order by 1";
    months::drop_empty(&app).await.unwrap();
    let kept: Vec<String> = client.query(MONTHS, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(kept, ["2026_09", "2026_11"]);
    store.close().await.unwrap();
}
