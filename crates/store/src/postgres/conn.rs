//! One connection in use: statements that are prepared once, and statements that are composed for one question.

use std::time::{Duration, Instant};

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use futures_util::{Stream, TryStreamExt, stream};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_postgres::Address;
use tokio_postgres::Row;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::cell::{At, Bind, Uid};
use super::failure::{Kind, kind_of, no_connection, silent};
use crate::StoreError;
use crate::copy::Value;
#[cfg(feature = "testing")]
use crate::testing::plans;

/// Everything of ours is in this schema, so that a database can hold other tables too.
pub(super) const SCHEMA: &str = "lazaret";

/// What every session of ours is set to; `statement` is how long one statement may take.
pub(super) fn settings(statement: Duration) -> String {
    format!(
        "set search_path to {SCHEMA}, public;
         set timezone to 'UTC';
         set client_min_messages to warning;
         set jit to off;
         set statement_timeout to {statement};
         set lock_timeout to {lock};
         set idle_in_transaction_session_timeout to {idle};
         set tcp_keepalives_idle to 5;
         set tcp_keepalives_interval to 2;
         set tcp_keepalives_count to 3",
        statement = statement.as_millis(),
        lock = limits::POSTGRES_LOCK_MS_MAX,
        idle = limits::POSTGRES_IDLE_MS_MAX,
    )
}

/// Connections with the same settings. One that is lost, or that answers nothing, is closed and made again.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    pub pool: Pool,
    /// How long the server lets one statement run.
    statement: Duration,
}

