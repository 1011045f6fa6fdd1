//! What a RabbitMQ source is configured with. Credentials are in it: none of them is ever shown.

use std::fmt;

use lapin::uri::{AMQPScheme, AMQPUri};
use lazaret_core::broker::rabbitmq;
use lazaret_core::json_path::Query;
use lazaret_core::limits;
use lazaret_core::retry::Preset;

use crate::{Secret, SourceError, Tls};

/// Where a message's tenant is unless something else is configured.
pub const TENANT_PATH: &str = "$.tenantId";

/// One virtual host of a RabbitMQ broker as a source of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RabbitMqConfig {
    pub name: String,
    /// Addresses such as `amqp://host:5672` or `amqps://host:5671`, without credentials and virtual host; tried in order.
    pub servers: Vec<String>,
    pub vhost: String,
    pub auth: Auth,
    pub tls: Tls,
    pub queues: Vec<DeadLetterQueue>,
    pub redrive_to: RedriveTo,
    /// Whether a redriven message gets the `expiration` that it was published with.
    pub restore_expiration: bool,
    /// Messages of one queue that may be out unacknowledged.
    pub prefetch: u16,
    /// The queue that workers publish receipts to.
    pub receipts_queue: String,
    /// Whether missing queues are declared when the source starts.
    pub apply_at_start: bool,
    /// How long a message that was taken must not die again to be taken for a success.
    pub quiet_ms: u64,
    pub management: Option<ManagementConfig>,
    /// Where the order key, the schema version and the tenant are.
    pub aggregate: Option<MessageField>,
    pub schema_version: Option<MessageField>,
    pub tenant: Option<MessageField>,
    pub request_ms_max: u64,
}

/// How the connection is authenticated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Auth {
    User {
        user: String,
        password: Secret,
    },
    /// By the client's certificate (SASL EXTERNAL).
    External,
}

/// A queue that letters are captured from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetterQueue {
    pub queue: String,
    /// The queue that its messages died in, for messages that do not say so themselves.
    pub original_queue: Option<String>,
    /// The service that consumes the original queue, for messages that do not say so themselves.
    pub service: Option<String>,
}

/// Where a letter goes back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RedriveTo {
    /// The queue that it died in, through the default exchange: nobody else gets it.
    #[default]
    Queue,
    /// The exchange and routing key that it was published with: every queue that is bound there gets it.
    Exchange,
}

/// The management API of the broker. It is asked with the credentials of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagementConfig {
    /// Such as `http://host:15672`, without credentials.
    pub url: String,
}

/// Where a value of a message is.
#[derive(Clone, PartialEq, Eq)]
pub enum MessageField {
    Header(String),
    /// In a body that is JSON.
    Body(Query),
}

impl MessageField {
    /// A text that begins with `$` is a JSON path into the body (names, indexes, `*` and one `..`), any other the name of a
    /// header.
    pub fn parse(text: &str) -> Result<MessageField, String> {
        if !text.starts_with('$') {
            return match text.is_empty() || text.len() > limits::RABBITMQ_NAME_BYTES_MAX {
                true => Err("a header name has from 1 to 255 bytes".to_owned()),
                false => Ok(MessageField::Header(text.to_owned())),
            };
        }
        let query = Query::parse(text).ok().filter(|query| query.extra().is_none() && !query.is_root());
        match query.filter(|_| text.len() <= limits::EVENT_PATH_BYTES_MAX) {
            Some(query) => Ok(MessageField::Body(query)),
            None => Err(format!(
                "{text:?} is not a JSON path of names, indexes, * and one ..; write it like $.order.id, or name a header"
            )),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            MessageField::Header(name) => name,
            MessageField::Body(query) => query.text(),
        }
    }
}

impl fmt::Debug for MessageField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl RedriveTo {
    pub const ALL: [RedriveTo; 2] = [RedriveTo::Queue, RedriveTo::Exchange];

    pub const fn name(self) -> &'static str {
        match self {
            RedriveTo::Queue => "queue",
            RedriveTo::Exchange => "exchange",
        }
    }

    pub fn parse(text: &str) -> Option<RedriveTo> {
        RedriveTo::ALL.into_iter().find(|to| to.name() == text)
    }
}

impl DeadLetterQueue {
    pub fn new(queue: impl Into<String>) -> DeadLetterQueue {
        DeadLetterQueue { queue: queue.into(), original_queue: None, service: None }
    }

    /// The service whose name the queue has, `<service>-dlq`.
    pub(super) fn service_by_name(&self) -> Option<&str> {
        self.queue.strip_suffix("-dlq").filter(|service| !service.is_empty())
    }
}

