//! Queues of jobs: what they hold, pausing them, and by which index jobs are listed. The stores count as jobs move.

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::job::{JobQuery, QueueInfo};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(super) const QUEUES: Table = table!(
    "queues": "name", "paused", "created_at", "scheduled", "available", "pending", "active", "completed", "retryable",
    "cancelled", "discarded"
);

const ALL: Sql = sql!("select {} from queues order by name", QUEUES);

/// All queues in the order of their names.
pub(crate) async fn all(conn: &mut impl Conn) -> Result<Vec<QueueInfo>, StoreError> {
    conn.query(&ALL, &[], read).await
}

/// Every state of a job is also the name of the column that counts it.
fn read(row: &Row<'_>) -> Result<QueueInfo, StoreError> {
    let (name, paused, created_at) = (row.get("name")?, row.get("paused")?, row.get("created_at")?);
    let counts = JobState::ALL.into_iter().map(|state| Ok((state, row.get(state.name())?)));
    let counts = counts.collect::<Result<_, StoreError>>()?;
    Ok(QueueInfo { name, paused, created_at, counts })
}

const PAUSE: Sql = sql!(
    "
insert into queues (name, paused, created_at)
values ($1, $2, $3)
on conflict (name)
do update set paused = excluded.paused"
);

/// Pauses a queue or lets it go on; one that does not exist yet is made, so that it begins paused.
pub(crate) async fn pause(
    tx: &mut impl Tx,
    name: &str,
    paused: bool,
    by: &Actor,
    at: Time,
) -> Result<(), StoreError> {
    tx.execute(&PAUSE, binds![name, paused, at]).await?;
    let named = Filter { queue: Patterns::only(name), ..Filter::default() }.to_string();
    let action = if paused { "queue_paused" } else { "queue_resumed" };
    tx.add_audit(&NewEntry { filter: Some(&named), ..NewEntry::new(by, action, at) })
}

/// How jobs are found for a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// By their ids, which is the order that is asked for.
    ById,
    /// By the index of those that workers hold, and sorted afterwards.
    Held,
    /// By the index of those that are available, and sorted afterwards.
    Waiting,
    /// By the index of those that are due at some time, and sorted afterwards.
    Due,
}

/// The way that looks at the fewest jobs; nothing if there is none to be found.
pub(crate) fn way(query: &JobQuery, queues: &[QueueInfo]) -> Option<Way> {
    let held = query.worker.is_some();
    if held && query.state.is_some_and(|state| state != JobState::Active) {
        return None;
    }
    let count = |states: &[JobState], queue: Option<&str>| -> u64 {
        let named = queues.iter().filter(|known| queue.is_none_or(|name| name == known.name));
        named.flat_map(|known| states.iter().map(|state| known.counts[state])).sum()
    };
    let states = query.state.map_or(JobState::ALL.to_vec(), |state| vec![state]);
    if count(&states, query.queue.as_deref()) == 0 {
        return None;
    }
    if held {
        return Some(Way::Held);
    }
    let timed = [JobState::Scheduled, JobState::Available, JobState::Active, JobState::Retryable];
    let (way, looked_at) = match query.state {
        Some(JobState::Available) => (Way::Waiting, count(&[JobState::Available], query.queue.as_deref())),
        Some(JobState::Active | JobState::Scheduled | JobState::Retryable) => (Way::Due, count(&timed, None)),
        Some(JobState::Pending | JobState::Completed | JobState::Cancelled | JobState::Discarded) | None => {
            return Some(Way::ById);
        }
    };
    Some(if looked_at <= limits::JOBS_LOOKED_AT_MAX as u64 { way } else { Way::ById })
}
