//! Sources that live elsewhere: what runs for each of them, and how it stands.
//!
//! A source that cannot be shared is captured from by the leader alone. What a source does beside capture are its duties:
//! a relay, a bridge, a sweep. One supervisor runs all of them, whatever the kind of the source.

mod capture;
mod look;
mod receipts;
mod running;
mod sink;
mod tries;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lazaret_core::id::LetterId;
use lazaret_core::time::Time;
use lazaret_sources::destination::Destination;
use lazaret_sources::jetstream::{JetStream, JetStreamConfig};
use lazaret_sources::outbox::{Outbox, Relay};
use lazaret_sources::rabbitmq::{RabbitMq, RabbitMqConfig};
use lazaret_sources::{Duty, Source};
use lazaret_store::Store;

use crate::clock::Clock;
use crate::config::{Config, OutboxSource, SourceConfig};
use crate::destination::Tls;
use sink::HttpSink;
use tries::StoredTries;

pub use capture::{capture_and_pull, capture_arrivals};
pub use look::{Looked, NotLooked, look_after, put_back};
pub use receipts::take_receipts;
pub(crate) use running::supervise;

/// Letters whose rows vanished that are named; the rest is counted.
const VANISHED_NAMED: usize = 20;

/// The sources of one configuration that live elsewhere, by name.
#[derive(Debug, Default)]
pub struct Sources {
    running: BTreeMap<String, Arc<Running>>,
}

/// One source at work.
#[derive(Debug)]
pub struct Running {
    settings: Settings,
    pub source: Arc<dyn Source>,
    pub destination: Arc<dyn Destination>,
    pub duties: Vec<Arc<dyn Duty>>,
    /// What only a table has.
    pub outbox: Option<RunningOutbox>,
    so_far: Mutex<SoFar>,
}

/// What a source was made from: it is made anew when that changes.
#[derive(Clone, PartialEq, Debug)]
enum Settings {
    Outbox(Box<OutboxSource>),
    JetStream(Box<JetStreamConfig>),
    RabbitMq(Box<RabbitMqConfig>),
}

#[derive(Debug)]
pub struct RunningOutbox {
    pub outbox: Arc<Outbox>,
    /// Why there is none although one is configured.
    pub relay: Option<Result<Arc<Relay>, String>>,
}

/// What this instance has done for a source since it started, and what it saw last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SoFar {
    pub captured: u64,
    pub settled_elsewhere: u64,
    /// Why a duty could not go on last, by its name.
    pub problems: BTreeMap<&'static str, String>,
    /// Pending letters whose rows are gone, as the last whole look found.
    pub vanished: u64,
    pub vanished_first: Vec<LetterId>,
    pub looked_at: Option<Time>,
}

impl Settings {
    fn of(source: &SourceConfig) -> Option<Settings> {
        let outbox = source.outbox.clone().map(|outbox| Settings::Outbox(Box::new(outbox)));
        let jetstream = source.jetstream.clone().map(|config| Settings::JetStream(Box::new(config)));
        let rabbitmq = source.rabbitmq.clone().map(|config| Settings::RabbitMq(Box::new(config)));
        outbox.or(jetstream).or(rabbitmq)
    }
}

impl Sources {
    /// Those of a configuration. What has not changed is the same, with its connections.
    pub fn under(&self, config: &Config, store: &Arc<dyn Store>, clock: &Clock) -> Sources {
        let mut running = BTreeMap::new();
        for (name, source) in &config.sources {
            let Some(wanted) = Settings::of(source) else { continue };
            let known = self.running.get(name).filter(|known| known.settings == wanted);
            match known.cloned().map_or_else(|| Running::new(name, wanted, config, store, clock), Ok) {
                Ok(started) => {
                    running.insert(name.clone(), started);
                }
                // What can be wrong without a connection is found when the configuration is read.
                Err(why) => tracing::error!(source = name, "source {name} cannot be used: {why}"),
            }
        }
        Sources { running }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Running>> {
        self.running.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Running>)> {
        self.running.iter().map(|(name, running)| (name.as_str(), running))
    }
}

impl Running {
    fn new(
        name: &str,
        settings: Settings,
        config: &Config,
        store: &Arc<dyn Store>,
        clock: &Clock,
    ) -> Result<Arc<Running>, String> {
        let so_far = Mutex::default();
        Ok(Arc::new(match &settings {
            Settings::Outbox(wanted) => {
                let outbox = Outbox::new(wanted.outbox.clone()).map_err(|error| error.to_string())?;
                let outbox = Arc::new(outbox);
                let relay = relay(name, wanted, &outbox, config, store, clock);
                let duties = match &relay {
                    Some(Ok(relay)) => vec![Arc::clone(relay) as Arc<dyn Duty>],
                    Some(Err(_)) | None => Vec::new(),
                };
                let (source, destination) = (Arc::clone(&outbox) as _, Arc::clone(&outbox) as _);
                let outbox = Some(RunningOutbox { outbox, relay });
                Running { settings, source, destination, duties, outbox, so_far }
            }
            Settings::JetStream(wanted) => {
                let jetstream = JetStream::new((**wanted).clone()).map_err(|error| error.to_string())?;
                let jetstream = Arc::new(jetstream);
                let duties = jetstream.duties();
                let (source, destination) = (Arc::clone(&jetstream) as _, jetstream as _);
                Running { settings, source, destination, duties, outbox: None, so_far }
            }
            Settings::RabbitMq(wanted) => {
                let rabbitmq = RabbitMq::new((**wanted).clone()).map_err(|error| error.to_string())?;
                let rabbitmq = Arc::new(rabbitmq);
                let duties = rabbitmq.duties();
                let (source, destination) = (Arc::clone(&rabbitmq) as _, rabbitmq as _);
                Running { settings, source, destination, duties, outbox: None, so_far }
            }
        }))
    }

    /// Whether the topology is declared when the source starts.
    fn declares_at_start(&self) -> bool {
        match &self.settings {
            Settings::Outbox(_) => false,
            Settings::JetStream(config) => config.apply_at_start,
            Settings::RabbitMq(config) => config.apply_at_start,
        }
    }

    pub fn so_far(&self) -> SoFar {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut SoFar)) {
        note(&mut self.so_far.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The relay of an outbox, if one is configured.
fn relay(
    name: &str,
    wanted: &OutboxSource,
    outbox: &Arc<Outbox>,
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Clock,
) -> Option<Result<Arc<Relay>, String>> {
    let sink = wanted.sink.as_ref()?;
    let made = HttpSink::new(name, sink, &Tls::of_the_machine(), clock).and_then(|sink| {
        let relay = Relay::new(Arc::clone(outbox), Arc::new(sink), config.classes());
        let tries = StoredTries { source: name.to_owned(), store: Arc::clone(store), clock: clock.clone() };
        relay.map(|relay| Arc::new(relay.with_tries(Arc::new(tries)))).map_err(|error| error.to_string())
    });
    if let Err(why) = &made {
        tracing::error!(source = name, "relay of {name} cannot start: {why}");
    }
    Some(made)
}
