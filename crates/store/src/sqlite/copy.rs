//! The embedded store as source and target of a copy, over a connection of its own.

use async_trait::async_trait;
use lazaret_core::filter::words::indexed_text;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql};
use tokio::sync::mpsc;

use super::numbers::Numbers;
use super::{SqliteStore, migrate};
use crate::StoreError;
use crate::copy::{Batch, Batches, CopyStore, OWN_META, Piece, Plan, Positions, Schema, TABLES, Value};
use crate::job::detail;

#[async_trait]
impl CopyStore for SqliteStore {
    async fn copy_schema(&self) -> Result<Schema, StoreError> {
        self.readers.read(|conn| schema(conn)).await
    }

    fn copy_order(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    async fn first_filled(&self) -> Result<Option<&'static str>, StoreError> {
        self.readers.read(|conn| first_filled(conn)).await
    }

    async fn copy_out(&self, plan: Plan, out: mpsc::Sender<Piece>) -> Result<(), StoreError> {
        let path = self.folder.database();
        off_thread(move || send(&Connection::open(path)?, &plan, &out)).await
    }

    async fn copy_in(&self, mut pieces: mpsc::Receiver<Piece>) -> Result<bool, StoreError> {
        let path = self.folder.database();
        off_thread(move || receive(&Connection::open(path)?, &mut pieces)).await
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(StoreError::Unavailable { doing: "copying", source: Some(Box::new(error)) })
    })
}

/// What travels: the message index and the tables that it is kept in are derived.
fn schema(conn: &Connection) -> Result<Schema, StoreError> {
    let mut schema = migrate::schema(conn)?;
    schema.retain(|table, _| !table.starts_with("sqlite_") && !table.starts_with("letter_words"));
    schema.entry("lives".into()).or_default().insert("position".into());
    Ok(schema)
}

fn first_filled(conn: &Connection) -> Result<Option<&'static str>, StoreError> {
    for table in TABLES.into_iter().filter(|table| *table != "meta") {
        if conn.query_row(&format!("select exists (select 1 from {table})"), [], |row| row.get(0))? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// The table that the number in a row's `letter` is of, where that is no id.
fn numbered_in(table: &str) -> Option<&'static str> {
    match table {
        "lives" | "attempts" => Some("dead_letter_queue"),
        "trash_lives" | "trash_attempts" => Some("trash"),
        _ => None,
    }
}

fn select(table: &str, columns: &[String]) -> String {
    let letters = numbered_in(table);
    let columns: Vec<String> = columns
        .iter()
        .map(|column| match column.as_str() {
            "letter" if letters.is_some() => "l.id".to_owned(),
            "position" if table == "lives" => "t.rowid".to_owned(),
            column => format!("t.\"{column}\""),
        })
        .collect();
    let columns = columns.join(", ");
    match letters {
        // In the order of capture.
        Some(letters) => {
            format!(
                "select {columns} from {table} t cross join {letters} l on l.letter = t.letter order by t.rowid"
            )
        }
        None if table == "jobs" => {
            format!("select {columns}, r.request from jobs t left join job_requests r on r.job = t.job")
        }
        None if table == "meta" => format!("select {columns} from meta t where key not in {OWN_META}"),
        None => format!("select {columns} from {table} t"),
    }
}

fn send(conn: &Connection, plan: &Plan, out: &mpsc::Sender<Piece>) -> Result<(), StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    for (table, columns) in plan.iter() {
        let mut statement = conn.prepare(&select(table, columns))?;
        let mut rows = statement.query([])?;
        let mut batches = Batches::new(table, columns);
        while let Some(row) = rows.next()? {
            let mut values: Vec<Value> =
                (0..columns.len()).map(|at| value(row.get_ref(at)?)).collect::<Result<_, _>>()?;
            if *table == "jobs" {
                make_whole(&mut values, columns, row.get_ref(columns.len())?)?;
            }
            if let Some(full) = batches.add(values)
                && out.blocking_send(full).is_err()
            {
                return Ok(());
            }
        }
        if out.blocking_send(batches.take()).is_err() {
            return Ok(());
        }
    }
    let positions = Positions {
        events: sequence(conn, "events")?,
        audit: sequence(conn, "audit")?,
        lives: Numbers::read(conn)?.last_life(),
        archive: sequence(conn, "archive")?,
    };
    drop(snapshot);
    // Whoever went away knows why.
    out.blocking_send(Piece::End(positions)).ok();
    Ok(())
}

