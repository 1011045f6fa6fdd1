//! Readers: a few connections that see the last commit and never wait for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lazaret_core::limits;
use rusqlite::config::DbConfig;
use rusqlite::vtab::array;
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::Semaphore;

use crate::StoreError;

/// How long a read may take, unless it has to see every row.
pub(super) const READ_MAX: Duration = Duration::from_millis(limits::READ_MS_MAX);

/// Sees one state of the store until it is dropped; inside of a transaction that is so already.
pub(super) fn snapshot(conn: &Connection) -> Result<Option<Transaction<'_>>, StoreError> {
    Ok(if conn.is_autocommit() { Some(conn.unchecked_transaction()?) } else { None })
}

#[derive(Debug, Clone)]
pub(super) struct Readers {
    path: PathBuf,
    search: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub fn new(path: PathBuf, search: PathBuf) -> Readers {
        Readers { path, search, idle: Arc::default(), permits: Arc::new(Semaphore::new(limits::READERS_MAX)) }
    }

    /// Runs `work` on a connection of its own, off the async threads, and stops it when it takes too long.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.read_within(READ_MAX, work).await
    }

    /// Runs `work` with another bound, for reads that have to see every row.
    pub async fn read_within<T, F>(&self, read_max: Duration, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let closed = |_| StoreError::Unavailable { doing: "shutting down", source: None };
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let readers = self.clone();
        let joined = tokio::task::spawn_blocking(move || {
            // Held inside: a caller that goes away must not let a fifth reader in while this one still works.
            let permit = permit;
            let mut conn = readers.connection(read_max)?;
            let result = work(&mut conn);
            readers.idle.lock().unwrap_or_else(|broken| broken.into_inner()).push(conn);
            drop(permit);
            result
        })
        .await;
        joined.unwrap_or_else(|error| {
            Err(StoreError::Unavailable { doing: "carrying out a read", source: Some(Box::new(error)) })
        })
    }

    /// Runs a read of a row or two on the thread that asks: handing it to another one would take longer than the read.
    pub async fn read_here<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Connection) -> Result<T, StoreError>,
    {
        let closed = |_| StoreError::Unavailable { doing: "shutting down", source: None };
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let mut conn = self.connection(Duration::from_millis(limits::READ_MS_MAX))?;
        let result = work(&mut conn);
        self.idle.lock().unwrap_or_else(|broken| broken.into_inner()).push(conn);
        result
    }

    /// A connection whose statements are stopped when they take longer than that in all.
    fn connection(&self, read_max: Duration) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(|broken| broken.into_inner()).pop();
        let mut conn = match idle {
            Some(conn) => conn,
            None => self.open()?,
        };
        let until = Instant::now() + read_max;
        conn.progress_handler(10_000, Some(move || Instant::now() > until))?;
        Ok(conn)
    }

    fn open(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.path, flags)?;
        conn.execute_batch("pragma query_only = on; pragma cache_size = -4000; pragma busy_timeout = 5000;")?;
        let search = self.search.as_os_str().as_encoded_bytes();
        conn.execute("attach database cast(?1 as text) as search", [search])?;
        conn.set_prepared_statement_cache_capacity(128);
        array::load_module(&conn)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(conn)
    }

    pub fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(|broken| broken.into_inner()).clear();
    }
}
