//! Holds in the shared store while other instances capture, decide, place and release.

use std::sync::Arc;

use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::time::Time;
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::testing::TestDatabase;
use lazaret_store::{Holds, Store};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::books;
use crate::holds::{bea, filter, held, holds_of, listed, new, place, record, work};
use crate::postgres_many::{connect, deadlocks, open, rig, until_somebody_waits};
use crate::rig::{Rig, at, captured, decision, dying};

/// Enough that each of two gets to be the first.
const ROUNDS: i64 = 30;

fn standing() -> HoldOn {
    HoldOn::Standing(filter("queue:orders"))
}

async fn work_off(store: &PostgresStore, id: HoldId, at: Time) {
    while store.work_hold(id, at).await.unwrap() {}
}

/// Keeps whoever captures from going on behind the look at the standing holds. Nobody else needs this table.
async fn stop_captures(client: &Client) {
    client.batch_execute("begin; lock table attempts in share row exclusive mode").await.unwrap();
}

/// Waits until so many sessions wait for a lock, or somebody is done who should not be.
async fn until_waiting<T>(client: &Client, sessions: i64, running: &JoinHandle<T>) {
    const WAITING: &str = "
        select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    while !running.is_finished() && client.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) < sessions
    {
        tokio::task::yield_now().await;
    }
}

