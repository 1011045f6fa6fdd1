//! Deleting and restoring in the shared store while another instance does something else to the same letters.

use lazaret_core::job::Job;
use lazaret_core::letter::Outcome;
use lazaret_core::lifecycle::Status;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::testing::TestDatabase;
use lazaret_store::{JobStore, Store};
use tokio_postgres::NoTls;

use crate::books;
use crate::job_letters::{DYING, dead, letter};
use crate::jobs::new;
use crate::postgres_many::{deadlocks, open, rig};
use crate::rig::{at, decision, dying};

/// Enough that each of two gets to be the first.
const ROUNDS: i64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_restored_and_told_of_at_once_is_there_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for n in 0..ROUNDS {
        let event = format!("e{n}");
        let id = rig.create(dying(&event, at(0)), at(0)).await;
        rig.done(id, Verb::Delete, at(10)).await;
        let again = rig.admit(dying(&event, at(20)), at(20));
        let (restored, told) = tokio::join!(
            rig.store().decide(id, decision(Verb::Restore, at(20))),
            other.insert(vec![again.clone()])
        );
        let (restored, told) = (restored.unwrap(), told.unwrap()[0]);
        match told.outcome {
            Outcome::Created => assert_eq!((restored, told.letter), (Decided::Replaced, again.id)),
            _ => assert_eq!((restored, told.letter), (Decided::Done, id)),
        }
        assert_eq!(rig.find(&format!("event:{event}")).await, [told.letter]);
    }
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_enqueued_while_its_letter_is_restored_is_there_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for n in 0..ROUNDS {
        let id = dead(&rig).await;
        let found = letter(&rig, id).await.letter.id;
        // Of a settled one nothing stands in the way of the job but the key.
        if n % 2 == 0 {
            rig.done(found, Verb::Resolve, at(10_000)).await;
        }
        rig.done(found, Verb::Delete, at(10_001)).await;
        let again = Job { id, ..new(&rig, DYING, at(10_002)) };
        let (restored, enqueued) = tokio::join!(
            rig.store().decide(found, decision(Verb::Restore, at(10_002))),
            other.enqueue_jobs(vec![(again, Vec::new())], at(10_002))
        );
        match enqueued.unwrap() {
            Ok(()) => assert_eq!(restored.unwrap(), Decided::Replaced),
            Err(taken) => assert_eq!((restored.unwrap(), taken), (Decided::Done, id)),
        }
        // Out of the way of the next one.
        other.fetch_jobs(vec!["default".into()], 10, "w".into(), None, at(10_003)).await.unwrap();
    }
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_instances_decide_of_one_job_is_done_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let verbs = [Verb::Retry, Verb::Delete, Verb::Resolve];
    for n in 0..ROUNDS as usize {
        let id = dead(&rig).await;
        let found = letter(&rig, id).await.letter.id;
        let (one, two) = (verbs[n % 3], verbs[(n + 1) % 3]);
        let (first, second) = tokio::join!(
            rig.store().decide(found, decision(one, at(10_000))),
            other.decide(found, decision(two, at(10_000)))
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        let done = [&first, &second].into_iter().filter(|decided| **decided == Decided::Done).count();
        // A letter that was resolved first can still be deleted.
        let both = [one, two].contains(&Verb::Resolve) && [one, two].contains(&Verb::Delete);
        assert!(done == 1 || (both && done == 2), "{one:?} {first:?}, {two:?} {second:?}");
        other.fetch_jobs(vec!["default".into()], 10, "w".into(), None, at(10_003)).await.unwrap();
    }
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_comes_back_into_a_month_that_was_taken_away() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let id = rig.create(dying("e1", at(0)), at(0)).await;
    rig.done(id, Verb::Delete, at(10)).await;
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let months = "select inhrelid::regclass::text from pg_inherits
                   where inhparent = 'lazaret.dead_letter_queue'::regclass
                     and inhrelid::regclass::text ~ '[0-9]{4}_[0-9]{2}$'";
    for month in client.query(months, &[]).await.unwrap() {
        client.batch_execute(&format!("drop table {}", month.get::<_, String>(0))).await.unwrap();
    }
    // Whoever took it to be there is told so, and finds it made when they come again.
    let restore = || rig.store().decide(id, decision(Verb::Restore, at(20)));
    let decided = match restore().await {
        Ok(decided) => decided,
        Err(_) => restore().await.unwrap(),
    };
    assert_eq!(decided, Decided::Done);
    assert_eq!(rig.letter(id).await.status, Status::Pending);
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trash_keeps_every_column_of_a_live_letter() {
    let database = TestDatabase::new();
    open(&database).await.close().await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let columns = async |table: &str| -> Vec<String> {
        let statement = client.prepare(&format!("select * from lazaret.{table}")).await.unwrap();
        statement.columns().iter().map(|column| column.name().to_owned()).collect()
    };
    assert_eq!(columns("trash_lives").await, columns("lives").await);
    assert_eq!(columns("trash_attempts").await, columns("attempts").await);
    let (kept, live) = (columns("trash").await, columns("dead_letter_queue").await);
    assert_eq!(kept[..live.len()], live);
    assert_eq!(kept[live.len()..], ["grouped_by"]);
}
