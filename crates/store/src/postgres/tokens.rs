//! Access tokens: added, revoked, never removed, so that the audit log's names stay explained.

use lazaret_core::id::TokenId;
use lazaret_core::time::Time;

use super::audit::{self, NewEntry};
use super::cell::{At, Cells, Uid, clean};
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::token::StoredToken;

const ALL_TOKENS: &str = "
select id, hash, name, role, created_at, created_by, revoked_at
  from tokens
 order by created_at, id
 limit 100000";

pub(super) async fn all(conn: &Conn) -> Result<Vec<StoredToken>, StoreError> {
    let mut tokens = Vec::new();
    for row in conn.query(ALL_TOKENS, &[]).await? {
        tokens.push(StoredToken {
            id: TokenId::from_bytes(row.id(0)?),
            hash: row.bytes(1)?,
            name: row.cell(2)?,
            role: row.cell(3)?,
            created_at: row.time(4)?,
            created_by: row.cell(5)?,
            revoked_at: row.time_opt(6)?,
        });
    }
    Ok(tokens)
}

const ADD_TOKEN: &str = "
insert into tokens (id, hash, name, role, created_at, created_by)
values ($1, $2, $3, $4, $5, $6)";

pub(super) async fn add(write: &mut Write, token: &StoredToken, by: &Actor) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            ADD_TOKEN,
            &[
                &Uid(*token.id.bytes()),
                &token.hash.as_slice(),
                &clean(&token.name),
                &token.role,
                &At(token.created_at),
                &clean(&token.created_by),
            ],
        )
        .await?;
    let reason = format!("{} ({})", token.name, token.role);
    log(write, by, "token_created", token.created_at, &reason)
}

const REVOKE_TOKEN: &str = "
update tokens
   set revoked_at = $2
 where id = $1
   and revoked_at is null
returning name";

pub(super) async fn revoke(write: &mut Write, id: TokenId, by: &Actor, at: Time) -> Result<bool, StoreError> {
    let revoked = write.conn.query_opt(REVOKE_TOKEN, &[&Uid(*id.bytes()), &At(at)]).await?;
    let Some(row) = revoked else { return Ok(false) };
    log(write, by, "token_revoked", at, row.cell(0)?)?;
    Ok(true)
}

fn log(write: &mut Write, by: &Actor, action: &str, at: Time, reason: &str) -> Result<(), StoreError> {
    let entry = NewEntry {
        at,
        actor: by,
        action,
        letter: None,
        operation: None,
        incident: None,
        redrive: None,
        filter: None,
        count: 1,
        reason: Some(reason),
    };
    audit::add(write, &entry)
}
