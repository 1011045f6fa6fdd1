//! Who is signed in: sessions by the hash of their cookie.

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, Row};

use super::SqliteStore;
use super::audit::{self, NewEntry};
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::session_store::{SessionStore, StoredSession};

#[async_trait]
impl SessionStore for SqliteStore {
    async fn add_session(&self, session: StoredSession, by: Actor) -> Result<(), StoreError> {
        self.writer.write(1, move |write| add(write, &session, &by)).await
    }

    async fn session(&self, hash: [u8; 32]) -> Result<Option<StoredSession>, StoreError> {
        self.readers.read_here(|conn| session(conn, hash)).await
    }

    async fn sessions_of(&self, token: [u8; 32]) -> Result<Vec<StoredSession>, StoreError> {
        self.readers.read(move |conn| of(conn, token)).await
    }

    async fn end_session(&self, hash: [u8; 32], by: Actor, at: Time) -> Result<bool, StoreError> {
        self.writer.write(1, move |write| end(write, hash, &by, at)).await
    }

    async fn end_sessions_of(&self, token: [u8; 32], by: Actor, at: Time) -> Result<u64, StoreError> {
        self.writer.write(1, move |write| end_of(write, token, &by, at)).await
    }

    async fn drop_sessions(&self, expired_by: Time, limit: usize) -> Result<u64, StoreError> {
        self.writer.write(1, move |write| drop_ended(write, expired_by, limit)).await
    }
}

const ADD: &str = "
insert into sessions (hash, token, created_at, expires_at)
values (?1, ?2, ?3, ?4)";

const GIVE_WAY: &str = "
delete from sessions
 where hash in (select hash
                  from sessions
                 where token = ?1
                 order by created_at desc, hash desc
                 limit 1000
                offset ?2)";

fn add(write: &Write<'_>, session: &StoredSession, by: &Actor) -> Result<(), StoreError> {
    write.conn.prepare_cached(ADD)?.execute((
        session.hash,
        session.token,
        session.created_at.ms(),
        session.expires_at.ms(),
    ))?;
    write.conn.prepare_cached(GIVE_WAY)?.execute((session.token, limits::SESSIONS_PER_TOKEN_MAX as i64))?;
    log(write, by, "signed_in", session.created_at, 1)
}

const SESSION: &str = "
select hash, token, created_at, expires_at
  from sessions
 where hash = ?1";

fn session(conn: &Connection, hash: [u8; 32]) -> Result<Option<StoredSession>, StoreError> {
    let mut statement = conn.prepare_cached(SESSION)?;
    let mut rows = statement.query([hash])?;
    rows.next()?.map(read).transpose()
}

const OF_TOKEN: &str = "
select hash, token, created_at, expires_at
  from sessions
 where token = ?1
 order by created_at desc, hash desc
 limit ?2";

fn of(conn: &Connection, token: [u8; 32]) -> Result<Vec<StoredSession>, StoreError> {
    let mut statement = conn.prepare_cached(OF_TOKEN)?;
    let mut rows = statement.query((token, limits::SESSIONS_PER_TOKEN_MAX as i64))?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push(read(row)?);
    }
    Ok(sessions)
}

fn read(row: &Row<'_>) -> Result<StoredSession, StoreError> {
    Ok(StoredSession {
        hash: row.get(0)?,
        token: row.get(1)?,
        created_at: Time::from_ms(row.get(2)?),
        expires_at: Time::from_ms(row.get(3)?),
    })
}

fn end(write: &Write<'_>, hash: [u8; 32], by: &Actor, at: Time) -> Result<bool, StoreError> {
    let ended = write.conn.prepare_cached("delete from sessions where hash = ?1")?.execute([hash])?;
    if ended > 0 {
        log(write, by, "signed_out", at, 1)?;
    }
    Ok(ended > 0)
}

fn end_of(write: &Write<'_>, token: [u8; 32], by: &Actor, at: Time) -> Result<u64, StoreError> {
    let ended = write.conn.prepare_cached("delete from sessions where token = ?1")?.execute([token])? as u64;
    if ended > 0 {
        log(write, by, "signed_out_everywhere", at, ended)?;
    }
    Ok(ended)
}

const DROP: &str = "
delete from sessions
 where hash in (select hash
                  from sessions
                 where expires_at <= ?1
                 order by expires_at, hash
                 limit ?2)";

fn drop_ended(write: &Write<'_>, expired_by: Time, limit: usize) -> Result<u64, StoreError> {
    let dropped = write.conn.prepare_cached(DROP)?.execute((expired_by.ms(), limit as i64))?;
    Ok(dropped as u64)
}

fn log(write: &Write<'_>, by: &Actor, action: &str, at: Time, count: u64) -> Result<(), StoreError> {
    let entry = NewEntry {
        at,
        actor: by,
        action,
        letter: None,
        operation: None,
        incident: None,
        redrive: None,
        filter: None,
        count,
        reason: None,
    };
    audit::add(write, &entry)
}
