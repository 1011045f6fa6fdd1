//! Opening the embedded store: whose folder it is, which files are ours, and what stands in the way.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;
use lazaret_store::folder::ServedAt;
use lazaret_store::incident::IncidentQuery;
use lazaret_store::series::{SeriesOf, SeriesQuery, Step};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::{LedgerBy, StatsOf};
use lazaret_store::{Holds, Incidents, Numbers, Regroupings, Store, StoreError};
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
    assert_eq!(ServedAt::read(folder.path()), None);
    let served = ServedAt { url: "http://127.0.0.1:7070".into(), key: "lzf_secret".into() };
    first.describe_server("process 7, serving http://0.0.0.0:7070", &served).unwrap();
    let error = refused(folder.path()).to_string();
    assert!(error.ends_with("is in use by process 7, serving http://0.0.0.0:7070"), "{error}");
    assert!(!format!("{served:?}").contains("lzf_secret"));
    assert_eq!(ServedAt::read(folder.path()), Some(served));
    let short = ServedAt { url: "u".into(), key: "k".into() };
    first.describe_server("short", &short).unwrap();
    assert!(refused(folder.path()).to_string().ends_with("is in use by short"));
    assert_eq!(ServedAt::read(folder.path()), Some(short));
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

/// A store as the first format left it, with one pending and one resolved letter of one cause.
fn first_format(folder: &Path) {
    let conn = Connection::open(folder.join("lazaret.db")).unwrap();
    conn.execute_batch(include_str!("../../src/sqlite/migrations/0001_letters.sql")).unwrap();
    conn.execute_batch(
        "pragma application_id = 0x4c5a5254; pragma user_version = 1;
         insert into meta (key, value) values ('mode', 'real');
         insert into incidents values (x'019a85748f8070008000000000000001', 'open', 1763175600000, 'order.created', 'E');
         insert into fingerprints values ('v1:00', x'019a85748f8070008000000000000001', 1763175600000);",
    )
    .unwrap();
    for (row, status, resolved) in [(1, "pending", "null, null"), (2, "resolved", "1763175700000, 'discard'")]
    {
        let id = format!("x'019a85748f80700080000000000001{row:02}'");
        conn.execute_batch(&format!(
            "insert into dead_letter_queue (letter, id, source, event_id, type, queue, error_type, error_message, class,
                    fingerprint, retry_count, status, place, life, resolution_timestamp, resolution_strategy,
                    created_at, updated_at, died_at, retention_at)
             values ({row}, {id}, 'report', 'e{row}', 'order.created', 'orders', 'E', 'no', 'unknown', 'v1:00', 0,
                     '{status}', 'live', 1, {resolved}, 1763175600000, 1763175600000, 1763175600000, 1763175600000);
             insert into letter_keys (key, generation, id, place) values (x'{row:064}', 1, {id}, 'live');
             insert into lives values ({row}, 1, 1763175600000, 1763175600000, 'unknown', 'v1:00', 'text/plain', null,
                     x'00', 0, x'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 1, 0, null, null, null);
             insert into attempts values ({row}, 1, 1, zeroblob(16), null, null, 'E', null, 'no', null);
             insert into letter_words (rowid, words) values ({row}, 'order created e no');",
        ))
        .unwrap();
        for (dimension, value) in [
            ("all", ""),
            ("source", "report"),
            ("queue", "orders"),
            ("type", "order.created"),
            ("error_type", "E"),
            ("class", "unknown"),
            ("fingerprint", "v1:00"),
        ] {
            conn.execute("insert into counters values (?1, ?2, ?3, 1)", (dimension, value, status)).unwrap();
        }
    }
    for dimension in ["source", "queue", "type"] {
        let value = match dimension {
            "source" => "report",
            "queue" => "orders",
            _ => "order.created",
        };
        conn.execute(
            "insert into series values (29386260, ?1, ?2, 2, 0), (29386265, ?1, ?2, 0, 1)",
            (dimension, value),
        )
        .unwrap();
    }
}

