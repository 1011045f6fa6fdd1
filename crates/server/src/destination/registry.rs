//! Every configured destination by its name: `jobs`, `<source>` or `<source>/<subscriber>`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lazaret_core::limits;
use lazaret_core::time::Time;

use super::Destination;
use super::http::{HttpDestination, Tls};
use crate::clock::Clock;
use crate::config::{Config, DestinationConfig};
use crate::sources::Sources;

/// The source of jobs, and the name of the destination that its letters have.
pub const JOBS: &str = "jobs";

/// A destination and what it is called in plans, claims and edits.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub way: Way,
}

/// How letters get there.
#[derive(Clone, Debug)]
pub enum Way {
    /// The store puts the job back in the very transaction that claims its letter: nothing is sent.
    Jobs,
    Out(Arc<dyn Destination>),
}

/// Why letters cannot be put back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoWayBack {
    #[error("no destination is configured for source {origin}{}", of_subscriber(.subscriber.as_deref()))]
    NotConfigured { origin: String, subscriber: Option<String> },
    #[error("unknown destination {0:?}")]
    Unknown(String),
    #[error("destination {name} cannot be used: {why}")]
    Unusable { name: String, why: String },
}

/// The destinations of one configuration.
#[derive(Debug)]
pub struct Destinations {
    clock: Clock,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    origin: Origin,
    made: Result<Arc<dyn Destination>, String>,
}

/// Where a destination comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    Configured(Box<DestinationConfig>),
    /// It is the source itself: its letters go back to where they came from.
    Source,
    ByHand,
}

impl Destinations {
    /// Makes all that are configured. One that cannot be made says so to whoever wants to use it.
    pub fn new(config: &Config, sources: &Sources, clock: &Clock) -> Destinations {
        Destinations { clock: clock.clone(), entries: BTreeMap::new() }.under(config, sources)
    }

    /// Those of another configuration. What has not changed is the same, with its connections and their limit.
    pub fn under(&self, config: &Config, sources: &Sources) -> Destinations {
        // Reading the machine's certificates takes a while and is done once, if at all.
        let tls = OnceCell::new();
        let added = self.entries.iter().filter(|(_, entry)| entry.origin == Origin::ByHand);
        let mut entries: BTreeMap<String, Entry> =
            added.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        for (name, wanted) in configured(config) {
            let same = |entry: &&Entry| matches!(&entry.origin, Origin::Configured(was) if **was == *wanted);
            let known = self.entries.get(&name).filter(same);
            let entry = known.cloned().unwrap_or_else(|| make(&name, wanted, &tls, &self.clock));
            entries.insert(name, entry);
        }
        for (name, running) in sources.iter() {
            let made = Ok(Arc::clone(&running.destination));
            entries.insert(name.to_owned(), Entry { origin: Origin::Source, made });
        }
        Destinations { clock: self.clock.clone(), entries }
    }

    /// The same with one more, which stays over reloads.
    pub fn with(mut self, name: &str, destination: Arc<dyn Destination>) -> Destinations {
        self.entries.insert(name.to_owned(), Entry { origin: Origin::ByHand, made: Ok(destination) });
        self
    }

    /// Where letters of a source go: to their subscriber's own destination, or else to the source's.
    pub fn of(&self, source: &str, subscriber: Option<&str>) -> Result<Named, NoWayBack> {
        if source == JOBS {
            return self.by_name(JOBS);
        }
        let own = subscriber.map(|subscriber| format!("{source}/{subscriber}"));
        match own.filter(|name| self.entries.contains_key(name)) {
            Some(name) => self.by_name(&name),
            None if self.entries.contains_key(source) => self.by_name(source),
            None => Err(NoWayBack::NotConfigured {
                origin: source.to_owned(),
                subscriber: subscriber.map(str::to_owned),
            }),
        }
    }

    /// The destination of this name, as a plan or an edit has written it down.
    pub fn by_name(&self, name: &str) -> Result<Named, NoWayBack> {
        if name == JOBS {
            return Ok(Named { name: JOBS.to_owned(), way: Way::Jobs });
        }
        let entry = self.entries.get(name).ok_or_else(|| NoWayBack::Unknown(name.to_owned()))?;
        match &entry.made {
            Ok(made) => Ok(Named { name: name.to_owned(), way: Way::Out(Arc::clone(made)) }),
            Err(why) => Err(NoWayBack::Unusable { name: name.to_owned(), why: why.clone() }),
        }
    }

    /// All names in order, `jobs` first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(JOBS).chain(self.entries.keys().map(String::as_str))
    }
}

impl Named {
    /// The address as people know it, without credentials.
    pub fn address(&self) -> String {
        match &self.way {
            Way::Jobs => JOBS.to_owned(),
            Way::Out(destination) => destination.address(),
        }
    }

    /// Whether a letter of which nobody knows may be sent again under the same key.
    pub fn deduplicates(&self) -> bool {
        match &self.way {
            Way::Jobs => true,
            Way::Out(destination) => destination.deduplicates(),
        }
    }

