//! Rows that a relay took for itself for a while.

use std::time::Duration;

use bytes::Bytes;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::Relay;
use super::settle::Settled;
use crate::SourceError;
use crate::outbox::db::cell;
use crate::outbox::row::{count, payload};
use crate::outbox::statements::RelayStatements;
use crate::outbox::table::Table;
use crate::sink::{Delivery, Sunk};

/// A row that is ours until its claim is over.
pub(super) struct Claimed {
    pub delivery: Delivery,
    pub failed_before: u32,
    pub max_retries: Option<u32>,
    /// The end of the claim as the row holds it: whoever claims the row after us writes another.
    pub claim: String,
}

impl Claimed {
    /// What became of it. The body is let go: it is not needed to write that down.
    pub fn settled(mut self, sunk: Sunk, at: Time, took: Duration) -> Settled {
        self.delivery.body = Bytes::new();
        Settled { row: self, sunk, at, took }
    }
}

/// Claims a batch, oldest first.
pub(super) async fn claim(
    relay: &Relay,
    table: &Table,
    statements: &RelayStatements,
) -> Result<Vec<Claimed>, SourceError> {
    let batch = i64::try_from(relay.config.batch).unwrap_or(i64::MAX);
    let claim_ms = i64::try_from(relay.config.stuck_after_ms).unwrap_or(i64::MAX);
    let rows = relay.outbox.db.query("claiming rows", &statements.claim, &[&batch, &claim_ms]).await?;
    let mut claimed: Vec<Claimed> = rows.iter().map(|row| claimed(row, table)).collect::<Result<_, _>>()?;
    // An update returns rows in no order.
    claimed.sort_by_key(|row| row.delivery.created_at);
    Ok(claimed)
}

fn claimed(row: &Row, table: &Table) -> Result<Claimed, SourceError> {
    let failed_before = count(cell(row, 7)?).unwrap_or(0);
    let (content_type, body) = payload(row, 4, table.payload)?;
    let delivery = Delivery {
        idempotency_key: cell(row, 0)?,
        event_type: cell::<Option<String>>(row, 1)?.unwrap_or_default(),
        aggregate_type: cell(row, 2)?,
        aggregate_id: cell(row, 3)?,
        schema_version: cell(row, 5)?,
        tenant: cell(row, 6)?,
        attempt: failed_before.saturating_add(1),
        created_at: cell::<Option<i64>>(row, 9)?.map(Time::from_ms),
        content_type,
        body,
    };
    Ok(Claimed { delivery, failed_before, max_retries: count(cell(row, 8)?), claim: cell(row, 10)? })
}
