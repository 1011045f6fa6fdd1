//! How far the write-ahead log of a PostgreSQL has come.

use anyhow::Context;
use lazaret_postgres::Address;
use tokio_postgres::Client;

/// A connection that only asks for the position of the log.
#[derive(Debug)]
pub struct Wal(Client);

impl Wal {
    pub async fn connect(url: &str) -> anyhow::Result<Wal> {
        let address = Address::parse(url)?;
        let (client, connection) =
            address.config.connect(address.tls.clone()).await.context("cannot connect to PostgreSQL")?;
        tokio::spawn(connection);
        Ok(Wal(client))
    }

    /// Bytes written to the log since the database was made; nothing if this user may not ask.
    pub async fn bytes(&self) -> Option<u64> {
        let row =
            self.0.query_one("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint", &[]).await.ok()?;
        u64::try_from(row.try_get::<_, i64>(0).ok()?).ok()
    }
}
