//! What a person chooses for a run.

use super::pace::Pace;
use super::stop::StopRule;
use crate::limits;

/// How a run goes. Where nothing is said, the defaults are careful.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub pace: Pace,
    /// Letters claimed at once.
    pub batch_size: u32,
    /// Letters on their way at once.
    pub concurrency: u32,
    pub prioritization: Prioritization,
    /// Letters that go first and alone; none for no canary.
    pub canary: u32,
    /// How long they may take to be verified.
    pub canary_ms: i64,
    /// Whether a success that is only assumed is enough for a canary.
    pub canary_assumed: bool,
    pub stop: StopRule,
    /// How long no new death has to be told of a letter that was taken, before it is assumed to have succeeded.
    pub quiet_ms: i64,
}

/// Which lanes go first. Within a lane the order of deaths always holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prioritization {
    pub by: OrderBy,
    pub direction: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OrderBy {
    CreatedAt,
    DiedAt,
    RetryCount,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    Ascending,
    Descending,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pace: Pace::DEFAULT,
            batch_size: limits::REDRIVE_BATCH,
            concurrency: limits::REDRIVE_CONCURRENCY,
            prioritization: Prioritization { by: OrderBy::DiedAt, direction: Direction::Ascending },
            canary: limits::CANARY_LETTERS,
            canary_ms: limits::CANARY_MS_MIN,
            canary_assumed: false,
            stop: StopRule::default(),
            quiet_ms: limits::CANARY_MS_MIN,
        }
    }
}

impl OrderBy {
    pub const ALL: [OrderBy; 3] = [OrderBy::CreatedAt, OrderBy::DiedAt, OrderBy::RetryCount];

    pub const fn name(self) -> &'static str {
        match self {
            OrderBy::CreatedAt => "createdAt",
            OrderBy::DiedAt => "diedAt",
            OrderBy::RetryCount => "retryCount",
        }
    }

    pub fn parse(text: &str) -> Option<OrderBy> {
        OrderBy::ALL.into_iter().find(|by| by.name() == text)
    }
}

impl Direction {
    pub const ALL: [Direction; 2] = [Direction::Ascending, Direction::Descending];

    pub const fn name(self) -> &'static str {
        match self {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        }
    }

    pub fn parse(text: &str) -> Option<Direction> {
        Direction::ALL.into_iter().find(|direction| direction.name() == text)
    }
}

impl Prioritization {
    /// The number that letters are put back in the order of, smallest first.
    pub const fn rank(self, created_ms: i64, died_ms: i64, retry_count: i64) -> i64 {
        let value = match self.by {
            OrderBy::CreatedAt => created_ms,
            OrderBy::DiedAt => died_ms,
            OrderBy::RetryCount => retry_count,
        };
        match self.direction {
            Direction::Ascending => value,
            Direction::Descending => value.saturating_neg(),
        }
    }
}
