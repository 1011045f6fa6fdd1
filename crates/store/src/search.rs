//! Searching inside of letters: the body index, scans, and suggestions of values.

use lazaret_core::time::Time;

/// How far the body index has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyIndex {
    /// Lives in the index.
    pub indexed: u64,
    /// Lives that are not in it yet; searches look into them one by one.
    pub behind: u64,
    /// The capture of the oldest life that is not in it yet.
    pub behind_since: Option<Time>,
}

/// What a page cost that could not be answered from indexes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Letters whose content was opened.
    pub letters: u64,
    /// Whether the time ran out before the page was full: the next page goes on from there.
    pub cut_short: bool,
}

/// Filter keys for which values that occur can be suggested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuggestKey {
    Source,
    Queue,
    Type,
    ErrorType,
    Class,
    Status,
    Code,
    Subscriber,
    Aggregate,
    Tenant,
}

/// A value that occurs, and how often where a counter knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    pub value: String,
    pub letters: Option<u64>,
}
