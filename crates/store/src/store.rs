//! The seam: what every store can do. One method is one commit; times and ids are bound in.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::letter::{Admitted, Receipt};
use lazaret_core::time::Time;
use tokio::sync::watch;

use crate::StoreError;
use crate::access::Access;
use crate::alert_store::AlertStore;
use crate::archive::Archive;
use crate::audit::{Actor, AuditLog};
use crate::copy::CopyStore;
use crate::decision::{Decided, Decision, Operation, Operations};
use crate::event::{Event, EventsKept};
use crate::hold::Holds;
use crate::incident::Incidents;
use crate::job_store::JobStore;
use crate::moves::Move;
use crate::page::{LetterHistory, LetterPage, Original, PageQuery, Total};
use crate::redrive_store::{RedriveStore, Redrives};
use crate::regroup::Regroupings;
use crate::replay::Replays;
use crate::retention_store::RetentionStore;
use crate::search::BodyIndex;
use crate::source_store::SourceStore;
use crate::stats::Numbers;
use crate::transfer::{Exported, Import, Imported};
use crate::worker::Workers;

/// The store of letters. Internal to Lazaret: it changes whenever a feature needs it to.
#[async_trait]
pub trait Store:
    Access
    + AlertStore
    + Archive
    + AuditLog
    + CopyStore
    + Holds
    + Incidents
    + JobStore
    + Numbers
    + Operations
    + RedriveStore
    + Redrives
    + Regroupings
    + Replays
    + RetentionStore
    + SourceStore
    + Workers
    + Send
    + Sync
    + std::fmt::Debug
{
    /// Stores captured messages, each as a new letter, a new life or a duplicate. All of them or none; the receipts
    /// come back in order, after the commit.
    async fn insert(&self, batch: Vec<Admitted>) -> Result<Vec<Receipt>, StoreError>;

    /// Fetches one page of letters in a total order.
    async fn list(&self, query: PageQuery) -> Result<LetterPage, StoreError>;

    /// Counts the letters that match, exactly where counters answer it or few match.
    async fn count(&self, filter: Filter, now: Time) -> Result<Total, StoreError>;

    /// Counts all letters that match, however many those are, for as long as a count may take.
    async fn count_all(&self, filter: Filter, now: Time) -> Result<Total, StoreError>;

    /// Fetches one letter with all its lives and attempts.
    async fn history(&self, letter: LetterId) -> Result<Option<LetterHistory>, StoreError>;

    /// Fetches the original of one life, the present one if none is named, and checks it against its hash.
    async fn original(&self, letter: LetterId, life: Option<u32>) -> Result<Option<Original>, StoreError>;

    /// Puts the next lives into the body index, at most `lives`, and says how far it has come.
    async fn index_bodies(&self, lives: usize) -> Result<BodyIndex, StoreError>;

    async fn body_index(&self) -> Result<BodyIndex, StoreError>;

    /// Fills the next copies that people see who ask the database themselves, of letters from before these had their
    /// present form; true while there are more. Only PostgreSQL has such copies.
    async fn refill_extracts(&self, _letters: usize) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Letters whole, in the order asked for; those that are gone are left out.
    async fn export(&self, letters: Vec<LetterId>) -> Result<Vec<Exported>, StoreError>;

    /// Puts letters in as they were elsewhere, and writes one audit entry. All of them or none.
    async fn import(&self, letters: Vec<Import>, by: Actor, at: Time) -> Result<Vec<Imported>, StoreError>;

    /// Decides on one letter and writes the audit entry, together.
    async fn decide(&self, letter: LetterId, decision: Decision) -> Result<Decided, StoreError>;

    /// Decides the next chunk of a frozen list.
    async fn work(&self, operation: OperationId, at: Time) -> Result<Operation, StoreError>;

    /// Events after a position, in order.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    async fn events_kept(&self) -> Result<EventsKept, StoreError>;

    /// Forgets the oldest events beyond the newest `keep`, a bounded number at once; says how many.
    async fn prune_events(&self, keep: u64) -> Result<u64, StoreError>;

    /// Whether a letter could be stored now: writes something and takes it back.
    async fn ready(&self) -> Result<(), StoreError>;

    /// What this instance has committed since it opened the store, and how often; the numbers only grow.
    fn moves(&self) -> Vec<(Move, u64)>;

    /// A counter that changes after each commit, so that readers can wait instead of polling.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Whether this instance does the periodic work now.
    async fn lead(&self) -> Result<bool, StoreError>;

    /// Whether this instance led when it was asked last, without asking. A store of one process is always led by it.
    fn leads(&self) -> bool {
        true
    }

    /// What time it is where the store is, if that may be another machine than this one.
    async fn now(&self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    /// Takes away what a store keeps for months before the one of `before` that hold no letter any more; says for how
    /// many. Only a store that is divided by months has anything to take away.
    async fn drop_empty_months(&self, _before: Time) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Forgets everything but the tokens; only a store made in test mode can.
    async fn reset(&self) -> Result<(), StoreError>;

    /// All tables as text, ids masked, for tests.
    async fn dump(&self) -> Result<String, StoreError>;

    /// Finishes what was accepted and closes.
    async fn close(&self) -> Result<(), StoreError>;
}
