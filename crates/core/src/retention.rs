//! How long letters stay, how many, and where they go then. Each setting of a queue comes from the nearest place that
//! has one: the queue, its source, everything, or what holds unless anything is set.

use crate::duration::Length;
use crate::lifecycle::Status;
use crate::limits;
use crate::time::Time;

/// What becomes of letters that a limit pushes out beyond the floor. Inside of it they are archived whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruningPolicy {
    Delete,
    Archive,
}

impl PruningPolicy {
    pub const ALL: [PruningPolicy; 2] = [PruningPolicy::Delete, PruningPolicy::Archive];

    pub const fn name(self) -> &'static str {
        match self {
            PruningPolicy::Delete => "delete",
            PruningPolicy::Archive => "archive",
        }
    }

    pub fn parse(text: &str) -> Option<PruningPolicy> {
        PruningPolicy::ALL.into_iter().find(|policy| policy.name() == text)
    }
}

/// A limit on the number of letters, where one can be switched off that holds further out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaxCount {
    None,
    Letters(u64),
}

/// The settings of one place; what is not set comes from further out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Of pending letters.
    pub max_age: Option<Length>,
    /// Of pending letters.
    pub max_count: Option<MaxCount>,
    /// The floor: nothing younger is destroyed.
    pub min_age: Option<Length>,
    pub pruning_policy: Option<PruningPolicy>,
    pub resolved_max_age: Option<Length>,
    pub discarded_max_age: Option<Length>,
}

/// Where a setting comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    Queue,
    Source,
    Global,
    /// Nothing was set.
    Default,
}

impl Origin {
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Queue => "queue",
            Origin::Source => "source",
            Origin::Global => "global",
            Origin::Default => "default",
        }
    }
}

/// What holds for the letters of one queue, each with where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effective {
    pub max_age: (Length, Origin),
    pub max_count: (MaxCount, Origin),
    pub min_age: (Length, Origin),
    pub pruning_policy: (PruningPolicy, Origin),
    pub resolved_max_age: (Length, Origin),
    pub discarded_max_age: (Length, Origin),
}

/// The source whose letters have the retention of the Open Job Spec unless something is set.
const JOBS: &str = "jobs";

impl Effective {
    /// What holds for a queue of `source`, from the settings of the queue, the source and everything.
    pub fn of(source: &str, queue: &Retention, of_source: &Retention, global: &Retention) -> Effective {
        let default = Effective::default_of(source);
        let levels = [(queue, Origin::Queue), (of_source, Origin::Source), (global, Origin::Global)];
        let length = |get: fn(&Retention) -> Option<Length>, default| {
            levels.iter().find_map(|(level, from)| Some((get(level)?, *from))).unwrap_or(default)
        };
        Effective {
            max_age: length(|level| level.max_age, default.max_age),
            min_age: length(|level| level.min_age, default.min_age),
            resolved_max_age: length(|level| level.resolved_max_age, default.resolved_max_age),
            discarded_max_age: length(|level| level.discarded_max_age, default.discarded_max_age),
            max_count: levels
                .iter()
                .find_map(|(level, from)| Some((level.max_count?, *from)))
                .unwrap_or(default.max_count),
            pruning_policy: levels
                .iter()
                .find_map(|(level, from)| Some((level.pruning_policy?, *from)))
                .unwrap_or(default.pruning_policy),
        }
    }

    fn default_of(source: &str) -> Effective {
        let half_a_year = (Length::from_ms(limits::RETENTION_MAX_AGE_MS), Origin::Default);
        let (max_count, policy) = match source {
            JOBS => (MaxCount::Letters(limits::OJS_DEAD_LETTERS_KEPT), PruningPolicy::Delete),
            _ => (MaxCount::None, PruningPolicy::Archive),
        };
        Effective {
            max_age: half_a_year,
            max_count: (max_count, Origin::Default),
            min_age: (Length::from_ms(limits::RETENTION_FLOOR_MS), Origin::Default),
            pruning_policy: (policy, Origin::Default),
            resolved_max_age: half_a_year,
            discarded_max_age: half_a_year,
        }
    }

    /// How old a letter of this status may be; nothing goes that is out there.
    pub fn max_age_of(&self, status: Status) -> Option<Length> {
        match status {
            Status::Pending => Some(self.max_age.0),
            Status::Resolved => Some(self.resolved_max_age.0),
            Status::Discarded => Some(self.discarded_max_age.0),
            Status::Reprocessing => None,
        }
    }

    /// What a limit makes of a letter that goes at `now` and was captured or died last at `since`.
    pub fn outlet(&self, since: Time, now: Time) -> PruningPolicy {
        if since.plus_ms(self.min_age.0.ms()) > now { PruningPolicy::Archive } else { self.pruning_policy.0 }
    }
}

/// Which limit pushed a letter out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Limit {
    MaxAge,
    MaxCount,
}

impl Limit {
    pub const ALL: [Limit; 2] = [Limit::MaxAge, Limit::MaxCount];

    pub const fn name(self) -> &'static str {
        match self {
            Limit::MaxAge => "max_age",
            Limit::MaxCount => "max_count",
        }
    }

    pub fn parse(text: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == text)
    }
}
