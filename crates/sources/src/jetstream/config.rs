//! The configuration of a JetStream source. Its credentials are never shown.

use std::path::PathBuf;

use lazaret_core::limits;
use lazaret_core::retry::Preset;

use crate::{Secret, SourceError, Tls};

/// One JetStream account as a source of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JetStreamConfig {
    pub name: String,
    /// Addresses such as `nats://host:4222` or `tls://host:4222`, without credentials.
    pub servers: Vec<String>,
    pub auth: Auth,
    pub tls: Tls,
    /// Consumers whose retry policy is declared, and that the sweep checks.
    pub consumers: Vec<WatchedConsumer>,
    pub scope: Scope,
    /// The dead-letter stream, which captures `dlq.>`.
    pub dlq_stream: String,
    /// The stream that keeps advisories until they are bridged, and receipts of workers.
    pub advisory_stream: String,
    /// The stream that keeps acknowledgement metrics while letters are redriven, and acknowledgements of last deliveries.
    pub metrics_stream: String,
    /// Replicas of our streams.
    pub replicas: u8,
    /// How long our streams keep messages.
    pub max_age_ms: u64,
    pub duplicate_window_ms: u64,
    /// Whether the topology is declared when the source starts.
    pub apply_at_start: bool,
    /// Whether an exhausted message is deleted from its work-queue or interest stream after its letter was committed.
    pub delete_exhausted: bool,
    /// Headers that hold the order key, the schema version and the tenant.
    pub aggregate_header: Option<String>,
    pub schema_version_header: Option<String>,
    pub tenant_header: Option<String>,
    /// The ack wait of our durable consumers.
    pub ack_wait_ms: u64,
    pub request_ms_max: u64,
}

/// How the connection is authenticated.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Auth {
    #[default]
    None,
    Token(Secret),
    User {
        user: String,
        password: Secret,
    },
    /// The seed of an nkey (`SU…`).
    Nkey(Secret),
    /// A credentials file with a user's token and seed.
    CredentialsFile(PathBuf),
}

/// An application's consumer, with its retry policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedConsumer {
    pub stream: String,
    pub consumer: String,
    pub max_deliver: u32,
    /// The ack wait of each delivery; the last one repeats.
    pub backoff_ms: Vec<u64>,
}

/// Whose exhausted messages are bridged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Those of every consumer of the account.
    #[default]
    Account,
    /// Those of the configured consumers.
    Configured,
}

impl WatchedConsumer {
    /// The default policy: five deliveries with exponential backoff from one second.
    pub fn new(stream: impl Into<String>, consumer: impl Into<String>) -> WatchedConsumer {
        WatchedConsumer::with_max_deliver(stream, consumer, limits::JETSTREAM_MAX_DELIVER)
    }

    pub fn with_max_deliver(
        stream: impl Into<String>,
        consumer: impl Into<String>,
        max_deliver: u32,
    ) -> WatchedConsumer {
        // Servers before 2.10 require fewer backoff entries than deliveries.
        let waits = 1..max_deliver.min(limits::ATTEMPTS_MAX as u32);
        let backoff_ms = waits.map(|n| Preset::Jetstream.policy().delay_ms(n, 0.0)).collect();
        WatchedConsumer { stream: stream.into(), consumer: consumer.into(), max_deliver, backoff_ms }
    }
}

impl JetStreamConfig {
    pub fn new(name: impl Into<String>, servers: impl IntoIterator<Item = String>) -> JetStreamConfig {
        JetStreamConfig {
            name: name.into(),
            servers: servers.into_iter().collect(),
            auth: Auth::None,
            tls: Tls::default(),
            consumers: Vec::new(),
            scope: Scope::Account,
            dlq_stream: "DLQ".to_owned(),
            advisory_stream: "LAZARET_ADVISORIES".to_owned(),
            metrics_stream: "LAZARET_METRICS".to_owned(),
            replicas: 1,
            max_age_ms: limits::RETENTION_FLOOR_MS.unsigned_abs(),
            duplicate_window_ms: limits::JETSTREAM_DUPLICATE_WINDOW_MS,
            apply_at_start: true,
            delete_exhausted: true,
            aggregate_header: None,
            schema_version_header: None,
            tenant_header: None,
            ack_wait_ms: limits::JETSTREAM_ACK_WAIT_MS,
            request_ms_max: limits::JETSTREAM_REQUEST_MS_MAX,
        }
    }

    pub fn watched(&self, stream: &str, consumer: &str) -> Option<&WatchedConsumer> {
        self.consumers.iter().find(|it| it.stream == stream && it.consumer == consumer)
    }

    /// The durable consumer that captures dead letters.
    pub(super) fn capture_durable(&self) -> String {
        format!("lazaret-{}", durable_part(&self.name))
    }

    /// The durable consumer that bridges advisories.
    pub(super) fn bridge_durable(&self) -> String {
        format!("lazaret-{}-bridge", durable_part(&self.name))
    }

    /// The durable consumer that reads workers' receipts.
    pub(super) fn receipts_durable(&self) -> String {
        format!("lazaret-{}-receipts", durable_part(&self.name))
    }

    /// The durable consumer that follows up exhausted messages.
    pub(super) fn follow_up_durable(&self) -> String {
        format!("lazaret-{}-follow-up", durable_part(&self.name))
    }

