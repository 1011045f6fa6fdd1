//! Numbers that are kept as letters move, and the ledger that proves them.

use std::collections::BTreeMap;

use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

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
