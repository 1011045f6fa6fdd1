//! `lazaret demo`: the service on a store that is thrown away, with an invented shop that keeps failing.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::{Config, DestinationConfig, DestinationUrl};
use lazaret_server::serve::{ServeError, check_address};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{Store, StoreError};
use tokio::sync::{oneshot, watch};

use super::serve::{announce, failed, start_log};
use crate::client::Client;
use crate::demo::{self, Feed, Pace, Worker};
use crate::failure::{Failure, Outcome};
use crate::output::{Screen, tell};

const EXAMPLES: &str = "\
Examples:
  lazaret demo                          http://127.0.0.1:7070, then in another terminal:
  lazaret incidents                     incidents of the last 14 days
  lazaret redrive plan error:KeyError   plan a redrive of the orders of a bad deployment; then start it
  lazaret tail                          new events
  lazaret queues                        job queues; also lazaret jobs ls, lazaret workers
  lazaret ls source:jobs                dead letters of jobs
  lazaret archive ls                    archived letters; legal holds: lazaret holds
  lazaret demo --listen 127.0.0.1:0     random port, printed on the first line of stdout
  lazaret demo --seed 42 --still        other demo data, history only
  lazaret demo --nats                   with a JetStream source
  lazaret demo --rabbitmq               with a RabbitMQ source

The demo data is a web shop: orders, payments, invoices, mails and shipments by services in seven languages, with two
outages, a bad deployment, a slow leak and some poison pills. The incident of the bad deployment has an RCA and a fix, so
that its letters are ready to redrive; a built-in receiver accepts them. Some mails and invoices are jobs, processed by a
worker over HTTP. The same seed gives the same data. The store is in a temporary folder and is deleted on exit.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Listen address, loopback only; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: String,
    /// Seed of the demo data
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
    /// History only: no new letters while the demo runs
    #[arg(long)]
    still: bool,
    /// Add a JetStream source with a failing worker; requires nats-server
    #[arg(long)]
    nats: bool,
    /// Add a RabbitMQ source with a failing worker; requires rabbitmq-server
    #[arg(long)]
    rabbitmq: bool,
}

pub async fn run(args: DemoArgs, screen: &Screen) -> anyhow::Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("lazaret-demo-").tempdir();
    let folder = folder.context("cannot create a temporary folder")?;
    let mut config = Config { listen: args.listen, data: folder.path().join("data"), ..Config::default() };
    // Every death of the shop would be a line; what matters here is on the pages.
    config.log.level = "warn,lazaret_store::sqlite::insert=error,lazaret_server::serve=error".into();
    start_log(&config.log, screen)?;
    check_address(&config.listen).await.map_err(failed)?;
    let receiver = demo::Receiver::bind().await.context("cannot start the demo receiver")?;
    lead_back(&mut config, &receiver)?;
    let broker = args.nats.then(|| demo::Broker::start(folder.path())).transpose()?;
    if let Some(broker) = &broker {
        broker.add_to(&mut config);
    }
    let node = args.rabbitmq.then(|| demo::Node::start(folder.path())).transpose()?;
    if let Some(node) = &node {
        node.add_to(&mut config);
    }
    let mut feed = Feed::new(args.seed);
    tokio::select! {
        told = tell_past(&mut feed, &config, screen) => told.map_err(|error| failed(ServeError::Store(error)))?,
        // The folder goes with this function, also when it is left early.
        _ = tokio::signal::ctrl_c() => return Ok(Outcome::Incomplete),
    }
    if !args.still {
        tell("demo data: deleted on exit. `lazaret tail` follows new letters. Ctrl-C ends the demo.");
    }
    let (bound, address) = oneshot::channel();
    let (seed, pace) = (args.seed, if args.still { Pace::Still } else { Pace::Trickle });
    let beside = async move |app: Arc<App>| {
        let worker = work(seed, pace, address, app.stopping());
        let receiver = receiver.run(app.stopping());
        let ended = app.stopping();
        let broker = async move {
            if let Some(broker) = broker {
                broker.run(pace, ended).await;
            }
        };
        let ended = app.stopping();
        let node = async move {
            if let Some(node) = node {
                node.run(pace, ended).await;
            }
        };
        match pace {
            Pace::Still => {
                tokio::join!(worker, receiver, broker, node);
            }
            Pace::Trickle => {
                tokio::join!(worker, receiver, broker, node, feed.live(app));
            }
        }
    };
    let announce = |address| {
        announce(address);
        // The worker may be gone already, when the end was asked for at once.
        bound.send(address).ok();
    };
    lazaret_server::serve::serve(config, Mode::Test, None, beside, announce).await.map_err(failed)?;
    Ok(Outcome::Done)
}

/// Everything that the shop reports can be put back, to a receiver of the demo's own.
fn lead_back(config: &mut Config, receiver: &demo::Receiver) -> anyhow::Result<()> {
    let url = DestinationUrl::parse(&receiver.url()?).map_err(Failure::failed)?;
    for source in config.sources.values_mut() {
        source.destination =
            Some(DestinationConfig { allow_private: true, ..DestinationConfig::new(url.clone()) });
    }
    Ok(())
}

/// Lets the shop's worker work, once it is known where.
async fn work(
    seed: u64,
    pace: Pace,
    address: oneshot::Receiver<SocketAddr>,
    stopping: watch::Receiver<bool>,
) {
    let Ok(address) = address.await else { return };
    match Client::new(&format!("http://{address}"), None) {
        Ok(client) => {
            if let Err(error) = demo::write_down(&client).await {
                tracing::warn!(%error, "demo RCA could not be saved");
            }
            Worker::new(seed, client, pace).run(stopping).await;
        }
        Err(error) => tracing::warn!(%error, "demo worker could not be started"),
    }
}

/// Writes the history before anyone can look at it.
async fn tell_past(feed: &mut Feed, config: &Config, screen: &Screen) -> Result<(), StoreError> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&config.data, Mode::Test)?);
    let bar = screen.bar(None, "{spinner} generating 14 days of demo data: {pos} of {len}");
    let (classes, groups) = (config.classes(), config.groups());
    feed.tell_past(&store, (&classes, &groups), Clock::System.now(), |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })
    .await?;
    bar.finish_and_clear();
    store.close().await
}
