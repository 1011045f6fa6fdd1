//! Rows that a relay claims for a while: the next ones of each aggregate in order, and those of no aggregate.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::Relay;
use super::settle::{Outcome, Settled};
use super::statements::{Ordered, RelayStatements};
use crate::SourceError;
use crate::outbox::db::cell;
use crate::outbox::locked;
use crate::outbox::row::{count, payload};
use crate::outbox::table::Table;
use crate::sink::Delivery;

/// A row that is ours until its claim expires.
pub(super) struct Claimed {
    pub delivery: Delivery,
    /// The length of a body that is not in `delivery` yet, because it is large.
    pub body_left_out: Option<u64>,
    pub failed_before: u32,
    pub max_retries: Option<u32>,
    /// The end of the claim as the row holds it: whoever claims the row after us writes another.
    pub claim: String,
}

impl Claimed {
    /// What became of it. The body is dropped: it is not needed to record that.
    pub fn settled(mut self, outcome: Outcome) -> Settled {
        self.delivery.body = Bytes::new();
        Settled { row: self, outcome, is_kept: false }
    }

    /// A copy of the row without its body.
    pub fn emptied(&self) -> Claimed {
        Claimed {
            delivery: Delivery { body: Bytes::new(), ..self.delivery.clone() },
            claim: self.claim.clone(),
            ..*self
        }
    }

    /// A row that `RelayStatements::expired` gave: what is needed to settle it.
    pub fn expired(row: &Row) -> Result<Claimed, SourceError> {
        let failed_before = count(cell(row, 2)?).unwrap_or(0);
        let delivery = Delivery {
            idempotency_key: cell(row, 0)?,
            event_type: String::new(),
            aggregate_type: None,
            aggregate_id: None,
            schema_version: None,
            tenant: None,
            attempt: failed_before.saturating_add(1),
            created_at: None,
            content_type: "",
            body: Bytes::new(),
        };
        let (claim, max_retries) = (cell(row, 1)?, count(cell(row, 3)?));
        Ok(Claimed { delivery, body_left_out: None, failed_before, max_retries, claim })
    }
}

/// An aggregate by id and type.
pub(super) type Aggregate = (String, Option<String>);

/// What one claim got.
#[derive(Default)]
pub(super) struct Batch {
    /// Rows to be delivered one after the other; lanes are independent of each other.
    pub lanes: Vec<Vec<Claimed>>,
    /// Rows that were claimed and must not go out now, because one before them could not be claimed.
    pub out_of_order: Vec<Claimed>,
    /// Whether there may be claimable rows that were not looked at.
    pub is_partial: bool,
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }
}

/// Claims up to a batch of rows.
pub(super) async fn claim(
    relay: &Relay,
    table: &Table,
    statements: &RelayStatements,
) -> Result<Batch, SourceError> {
    let claim = Claim { relay, table, statements, refused: relay.refused_keys() };
    let mut batch = Batch::default();
    let limit = relay.config.batch;
    // Both kinds have their turn to be first, or one would starve the other while it fills every batch.
    if relay.takes_free_first() {
        claim.free(limit, &mut batch).await?;
        claim.ordered(limit - batch.rows().min(limit), &mut batch).await?;
    } else {
        claim.ordered(limit, &mut batch).await?;
        claim.free(limit - batch.rows().min(limit), &mut batch).await?;
    }
    Ok(batch)
}

struct Claim<'a> {
    relay: &'a Relay,
    table: &'a Table,
    statements: &'a RelayStatements,
    refused: Vec<String>,
}

const DOING: &str = "claiming rows";

