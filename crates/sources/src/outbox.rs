//! An application's outbox table in PostgreSQL: its dead rows become letters, and letters go back into their rows.
//!
//! The table belongs to the application. Lazaret looks at it, resets a dead row when a letter is redriven, and delivers
//! from it where a relay is configured; it never deletes a row.

mod capture;
mod catalogue;
mod check;
mod config;
mod db;
mod ddl;
mod failure;
mod name;
mod notes;
mod put_back;
mod redrive;
mod relay;
mod row;
mod statements;
mod table;
mod tries;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lazaret_core::time::Time;
use tokio::sync::watch;

use crate::{Arrival, Finding, Receipt, Source, SourceError, SourceState};
use capture::{Look, Remembered};
pub use config::{Columns, Order, OutboxConfig, RelayConfig, Statuses};
use db::Db;
pub use ddl::ddl;
pub use name::{BadTableName, TableName};
pub use put_back::{Lost, PutBack};
pub use redrive::RowStatus;
pub use relay::{Go, Point, Relay, Worked};
pub use row::{DeadRow, KnownRow, judge_row};
use table::Table;
pub use tries::{TryLog, add_tries};

/// One outbox. Connects when it is used.
pub struct Outbox {
    config: OutboxConfig,
    db: Db,
    /// The mapping, once it was found to fit; looked up again when the table seems to have changed.
    table: Mutex<Option<Arc<Table>>>,
    /// What the next look for dead rows goes on with; away while somebody looks.
    look: Mutex<Option<Look>>,
    remembered: Mutex<Remembered>,
    /// Keys of rows that were given back and are to be fetched again.
    released: Mutex<Vec<String>>,
    state: Mutex<Standing>,
    /// Counts notifications of rows that are due, for the relay.
    due: watch::Sender<u64>,
}

/// How the source stands, and what was handed over and not acknowledged.
#[derive(Default)]
struct Standing {
    state: SourceState,
    handed: HashMap<Receipt, Option<Time>>,
}

impl Outbox {
    /// Reads the configuration and connects to nothing.
    pub fn new(config: OutboxConfig) -> Result<Outbox, SourceError> {
        config.check()?;
        let db = Db::new(&config.url)?;
        Ok(Outbox {
            config,
            db,
            table: Mutex::default(),
            look: Mutex::default(),
            remembered: Mutex::default(),
            released: Mutex::default(),
            state: Mutex::default(),
            due: watch::Sender::new(0),
        })
    }

    pub fn config(&self) -> &OutboxConfig {
        &self.config
    }

    /// Looks whether the table is as configured: `Unfit` says everything that is not, and then it must not be used.
    pub async fn bind(&self) -> Result<(), SourceError> {
        self.table().await.map(|_| ())
    }

    /// Makes the table with all that belongs to it, in one transaction. What is there stays.
    pub async fn init(&self) -> Result<(), SourceError> {
        let client = self.db.client().await?;
        let statements = format!("begin;\n{}\ncommit", ddl(&self.config));
        let made = client.batch_execute(&statements).await;
        if made.is_err() {
            // A connection whose transaction failed is of no use to the next one.
            client.batch_execute("rollback").await.ok();
        }
        made.map_err(|error| failure::of("making the table", &error))
    }

    /// The table, looked up once.
    async fn table(&self) -> Result<Arc<Table>, SourceError> {
        if let Some(table) = locked(&self.table).clone() {
            return Ok(table);
        }
        self.bind_again().await
    }

    async fn bind_again(&self) -> Result<Arc<Table>, SourceError> {
        let table = Arc::new(Table::bind(&self.db, &self.config).await?);
        *locked(&self.table) = Some(Arc::clone(&table));
        Ok(table)
    }

    /// Passes an answer on. A table that has changed is looked up again the next time.
    fn noticing<T>(&self, answer: Result<T, SourceError>) -> Result<T, SourceError> {
        if matches!(answer, Err(SourceError::Unfit(_))) {
            *locked(&self.table) = None;
        }
        answer
    }

    fn connected(&self) {
        let mut standing = locked(&self.state);
        if !standing.state.connected {
            standing.state.connected = true;
            standing.state.since = Some(now());
        }
    }

    fn lost(&self, error: &SourceError) {
        let mut standing = locked(&self.state);
        if standing.state.connected || standing.state.since.is_none() {
            standing.state.connected = false;
            standing.state.since = Some(now());
        }
        standing.state.last_error = Some(error.to_string());
    }
}

#[async_trait]
impl Source for Outbox {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn next(&self) -> Result<Vec<Arrival>, SourceError> {
        // Whoever is stopped in the middle takes it along, and the next one begins with all that is dead.
        let mut look = locked(&self.look).take().unwrap_or_default();
        let answer = self.noticing(look.next(self).await);
        match &answer {
            Ok(arrivals) => {
                self.connected();
                let handed = arrivals.iter().map(|it| (it.receipt.clone(), it.captured.died_at));
                locked(&self.state).handed.extend(handed);
                *locked(&self.look) = Some(look);
            }
            Err(error) => self.lost(error),
        }
        answer
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        // The row stays as it is: what is remembered only saves looking at it again.
        let mut remembered = locked(&self.remembered);
        for receipt in receipts {
            remembered.acknowledge(receipt);
        }
        drop(remembered);
        let mut standing = locked(&self.state);
        for receipt in receipts {
            standing.handed.remove(receipt);
        }
        Ok(())
    }

    async fn release(&self, receipts: &[Receipt]) -> Result<(), SourceError> {
        let mut standing = locked(&self.state);
        for receipt in receipts {
            standing.handed.remove(receipt);
        }
        drop(standing);
        locked(&self.released).extend(receipts.iter().map(|receipt| receipt.message.clone()));
        Ok(())
    }

    async fn check(&self) -> Vec<Finding> {
        check::findings(self).await
    }

    fn state(&self) -> SourceState {
        let standing = locked(&self.state);
        let now = now();
        let lag_ms = standing.handed.values().map(|died_at| now.since(died_at.unwrap_or(now))).max();
        let lag_ms = lag_ms.and_then(|lag| u64::try_from(lag).ok()).unwrap_or(0);
        SourceState { lag_ms, ..standing.state.clone() }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What a thread that panicked has left behind is a cache: nothing in it can be half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
