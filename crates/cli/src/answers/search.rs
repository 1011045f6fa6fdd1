//! What a search costs, what it is made ready with, and which values there are to search for.

use serde::Deserialize;

/// What a page cost that no index could answer.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Scan {
    pub letters: u64,
    /// Whether the time ran out before the page was full.
    pub cut_short: bool,
}

#[derive(Deserialize, Debug)]
pub struct Progress {
    #[serde(rename = "bodyIndex")]
    pub body_index: BodyIndex,
    pub regrouping: Regrouping,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct BodyIndex {
    pub state: String,
    #[serde(default)]
    pub indexed: u64,
    #[serde(default)]
    pub behind: u64,
    pub lag_ms: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub struct Regrouping {
    pub revision: String,
    pub towards: Option<String>,
    pub done: u64,
    pub total: u64,
}

#[derive(Deserialize, Debug)]
pub struct Suggestions {
    pub items: Vec<Suggestion>,
}

/// A value that occurs, and how often where a counter knows.
#[derive(Deserialize, Debug)]
pub struct Suggestion {
    pub value: String,
    pub count: Option<u64>,
}
