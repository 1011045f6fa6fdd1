//! Replay rules as the server tells them.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
pub struct Rules {
    pub items: Vec<Rule>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub name: String,
    pub delay: String,
    pub max_replays: u32,
    pub enabled: bool,
    pub enabled_by: String,
    pub blocked: Option<String>,
    pub cause: Option<String>,
    pub replayed: u64,
    pub last_replayed_at: Option<String>,
    pub waiting: u64,
    #[serde(default)]
    pub waiting_is_at_least: bool,
}
