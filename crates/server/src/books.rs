//! The ledger as pages show it. To count what was ever captured is to go through the keys of all of it, which takes a third
//! of a second for a million: then it is counted beside, and pages show what was counted last, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::stats::{Ledger, LedgerBy};
use tokio::time::Instant;

use crate::app::App;

/// How long counting rests, at least; and how many times as long as a count took.
const REST: Duration = Duration::from_secs(5);
const REST_TIMES: u32 = 20;

/// What was counted last.
#[derive(Debug, Default)]
pub struct Books {
    last: Mutex<Option<Counted>>,
    counting: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    ledger: Ledger,
    at: Time,
    /// When it may be counted again.
    again: Instant,
}

/// The ledger, and when it was counted if that was not now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub ledger: Ledger,
    pub counted_at: Option<Time>,
}

/// The ledger for a page: of few letters as it is now, of many as it was counted last.
pub async fn seen(app: &Arc<App>) -> Result<Seen, StoreError> {
    let last = *app.books.last.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(last) = last.filter(|last| last.ledger.captured > limits::LEDGER_KEYS_COUNTED_MAX) else {
        return Ok(Seen { ledger: count(app).await?, counted_at: None });
    };
    if Instant::now() >= last.again && !app.books.counting.swap(true, Ordering::SeqCst) {
        let app = Arc::clone(app);
        tokio::spawn(async move {
            if let Err(error) = count(&app).await {
                tracing::warn!(%error, "the ledger could not be counted for pages");
            }
            app.books.counting.store(false, Ordering::SeqCst);
        });
    }
    Ok(Seen { ledger: last.ledger, counted_at: Some(last.at) })
}

/// Counts, and keeps it for those who come next.
pub(crate) async fn count(app: &App) -> Result<Ledger, StoreError> {
    let started = Instant::now();
    let ledger = app.store.ledger(LedgerBy::Counters).await?;
    app.books.keep(ledger, app.clock.now(), REST.max(started.elapsed() * REST_TIMES));
    Ok(ledger)
}

impl Books {
    /// Keeps what was counted, and does not count for so long.
    pub fn keep(&self, ledger: Ledger, at: Time, rest: Duration) {
        let counted = Counted { ledger, at, again: Instant::now() + rest };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }
}
