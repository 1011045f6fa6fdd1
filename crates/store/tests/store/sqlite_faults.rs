//! The embedded store on a bad day: a full disk, a crash, damage. Nothing that was acknowledged is lost.

use std::path::Path;
use std::process::Command;

use lazaret_core::class::ClassRules;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Captured, Outcome, Receipt, admit};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::LedgerBy;
use lazaret_store::{Numbers, Store, StoreError};
use rusqlite::Connection;

use crate::books;
use crate::rig::{at, captured};

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Mode::Real).unwrap()
}

/// Noise, so that it takes on disk what it says.
fn noise(seed: u32, bytes: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..bytes).map(next).collect()
}

async fn insert(store: &SqliteStore, n: u32, bytes: u32) -> Result<Receipt, StoreError> {
    let envelope = Envelope::seal(noise(n, bytes).into(), "application/octet-stream", Vec::new());
    let mut random = [7; 10];
    random[..4].copy_from_slice(&n.to_be_bytes());
    let letter = Captured { envelope, ..captured(&format!("e{n}")) };
    let batch =
        vec![admit(letter, at(0), [random, random], &ClassRules::default(), &FingerprintRules::default())];
    Ok(store.insert(batch).await?[0])
}

#[tokio::test]
async fn a_full_disk_is_said_and_later_letters_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for point in [FailurePoint::Begin, FailurePoint::InsertLetter, FailurePoint::Commit] {
        let before = store.dump().await.unwrap();
        store.failures().plan(point, Failure::DiskFull, 3);
        for _ in 0..3 {
            assert!(matches!(insert(&store, 1, 10).await, Err(StoreError::Full)), "{point:?}");
        }
        assert_eq!(store.dump().await.unwrap(), before);
    }
    store.failures().plan(FailurePoint::Commit, Failure::DiskFull, 1);
    assert!(matches!(store.ready().await, Err(StoreError::Full)));
    store.ready().await.unwrap();
    assert_eq!(insert(&store, 1, 10).await.unwrap().outcome, Outcome::Created);
    books::agree(&store).await;
}

/// A file system of a few megabytes, for as long as it lives.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one. Without the right to mount, the test runs itself again in a namespace where it has that right, and
    /// there is nothing left to do here.
    fn mount(test: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if mounted {
            return Some(SmallDisk(folder));
        }
        let need = "a small disk has to be mounted: run the tests as root, or allow user namespaces";
        assert!(std::env::var_os(INSIDE).is_none(), "{need}");
        let again = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("sqlite_faults::{test}")])
            .env(INSIDE, "1")
            .output();
        let again = again.unwrap_or_else(|error| panic!("{need} (unshare: {error})"));
        assert!(again.status.success(), "{need}\n{}", String::from_utf8_lossy(&again.stdout));
        None
    }
}

/// Set for a test that runs in a namespace of its own.
const INSIDE: &str = "LAZARET_TEST_INSIDE";

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the store may not have closed its files yet.
        Command::new("umount").arg("--lazy").arg(self.0.path()).status().ok();
    }
}

#[tokio::test]
async fn a_disk_that_is_really_full_loses_nothing_acknowledged() {
    let Some(disk) = SmallDisk::mount("a_disk_that_is_really_full_loses_nothing_acknowledged") else {
        return;
    };
    // As much as what is in the log takes a second time, while it is carried into the file.
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 2_000_000]).unwrap();
    let store = open(&disk.0.path().join("data"));
    let mut kept: Vec<LetterId> = Vec::new();
    let full = loop {
        match insert(&store, kept.len() as u32, 40_000).await {
            Ok(receipt) => kept.push(receipt.letter),
            Err(error) => break error,
        }
        assert!(kept.len() < 1_000, "the disk never fills up");
    };
    assert!(matches!(full, StoreError::Full), "{full:?}");
    for n in 0..3 {
        assert!(insert(&store, kept.len() as u32 + n, 40_000).await.is_err());
        assert!(matches!(store.ready().await, Err(StoreError::Full)), "a small write may still fit");
    }
    assert_all_there(&store, &kept).await;
    std::fs::remove_file(ballast).unwrap();
    store.ready().await.unwrap();
    let next = insert(&store, kept.len() as u32, 40_000).await.unwrap();
    assert_eq!(next.outcome, Outcome::Created);
    kept.push(next.letter);
    assert_all_there(&store, &kept).await;
    store.close().await.unwrap();
    drop(store);
    let store = open(&disk.0.path().join("data"));
    assert_all_there(&store, &kept).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_read_only_disk_is_said_at_the_start() {
    let Some(disk) = SmallDisk::mount("a_read_only_disk_is_said_at_the_start") else { return };
    let folder = disk.0.path().join("data");
    let store = open(&folder);
    store.close().await.unwrap();
    drop(store);
    let remounted =
        Command::new("mount").args(["-o", "remount,bind,ro"]).arg(disk.0.path()).status().unwrap();
    assert!(remounted.success());
    match SqliteStore::open(&folder, Mode::Real).unwrap_err() {
        StoreError::Path { source, .. } => assert_eq!(source.kind(), std::io::ErrorKind::ReadOnlyFilesystem),
        other => panic!("{other:?}"),
    }
}

async fn assert_all_there(store: &SqliteStore, kept: &[LetterId]) {
    books::agree(store).await;
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().captured, kept.len() as u64);
    for (id, n) in kept.iter().zip(0..) {
        let original = store.original(*id, None).await.unwrap().unwrap();
        assert!(*original.envelope.body() == noise(n, original.envelope.body().len() as u32));
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path());
    let mut kept = Vec::new();
    for n in 0..50 {
        kept.push(insert(&store, n, 2_000).await.unwrap().letter);
    }
    // The files as they are while the store is open are what a killed process leaves behind.
    for name in ["lazaret.db", "lazaret.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    assert_all_there(&open(copy.path()), &kept).await;
}

#[tokio::test]
async fn a_damaged_original_is_an_error_and_the_rest_is_still_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let id = insert(&store, 1, 500).await.unwrap().letter;
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    for damage in ["x''", "x'09'", "x'01ff'", "x'00ff'"] {
        other.execute_batch(&format!("update lives set body = {damage}")).unwrap();
        assert!(matches!(store.original(id, None).await, Err(StoreError::Corrupt(_))), "{damage}");
    }
    assert!(store.history(id).await.unwrap().is_some());
    other.execute_batch("update dead_letter_queue set class = 'strange'").unwrap();
    let error = store.history(id).await.unwrap_err();
    assert_eq!(error.to_string(), "the store holds something that cannot be: the class `strange` is unknown");
}

#[tokio::test]
async fn a_recount_sees_a_counter_that_drifted_and_a_letter_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 0..3 {
        insert(&store, n, 10).await.unwrap();
    }
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    other.execute_batch("update counters set letters = letters + 1 where dimension = 'queue'").unwrap();
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().wrong_counters, 2, "one missing, one too many");
    other.execute_batch("pragma foreign_keys = off; delete from dead_letter_queue where letter = 1").unwrap();
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().difference(), 1);
}
