//! One connection in use: statements that are prepared once, and statements that are composed for one question.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use futures_util::{Stream, TryStreamExt};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_postgres::Address;
use tokio_postgres::Row;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::cell::{At, Bind, Uid};
use super::failure::no_connection;
use crate::StoreError;
use crate::copy::Value;
#[cfg(feature = "testing")]
use crate::testing::plans;

/// Everything of ours is in this schema, so that a database can hold other tables too.
pub(super) const SCHEMA: &str = "lazaret";

/// What every session of ours is set to; `statement_ms` is how long one statement may take.
pub(super) fn settings(statement_ms: u64) -> String {
    format!(
        "set search_path to {SCHEMA}, public;
         set timezone to 'UTC';
         set client_min_messages to warning;
         set jit to off;
         set statement_timeout to {statement_ms};
         set lock_timeout to {lock};
         set idle_in_transaction_session_timeout to {idle};
         set tcp_keepalives_idle to 5;
         set tcp_keepalives_interval to 2;
         set tcp_keepalives_count to 3",
        lock = limits::POSTGRES_LOCK_MS_MAX,
        idle = limits::POSTGRES_IDLE_MS_MAX,
    )
}

/// A pool whose connections are set up and made again when they are lost.
pub(super) fn pool(address: &Address, size: usize, statement_ms: u64) -> Result<Pool, StoreError> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(address.config.clone(), address.tls.clone(), config);
    let wait = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
    let settings = settings(statement_ms);
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(Duration::from_millis(limits::READ_MS_MAX)))
        .create_timeout(Some(wait))
        .recycle_timeout(Some(wait))
        .post_create(Hook::async_fn(move |client, _| {
            let settings = settings.clone();
            Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
        }))
        .build()
        .map_err(|error| StoreError::Unfit(error.to_string()))
}

/// A connection in use. Unless it is given back it is closed: whoever was working on it may have gone away in the
/// middle of a transaction.
pub(super) struct Conn {
    client: Option<Client>,
}

impl Conn {
    pub async fn of(pool: &Pool) -> Result<Conn, StoreError> {
        Ok(Conn { client: Some(pool.get().await.map_err(no_connection)?) })
    }

    /// Lets somebody else use it; nothing is open on it.
    pub fn give_back(mut self) {
        drop(self.client.take());
    }

    fn client(&self) -> Result<&Client, StoreError> {
        self.client.as_ref().ok_or(StoreError::Unavailable { doing: "using a connection", source: None })
    }

    /// Runs statements that bind nothing, in one round trip.
    pub async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.client()?.batch_execute(sql).await?)
    }

    /// Runs a statement of which there are few: it is prepared once for each connection.
    pub async fn query(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        #[cfg(feature = "testing")]
        if plans::are_wanted() {
            let statement = client.prepare(&plans::explained(sql)).await?;
            plans::keep(sql, &client.query(&statement, binds).await?)?;
        }
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, binds).await?)
    }

    pub async fn query_opt(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, binds).await?.into_iter().next())
    }

    pub async fn query_one(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Row, StoreError> {
        let missing = || StoreError::Corrupt("a row that is always there is missing".into());
        self.query_opt(sql, binds).await?.ok_or_else(missing)
    }

    pub async fn execute(&self, sql: &str, binds: &[Bind<'_>]) -> Result<u64, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.execute(&statement, binds).await?)
    }

    /// Prepares a statement ahead: then it is sent at once when it is asked for, and before those asked for after it.
    pub async fn prepare(&self, sql: &str) -> Result<(), StoreError> {
        self.client()?.prepare_cached(sql).await?;
        Ok(())
    }

    /// The same for several statements that are to be sent one behind the other, in the order they are asked for.
    pub async fn prepare_all(&self, statements: &[&str]) -> Result<(), StoreError> {
        for sql in statements {
            self.prepare(sql).await?;
        }
        Ok(())
    }

    /// The same, row by row as they come in.
    pub async fn stream(
        &self,
        sql: &str,
        binds: &[Bind<'_>],
    ) -> Result<impl Stream<Item = Result<Row, StoreError>> + use<>, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query_raw(&statement, binds.iter().copied()).await?.map_err(StoreError::from))
    }

    /// The types of the columns that a statement returns.
    pub async fn types(&self, sql: &str) -> Result<Vec<Type>, StoreError> {
        let statement = self.client()?.prepare_cached(sql).await?;
        Ok(statement.columns().iter().map(|column| column.type_().clone()).collect())
    }

    /// Runs a `copy … from stdin (format binary)` with these rows.
    pub async fn copy_in(&self, sql: &str, types: &[Type], rows: &[Vec<Value>]) -> Result<(), StoreError> {
        let sink = self.client()?.copy_in(sql).await?;
        let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, types));
        for row in rows {
            writer.as_mut().write_raw(row.iter()).await?;
        }
        writer.finish().await?;
        Ok(())
    }

    /// Runs a statement that was composed for one question: it is planned for its values, and not kept.
    pub async fn ask(&self, sql: &str, binds: &Binds) -> Result<Vec<Row>, StoreError> {
        let typed: Vec<(Bind<'_>, Type)> =
            binds.0.iter().map(|(value, of)| (value.as_ref() as Bind<'_>, of.clone())).collect();
        let client = self.client()?;
        #[cfg(feature = "testing")]
        if plans::are_wanted() {
            plans::keep(sql, &client.query_typed(&plans::explained(sql), &typed).await?)?;
        }
        Ok(client.query_typed(sql, &typed).await?)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

type Bound = Box<dyn ToSql + Sync + Send>;

/// Values of a composed statement; each way to add one returns the mark that stands for it.
#[derive(Default)]
pub(super) struct Binds(Vec<(Bound, Type)>);

impl Binds {
    fn add(&mut self, value: impl ToSql + Sync + Send + 'static, of: Type) -> String {
        self.0.push((Box::new(value), of));
        format!("${}", self.0.len())
    }

    pub fn text(&mut self, value: impl Into<String>) -> String {
        self.add(value.into(), Type::TEXT)
    }

    pub fn texts(&mut self, values: Vec<String>) -> String {
        self.add(values, Type::TEXT_ARRAY)
    }

    pub fn long(&mut self, value: i64) -> String {
        self.add(value, Type::INT8)
    }

    pub fn time(&mut self, value: Time) -> String {
        self.add(At(value), Type::TIMESTAMPTZ)
    }

    pub fn id(&mut self, value: [u8; 16]) -> String {
        self.add(Uid(value), Type::UUID)
    }

    pub fn ids(&mut self, values: Vec<[u8; 16]>) -> String {
        self.add(values.into_iter().map(Uid).collect::<Vec<_>>(), Type::UUID_ARRAY)
    }
}
