//! Numbers: statistics and the ledger, lines over time, and values that occur.

pub(crate) mod ledger;
mod series;
mod stats;
mod suggest;

use std::time::Duration;

use async_trait::async_trait;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::seam::{Backend, Lane, View};
use crate::search::{SuggestKey, Suggestion};
use crate::series::{Line, SeriesQuery};
use crate::stats::{Ledger, LedgerBy, Numbers, Stats, StatsOf};

/// A recount sees every row of every table; ten million letters take minutes.
pub(crate) const RECOUNT_MAX: Duration = Duration::from_secs(600);

#[async_trait]
impl<S: Backend> Numbers for S {
    async fn stats(&self, of: StatsOf) -> Result<Stats, StoreError> {
        self.read(View::Snapshot, of, |conn, of| Box::pin(stats::stats(conn, *of))).await
    }

    async fn ledger(&self, by: LedgerBy) -> Result<Ledger, StoreError> {
        self.read(View::Within(RECOUNT_MAX), by, |conn, by| Box::pin(ledger::ledger(conn, *by))).await
    }

    async fn series(&self, query: SeriesQuery) -> Result<Vec<Line>, StoreError> {
        self.read(View::Snapshot, query, |conn, query| Box::pin(series::lines(conn, query))).await
    }

    async fn prune_minutes(&self, before: Time) -> Result<u64, StoreError> {
        self.write(Lane::Long(1), before, |tx, before| Box::pin(series::prune(tx, *before))).await
    }

    async fn suggest(
        &self,
        key: SuggestKey,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<Suggestion>, StoreError> {
        self.read(View::Snapshot, (key, prefix, limit), |conn, (key, prefix, limit)| {
            Box::pin(suggest::suggest(conn, *key, prefix, *limit))
        })
        .await
    }
}
