//! Stores of every earlier format, with data, are upgraded by a process that is killed in the middle of a step, between
//! steps and in the middle of what is filled behind the upgrade. Nothing is lost by it.
//!
//! An old store is made by the migrations up to its format, and gets the rows of a new store as far as it has tables and
//! columns for them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use lazaret_core::gate::Passed;
use lazaret_core::id::LetterId;
use lazaret_core::job::Job;
use lazaret_core::letter::{Captured, Outcome};
use lazaret_store::claim::ClaimStep;
use lazaret_store::copy::Schema;
use lazaret_store::decision::Verb;
use lazaret_store::failure::{Failure, FailurePoint, Failures};
use lazaret_store::job::JobQuery;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::{LedgerBy, StatsOf};
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::upgrade::{
    newest, postgres_killed_after, sqlite_jobs_whole, sqlite_killed_after,
};
use lazaret_store::{Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::analyses::cured;
use crate::books;
use crate::job_letters::{DYING, dead};
use crate::jobs::{enqueue, new};
use crate::postgres_many::connect;
use crate::redrives::{run, unpaced};
use crate::rig::{Opening, Rig, at, captured, dying, envelope, failed, mark};

/// What a store of the format could hold: letters in every state, then jobs, deleted letters, redrives and analyses.
async fn fill(rig: &Rig, format: u32) {
    let letter = |event: &str, queue: &str| Captured {
        queue: queue.into(),
        envelope: envelope(format!(r#"{{"word":"body{event}"}}"#).as_bytes()),
        attempts: vec![failed(at(-2_000), "first"), failed(at(-1_000), "second")],
        ..dying(event, at(0))
    };
    rig.create(letter("pending", "orders"), at(10)).await;
    let resolved = rig.create(letter("resolved", "orders"), at(10)).await;
    rig.done(resolved, Verb::Resolve, at(20)).await;
    let discarded = rig.create(letter("discarded", "orders"), at(10)).await;
    rig.done(discarded, Verb::Discard, at(20)).await;
    let held = rig.create(letter("held", "orders"), at(10)).await;
    rig.done(held, Verb::Hold, at(20)).await;
    let again = rig.create(letter("again", "mails"), at(10)).await;
    let sent_by = rig.send(again, ClaimStep::Sent, at(30)).await;
    let relapse =
        Captured { mark: mark(again, 1, sent_by), died_at: Some(at(40)), ..letter("again", "mails") };
    assert_eq!(rig.capture(relapse, at(50)).await.outcome, Outcome::Relapse);
    let sent = rig.create(letter("sent", "mails"), at(10)).await;
    rig.send(sent, ClaimStep::Sent, at(30)).await;
    if format >= 4 {
        dead(rig).await;
        enqueue(rig, vec![new(rig, DYING, at(60))], at(60)).await;
    }
    if format >= 5 {
        let deleted = rig.create(letter("deleted", "orders"), at(10)).await;
        rig.done(deleted, Verb::Delete, at(70)).await;
    }
    if format >= 7 {
        let analysed = Captured { letter_type: "other".into(), ..letter("analysed", "orders") };
        let analysed = rig.create(analysed, at(10)).await;
        cured(rig, rig.letter(analysed).await.incident, 80, 80).await;
        rig.create(letter("running", "redriven"), at(10)).await;
        run(rig, "event:running", Passed::Freely, unpaced(), 90).await;
    }
}

/// Everything that has to be the same after an upgrade.
#[derive(PartialEq, Debug)]
struct Facts {
    /// Each letter with its lives, attempts and decisions, and its original.
    letters: BTreeMap<LetterId, String>,
    counts: String,
    jobs: Vec<Job>,
}

async fn facts(rig: &Rig) -> Facts {
    let store = rig.store();
    let mut letters = BTreeMap::new();
    for id in rig.find("").await {
        let original = store.original(id, None).await.unwrap().unwrap();
        letters.insert(id, format!("{:#?}\n{:?}", rig.history(id).await, original.envelope));
    }
    let stats = store.stats(StatsOf::All).await.unwrap();
    let ledger = store.ledger(LedgerBy::Counters).await.unwrap();
    let (incidents, queues) = (store.incident_counts().await.unwrap(), store.queues().await.unwrap());
    let all = JobQuery { queue: None, state: None, job_type: None, worker: None, before: None, limit: 100 };
    let jobs = store.jobs(all).await.unwrap().jobs;
    Facts { letters, counts: format!("{stats:#?}\n{ledger:?}\n{incidents:?}\n{queues:?}"), jobs }
}

/// Statements that fill the tables of an old store in `old` with the rows of a new one in the schema `template`.
fn filling(format: u32, (old, tables): (&str, &Schema), template: &Schema, overriding: &str) -> Vec<String> {
    let mut statements = Vec::new();
    // The message index is filled by the tables that it keeps itself in.
    for (table, columns) in tables.iter().filter(|(table, _)| *table != "letter_words") {
        let Some(there) = template.get(table) else { continue };
        let mut pairs: Vec<(String, String)> = columns
            .intersection(there)
            .map(|column| (format!("\"{column}\""), format!("t.\"{column}\"")))
            .collect();
        if table == "trash" && columns.contains("deleted_at") {
            let of_key =
                |column| format!("(select k.{column} from template.letter_keys k where k.id = t.id)");
            pairs.extend([
                ("deleted_at".into(), of_key("removed_at")),
                ("deleted_by".into(), of_key("removed_by")),
                ("kept_until".into(), of_key("removed_at")),
            ]);
        }
        let condition = match table.as_str() {
            "meta" => "t.key not in ('application', 'format', 'extracts')",
            // Counted by the step to format 6.
            "counters" if format < 6 => "t.dimension not like 'job%'",
            _ => "true",
        };
        if table != "meta" {
            statements.push(format!("delete from {old}.{table}"));
        }
        let (names, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        statements.push(format!(
            "insert into {old}.{table} ({}) {overriding} select {} from template.{table} t where {condition}
             on conflict do nothing",
            names.join(", "),
            values.join(", ")
        ));
    }
    if tables.contains_key("series") {
        statements.push(format!(
            "insert into {old}.series (minute, dimension, value, arrived, departed)
             select minute, dimension, value, arrived, departed from template.flows
              where step = 1 and dimension <> 'all'"
        ));
    }
    statements
}

/// A store of one kind, and how it is killed.
trait Upgraded {
    fn opening(&self) -> Opening;
    /// Turns the new store into one of an earlier format with the same rows.
    async fn make_old(&self, format: u32);
    async fn kill_after(&self, format: u32);
    /// Fills some of what is filled behind an upgrade, in a process that is killed at the commit.
    async fn kill_tick(&self);
}

async fn fill_behind(store: &dyn Store) -> Result<bool, StoreError> {
    let more = store.refill_extracts(3).await?;
    Ok(store.index_bodies(3).await?.behind > 0 || more)
}

async fn killed_tick(store: &dyn Store, failures: &Failures) {
    failures.plan(FailurePoint::Commit, Failure::Unavailable, 1);
    fill_behind(store).await.ok();
}

struct File(TempDir);

impl File {
    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn database(&self) -> PathBuf {
        self.data().join("lazaret.db")
    }
}

impl Upgraded for File {
    fn opening(&self) -> Opening {
        let path = self.data();
        Box::new(move || {
            let store = SqliteStore::open(&path, Mode::Test).unwrap();
            Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
        })
    }

    async fn make_old(&self, format: u32) {
        let template = self.0.path().join("template.db");
        let saved = Connection::open(self.database()).unwrap();
        saved.execute("vacuum into ?1", [template.to_str().unwrap()]).unwrap();
        drop(saved);
        if format < 17 {
            sqlite_jobs_whole(&template);
        }
        std::fs::remove_dir_all(self.data()).unwrap();
        std::fs::create_dir(self.data()).unwrap();
        sqlite_killed_after(&self.database(), format);
        let conn = Connection::open(self.database()).unwrap();
        conn.execute("attach ?1 as template", [template.to_str().unwrap()]).unwrap();
        let schema = |name: &str| {
            let sql = format!(
                "select t.name, c.name from {name}.sqlite_schema t join pragma_table_info(t.name, '{name}') c
                  where t.type = 'table'"
            );
            let mut schema = Schema::new();
            let mut statement = conn.prepare(&sql).unwrap();
            let mut rows = statement.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                schema.entry(row.get(0).unwrap()).or_default().insert(row.get(1).unwrap());
            }
            schema
        };
        let statements = filling(format, ("main", &schema("main")), &schema("template"), "");
        conn.execute_batch("pragma foreign_keys = off; begin").unwrap();
        for sql in statements {
            conn.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        conn.execute_batch("commit").unwrap();
    }

    async fn kill_after(&self, format: u32) {
        sqlite_killed_after(&self.database(), format);
    }

    async fn kill_tick(&self) {
        let store = SqliteStore::open(&self.data(), Mode::Test).unwrap();
        killed_tick(&store, store.failures()).await;
    }
}

struct Database(TestDatabase);

/// Columns that can be written, of tables that are no partitions.
const COLUMNS: &str = "
select c.relname::text, a.attname::text, a.attidentity <> ''
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid
 where c.relnamespace = ($1::text)::regnamespace
   and c.relkind in ('r', 'p')
   and not c.relispartition
   and a.attnum > 0
   and not a.attisdropped
   and a.attgenerated = ''";

impl Upgraded for Database {
    fn opening(&self) -> Opening {
        let url = self.0.url();
        Box::new(move || {
            let url = url.clone();
            Box::pin(async move {
                Arc::new(PostgresStore::open(&url, Mode::Test).await.unwrap()) as Arc<dyn Store>
            })
        })
    }

    async fn make_old(&self, format: u32) {
        let client = connect(&self.0).await;
        client.batch_execute("alter schema lazaret rename to template").await.unwrap();
        postgres_killed_after(&self.0.url(), format).await;
        let (mut schemas, mut numbered) = ([Schema::new(), Schema::new()], Vec::new());
        for (schema, name) in schemas.iter_mut().zip(["lazaret", "template"]) {
            for row in client.query(COLUMNS, &[&name]).await.unwrap() {
                let (table, column): (String, String) = (row.get(0), row.get(1));
                if name == "lazaret" && row.get(2) {
                    numbered.push((table.clone(), column.clone()));
                }
                schema.entry(table).or_default().insert(column);
            }
        }
        let [old, template] = schemas;
        let months = "
            set timezone to 'UTC';
            set session_replication_role to replica;
            select make_month(month)
              from (select distinct date_trunc('month', created_at)::date as month
                      from template.dead_letter_queue) m";
        let mut statements = vec![months.to_owned()];
        statements.extend(filling(format, ("lazaret", &old), &template, "overriding system value"));
        statements.extend(numbered.into_iter().map(|(table, column)| {
            format!(
                "select setval(pg_get_serial_sequence('lazaret.{table}', '{column}'), greatest(max({column}), 1))
                   from lazaret.{table}"
            )
        }));
        statements.push("drop schema template cascade".to_owned());
        for sql in statements {
            client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
    }

    async fn kill_after(&self, format: u32) {
        postgres_killed_after(&self.0.url(), format).await;
    }

    async fn kill_tick(&self) {
        let store = PostgresStore::open(&self.0.url(), Mode::Test).await.unwrap();
        killed_tick(&store, store.failures()).await;
    }
}

async fn is_upgraded(kept: impl Upgraded, format: u32) {
    let rig = Rig::open(kept.opening()).await;
    fill(&rig, format).await;
    let before = facts(&rig).await;
    rig.store().close().await.unwrap();
    drop(rig);
    kept.make_old(format).await;
    // In the middle of the first step, then in the middle of the second.
    for reached in format..newest().min(format + 2) {
        kept.kill_after(reached).await;
    }
    loop {
        kept.kill_tick().await;
        let store = (kept.opening())().await;
        if !fill_behind(store.as_ref()).await.unwrap() {
            break;
        }
    }
    let rig = Rig::open(kept.opening()).await;
    let after = facts(&rig).await;
    for (id, told) in &before.letters {
        assert_eq!(after.letters.get(id), Some(told), "format {format}");
    }
    assert_eq!(after, before, "format {format}");
    books::agree(rig.store()).await;
    assert_eq!(rig.find("body:bodypending").await.len(), 1, "format {format}");
    assert_eq!(rig.find("connection").await.len(), rig.find("source:report").await.len(), "format {format}");
    // And it goes on.
    assert_eq!(rig.capture(dying("pending", at(0)), at(500)).await.outcome, Outcome::Duplicate);
    let new = rig.create(captured("new"), at(600)).await;
    rig.done(new, Verb::Delete, at(700)).await;
    rig.done(new, Verb::Restore, at(800)).await;
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_every_format_is_upgraded_by_a_process_that_is_killed() {
    for format in 1..newest() {
        is_upgraded(File(tempfile::tempdir().unwrap()), format).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_every_format_is_upgraded_by_a_process_that_is_killed() {
    // Databases began with format 6: one of format 1 never held letters, and the step from there does not count them.
    for format in 2..newest() {
        is_upgraded(Database(TestDatabase::new()), format).await;
    }
}
