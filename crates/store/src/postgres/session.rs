//! A connection of its own, outside of the pools: for locks that last as long as the session, and for listening.

use std::time::Duration;

use lazaret_core::limits;
use lazaret_postgres::Address;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Row};

use super::cell::Bind;
use super::conn::{AnswerLimit, settings};
use super::failure::not_connected;
use crate::StoreError;

/// Closed when it is dropped, and with it every lock that it held.
pub(super) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    limit: AnswerLimit,
}

/// Notifications that may wait; beyond them one is as good as all, because each says no more than "something changed".
const NOTES_WAITING_MAX: usize = 64;

impl Session {
    /// Connects; `statement` is how long one statement may take.
    pub async fn open(address: &Address, statement: Duration) -> Result<Session, StoreError> {
        Ok(Session::listening(address, statement).await?.0)
    }

    /// Connects, and returns what others notify too; the stream ends with the connection.
    pub async fn listening(
        address: &Address,
        statement: Duration,
    ) -> Result<(Session, mpsc::Receiver<String>), StoreError> {
        let connecting = AnswerLimit::of_each(address.connect_max());
        let (client, mut connection) = connecting
            .wait(async { address.config.connect(address.tls.clone()).await.map_err(not_connected) })
            .await?;
        let (notes, told) = mpsc::channel(NOTES_WAITING_MAX);
        let driver = tokio::spawn(async move {
            while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(note)) => {
                        // Full means that the reader has enough to wake up for.
                        notes.try_send(note.payload().to_owned()).ok();
                    }
                    Ok(_) => {}
                    // Whoever uses the client is told by its next call.
                    Err(_) => return,
                }
            }
        });
        let margin = Duration::from_millis(limits::POSTGRES_ANSWER_MARGIN_MS);
        let session = Session { client, driver, limit: AnswerLimit::of_each(statement + margin) };
        connecting.wait(session.client.batch_execute(&settings(statement))).await?;
        Ok((session, told))
    }

    /// Fails if connections to this address are no sessions.
    pub async fn require_sessions(&self, address: &Address) -> Result<(), StoreError> {
        Ok(lazaret_postgres::require_sessions(&self.client, address).await?)
    }

    /// Runs statements that bind nothing.
    pub async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.limit.wait(self.client.batch_execute(sql)).await
    }

    pub async fn query(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
        self.limit.wait(self.client.query(sql, binds)).await
    }

    pub async fn query_one(&self, sql: &str, binds: &[Bind<'_>]) -> Result<Row, StoreError> {
        self.limit.wait(self.client.query_one(sql, binds)).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