#[tokio::test]
async fn a_store_of_the_first_format_is_brought_forward_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    first_format(folder.path());
    let store = opened(folder.path(), Mode::Real).unwrap();
    let ledger = store.ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.captured, ledger.difference(), ledger.wrong_counters), (2, 0, 0));
    let page = store.incidents(IncidentQuery { limit: 10, ..IncidentQuery::default() }).await.unwrap();
    assert_eq!((page.total, page.incidents[0].letters, page.incidents[0].title.as_str()), (1, 2, "E"));
    assert_eq!(page.incidents[0].by_status["resolved"], 1);
    let (from, until) = (Time::from_ms(1_763_175_600_000), Time::from_ms(1_763_179_200_000));
    for step in Step::ALL {
        let all = SeriesQuery { of: SeriesOf::All, step, from, until };
        let points = store.series(all).await.unwrap().remove(0).points;
        let sums = points.iter().fold((0, 0), |sum, point| (sum.0 + point.arrived, sum.1 + point.departed));
        assert_eq!((sums, points.len()), ((2, 1), if step == Step::Hour { 1 } else { 2 }));
    }
    // The fingerprints of that time were a makeshift: every letter gets a real one.
    let state = store.regrouping("1".into(), until).await.unwrap();
    assert_eq!((state.towards.as_deref(), state.total), (Some("1"), 2));
    assert_eq!(store.old_groupings(10).await.unwrap().len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn letters_of_jobs_from_before_are_counted_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    first_format(folder.path());
    let conn = Connection::open(folder.path().join("lazaret.db")).unwrap();
    conn.execute_batch(
        "update dead_letter_queue set source = 'jobs' where letter = 1;
         update counters set value = 'jobs' where dimension = 'source' and term = 'pending';",
    )
    .unwrap();
    drop(conn);
    let store = opened(folder.path(), Mode::Real).unwrap();
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().wrong_counters, 0);
    let stats = store.stats(StatsOf::Jobs(Status::Pending)).await.unwrap();
    let one = |value: &str| vec![(value.to_owned(), 1)];
    assert_eq!((stats.total, stats.by_queue, stats.by_type), (1, one("orders"), one("order.created")));
    assert_eq!((stats.by_error_type, stats.newest_at), (one("E"), Some(Time::from_ms(1_763_175_600_000))));
    assert_eq!(store.stats(StatsOf::Jobs(Status::Resolved)).await.unwrap().total, 0);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_letter_held_before_there_were_records_has_a_hold_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    first_format(folder.path());
    let conn = Connection::open(folder.path().join("lazaret.db")).unwrap();
    conn.execute_batch(
        "update dead_letter_queue set held_at = 1763175650000, held_by = 'ana', hold_reason = null where letter = 1",
    )
    .unwrap();
    drop(conn);
    let store = opened(folder.path(), Mode::Real).unwrap();
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().wrong_counters, 0);
    let hold = store.holds(None, false, 10).await.unwrap().remove(0);
    assert_eq!((hold.held_by.as_str(), hold.held_at.ms(), hold.letters), ("ana", 1_763_175_650_000, 1));
    let letter = hold.letter.unwrap();
    let under = store.holds_of(letter).await.unwrap();
    assert_eq!((under.len(), &under[0]), (1, &hold));
    let ana = Actor { name: "ana".into(), role: "operator".into(), request: None };
    assert!(store.release_hold(hold.id, None, ana, Time::from_ms(1_763_175_700_000)).await.unwrap());
    while store.work_hold(hold.id, Time::from_ms(1_763_175_700_000)).await.unwrap() {}
    assert_eq!(store.history(letter).await.unwrap().unwrap().letter.hold, None);
    assert_eq!(store.ledger(LedgerBy::Recount).await.unwrap().wrong_counters, 0);
    store.close().await.unwrap();
}
