//! The failed deliveries of relays, kept in the store: all instances see them, and a restart loses none.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;
use lazaret_sources::outbox::TryLog;
use lazaret_store::Store;
use lazaret_store::source_store::FailedTry;

use crate::clock::Clock;

/// The failed deliveries of one source.
pub(super) struct StoredTries {
    pub source: String,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
}

/// What the tries of a row are kept under.
pub(super) fn key_of_row(source: &str, row: &str) -> CaptureKey {
    CaptureKey::of(source, "", "", row)
}

#[async_trait]
impl TryLog for StoredTries {
    async fn keep(&self, tries: Vec<(String, Attempt)>) -> Result<(), String> {
        let forget_before = self.clock.now().plus_ms(-limits::RELAY_TRIES_KEPT_MS);
        let failed =
            |(row, attempt): (String, Attempt)| FailedTry { key: key_of_row(&self.source, &row), attempt };
        let tries = tries.into_iter().map(failed).collect();
        self.store.keep_tries(tries, forget_before).await.map_err(|error| error.to_string())
    }

    async fn forget(&self, rows: Vec<String>) -> Result<(), String> {
        let keys = rows.iter().map(|row| key_of_row(&self.source, row)).collect();
        self.store.forget_tries(keys).await.map_err(|error| error.to_string())
    }
}

impl fmt::Debug for StoredTries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTries").field("source", &self.source).finish_non_exhaustive()
    }
}
