//! The shop's way back: a receiver that takes what is put back, and one incident whose cause and fix somebody has
//! written down, so that a redrive can be tried.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::answers::Page;
use crate::client::{Client, ClientError, Content};

/// What a request may be at most, and how long a connection may be silent: the server alone comes here, but the port is
/// open to whoever is on this machine.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
const SILENCE_MAX: Duration = Duration::from_secs(60);
const CONNECTIONS_MAX: usize = 64;

/// Stands for all the shop's services, which work again.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
}

impl Receiver {
    pub async fn bind() -> io::Result<Receiver> {
        Ok(Receiver { listener: TcpListener::bind("127.0.0.1:0").await? })
    }

    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}/events", self.listener.local_addr()?))
    }

    /// Takes everything until the demo ends.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => return,
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(take_all(stream));
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }
}

/// Answers requests of one connection until it is closed, broken or silent.
async fn take_all(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    while let Ok(Ok(true)) = tokio::time::timeout(SILENCE_MAX, take(&mut stream)).await {}
}

/// Reads one request and says that it is done; false at the end of the connection.
async fn take(stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let mut length = 0;
    let mut is_first = true;
    loop {
        let mut line = String::new();
        let read = (&mut *stream).take(LINE_BYTES_MAX).read_line(&mut line).await?;
        if read == 0 {
            return Ok(false);
        }
        let line = line.trim_end();
        if line.is_empty() && !is_first {
            break;
        }
        is_first = false;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    if length > BODY_BYTES_MAX {
        return Ok(false);
    }
    tokio::io::copy(&mut (&mut *stream).take(length), &mut tokio::io::sink()).await?;
    stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").await?;
    Ok(true)
}

/// Somebody of the shop has found out what the bad deploy did, and names the rollback.
pub async fn write_down(client: &Client) -> Result<(), ClientError> {
    let query = [("q", "error:KeyError type:order.* status:pending"), ("limit", "1")];
    let page: Page = client.get(&["dead-letters"], &query).await?.read()?;
    let Some(incident) = page.items.first().and_then(|letter| letter.incident_id.as_deref()) else {
        return Ok(());
    };
    let analysis = json!({
        "category": "contract",
        "rootCause": "the release of the bad deploy asks for a currency, and orders of the old app have none",
        "remediation": "rolled back; in the next release an order without one is in euro, with a test",
    });
    client.post(&["incidents", incident, "rca"], &[], Content::json(&analysis)).await?;
    let fix = json!({ "reference": "rollback of the bad deploy, INC-2119" });
    client.post(&["incidents", incident, "fix"], &[], Content::json(&fix)).await?;
    let note = json!({ "text": "their orders wait: lazaret redrive plan --incident, and put them back" });
    client.post(&["incidents", incident, "notes"], &[], Content::json(&note)).await?;
    Ok(())
}
