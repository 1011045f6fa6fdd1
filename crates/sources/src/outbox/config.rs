//! What an operator says about an outbox: where it is, what its columns are called, which words its statuses have.

use std::fmt;

use lazaret_core::limits;
use lazaret_core::retry::{Preset, RetryPolicies};

use super::name::TableName;
use crate::SourceError;

/// One outbox. Shows no password.
#[derive(Clone, PartialEq)]
pub struct OutboxConfig {
    /// The name of the source.
    pub name: String,
    /// `postgres://…`, as the store's address is written.
    pub url: String,
    pub table: TableName,
    pub columns: Columns,
    pub statuses: Statuses,
    /// Who the events are for: the name of the sink. It is part of the capture key, so it must not change.
    pub subscriber: Option<String>,
    /// How often all dead rows are looked at where a trigger tells of new ones.
    pub sweep_ms: u64,
    /// How often all dead rows are looked at where there is no trigger.
    pub poll_ms: u64,
    /// How long one answer of the database may take before its connection counts as lost.
    pub answer_ms_max: u64,
    pub relay: Option<RelayConfig>,
}

/// What the columns are called. The optional ones may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    pub id: String,
    pub event_type: String,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    pub payload: String,
    pub schema_version: Option<String>,
    pub status: String,
    pub retry_count: String,
    pub max_retries: Option<String>,
    pub last_error: String,
    pub next_attempt_at: Option<String>,
    pub created_at: String,
    pub processed_at: Option<String>,
    pub tenant: Option<String>,
}

/// The four words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statuses {
    pub pending: String,
    pub processing: String,
    pub processed: String,
    pub dead_letter: String,
}

/// How events are delivered from the table.
#[derive(Clone, PartialEq, Debug)]
pub struct RelayConfig {
    pub preset: Preset,
    /// The preset's policies with what the operator changed of them.
    pub retry: RetryPolicies,
    /// Deliveries under way at once.
    pub concurrency: usize,
    /// Rows claimed at once.
    pub batch: usize,
    pub order: Order,
    /// After this a claimed row is taken for stuck and claimed again. Longer than a delivery may take.
    pub stuck_after_ms: u64,
    pub poll_ms: u64,
}

/// Whether a dead row holds back the later events of its aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// They pass it.
    #[default]
    Pass,
    /// They wait until it is processed or taken away.
    Wait,
}

impl OutboxConfig {
    /// The standard layout in a table of this name.
    pub fn new(name: impl Into<String>, url: impl Into<String>, table: TableName) -> OutboxConfig {
        OutboxConfig {
            name: name.into(),
            url: url.into(),
            table,
            columns: Columns::default(),
            statuses: Statuses::default(),
            subscriber: None,
            sweep_ms: limits::OUTBOX_SWEEP_MS,
            poll_ms: limits::OUTBOX_POLL_MS,
            answer_ms_max: limits::OUTBOX_ANSWER_MS_MAX,
            relay: None,
        }
    }

    /// Says what is wrong without looking at the database.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        let mut wrong = Vec::new();
        let mut named: Vec<&str> = self.columns.all().into_iter().map(|(_, name)| name).collect();
        named.sort_unstable();
        wrong.extend(
            named
                .windows(2)
                .filter(|pair| pair[0] == pair[1])
                .map(|pair| format!("column {:?} is mapped twice", pair[0])),
        );
        let mut words: Vec<&str> = self.statuses.all().into_iter().map(|(_, word)| word).collect();
        words.sort_unstable();
        wrong.extend(
            words
                .windows(2)
                .filter(|pair| pair[0] == pair[1])
                .map(|pair| format!("the word {:?} stands for two statuses", pair[0])),
        );
        let names = self.columns.all().into_iter().chain(self.statuses.all());
        wrong.extend(
            names
                .filter(|(_, name)| name.is_empty() || name.contains('\0') || name.contains("$lazaret$"))
                .map(|(what, _)| format!("{what} has no usable name")),
        );
        if let Some(relay) = &self.relay {
            wrong.extend(relay.wrong(&self.columns));
        }
        if wrong.is_empty() { Ok(()) } else { Err(SourceError::Unfit(wrong.join("; "))) }
    }
}

