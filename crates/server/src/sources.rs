//! Sources that live elsewhere: what runs for each of them, and how it stands.
//!
//! Capture and the looks after rows are the leader's work, because two would only do it twice. A relay runs on every
//! instance: its claims keep them apart.

mod capture;
mod look;
mod running;
mod sink;
mod tries;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lazaret_core::id::LetterId;
use lazaret_core::time::Time;
use lazaret_sources::outbox::{Outbox, Relay, Worked};
use lazaret_store::Store;

use crate::clock::Clock;
use crate::config::{Config, OutboxSource};
use crate::destination::Tls;
use sink::HttpSink;
use tries::StoredTries;

pub use capture::capture_arrivals;
pub use look::{Looked, NotLooked, look_after, put_back};
pub(crate) use running::supervise;

/// Letters whose rows vanished that are named; the rest is counted.
const VANISHED_NAMED: usize = 20;

/// The outboxes of one configuration, by name.
#[derive(Debug, Default)]
pub struct Sources {
    outboxes: BTreeMap<String, Arc<Running>>,
}

/// One outbox at work. Capture, redrive and relay share the connection that is told of changes.
#[derive(Debug)]
pub struct Running {
    pub config: OutboxSource,
    pub outbox: Arc<Outbox>,
    /// Why there is none although one is configured.
    pub relay: Option<Result<Arc<Relay>, String>>,
    so_far: Mutex<SoFar>,
}

/// What this instance has done for a source since it started, and what it saw last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SoFar {
    pub captured: u64,
    pub settled_elsewhere: u64,
    pub delivered: u64,
    pub retried: u64,
    pub died: u64,
    pub taken_back: u64,
    /// Why the relay could not go on last, if it cannot.
    pub relay_problem: Option<String>,
    /// Pending letters whose rows are gone, as the last whole look found.
    pub vanished: u64,
    pub vanished_first: Vec<LetterId>,
    pub looked_at: Option<Time>,
}

impl Sources {
    /// Those of a configuration. What has not changed is the same, with its connections.
    pub fn under(&self, config: &Config, store: &Arc<dyn Store>, clock: &Clock) -> Sources {
        let mut outboxes = BTreeMap::new();
        for (name, source) in &config.sources {
            let Some(wanted) = &source.outbox else { continue };
            let known = self.outboxes.get(name).filter(|known| known.config == *wanted);
            match known.cloned().map_or_else(|| Running::new(name, wanted, config, store, clock), Ok) {
                Ok(running) => {
                    outboxes.insert(name.clone(), running);
                }
                // What can be wrong without a connection is found when the configuration is read.
                Err(why) => tracing::error!(source = name, "source {name} cannot be used: {why}"),
            }
        }
        Sources { outboxes }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Running>> {
        self.outboxes.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Running>)> {
        self.outboxes.iter().map(|(name, running)| (name.as_str(), running))
    }
}

impl Running {
    fn new(
        name: &str,
        wanted: &OutboxSource,
        config: &Config,
        store: &Arc<dyn Store>,
        clock: &Clock,
    ) -> Result<Arc<Running>, String> {
        let outbox = Arc::new(Outbox::new(wanted.outbox.clone()).map_err(|error| error.to_string())?);
        let relay = wanted.sink.as_ref().map(|sink| {
            let sink = HttpSink::new(name, sink, &Tls::of_the_machine(), clock)?;
            let relay = Relay::new(Arc::clone(&outbox), Arc::new(sink), config.classes());
            let tries =
                StoredTries { source: name.to_owned(), store: Arc::clone(store), clock: clock.clone() };
            relay.map(|relay| Arc::new(relay.with_tries(Arc::new(tries)))).map_err(|error| error.to_string())
        });
        if let Some(Err(why)) = &relay {
            tracing::error!(source = name, "the relay of {name} cannot work: {why}");
        }
        Ok(Arc::new(Running { config: wanted.clone(), outbox, relay, so_far: Mutex::default() }))
    }

    pub fn so_far(&self) -> SoFar {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut SoFar)) {
        note(&mut self.so_far.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn worked(&self, worked: &Worked) {
        self.note(|so_far| {
            so_far.delivered += worked.delivered;
            so_far.retried += worked.retried;
            so_far.died += worked.died;
            so_far.taken_back += worked.taken_back;
            so_far.relay_problem = None;
        });
    }
}
