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
  lazaret incidents                     what went wrong in the last 14 days
  lazaret redrive plan error:KeyError   what putting back the orders of a bad deploy would do; then start it
  lazaret tail                          what goes wrong now
  lazaret queues                        the shop's jobs; also lazaret jobs ls, lazaret workers
  lazaret ls source:jobs                jobs that died
  lazaret archive ls                    old letters that were pushed out; lazaret holds: what must be kept
  lazaret demo --listen 127.0.0.1:0     a free port; the first line of stdout says which
  lazaret demo --seed 42 --still        another story, and nothing after it
  lazaret demo --nats                   with orders on NATS JetStream, on a server of the demo's own
  lazaret demo --rabbitmq               with parcels on RabbitMQ, on a node of the demo's own

One incident, that of the bad deploy, has its cause and its fix written down; what is put back is taken by a receiver
of the demo's own. The shop is invented: orders, payments, invoices, mails and shipments by services in seven languages, with two
outages, a bad deploy, a slow leak and some poison pills. Some of its mails and invoices are jobs that a worker works
off over HTTP. The same seed tells the same story. The store lies in a temporary folder and is gone when the demo ends.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Address to listen on, loopback only; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: String,
    /// Which story is told
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
    /// Tell only the past: nothing new comes in while the demo runs
    #[arg(long)]
    still: bool,
    /// Add a NATS server with a stream of orders whose worker fails on some; needs nats-server
    #[arg(long)]
    nats: bool,
    /// Add a RabbitMQ node with a queue of parcels whose worker fails on some; needs rabbitmq-server
    #[arg(long)]
    rabbitmq: bool,
}

pub async fn run(args: DemoArgs, screen: &Screen) -> anyhow::Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("lazaret-demo-").tempdir();
    let folder = folder.context("cannot make a temporary folder")?;
    let mut config = Config { listen: args.listen, data: folder.path().join("data"), ..Config::default() };
    // Every death of the shop would be a line; what matters here is on the pages.
    config.log.level = "warn,lazaret_store::sqlite::insert=error,lazaret_server::serve=error".into();
    start_log(&config.log, screen)?;
    check_address(&config.listen).await.map_err(failed)?;
    let receiver = demo::Receiver::bind().await.context("cannot listen for what is put back")?;
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
        tell("the shop goes on failing; `lazaret tail` shows it. Ctrl-C ends the demo.");
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
                tracing::warn!(%error, "nobody of the shop has written down a cause");
            }
            Worker::new(seed, client, pace).run(stopping).await;
        }
        Err(error) => tracing::warn!(%error, "the shop has no worker"),
    }
}

/// Writes the history before anyone can look at it.
async fn tell_past(feed: &mut Feed, config: &Config, screen: &Screen) -> Result<(), StoreError> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&config.data, Mode::Test)?);
    let bar = screen.bar(None, "{spinner} telling fourteen days of an invented shop: {pos} of {len}");
    let (classes, groups) = (config.classes(), config.groups());
    feed.tell_past(&store, (&classes, &groups), Clock::System.now(), |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })
    .await?;
    bar.finish_and_clear();
    store.close().await
}
