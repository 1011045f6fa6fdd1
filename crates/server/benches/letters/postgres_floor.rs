//! The floor for PostgreSQL: the rows that a capture leaves behind, put into the same tables and indexes by COPY.

use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use lazaret_store::testing::TestDatabase;
use tokio_postgres::{Client, NoTls};

use super::sample::BATCH;

/// The tables that a captured letter has rows in, with the column that names the letter. Rows that others refer to come
/// first.
const TABLES: [(&str, &str); 6] = [
    ("letter_keys", "id"),
    ("dead_letter_queue", "id"),
    ("lives", "letter"),
    ("attempts", "letter"),
    ("events", "letter"),
    ("life_positions", "letter"),
];

/// Rows that are there before the first letter.
const BEFORE: [&str; 2] = ["incidents", "fingerprints"];

/// Rows as COPY reads them, each with the statement that takes them.
type Part = (String, Bytes);

pub struct Rows {
    before: Vec<Part>,
    batches: Vec<Vec<Part>>,
}

pub async fn connect(database: &TestDatabase) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&database.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute("set search_path to lazaret, public").await.expect("the schema is there");
    client
}

/// Reads out what was captured into a store, batch by batch.
pub async fn rows(database: &TestDatabase, batches: usize) -> Rows {
    let client = connect(database).await;
    let numbered = format!(
        "create table batches as
         select id as letter, (row_number() over (order by id) - 1) / {BATCH} as batch from dead_letter_queue"
    );
    client.batch_execute(&numbered).await.expect("letters can be counted");
    let mut rows = Rows { before: Vec::new(), batches: vec![Vec::new(); batches] };
    for table in BEFORE {
        rows.before.push(read(&client, table, "").await);
    }
    for (table, letter) in TABLES {
        for (n, batch) in rows.batches.iter_mut().enumerate() {
            let of = format!("join batches b on b.letter = x.{letter} where b.batch = {n}");
            batch.push(read(&client, table, &of).await);
        }
    }
    rows
}

async fn read(client: &Client, table: &str, of: &str) -> Part {
    let columns = client
        .query(
            "select column_name::text from information_schema.columns
              where table_schema = 'lazaret' and table_name = $1 and is_generated = 'NEVER' and is_identity = 'NO'
              order by ordinal_position",
            &[&table],
        )
        .await
        .expect("the table is known");
    let columns: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
    let asked: Vec<String> = columns.iter().map(|column| format!("x.{column}")).collect();
    let out = format!("copy (select {} from {table} x {of}) to stdout (format binary)", asked.join(", "));
    let stream = client.copy_out(&out).await.expect("rows come");
    let bytes = stream.try_fold(BytesMut::new(), |mut all, part| async move {
        all.extend_from_slice(&part);
        Ok(all)
    });
    let bytes = bytes.await.expect("all of them come").freeze();
    (format!("copy {table} ({}) from stdin (format binary)", columns.join(", ")), bytes)
}

/// Puts the rows into an empty store, a commit for each batch.
pub async fn copy(database: &TestDatabase, rows: &Rows) -> Duration {
    let client = connect(database).await;
    let month = "select make_month(date_trunc('month', now() at time zone 'UTC')::date)";
    client.batch_execute(month).await.expect("the month is made");
    for part in &rows.before {
        put(&client, part).await;
    }
    let started = Instant::now();
    for batch in &rows.batches {
        client.batch_execute("begin").await.expect("a transaction begins");
        for part in batch {
            put(&client, part).await;
        }
        client.batch_execute("commit").await.expect("it commits");
    }
    started.elapsed()
}

async fn put(client: &Client, (statement, rows): &Part) {
    let mut sink = pin!(client.copy_in(statement).await.expect("rows are taken"));
    sink.send(rows.clone()).await.expect("the rows are sent");
    sink.finish().await.expect("the rows are good");
}
