//! What the embedded store derives behind a commit, lists, words and the index of keys, is the same after a process was
//! killed in between.

use std::path::Path;

use lazaret_core::class::ClassRules;
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::letter::{Admitted, Outcome, admit};
use lazaret_core::limits;
use lazaret_store::Store;
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::page::Total;
use lazaret_store::sqlite::{Mode, SqliteStore};
use rusqlite::Connection;

use crate::books;
use crate::rig::{at, captured};

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Mode::Real).unwrap()
}

/// One letter; its ids are made of its number.
fn letter(n: usize) -> Admitted {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    admit(
        captured(&format!("e{n}")),
        at(n as i64),
        [random, random],
        &ClassRules::default(),
        &FingerprintRules::default(),
    )
}

async fn insert(store: &SqliteStore, numbers: std::ops::Range<usize>, expected: Outcome) {
    for first in numbers.clone().step_by(1_000) {
        let batch: Vec<_> = (first..numbers.end.min(first + 1_000)).map(letter).collect();
        let receipts = store.insert(batch).await.unwrap();
        assert!(receipts.iter().all(|receipt| receipt.outcome == expected), "{first}");
    }
}

async fn count(store: &SqliteStore, filter: &str) -> u64 {
    match store.count_all(Filter::from_text(filter).unwrap(), at(10_000_000)).await.unwrap() {
        Total::Exact(count) => count,
        Total::AtLeast(_) => panic!("all can be counted"),
    }
}

fn value(folder: &Path, sql: &str) -> i64 {
    let conn = Connection::open(folder.join("lazaret.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

const UNLISTED: &str = "select count(*) from dead_letter_queue where listed = 0";

#[tokio::test]
async fn a_letter_is_in_every_list_for_whoever_reads_after_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut changes = store.changes();
    for n in 0..5 {
        insert(&store, n..n + 1, Outcome::Created).await;
        assert_eq!(value(folder.path(), UNLISTED), 1, "its capture wrote no list");
        changes.mark_unchanged();
        assert_eq!(count(&store, "source:report connection").await, n as u64 + 1);
        assert_eq!(value(folder.path(), UNLISTED), 0);
        assert!(!changes.has_changed().unwrap(), "nobody is woken for nothing");
    }
    books::agree(&store).await;
}

#[tokio::test]
async fn letters_that_were_not_listed_when_the_process_ended_are_listed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    insert(&store, 0..3, Outcome::Created).await;
    // A disk that does not take it, or a process that is killed while it lists.
    for failure in [Failure::DiskFull, Failure::Unavailable] {
        store.failures().plan(FailurePoint::List, failure, 1);
        assert_eq!(count(&store, "connection source:report").await, 3, "{failure:?}: all are found");
        assert_eq!(value(folder.path(), UNLISTED), 3, "{failure:?}: and stay as they were");
    }
    assert_eq!(count(&store, "connection source:report").await, 3);
    assert_eq!(value(folder.path(), UNLISTED), 0, "it is listed by who asks next");
    insert(&store, 3..6, Outcome::Created).await;
    drop(store);
    assert_eq!(value(folder.path(), UNLISTED), 3);
    let store = open(folder.path());
    assert_eq!(value(folder.path(), UNLISTED), 0);
    assert_eq!(count(&store, "connection source:report").await, 6);
    books::agree(&store).await;
}

#[tokio::test]
async fn not_more_than_some_letters_are_left_unlisted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 0..limits::UNLISTED_LETTERS_MAX as usize {
        insert(&store, n..n + 1, Outcome::Created).await;
    }
    assert_eq!(value(folder.path(), UNLISTED), 0);
}

#[tokio::test]
async fn a_key_is_known_wherever_a_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let indexed = || value(folder.path(), "select count(*) from key_index") as usize;
    let mut store = open(folder.path());
    let many = limits::UNINDEXED_KEYS_MAX;
    insert(&store, 0..many - 1, Outcome::Created).await;
    assert_eq!(indexed(), 0);
    // Killed after the first keys were put into the index: the commit is gone, and so is its letter.
    store.failures().plan(FailurePoint::IndexKeys, Failure::Unavailable, 1);
    assert!(store.insert(vec![letter(many - 1)]).await.is_err());
    assert_eq!(indexed(), 0);
    insert(&store, 0..2, Outcome::Duplicate).await;
    insert(&store, many - 1..many, Outcome::Created).await;
    let some = indexed();
    assert!(some > 0 && some < many, "{some} keys go with a commit");
    // Killed in the middle of it.
    drop(store);
    store = open(folder.path());
    insert(&store, 0..many, Outcome::Duplicate).await;
    books::agree(&store).await;
    // To its end, and then on.
    insert(&store, many..2 * many, Outcome::Created).await;
    assert!(indexed() >= many);
    drop(store);
    let store = open(folder.path());
    insert(&store, 0..2 * many, Outcome::Duplicate).await;
    assert_eq!(store.insert(vec![letter(2 * many)]).await.unwrap()[0].outcome, Outcome::Created);
    books::agree(&store).await;
}
