//! The embedded store: SQLite in WAL mode with full synchronisation, one writer, a few readers. A file, no server.

mod audit;
mod bodies;
mod copy;
mod counters;
mod decisions;
mod dump;
mod events;
pub(crate) mod filter;
mod holds;
mod incidents;
mod insert;
mod job_store;
mod jobs;
mod letters;
pub(crate) mod migrate;
mod numbers;
mod operations;
mod probe;
mod readers;
mod redrives;
mod regroup;
mod replays;
mod retention;
mod rows;
mod scan;
mod seam;
mod transfer;
mod trash;
mod verdicts;
mod words;
mod writer;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::letter::{Admitted, Receipt};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::vtab::array;
use tokio::sync::watch;

use crate::audit::Actor;
use crate::decision::{Decided, Decision, Operation};
use crate::engine;
use crate::engine::numbers::RECOUNT_MAX;
use crate::engine::replays::Rounds;
use crate::event::{Event, EventsKept};
use crate::failure::Failures;
use crate::folder::{DataFolder, ServedAt};
use crate::health::WriteHealth;
use crate::job::handed::Handed;
use crate::moves::{Committed, Move};
use crate::packing::Prepared;
use crate::page::{LetterHistory, LetterPage, Original, PageQuery, Total};
use crate::seam::ready;
use crate::search::BodyIndex;
use crate::transfer::{Exported, Import, Imported};
use crate::{Store, StoreError};
use bodies::Bodies;
use jobs::fetch::Dry;
use numbers::Numbers;
use readers::Readers;
use writer::{Surroundings, Writer};

/// What a store is for; the two never share a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Real,
    /// Can be emptied over HTTP: never for letters that matter.
    Test,
}

#[derive(Debug)]
pub struct SqliteStore {
    writer: Arc<Writer>,
    bodies: Bodies,
    readers: Readers,
    changes: Arc<watch::Sender<u64>>,
    committed: Arc<Committed>,
    failures: Arc<Failures>,
    health: Arc<WriteHealth>,
    rounds: Rounds,
    dry: Dry,
    handed: Arc<Handed>,
    folder: DataFolder,
    mode: Mode,
}

impl SqliteStore {
    /// Opens the store of a data folder, making it if need be, and holds the folder until it is dropped. Blocks.
    pub fn open(path: &Path, mode: Mode) -> Result<SqliteStore, StoreError> {
        let folder = DataFolder::hold(path)?;
        let database = folder.database();
        let mut conn = Connection::open(&database)?;
        let format = migrate::recognise(&conn, &database)?;
        conn.execute_batch(
            "pragma page_size = 4096;
             pragma auto_vacuum = incremental;
             pragma busy_timeout = 5000;
             pragma journal_mode = wal;
             pragma synchronous = full;
             pragma foreign_keys = on;
             pragma cache_size = -24000;
             pragma temp_store = memory;
             pragma wal_autocheckpoint = 4000;
             pragma journal_size_limit = 67108864;",
        )?;
        conn.set_prepared_statement_cache_capacity(128);
        array::load_module(&conn)?;
        // Plans must not depend on the values bound: SQLite would prepare such a statement anew for each letter.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        migrate::migrate(&mut conn, format)?;
        migrate::keep_mode(&conn, mode)?;
        words::tune(&conn)?;
        let changes = Arc::new(watch::Sender::new(0));
        let (failures, committed) = (Arc::new(Failures::default()), Arc::new(Committed::default()));
        let numbers = Arc::new(Numbers::read(&conn)?);
        let health = Arc::new(WriteHealth::default());
        let bodies = Bodies::open(&folder.search_index(), &conn, &numbers)?;
        let around = Surroundings {
            entropy: Arc::default(),
            failures: Arc::clone(&failures),
            numbers,
            standing: Arc::default(),
            changes: Arc::clone(&changes),
            committed: Arc::clone(&committed),
            health: Arc::clone(&health),
        };
        let writer = Arc::new(Writer::start(conn, around)?);
        let readers = Readers::new(database, folder.search_index());
        Ok(SqliteStore {
            writer,
            bodies,
            readers,
            changes,
            committed,
            failures,
            health,
            rounds: Rounds::default(),
            dry: Dry::default(),
            handed: Arc::default(),
            folder,
            mode,
        })
    }

    /// Writes down who holds the data folder and where it can be asked, for whoever comes second.
    pub fn describe_server(&self, holder: &str, served: &ServedAt) -> Result<(), StoreError> {
        self.folder.describe_server(holder, served)
    }

    /// The failures that tests plan.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }
}

/// Letters whose packing is quicker than handing it to another thread.
const PREPARE_INLINE_MAX: usize = 8;

async fn prepare(batch: Vec<Admitted>) -> Result<Vec<Prepared>, StoreError> {
    if batch.len() <= PREPARE_INLINE_MAX {
        return batch.into_iter().map(Prepared::new).collect();
    }
    off_thread(|| batch.into_iter().map(Prepared::new).collect()).await
}

/// Packs letters where that keeps nobody waiting.
async fn off_thread<T: Send + 'static>(
    pack: impl FnOnce() -> Result<Vec<T>, StoreError> + Send + 'static,
) -> Result<Vec<T>, StoreError> {
    tokio::task::spawn_blocking(pack).await.unwrap_or_else(|error| {
        Err(StoreError::Unavailable { doing: "packing letters", source: Some(Box::new(error)) })
    })
}

