//! A whole store on its way into another one, table by table.
//!
//! Rows travel as the embedded store keeps them: times in milliseconds, ids as bytes, booleans as 0 and 1; texts without
//! NUL, which PostgreSQL cannot hold. Tables and columns that a store derives from others (row numbers, search words,
//! extracts) do not travel: the target derives its own. It is written in one transaction, so a copy that fails leaves
//! nothing behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::limits;
use tokio::sync::mpsc;

use crate::StoreError;

/// Every table that both stores have, parents before the tables that refer to them. `plan` refuses a schema with a table
/// that is neither here nor in the lists below, so a new one cannot be forgotten.
pub const TABLES: [&str; 46] = [
    "meta",
    "tokens",
    "sessions",
    "incidents",
    "fingerprints",
    "rcas",
    "fixes",
    "incident_timeline",
    "dead_letter_queue",
    "letter_keys",
    "lives",
    "attempts",
    "past_decisions",
    "trash",
    "trash_lives",
    "trash_attempts",
    "archive_files",
    "archive",
    "archive_rows",
    "archive_attempts",
    "holds",
    "hold_letters",
    "counters",
    "flows",
    "operations",
    "selections",
    "redrives",
    "redrive_groups",
    "redrive_letters",
    "run_minutes",
    "send_numbers",
    "claims",
    "edits",
    "replays",
    "replay_rules",
    "jobs",
    "queues",
    "workers",
    "audit",
    "events",
    "relay_tries",
    "alerts",
    "alert_groups",
    "silences",
    "notifications",
    "alert_progress",
];

/// Tables that the shared store has alone. Their content is derived, or travels in another form: positions of lives as a
/// column of `lives`, the newest positions as `Positions`.
const OWN_TABLES: [&str; 4] = ["positions", "life_positions", "body_words", "body_words_reached"];

/// Tables that the embedded store has alone. What jobs were enqueued with travels in `jobs.detail`.
const EMBEDDED_TABLES: [&str; 2] = ["job_requests", "key_index"];

/// Columns of `LETTER_TABLES` that one store has alone and derives from others.
const OWN_LETTER_COLUMNS: [&str; 6] =
    ["letter", "original_event", "error_stack_trace", "error_context", "retry_history", "words"];

/// The place of a key in the embedded store.
const KEY_NUMBER: &str = "number";

/// A column of live letters that the embedded store has alone: a copy is listed while it is written.
const LISTED: &str = "listed";

/// Letters, live and removed: the tables with derived columns.
pub(crate) const LETTER_TABLES: [&str; 2] = ["dead_letter_queue", "trash"];

/// Keys of `meta` that say how this very store was made, as a list in SQL.
pub(crate) const OWN_META: &str =
    "('application', 'format', 'mode', 'numbers', 'listed', 'keys', 'extracts')";

/// Tables and their columns as a store has them.
pub type Schema = BTreeMap<String, BTreeSet<String>>;

