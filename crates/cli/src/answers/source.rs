//! Sources as the server tells them.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
pub struct Sources {
    pub items: Vec<Source>,
}

#[derive(Deserialize, Debug)]
pub struct Source {
    pub name: String,
    pub kind: String,
    pub governance: String,
    pub pending: u64,
    pub address: Option<String>,
    pub outbox: Option<Outbox>,
    #[serde(default)]
    pub connection: Option<Connection>,
    #[serde(default)]
    pub duties: Vec<Duty>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    pub connected: bool,
    pub last_error: Option<String>,
    pub captured: u64,
    pub depth: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub struct Duty {
    pub name: String,
    pub problem: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Outbox {
    pub leads: bool,
    pub connected: bool,
    pub last_error: Option<String>,
    pub captured: u64,
    pub vanished: u64,
    #[serde(default)]
    pub vanished_letters: Vec<String>,
    pub relay: Option<Relay>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Relay {
    pub delivered: u64,
    pub problem: Option<String>,
    #[serde(default)]
    pub refused_rows: Vec<RefusedRow>,
}

#[derive(Deserialize, Debug)]
pub struct RefusedRow {
    pub row: String,
    pub reason: String,
}

#[derive(Deserialize, Debug)]
pub struct Check {
    pub source: String,
    pub level: String,
    pub findings: Vec<Finding>,
}

#[derive(Deserialize, Debug)]
pub struct Finding {
    pub level: String,
    pub what: String,
    pub hint: Option<String>,
}
