//! A connection of its own, outside of the pools: for locks that last as long as the session, and for listening.

use std::time::Duration;

use lazaret_core::limits;
use lazaret_postgres::Address;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

use super::conn::settings;
use super::failure::not_connected;
use crate::StoreError;

/// Closed when it is dropped, and with it every lock that it held.
pub(super) struct Session {
    pub client: Client,
    driver: JoinHandle<()>,
}

/// Notifications that may wait; beyond them one is as good as all, because each says no more than "something changed".
const NOTES_WAITING_MAX: usize = 64;

impl Session {
    pub async fn open(address: &Address, statement_ms: u64) -> Result<Session, StoreError> {
        Ok(Session::listening(address, statement_ms).await?.0)
    }

    /// The same with what others notify; the stream ends with the connection.
    pub async fn listening(
        address: &Address,
        statement_ms: u64,
    ) -> Result<(Session, mpsc::Receiver<String>), StoreError> {
        let late = |_| StoreError::Unavailable {
            doing: "connecting to PostgreSQL",
            source: Some("it did not answer in time".into()),
        };
        let wait = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
        let (client, mut connection) =
            tokio::time::timeout(wait, address.config.connect(address.tls.clone()))
                .await
                .map_err(late)?
                .map_err(not_connected)?;
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
        let session = Session { client, driver };
        session.client.batch_execute(&settings(statement_ms)).await?;
        Ok((session, told))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
