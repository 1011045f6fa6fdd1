//! The shop's parcels on RabbitMQ (`lazaret demo --rabbitmq`): a worker labels them and fails on some.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use lazaret_core::broker::LETTER_ID;
use lazaret_server::config::{Config, RabbitMqConfig, SourceConfig, SourceKind};
use lazaret_sources::rabbitmq::{DeadLetterQueue, ManagementConfig};
use lazaret_worker::rabbitmq::{Delivery, Worker};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Pace;
use crate::failure::Failure;

/// The source of the demo's configuration.
pub const SOURCE: &str = "parcels";

const SERVICE: &str = "labels";
const QUEUE: &str = "parcels";

/// Parcels that are there from the start.
const PARCELS: u64 = 60;

/// How often another one comes.
const EVERY: Duration = Duration::from_secs(4);

/// How often a node that is starting is tried.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// Debian's package; the program on the `PATH` is a wrapper that changes the user.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A node of the demo's own. Stopped with it.
#[derive(Debug)]
pub struct Node {
    /// The port mapper and the node.
    processes: Vec<Child>,
    address: String,
    management_url: String,
}

impl Node {
    pub fn start(folder: &Path) -> anyhow::Result<Node> {
        if !Path::new(PROGRAM).is_file() {
            return Err(Failure::failed("rabbitmq-server is not installed".to_owned())
                .hint("install it (Debian: apt-get install rabbitmq-server), or leave out --rabbitmq")
                .into());
        }
        let folder = folder.join("rabbitmq");
        std::fs::create_dir_all(&folder).context("cannot make a folder for RabbitMQ")?;
        // Taken by nobody a moment ago; the node says so in its log if that has changed.
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let [amqp, management, distribution, mapper] =
            [free()?.port(), free()?.port(), free()?.port(), free()?.port()];
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n"
        );
        std::fs::write(folder.join("rabbitmq.conf"), settings).context("cannot configure RabbitMQ")?;
        std::fs::write(folder.join("enabled_plugins"), "[rabbitmq_management].\n")
            .context("cannot configure RabbitMQ")?;
        let mut epmd = Command::new("epmd");
        epmd.args(["-address", "127.0.0.1", "-port", &mapper.to_string()]);
        let mut node = Command::new(PROGRAM);
        node.current_dir(&folder)
            .env("HOME", &folder)
            .env("RABBITMQ_NODENAME", format!("demo{amqp}@localhost"))
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("logs"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("ERL_EPMD_PORT", mapper.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // The script becomes the node instead of waiting for it, so that it can be stopped.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        let mut started = Node {
            processes: Vec::new(),
            address: format!("127.0.0.1:{amqp}"),
            management_url: format!("http://127.0.0.1:{management}"),
        };
        for command in [&mut epmd, &mut node] {
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            started.processes.push(quiet.spawn().context("cannot start rabbitmq-server")?);
        }
        Ok(started)
    }

    /// Makes the node a source of letters.
    pub fn add_to(&self, config: &mut Config) {
        let mut rabbitmq = RabbitMqConfig::new(SOURCE, [format!("amqp://{}", self.address)]);
        rabbitmq.queues = vec![DeadLetterQueue::new(format!("{SERVICE}-dlq"))];
        rabbitmq.management = Some(ManagementConfig { url: self.management_url.clone() });
        let mut source = SourceConfig::new(SOURCE, SourceKind::RabbitMq);
        source.rabbitmq = Some(rabbitmq);
        config.sources.insert(SOURCE.to_owned(), source);
    }

    /// Publishes and labels parcels until the end is asked for.
    pub async fn run(self, pace: Pace, stopping: watch::Receiver<bool>) {
        if let Err(error) = self.label(pace, stopping).await {
            tracing::warn!(%error, "the shop's parcels on RabbitMQ are not labelled");
        }
    }

    async fn label(&self, pace: Pace, mut stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
        let url = format!("amqp://guest:guest@{}/%2f", self.address);
        // The node takes some seconds to start.
        let connection = loop {
            match Connection::connect(&url, ConnectionProperties::default()).await {
                Ok(connection) => break connection,
                Err(_) if *stopping.borrow() => return Ok(()),
                Err(_) => tokio::time::sleep(TRY_EVERY).await,
            }
        };
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let publish = async {
            for number in 1_u64.. {
                if number > PARCELS {
                    match pace {
                        Pace::Still => std::future::pending::<()>().await,
                        Pace::Trickle => tokio::time::sleep(EVERY).await,
                    }
                }
                // The worker declares the queue.
                while !publish(&channel, number).await? {
                    tokio::time::sleep(TRY_EVERY).await;
                }
            }
            Ok::<_, lapin::Error>(())
        };
        let ended = async move {
            // The sender is gone with the server.
            stopping.wait_for(|stopping| *stopping).await.ok();
        };
        let worker = Worker::new(url.as_str(), SERVICE, QUEUE).concurrency(8).run(label_one, ended);
        tokio::select! {
            published = publish => Ok(published?),
            labelled = worker => Ok(labelled?),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Publishes one parcel; false if its queue does not exist yet.
async fn publish(channel: &Channel, number: u64) -> Result<bool, lapin::Error> {
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("application/json".into())
        .with_message_id(format!("parcel-{number}").into());
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let body = parcel(number).to_string();
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, body.as_bytes(), properties).await?;
    Ok(sent.await?.take_message().is_none())
}

/// Some are too heavy, and some go to a country whose customs office does not answer.
fn parcel(number: u64) -> Value {
    let country = if number % 19 == 5 { "NZ" } else { "DE" };
    let weight = if number % 23 == 11 { 48 } else { 1 + number % 9 };
    json!({"internalId": number, "tenantId": "shop", "country": country, "weightKg": weight})
}

async fn label_one(delivery: Delivery) -> Result<(), lazaret_worker::Failure> {
    use lazaret_worker::Failure;

    // Whoever redrives has fixed it.
    if delivery.header(LETTER_ID).is_some() {
        return Ok(());
    }
    let parcel: Value = serde_json::from_slice(delivery.body())?;
    if parcel["weightKg"].as_u64() > Some(31) {
        let id = &parcel["internalId"];
        return Err(Failure::new("ValidationError", format!("parcel {id} is heavier than 31 kg")));
    }
    if parcel["country"] == "NZ" {
        return Err(Failure::new("TimeoutError", "the customs office of NZ did not answer within 5 s"));
    }
    Ok(())
}
