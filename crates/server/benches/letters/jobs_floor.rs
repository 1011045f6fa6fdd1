//! The floor for jobs: what an operation changes in the tables, found by comparing them before and after, written again
//! by a bare loop into a copy of the tables before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lazaret_core::filter::words::indexed_text;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tempfile::TempDir;

use super::floor::settle;

/// Rows that others refer to come first.
const FIRST: [&str; 4] = ["incidents", "fingerprints", "letter_keys", "dead_letter_queue"];

/// All tables at one moment, and a copy of the file of that moment.
pub struct Dump {
    folder: TempDir,
    tables: BTreeMap<String, Table>,
}

struct Table {
    columns: Vec<String>,
    /// Places of the columns that tell rows apart.
    key: Vec<usize>,
    rows: Vec<Vec<Value>>,
}

impl Dump {
    pub fn of(data: &Path) -> Dump {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let conn = Connection::open(data.join("lazaret.db")).expect("the file opens");
        let copy = folder.path().join("copy.db");
        conn.execute("vacuum into ?1", [copy.to_str().expect("a plain path")]).expect("a copy is made");
        let mut names = conn
            .prepare(
                "select name from sqlite_schema
                  where type = 'table' and name not like 'sqlite\\_%' escape '\\' and name not like 'letter\\_words%' escape '\\'",
            )
            .expect("the schema can be read");
        let names: Vec<String> =
            names.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("names");
        let tables = names.into_iter().map(|name| (name.clone(), Table::read(&conn, &name))).collect();
        Dump { folder, tables }
    }

    fn copy(&self, into: &Path) -> PathBuf {
        let copy = into.join("floor.db");
        std::fs::copy(self.folder.path().join("copy.db"), &copy).expect("it can be copied");
        // What is not on the disk yet would be paid for by the first commits.
        std::fs::File::open(&copy).and_then(|file| file.sync_all()).expect("it can be synced");
        copy
    }
}

impl Table {
    fn read(conn: &Connection, name: &str) -> Table {
        let mut about = conn.prepare("select name, pk from pragma_table_info(?1)").expect("it can be asked");
        let about: Vec<(String, i64)> = about
            .query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .and_then(Iterator::collect)
            .expect("columns");
        let mut key: Vec<(i64, usize)> =
            about.iter().enumerate().filter(|(_, (_, pk))| *pk > 0).map(|(at, (_, pk))| (*pk, at)).collect();
        key.sort_unstable();
        let columns: Vec<String> = about.into_iter().map(|(name, _)| name).collect();
        let key: Vec<usize> = key.into_iter().map(|(_, at)| at).collect();
        let order: Vec<&str> = key.iter().map(|at| columns[*at].as_str()).collect();
        let text = format!("select {} from {name} order by {}", columns.join(", "), order.join(", "));
        let mut statement = conn.prepare(&text).expect("the table is there");
        let rows = statement
            .query_map([], |row| (0..columns.len()).map(|at| row.get(at)).collect())
            .and_then(Iterator::collect)
            .expect("the rows can be read");
        Table { columns, key, rows }
    }

    fn key_of(&self, row: &[Value]) -> String {
        format!("{:?}", self.key.iter().map(|at| &row[*at]).collect::<Vec<_>>())
    }
}

/// What is read before anything is written: the row alone is not enough to decide by.
#[derive(Clone, Copy)]
pub enum Look {
    /// Whether the id is a letter's.
    Key,
    /// The next jobs of the queue, so many at a time.
    Waiting(usize),
    /// The job itself.
    Job,
}

type Write = (usize, Vec<Value>);

/// One operation on many jobs as statements: those of each job, and those that are made once per commit.
pub struct Stage {
    statements: Vec<String>,
    before_all: Vec<Write>,
    jobs: Vec<Vec<Write>>,
    per_commit: Vec<Sums>,
}