/// Puts what a job was enqueued with before its course: both travel as one text.
fn make_whole(row: &mut [Value], columns: &[String], request: ValueRef<'_>) -> Result<(), StoreError> {
    let course = row.iter_mut().zip(columns).find(|(_, column)| *column == "detail").map(|(value, _)| value);
    if let (Some(Value::Bytes(course)), ValueRef::Blob(request)) = (course, request) {
        *course = detail::join(request, course)?;
    }
    Ok(())
}

/// Makes every job's row whole, as formats before 17 had them.
#[cfg(feature = "testing")]
pub(crate) fn make_jobs_whole(conn: &Connection) -> Result<(), StoreError> {
    let mut statement =
        conn.prepare("select j.job, r.request, j.detail from jobs j join job_requests r on r.job = j.job")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = rows.collect::<Result<_, _>>()?;
    for (job, request, course) in rows {
        let whole = detail::join(&request, &course)?;
        conn.execute("update jobs set detail = ?2 where job = ?1", (job, whole))?;
    }
    Ok(())
}

fn sequence(conn: &Connection, table: &str) -> Result<i64, StoreError> {
    let found = conn.query_row("select seq from sqlite_sequence where name = ?1", [table], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

fn value(value: ValueRef<'_>) -> Result<Value, StoreError> {
    let wrong = || StoreError::Corrupt("a column holds what it cannot hold".into());
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        // PostgreSQL knows no NUL, and a copy is the same wherever it is.
        ValueRef::Text(text) => {
            Value::Text(std::str::from_utf8(text).map_err(|_| wrong())?.replace('\0', "\u{fffd}"))
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => return Err(wrong()),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn receive(conn: &Connection, pieces: &mut mpsc::Receiver<Piece>) -> Result<bool, StoreError> {
    // Rows may come before those that they refer to.
    conn.execute_batch(
        "pragma cache_size = -64000; pragma temp_store = memory; pragma foreign_keys = on;
         begin immediate; pragma defer_foreign_keys = on;",
    )?;
    conn.set_prepared_statement_cache_capacity(TABLES.len() + 2);
    let mut letters = 0;
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Rows(batch) => add(conn, &batch, &mut letters)?,
            Piece::End(positions) => {
                keep_positions(conn, letters, positions)?;
                conn.execute_batch("commit")?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Letters get numbers in the order in which they arrive, live and removed ones in one row.
fn add(conn: &Connection, batch: &Batch, letters: &mut i64) -> Result<(), StoreError> {
    let is_letter = crate::copy::LETTER_TABLES.contains(&batch.table);
    let is_live = batch.table == "dead_letter_queue";
    let words = if is_live {
        [batch.index("type")?, batch.index("error_type")?, batch.index("error_message")?]
    } else {
        [0; 3]
    };
    let mut insert = conn.prepare_cached(&insert(batch.table, &batch.columns))?;
    for row in &batch.rows {
        let mut binds: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
        if is_letter {
            *letters += 1;
            binds.push(letters);
        }
        insert.execute(binds.as_slice())?;
        if is_live {
            let [letter_type, error_type, message] = words.map(|at| row[at].text());
            conn.prepare_cached("insert into letter_words (rowid, words) values (?1, ?2)")?
                .execute((*letters, indexed_text(letter_type, error_type, message)))?;
        }
    }
    Ok(())
}

fn insert(table: &str, columns: &[String]) -> String {
    let letters = numbered_in(table);
    let mut names: Vec<String> = Vec::with_capacity(columns.len() + 1);
    let mut values: Vec<String> = Vec::with_capacity(columns.len() + 1);
    for (column, n) in columns.iter().zip(1..) {
        match (column.as_str(), letters) {
            ("letter", Some(letters)) => {
                values.push(format!("(select letter from {letters} where id = ?{n})"))
            }
            _ => values.push(format!("?{n}")),
        }
        let is_position = column == "position" && table == "lives";
        names.push(if is_position { "rowid".to_owned() } else { format!("\"{column}\"") });
    }
    if crate::copy::LETTER_TABLES.contains(&table) {
        names.push("letter".to_owned());
        values.push(format!("?{}", columns.len() + 1));
    }
    format!("insert into {table} ({}) values ({})", names.join(", "), values.join(", "))
}

fn keep_positions(conn: &Connection, letters: i64, positions: Positions) -> Result<(), StoreError> {
    let Positions { events, audit, lives, archive } = positions;
    for (table, position) in [("events", events), ("audit", audit), ("archive", archive)] {
        conn.execute("delete from sqlite_sequence where name = ?1", [table])?;
        conn.execute("insert into sqlite_sequence (name, seq) values (?1, ?2)", (table, position))?;
    }
    conn.execute(
        "insert or replace into meta (key, value) values ('numbers', ?1)",
        [format!("[{letters},{lives}]")],
    )?;
    Ok(())
}