/// The tables to copy in the order of copying, each with the columns of its rows.
pub type Plan = Arc<[(&'static str, Arc<[String]>)]>;

/// Works out which columns travel. Refuses schemas that differ in more than what is derived.
pub fn plan(from: &Schema, to: &Schema, order: Vec<&'static str>) -> Result<Plan, StoreError> {
    for table in from.keys().chain(to.keys()) {
        let table = table.as_str();
        if !TABLES.contains(&table) && !OWN_TABLES.contains(&table) && !EMBEDDED_TABLES.contains(&table) {
            return Err(StoreError::Corrupt(format!("it is not known how to copy the table {table}")));
        }
    }
    let missing = |table: &str| StoreError::Corrupt(format!("there is no table {table}"));
    let mut plan = Vec::with_capacity(order.len());
    for table in order {
        let from = from.get(table).ok_or_else(|| missing(table))?;
        let to = to.get(table).ok_or_else(|| missing(table))?;
        let is_own = |column: &&String| {
            (table == "letter_keys" && *column == KEY_NUMBER)
                || LETTER_TABLES.contains(&table)
                    && (OWN_LETTER_COLUMNS.contains(&column.as_str()) || *column == LISTED)
        };
        if let Some(column) = from.symmetric_difference(to).find(|column| !is_own(column)) {
            let told = format!("only one of the stores has the column {column} of {table}");
            return Err(StoreError::Corrupt(told));
        }
        plan.push((table, from.intersection(to).filter(|column| !is_own(column)).cloned().collect()));
    }
    Ok(plan.into())
}

/// The schema of the shared store in a format, worked out from that of the embedded store: they differ in what is derived.
pub(crate) fn shared_schema(format: u32, embedded: Schema) -> Schema {
    let own: BTreeSet<String> = OWN_LETTER_COLUMNS.map(str::to_owned).into();
    let mut schema = embedded;
    schema.retain(|table, _| TABLES.contains(&table.as_str()));
    for table in LETTER_TABLES {
        if let Some(columns) = schema.get_mut(table) {
            columns.remove(LISTED);
            // An own column is one that the other store does not have.
            *columns = columns.symmetric_difference(&own).cloned().collect();
        }
    }
    if let Some(columns) = schema.get_mut("letter_keys") {
        columns.remove(KEY_NUMBER);
    }
    // The first format had no body index.
    for table in OWN_TABLES.into_iter().filter(|_| format > 1) {
        schema.entry(table.to_owned()).or_default();
    }
    schema
}

/// Fails if a store lacks tables or columns of the format that it says it has, as after an upgrade on a damaged disk or a
/// backup restored in part. Without this the first request that needs one fails with the database's own words.
pub(crate) fn require_schema(format: u32, expected: &Schema, found: &Schema) -> Result<(), StoreError> {
    let mut missing = Vec::new();
    for (table, columns) in expected {
        match found.get(table) {
            None => missing.push(format!("table {table}")),
            Some(there) => {
                missing.extend(columns.difference(there).map(|column| format!("column {table}.{column}")));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(StoreError::Damaged { format, missing: missing.join(", ") })
}

/// One value of a row, as the embedded store keeps it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Value::Null | Value::Integer(_) => 8,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            Value::Null | Value::Integer(_) | Value::Bytes(_) => "",
        }
    }
}

/// Rows of one table.
#[derive(Clone, Debug)]
pub struct Batch {
    pub table: &'static str,
    pub columns: Arc<[String]>,
    pub rows: Vec<Vec<Value>>,
}

impl Batch {
    /// Where in a row the column is.
    pub(crate) fn index(&self, column: &str) -> Result<usize, StoreError> {
        self.columns
            .iter()
            .position(|one| one == column)
            .ok_or_else(|| StoreError::Corrupt(format!("{} has no column {column}", self.table)))
    }
}

/// What travels.
#[derive(Clone, Debug)]
pub enum Piece {
    Rows(Batch),
    /// Everything was sent.
    End(Positions),
}

/// The highest positions that were ever given: none of them is given again, although rows may be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Positions {
    pub events: i64,
    pub audit: i64,
    pub lives: i64,
    pub archive: i64,
}

/// Collects rows into batches of bounded size.
pub(crate) struct Batches {
    batch: Batch,
    bytes: usize,
}

impl Batches {
    pub fn new(table: &'static str, columns: &Arc<[String]>) -> Batches {
        Batches { batch: Batch { table, columns: Arc::clone(columns), rows: Vec::new() }, bytes: 0 }
    }

    /// Adds a row; returns a batch that is full by it.
    pub fn add(&mut self, row: Vec<Value>) -> Option<Piece> {
        self.bytes += row.iter().map(Value::bytes).sum::<usize>();
        self.batch.rows.push(row);
        let full = self.batch.rows.len() >= limits::COPY_ROWS_PER_BATCH
            || self.bytes >= limits::COPY_BYTES_PER_BATCH;
        full.then(|| self.take())
    }

    /// What was collected since the last full batch.
    pub fn take(&mut self) -> Piece {
        let rows = std::mem::take(&mut self.batch.rows);
        self.bytes = 0;
        Piece::Rows(Batch { rows, ..self.batch.clone() })
    }
}

/// A store as source or target of a copy. Nobody else may use it meanwhile: a store that a server uses says `Held`.
#[async_trait]
pub trait CopyStore {
    async fn copy_schema(&self) -> Result<Schema, StoreError>;

    /// The order in which this store takes tables.
    fn copy_order(&self) -> Vec<&'static str>;

    /// The first table with rows of those that a copy would fill.
    async fn first_filled(&self) -> Result<Option<&'static str>, StoreError>;

    /// Sends all rows of one snapshot. If the receiver goes away it ends early and without an error.
    async fn copy_out(&self, plan: Plan, out: mpsc::Sender<Piece>) -> Result<(), StoreError>;

    /// Stores what arrives in one transaction, and commits it at the end; returns false if the sender went away before.
    /// The store has to be opened anew before it is used.
    async fn copy_in(&self, pieces: mpsc::Receiver<Piece>) -> Result<bool, StoreError>;
}
