//! The seam: what every store can do. One method is one commit; times and ids are bound in.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId, RedriveId, TokenId};
use lazaret_core::letter::{Admitted, Receipt};
use lazaret_core::time::Time;
use tokio::sync::watch;

use crate::StoreError;
use crate::audit::{Actor, AuditEntry};
use crate::claim::{Claim, ClaimRefused, ClaimRequest, ClaimStep, Settlement};
use crate::decision::{Decided, Decision, NewOperation, Operation, Skipped};
use crate::event::Event;
use crate::page::{LetterHistory, LetterPage, Original, PageQuery, Total};
use crate::stats::{Ledger, LedgerBy, Stats, StatsOf};
use crate::token::StoredToken;

/// The store of letters. Internal to Lazaret: it changes whenever a feature needs it to.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Stores captured messages, each as a new letter, a new life or a duplicate. All of them or none; the receipts
    /// come back in order, after the commit.
    async fn insert(&self, batch: Vec<Admitted>) -> Result<Vec<Receipt>, StoreError>;

    /// Fetches one page of letters in a total order.
    async fn list(&self, query: PageQuery) -> Result<LetterPage, StoreError>;

    /// Counts the letters that match, exactly where counters answer it.
    async fn count(&self, filter: Filter, now: Time) -> Result<Total, StoreError>;

    /// Fetches one letter with all its lives and attempts.
    async fn history(&self, letter: LetterId) -> Result<Option<LetterHistory>, StoreError>;

    /// Fetches the original of one life, the present one if none is named, and checks it against its hash.
    async fn original(&self, letter: LetterId, life: Option<u32>) -> Result<Option<Original>, StoreError>;

    async fn stats(&self, of: StatsOf) -> Result<Stats, StoreError>;

    async fn ledger(&self, by: LedgerBy) -> Result<Ledger, StoreError>;

    /// Decides on one letter and writes the audit entry, together.
    async fn decide(&self, letter: LetterId, decision: Decision) -> Result<Decided, StoreError>;

    /// Opens an operation in state `freezing`.
    async fn open_operation(&self, operation: NewOperation) -> Result<(), StoreError>;

    /// Takes down one chunk of the operation's list: letters captured before it was opened that match its filter. When
    /// the list is complete the operation is `working`, or `refused` if the count is not the expected one.
    async fn freeze(&self, operation: OperationId) -> Result<Operation, StoreError>;

    /// Decides the next chunk of a frozen list.
    async fn work(&self, operation: OperationId, at: Time) -> Result<Operation, StoreError>;

    /// Operations that have letters left to decide, oldest first.
    async fn working_operations(&self, limit: usize) -> Result<Vec<OperationId>, StoreError>;

    /// Ends operations that were still freezing when their caller went away.
    async fn drop_unfrozen(&self, opened_before: Time) -> Result<u64, StoreError>;

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError>;

    /// The first letters that an operation could not decide.
    async fn skipped(&self, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError>;

    /// Takes a letter to be put back.
    async fn claim(&self, request: ClaimRequest, at: Time)
    -> Result<Result<Claim, ClaimRefused>, StoreError>;

    /// Moves a claim forward: to `sending` before the publish, to `sent` after its confirmation.
    async fn advance(
        &self,
        letter: LetterId,
        run: RedriveId,
        step: ClaimStep,
        at: Time,
    ) -> Result<Result<(), ClaimRefused>, StoreError>;

    /// Ends a claim and moves its letter.
    async fn settle(
        &self,
        letter: LetterId,
        run: RedriveId,
        settlement: Settlement,
        at: Time,
    ) -> Result<Result<(), ClaimRefused>, StoreError>;

    /// The audit log, newest first, before a position.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Events after a position, in order.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    async fn tokens(&self) -> Result<Vec<StoredToken>, StoreError>;

    async fn add_token(&self, token: StoredToken, by: Actor) -> Result<(), StoreError>;

    /// Revokes a token; false if there is none that could be.
    async fn revoke_token(&self, id: TokenId, by: Actor, at: Time) -> Result<bool, StoreError>;

    /// Whether a letter could be stored now: writes something and takes it back.
    async fn ready(&self) -> Result<(), StoreError>;

    /// A counter that changes after each commit, so that readers can wait instead of polling.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Whether this instance does the periodic work now.
    async fn lead(&self) -> Result<bool, StoreError>;

    /// Forgets everything but the tokens; only a store made in test mode can.
    async fn reset(&self) -> Result<(), StoreError>;

    /// All tables as text, ids masked, for tests.
    async fn dump(&self) -> Result<String, StoreError>;

    /// Finishes what was accepted and closes.
    async fn close(&self) -> Result<(), StoreError>;
}
