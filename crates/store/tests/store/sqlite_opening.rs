//! Opening the embedded store: whose folder it is, which files are ours, and what stands in the way.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{Store, StoreError};
use rusqlite::Connection;

fn opened(folder: &Path, mode: Mode) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(folder, mode)
}

fn refused(folder: &Path) -> StoreError {
    opened(folder, Mode::Real).unwrap_err()
}

#[test]
fn a_second_opening_says_who_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = opened(folder.path(), Mode::Real).unwrap();
    let by_process = format!("process {}", std::process::id());
    match refused(folder.path()) {
        StoreError::Held { folder: named, holder } => {
            assert_eq!((named.as_path(), holder), (folder.path(), by_process))
        }
        other => panic!("{other:?}"),
    }
    first.describe_holder("process 7, listening on http://127.0.0.1:7070").unwrap();
    let error = refused(folder.path()).to_string();
    assert!(error.ends_with("is in use by process 7, listening on http://127.0.0.1:7070"), "{error}");
    first.describe_holder("short").unwrap();
    assert!(refused(folder.path()).to_string().ends_with("is in use by short"));
}

#[tokio::test]
async fn a_folder_is_free_again_when_its_store_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let store = opened(folder.path(), Mode::Real).unwrap();
        store.ready().await.unwrap();
        store.close().await.unwrap();
        drop(store);
    }
}

#[test]
fn a_store_written_by_a_newer_lazaret_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path(), Mode::Real).unwrap());
    let database = folder.path().join("lazaret.db");
    Connection::open(&database).unwrap().execute_batch("pragma user_version = 99").unwrap();
    match refused(folder.path()) {
        StoreError::TooNew { found: 99, known } => assert!(known >= 1),
        other => panic!("{other:?}"),
    }
    let version: u32 =
        Connection::open(&database).unwrap().query_row("pragma user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let foreign = |sql: &str| {
        let folder = tempfile::tempdir().unwrap();
        Connection::open(folder.path().join("lazaret.db")).unwrap().execute_batch(sql).unwrap();
        folder
    };
    let text = tempfile::tempdir().unwrap();
    std::fs::write(text.path().join("lazaret.db"), "my diary\n".repeat(200)).unwrap();
    for folder in [
        foreign("create table songs (name text); insert into songs values ('x')"),
        foreign("pragma user_version = 1; create table t (a)"),
        foreign("pragma application_id = 7; create table t (a)"),
        text,
    ] {
        let database = folder.path().join("lazaret.db");
        let before = std::fs::read(&database).unwrap();
        match refused(folder.path()) {
            StoreError::Foreign(path) => assert_eq!(path, database),
            other => panic!("{other:?}"),
        }
        assert!(std::fs::read(&database).unwrap() == before, "a file that is not ours was written to");
    }
}

#[test]
fn a_path_that_cannot_be_a_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        match refused(&path) {
            StoreError::Path { path: named, source } => {
                assert!(named == path && source.raw_os_error().is_some())
            }
            other => panic!("{other:?}"),
        }
    }
    let blocked = tempfile::tempdir().unwrap();
    std::fs::create_dir(blocked.path().join("lazaret.db")).unwrap();
    assert!(opened(blocked.path(), Mode::Real).is_err(), "the database's name is taken by a folder");
}

#[test]
fn test_mode_and_real_use_never_share_a_store() {
    for (made, other) in [(Mode::Real, Mode::Test), (Mode::Test, Mode::Real)] {
        let folder = tempfile::tempdir().unwrap();
        drop(opened(folder.path(), made).unwrap());
        assert!(matches!(opened(folder.path(), other), Err(StoreError::WrongMode(_))));
        drop(opened(folder.path(), made).unwrap());
    }
}

#[tokio::test]
async fn a_store_made_for_real_use_cannot_be_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path(), Mode::Real).unwrap();
    assert!(matches!(store.reset().await, Err(StoreError::WrongMode(_))));
}

#[test]
fn a_new_data_folder_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a/b/data");
    let store = opened(&data, Mode::Real).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("lock")), 0o600);
    drop(store);
}
