//! Which policy holds for which queue, as the configuration says, and which letters are counted together.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use lazaret_core::retention::{Effective, MaxCount, Origin, Retention};
use lazaret_store::job::SOURCE;

use crate::config::{Config, QueueConfig};

/// All that is set about retention.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policies {
    global: Retention,
    sources: BTreeMap<String, OfSource>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct OfSource {
    own: Retention,
    queues: BTreeMap<String, Retention>,
    /// Where its letters are when nothing else is known.
    usual_queue: String,
}

/// What is counted together against one limit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// A queue that has a limit of its own.
    Queue { source: String, queue: String },
    /// The queues of a source that have none.
    Source(String),
    /// The queues of all sources that have none.
    Everything,
}

impl Scope {
    pub const fn name(&self) -> &'static str {
        match self {
            Scope::Queue { .. } => "queue",
            Scope::Source(_) => "source",
            Scope::Everything => "global",
        }
    }

    pub fn source(&self) -> Option<&str> {
        match self {
            Scope::Queue { source, .. } | Scope::Source(source) => Some(source),
            Scope::Everything => None,
        }
    }

    pub fn queue(&self) -> Option<&str> {
        match self {
            Scope::Queue { queue, .. } => Some(queue),
            Scope::Source(_) | Scope::Everything => None,
        }
    }
}

/// For people.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scope::Queue { source, queue } => write!(f, "queue {queue} of {source}"),
            Scope::Source(source) => write!(f, "the queues of {source} together"),
            Scope::Everything => write!(f, "all queues together"),
        }
    }
}

impl Policies {
    pub fn of(config: &Config) -> Policies {
        let queues = |queues: &BTreeMap<String, QueueConfig>| {
            queues.iter().map(|(name, queue)| (name.clone(), queue.retention.clone())).collect()
        };
        let jobs = OfSource {
            own: config.jobs.retention.clone(),
            queues: queues(&config.jobs.queues),
            usual_queue: "default".to_owned(),
        };
        let mut sources = BTreeMap::from([(SOURCE.to_owned(), jobs)]);
        for (name, source) in &config.sources {
            let of_source = OfSource {
                own: source.retention.clone(),
                queues: queues(&source.queues),
                usual_queue: source.queue.clone(),
            };
            sources.insert(name.clone(), of_source);
        }
        Policies { global: config.retention.clone(), sources }
    }

    /// What holds for a queue; of a source that is not configured any more, what holds for all.
    pub fn effective(&self, source: &str, queue: &str) -> Effective {
        let nothing = Retention::default();
        let of_source = self.sources.get(source);
        let own = of_source.map_or(&nothing, |it| &it.own);
        let of_queue = of_source.and_then(|it| it.queues.get(queue)).unwrap_or(&nothing);
        Effective::of(source, of_queue, own, &self.global)
    }

    /// What holds for the queues of a source about which nothing is set.
    pub fn of_source(&self, source: &str) -> Effective {
        let nothing = Retention::default();
        let own = self.sources.get(source).map_or(&nothing, |it| &it.own);
        Effective::of(source, &nothing, own, &self.global)
    }

    /// The queues that are known without a letter in them: those that something is set for, and the usual one of each source.
    pub fn queues(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources.iter().flat_map(|(source, it)| {
            let named = it.queues.keys().map(String::as_str);
            let usual = Some(it.usual_queue.as_str()).filter(|usual| !it.queues.contains_key(*usual));
            named.chain(usual).map(move |queue| (source.as_str(), queue))
        })
    }

    /// The longest floor of all, for what is about letters of many queues.
    pub fn longest_floor_ms(&self) -> i64 {
        let everywhere = self.global.min_age.map_or(limits::RETENTION_FLOOR_MS, Length::ms);
        let own = self.sources.values().filter_map(|it| it.own.min_age);
        let of_queues = self.sources.values().flat_map(|it| it.queues.values()).filter_map(|it| it.min_age);
        own.chain(of_queues).map(Length::ms).fold(everywhere, i64::max)
    }
}

/// With what the letters of a queue are counted, and how many of them there may be.
pub(super) fn counted_in(source: &str, queue: &str, effective: &Effective) -> Option<(Scope, u64)> {
    let MaxCount::Letters(max) = effective.max_count.0 else { return None };
    let scope = match effective.max_count.1 {
        Origin::Queue => Scope::Queue { source: source.to_owned(), queue: queue.to_owned() },
        // What holds unless anything is set is set for a source.
        Origin::Source | Origin::Default => Scope::Source(source.to_owned()),
        Origin::Global => Scope::Everything,
    };
    Some((scope, max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{REPORT_SOURCE, SourceConfig, SourceKind};

    fn counted(max: u64) -> Retention {
        Retention { max_count: Some(MaxCount::Letters(max)), ..Retention::default() }
    }

    fn config() -> Config {
        let mut config = Config { retention: counted(1_000), ..Config::default() };
        let mails = QueueConfig { retention: counted(10) };
        let free =
            QueueConfig { retention: Retention { max_count: Some(MaxCount::None), ..Retention::default() } };
        config.jobs.queues = [("mails".to_owned(), mails), ("free".to_owned(), free)].into();
        let mut orders = SourceConfig::new("orders", SourceKind::Report);
        orders.retention = counted(500);
        config.sources.insert("orders".to_owned(), orders);
        config
    }

    #[test]
    fn a_queue_with_a_limit_is_counted_alone_and_the_rest_together() {
        let policies = Policies::of(&config());
        let scope = |source: &str, queue: &str| {
            counted_in(source, queue, &policies.effective(source, queue))
                .map(|(scope, max)| (scope.to_string(), max))
        };
        let told = |text: &str, max| Some((text.to_owned(), max));
        assert_eq!(scope("jobs", "mails"), told("queue mails of jobs", 10));
        assert_eq!(scope("jobs", "free"), None);
        assert_eq!(scope("jobs", "other"), told("all queues together", 1_000));
        assert_eq!(scope("orders", "a"), told("the queues of orders together", 500));
        assert_eq!(scope(REPORT_SOURCE, "report"), told("all queues together", 1_000));
        assert_eq!(scope("not configured", "x"), told("all queues together", 1_000));
        let untouched = Policies::of(&Config::default());
        let of = |source: &str| counted_in(source, "q", &untouched.effective(source, "q"));
        assert_eq!(of("jobs"), Some((Scope::Source("jobs".to_owned()), 10_000)));
        assert_eq!(of(REPORT_SOURCE), None);
    }

    #[test]
    fn the_longest_floor_is_the_longest_that_is_set_anywhere() {
        let days = |days: i64| Some(Length::from_ms(days * 86_400_000));
        let mut config = Config::default();
        assert_eq!(Policies::of(&config).longest_floor_ms(), 90 * 86_400_000);
        config.retention.min_age = days(10);
        assert_eq!(Policies::of(&config).longest_floor_ms(), 10 * 86_400_000);
        let queue = QueueConfig { retention: Retention { min_age: days(400), ..Retention::default() } };
        config.jobs.queues = [("books".to_owned(), queue)].into();
        assert_eq!(Policies::of(&config).longest_floor_ms(), 400 * 86_400_000);
    }

    #[test]
    fn queues_are_known_before_their_first_letter() {
        let policies = Policies::of(&config());
        let known: Vec<_> = policies.queues().collect();
        let expected = [
            ("jobs", "free"),
            ("jobs", "mails"),
            ("jobs", "default"),
            ("orders", "orders"),
            ("report", "report"),
        ];
        assert_eq!(known, expected);
    }
}