async fn agree(rig: &Rig, database: &TestDatabase) {
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(database).await, 0);
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_being_stored_while_a_standing_hold_is_placed_is_held() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, Arc::new(open(&database).await));
    let (slow, watch) = (connect(&database).await, connect(&database).await);
    stop_captures(&slow).await;
    // It has asked for standing holds and found none, and carries a later time than the hold will.
    let (store, batch) = (rig.shared(), vec![rig.admit(captured("e1"), at(50))]);
    let storing = tokio::spawn(async move { store.insert(batch).await.unwrap()[0].letter });
    until_somebody_waits(&watch).await;
    let hold = new(&rig, standing(), at(10));
    let (id, placer) = (hold.id, Arc::clone(&other));
    let placing = tokio::spawn(async move {
        assert_eq!(placer.place_hold(hold).await.unwrap(), HoldPlaced::Placed);
        work_off(&placer, id, at(20)).await;
    });
    until_waiting(&watch, 2, &placing).await;
    slow.batch_execute("commit").await.unwrap();
    let letter = storing.await.unwrap();
    placing.await.unwrap();
    assert_eq!(holds_of(&rig, letter).await, [id]);
    let next = rig.create(captured("e2"), at(60)).await;
    assert_eq!(holds_of(&rig, next).await, [id], "the other instance knows of it at once");
    assert_eq!((record(&rig, id).await.state, record(&rig, id).await.letters), (HoldState::Standing, 2));
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_being_stored_while_its_standing_hold_is_released_is_free() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, Arc::new(open(&database).await));
    let (slow, watch) = (connect(&database).await, connect(&database).await);
    let id = place(&rig, standing(), at(0)).await;
    stop_captures(&slow).await;
    let (store, batch) = (rig.shared(), vec![rig.admit(captured("e1"), at(10))]);
    let storing = tokio::spawn(async move { store.insert(batch).await.unwrap()[0].letter });
    until_somebody_waits(&watch).await;
    let releaser = Arc::clone(&other);
    let releasing = tokio::spawn(async move {
        assert!(releaser.release_hold(id, None, bea(), at(20)).await.unwrap());
        work_off(&releaser, id, at(20)).await;
    });
    until_waiting(&watch, 2, &releasing).await;
    slow.batch_execute("commit").await.unwrap();
    let letter = storing.await.unwrap();
    releasing.await.unwrap();
    assert_eq!((holds_of(&rig, letter).await, rig.letter(letter).await.hold), (vec![], None));
    assert_eq!((record(&rig, id).await.state, record(&rig, id).await.letters), (HoldState::Released, 0));
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_two_leaders_see_end_ends_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    rig.create_many(600, at(0)).await;
    for (n, on) in [listed("queue:orders", 600), standing()].into_iter().enumerate() {
        let begin = n as i64 * 1_000;
        let hold = NewHold { until: Some(at(begin + 100)), ..new(&rig, on, at(begin + 10)) };
        let id = hold.id;
        assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
        tokio::join!(work(&rig, id, at(begin + 20)), work_off(&other, id, at(begin + 20)));
        assert_eq!((held(&rig).await.len(), record(&rig, id).await.letters), (600, 600));
        tokio::join!(work(&rig, id, at(begin + 100)), work_off(&other, id, at(begin + 100)));
        assert_eq!((held(&rig).await.len(), record(&rig, id).await.state), (0, HoldState::Released));
    }
    let log = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
    assert_eq!(log.iter().filter(|entry| entry.action == "hold_expired").count(), 2);
    let told = rig.told_of_letters().await;
    let told_of = |kind: &str| told.iter().filter(|told| *told == kind).count();
    assert_eq!((told_of("dead_letter.held"), told_of("dead_letter.released")), (1_200, 1_200));
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_held_and_released_at_once_shows_what_it_is_under() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let letter = rig.create(captured("e1"), at(0)).await;
    rig.done(letter, Verb::Hold, at(1)).await;
    for n in 1..=ROUNDS {
        let list = place(&rig, listed("queue:orders", 1), at(n * 100)).await;
        let own = new(&rig, HoldOn::Letter(letter), at(n * 100 + 10));
        let own_id = own.id;
        let (placed, freed, ended) = tokio::join!(
            rig.store().place_hold(own),
            other.decide(letter, decision(Verb::Release, at(n * 100 + 10))),
            async {
                let ended = other.release_hold(list, None, bea(), at(n * 100 + 10)).await;
                work_off(&other, list, at(n * 100 + 10)).await;
                ended
            },
        );
        assert_eq!((placed.unwrap(), ended.unwrap()), (HoldPlaced::Placed, true));
        let freed = freed.unwrap();
        assert_eq!(record(&rig, list).await.state, HoldState::Released);
        let left = holds_of(&rig, letter).await;
        match record(&rig, own_id).await.state {
            HoldState::Standing => assert!(left.contains(&own_id), "{left:?}"),
            HoldState::Released => assert_eq!((&freed, left.len()), (&Decided::Done, 0)),
            state => panic!("{state:?} after {freed:?}"),
        }
        assert_eq!(rig.letter(letter).await.hold.is_some(), !left.is_empty());
    }
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_held_and_deleted_at_once_is_one_of_both() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for n in 0..ROUNDS {
        let letter = rig.create(captured(&format!("e{n}")), at(n)).await;
        let hold = new(&rig, HoldOn::Letter(letter), at(100));
        let id = hold.id;
        let (placed, deleted) =
            tokio::join!(rig.store().place_hold(hold), other.decide(letter, decision(Verb::Delete, at(100))));
        match (placed.unwrap(), deleted.unwrap()) {
            (HoldPlaced::Placed, Decided::Refused(refused)) => {
                assert!(refused.is_for_hold());
                assert_eq!(holds_of(&rig, letter).await, [id]);
            }
            (HoldPlaced::Unknown, Decided::Done) => {
                assert_eq!(rig.store().hold(id).await.unwrap(), None);
                assert_eq!(rig.store().history(letter).await.unwrap().map(|found| found.letter.id), None);
            }
            both => panic!("{both:?}"),
        }
    }
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_hold_is_released_elsewhere_leaves_nothing_held() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    rig.create_many(600, at(0)).await;
    for n in 1..=3 {
        let operation = rig.open_operation(Verb::Hold, "queue:orders", 600, at(n * 100)).await;
        rig.freeze(operation).await;
        let id = HoldId::from_bytes(*operation.bytes());
        rig.store().work(operation, at(n * 100 + 10)).await.unwrap();
        assert!(record(&rig, id).await.letters > 0);
        let ((done, _), _) = tokio::join!(rig.work(operation, at(n * 100 + 20)), async {
            assert!(other.release_hold(id, None, bea(), at(n * 100 + 20)).await.unwrap());
            work_off(&other, id, at(n * 100 + 20)).await;
        });
        assert_eq!(done.done + done.skipped, 600);
        let reasons = rig.store().skipped(operation, 1_000).await.unwrap();
        assert!(reasons.iter().all(|one| one.reason == "the hold was released meanwhile"), "{reasons:?}");
        assert_eq!((held(&rig).await.len(), record(&rig, id).await.state), (0, HoldState::Released));
    }
    other.close().await.unwrap();
    agree(&rig, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_capture_hold_and_release_at_once_agree() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let stores = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
    // Others decide: one commit that decides on letters and then stores others takes them out of order.
    let deciders = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
    let hold = place(&rig, standing(), at(0)).await;
    let letters: Vec<LetterId> = rig.create_many(40, at(10)).await;
    let mut running = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        for round in 0..10_i64 {
            // The same letters die again, in another order in each instance, beside new ones.
            let mut batch: Vec<_> = (0..40)
                .map(|e| rig.admit(dying(&format!("e{e}"), at(1_000 + round)), at(2_000 + round)))
                .collect();
            batch.extend((0..5).map(|e| rig.admit(captured(&format!("new {n} {round} {e}")), at(2_000))));
            batch.rotate_left(round as usize * 3);
            if n == 1 {
                batch.reverse();
            }
            let store = Arc::clone(store);
            running.push(tokio::spawn(async move { store.insert(batch).await.map(|_| ()).unwrap() }));
        }
        for letter in letters.clone() {
            let store = Arc::clone(&deciders[n]);
            let verb = if n == 0 { Verb::Release } else { Verb::Hold };
            running.push(tokio::spawn(async move {
                store.decide(letter, decision(verb, at(3_000))).await.map(|_| ()).unwrap();
            }));
        }
    }
    for one in running {
        one.await.unwrap();
    }
    let new = record(&rig, hold).await.letters;
    assert!((100..=140).contains(&new), "the new ones are under it, and perhaps the others: {new}");
    books::agree(rig.store()).await;
    let releaser = &stores[1];
    assert!(releaser.release_hold(hold, None, bea(), at(4_000)).await.unwrap());
    tokio::join!(work(&rig, hold, at(4_000)), work_off(releaser, hold, at(4_000)));
    assert_eq!((record(&rig, hold).await.letters, record(&rig, hold).await.state), (0, HoldState::Released));
    for store in stores.into_iter().chain(deciders) {
        store.close().await.unwrap();
    }
    agree(&rig, &database).await;
}
