//! Connections to the application's database: a few for single statements, and one that listens.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use lazaret_core::limits;
use lazaret_postgres::{Address, NoSession, require_sessions};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Row};

use super::failure;
use crate::SourceError;

/// What is bound to a statement.
pub(super) type Bind<'a> = &'a (dyn ToSql + Sync);

/// Notifications that may wait; beyond them the listener sweeps anyway.
const NOTES_WAITING_MAX: usize = 256;

/// The database of one outbox.
#[derive(Clone)]
pub(super) struct Db {
    pool: Pool,
    address: Address,
    /// How long one answer may take. The server has limits of its own, but a connection can fall silent while it is open.
    answer_max: Duration,
}

impl Db {
    /// Prepares connections and makes none.
    pub fn new(url: &str, answer_max: Duration) -> Result<Db, SourceError> {
        let address = Address::parse(url).map_err(|unfit| SourceError::Unfit(unfit.0))?;
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config.clone(), address.tls.clone(), config);
        let wait = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
        let pool = Pool::builder(manager)
            .max_size(limits::OUTBOX_CONNECTIONS_MAX)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(wait))
            .create_timeout(Some(wait))
            .recycle_timeout(Some(wait))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move { client.batch_execute(&settings()).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| SourceError::Unfit(error.to_string()))?;
        Ok(Db { pool, address, answer_max })
    }

    /// Host and database, for people.
    pub fn place(&self) -> String {
        format!("{:?}", self.address)
    }

    /// Fails if connections are no sessions.
    pub async fn require_sessions(&self) -> Result<(), SourceError> {
        let client = self.client().await?;
        require_sessions(&client, &self.address).await.map_err(|error| match error {
            NoSession::Unfit(unfit) => SourceError::Unfit(unfit.0),
            NoSession::Failed(error) => failure::no_connection(PoolError::Backend(error)),
            late @ NoSession::Late => {
                SourceError::Unavailable { doing: "connecting to PostgreSQL", why: late.to_string() }
            }
        })
    }

    pub async fn client(&self) -> Result<Client, SourceError> {
        let client = answered("connecting to PostgreSQL", self.answer_max, self.pool.get()).await?;
        client.map_err(failure::no_connection)
    }

    /// Runs one statement, which is prepared once for each connection.
    pub async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        binds: &[Bind<'_>],
    ) -> Result<Vec<Row>, SourceError> {
        let client = self.client().await?;
        let asking = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, binds).await
        };
        let answer = match answered(doing, self.answer_max, asking).await {
            Ok(answer) => answer,
            Err(silent) => {
                drop(Object::take(client));
                return Err(silent);
            }
        };
        answer.map_err(|error| {
            // A plan from before a change of the table stays with its connection.
            if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
                drop(Object::take(client));
            }
            failure::of(doing, &error)
        })
    }

    /// A connection of its own with what is notified on it; the stream ends with the connection.
    pub async fn listen(&self) -> Result<(Session, mpsc::Receiver<String>), SourceError> {
        const DOING: &str = "connecting to PostgreSQL";
        let late = |_| SourceError::Unavailable { doing: DOING, why: "it did not answer in time".to_owned() };
        let failed = |error: tokio_postgres::Error| failure::no_connection(PoolError::Backend(error));
        let wait = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
        let connecting = self.address.config.connect(self.address.tls.clone());
        let (client, mut connection) =
            tokio::time::timeout(wait, connecting).await.map_err(late)?.map_err(failed)?;
        let (notes, told) = mpsc::channel(NOTES_WAITING_MAX);
        let driver = tokio::spawn(async move {
            while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(note)) => {
                        // What does not fit is found by the sweep.
                        notes.try_send(note.payload().to_owned()).ok();
                    }
                    Ok(_) => {}
                    // Whoever uses the client is told by its next call.
                    Err(_) => return,
                }
            }
        });
        let session = Session { client, driver, answer_max: self.answer_max };
        session.run(DOING, &settings()).await?;
        Ok((session, told))
    }
}

/// A connection outside of the pool; closed when it is dropped.
pub(super) struct Session {
    client: tokio_postgres::Client,
    driver: JoinHandle<()>,
    answer_max: Duration,
}

impl Session {
    /// Runs statements that bind nothing.
    pub async fn run(&self, doing: &'static str, sql: &str) -> Result<(), SourceError> {
        let answer = answered(doing, self.answer_max, self.client.batch_execute(sql)).await?;
        answer.map_err(|error| failure::of(doing, &error))
    }

    /// Runs statements that bind nothing and may take as long as they need.
    pub async fn run_long(&self, doing: &'static str, sql: &str) -> Result<(), SourceError> {
        self.client.batch_execute(sql).await.map_err(|error| failure::of(doing, &error))
    }

    pub async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        binds: &[Bind<'_>],
    ) -> Result<Vec<Row>, SourceError> {
        let answer = answered(doing, self.answer_max, self.client.query(sql, binds)).await?;
        answer.map_err(|error| failure::of(doing, &error))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Waits for an answer, but not for ever.
async fn answered<T>(
    doing: &'static str,
    answer_max: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, SourceError> {
    let silent = |_| {
        let why = format!("no answer within {} s", answer_max.as_secs_f64());
        SourceError::Unavailable { doing, why }
    };
    tokio::time::timeout(answer_max, answer).await.map_err(silent)
}

/// What every session of ours is set to. The search path stays the application's.
fn settings() -> String {
    format!(
        "set timezone to 'UTC';
         set datestyle to 'ISO, YMD';
         set standard_conforming_strings to on;
         set client_min_messages to warning;
         set jit to off;
         set statement_timeout to {statement};
         set lock_timeout to {lock};
         set idle_in_transaction_session_timeout to {idle};
         set tcp_keepalives_idle to 5;
         set tcp_keepalives_interval to 2;
         set tcp_keepalives_count to 3",
        statement = limits::OUTBOX_STATEMENT_MS_MAX,
        lock = limits::OUTBOX_LOCK_MS_MAX,
        idle = limits::POSTGRES_IDLE_MS_MAX,
    )
}

/// Reads a column; one that does not hold what it should means that the table has changed.
pub(super) fn cell<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    at: usize,
) -> Result<T, SourceError> {
    row.try_get(at).map_err(|error| SourceError::Unfit(format!("a column changed its type: {error}")))
}
