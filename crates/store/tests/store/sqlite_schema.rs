//! The embedded store's schema agrees with the types, and the dump with the schema.

use std::collections::BTreeSet;

use lazaret_core::job::state::JobState;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::rca::FixKind;
use lazaret_core::redrive::{Outcome, RedriveKind, RunState};
use lazaret_store::Store;
use lazaret_store::archive::FileState;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::OperationState;
use lazaret_store::hold::HoldState;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::worker::Wish;
use rusqlite::Connection;

fn new() -> (SqliteStore, Connection, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), Mode::Real).unwrap();
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    (store, other, folder)
}

/// The words that a column of a table takes, in the order of its check.
fn allowed(conn: &Connection, table: &str, column: &str) -> Vec<String> {
    let sql: String =
        conn.query_row("select sql from sqlite_schema where name = ?1", [table], |row| row.get(0)).unwrap();
    let check = format!("check ({column} in (");
    let (_, rest) = sql.split_once(&check).unwrap_or_else(|| panic!("{table} does not check {column}"));
    let (list, _) = rest.split_once("))").unwrap();
    list.split(',').map(|word| word.trim().trim_matches('\'').to_owned()).collect()
}

#[test]
fn the_schema_takes_exactly_the_words_of_the_types() {
    let (_store, conn, _folder) = new();
    assert_eq!(allowed(&conn, "dead_letter_queue", "status"), Status::ALL.map(Status::name));
    assert_eq!(allowed(&conn, "dead_letter_queue", "place"), Place::ALL.map(Place::name));
    assert_eq!(allowed(&conn, "letter_keys", "place"), Place::ALL.map(Place::name));
    assert_eq!(
        allowed(&conn, "archive", "place"),
        Place::ALL[1..].iter().map(|place| place.name()).collect::<Vec<_>>()
    );
    assert_eq!(allowed(&conn, "archive_files", "state"), FileState::ALL.map(FileState::name));
    assert_eq!(allowed(&conn, "claims", "step"), ClaimStep::ALL.map(ClaimStep::name));
    assert_eq!(allowed(&conn, "operations", "state"), OperationState::ALL.map(OperationState::name));
    assert_eq!(allowed(&conn, "jobs", "state"), JobState::ALL.map(JobState::name));
    assert_eq!(allowed(&conn, "workers", "wish"), Wish::ALL.map(Wish::name));
    assert_eq!(allowed(&conn, "redrives", "kind"), RedriveKind::ALL.map(RedriveKind::name));
    assert_eq!(allowed(&conn, "redrives", "state"), RunState::ALL.map(RunState::name));
    assert_eq!(allowed(&conn, "holds", "state"), HoldState::ALL.map(HoldState::name));
    assert_eq!(allowed(&conn, "fixes", "kind"), FixKind::ALL.map(FixKind::name));
    // A letter that is refused has no outcome: it is not of the run.
    let outcomes = allowed(&conn, "redrive_letters", "outcome");
    assert_eq!(
        (outcomes[0].as_str(), &outcomes[1..]),
        ("refused", &Outcome::ALL.map(|of| of.name().to_owned())[..])
    );
    let statement = conn.prepare("select * from queues").unwrap();
    let counted: Vec<&str> = statement.column_names().skip(3).collect();
    assert_eq!(counted, JobState::ALL.map(JobState::name));
}

#[tokio::test]
async fn the_dump_shows_every_table() {
    let (store, conn, _folder) = new();
    let dump = store.dump().await.unwrap();
    let shown: BTreeSet<String> =
        dump.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect();
    let mut statement = conn.prepare("select name from sqlite_schema where type = 'table'").unwrap();
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    // SQLite's own tables, and those in which the message index keeps itself.
    let ours = tables.filter(|name| !name.starts_with("sqlite_") && !name.starts_with("letter_words_"));
    assert_eq!(shown, ours.collect());
}

#[test]
fn the_file_is_marked_as_ours_and_written_ahead() {
    let (_store, conn, _folder) = new();
    let text =
        |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(
        text("pragma application_id"),
        rusqlite::types::Value::Integer(i64::from(u32::from_be_bytes(*b"LZRT")))
    );
    assert_eq!(text("pragma journal_mode"), rusqlite::types::Value::Text("wal".into()));
    assert_eq!(
        text("pragma auto_vacuum"),
        rusqlite::types::Value::Integer(2),
        "space can be given back in steps"
    );
    assert_eq!(text("pragma integrity_check"), rusqlite::types::Value::Text("ok".into()));
}