impl RelayConfig {
    fn wrong(&self, columns: &Columns) -> Vec<String> {
        let mut wrong = Vec::new();
        if columns.next_attempt_at.is_none() {
            wrong.push(
                "a relay needs the column next_attempt_at: retries and claims are kept in it".to_owned(),
            );
        }
        for (what, number, max) in [
            ("batch", self.batch, limits::RELAY_BATCH_MAX),
            ("concurrency", self.concurrency, limits::RELAY_CONCURRENCY_MAX),
        ] {
            if number == 0 || number > max {
                wrong.push(format!("the relay's {what} must be from 1 to {max}, not {number}"));
            }
        }
        if self.stuck_after_ms < limits::RELAY_STUCK_MS_MIN {
            let min = limits::RELAY_STUCK_MS_MIN;
            wrong.push(format!("stuck_after must be at least {min} ms, not {} ms", self.stuck_after_ms));
        }
        wrong
    }
}

impl Default for RelayConfig {
    fn default() -> RelayConfig {
        RelayConfig {
            preset: Preset::Outbox,
            retry: Preset::Outbox.policies(),
            concurrency: limits::RELAY_CONCURRENCY,
            batch: limits::RELAY_BATCH,
            order: Order::default(),
            stuck_after_ms: limits::RELAY_STUCK_MS,
            poll_ms: limits::RELAY_POLL_MS,
        }
    }
}

impl Columns {
    /// Every mapped column by what it means.
    pub(super) fn all(&self) -> Vec<(&'static str, &str)> {
        let required = [
            ("id", &self.id),
            ("event_type", &self.event_type),
            ("payload", &self.payload),
            ("status", &self.status),
            ("retry_count", &self.retry_count),
            ("last_error", &self.last_error),
            ("created_at", &self.created_at),
        ];
        let optional = [
            ("aggregate_type", &self.aggregate_type),
            ("aggregate_id", &self.aggregate_id),
            ("schema_version", &self.schema_version),
            ("max_retries", &self.max_retries),
            ("next_attempt_at", &self.next_attempt_at),
            ("processed_at", &self.processed_at),
            ("tenant", &self.tenant),
        ];
        let optional = optional.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?)));
        required.into_iter().map(|(what, name)| (what, name.as_str())).chain(optional).collect()
    }
}

impl Default for Columns {
    /// The standard layout; a tenant has to be named.
    fn default() -> Columns {
        let some = |name: &str| Some(name.to_owned());
        Columns {
            id: "id".to_owned(),
            event_type: "event_type".to_owned(),
            aggregate_type: some("aggregate_type"),
            aggregate_id: some("aggregate_id"),
            payload: "payload".to_owned(),
            schema_version: some("schema_version"),
            status: "status".to_owned(),
            retry_count: "retry_count".to_owned(),
            max_retries: some("max_retries"),
            last_error: "last_error".to_owned(),
            next_attempt_at: some("next_attempt_at"),
            created_at: "created_at".to_owned(),
            processed_at: some("processed_at"),
            tenant: None,
        }
    }
}

impl Statuses {
    pub(super) fn all(&self) -> [(&'static str, &str); 4] {
        [
            ("pending", self.pending.as_str()),
            ("processing", self.processing.as_str()),
            ("processed", self.processed.as_str()),
            ("dead_letter", self.dead_letter.as_str()),
        ]
    }
}

impl Default for Statuses {
    fn default() -> Statuses {
        Statuses {
            pending: "PENDING".to_owned(),
            processing: "PROCESSING".to_owned(),
            processed: "PROCESSED".to_owned(),
            dead_letter: "DEAD_LETTER".to_owned(),
        }
    }
}

impl fmt::Debug for OutboxConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxConfig")
            .field("name", &self.name)
            .field("table", &self.table)
            .field("columns", &self.columns)
            .field("statuses", &self.statuses)
            .field("subscriber", &self.subscriber)
            .field("relay", &self.relay)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> OutboxConfig {
        OutboxConfig::new("orders", "postgres://u:hunter2@h/d", TableName::parse("outbox").unwrap())
    }

    #[test]
    fn the_standard_layout_is_sound_and_shows_no_password() {
        let config = OutboxConfig { relay: Some(RelayConfig::default()), ..config() };
        assert_eq!(config.check(), Ok(()));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_every_reason() {
        let mut config = config();
        config.columns.tenant = Some("id".to_owned());
        config.columns.next_attempt_at = None;
        config.columns.payload = String::new();
        config.statuses.processed = "PENDING".to_owned();
        config.relay = Some(RelayConfig { batch: 0, stuck_after_ms: 10, ..RelayConfig::default() });
        let SourceError::Unfit(why) = config.check().unwrap_err() else { panic!("another error") };
        for told in [
            "column \"id\" is mapped twice",
            "the word \"PENDING\" stands for two statuses",
            "payload has no usable name",
            "a relay needs the column next_attempt_at",
            "batch must be from 1 to 5000, not 0",
            "stuck_after must be at least 1000 ms, not 10 ms",
        ] {
            assert!(why.contains(told), "{told}: {why}");
        }
    }
}
