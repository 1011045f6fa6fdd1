//! A write that fails while letters go into the archive, into a file or back: all of it is done, or nothing.

use std::sync::Arc;

use lazaret_core::lifecycle::Status;
use lazaret_store::Store;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::failure::{Failure, FailurePoint, Failures};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::testing::TestDatabase;

use crate::books;
use crate::rig::{Opening, Rig, at, decision, dying};
use crate::shelf::{ARCHIVE, DELETE, Kept, Push, Shelf, batch, prunable, put_away};
use crate::transfer::import;

/// A store whose writes fail as a test plans it.
trait Faulty: Store {
    fn plan(&self) -> &Failures;
}

impl Faulty for SqliteStore {
    fn plan(&self) -> &Failures {
        self.failures()
    }
}

impl Faulty for PostgresStore {
    fn plan(&self) -> &Failures {
        self.failures()
    }
}

async fn rig<S: Store + 'static>(store: &Arc<S>) -> Rig {
    let same = Arc::clone(store);
    let opening: Opening = Box::new(move || {
        let store = Arc::clone(&same) as Arc<dyn Store>;
        Box::pin(async move { store })
    });
    Rig::open(opening).await
}

/// Does something that fails at a point, and finds everything as it was; then it works.
async fn whole(
    rig: &Rig,
    store: &impl Faulty,
    point: FailurePoint,
    work: impl AsyncFn() -> Result<(), String>,
) {
    let before = rig.dump().await;
    for at in [point, FailurePoint::Commit] {
        for failure in [Failure::DiskFull, Failure::Panic] {
            store.plan().plan(at, failure, 1);
            assert!(work().await.is_err(), "{at:?}");
            assert_eq!(rig.dump().await, before, "{at:?}");
            books::agree(rig.store()).await;
        }
    }
    work().await.unwrap();
    assert_ne!(rig.dump().await, before, "{point:?}");
    books::agree(rig.store()).await;
}

fn told<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// Whatever keeps letters from being stored, the store says that it is not ready for as long as that lasts.
async fn readiness_tells_the_truth(store: Arc<impl Faulty + 'static>) {
    let rig = rig(&store).await;
    store.ready().await.unwrap();
    for failure in [Failure::DiskFull, Failure::ReadOnly, Failure::Unavailable] {
        let before = rig.dump().await;
        store.plan().plan(FailurePoint::InsertLetter, failure, u32::MAX);
        assert!(store.insert(vec![rig.admit(dying("e", at(0)), at(0))]).await.is_err());
        for _ in 0..3 {
            assert!(store.ready().await.is_err(), "{failure:?}: letters cannot be stored");
        }
        store.plan().plan(FailurePoint::InsertLetter, failure, 0);
        store.ready().await.unwrap();
        assert_eq!(rig.dump().await, before, "a probe leaves nothing behind");
    }
    books::agree(rig.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_tells_the_truth_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    readiness_tells_the_truth(Arc::new(SqliteStore::open(folder.path(), Mode::Test).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_tells_the_truth_on_postgres() {
    let database = TestDatabase::new();
    readiness_tells_the_truth(Arc::new(PostgresStore::open(&database.url(), Mode::Test).await.unwrap()))
        .await;
}

async fn every_step_is_done_or_not(store: Arc<impl Faulty + 'static>) {
    let rig = rig(&store).await;
    let store = &*store;
    let ids = rig.create_many(4, at(0)).await;
    let gone = prunable(&rig, Status::Pending, at(0)).await;
    let push = Push { min_age_ms: 10, ..DELETE };
    let deleted = batch(&gone[..2], push, at(10));
    whole(&rig, store, FailurePoint::Prune, async || told(rig.store().prune(deleted.clone()).await)).await;
    let archived = batch(&gone[2..], ARCHIVE, at(10));
    whole(&rig, store, FailurePoint::Archive, async || told(rig.store().prune(archived.clone()).await)).await;
    let decide = async |id, verb, ms| {
        let decided = rig.store().decide(id, decision(verb, at(ms))).await;
        assert!(matches!(decided, Ok(Decided::Done) | Err(_)), "{decided:?}");
        told(decided)
    };
    whole(&rig, store, FailurePoint::Restore, async || decide(ids[2], Verb::Restore, 20).await).await;
    whole(&rig, store, FailurePoint::Archive, async || decide(ids[2], Verb::Delete, 30).await).await;
    let mut shelf = Shelf::default();
    let file = shelf.write(&rig, 10, at(40)).await;
    let shelve = async || told(rig.store().shelve(file, shelf.rows(file)).await);
    whole(&rig, store, FailurePoint::Shelve, shelve).await;
    rig.store().file_kept(file).await.unwrap();
    let kept = rig.store().archived_letter(ids[3]).await.unwrap().unwrap();
    let read = shelf.read(kept.file.as_ref().unwrap());
    let restore = async || {
        let asked = decision(Verb::Restore, at(50));
        told(rig.store().restore_from_file(import(&rig, read.clone()), kept.entry, asked).await)
    };
    whole(&rig, store, FailurePoint::Restore, restore).await;
    for (kept, ms) in [(Kept::Waiting, 1_000), (Kept::InFile, 2_000)] {
        put_away(&rig, &mut shelf, ids[3], kept, ms).await;
        let again = rig.admit(dying("e3", at(ms + 100)), at(ms + 200));
        let die = async || told(rig.store().insert(vec![again.clone()]).await);
        whole(&rig, store, FailurePoint::Meet, die).await;
        assert_eq!(rig.letter(ids[3]).await.status, Status::Pending);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_is_done_or_not_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    every_step_is_done_or_not(Arc::new(SqliteStore::open(folder.path(), Mode::Test).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_is_done_or_not_in_postgresql() {
    let database = TestDatabase::new();
    every_step_is_done_or_not(Arc::new(PostgresStore::open(&database.url(), Mode::Test).await.unwrap()))
        .await;
}