    /// Whether a letter that was sent for the first time at `begun_at`, and of which nobody knows, may be sent again now under
    /// the same key: the destination still recognises it.
    pub fn recognises(&self, begun_at: Option<Time>, now: Time) -> bool {
        let window_ms = match &self.way {
            Way::Jobs => None,
            Way::Out(destination) => destination.dedup_window_ms(),
        };
        let is_within = match (window_ms, begun_at) {
            (None, _) => true,
            (Some(_), None) => false,
            // The second send takes its time as well.
            (Some(window_ms), Some(begun_at)) => {
                let last_ms = window_ms.saturating_sub(limits::DESTINATION_MS_MAX);
                now.since(begun_at) < i64::try_from(last_ms).unwrap_or(i64::MAX)
            }
        };
        self.deduplicates() && is_within
    }
}

impl NoWayBack {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            NoWayBack::NotConfigured { origin, subscriber: None } => {
                format!("set url under [sources.{origin}.destination]")
            }
            NoWayBack::NotConfigured { origin, subscriber: Some(subscriber) } => format!(
                "set url under [sources.{origin}.destination], or under [sources.{origin}.subscribers.{subscriber:?}]"
            ),
            NoWayBack::Unknown(_) => "destinations: jobs, <source> and <source>/<subscriber>".to_owned(),
            NoWayBack::Unusable { .. } => "correct it and reload the configuration (SIGHUP)".to_owned(),
        }
    }
}

fn of_subscriber(subscriber: Option<&str>) -> impl fmt::Display {
    subscriber.map_or_else(String::new, |subscriber| format!(" and subscriber {subscriber}"))
}

fn configured(config: &Config) -> impl Iterator<Item = (String, &DestinationConfig)> {
    config.sources.iter().flat_map(|(source, settings)| {
        let own = settings.destination.iter().map(move |destination| (source.clone(), destination));
        let subscribers = settings.subscribers.iter();
        own.chain(subscribers.map(move |(id, destination)| (format!("{source}/{id}"), destination)))
    })
}

fn make(name: &str, config: &DestinationConfig, tls: &OnceCell<Tls>, clock: &Clock) -> Entry {
    let tls = tls.get_or_init(Tls::of_the_machine);
    let made = HttpDestination::new(config.clone(), tls, clock.clone());
    if let Err(why) = &made {
        tracing::error!(destination = name, "destination {name} cannot be used: {why}");
    }
    let made = made.map(|made| Arc::new(made) as Arc<dyn Destination>);
    Entry { origin: Origin::Configured(Box::new(config.clone())), made }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DestinationUrl, SourceConfig, SourceKind};

    fn receiver(url: &str) -> DestinationConfig {
        DestinationConfig::new(DestinationUrl::parse(url).unwrap())
    }

    fn config() -> Config {
        let mut orders = SourceConfig::new("orders", SourceKind::Report);
        orders.destination = Some(receiver("http://orders.example.org/in"));
        orders.subscribers.insert("a/b".to_owned(), receiver("http://ledger.example.org/"));
        let mut config = Config::default();
        config.sources.insert("orders".to_owned(), orders);
        config
    }

    fn address(found: Result<Named, NoWayBack>) -> String {
        found.map_or_else(
            |why| format!("{why} ({})", why.hint()),
            |it| format!("{} {}", it.name, it.address()),
        )
    }

    #[test]
    fn letters_go_to_their_subscriber_or_else_to_their_source() {
        let all = Destinations::new(&config(), &Sources::default(), &Clock::System);
        for (source, subscriber, expected) in [
            ("orders", None, "orders http://orders.example.org/in"),
            ("orders", Some("x"), "orders http://orders.example.org/in"),
            ("orders", Some("a/b"), "orders/a/b http://ledger.example.org/"),
            ("jobs", Some("x"), "jobs jobs"),
            (
                "report",
                None,
                "no destination is configured for source report (set url under [sources.report.destination])",
            ),
            (
                "gone",
                Some("x"),
                "no destination is configured for source gone and subscriber x (set url under \
                 [sources.gone.destination], or under [sources.gone.subscribers.\"x\"])",
            ),
        ] {
            assert_eq!(address(all.of(source, subscriber)), expected);
        }
        assert_eq!(all.names().collect::<Vec<_>>(), ["jobs", "orders", "orders/a/b"]);
        assert_eq!(address(all.by_name("orders/a/b")), "orders/a/b http://ledger.example.org/");
        assert_eq!(all.by_name("orders/x").unwrap_err(), NoWayBack::Unknown("orders/x".to_owned()));
    }

    #[test]
    fn a_reload_keeps_what_has_not_changed() {
        let out = |named: Result<Named, NoWayBack>| match named.unwrap().way {
            Way::Out(destination) => destination,
            Way::Jobs => panic!("jobs are not sent"),
        };
        let before = Destinations::new(&config(), &Sources::default(), &Clock::System);
        let mut changed = config();
        changed.sources.get_mut("orders").unwrap().destination = Some(receiver("http://other.example.org/"));
        let after = before.under(&changed, &Sources::default());
        assert!(Arc::ptr_eq(&out(before.by_name("orders/a/b")), &out(after.by_name("orders/a/b"))));
        assert_eq!(address(after.by_name("orders")), "orders http://other.example.org/");
        let none = after.under(&Config::default(), &Sources::default());
        assert_eq!(none.names().collect::<Vec<_>>(), ["jobs"]);
        let kept =
            none.with("made", out(before.by_name("orders"))).under(&Config::default(), &Sources::default());
        assert_eq!(address(kept.by_name("made")), "made http://orders.example.org/in");
    }
}