#[async_trait]
impl Store for SqliteStore {
    async fn insert(&self, batch: Vec<Admitted>) -> Result<Vec<Receipt>, StoreError> {
        let prepared = prepare(batch).await?;
        self.writer.write(prepared.len(), move |write| insert::insert(write, &prepared)).await
    }

    async fn list(&self, query: PageQuery) -> Result<LetterPage, StoreError> {
        self.readers.read(move |conn| letters::list(conn, &query)).await
    }

    async fn count(&self, filter: Filter, now: Time) -> Result<Total, StoreError> {
        self.readers.read(move |conn| letters::count(conn, &filter, now, limits::COUNT_ROWS_MAX)).await
    }

    async fn count_all(&self, filter: Filter, now: Time) -> Result<Total, StoreError> {
        let some = self.count(filter.clone(), now).await?;
        // What ran out of time would do so again.
        if some != Total::AtLeast(limits::COUNT_ROWS_MAX) {
            return Ok(some);
        }
        let all = self.readers.read(move |conn| letters::count(conn, &filter, now, u64::MAX)).await;
        all.or_else(|error| if matches!(error, StoreError::TooSlow) { Ok(some) } else { Err(error) })
    }

    async fn history(&self, letter: LetterId) -> Result<Option<LetterHistory>, StoreError> {
        self.readers.read(move |conn| letters::history(conn, letter)).await
    }

    async fn original(&self, letter: LetterId, life: Option<u32>) -> Result<Option<Original>, StoreError> {
        self.readers.read(move |conn| letters::original(conn, letter, life)).await
    }

    async fn index_bodies(&self, lives: usize) -> Result<BodyIndex, StoreError> {
        self.bodies.index(&self.readers, lives).await
    }

    async fn body_index(&self) -> Result<BodyIndex, StoreError> {
        self.readers.read(|conn| bodies::state(conn)).await
    }

    async fn export(&self, letters: Vec<LetterId>) -> Result<Vec<Exported>, StoreError> {
        self.readers.read(move |conn| transfer::export(conn, &letters)).await
    }

    async fn import(&self, letters: Vec<Import>, by: Actor, at: Time) -> Result<Vec<Imported>, StoreError> {
        let packed = off_thread(move || letters.into_iter().map(transfer::Packed::new).collect()).await?;
        let weight = packed.iter().map(transfer::Packed::weight).sum();
        let imported =
            self.writer.write(weight, move |write| transfer::import(write, &packed, &by, at)).await?;
        self.rounds.end();
        Ok(imported)
    }

    async fn decide(&self, letter: LetterId, decision: Decision) -> Result<Decided, StoreError> {
        let verb = decision.verb;
        let decided = self.writer.write(1, move |write| verdicts::decide(write, letter, &decision)).await?;
        self.rounds.after(verb);
        Ok(decided)
    }

    async fn work(&self, operation: OperationId, at: Time) -> Result<Operation, StoreError> {
        let weight = limits::DECISION_ROWS_PER_WRITE;
        let operation = self
            .writer
            .write(weight, move |write| ready(engine::operations::work(write, operation, at)))
            .await?;
        self.rounds.after(operation.verb);
        Ok(operation)
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.readers.read(move |conn| events::after(conn, after, limit)).await
    }

    async fn events_kept(&self) -> Result<EventsKept, StoreError> {
        self.readers.read(|conn| events::kept(conn)).await
    }

    async fn prune_events(&self, keep: u64) -> Result<u64, StoreError> {
        self.writer.write(1, move |write| events::prune(write, keep)).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let probed = match self.health.take_doubt() {
            false => self.writer.write(1, |write| probe::write_and_remove(write)).await,
            // Removed in a commit of its own: pages that are freed before the commit need no room on the disk.
            true => match self.writer.write(1, |write| probe::write_large(write)).await {
                Ok(()) => self.writer.write(1, |write| probe::remove(write)).await,
                Err(error) => Err(error),
            },
        };
        probed.inspect_err(|_| self.health.doubt())
    }

    fn moves(&self) -> Vec<(Move, u64)> {
        self.committed.all()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        // The lock on the data folder is the leadership: there is no second instance.
        Ok(true)
    }

    async fn reset(&self) -> Result<(), StoreError> {
        if self.mode != Mode::Test {
            return Err(StoreError::WrongMode("this store was made for real use: it cannot be emptied"));
        }
        let last = self.writer.write(limits::COMMIT_LETTERS_MAX, dump::empty).await?;
        let bodies = self.bodies.clone();
        tokio::task::spawn_blocking(move || bodies.empty(last))
            .await
            .map_err(|error| StoreError::Unavailable { doing: "emptying", source: Some(Box::new(error)) })?
    }

    async fn dump(&self) -> Result<String, StoreError> {
        self.readers.read_within(RECOUNT_MAX, |conn| dump::dump(conn)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.readers.close();
        let writer = Arc::clone(&self.writer);
        tokio::task::spawn_blocking(move || writer.close())
            .await
            .map_err(|error| StoreError::Unavailable { doing: "closing", source: Some(Box::new(error)) })
    }
}
