//! Notifications: queued in the commit in which an alert fires, claimed under a lease, settled once.

use lazaret_core::id::NotificationId;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::alert_store::{NewNotification, NotificationOutcome, NotificationState, StoredNotification};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(in crate::engine) const NOTIFICATIONS: Table = table!("notifications":
    "id", "receiver", "payload", "state", "attempts", "created_at", "next_at", "claimed_until", "ended_at", "error");

fn read(row: &Row<'_>) -> Result<StoredNotification, StoreError> {
    Ok(StoredNotification {
        id: row.get("id")?,
        receiver: row.get("receiver")?,
        payload: row.get("payload")?,
        state: row.get("state")?,
        attempts: row.get("attempts")?,
        created_at: row.get("created_at")?,
        next_at: row.get("next_at")?,
        ended_at: row.get("ended_at")?,
        error: row.get("error")?,
    })
}

const ADD: Sql = sql!(
    "
insert into notifications (id, receiver, payload, state, attempts, created_at, next_at)
values ($1, $2, $3, $4, 0, $5, $5)"
);

pub(super) async fn add(tx: &mut impl Tx, new: &NewNotification, at: Time) -> Result<(), StoreError> {
    let binds = binds![new.id, &new.receiver, &new.payload, NotificationState::Waiting, at];
    tx.execute(&ADD, binds).await?;
    Ok(())
}

const DUE: Sql = sql!(
    "
select id
  from notifications
 where state = $1
   and next_at <= $2
   and (claimed_until is null or claimed_until <= $2)
 limit 1"
);

/// Returns true if there is something to claim; most of the time there is not.
pub(super) async fn are_due(conn: &mut impl Conn, now: Time) -> Result<bool, StoreError> {
    let read = |row: &Row<'_>| row.get::<NotificationId>("id");
    Ok(conn.query_opt(&DUE, binds![NotificationState::Waiting, now], read).await?.is_some())
}

/// One that somebody else has locked is being claimed or settled.
const CLAIM: Sql = sql!(
    "
update notifications
   set claimed_until = $2, attempts = attempts + 1
 where id {sqlite in (}{postgres = any(array(}select id
                from notifications
               where state = $3
                 and next_at <= $1
                 and (claimed_until is null or claimed_until <= $1)
               order by next_at, id
               limit $4
               {postgres for update skip locked)})
returning {}",
    NOTIFICATIONS
);

pub(super) async fn claim(
    tx: &mut impl Tx,
    now: Time,
    lease_until: Time,
    limit: usize,
) -> Result<Vec<StoredNotification>, StoreError> {
    tx.query(&CLAIM, binds![now, lease_until, NotificationState::Waiting, limit], read).await
}

const SETTLE: Sql = sql!(
    "
update notifications
   set state = $1, next_at = $2, ended_at = $3, error = $4, claimed_until = null
 where id = $5
   and attempts = $6
   and state = $7"
);

pub(super) async fn settle(
    tx: &mut impl Tx,
    id: NotificationId,
    attempt: u32,
    outcome: &NotificationOutcome,
    at: Time,
) -> Result<bool, StoreError> {
    let (state, next_at, ended_at, error) = match outcome {
        NotificationOutcome::Delivered => (NotificationState::Delivered, at, Some(at), None),
        NotificationOutcome::Again { at, error } => (NotificationState::Waiting, *at, None, Some(error)),
        NotificationOutcome::Failed { error } => (NotificationState::Failed, at, Some(at), Some(error)),
    };
    let binds = binds![state, next_at, ended_at, error, id, attempt, NotificationState::Waiting];
    Ok(tx.execute(&SETTLE, binds).await? > 0)
}

const ONE: Sql = sql!("select {} from notifications where id = $1", NOTIFICATIONS);

pub(super) async fn one(
    conn: &mut impl Conn,
    id: NotificationId,
) -> Result<Option<StoredNotification>, StoreError> {
    conn.query_opt(&ONE, binds![id], read).await
}

const NEWEST: Sql = sql!("select {} from notifications order by id desc limit $1", NOTIFICATIONS);

pub(super) async fn newest(
    conn: &mut impl Conn,
    limit: usize,
) -> Result<Vec<StoredNotification>, StoreError> {
    conn.query(&NEWEST, binds![limit], read).await
}

const PRUNE: Sql = sql!("delete from notifications where state {any $1} and next_at < $2");

pub(super) async fn prune(tx: &mut impl Tx, before: Time) -> Result<u64, StoreError> {
    let ended = vec![NotificationState::Delivered.name(), NotificationState::Failed.name()];
    tx.execute(&PRUNE, binds![ended, before]).await
}