/// Sums of one table that are kept as jobs move.
struct Sums {
    rows: Vec<Write>,
    /// How many of them one job moves: a commit of few jobs writes few.
    per_job: usize,
}

impl Stage {
    /// What changed between two moments at which `jobs` jobs were worked on.
    pub fn between(before: &Dump, after: &Dump, jobs: usize) -> Stage {
        let mut stage = Stage {
            statements: Vec::new(),
            before_all: Vec::new(),
            jobs: vec![Vec::new(); jobs],
            per_commit: Vec::new(),
        };
        let names: BTreeSet<&str> = after.tables.keys().map(String::as_str).collect();
        let rest = names.iter().filter(|name| !FIRST.contains(*name)).copied();
        for name in FIRST.into_iter().chain(rest) {
            let (was, is) = (&before.tables[name], &after.tables[name]);
            let known: BTreeMap<String, &Vec<Value>> =
                was.rows.iter().map(|row| (was.key_of(row), row)).collect();
            let (mut added, mut changed) = (Vec::new(), Vec::new());
            for row in &is.rows {
                match known.get(&is.key_of(row)) {
                    None => added.push(row.clone()),
                    Some(old) if **old != *row => changed.push((*old, row)),
                    Some(_) => {}
                }
            }
            stage.add_changed(name, is, &changed);
            stage.add_added(name, is, added);
        }
        stage
    }

    fn add_added(&mut self, name: &str, table: &Table, rows: Vec<Vec<Value>>) {
        if rows.is_empty() {
            return;
        }
        let jobs = self.jobs.len();
        let statement = self.statements.len();
        let marks = vec!["?"; table.columns.len()].join(", ");
        self.statements.push(format!("insert into {name} ({}) values ({marks})", table.columns.join(", ")));
        if rows.len() < jobs {
            // Sums that begin: there from the beginning, and changed with each commit.
            let same: Vec<_> = rows.iter().map(|row| (row, row)).collect();
            self.add_changed(name, table, &same);
            self.before_all.extend(rows.into_iter().map(|row| (statement, row)));
            return;
        }
        if name == "dead_letter_queue" {
            self.add_words(table, &rows);
        }
        let count = rows.len();
        for (at, row) in rows.into_iter().enumerate() {
            self.jobs[at * jobs / count].push((statement, row));
        }
    }

    fn add_words(&mut self, table: &Table, rows: &[Vec<Value>]) {
        let statement = self.statements.len();
        self.statements.push("insert into letter_words (rowid, words) values (?1, ?2)".into());
        let place = |name: &str| table.columns.iter().position(|column| column == name).expect("it is there");
        let [letter, of_type, error, message] = ["letter", "type", "error_type", "error_message"].map(place);
        let (jobs, count) = (self.jobs.len(), rows.len());
        for (at, row) in rows.iter().enumerate() {
            let words = indexed_text(text(&row[of_type]), text(&row[error]), text(&row[message]));
            self.jobs[at * jobs / count].push((statement, vec![row[letter].clone(), Value::Text(words)]));
        }
    }

    /// One statement for all columns that change in any row.
    fn add_changed(&mut self, name: &str, table: &Table, rows: &[(&Vec<Value>, &Vec<Value>)]) {
        if rows.is_empty() {
            return;
        }
        let differs = |at: &usize| rows.iter().any(|(was, is)| was[*at] != is[*at]);
        let mut columns: Vec<usize> =
            (0..table.columns.len()).filter(|at| !table.key.contains(at)).filter(differs).collect();
        if columns.is_empty() {
            columns = (0..table.columns.len()).filter(|at| !table.key.contains(at)).collect();
        }
        let named = |places: &[usize], between: &str| {
            let parts: Vec<String> = places.iter().map(|at| format!("{} = ?", table.columns[*at])).collect();
            parts.join(between)
        };
        let statement = self.statements.len();
        self.statements.push(format!(
            "update {name} set {} where {}",
            named(&columns, ", "),
            named(&table.key, " and ")
        ));
        let (jobs, count) = (self.jobs.len(), rows.len());
        let write = |row: &[Value]| -> Write {
            (statement, columns.iter().chain(&table.key).map(|at| row[*at].clone()).collect())
        };
        if count < jobs {
            let kept: Vec<&Vec<Value>> = rows.iter().map(|(_, row)| *row).collect();
            let per_job = moved_by_one(name, table, &kept);
            self.per_commit.push(Sums { rows: kept.into_iter().map(|row| write(row)).collect(), per_job });
            return;
        }
        for (at, (_, row)) in rows.iter().enumerate() {
            self.jobs[at * jobs / count].push(write(row));
        }
    }

