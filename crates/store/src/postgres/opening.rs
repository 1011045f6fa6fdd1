//! Opening a database as a store, and asking whether it could be written to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_postgres::Address;

use super::PostgresStore;
use super::cell::Cells;
use super::changes::{Changes, Listener};
use super::conn::{Conn, Connections};
use super::failure::hint;
use super::leader::Leader;
use super::migrate;
use super::months::Months;
use super::readers::Readers;
use super::writer::{Surroundings, Write, Writer};
use crate::StoreError;
use crate::engine::replays::Rounds;
use crate::entropy::Entropy;
use crate::failure::{FailurePoint, Failures};
use crate::health::WriteHealth;
use crate::job::handed::Handed;
use crate::moves::Committed;
use crate::sqlite::Mode;

/// One for each of the writer's lanes, and one for what must be committed before a lane's work.
const LANE_CONNECTIONS: usize = 4;

/// How long one statement may take; an operation may take as long as a few of them. Tests wait less.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub read: Duration,
    /// Captures and decisions.
    pub quick_write: Duration,
    /// Everything else that is written.
    pub write: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            read: Duration::from_millis(limits::READ_MS_MAX),
            quick_write: Duration::from_millis(limits::POSTGRES_QUICK_WRITE_MS_MAX),
            write: Duration::from_millis(limits::POSTGRES_WRITE_MS_MAX),
        }
    }
}

impl PostgresStore {
    /// Opens the store at `postgres://…`, making or updating it if need be.
    pub async fn open(url: &str, mode: Mode) -> Result<PostgresStore, StoreError> {
        PostgresStore::open_within(url, mode, Timeouts::default()).await
    }

    /// Opens the store with these limits for statements.
    pub async fn open_within(url: &str, mode: Mode, timeouts: Timeouts) -> Result<PostgresStore, StoreError> {
        let address = Address::parse(url)?;
        migrate::migrate(&address).await?;
        let lanes = Connections::new(&address, LANE_CONNECTIONS, timeouts.write)?;
        keep_mode(&lanes, mode).await?;
        let entropy = Arc::new(Entropy::default());
        let instance: [u8; 8] = entropy.take()?;
        let instance = instance.iter().map(|byte| format!("{byte:02x}")).collect();
        let changes = Arc::new(Changes::new(instance));
        let (failures, committed) = (Arc::new(Failures::default()), Arc::new(Committed::default()));
        let health = Arc::new(WriteHealth::default());
        let around = Surroundings {
            lanes: lanes.clone(),
            timeouts,
            entropy,
            failures: Arc::clone(&failures),
            changes: Arc::clone(&changes),
            committed: Arc::clone(&committed),
            health: Arc::clone(&health),
        };
        Ok(PostgresStore {
            writer: Writer::start(&around),
            readers: Readers::new(&address, timeouts.read)?,
            lanes,
            months: Months::default(),
            listener: Mutex::new(Some(Listener::start(address.clone(), Arc::clone(&changes)))),
            changes,
            committed,
            rounds: Rounds::default(),
            handed: Handed::default(),
            leader: Leader::new(address),
            failures,
            health,
            mode,
        })
    }

    /// Brings the database to the newest format without using it; says from which one to which, 0 if it was empty.
    pub async fn migrate(url: &str) -> Result<(u32, u32), StoreError> {
        migrate::migrate(&Address::parse(url)?).await
    }

    /// Whether an address can be read at all; connects to nothing. What it says holds no credentials.
    pub fn check_url(url: &str) -> Result<(), StoreError> {
        Ok(Address::parse(url).map(drop)?)
    }

    /// What to do about a store that could not be opened.
    pub fn hint(error: &StoreError) -> Option<&'static str> {
        hint(error)
    }

    /// The failures that tests plan.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }
}

const KEEP_MODE: &str = "
insert into meta (key, value)
values ('mode', $1)
on conflict (key) do nothing";

async fn keep_mode(lanes: &Connections, mode: Mode) -> Result<(), StoreError> {
    let word = match mode {
        Mode::Real => "real",
        Mode::Test => "test",
    };
    let conn = Conn::of(lanes).await?;
    conn.execute(KEEP_MODE, &[&word]).await?;
    let row = conn.query_one("select value from meta where key = 'mode'", &[]).await?;
    let kept: String = row.cell(0)?;
    conn.give_back();
    match (mode, kept == word) {
        (_, true) => Ok(()),
        (Mode::Test, false) => {
            Err(StoreError::WrongMode("this store was made for real use: test mode does not open it"))
        }
        (Mode::Real, false) => {
            Err(StoreError::WrongMode("this store was made in test mode: only test mode opens it"))
        }
    }
}

/// What time it is on the server: the one clock that all instances share.
pub(super) async fn clock(conn: &Conn) -> Result<Time, StoreError> {
    conn.query_one("select clock_timestamp()", &[]).await?.time(0)
}

/// Writes as much as a batch of letters does and takes it back. The digits cannot be compressed.
const PROBE_LARGE: &str = "
insert into meta (key, value)
select $1, string_agg(md5(n::text), '')
  from generate_series(1, $2::integer) as n";

pub(super) async fn probe_large(write: &mut Write, key: &str) -> Result<(), StoreError> {
    // It stands for letters: what tests let fail for letters fails here too.
    write.failures.at(FailurePoint::InsertLetter)?;
    let digests = (limits::PROBE_BYTES / 32) as i32;
    write.conn.execute(PROBE_LARGE, &[&key, &digests]).await?;
    write.conn.execute("delete from meta where key = $1", &[&key]).await?;
    Ok(())
}

/// Writes a row and takes it back.
pub(super) async fn probe(write: &mut Write, key: &str) -> Result<(), StoreError> {
    write.conn.execute("insert into meta (key, value) values ($1, '')", &[&key]).await?;
    write.conn.execute("delete from meta where key = $1", &[&key]).await?;
    Ok(())
}
