//! Policies of retention and what pruning did, as the server tells them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    pub next_prune_at: String,
    pub queues: Vec<Queue>,
    #[serde(default)]
    pub more_queues: u64,
    pub counts: Vec<Count>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    pub source: String,
    pub queue: String,
    pub max_age: Setting,
    pub max_count: Setting,
    pub min_age: Setting,
    pub pruning_policy: Setting,
    pub resolved_max_age: Setting,
    pub discarded_max_age: Setting,
    pub counted_with: Option<String>,
    pub letters: BTreeMap<String, u64>,
    pub held: u64,
    pub notes: Vec<String>,
}

#[derive(Deserialize, Debug)]
pub struct Setting {
    pub value: Value,
    pub from: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    #[serde(flatten)]
    pub scope: Scope,
    pub max_count: u64,
    pub letters: u64,
    pub held: u64,
    pub unmet: u64,
}

/// What is counted together.
#[derive(Deserialize, Debug)]
pub struct Scope {
    pub source: Option<String>,
    pub queue: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    pub complete: bool,
    pub archived: u64,
    pub deleted: u64,
    pub queues: Vec<PrunedQueue>,
    pub unmet: Vec<Unmet>,
    pub next_prune_at: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct PrunedQueue {
    pub source: String,
    pub queue: String,
    pub reason: String,
    pub archived: u64,
    pub deleted: u64,
    pub status: Option<String>,
    pub oldest_at: Option<String>,
    pub why: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct Unmet {
    #[serde(flatten)]
    pub scope: Scope,
    pub letters: u64,
}