    /// Makes the changes of the first `jobs` jobs in a copy of the tables before, so many in a commit.
    pub fn run(&self, before: &Dump, jobs: usize, per_commit: usize, look: Look) -> Duration {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let conn = Connection::open(before.copy(folder.path())).expect("the file opens");
        conn.execute_batch("pragma journal_mode = wal").expect("the mode is taken");
        settle(&conn);
        self.write(&conn, &self.before_all);
        let ids: Vec<Vec<u8>> = {
            let mut ids = conn.prepare("select id from jobs order by job").expect("the table is there");
            ids.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("ids")
        };
        let started = Instant::now();
        let mut done = 0;
        for commit in self.jobs[..jobs].chunks(per_commit.max(1)) {
            conn.execute_batch("begin immediate").expect("a transaction begins");
            for job in commit {
                look_at(&conn, look, ids.get(done).map_or(&[0; 16], Vec::as_slice), done);
                self.write(&conn, job);
                done += 1;
            }
            for Sums { rows, per_job } in &self.per_commit {
                self.write(&conn, &rows[..rows.len().min(commit.len() * per_job)]);
            }
            conn.execute_batch("commit").expect("it commits");
        }
        started.elapsed()
    }

    fn write(&self, conn: &Connection, writes: &[Write]) {
        for (statement, values) in writes {
            let mut prepared =
                conn.prepare_cached(&self.statements[*statement]).expect("the statement is good");
            prepared.execute(params_from_iter(values)).expect("the row is taken");
        }
    }
}

/// How many of the sums of a table one job moves: one by each way of counting, and an incident but never a fingerprint.
fn moved_by_one(name: &str, table: &Table, rows: &[&Vec<Value>]) -> usize {
    let ways: &[&str] = match name {
        "fingerprints" => return 0,
        "counters" => &["dimension", "term"],
        "flows" => &["dimension", "step"],
        _ => return 1,
    };
    let places = ways.iter().filter_map(|way| table.columns.iter().position(|column| column == way));
    let places: Vec<usize> = places.collect();
    let found: BTreeSet<String> = rows
        .iter()
        .map(|row| format!("{:?}", places.iter().map(|at| &row[*at]).collect::<Vec<_>>()))
        .collect();
    found.len()
}

fn look_at(conn: &Connection, look: Look, id: &[u8], done: usize) {
    let (text, values) = match look {
        Look::Key => (
            "select number from key_index where hash = ?1",
            vec![Value::Blob(id.iter().copied().take(8).collect())],
        ),
        Look::Job => ("select * from jobs where id = ?1", vec![Value::Blob(id.to_vec())]),
        Look::Waiting(count) if done.is_multiple_of(count) => (
            "select * from jobs where queue = ?1 and state = 'available' order by priority desc, enqueued_at, job limit ?2",
            vec![Value::Text(super::jobs_load::QUEUE.into()), Value::Integer(count as i64)],
        ),
        Look::Waiting(_) => return,
    };
    let mut statement = conn.prepare_cached(text).expect("the statement is good");
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(values)).expect("it can be asked");
    while let Some(row) = rows.next().expect("it can be read") {
        std::hint::black_box((0..columns).map(|at| row.get_ref(at).is_ok()).filter(|read| *read).count());
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => "",
    }
}
