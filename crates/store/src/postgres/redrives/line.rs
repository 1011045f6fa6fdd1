//! What runs did minute by minute, kept as their letters move. The redrives are held by the caller.

use std::collections::BTreeMap;

use lazaret_core::id::RedriveId;

use super::super::cell::Uid;
use super::super::insert::column;
use super::super::writer::Write;
use crate::StoreError;
use crate::redrive::Did;

const ADD: &str = "
insert into run_minutes as r (redrive, minute, sent, good, bad)
select n.redrive, n.minute, n.sent, n.good, n.bad
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
    as n (redrive, minute, sent, good, bad)
    on conflict (redrive, minute)
    do update set sent = r.sent + excluded.sent, good = r.good + excluded.good, bad = r.bad + excluded.bad";

/// Adds what was done in minutes of runs.
pub(super) async fn add(
    write: &Write,
    did: impl IntoIterator<Item = (RedriveId, i64, Did)>,
) -> Result<(), StoreError> {
    let mut sums: BTreeMap<(RedriveId, i64), Did> = BTreeMap::new();
    for (redrive, minute, did) in did {
        let sum = sums.entry((redrive, minute)).or_default();
        *sum = Did { sent: sum.sent + did.sent, good: sum.good + did.good, bad: sum.bad + did.bad };
    }
    let all: Vec<((RedriveId, i64), Did)> =
        sums.into_iter().filter(|(_, did)| *did != Did::default()).collect();
    if all.is_empty() {
        return Ok(());
    }
    let redrives: Vec<Uid> = column(&all, |((id, _), _)| Uid(*id.bytes()));
    let minutes: Vec<i64> = column(&all, |((_, minute), _)| *minute);
    let sent: Vec<i64> = column(&all, |(_, did)| did.sent as i64);
    let good: Vec<i64> = column(&all, |(_, did)| did.good as i64);
    let bad: Vec<i64> = column(&all, |(_, did)| did.bad as i64);
    write.conn.execute(ADD, &[&redrives, &minutes, &sent, &good, &bad]).await?;
    Ok(())
}
