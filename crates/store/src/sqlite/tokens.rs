//! Access tokens: added, revoked, never removed, so that the audit log's names stay explained.

use lazaret_core::id::TokenId;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::audit::{self, NewEntry};
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::token::StoredToken;

const ALL_TOKENS: &str = "
select id, hash, name, role, created_at, created_by, revoked_at
  from tokens
 order by created_at, id
 limit 100000";

pub(super) fn all(conn: &Connection) -> Result<Vec<StoredToken>, StoreError> {
    let mut statement = conn.prepare_cached(ALL_TOKENS)?;
    let mut rows = statement.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(StoredToken {
            id: TokenId::from_bytes(row.get(0)?),
            hash: row.get(1)?,
            name: row.get(2)?,
            role: row.get(3)?,
            created_at: Time::from_ms(row.get(4)?),
            created_by: row.get(5)?,
            revoked_at: row.get::<_, Option<i64>>(6)?.map(Time::from_ms),
        });
    }
    Ok(tokens)
}

const ADD_TOKEN: &str = "
insert into tokens (id, hash, name, role, created_at, created_by)
values (?1, ?2, ?3, ?4, ?5, ?6)";

pub(super) fn add(write: &Write<'_>, token: &StoredToken, by: &Actor) -> Result<(), StoreError> {
    write.conn.prepare_cached(ADD_TOKEN)?.execute((
        token.id.bytes(),
        token.hash,
        &token.name,
        &token.role,
        token.created_at.ms(),
        &token.created_by,
    ))?;
    let reason = format!("{} ({})", token.name, token.role);
    log(write, by, "token_created", token.created_at, &reason)
}

const REVOKE_TOKEN: &str = "
update tokens
   set revoked_at = ?2
 where id = ?1
   and revoked_at is null
returning name";

pub(super) fn revoke(write: &Write<'_>, id: TokenId, by: &Actor, at: Time) -> Result<bool, StoreError> {
    let mut statement = write.conn.prepare_cached(REVOKE_TOKEN)?;
    let mut rows = statement.query((id.bytes(), at.ms()))?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let name: String = row.get(0)?;
    // The statement has to run to its end before the next one.
    while rows.next()?.is_some() {}
    log(write, by, "token_revoked", at, &name)?;
    Ok(true)
}

fn log(write: &Write<'_>, by: &Actor, action: &str, at: Time, reason: &str) -> Result<(), StoreError> {
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
