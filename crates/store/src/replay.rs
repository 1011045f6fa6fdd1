//! Replays: letters that a standing rule puts back by itself, each at most so many times.

use async_trait::async_trait;
use lazaret_core::class::Category;
use lazaret_core::filter::Filter;
use lazaret_core::gate::Shut;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Refused;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// Asks for letters that a rule may put back now.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayQuery {
    pub rule: String,
    /// What the rule is about, narrowed to pending letters that have waited long enough and have a way back.
    pub filter: Filter,
    pub max_replays: u32,
    /// What relative times in the filter are counted from.
    pub now: Time,
    pub limit: usize,
}

/// Puts letters back by a rule: all those that still may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    pub rule: String,
    /// The category of the rule, which is a standing RCA: the gate is asked for each letter.
    pub category: Category,
    pub max_replays: u32,
    /// Letter and life, as they were found.
    pub letters: Vec<(LetterId, u32)>,
    pub at: Time,
}

/// What came of one letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replayed {
    Done,
    /// The rule has put it back as often as it may.
    Spent,
    /// It moved since it was found.
    Moved,
    Refused(Refused),
    /// The gate is shut for the rule: by the class of the letter, or by what a person found out about its incident.
    Shut(Shut),
    NoWayBack,
}

/// What a rule has done so far, and whether a person switched it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleRecord {
    pub rule: String,
    /// What a person said last; without it the configuration decides.
    pub switched: Option<bool>,
    pub replayed: u64,
    pub last_at: Option<Time>,
}

/// What a store does for replay rules. Every `Store` is one.
#[async_trait]
pub trait Replays: Send + Sync {
    /// Letters that a rule may put back now, the longest dead first.
    async fn replayable(&self, query: ReplayQuery) -> Result<Vec<(LetterId, u32)>, StoreError>;

    /// Puts letters back by a rule, large ones in several commits; the outcomes come in order.
    async fn replay(&self, replay: Replay) -> Result<Vec<Replayed>, StoreError>;

    /// What is known of all rules that did something or were switched, by name.
    async fn rule_records(&self) -> Result<Vec<RuleRecord>, StoreError>;

    /// Switches a rule on or off whatever the configuration says, and writes the audit entry.
    async fn switch_rule(&self, rule: String, enabled: bool, by: Actor, at: Time) -> Result<(), StoreError>;
}
