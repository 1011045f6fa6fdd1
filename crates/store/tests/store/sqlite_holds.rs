//! The embedded store's writer knows the standing holds by heart: what a commit that failed had changed is not believed.

use std::path::Path;

use lazaret_core::class::ClassRules;
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::letter::admit;
use lazaret_store::decision::{Decision, Expected, NewOperation, Verb};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{Holds, Operations, Store, StoreError};
use rusqlite::Connection;

use crate::books;
use crate::rig::{ana, at, captured};

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Mode::Real).unwrap()
}

fn standing(n: u8) -> NewHold {
    NewHold {
        id: HoldId::mint(at(0), [n; 10]),
        on: HoldOn::Standing(Filter::from_text("queue:orders").unwrap()),
        reason: "litigation 12".into(),
        until: None,
        by: ana(),
        at: at(0),
    }
}

fn operation() -> NewOperation {
    let (actor, at) = (ana(), at(10));
    let decision = Decision { verb: Verb::Discard, actor, reason: None, at, from: None, floor_ms: None };
    let (id, filter) = (OperationId::mint(at, [1; 10]), Filter::default());
    NewOperation { id, decision, filter, expected: Expected::Exactly(0) }
}

async fn capture(store: &SqliteStore, n: u8) -> LetterId {
    let (classes, groups) = (ClassRules::default(), FingerprintRules::default());
    let letter = admit(captured(&format!("e{n}")), at(10), [[n; 10], [n; 10]], &classes, &groups);
    store.insert(vec![letter]).await.unwrap()[0].letter
}

async fn is_held(store: &SqliteStore, letter: LetterId) -> bool {
    store.history(letter).await.unwrap().unwrap().letter.hold.is_some()
}

#[tokio::test]
async fn a_commit_that_failed_changes_no_standing_hold() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.failures().plan(FailurePoint::Commit, Failure::DiskFull, 1);
    assert!(matches!(store.place_hold(standing(1)).await, Err(StoreError::Full)));
    let letter = capture(&store, 1).await;
    assert!(!is_held(&store, letter).await, "the hold was never placed");
    assert_eq!(store.place_hold(standing(1)).await.unwrap(), HoldPlaced::Placed);
    let letter = capture(&store, 2).await;
    assert!(is_held(&store, letter).await);
    store.failures().plan(FailurePoint::Commit, Failure::DiskFull, 1);
    let released = store.release_hold(standing(1).id, None, ana(), at(20)).await;
    assert!(matches!(released, Err(StoreError::Full)));
    let letter = capture(&store, 3).await;
    assert!(is_held(&store, letter).await, "the hold was never released");
    assert!(store.release_hold(standing(1).id, None, ana(), at(20)).await.unwrap());
    let letter = capture(&store, 4).await;
    assert!(!is_held(&store, letter).await);
    books::agree(&store).await;
}

/// Whatever is asked for while another connection has the file shares one commit.
#[tokio::test]
async fn a_hold_counts_from_its_place_in_a_shared_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    capture(&store, 9).await;
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let commits = *store.changes().borrow();
    let (before, placed, once, twice, after, ()) = tokio::join!(
        biased;
        capture(&store, 1),
        store.place_hold(standing(1)),
        store.open_operation(operation()),
        // The same id once more fails, and all the others are done again without it.
        store.open_operation(operation()),
        capture(&store, 2),
        async { other.execute_batch("rollback").unwrap() },
    );
    assert_eq!(placed.unwrap(), HoldPlaced::Placed);
    assert!(once.is_ok() && twice.is_err());
    assert_eq!((is_held(&store, before).await, is_held(&store, after).await), (false, true));
    assert!(*store.changes().borrow() - commits <= 2, "they shared a commit");
    while store.work_hold(standing(1).id, at(20)).await.unwrap() {}
    assert!(is_held(&store, before).await);
    assert_eq!(store.hold(standing(1).id).await.unwrap().unwrap().letters, 3);
    // Whoever was not answered asks again.
    assert_eq!(store.place_hold(standing(1)).await.unwrap(), HoldPlaced::Placed);
    assert_eq!(store.holds(None, true, 10).await.unwrap().len(), 1);
    books::agree(&store).await;
}

#[tokio::test]
async fn a_hold_goes_on_after_a_chunk_failed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 1..=5 {
        capture(&store, n).await;
    }
    let hold = NewHold {
        on: HoldOn::Filter { filter: Filter::from_text("queue:orders").unwrap(), expected: 5 },
        at: at(15),
        ..standing(1)
    };
    assert_eq!(store.place_hold(hold.clone()).await.unwrap(), HoldPlaced::Placed);
    for release in [false, true] {
        if release {
            assert!(store.release_hold(hold.id, None, ana(), at(30)).await.unwrap());
        }
        let before = store.dump().await.unwrap();
        for failure in [Failure::DiskFull, Failure::Unavailable, Failure::Panic] {
            store.failures().plan(FailurePoint::Commit, failure, 1);
            assert!(store.work_hold(hold.id, at(20)).await.is_err());
            assert_eq!(store.dump().await.unwrap(), before);
        }
        while store.work_hold(hold.id, at(20)).await.unwrap() {}
        let told = store.hold(hold.id).await.unwrap().unwrap();
        let expected = if release { (HoldState::Released, 0) } else { (HoldState::Standing, 5) };
        assert_eq!((told.state, told.letters), expected);
        books::agree(&store).await;
    }
}
