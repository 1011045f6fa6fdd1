//! Numbers that are kept as letters move, and the ledger that proves them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::search::{SuggestKey, Suggestion};
use crate::series::{Line, SeriesQuery};

/// What a store does for those who count. Every `Store` is one.
#[async_trait]
pub trait Numbers: Send + Sync {
    async fn stats(&self, of: StatsOf) -> Result<Stats, StoreError>;

    async fn ledger(&self, by: LedgerBy) -> Result<Ledger, StoreError>;

    /// Lines of inflow and outflow, from what is kept as letters move.
    async fn series(&self, query: SeriesQuery) -> Result<Vec<Line>, StoreError>;

    /// Values of a filter key that begin with `prefix`, the most frequent first where that is known.
    async fn suggest(
        &self,
        key: SuggestKey,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<Suggestion>, StoreError>;

    /// Deletes the minutes of lines before a time, a bounded number at once; says how many points.
    async fn prune_minutes(&self, before: Time) -> Result<u64, StoreError>;
}

/// Live letters by what tells them apart, largest first, each list bounded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub total: u64,
    pub by_status: BTreeMap<&'static str, u64>,
    pub by_source: Vec<(String, u64)>,
    pub by_queue: Vec<(String, u64)>,
    pub by_type: Vec<(String, u64)>,
    pub by_error_type: Vec<(String, u64)>,
    pub by_class: Vec<(String, u64)>,
    /// Deaths of live letters.
    pub oldest_at: Option<Time>,
    pub newest_at: Option<Time>,
}

/// Which letters the statistics count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatsOf {
    All,
    Only(Status),
    /// Letters of jobs in one state; of the lists only queue, type and error type are filled.
    Jobs(Status),
}

/// Where the terms of the ledger come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LedgerBy {
    /// From the counters that are kept.
    Counters,
    /// From the rows themselves.
    Recount,
}

/// Everything captured is accounted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    pub captured: u64,
    pub pending: u64,
    pub reprocessing: u64,
    pub resolved: u64,
    pub discarded: u64,
    pub archived: u64,
    pub pruned: u64,
    pub deleted: u64,
    /// How many of all counters, statistics included, differ from the rows, and how many letters are not in one place;
    /// known only after a recount.
    pub wrong_counters: u64,
    /// Live letters that are in no listed incident, and unsettled ones whose incident is closed; known only after a
    /// recount.
    pub unlisted: u64,
}

impl Ledger {
    /// What was captured and cannot be found; zero, or something is wrong.
    pub fn difference(&self) -> i64 {
        let terms = self.pending
            + self.reprocessing
            + self.resolved
            + self.discarded
            + self.archived
            + self.pruned
            + self.deleted;
        self.captured as i64 - terms as i64
    }
}
