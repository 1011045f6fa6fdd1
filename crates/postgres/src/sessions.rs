//! Whether connections are sessions. Behind a pooler in transaction mode they are not: each transaction may run in another
//! backend, without the settings, locks, `LISTEN` and prepared statements of the one before.

use std::time::Duration;

use lazaret_core::limits;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::{Address, Unfit};

/// Why it could not be found out, or that it is not so.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    #[error(transparent)]
    Unfit(Unfit),
    #[error(transparent)]
    Failed(#[from] tokio_postgres::Error),
    #[error("it did not answer in time")]
    Late,
}

const POOLED: &str = "connections do not keep their sessions, as behind PgBouncer with pool_mode = transaction; connect to \
PostgreSQL itself, or set pool_mode = session for this database";

/// Fails if this connection or another one changes its backend, or if they share one. A pooler that gives out backends in
/// turn is seen by the first two questions, one that gives out the last used by the third.
pub async fn require_sessions(client: &Client, address: &Address) -> Result<(), NoSession> {
    let wait = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
    tokio::time::timeout(wait, compare(client, address)).await.map_err(|_| NoSession::Late)?
}

async fn compare(client: &Client, address: &Address) -> Result<(), NoSession> {
    let (other, connection) = address.config.connect(address.tls.clone()).await?;
    let driver = tokio::spawn(connection);
    let ours = [backend(client).await?, backend(client).await?];
    let theirs = [backend(&other).await?, backend(&other).await?];
    let again = [backend(client).await?, backend(&other).await?];
    driver.abort();
    let kept = ours[0] == ours[1] && ours[0] == again[0] && theirs[0] == theirs[1] && theirs[0] == again[1];
    if kept && ours[0] != theirs[0] { Ok(()) } else { Err(NoSession::Unfit(Unfit(POOLED.into()))) }
}

/// The process that answers, and since when it is there: another host may have one of the same number. Asked without a
/// prepared statement, which would need a session.
async fn backend(client: &Client) -> Result<Option<(String, String)>, tokio_postgres::Error> {
    const BACKEND: &str = "
        select pid::text, backend_start::text
          from pg_catalog.pg_stat_activity
         where pid = pg_catalog.pg_backend_pid()";
    let rows = client.simple_query(BACKEND).await?.into_iter();
    let mut rows = rows.filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((row.get(0)?.to_owned(), row.get(1)?.to_owned())),
        _ => None,
    });
    Ok(rows.next())
}
