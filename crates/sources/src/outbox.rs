//! An application's outbox table in PostgreSQL: its dead rows become letters, and letters go back into their rows.
//!
//! The table belongs to the application. Lazaret looks at it, resets a dead row when a letter is redriven, and delivers
//! from it where a relay is configured; it never deletes a row.

mod awaited;
mod capture;
mod catalogue;
mod check;
mod config;
mod db;
mod ddl;
mod failure;
mod key;
mod name;
mod notes;
mod put_back;
mod redrive;
mod relay;
mod released;
mod row;
mod statements;
mod table;
mod tries;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio::sync::watch;

use crate::connection::{locked, now};
use crate::{Arrival, Finding, Receipt, Source, SourceError, SourceHealth};
use awaited::Awaited;
use capture::{Look, Remembered};
pub use config::{Columns, Order, OutboxConfig, RelayConfig, Statuses};
use db::Db;
pub use ddl::{Step, ddl, script};
pub use name::{BadTableName, TableName};
pub use put_back::{Lost, PutBack};
pub use redrive::RowStatus;
pub use relay::{Go, Point, RefusedRow, Relay, Worked};
use released::Released;
use row::RowVersion;
pub use row::{Death, full_message_id, judge_death};
use table::Table;
pub use tries::{TryLog, add_tries};

/// An index that was broken off while it was built.
const IS_INVALID: &str = "
    select 1
      from pg_catalog.pg_index i
     where i.indexrelid = pg_catalog.to_regclass($1::text) and not i.indisvalid";

/// One outbox. Connects when it is used.
pub struct Outbox {
    config: OutboxConfig,
    db: Db,
    /// The mapping, once it was found to fit; looked up again when the table seems to have changed.
    table: Mutex<Option<Arc<Table>>>,
    /// What the next look for dead rows goes on with; away while somebody looks.
    look: Mutex<Option<Look>>,
    remembered: Mutex<Remembered>,
    released: Mutex<Released>,
    awaited: Mutex<Awaited>,
    state: Mutex<ConnectionState>,
    /// Counts notifications of rows that are due, for the relay.
    due: watch::Sender<u64>,
}

/// How the source stands, and what was handed over and not acknowledged.
#[derive(Default)]
struct ConnectionState {
    state: SourceHealth,
    handed: HashMap<Receipt, Option<Time>>,
}

impl Outbox {
    /// Reads the configuration and connects to nothing.
    pub fn new(config: OutboxConfig) -> Result<Outbox, SourceError> {
        config.check()?;
        let db = Db::new(&config.url, Duration::from_millis(config.answer_ms_max))?;
        Ok(Outbox {
            config,
            db,
            table: Mutex::default(),
            look: Mutex::default(),
            remembered: Mutex::default(),
            released: Mutex::default(),
            awaited: Mutex::default(),
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

    /// Makes the table with all that belongs to it, step by step. What is there stays. `begins` is told of each step.
    pub async fn init(&self, mut begins: impl FnMut(&Step)) -> Result<(), SourceError> {
        const DOING: &str = "making the table";
        let table = self.bind_again().await.ok();
        let (session, _) = self.db.listen().await?;
        // An index of a large table takes its time, and waits for transactions that are older than it.
        let run = async |sql: &str| session.run_long(DOING, sql).await;
        run("set statement_timeout to 0").await?;
        for step in ddl::steps(&self.config, table.as_deref()) {
            begins(&step);
            match &step.index {
                Some(index) => {
                    run("set lock_timeout to 0").await?;
                    let rows = session.query(DOING, IS_INVALID, &[&index.sql()]).await?;
                    if !rows.is_empty() {
                        run(&format!("drop index concurrently {}", index.sql())).await?;
                    }
                }
                None => run(&format!("set lock_timeout to {}", limits::OUTBOX_LOCK_MS_MAX)).await?,
            }
            run(&step.sql).await?;
        }
        *locked(&self.table) = None;
        Ok(())
    }

    /// How the database would carry out the statements that find the next rows of aggregates, carried out in fact.
    #[cfg(feature = "testing")]
    pub async fn explain_claim(&self) -> Result<String, SourceError> {
        let table = self.table().await?;
        let none: Option<String> = None;
        let mut plans = String::new();
        let ordered = table.statements.relay.as_ref().and_then(|relay| relay.ordered.as_ref());
        let Some(relay::Ordered::ByIndex { heads, lanes }) = ordered else { return Ok(plans) };
        let (visits, skipped, lane) = (200_i64, Vec::<String>::new(), 100_i64);
        let (ids, types) = (vec!["hot"], vec!["order"]);
        let asked: [(&str, Vec<db::Bind<'_>>); 2] =
            [(heads, vec![&visits, &none, &none, &skipped]), (lanes, vec![&ids, &types, &lane, &skipped])];
        for (sql, binds) in asked {
            let explain = format!("explain (analyze, buffers, costs off, timing off) {sql}");
            for row in self.db.query("explaining", &explain, &binds).await? {
                plans.push_str(db::cell(&row, 0)?);
                plans.push('\n');
            }
        }
        Ok(plans)
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
        let (mut remembered, mut released) = (locked(&self.remembered), locked(&self.released));
        for row in receipts.iter().filter_map(RowVersion::read) {
            remembered.acknowledge(&row);
            released.acknowledge(&row.key);
        }
        drop((remembered, released));
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
        let (mut released, now) = (locked(&self.released), Instant::now());
        for row in receipts.iter().filter_map(RowVersion::read) {
            released.release(&row.key, now);
        }
        Ok(())
    }

    async fn check(&self) -> Vec<Finding> {
        check::findings(self).await
    }

    fn state(&self) -> SourceHealth {
        let standing = locked(&self.state);
        let now = now();
        let lag_ms = standing.handed.values().map(|died_at| now.since(died_at.unwrap_or(now))).max();
        let lag_ms = lag_ms.and_then(|lag| u64::try_from(lag).ok()).unwrap_or(0);
        SourceHealth { lag_ms, ..standing.state.clone() }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("config", &self.config).finish_non_exhaustive()
    }
}
