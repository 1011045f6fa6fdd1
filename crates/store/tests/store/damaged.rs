//! A store that lacks something of its schema says at the start what that is, in whichever format it is.

use lazaret_store::StoreError;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::upgrade::{newest, postgres_killed_after, sqlite_killed_after};
use rusqlite::Connection;

use crate::postgres_many::connect;

/// A format, what happened to the store, and what is missing.
fn damages() -> [(u32, &'static str, &'static str); 4] {
    [
        (newest(), "drop table relay_tries", "table relay_tries"),
        (newest(), "alter table incidents drop column fix_disproved", "column incidents.fix_disproved"),
        // The upgrade itself would fail on it.
        (11, "drop table claims", "table claims"),
        (7, "alter table trash drop column grouped_by", "column trash.grouped_by"),
    ]
}

fn is_told(refused: StoreError, format: u32, missing: &str) {
    let StoreError::Damaged { format: found, missing: told } = &refused else { panic!("{refused:?}") };
    assert_eq!((*found, told.as_str()), (format, missing));
    assert_eq!(
        refused.to_string(),
        format!("the store is damaged: it has format {format} and lacks {missing}")
    );
}

#[test]
fn a_damaged_file_is_refused_with_what_is_missing() {
    for (format, damage, missing) in damages() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("lazaret.db");
        sqlite_killed_after(&database, format);
        Connection::open(&database).unwrap().execute_batch(damage).unwrap();
        is_told(SqliteStore::open(folder.path(), Mode::Test).unwrap_err(), format, missing);
        // It was not touched: a part of it cannot be upgraded.
        let kept: u32 = Connection::open(&database)
            .unwrap()
            .query_row("pragma user_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, format);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_refused_with_what_is_missing() {
    let own = [
        (newest(), "drop table positions", "table positions"),
        (newest(), "alter table dead_letter_queue drop column words", "column dead_letter_queue.words"),
    ];
    for (format, damage, missing) in damages().into_iter().chain(own) {
        let database = TestDatabase::bare();
        postgres_killed_after(&database.url(), format).await;
        let client = connect(&database).await;
        client.batch_execute(damage).await.unwrap();
        let refused = PostgresStore::open(&database.url(), Mode::Test).await.unwrap_err();
        assert!(PostgresStore::hint(&refused).unwrap().contains("restore the last backup"));
        is_told(refused, format, missing);
        let kept = client.query_one("select value from meta where key = 'format'", &[]).await.unwrap();
        assert_eq!(kept.get::<_, String>(0), format.to_string());
    }
}
