//! What the shop does not need at hand any more, and what it has to keep: some old letters in the archive, and a hold
//! that also catches what is disputed from now on.

use std::sync::Arc;

use lazaret_core::duration::Length;
use lazaret_core::filter::Filter;
use lazaret_core::id::HoldId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;
use lazaret_store::hold::{HoldOn, NewHold};
use lazaret_store::retention::{PrunableQuery, PruneBatch, PruneLetter};
use lazaret_store::{Store, StoreError};

use super::calendar::DAY;

/// What was discarded so long ago is archived.
const DISCARDED_KEPT_MS: i64 = 10 * DAY;

/// Which refunds have to be kept, as the shop's lawyers say it.
const DISPUTED: &str = "type:refund.requested code:dispute_open";

/// Archives what was discarded long ago, as a limit of age would.
pub(super) async fn push_out(store: &Arc<dyn Store>, at: Time) -> Result<(), StoreError> {
    let standings = store.queue_standings().await?;
    let discarded = standings.into_iter().filter(|one| one.status == Status::Discarded);
    let query = PrunableQuery {
        queues: discarded.map(|one| (one.source, one.queue)).collect(),
        status: Status::Discarded,
        until: at.plus_ms(-DISCARDED_KEPT_MS),
        after: None,
        planned: None,
        limit: limits::PRUNED_PER_WRITE,
    };
    let found = store.prunable(query).await?;
    let mut letters: Vec<PruneLetter> = found
        .into_iter()
        .map(|one| PruneLetter {
            letter: one.key.letter,
            retention_at: one.key.retention_at,
            policy: PruningPolicy::Archive,
            min_age: Length::from_ms(limits::RETENTION_FLOOR_MS),
        })
        .collect();
    while !letters.is_empty() {
        let batch = letters.clone();
        let batch = PruneBatch { letters: batch, status: Status::Discarded, limit: Limit::MaxAge, at };
        let looked_at = store.prune(batch).await?.looked_at;
        letters.drain(..looked_at.clamp(1, letters.len()));
    }
    Ok(())
}

/// Places the hold on disputes, those to come too, for a year.
pub(super) async fn hold_disputes(
    store: &Arc<dyn Store>,
    random: [u8; 10],
    at: Time,
) -> Result<(), StoreError> {
    let id = HoldId::mint(at, random);
    let filter = Filter::from_text(DISPUTED).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let hold = NewHold {
        id,
        on: HoldOn::Standing(filter),
        reason: "refunds under dispute are evidence until the court has decided, case HP/114".into(),
        until: Some(at.plus_ms(365 * DAY)),
        by: Actor { name: "legal".into(), role: "operator".into(), request: None },
        at,
    };
    store.place_hold(hold).await?;
    while store.work_hold(id, at).await? {}
    Ok(())
}
