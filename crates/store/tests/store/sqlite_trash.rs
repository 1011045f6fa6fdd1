//! Deleting and restoring in the embedded store when a write fails, and what its tables are then.

use std::sync::Arc;

use lazaret_store::Store;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::sqlite::{Mode, SqliteStore};
use rusqlite::Connection;

use crate::books;
use crate::job_letters::{dead, letter};
use crate::rig::{Opening, Rig, at, captured, decision};
use crate::shelf::Shelf;

/// A rig, and the same store with what only the embedded one has.
async fn rig() -> (Rig, Arc<SqliteStore>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Test).unwrap());
    let same = Arc::clone(&store);
    let opening: Opening = Box::new(move || {
        let store = Arc::clone(&same) as Arc<dyn Store>;
        Box::pin(async move { store })
    });
    (Rig::open(opening).await, store, folder)
}

#[tokio::test]
async fn a_decision_whose_commit_fails_changes_nothing_and_can_be_taken_again() {
    let (rig, store, _folder) = rig().await;
    let id = dead(&rig).await;
    let found = letter(&rig, id).await.letter.id;
    for verb in [Verb::Delete, Verb::Restore, Verb::Resolve, Verb::Reopen, Verb::Retry] {
        let before = rig.dump().await;
        for fault in [Failure::DiskFull, Failure::Panic] {
            store.failures().plan(FailurePoint::Commit, fault, 1);
            assert!(store.decide(found, decision(verb, at(9_000))).await.is_err());
            assert_eq!(rig.dump().await, before, "{verb:?}");
            books::agree(&*store).await;
        }
        rig.done(found, verb, at(9_000)).await;
        books::agree(&*store).await;
    }
}

#[tokio::test]
async fn a_deletion_that_shares_a_commit_with_a_failure_is_done_once() {
    let (rig, store, folder) = rig().await;
    let ids = rig.create_many(3, at(0)).await;
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    store.failures().plan(FailurePoint::InsertLetter, Failure::Unavailable, 1);
    let (new, again) = (rig.admit(captured("new"), at(5)), rig.admit(captured("again"), at(5)));
    // Each is with the writer after its first poll, and the last one lets the writer go on.
    let release = async { other.execute_batch("rollback").unwrap() };
    let (deleted, broken, restored, inserted, ()) = tokio::join!(
        store.decide(ids[2], decision(Verb::Delete, at(5))),
        store.insert(vec![new]),
        store.decide(ids[2], decision(Verb::Restore, at(5))),
        store.insert(vec![again]),
        release
    );
    assert!(broken.is_err());
    assert_eq!((deleted.unwrap(), restored.unwrap()), (Decided::Done, Decided::Done));
    assert!(inserted.is_ok());
    assert_eq!(rig.find("body:order").await.len(), 4);
    assert_eq!(rig.told_of_letters().await.iter().filter(|kind| *kind == "dead_letter.deleted").count(), 1);
    books::agree(&*store).await;
}

#[tokio::test]
async fn numbers_of_letters_and_lives_are_never_given_twice() {
    let (rig, store, folder) = rig().await;
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    let numbers = |table: &str| -> Vec<i64> {
        let column = if table == "lives" { "rowid" } else { "letter" };
        let mut statement = other.prepare(&format!("select {column} from {table} order by 1")).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let ids = rig.create_many(3, at(0)).await;
    rig.done(ids[2], Verb::Delete, at(1)).await;
    rig.create(captured("new"), at(2)).await;
    assert_eq!((numbers("dead_letter_queue"), numbers("lives")), (vec![1, 2, 4], vec![1, 2, 4]));
    rig.done(ids[2], Verb::Restore, at(3)).await;
    assert_eq!((numbers("dead_letter_queue"), numbers("lives")), (vec![1, 2, 3, 4], vec![1, 2, 4, 5]));
    store.reset().await.unwrap();
    rig.create(captured("new"), at(4)).await;
    assert_eq!((numbers("dead_letter_queue"), numbers("lives")), (vec![5], vec![6]));
    let last = rig.create(captured("last"), at(5)).await;
    rig.done(last, Verb::Delete, at(6)).await;
    // Its number leaves the store with its content, and is not given again.
    Shelf::default().file(&rig, at(6)).await;
    store.close().await.unwrap();
    drop((rig, store));
    let store = SqliteStore::open(folder.path(), Mode::Test).unwrap();
    let same = Arc::new(store) as Arc<dyn Store>;
    let opened = Rig::open(Box::new(move || {
        let store = Arc::clone(&same);
        Box::pin(async move { store })
    }));
    opened.await.create(captured("after a restart"), at(7)).await;
    assert_eq!((numbers("dead_letter_queue"), numbers("lives")), (vec![5, 7], vec![6, 8]));
}

#[test]
fn the_trash_keeps_every_column_of_a_live_letter() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path(), Mode::Real).unwrap());
    let conn = Connection::open(folder.path().join("lazaret.db")).unwrap();
    let columns = |table: &str| -> Vec<String> {
        let statement = conn.prepare(&format!("select * from {table}")).unwrap();
        statement.column_names().map(str::to_owned).collect()
    };
    assert_eq!(columns("trash_lives"), columns("lives"));
    assert_eq!(columns("trash_attempts"), columns("attempts"));
    let (kept, mut live) = (columns("trash"), columns("dead_letter_queue"));
    // Whether a letter stands in the lists is nothing to keep.
    live.retain(|column| column != "listed");
    assert_eq!(kept[..live.len()], live);
    assert_eq!(kept[live.len()..], ["grouped_by"]);
}
