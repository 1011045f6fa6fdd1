//! The store that a configuration names, opened. The rest of the server does not know which one it is.

pub mod copy;

use std::sync::Arc;

use lazaret_core::time::Time;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{Store, StoreError};

use crate::config::{Config, REQUEST_MS_CEILING, StoreUrl};
use crate::serve::ServeError;

/// A store in use.
#[derive(Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
    /// The same, if it belongs to this process alone.
    embedded: Option<Arc<SqliteStore>>,
}

/// Opens the store, making or updating it if need be.
pub async fn open(config: &Config, mode: Mode) -> Result<Opened, ServeError> {
    match &config.store {
        StoreUrl::Embedded => {
            let data = config.data.clone();
            let store = tokio::task::spawn_blocking(move || SqliteStore::open(&data, mode))
                .await
                .map_err(|_| StoreError::Unavailable { doing: "opening", source: None })??;
            let store = Arc::new(store);
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, embedded: Some(store) })
        }
        StoreUrl::Postgres(url) => {
            let failed = |source| ServeError::Shared { store: url.clone(), source };
            let store = PostgresStore::open(url.secret(), mode).await.map_err(failed)?;
            Ok(Opened { store: Arc::new(store), embedded: None })
        }
    }
}

impl Opened {
    /// Marks the store as used by a server: an embedded one says by which, and nobody copies a shared one meanwhile.
    pub(crate) async fn hold(&self, holder: &str) -> Result<(), StoreError> {
        match &self.embedded {
            Some(store) => store.describe_holder(holder),
            None => self.store.lead().await.map(drop),
        }
    }

    /// Lists opened before this time and not frozen belong to nobody any more. In a shared store another instance may be
    /// at it, for as long as a request can last.
    pub(crate) fn abandoned_before(&self, now: Time) -> Time {
        match self.embedded {
            Some(_) => now,
            None => now.plus_ms(-REQUEST_MS_CEILING.cast_signed()),
        }
    }
    /// Ends the leases that an earlier process left, so that its letters go on at once. In a shared store whoever holds
    /// them may live.
    pub(crate) async fn end_leases(&self, now: Time) -> Result<(), StoreError> {
        let Some(store) = &self.embedded else { return Ok(()) };
        let letters = store.end_leases(now).await?;
        if letters > 0 {
            tracing::info!(letters, "{letters} letters were on their way when the server ended; taken on");
        }
        Ok(())
    }
}