impl RabbitMqConfig {
    pub fn new(name: impl Into<String>, servers: impl IntoIterator<Item = String>) -> RabbitMqConfig {
        RabbitMqConfig {
            name: name.into(),
            servers: servers.into_iter().collect(),
            vhost: "/".to_owned(),
            // What a fresh broker has; it takes it from its own machine only.
            auth: Auth::User { user: "guest".to_owned(), password: Secret::new("guest") },
            tls: Tls::default(),
            queues: Vec::new(),
            redrive_to: RedriveTo::Queue,
            restore_expiration: false,
            prefetch: limits::RABBITMQ_PREFETCH,
            receipts_queue: rabbitmq::RECEIPTS_QUEUE.to_owned(),
            apply_at_start: true,
            quiet_ms: Preset::Rabbitmq.policy().total_ms_max(),
            management: None,
            aggregate: None,
            schema_version: None,
            tenant: MessageField::parse(TENANT_PATH).ok(),
            request_ms_max: limits::RABBITMQ_REQUEST_MS_MAX,
        }
    }

    /// Says everything that is wrong and can be known without a connection.
    pub fn check(&self) -> Result<(), SourceError> {
        let mut wrong = Vec::new();
        if self.servers.is_empty() {
            wrong.push("servers is empty: name at least one, such as amqp://127.0.0.1:5672".to_owned());
        }
        let addresses: Vec<_> = self.servers.iter().map(|server| address(server)).collect();
        // Each problem once, whatever the number of servers.
        for (index, address) in addresses.iter().enumerate() {
            if let Err(why) = address
                && !addresses.iter().take(index).any(|it| it.as_ref().err() == Some(why))
            {
                wrong.push((*why).to_owned());
            }
        }
        let is_plain = |it: &Result<AMQPUri, _>| it.as_ref().is_ok_and(|it| it.scheme == AMQPScheme::AMQP);
        if addresses.iter().any(is_plain) {
            if self.tls.is_required {
                wrong.push("tls is required: servers must begin with amqps://".to_owned());
            } else if self.tls != Tls::default() {
                wrong.push("tls is set: servers must begin with amqps://".to_owned());
            }
        }
        if self.auth == Auth::External && self.tls.client.is_none() {
            wrong.push("auth external needs a client certificate under tls".to_owned());
        }
        if self.queues.is_empty() && self.management.is_none() {
            wrong.push(
                "dead_letter_queues is empty: name at least one, or set management.url to find some"
                    .to_owned(),
            );
        }
        wrong.extend(self.wrong_queues());
        if !(1..=limits::RABBITMQ_PREFETCH_MAX).contains(&self.prefetch) {
            wrong.push(format!(
                "prefetch must be from 1 to {}, not {}",
                limits::RABBITMQ_PREFETCH_MAX,
                self.prefetch
            ));
        }
        if self.quiet_ms < 1_000 || self.request_ms_max == 0 {
            wrong.push("the quiet window must be at least 1 s".to_owned());
        }
        wrong.extend(self.management.as_ref().and_then(ManagementConfig::wrong).map(str::to_owned));
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(SourceError::Unfit(wrong.join("; "))),
        }
    }

    fn wrong_queues(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.queues.len() > limits::RABBITMQ_QUEUES_MAX {
            wrong.push(format!("queues has more than {} entries", limits::RABBITMQ_QUEUES_MAX));
        }
        if self.vhost.is_empty() || self.vhost.len() > limits::RABBITMQ_NAME_BYTES_MAX {
            wrong.push("vhost has from 1 to 255 bytes".to_owned());
        }
        let dead_letters = self.queues.iter().map(|it| &it.queue);
        let originals = self.queues.iter().filter_map(|it| it.original_queue.as_ref());
        for name in dead_letters.chain(originals).chain([&self.receipts_queue]) {
            if name.is_empty() || name.len() > limits::RABBITMQ_NAME_BYTES_MAX {
                wrong.push(format!("{name:?} is not a queue name: it has from 1 to 255 bytes"));
            }
        }
        for (index, it) in self.queues.iter().enumerate() {
            let DeadLetterQueue { queue, original_queue, .. } = it;
            if self.queues.iter().take(index).any(|earlier| earlier.queue == *queue) {
                wrong.push(format!("queue {queue:?} is named twice"));
            }
            if original_queue.as_ref() == Some(queue) {
                wrong
                    .push(format!("queue {queue:?} is its own original queue: letters would never leave it"));
            }
            if *queue == self.receipts_queue {
                wrong.push(format!("queue {queue:?} is the receipts queue"));
            }
        }
        wrong
    }
}

