//! Who is signed in: sessions by the hash of their cookie.

use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::access::StoredSession;
use crate::audit::{Actor, NewEntry};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(super) const SESSIONS: Table = table!("sessions": "hash", "token", "created_at", "expires_at");

fn read(row: &Row<'_>) -> Result<StoredSession, StoreError> {
    Ok(StoredSession {
        hash: row.get("hash")?,
        token: row.get("token")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
    })
}

const ADD: Sql = sql!(
    "
insert into sessions ({})
values ($1, $2, $3, $4)",
    SESSIONS
);

const GIVE_WAY: Sql = sql!(
    "
delete from sessions
 where hash {sqlite in (}{postgres = any(array(}select hash
                  from sessions
                 where token = $1
                 order by created_at desc, hash desc
                 limit 1000
                offset $2{postgres )})"
);

pub(super) async fn add(tx: &mut impl Tx, session: &StoredSession, by: &Actor) -> Result<(), StoreError> {
    let values = binds![&session.hash, &session.token, session.created_at, session.expires_at];
    tx.execute(&ADD, values).await?;
    tx.execute(&GIVE_WAY, binds![&session.token, limits::SESSIONS_PER_TOKEN_MAX]).await?;
    tx.add_audit(&NewEntry::new(by, "signed_in", session.created_at))
}

const SESSION: Sql = sql!(
    "
select {}
  from sessions
 where hash = $1",
    SESSIONS
);

pub(super) async fn session(
    conn: &mut impl Conn,
    hash: &[u8; 32],
) -> Result<Option<StoredSession>, StoreError> {
    conn.query_opt(&SESSION, binds![hash], read).await
}

const OF_TOKEN: Sql = sql!(
    "
select {}
  from sessions
 where token = $1
 order by created_at desc, hash desc
 limit $2",
    SESSIONS
);

pub(super) async fn of_token(
    conn: &mut impl Conn,
    token: &[u8; 32],
) -> Result<Vec<StoredSession>, StoreError> {
    conn.query(&OF_TOKEN, binds![token, limits::SESSIONS_PER_TOKEN_MAX], read).await
}

const END: Sql = sql!("delete from sessions where hash = $1");

pub(super) async fn end(tx: &mut impl Tx, hash: &[u8; 32], by: &Actor, at: Time) -> Result<bool, StoreError> {
    let ended = tx.execute(&END, binds![hash]).await? > 0;
    if ended {
        tx.add_audit(&NewEntry::new(by, "signed_out", at))?;
    }
    Ok(ended)
}

const END_OF_TOKEN: Sql = sql!("delete from sessions where token = $1");

pub(super) async fn end_of_token(
    tx: &mut impl Tx,
    token: &[u8; 32],
    by: &Actor,
    at: Time,
) -> Result<u64, StoreError> {
    let count = tx.execute(&END_OF_TOKEN, binds![token]).await?;
    if count > 0 {
        tx.add_audit(&NewEntry { count, ..NewEntry::new(by, "signed_out_everywhere", at) })?;
    }
    Ok(count)
}

/// A session that somebody else has locked is being ended anyway.
const DROP: Sql = sql!(
    "
delete from sessions
 where hash {sqlite in (}{postgres = any(array(}select hash
                  from sessions
                 where expires_at <= $1
                 order by expires_at, hash
                 limit $2
                 {postgres for update skip locked)})"
);

pub(super) async fn drop_expired(
    tx: &mut impl Tx,
    expired_by: Time,
    limit: usize,
) -> Result<u64, StoreError> {
    tx.execute(&DROP, binds![expired_by, limit]).await
}
