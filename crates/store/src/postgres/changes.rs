//! Waking up: own commits at once, those of other instances by notification, and by looking now and then in case that
//! one was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lazaret_core::limits;
use lazaret_postgres::Address;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cell::Cells;
use super::session::Session;
use crate::StoreError;

/// What all parts of one store know about commits.
#[derive(Debug)]
pub(super) struct Changes {
    counter: watch::Sender<u64>,
    /// The newest position of an event that whoever waits was woken for.
    seen: AtomicU64,
    /// Tells our own notifications from those of others.
    instance: String,
}

/// The channel that is notified once per commit.
pub(super) const CHANNEL: &str = "lazaret_changes";

impl Changes {
    pub fn new(instance: String) -> Changes {
        Changes { counter: watch::Sender::new(0), seen: AtomicU64::new(0), instance }
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.counter.subscribe()
    }

    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Wakes everyone: something was committed, up to this position if events came with it.
    pub fn committed(&self, newest_event: Option<u64>) {
        if let Some(position) = newest_event {
            self.seen.fetch_max(position, Ordering::SeqCst);
        }
        self.counter.send_modify(|count| *count += 1);
    }

    /// Wakes everyone if there are events that nobody was woken for.
    fn looked(&self, newest_event: u64) {
        if self.seen.fetch_max(newest_event, Ordering::SeqCst) < newest_event {
            self.counter.send_modify(|count| *count += 1);
        }
    }
}

/// Listens for as long as the store is open; ended by dropping it.
#[derive(Debug)]
pub(super) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    pub fn start(address: Address, changes: Arc<Changes>) -> Listener {
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = listen(&address, &changes).await {
                    tracing::warn!(%error, "not listening for changes of other instances, trying again");
                }
                tokio::time::sleep(Duration::from_millis(limits::POSTGRES_RETRY_MS)).await;
            }
        });
        Listener { task }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens until the connection is lost.
async fn listen(address: &Address, changes: &Changes) -> Result<(), StoreError> {
    let statement = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
    let (session, mut told) = Session::listening(address, statement).await?;
    session.batch(&format!("listen {CHANNEL}")).await?;
    let pause = Duration::from_millis(limits::CHANGES_POLL_MS);
    loop {
        match tokio::time::timeout(pause, told.recv()).await {
            Ok(Some(instance)) if instance == changes.instance() => {}
            Ok(Some(_)) => changes.committed(None),
            Ok(None) => return Err(StoreError::Unavailable { doing: "listening", source: None }),
            Err(_) => {
                let row = session.query_one("select events from positions", &[]).await?;
                changes.looked(row.count(0)?);
            }
        }
    }
}