impl ManagementConfig {
    fn wrong(&self) -> Option<&'static str> {
        let rest = self.url.strip_prefix("http://").or_else(|| self.url.strip_prefix("https://"));
        // The text may hold a password.
        match rest {
            None | Some("") => Some("management.url is not like http://host:15672"),
            Some(rest) if rest.contains('@') => {
                Some("management.url holds credentials: write them under auth")
            }
            Some(_) => None,
        }
    }
}

/// An address of `servers` without credentials. The text may hold a password, so no error repeats it.
pub(super) fn address(server: &str) -> Result<AMQPUri, &'static str> {
    const SHAPE: &str = "servers holds an address that is not like amqp://host:5672 or amqps://host:5671";
    let rest = server.strip_prefix("amqp://").or_else(|| server.strip_prefix("amqps://")).ok_or(SHAPE)?;
    if rest.contains('@') {
        return Err("servers holds credentials: write them under auth");
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() || host.contains(['?', '#']) {
        return Err("servers holds a virtual host or options: write the first under vhost, and no others");
    }
    let mut uri: AMQPUri = server.parse().map_err(|_| SHAPE)?;
    // The parser takes an IPv6 address for no host at all.
    if let Some((host, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        uri.authority.host = host.to_owned();
    }
    match host.is_empty() || host.starts_with(':') {
        true => Err(SHAPE),
        false => Ok(uri),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RabbitMqConfig {
        let mut config = RabbitMqConfig::new("orders", ["amqp://127.0.0.1:5672".to_owned()]);
        config.queues = vec![DeadLetterQueue::new("orders-dlq")];
        config
    }

    #[test]
    fn the_defaults_are_sound_and_no_credential_is_shown() {
        let mut config = config();
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.quiet_ms, 16_800);
        config.auth = Auth::User { user: "app".to_owned(), password: Secret::new("hunter2") };
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn everything_that_is_wrong_is_told_without_credentials() {
        let mut config = config();
        config.servers = [
            "amqp://app:hunter2@h",
            "nats://hunter2",
            "amqp://h/orders",
            "amqps://h?heartbeat=1",
            "amqp://",
            "amqp://:5672",
            "amqp://h:99999",
        ]
        .map(str::to_owned)
        .to_vec();
        let why = config.check().unwrap_err().to_string();
        for told in ["write them under auth", "not like amqp://host:5672", "under vhost"] {
            assert_eq!(why.matches(told).count(), 1, "{told}: {why}");
        }
        assert!(!why.contains("hunter2"), "{why}");
        config.servers = vec!["amqp://h:5672".to_owned()];
        config.tls.is_required = true;
        config.auth = Auth::External;
        config.vhost = String::new();
        config.queues = ["a", "a", "lazaret.receipts", ""].map(DeadLetterQueue::new).to_vec();
        config.queues[0].original_queue = Some("a".to_owned());
        (config.prefetch, config.quiet_ms) = (0, 10);
        config.management = Some(ManagementConfig { url: "http://app:hunter2@h".to_owned() });
        let why = config.check().unwrap_err().to_string();
        for told in [
            "must begin with amqps://",
            "needs a client certificate",
            "vhost has",
            "\"a\" is named twice",
            "its own original queue",
            "is the receipts queue",
            "\"\" is not a queue name",
            "prefetch must be from 1 to 5000",
            "quiet window",
            "management.url holds credentials",
        ] {
            assert!(why.contains(told), "{told}: {why}");
        }
        assert!(!why.contains("hunter2"), "{why}");
    }

    #[test]
    fn addresses_are_read_with_their_ports() {
        for (text, host, port) in
            [("amqp://h", "h", 5672), ("amqps://h/", "h", 5671), ("amqp://[::1]:5673", "::1", 5673)]
        {
            let uri = address(text).unwrap();
            assert_eq!((uri.authority.host.as_str(), uri.authority.port), (host, port));
        }
    }

    #[test]
    fn fields_are_headers_or_paths() {
        assert_eq!(MessageField::parse("x-order"), Ok(MessageField::Header("x-order".to_owned())));
        assert!(matches!(MessageField::parse("$.order.id"), Ok(MessageField::Body(_))));
        for wrong in ["", "$", "$.a[?@.b]", "$.a[1:2]", "$..a..b", "$."] {
            assert!(MessageField::parse(wrong).is_err(), "{wrong}");
        }
    }
}