impl Connections {
    pub fn new(address: &Address, size: usize, statement: Duration) -> Result<Connections, StoreError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config.clone(), address.tls.clone(), config);
        let wait = address.connect_max();
        let settings = settings(statement);
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_millis(limits::READ_MS_MAX)))
            .create_timeout(Some(wait))
            .recycle_timeout(Some(wait))
            .post_create(Hook::async_fn(move |client, _| {
                let settings = settings.clone();
                Box::pin(async move {
                    // The time to create a connection does not include what is done with it here.
                    let set = tokio::time::timeout(wait, client.batch_execute(&settings)).await;
                    let silent = |_| HookError::message("PostgreSQL did not answer in time");
                    set.map_err(silent)?.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| StoreError::Unfit(error.to_string()))?;
        Ok(Connections { pool, statement })
    }

    pub fn close(&self) {
        self.pool.close();
    }
}

/// How long PostgreSQL may take to answer. The server stops statements earlier by its own limit, but a connection can
/// fall silent while it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerLimit {
    each: Duration,
    /// When the whole operation has to be over.
    until: Option<Instant>,
}

impl AnswerLimit {
    /// The limit of an operation that begins now, for a server that lets one statement run for `statement`.
    pub fn of(statement: Duration) -> AnswerLimit {
        let each = statement + Duration::from_millis(limits::POSTGRES_ANSWER_MARGIN_MS);
        AnswerLimit { each, until: Instant::now().checked_add(each * limits::POSTGRES_OPERATION_STATEMENTS) }
    }

    /// The limit of an operation that may take as long as it needs, as long as answers come.
    pub fn of_each(each: Duration) -> AnswerLimit {
        AnswerLimit { each, until: None }
    }

    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits for an answer, but not for ever.
    pub async fn wait<T, E>(&self, answer: impl Future<Output = Result<T, E>>) -> Result<T, StoreError>
    where
        StoreError: From<E>,
    {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = left.map_or(self.each, |left| left.min(self.each));
        Ok(tokio::time::timeout(wait, answer).await.map_err(|_| silent(wait))??)
    }
}

/// A connection in use. Unless it is given back it is closed: whoever was working on it may have gone away in the
/// middle of a transaction.
pub(crate) struct Conn {
    client: Option<Client>,
    limit: AnswerLimit,
}

impl Conn {
    pub(super) async fn of(connections: &Connections) -> Result<Conn, StoreError> {
        let client = connections.pool.get().await.map_err(no_connection)?;
        Ok(Conn { client: Some(client), limit: AnswerLimit::of(connections.statement) })
    }

    /// The connection with another limit for its answers.
    pub(super) fn within(mut self, limit: AnswerLimit) -> Conn {
        self.limit = limit;
        self
    }

    /// Lets somebody else use it; nothing is open on it.
    pub fn give_back(mut self) {
        drop(self.client.take());
    }

    fn client(&self) -> Result<&Client, StoreError> {
        self.client.as_ref().ok_or(StoreError::Unavailable { doing: "using a connection", source: None })
    }

    /// Waits for an answer within the limit. If none comes the connection is not to be used again, and the idle ones of
    /// the pool are closed too: whatever made this one silent is likely to have silenced them.
    async fn answered<T, E>(&self, answer: impl Future<Output = Result<T, E>>) -> Result<T, StoreError>
    where
        StoreError: From<E>,
    {
        let answer = self.limit.wait(answer).await;
        if answer.as_ref().is_err_and(|error| kind_of(error) == Kind::Silent)
            && let Some(pool) = self.client.as_ref().and_then(Object::pool)
        {
            drop(pool.retain(|_, _| false));
        }
        answer
    }

    /// Runs statements that bind nothing, in one round trip.
    pub async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.answered(self.client()?.batch_execute(sql)).await
    }

    /// Runs a statement of which there are few: it is prepared once for each connection.
    pub async fn query(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        #[cfg(feature = "testing")]
        if plans::are_wanted() {
            let statement = client.prepare(&plans::explained(sql)).await?;
            plans::keep(sql, &client.query(&statement, binds).await?)?;
        }
        self.answered(async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, binds).await
        })
        .await
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
        self.answered(async {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, binds).await
        })
        .await
    }

    /// Prepares a statement ahead: then it is sent at once when it is asked for, and before those asked for after it.
    pub async fn prepare(&self, sql: &str) -> Result<(), StoreError> {
        self.answered(self.client()?.prepare_cached(sql)).await?;
        Ok(())
    }

    /// Prepares several statements that are to be sent one behind the other, in the order they are asked for.
    pub async fn prepare_all(&self, statements: &[&str]) -> Result<(), StoreError> {
        for sql in statements {
            self.prepare(sql).await?;
        }
        Ok(())
    }

    /// Runs a statement and gives its rows as they come in.
    pub async fn stream(
        &self,
        sql: &str,
        binds: &[Bind<'_>],
    ) -> Result<impl Stream<Item = Result<Row, StoreError>> + use<>, StoreError> {
        let client = self.client()?;
        let rows = self.answered(async {
            let statement = client.prepare_cached(sql).await?;
            client.query_raw(&statement, binds.iter().copied()).await
        });
        let (rows, limit) = (Box::pin(rows.await?), self.limit);
        Ok(stream::try_unfold(rows, move |mut rows| async move {
            Ok(limit.wait(rows.try_next()).await?.map(|row| (row, rows)))
        }))
    }

    /// The types of the columns that a statement returns.
    pub async fn types(&self, sql: &str) -> Result<Vec<Type>, StoreError> {
        let statement = self.answered(self.client()?.prepare_cached(sql)).await?;
        Ok(statement.columns().iter().map(|column| column.type_().clone()).collect())
    }

    /// Runs a `copy … from stdin (format binary)` with these rows.
    pub async fn copy_in(&self, sql: &str, types: &[Type], rows: &[Vec<Value>]) -> Result<(), StoreError> {
        let client = self.client()?;
        self.answered(async {
            let sink = client.copy_in(sql).await?;
            let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                writer.as_mut().write_raw(row.iter()).await?;
            }
            writer.finish().await.map(drop)
        })
        .await
    }

    /// Runs a statement that was composed for one question: it is planned for its values, and not kept.
    pub(super) async fn ask(&self, sql: &str, binds: &Binds) -> Result<Vec<Row>, StoreError> {
        let typed: Vec<(Bind<'_>, Type)> =
            binds.0.iter().map(|(value, of)| (value.as_ref() as Bind<'_>, of.clone())).collect();
        self.ask_typed(sql, &typed).await
    }

    /// Runs a composed statement with values of stated types.
    pub async fn ask_typed(&self, sql: &str, typed: &[(Bind<'_>, Type)]) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        #[cfg(feature = "testing")]
        if plans::are_wanted() {
            plans::keep(sql, &client.query_typed(&plans::explained(sql), typed).await?)?;
        }
        self.answered(client.query_typed(sql, typed)).await
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
