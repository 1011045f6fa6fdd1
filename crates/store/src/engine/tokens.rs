//! Access tokens: added, revoked, never removed, so that the audit log's names stay explained.

use lazaret_core::id::TokenId;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};
use crate::token::StoredToken;

pub(super) const TOKENS: Table =
    table!("tokens": "id", "hash", "name", "role", "created_at", "created_by", "revoked_at");

fn read(row: &Row<'_>) -> Result<StoredToken, StoreError> {
    Ok(StoredToken {
        id: row.get("id")?,
        hash: row.get("hash")?,
        name: row.get("name")?,
        role: row.get("role")?,
        created_at: row.get("created_at")?,
        created_by: row.get("created_by")?,
        revoked_at: row.get("revoked_at")?,
    })
}

const ALL: Sql = sql!(
    "
select {}
  from tokens
 order by created_at, id
 limit 100000",
    TOKENS
);

pub(super) async fn all(conn: &mut impl Conn) -> Result<Vec<StoredToken>, StoreError> {
    conn.query(&ALL, &[], read).await
}

const ADD: Sql = sql!(
    "
insert into tokens (id, hash, name, role, created_at, created_by)
values ($1, $2, $3, $4, $5, $6)"
);

pub(super) async fn add(tx: &mut impl Tx, token: &StoredToken, by: &Actor) -> Result<(), StoreError> {
    let values = binds![token.id, &token.hash, &token.name, &token.role, token.created_at, &token.created_by];
    tx.execute(&ADD, values).await?;
    let reason = format!("{} ({})", token.name, token.role);
    tx.add_audit(&NewEntry { reason: Some(&reason), ..NewEntry::new(by, "token_created", token.created_at) })
}

const REVOKE: Sql = sql!(
    "
update tokens
   set revoked_at = $2
 where id = $1
   and revoked_at is null
returning name"
);

pub(super) async fn revoke(tx: &mut impl Tx, id: TokenId, by: &Actor, at: Time) -> Result<bool, StoreError> {
    let revoked = tx.query_opt(&REVOKE, binds![id, at], |row| row.get::<String>("name")).await?;
    let Some(name) = revoked else { return Ok(false) };
    tx.add_audit(&NewEntry { reason: Some(&name), ..NewEntry::new(by, "token_revoked", at) })?;
    Ok(true)
}
