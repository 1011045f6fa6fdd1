//! Where letters come from. The seam that every capture works through.
//!
//! A source hands over what died and forgets nothing: what was not acknowledged comes again, to the next caller or to
//! the next process. Whoever calls stores first and acknowledges then.

use std::fmt;

use async_trait::async_trait;
use lazaret_core::broker;
use lazaret_core::letter::Captured;
use lazaret_core::time::Time;

/// A message that died, and what it is acknowledged by.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrival {
    pub captured: Captured,
    pub receipt: Receipt,
}

/// Names one arrival at its source. Only the source that made it can read it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Receipt(String);

impl Receipt {
    pub(crate) fn new(text: String) -> Receipt {
        Receipt(text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// One thing that was looked at, for health and doctor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it; nothing where all is well.
    pub hint: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    Ok,
    /// It works, and not as well as it could.
    Warning,
    /// It does not work.
    Error,
}

/// The health of a source. No text in it holds a credential.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SourceHealth {
    pub connected: bool,
    /// Since when it is connected, or not.
    pub since: Option<Time>,
    /// Why the connection was lost last, or could not be made.
    pub last_error: Option<String>,
    /// How long the longest waiting message is dead that was handed over and not acknowledged; zero if there is none.
    pub lag_ms: u64,
    /// When everything that was dead had been looked at for the last time.
    pub looked_at: Option<Time>,
    /// Dead messages that wait at the source to be captured; nothing where that is not known.
    pub depth: Option<u64>,
    /// By how many messages the source's dead-letter queue grew in a minute, on average over the last minutes. Negative
    /// while it shrinks.
    pub growth_per_min: Option<f64>,
}

/// A worker's word that the work of a message is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerReceipt {
    pub receipt: broker::Receipt,
    /// When the work was done, as the worker says.
    pub at: Option<Time>,
    /// What it is acknowledged by (`Source::ack`) once it was taken into account.
    pub ack: Receipt,
}

/// A queue at the source's broker that seems to hold dead letters.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FoundQueue {
    pub name: String,
    /// Messages in it; nothing where that is not known yet.
    pub depth: Option<u64>,
    /// Messages per second that arrive there.
    pub publish_rate: f64,
    /// Messages per second that are taken from there.
    pub deliver_rate: f64,
    pub consumers: Option<u64>,
    /// Queues that dead-letter into it; none for a queue that is known by its name alone.
    pub fed_by: Vec<String>,
    /// Whether this source captures from it.
    pub is_captured: bool,
}

/// One difference between the topology that is configured and the one that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What it is about, such as `stream LAZARET_DLQ`.
    pub subject: String,
    pub kind: ChangeKind,
    /// Settings that differ, such as `max_age: 1d -> 90d`; of something new, the settings that it gets.
    pub details: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    Create,
    Update,
    /// It cannot be changed, for this reason; somebody has to act.
    Blocked(String),
}

/// Why a source could not do what was asked. No text in it holds a credential.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be reached now: try again later.
    #[error("{doing}: {why}")]
    Unavailable { doing: &'static str, why: String },
    /// It is there, and is not what the configuration says: somebody has to change one of the two.
    #[error("{0}")]
    Unfit(String),
    /// It understood and said no.
    #[error("{why}")]
    Refused { code: Option<String>, why: String },
    /// A test stopped the work here, as a crash would.
    #[error("stopped at {0}")]
    Stopped(&'static str),
}

#[async_trait]
pub trait Source: fmt::Debug + Send + Sync {
    /// The name that it is configured under.
    fn name(&self) -> &str;

    /// Waits for messages that died, for some seconds at most, and hands over a bounded number of them. Connects if need
    /// be. Whoever is told of an error asks again after a while (`Backoff`): nothing is lost by it, and nothing by
    /// stopping in the middle.
    async fn next(&self) -> Result<Vec<Arrival>, SourceError>;

    /// Says that these are committed. What is not acknowledged comes again.
    async fn ack(&self, receipts: &[Receipt]) -> Result<(), SourceError>;

    /// Gives back what could not be stored. It comes again, but not before `SOURCE_RELEASE_MS`, and after a longer pause the
    /// more often it is given back: whoever cannot store must not be handed the same messages in a tight loop.
    async fn release(&self, receipts: &[Receipt]) -> Result<(), SourceError>;

    /// Looks at everything that could be wrong, from outside. Changes nothing.
    async fn check(&self) -> Vec<Finding>;

    fn state(&self) -> SourceHealth;

    /// Returns true if every instance may capture side by side; otherwise only the leader does.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns true if workers send receipts over this source.
    fn takes_receipts(&self) -> bool {
        false
    }

    /// Waits for receipts of workers, for some seconds at most. All instances share them; what is not acknowledged comes again.
    async fn next_receipts(&self) -> Result<Vec<WorkerReceipt>, SourceError> {
        Ok(Vec::new())
    }

    /// Compares the configured topology with the one that is there and returns what differs. `Declare::Apply` makes it so;
    /// a second call then returns nothing but what is blocked.
    async fn declare(&self, _: Declare) -> Result<Vec<Change>, SourceError> {
        Ok(Vec::new())
    }

    /// Lists the broker's queues that seem to hold dead letters, fullest first; `None` where that cannot be known.
    async fn discover(&self) -> Result<Option<Vec<FoundQueue>>, SourceError> {
        Ok(None)
    }
}

/// Whether a declaration changes anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declare {
    DryRun,
    Apply,
}

/// Work of a source beside capture, called in a loop.
#[async_trait]
pub trait Duty: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Returns true if one instance does it for all.
    fn is_leader_only(&self) -> bool;

    /// Does a bounded amount of work, or waits for some for a few seconds. Whoever is told of an error calls again after a
    /// while (`Backoff`).
    async fn run_once(&self) -> Result<(), SourceError>;

    /// What was done since the start, by the name of the count.
    fn counts(&self) -> Vec<(&'static str, u64)>;

    /// Asks for the end. Returns true if `run_once` comes to its end by itself and is `Stopped` from then on; otherwise it may
    /// be cut off anywhere.
    fn stop(&self) -> bool {
        false
    }
}

impl ChangeKind {
    pub const fn name(&self) -> &'static str {
        match self {
            ChangeKind::Create => "create",
            ChangeKind::Update => "update",
            ChangeKind::Blocked(_) => "blocked",
        }
    }
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl Finding {
    pub fn ok(what: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, what: what.into(), hint: None }
    }

    pub fn warning(what: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, what: what.into(), hint: Some(hint.into()) }
    }

    pub fn error(what: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { level: Level::Error, what: what.into(), hint: Some(hint.into()) }
    }
}

impl SourceError {
    /// Whether the same again may work without anybody doing something.
    pub fn passes(&self) -> bool {
        match self {
            SourceError::Unavailable { .. } => true,
            SourceError::Unfit(_) | SourceError::Refused { .. } | SourceError::Stopped(_) => false,
        }
    }
}
