//! The shop's orders on NATS JetStream (`lazaret demo --nats`): a worker ships them and fails on some.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use async_nats::jetstream::{self, consumer, stream};
use lazaret_core::broker::LETTER_ID;
use lazaret_server::config::{Config, JetStreamConfig, SourceConfig, SourceKind};
use lazaret_worker::jetstream::{Delivery, Worker};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Pace;
use crate::failure::Failure;

/// The source of the demo's configuration.
pub const SOURCE: &str = "events";

const STREAM: &str = "ORDERS";
const CONSUMER: &str = "shipping";

/// Orders that are there from the start.
const ORDERS: u64 = 60;

/// How often another one comes.
const EVERY: Duration = Duration::from_secs(4);

/// Where Debian installs servers, which is not on everybody's path.
const SERVERS: &str = "/usr/sbin";

/// A server of the demo's own. Stopped with it.
#[derive(Debug)]
pub struct Broker {
    server: Child,
    url: String,
}

impl Broker {
    pub fn start(folder: &Path) -> anyhow::Result<Broker> {
        let program = program().ok_or_else(|| {
            Failure::failed("nats-server is not installed".to_owned())
                .hint("install it (Debian: apt-get install nats-server), or leave out --nats")
        })?;
        // Taken by nobody a moment ago; the server says so if that has changed.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).context("no port is free")?;
        let (url, port) = (format!("nats://{port}"), port.port().to_string());
        let server = Command::new(program)
            .args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"])
            .arg(folder.join("nats"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start nats-server")?;
        Ok(Broker { server, url })
    }

    /// Makes the server a source of letters.
    pub fn add_to(&self, config: &mut Config) {
        let mut source = SourceConfig::new(SOURCE, SourceKind::JetStream);
        source.jetstream = Some(JetStreamConfig::new(SOURCE, [self.url.clone()]));
        config.sources.insert(SOURCE.to_owned(), source);
    }

    /// Publishes and ships orders until the end is asked for.
    pub async fn run(self, pace: Pace, stopping: watch::Receiver<bool>) {
        if let Err(error) = self.ship(pace, stopping).await {
            tracing::warn!(%error, "the shop's orders on NATS are not shipped");
        }
    }

    async fn ship(&self, pace: Pace, mut stopping: watch::Receiver<bool>) -> Result<(), async_nats::Error> {
        let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(&self.url).await?;
        let context = jetstream::new(client.clone());
        let orders = stream::Config {
            name: STREAM.to_owned(),
            subjects: vec!["orders.>".to_owned()],
            ..stream::Config::default()
        };
        let shipping = consumer::pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            max_deliver: 5,
            ..consumer::pull::Config::default()
        };
        // The server may still be starting.
        while context.get_or_create_stream(orders.clone()).await.is_err() {
            if *stopping.borrow() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        context.get_stream(STREAM).await?.get_or_create_consumer(CONSUMER, shipping).await?;
        let publish = async {
            for number in 1_u64.. {
                if number > ORDERS {
                    match pace {
                        Pace::Still => std::future::pending::<()>().await,
                        Pace::Trickle => tokio::time::sleep(EVERY).await,
                    }
                }
                context.publish("orders.placed", order(number).to_string().into()).await?.await?;
            }
            Ok::<_, async_nats::Error>(())
        };
        let ended = async move {
            // The sender is gone with the server.
            stopping.wait_for(|stopping| *stopping).await.ok();
        };
        let worker = Worker::new(client, STREAM, CONSUMER).concurrency(8).run(ship_one, ended);
        tokio::select! {
            published = publish => published,
            shipped = worker => Ok(shipped?),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from(SERVERS)]);
    folders.map(|folder| folder.join("nats-server")).find(|program| program.is_file())
}

/// Some have no address, and some go to a carrier that does not answer.
fn order(number: u64) -> Value {
    let carrier = if number % 17 == 3 { "slowpost" } else { "swift" };
    let address = (number % 20 != 7).then(|| format!("{number} Harbour Street"));
    json!({"order": number, "carrier": carrier, "address": address})
}

async fn ship_one(delivery: Delivery) -> Result<(), lazaret_worker::Failure> {
    use lazaret_worker::Failure;

    // Whoever redrives has mended it.
    if delivery.header(LETTER_ID).is_some() {
        return Ok(());
    }
    let order: Value = serde_json::from_slice(delivery.payload())?;
    if order["address"].is_null() {
        let number = &order["order"];
        return Err(Failure::new("ValidationError", format!("order {number} has no address")));
    }
    if order["carrier"] == "slowpost" {
        return Err(Failure::new("TimeoutError", "slowpost did not answer within 5 s").with_code("ETIMEDOUT"));
    }
    Ok(())
}
