//! Who is signed in: sessions by the hash of their cookie.

use async_trait::async_trait;
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::PostgresStore;
use super::audit::{self, NewEntry};
use super::cell::{At, Cells};
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::session_store::{SessionStore, StoredSession};

#[async_trait]
impl SessionStore for PostgresStore {
    async fn add_session(&self, session: StoredSession, by: Actor) -> Result<(), StoreError> {
        self.writer.write(1, (session, by), |write, asked| Box::pin(add(write, &asked.0, &asked.1))).await
    }

    async fn session(&self, hash: [u8; 32]) -> Result<Option<StoredSession>, StoreError> {
        self.readers.read(hash, |conn, asked| Box::pin(session(conn, asked))).await
    }

    async fn sessions_of(&self, token: [u8; 32]) -> Result<Vec<StoredSession>, StoreError> {
        self.readers.read(token, |conn, asked| Box::pin(of(conn, asked))).await
    }

    async fn end_session(&self, hash: [u8; 32], by: Actor, at: Time) -> Result<bool, StoreError> {
        self.writer
            .write(1, (hash, by, at), |write, asked| Box::pin(end(write, &asked.0, &asked.1, asked.2)))
            .await
    }

    async fn end_sessions_of(&self, token: [u8; 32], by: Actor, at: Time) -> Result<u64, StoreError> {
        self.writer
            .write(1, (token, by, at), |write, asked| Box::pin(end_of(write, &asked.0, &asked.1, asked.2)))
            .await
    }

    async fn drop_sessions(&self, expired_by: Time, limit: usize) -> Result<u64, StoreError> {
        self.writer
            .write_long(1, (expired_by, limit), |write, asked| Box::pin(drop_ended(write, asked.0, asked.1)))
            .await
    }
}

const ADD: &str = "
insert into sessions (hash, token, created_at, expires_at)
values ($1, $2, $3, $4)";

const GIVE_WAY: &str = "
delete from sessions
 where hash = any(array(select hash
                          from sessions
                         where token = $1
                         order by created_at desc, hash desc
                         limit 1000
                        offset $2))";

async fn add(write: &mut Write, session: &StoredSession, by: &Actor) -> Result<(), StoreError> {
    let (hash, token) = (session.hash.as_slice(), session.token.as_slice());
    write.conn.execute(ADD, &[&hash, &token, &At(session.created_at), &At(session.expires_at)]).await?;
    write.conn.execute(GIVE_WAY, &[&token, &(limits::SESSIONS_PER_TOKEN_MAX as i64)]).await?;
    log(write, by, "signed_in", session.created_at, 1)
}

const SESSION: &str = "
select hash, token, created_at, expires_at
  from sessions
 where hash = $1";

async fn session(conn: &Conn, hash: &[u8; 32]) -> Result<Option<StoredSession>, StoreError> {
    conn.query_opt(SESSION, &[&hash.as_slice()]).await?.as_ref().map(read).transpose()
}

const OF_TOKEN: &str = "
select hash, token, created_at, expires_at
  from sessions
 where token = $1
 order by created_at desc, hash desc
 limit $2";

async fn of(conn: &Conn, token: &[u8; 32]) -> Result<Vec<StoredSession>, StoreError> {
    let limit = limits::SESSIONS_PER_TOKEN_MAX as i64;
    conn.query(OF_TOKEN, &[&token.as_slice(), &limit]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<StoredSession, StoreError> {
    Ok(StoredSession {
        hash: row.bytes(0)?,
        token: row.bytes(1)?,
        created_at: row.time(2)?,
        expires_at: row.time(3)?,
    })
}

const END: &str = "
delete from sessions
 where hash = $1";

async fn end(write: &mut Write, hash: &[u8; 32], by: &Actor, at: Time) -> Result<bool, StoreError> {
    let ended = write.conn.execute(END, &[&hash.as_slice()]).await?;
    if ended > 0 {
        log(write, by, "signed_out", at, 1)?;
    }
    Ok(ended > 0)
}

const END_OF: &str = "
delete from sessions
 where token = $1";

async fn end_of(write: &mut Write, token: &[u8; 32], by: &Actor, at: Time) -> Result<u64, StoreError> {
    let ended = write.conn.execute(END_OF, &[&token.as_slice()]).await?;
    if ended > 0 {
        log(write, by, "signed_out_everywhere", at, ended)?;
    }
    Ok(ended)
}

/// What somebody else holds is being ended anyway.
const DROP: &str = "
delete from sessions
 where hash = any(array(select hash
                          from sessions
                         where expires_at <= $1
                         order by expires_at, hash
                         limit $2
                           for update skip locked))";

async fn drop_ended(write: &Write, expired_by: Time, limit: usize) -> Result<u64, StoreError> {
    write.conn.execute(DROP, &[&At(expired_by), &(limit as i64)]).await
}

fn log(write: &mut Write, by: &Actor, action: &str, at: Time, count: u64) -> Result<(), StoreError> {
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
