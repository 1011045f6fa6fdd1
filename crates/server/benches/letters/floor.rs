//! The floor: the rows that a capture leaves behind, written again by a bare loop into the same tables and indexes.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use lazaret_core::filter::words::indexed_text;
use lazaret_store::sqlite::{Mode, SqliteStore};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::capture::read;
use super::sample::bed;

/// The tables that a captured letter has rows in, with the column that orders them by letter.
const TABLES: [(&str, &str); 5] = [
    ("dead_letter_queue", "letter"),
    ("letter_keys", "(select letter from dead_letter_queue d where d.id = letter_keys.id)"),
    ("lives", "letter"),
    ("attempts", "letter"),
    ("events", "(select letter from dead_letter_queue d where d.id = events.letter)"),
];

/// Stands for no letter: counters are written once per commit, after all letters.
const AT_THE_END: i64 = i64::MAX;

/// The minute that all letters came in.
const MINUTE: i64 = 29_000_040;

/// What one batch writes, letter by letter as a capture does: the letter, the statement, its values.
pub struct Batch {
    writes: Vec<(i64, usize, Vec<Value>)>,
}

/// Everything the loop needs, read out of a store that captured the same letters.
pub struct Rows {
    statements: Vec<String>,
    before: Batch,
    batches: Vec<Batch>,
}

pub async fn rows(texts: &[Vec<String>]) -> Rows {
    let bed = bed().await;
    for texts in texts {
        lazaret_server::capture::capture(&bed.app, read(&bed.app, texts)).await.expect("the batch is stored");
    }
    bed.app.store.close().await.expect("the store closes");
    let conn = Connection::open(bed.folder.path().join("lazaret.db")).expect("the file opens");
    let mut statements = Vec::new();
    let mut before = Batch { writes: Vec::new() };
    // The sums of incidents are added up anew, as the letters are.
    conn.execute_batch("update incidents set letters = 0, unsettled = 0, last_seen_at = 0")
        .expect("it can be written");
    for table in ["incidents", "fingerprints"] {
        let rows = read_table(&conn, table, "1");
        before.writes.extend(rows.into_iter().map(|row| (0, statements.len(), row.values)));
        statements.push(insert_into(&conn, table));
    }
    let mut batches: Vec<Batch> = texts.iter().map(|_| Batch { writes: Vec::new() }).collect();
    let size = texts[0].len() as i64;
    let into = |letter: i64| ((letter - 1) / size) as usize;
    for (table, letter) in TABLES {
        for row in read_table(&conn, table, letter) {
            // The opening of an incident belongs to no letter.
            let Some(letter) = row.letter else { continue };
            batches[into(letter)].writes.push((letter, statements.len(), row.values));
        }
        statements.push(insert_into(&conn, table));
    }
    let words = statements.len();
    statements.push("insert into letter_words (rowid, words) values (?1, ?2)".into());
    let counters = statements.len();
    statements.push(
        "insert into counters (dimension, value, term, letters) values (?1, ?2, ?3, ?4)
         on conflict (dimension, value, term) do update set letters = letters + excluded.letters"
            .into(),
    );
    let flows = statements.len();
    statements.push(
        "insert into flows (dimension, value, step, minute, arrived, departed) values (?1, ?2, ?3, ?4, ?5, 0)
         on conflict (dimension, value, step, minute) do update set arrived = arrived + excluded.arrived"
            .into(),
    );
    let incidents = statements.len();
    statements.push(
        "update incidents set letters = letters + ?2, unsettled = unsettled + ?2, last_seen_at = ?3
          where id = (select incident from fingerprints where fingerprint = ?1)"
            .into(),
    );
    add_derived(&conn, &mut batches, into, [words, counters, flows, incidents]);
    for batch in &mut batches {
        batch.writes.sort_by_key(|(letter, statement, _)| (*letter, *statement));
    }
    Rows { statements, before, batches }
}

/// Writes all batches into a fresh store, one transaction each, and says how long that took.
pub fn write_batches(rows: &Rows) -> Duration {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let conn = fresh(folder.path());
    write(&conn, rows, &rows.before);
    let started = Instant::now();
    for batch in &rows.batches {
        conn.execute_batch("begin immediate").expect("a transaction begins");
        write(&conn, rows, batch);
        conn.execute_batch("commit").expect("it commits");
    }
    started.elapsed()
}