    /// Validates everything that needs no connection, and reports all errors at once.
    pub fn check(&self) -> Result<(), SourceError> {
        let mut errors = Vec::new();
        if self.servers.is_empty() {
            errors.push("servers is empty: name at least one, such as nats://127.0.0.1:4222".to_owned());
        }
        for server in &self.servers {
            match server.parse::<async_nats::ServerAddr>() {
                Ok(address) if address.has_user_pass() => {
                    errors.push("servers holds credentials: write them under auth".to_owned());
                }
                Ok(_) => {}
                // The text may hold a password.
                Err(_) => {
                    errors.push("servers holds an address that is not like nats://host:4222".to_owned())
                }
            }
        }
        for (key, name) in [
            ("dlq_stream", &self.dlq_stream),
            ("advisory_stream", &self.advisory_stream),
            ("metrics_stream", &self.metrics_stream),
        ] {
            if !is_token(name) {
                errors.push(format!("{key} {name:?} is not a stream name: no spaces, dots, *, >, / or \\"));
            }
        }
        if !(1..=5).contains(&self.replicas) {
            errors.push(format!("replicas must be from 1 to 5, not {}", self.replicas));
        }
        let floor = limits::RETENTION_FLOOR_MS.unsigned_abs();
        if self.max_age_ms < floor {
            errors.push(format!(
                "dlq_max_age must be at least {} days: dead letters that are not captured yet are kept that long",
                floor / 86_400_000
            ));
        }
        if self.duplicate_window_ms < 100 || self.duplicate_window_ms > self.max_age_ms {
            errors.push("duplicate_window must be at least 100 ms and at most dlq_max_age".to_owned());
        }
        if self.ack_wait_ms < 1_000 || self.request_ms_max == 0 {
            errors.push("ack_wait must be at least 1 s".to_owned());
        }
        errors.extend(self.consumers.iter().filter_map(WatchedConsumer::error));
        match errors.is_empty() {
            true => Ok(()),
            false => Err(SourceError::Unfit(errors.join("; "))),
        }
    }
}

impl WatchedConsumer {
    fn error(&self) -> Option<String> {
        let WatchedConsumer { stream, consumer, max_deliver, backoff_ms } = self;
        let name = format!("{stream}.{consumer}");
        if !is_token(stream) || !is_token(consumer) {
            return Some(format!("{name:?} does not name a stream and a consumer"));
        }
        if *max_deliver == 0 || *max_deliver as usize > limits::ATTEMPTS_MAX {
            return Some(format!("max_deliver of {name} must be from 1 to {}", limits::ATTEMPTS_MAX));
        }
        if backoff_ms.len() >= *max_deliver as usize && !backoff_ms.is_empty() {
            return Some(format!(
                "backoff of {name} must have fewer entries than max_deliver ({max_deliver})"
            ));
        }
        if backoff_ms.iter().any(|ms| !(1..=limits::RETRY_DELAY_MS_MAX).contains(ms)) {
            return Some(format!("backoff of {name} must be from 1 ms to a year each"));
        }
        None
    }
}

/// Returns true if the server accepts the name for a stream or consumer.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.contains(['.', '*', '>', '/', '\\'])
        && !name.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn durable_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> JetStreamConfig {
        JetStreamConfig::new("orders", ["nats://127.0.0.1:4222".to_owned()])
    }

    #[test]
    fn the_defaults_are_sound_and_no_credential_is_shown() {
        assert_eq!(config().check(), Ok(()));
        let auths = [
            Auth::Token(Secret::new("hunter2")),
            Auth::User { user: "app".to_owned(), password: Secret::new("hunter2") },
            Auth::Nkey(Secret::new("hunter2")),
        ];
        for auth in auths {
            assert!(!format!("{:?}", JetStreamConfig { auth, ..config() }).contains("hunter2"));
        }
    }

    #[test]
    fn the_default_policy_waits_exponentially_and_fits_old_servers() {
        let watched = WatchedConsumer::new("ORDERS", "worker");
        assert_eq!((watched.max_deliver, watched.backoff_ms), (5, vec![1_000, 2_000, 4_000, 8_000]));
    }

    #[test]
    fn everything_that_is_wrong_is_told_without_credentials() {
        let mut config = config();
        config.servers = vec!["nats://app:hunter2@h:4222".to_owned(), "nats://:::hunter2".to_owned()];
        config.dlq_stream = "D.Q".to_owned();
        (config.max_age_ms, config.replicas) = (86_400_000, 9);
        let mut consumer = WatchedConsumer::new("ORDERS", "worker");
        consumer.backoff_ms = vec![1_000; 5];
        config.consumers = vec![consumer, WatchedConsumer::new("OR DERS", "worker")];
        let why = config.check().unwrap_err().to_string();
        for told in [
            "write them under auth",
            "not like nats://host:4222",
            "dlq_stream \"D.Q\"",
            "replicas must be",
            "at least 90 days",
            "fewer entries than max_deliver (5)",
            "\"OR DERS.worker\"",
        ] {
            assert!(why.contains(told), "{told}: {why}");
        }
        assert!(!why.contains("hunter2"), "{why}");
    }
}
