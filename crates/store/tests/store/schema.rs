//! The columns that the shared operations state are columns of both databases.

use std::collections::BTreeSet;
use std::path::Path;

use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::testing::{TestDatabase, stated_tables};
use tokio_postgres::NoTls;

/// Asserts that every stated column is among those that `columns` finds of its table.
fn check(columns: impl Fn(&str) -> BTreeSet<String>) {
    for (table, stated) in stated_tables() {
        let found = columns(table);
        let missing: Vec<_> = stated.iter().filter(|column| !found.contains(**column)).collect();
        assert!(missing.is_empty(), "{table} has no {missing:?}, but {found:?}");
    }
}

#[test]
fn stated_columns_are_columns_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let _store = SqliteStore::open(folder.path(), Mode::Real).unwrap();
    let conn = rusqlite::Connection::open(folder.path().join("lazaret.db")).unwrap();
    let mut statement = conn.prepare("select name from pragma_table_info(?1)").unwrap();
    let columns = std::cell::RefCell::new(&mut statement);
    check(|table| {
        let mut statement = columns.borrow_mut();
        statement.query_map([table], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    });
}

#[tokio::test]
async fn stated_columns_are_columns_of_postgresql() {
    let database = TestDatabase::new();
    let _store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    let answering = tokio::spawn(connection);
    let columns = "select table_name::text, column_name::text
                     from information_schema.columns
                    where table_schema = 'lazaret'";
    let rows = client.query(columns, &[]).await.unwrap();
    let found: BTreeSet<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    check(|table| found.iter().filter(|(of, _)| of == table).map(|(_, column)| column.clone()).collect());
    drop(client);
    answering.await.unwrap().unwrap();
}

/// Counts `table!(` in the files of a folder, and below it.
fn tables_in(folder: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += tables_in(&path);
        } else {
            count += std::fs::read_to_string(path).unwrap().matches(" table!(").count();
        }
    }
    count
}

#[test]
fn every_table_is_compared() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    // A table that is stated after a line break is found too: rustfmt indents it.
    assert_eq!(tables_in(&engine), stated_tables().len());
}