/// Writes letters one commit each: the floor of a client that reports one at a time.
pub fn write_singly(rows: &Rows, letters: usize) -> Duration {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let conn = fresh(folder.path());
    write(&conn, rows, &rows.before);
    let mut singles: Vec<Batch> = (0..letters).map(|_| Batch { writes: Vec::new() }).collect();
    for (letter, statement, values) in &rows.batches[0].writes {
        if let Some(single) = singles.get_mut(*letter as usize - 1) {
            single.writes.push((*letter, *statement, values.clone()));
        }
    }
    // Each commit of one letter changes a counter for each of its names.
    let counters: Vec<_> =
        rows.batches[0].writes.iter().filter(|(letter, ..)| *letter == AT_THE_END).take(10).collect();
    for single in &mut singles {
        single.writes.extend(counters.iter().map(|write| (*write).clone()));
    }
    let started = Instant::now();
    for batch in &singles {
        conn.execute_batch("begin immediate").expect("a transaction begins");
        write(&conn, rows, batch);
        conn.execute_batch("commit").expect("it commits");
    }
    started.elapsed()
}

fn write(conn: &Connection, rows: &Rows, batch: &Batch) {
    for (_, statement, values) in &batch.writes {
        let mut prepared = conn.prepare_cached(&rows.statements[*statement]).expect("the statement is good");
        prepared.execute(params_from_iter(values)).expect("the row is taken");
    }
}

/// An empty store of the same format, opened with the same settings as the real one.
fn fresh(folder: &Path) -> Connection {
    drop(SqliteStore::open(folder, Mode::Real).expect("the store opens"));
    let conn = Connection::open(folder.join("lazaret.db")).expect("the file opens");
    settle(&conn);
    conn
}

/// The settings of the real store.
pub fn settle(conn: &Connection) {
    conn.execute_batch(
        "pragma busy_timeout = 5000; pragma synchronous = full; pragma foreign_keys = on; pragma cache_size = -24000;
         pragma temp_store = memory; pragma wal_autocheckpoint = 4000; pragma journal_size_limit = 67108864;",
    )
    .expect("the settings are taken");
    conn.set_prepared_statement_cache_capacity(64);
}

struct Row {
    letter: Option<i64>,
    values: Vec<Value>,
}

fn read_table(conn: &Connection, table: &str, letter: &str) -> Vec<Row> {
    let mut statement =
        conn.prepare(&format!("select {letter}, * from {table} order by 1")).expect("the table is there");
    let columns = statement.column_count();
    statement
        .query_map([], |row| {
            let values = (1..columns).map(|at| row.get(at)).collect::<Result<_, _>>()?;
            Ok(Row { letter: row.get(0)?, values })
        })
        .and_then(Iterator::collect)
        .expect("the rows can be read")
}

fn insert_into(conn: &Connection, table: &str) -> String {
    let columns = conn.prepare(&format!("select * from {table}")).expect("the table is there").column_count();
    let marks = vec!["?"; columns].join(", ");
    format!("insert into {table} values ({marks})")
}

/// The message index and the counters: what a batch of such letters adds to them.
fn add_derived(
    conn: &Connection,
    batches: &mut [Batch],
    into: impl Fn(i64) -> usize,
    statements: [usize; 4],
) {
    let [words, counters, flows, incidents] = statements;
    let mut statement = conn
        .prepare(
            "select letter, source, queue, type, error_type, class, fingerprint, error_message, created_at
               from dead_letter_queue order by letter",
        )
        .expect("the table is there");
    let mut counted: Vec<HashMap<(&str, String), i64>> = batches.iter().map(|_| HashMap::new()).collect();
    let mut rows = statement.query([]).expect("it can be read");
    while let Some(row) = rows.next().expect("it can be read") {
        let letter: i64 = row.get(0).expect("an integer");
        let text = |at: usize| row.get::<_, String>(at).expect("a text");
        let indexed = indexed_text(&text(3), &text(4), &text(7));
        batches[into(letter)].writes.push((
            letter,
            words,
            vec![Value::Integer(letter), Value::Text(indexed)],
        ));
        let counted = &mut counted[into(letter)];
        *counted.entry(("all", String::new())).or_default() += 1;
        for (at, dimension) in
            [(1, "source"), (2, "queue"), (3, "type"), (4, "error_type"), (5, "class"), (6, "fingerprint")]
        {
            *counted.entry((dimension, text(at))).or_default() += 1;
        }
    }
    for (batch, counted) in batches.iter_mut().zip(counted) {
        for ((dimension, value), letters) in counted {
            let dimension_value = Value::Text(dimension.into());
            let (value, letters) = (Value::Text(value), Value::Integer(letters));
            if ["all", "source", "queue", "type", "fingerprint"].contains(&dimension) {
                for step in [1, 60] {
                    let at = [Value::Integer(step), Value::Integer(MINUTE)];
                    let mut values = vec![dimension_value.clone(), value.clone()];
                    values.extend(at);
                    values.push(letters.clone());
                    batch.writes.push((AT_THE_END, flows, values));
                }
            }
            if dimension == "fingerprint" {
                let values = vec![value.clone(), letters.clone(), Value::Integer(MINUTE * 60_000)];
                batch.writes.push((AT_THE_END, incidents, values));
            }
            let term = Value::Text("pending".into());
            batch.writes.push((AT_THE_END, counters, vec![dimension_value, value, term, letters]));
        }
    }
}
