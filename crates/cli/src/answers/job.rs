//! Jobs, queues and workers as the server answers them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A page of anything, with how to go on.
#[derive(Deserialize, Debug)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub total: u64,
    pub pagination: Pagination,
}

#[derive(Deserialize, Debug)]
pub struct Pagination {
    #[serde(default)]
    pub total_is_at_least: bool,
    #[serde(default)]
    pub has_more: bool,
    pub next_cursor: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct Job {
    pub id: String,
    #[serde(rename = "type")]
    pub job_type: String,
    pub queue: String,
    pub state: String,
    pub previous_state: Option<String>,
    #[serde(default)]
    pub priority: i64,
    #[serde(default)]
    pub attempt: u64,
    pub max_attempts: Option<u64>,
    pub args: Box<RawValue>,
    pub meta: Option<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
    pub created_at: String,
    pub scheduled_at: Option<String>,
    pub expires_at: Option<String>,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub cancelled_at: Option<String>,
    pub discarded_at: Option<String>,
    pub re_enqueued_at: Option<String>,
    pub next_attempt_at: Option<String>,
    pub error: Option<JobError>,
    #[serde(default)]
    pub errors: Vec<JobError>,
}

#[derive(Deserialize, Debug)]
pub struct JobError {
    #[serde(default)]
    pub attempt: u64,
    #[serde(rename = "type")]
    pub error_type: String,
    pub code: Option<String>,
    #[serde(default)]
    pub message: String,
    pub occurred_at: Option<String>,
    #[serde(default)]
    pub backtrace: Vec<String>,
}

#[derive(Deserialize, Debug)]
pub struct Queue {
    pub name: String,
    pub status: String,
    pub paused: bool,
    pub counts: BTreeMap<String, u64>,
}

impl Queue {
    pub fn count(&self, state: &str) -> u64 {
        self.counts.get(state).copied().unwrap_or(0)
    }
}

#[derive(Deserialize, Debug)]
pub struct Worker {
    pub id: String,
    pub hostname: Option<String>,
    pub pid: Option<u64>,
    pub state: String,
    pub wished: String,
    #[serde(default)]
    pub queues: Vec<String>,
    pub concurrency: Option<u64>,
    pub active_jobs: u64,
    pub started_at: Option<String>,
    pub last_heartbeat_at: Option<String>,
}
