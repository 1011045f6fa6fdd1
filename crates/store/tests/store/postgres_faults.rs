//! What only PostgreSQL can be asked: statements that are stopped, months that go while letters come, and others that do
//! the same at the same time.

use std::sync::Arc;

use lazaret_core::id::LetterId;
use lazaret_core::job::Job;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use lazaret_store::decision::{OperationState, Verb};
use lazaret_store::testing::TestDatabase;
use lazaret_store::transfer::Imported;
use lazaret_store::{JobStore, RedriveStore, Store, StoreError};
use tokio_postgres::Client;

use crate::books;
use crate::job_letters::{DYING, dead, letter};
use crate::jobs::new;
use crate::postgres_many::{connect, deadlocks, open, rig, until_somebody_waits};
use crate::rig::{Rig, ana, at, captured, sqlite};
use crate::transfer::{export, import};

/// Enough that each of two gets to be the first.
const ROUNDS: i64 = 40;

/// Stops the statement of whoever waits for a lock.
const CANCEL_WAITING: &str = "
select count(pg_cancel_backend(pid))
  from pg_stat_activity
 where datname = current_database()
   and wait_event_type = 'Lock'";

/// The same with its whole session.
const KILL_WAITING: &str = "
select count(pg_terminate_backend(pid))
  from pg_stat_activity
 where datname = current_database()
   and wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_stopped_may_come_again_and_a_search_has_to_be_narrowed() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let (other, watch) = (connect(&database).await, connect(&database).await);
    other.batch_execute("begin; lock table letter_keys in exclusive mode").await.unwrap();
    let (store, batch) = (rig.shared(), vec![rig.admit(captured("e1"), at(0))]);
    let written = tokio::spawn({
        let batch = batch.clone();
        async move { store.insert(batch).await }
    });
    until_somebody_waits(&watch).await;
    watch.query_one(CANCEL_WAITING, &[]).await.unwrap();
    let error = written.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    other.batch_execute("commit").await.unwrap();
    rig.insert(batch).await;

    other.batch_execute("begin; lock table dead_letter_queue in access exclusive mode").await.unwrap();
    let store = rig.shared();
    let read = tokio::spawn(async move { store.history(LetterId::from_bytes([1; 16])).await });
    until_somebody_waits(&watch).await;
    watch.query_one(CANCEL_WAITING, &[]).await.unwrap();
    let error = read.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::TooSlow), "{error:?}");

    // Whoever waits too long for a lock cannot help it, whatever it wanted.
    watch.batch_execute("set lock_timeout to '1ms'").await.unwrap();
    let late = watch.batch_execute("select from dead_letter_queue").await.unwrap_err();
    assert!(matches!(StoreError::from(late), StoreError::Unavailable { .. }));
    other.batch_execute("commit").await.unwrap();
    rig.store().close().await.unwrap();
}

fn moment(text: &str) -> Time {
    Time::parse(text).unwrap()
}

const JANUARY: &str = "2024-01-05T00:00:00Z";
const AUGUST: &str = "2024-08-01T00:00:00Z";