impl Claim<'_> {
    fn claim_ms(&self) -> i64 {
        i64::try_from(self.relay.config.stuck_after_ms).unwrap_or(i64::MAX)
    }

    /// Claims rows of no aggregate, each a lane of its own.
    async fn free(&self, limit: usize, batch: &mut Batch) -> Result<(), SourceError> {
        if limit == 0 {
            return Ok(());
        }
        let (db, rows) = (&self.relay.outbox.db, limit as i64);
        let binds: [crate::outbox::db::Bind<'_>; 3] = [&rows, &self.claim_ms(), &self.refused];
        let claimed = match db.query(DOING, &self.statements.claim_free, &binds).await {
            Ok(rows) => self.read(&rows)?,
            Err(SourceError::Refused { .. }) => {
                let keys = db.query(DOING, &self.statements.free, &[&rows, &self.refused]).await?;
                let keys: Vec<String> = keys.iter().map(|row| cell(row, 0)).collect::<Result<_, _>>()?;
                self.one_by_one(&keys).await?
            }
            Err(error) => return Err(error),
        };
        batch.is_partial |= claimed.len() == limit;
        batch.lanes.extend(claimed.into_iter().map(|row| vec![row]));
        Ok(())
    }

    /// Claims the next rows of aggregates, in order.
    async fn ordered(&self, limit: usize, batch: &mut Batch) -> Result<(), SourceError> {
        let Some(ordered) = &self.statements.ordered else { return Ok(()) };
        if limit == 0 {
            return Ok(());
        }
        let db = &self.relay.outbox.db;
        let rows = match ordered {
            Ordered::ByIndex { heads, lanes } => {
                let (due, is_partial) = self.due_aggregates(heads, limit).await?;
                batch.is_partial |= is_partial;
                if due.is_empty() {
                    return Ok(());
                }
                let lane = (limit / due.len()).clamp(1, limits::RELAY_LANE_ROWS_MAX) as i64;
                let (ids, types): (Vec<String>, Vec<Option<String>>) = due.into_iter().unzip();
                db.query(DOING, lanes, &[&ids, &types, &lane, &self.refused]).await?
            }
            Ordered::ByPass { lanes } => {
                let (rows, lane) = (limit as i64, limits::RELAY_LANE_ROWS_MAX as i64);
                db.query(DOING, lanes, &[&rows, &lane, &self.refused]).await?
            }
        };
        let mut lanes: BTreeMap<Aggregate, Vec<String>> = BTreeMap::new();
        let mut keys = Vec::new();
        for row in rows.iter().take(limit) {
            let key: String = cell(row, 0)?;
            lanes.entry((cell(row, 1)?, cell(row, 2)?)).or_default().push(key.clone());
            keys.push(key);
        }
        let claimed = self.by_key(&keys).await?;
        let mut claimed: HashMap<String, Claimed> =
            claimed.into_iter().map(|row| (row.delivery.idempotency_key.clone(), row)).collect();
        for keys in lanes.into_values() {
            let in_order: Vec<Claimed> = keys.iter().map_while(|key| claimed.remove(key)).collect();
            if !in_order.is_empty() {
                batch.lanes.push(in_order);
            }
            batch.out_of_order.extend(keys.iter().filter_map(|key| claimed.remove(key)));
        }
        Ok(())
    }

    /// Finds aggregates whose head is due, from where the last claim ended; also says whether there may be more.
    async fn due_aggregates(&self, heads: &str, limit: usize) -> Result<(Vec<Aggregate>, bool), SourceError> {
        let db = &self.relay.outbox.db;
        let mut behind: Option<Aggregate> = locked(&self.relay.claimed_up_to).clone();
        let (mut due, mut visited) = (Vec::new(), HashSet::new());
        let mut page = limit.max(limits::RELAY_HEADS_PAGE_MIN);
        let is_partial = loop {
            let (id, of) = behind.take().map_or((None, None), |(id, of)| (Some(id), of));
            let asked = page as i64;
            let rows = db.query(DOING, heads, &[&asked, &id, &of, &self.refused]).await?;
            let mut is_new = true;
            for row in &rows {
                let aggregate: Aggregate = (cell(row, 0)?, cell(row, 1)?);
                is_new = visited.insert(aggregate.clone());
                if !is_new {
                    break;
                }
                if cell(row, 2)? {
                    due.push(aggregate.clone());
                }
                behind = Some(aggregate);
                if due.len() == limit {
                    break;
                }
            }
            if due.len() == limit {
                break true;
            }
            let is_last = rows.len() < page;
            if is_last {
                behind = None;
            }
            // Once around, or everything from the beginning on.
            if !is_new || (is_last && id.is_none()) {
                break false;
            }
            if visited.len() >= limits::RELAY_HEADS_VISITED_MAX {
                break true;
            }
            page = (page * 4).min(limits::RELAY_HEADS_PAGE_MAX);
        };
        *locked(&self.relay.claimed_up_to) = behind;
        Ok((due, is_partial))
    }

    /// Claims rows by key. Where the database refuses a statement because of one row, the others are claimed without it.
    async fn by_key(&self, keys: &[String]) -> Result<Vec<Claimed>, SourceError> {
        let binds: [crate::outbox::db::Bind<'_>; 2] = [&keys, &self.claim_ms()];
        match self.relay.outbox.db.query(DOING, &self.statements.claim, &binds).await {
            Ok(rows) => self.read(&rows),
            Err(SourceError::Refused { .. }) => self.one_by_one(keys).await,
            Err(error) => Err(error),
        }
    }

    async fn one_by_one(&self, keys: &[String]) -> Result<Vec<Claimed>, SourceError> {
        let mut claimed = Vec::new();
        for key in keys {
            let one = [key.as_str()];
            let binds: [crate::outbox::db::Bind<'_>; 2] = [&one.as_slice(), &self.claim_ms()];
            match self.relay.outbox.db.query(DOING, &self.statements.claim, &binds).await {
                Ok(rows) => claimed.extend(self.read(&rows)?),
                Err(SourceError::Refused { why, .. }) => self.relay.refuse(key, &why),
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    }

    fn read(&self, rows: &[Row]) -> Result<Vec<Claimed>, SourceError> {
        rows.iter().map(|row| claimed(row, self.table)).collect()
    }
}

fn claimed(row: &Row, table: &Table) -> Result<Claimed, SourceError> {
    let failed_before = count(cell(row, 7)?).unwrap_or(0);
    let (content_type, body) = payload(row, 4, table.payload)?;
    let length = u64::try_from(cell::<i64>(row, 11)?).unwrap_or(0);
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
    Ok(Claimed {
        body_left_out: (length > u64::from(super::statements::INLINE_BYTES_MAX)).then_some(length),
        delivery,
        failed_before,
        max_retries: count(cell(row, 8)?),
        claim: cell(row, 10)?,
    })
}