/// Tables of months before August, partitions or not.
async fn months(client: &Client) -> Vec<String> {
    const MONTHS: &str = "
        select relname::text from pg_class
         where relnamespace = 'lazaret'::regnamespace and relkind = 'r'
           and relname between 'dead_letter_queue_2024_01' and 'dead_letter_queue_2024_07'
         order by 1";
    client.query(MONTHS, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_comes_while_its_month_goes_is_there() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let (other, watch) = (connect(&database).await, connect(&database).await);
    let id = rig.create(captured("e1"), moment(JANUARY)).await;
    other
        .batch_execute("create table kept as select * from dead_letter_queue; delete from dead_letter_queue")
        .await
        .unwrap();
    // Not committed yet, so January looks empty; whoever takes it away has to wait for this all the same.
    other.batch_execute("begin; insert into dead_letter_queue select * from kept").await.unwrap();
    let store = rig.shared();
    let dropping = tokio::spawn(async move { store.drop_empty_months(moment(AUGUST)).await });
    until_somebody_waits(&watch).await;
    other.batch_execute("commit; drop table kept").await.unwrap();
    assert_eq!(dropping.await.unwrap().unwrap(), 1, "February, made ahead, goes");
    assert_eq!(months(&watch).await, ["dead_letter_queue_2024_01"]);
    assert_eq!(rig.find("").await, [id]);
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

/// Leaves January on its way out, as an instance does that is killed while it takes it away.
async fn break_off(rig: &Rig, other: &Client, watch: &Client) {
    other.batch_execute("begin; select count(*) from dead_letter_queue").await.unwrap();
    let store = rig.shared();
    let dropping = tokio::spawn(async move { store.drop_empty_months(moment(AUGUST)).await });
    until_somebody_waits(watch).await;
    watch.query_one(KILL_WAITING, &[]).await.unwrap();
    dropping.await.unwrap().unwrap_err();
    other.batch_execute("commit").await.unwrap();
    const LEAVING: &str = "select count(*) from pg_inherits where inhdetachpending";
    assert_eq!(watch.query_one(LEAVING, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_whose_going_was_broken_off_is_made_or_taken_away() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let (other, watch) = (connect(&database).await, connect(&database).await);
    for event in ["e1", "e2"] {
        rig.create(captured(event), moment(JANUARY)).await;
        // Beside the store, so that nothing is left of it.
        watch.batch_execute("delete from dead_letter_queue").await.unwrap();
        break_off(&rig, &other, &watch).await;
    }
    // The next one who comes by takes it away.
    let dropped = rig.store().drop_empty_months(moment(AUGUST)).await.unwrap();
    assert_eq!((dropped, months(&watch).await.len()), (2, 0));
    // Detached and not dropped is what is left by one who is killed a moment later.
    rig.create(captured("e3"), moment(JANUARY)).await;
    watch
        .batch_execute("alter table dead_letter_queue detach partition dead_letter_queue_2024_01")
        .await
        .unwrap();
    assert_eq!(rig.store().drop_empty_months(moment(AUGUST)).await.unwrap(), 1);
    assert_eq!(rig.find("").await.len(), 1, "it was not empty, and is a partition again");
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_restored_by_an_operation_finds_its_month_made() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let id = rig.create(captured("e1"), moment(JANUARY)).await;
    let operation = rig.open_operation(Verb::Restore, "queue:orders", 1, at(0)).await;
    assert_eq!(rig.freeze(operation).await.0.state, OperationState::Working);
    rig.done(id, Verb::Delete, moment(JANUARY)).await;
    assert_eq!(other.drop_empty_months(moment(AUGUST)).await.unwrap(), 2);
    let (done, _) = rig.work(operation, at(10)).await;
    assert_eq!((done.state, done.done, done.skipped), (OperationState::Done, 1, 0));
    assert_eq!(rig.letter(id).await.status, Status::Pending);
    books::agree(rig.store()).await;
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_imported_for_a_month_that_was_taken_away_is_there() {
    let database = TestDatabase::new();
    let (rig, other, away) = (rig(&database).await, open(&database).await, Rig::open(sqlite()).await);
    rig.create(captured("e1"), moment(JANUARY)).await;
    connect(&database).await.batch_execute("delete from dead_letter_queue").await.unwrap();
    assert_eq!(other.drop_empty_months(moment(AUGUST)).await.unwrap(), 2);
    away.create(captured("e0"), moment(JANUARY)).await;
    let id = away.create(captured("e2"), moment(JANUARY)).await;
    let letters = export(&away, &[id]).await.into_iter().map(|one| import(&away, one)).collect();
    assert_eq!(rig.store().import(letters, ana(), at(0)).await.unwrap(), [Imported::Created]);
    assert_eq!(rig.letter(id).await.id, id);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_enqueued_while_its_letter_is_imported_is_there_once() {
    let database = TestDatabase::new();
    let (rig, other, away) = (rig(&database).await, open(&database).await, Rig::open(sqlite()).await);
    let mut imported_first = 0;
    for n in 0..ROUNDS {
        let id = dead(&away).await;
        let found = letter(&away, id).await.letter.id;
        // Of a settled one there is no row that could stand in the way of the job.
        if n % 2 == 0 {
            away.done(found, Verb::Resolve, at(10_000)).await;
        }
        let letters = export(&away, &[found]).await.into_iter().map(|one| import(&away, one)).collect();
        let job = Job { id, ..new(&away, DYING, at(10_002)) };
        let (imported, enqueued) = tokio::join!(
            rig.store().import(letters, ana(), at(10_002)),
            other.enqueue_jobs(vec![(job, Vec::new())], at(10_002))
        );
        match enqueued.unwrap() {
            Ok(()) => assert_eq!(imported.unwrap(), [Imported::Conflict(found)]),
            Err(taken) => {
                assert_eq!((imported.unwrap(), taken), (vec![Imported::Created], id));
                imported_first += 1;
            }
        }
    }
    println!("{imported_first} of {ROUNDS} were imported first");
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_several_instances_claim_at_once_is_claimed_once() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let ids = rig.create_many(ROUNDS, at(0)).await;
    let stores =
        [Arc::new(open(&database).await), Arc::new(open(&database).await), Arc::new(open(&database).await)];
    let mut running = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        let mut ids = ids.clone();
        ids.rotate_left(n * 13);
        for letter in ids {
            let (store, run) = (Arc::clone(store), rig.launch(letter, 1, at(1)).await.unwrap());
            let take = async move { store.take_letters(run, 1, at(30_000), at(1)).await.unwrap() };
            running.push(take);
        }
    }
    let mut claimed = Vec::new();
    for taking in running.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
        claimed.extend(taking.await.unwrap().taken.into_iter().map(|taken| taken.letter));
    }
    claimed.sort();
    let mut all = ids.clone();
    all.sort();
    assert_eq!(claimed, all, "each once");
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    for store in stores {
        store.close().await.unwrap();
    }
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_knows_whether_it_leads_without_asking() {
    let database = TestDatabase::new();
    let (one, two) = (open(&database).await, open(&database).await);
    assert!(!one.leads() && !two.leads());
    assert!(one.lead().await.unwrap() && !two.lead().await.unwrap());
    assert!(one.leads() && !two.leads());
    one.close().await.unwrap();
    assert!(two.lead().await.unwrap());
    assert!(!one.leads() && two.leads());
    two.close().await.unwrap();
}
