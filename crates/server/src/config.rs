//! What an operator can set, from `lazaret.toml`, the environment and flags, checked whole before anything starts.
//!
//! A flag beats the environment, which beats the file, which beats the default. Every mistake is reported at once and
//! none is passed over: a key that is silently ignored is found in production. The value of `store`, the address of a
//! destination and its secret may be credentials and must never reach an error.

mod alerts;
mod archive;
mod check;
mod destination;
mod environment;
mod event_path;
mod grouping;
mod jetstream;
mod jobs;
mod layer;
mod outbox;
mod problem;
mod rabbitmq;
mod redaction;
mod redrive;
mod replay;
mod retention;
mod retry;
mod schema;
mod show;
mod store_url;
mod value;

#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use lazaret_core::class::{self, ClassRules, Conditions, EmptyRule, ErrorClass};
use lazaret_core::fingerprint::{FingerprintRule, FingerprintRules};
use lazaret_core::limits;
use lazaret_core::redaction::Redactor;
use lazaret_core::replay::ReplayRule;
use lazaret_core::retention::Retention;

pub use alerts::{AlertsConfig, Credential, ReceiverConfig, ReceiverKind, SmtpTls, WebhookFormat};
pub use archive::{ArchiveConfig, ArchiveUrl, Cloud};
pub(crate) use check::REQUEST_MS_CEILING;
pub use destination::{DestinationConfig, DestinationUrl, Secret, Success};
pub use event_path::{BadEventPath, EventPath};
pub use jobs::JobsConfig;
pub use lazaret_core::gate::Governance;
pub use lazaret_sources::jetstream::JetStreamConfig;
pub use lazaret_sources::rabbitmq::RabbitMqConfig;
pub use outbox::OutboxSource;
pub use problem::{Checked, ConfigError, ConfigProblem, Severity};
pub use redaction::RedactionConfig;
pub use redrive::RedriveConfig;
pub use retention::QueueConfig;
pub use store_url::{PostgresUrl, StoreUrl};

use layer::{Given, Setting, Settings};
use problem::{Place, Problems};

/// The file that is read when none is named, if it is there.
pub const DEFAULT_FILE: &str = "lazaret.toml";

/// The source that letters belong to when a reporter names none.
pub const REPORT_SOURCE: &str = "report";

/// The configuration in effect. What `load` returns has passed every check.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// `HOST:PORT`; port 0 picks a free one.
    pub listen: String,
    /// The data folder; relative to where the server was started.
    pub data: PathBuf,
    pub store: StoreUrl,
    /// Values of the `Host` header that are served beside loopback, in lower case, with or without a port.
    pub allowed_hosts: Vec<String>,
    pub log: LogConfig,
    pub limits: LimitsConfig,
    /// In the order in which they are tried.
    pub class_rules: Vec<ClassRule>,
    /// In the order in which they are tried.
    pub fingerprint_rules: Vec<FingerprintRule>,
    /// In the order in which they are tried.
    pub replay_rules: Vec<ReplayRule>,
    pub fingerprint: FingerprintConfig,
    pub search: SearchConfig,
    pub events: EventsConfig,
    pub audit: AuditConfig,
    pub redaction: RedactionConfig,
    pub archive: ArchiveConfig,
    pub jobs: JobsConfig,
    pub alerts: AlertsConfig,
    pub redrive: RedriveConfig,
    /// What holds for letters of every source, unless the source or the queue says otherwise.
    pub retention: Retention,
    /// By name. `report` is always there.
    pub sources: BTreeMap<String, SourceConfig>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A level, or directives such as `info,lazaret_store=debug`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

/// The limits that an operator may move; their reasons are in `lazaret_core::limits`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitsConfig {
    pub body_bytes_max: usize,
    pub entry_bytes_max: usize,
    pub ndjson_bytes_max: usize,
    pub request_ms_max: u64,
    pub body_pause_ms_max: u64,
    pub connections_max: usize,
}

/// One of the operator's class rules, as it was written and as it is applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassRule {
    written: Conditions,
    rule: class::ClassRule,
}

/// Whose code a frame of a backtrace is, by the beginning of its name or path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FingerprintConfig {
    pub in_app: Vec<String>,
    pub library: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchConfig {
    /// Whether bodies are put into an index behind capture.
    pub bodies: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsConfig {
    /// How many events are kept.
    pub keep: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditConfig {
    /// The key that entries of the audit log are linked with; see `Config::audit_key_file`.
    pub key_file: Option<PathBuf>,
}

/// Where letters come from, and what is read out of their original events.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceConfig {
    pub kind: SourceKind,
    /// Gives the order key; without it letters of this source have none.
    pub aggregate: Option<EventPath>,
    pub tenant: EventPath,
    pub queue: String,
    /// Whether its letters are put back only under an analysis.
    pub governance: Governance,
    /// Where its letters go back to.
    pub destination: Option<DestinationConfig>,
    /// Where letters of these subscribers go instead, by the name that letters give them.
    pub subscribers: BTreeMap<String, DestinationConfig>,
    /// How long its letters stay.
    pub retention: Retention,
    /// What is set for single queues, by the name that letters give them.
    pub queues: BTreeMap<String, QueueConfig>,
    /// The table, if it is one.
    pub outbox: Option<OutboxSource>,
    /// The account of a NATS server, if it is one.
    pub jetstream: Option<JetStreamConfig>,
    /// The virtual host of a RabbitMQ broker, if it is one.
    pub rabbitmq: Option<RabbitMqConfig>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// Entries that any program sends to `POST /api/v1/dead-letters`.
    Report,
    /// A table in an application's PostgreSQL.
    Outbox,
    /// Exhausted messages of NATS JetStream.
    JetStream,
    /// Dead-letter queues of RabbitMQ.
    RabbitMq,
}

/// Where an event names its tenant unless a source says otherwise.
pub(crate) const TENANT_PATH: &str = "$.metadata.tenantId";

/// What was given on the command line.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    pub listen: Option<String>,
    pub data: Option<PathBuf>,
    pub store: Option<String>,
}

/// The store's address may hold a password, and here it was not looked at yet.
impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides")
            .field("listen", &self.listen)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

/// Reads the file (`lazaret.toml` if it exists, when none is named), the `LAZARET_*` variables and the flags.
///
/// A value that is beaten by another is not checked beyond its type.
pub fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    overrides: Overrides,
) -> Result<Config, ConfigError> {
    check(file, env, overrides).config
}

/// Reads the configuration as `load` does, and tells besides what looks wrong although the server starts with it.
pub fn check(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    overrides: Overrides,
) -> Checked {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let mut problems = Problems::default();
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if file.is_none() && error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            problems.add_with_hint(Place::File, "", format!("cannot be read: {error}"), FILE_HINT);
            String::new()
        }
    };
    let from_file = layer::read_document(&text, &mut problems);
    let from_env = environment::read(env, &mut problems);
    // Without the file's part the rest would be accused of what the file may well have set.
    let config = from_file.map(|mut settings| {
        settings.extend(from_env);
        settings.extend(from_flags(&overrides));
        let mut config = check::check(&settings, &mut problems);
        if let Some(data) = overrides.data {
            if data.as_os_str().is_empty() {
                problems.add(Place::Flag("--data"), "data", "is empty".to_owned());
            }
            config.data = data;
        }
        config
    });
    problems.or_config(config, path, &text)
}

const FILE_HINT: &str =
    "give a readable TOML file to --config, or none to use ./lazaret.toml or the defaults";

fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limits::CONFIG_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::CONFIG_FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let after = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 text after byte {after}"))
    })
}

/// The folder is not among them: a path need not be text.
fn from_flags(overrides: &Overrides) -> Settings {
    let flags = [("listen", "--listen", &overrides.listen), ("store", "--store", &overrides.store)];
    let mut settings = Settings::new();
    for (key, flag, value) in flags {
        if let Some(text) = value {
            let setting = Setting { given: Given::Scalar(text.clone()), place: Place::Flag(flag) };
            settings.insert(key.to_owned(), setting);
        }
    }
    settings
}

impl Config {
    /// The rules ready to classify with.
    pub fn classes(&self) -> ClassRules {
        ClassRules::new(self.class_rules.iter().map(|written| written.rule.clone()).collect())
    }

    /// The rules ready to group with.
    pub fn groups(&self) -> FingerprintRules {
        let FingerprintConfig { in_app, library } = self.fingerprint.clone();
        FingerprintRules::new(self.fingerprint_rules.clone(), in_app, library)
    }

    /// The rules ready to mask with.
    pub fn redactor(&self) -> Redactor {
        self.redaction.redactor()
    }

    /// The values that are masked where they are shown, by key: only to compare.
    pub(crate) fn secrets(&self) -> BTreeMap<String, &str> {
        let mut secrets = BTreeMap::new();
        if let StoreUrl::Postgres(url) = &self.store {
            secrets.insert("store".to_owned(), url.secret());
        }
        for (name, source) in &self.sources {
            let own = source.destination.iter().map(|it| (format!("sources.{name}.destination"), it));
            let subscribers =
                source.subscribers.iter().map(|(id, it)| (format!("sources.{name}.subscribers.{id}"), it));
            let outbox = source.outbox.iter();
            let sink = outbox.clone().filter_map(|it| it.sink.as_ref());
            let sink = sink.map(|it| (format!("sources.{name}.relay.sink"), it));
            secrets.extend(outbox.map(|it| (format!("sources.{name}.url"), it.url.secret())));
            let broker = source.jetstream.as_ref().and_then(jetstream::secret);
            let broker = broker.or_else(|| source.rabbitmq.as_ref().and_then(rabbitmq::secret));
            secrets.extend(broker.map(|(key, secret)| (format!("sources.{name}.auth.{key}"), secret)));
            for (path, destination) in own.chain(subscribers).chain(sink) {
                secrets.insert(format!("{path}.url"), destination.url.secret().as_str());
                if let Some(secret) = &destination.secret {
                    secrets.insert(format!("{path}.secret"), secret.reveal());
                }
            }
        }
        secrets.extend(self.alerts.secrets());
        secrets
    }

    /// Where letters are kept, for people: the folder or the database, without credentials.
    pub fn kept_in(&self) -> String {
        match &self.store {
            StoreUrl::Embedded => self.data.display().to_string(),
            StoreUrl::Postgres(url) => url.to_string(),
        }
    }

    /// The flag that names this kind of store to a command, with a placeholder: paths and addresses are not for strangers.
    pub(crate) fn store_flag(&self) -> &'static str {
        match &self.store {
            StoreUrl::Embedded => "--data DIR",
            StoreUrl::Postgres(_) => "--store URL",
        }
    }

    /// Where the key of the audit log is: beside an embedded store unless said otherwise. A shared store has none by itself,
    /// because every server needs the same.
    pub fn audit_key_file(&self) -> Option<PathBuf> {
        match (&self.audit.key_file, &self.store) {
            (Some(path), _) => Some(path.clone()),
            (None, StoreUrl::Embedded) => Some(self.data.join("audit.key")),
            (None, StoreUrl::Postgres(_)) => None,
        }
    }

    /// Where files of the archive go: below an embedded store's data unless said otherwise. A shared store has no place by
    /// itself, because every server needs the same.
    pub fn archive_url(&self) -> Option<ArchiveUrl> {
        match (&self.archive.url, &self.store) {
            (Some(url), _) => Some(url.clone()),
            (None, StoreUrl::Embedded) => Some(ArchiveUrl::Folder(self.data.join("archive"))),
            (None, StoreUrl::Postgres(_)) => None,
        }
    }

    /// The configuration in effect as a file that loads to the same, but for credentials: they are masked.
    pub fn to_toml(&self) -> String {
        show::to_toml(self)
    }
}

impl Default for Config {
    fn default() -> Config {
        let report = SourceConfig::new(REPORT_SOURCE, SourceKind::Report);
        Config {
            listen: "127.0.0.1:7070".to_owned(),
            data: PathBuf::from("./lazaret-data"),
            store: StoreUrl::Embedded,
            allowed_hosts: Vec::new(),
            log: LogConfig { level: "info".to_owned(), format: LogFormat::Text },
            limits: LimitsConfig::default(),
            class_rules: Vec::new(),
            fingerprint_rules: Vec::new(),
            replay_rules: Vec::new(),
            fingerprint: FingerprintConfig::default(),
            search: SearchConfig { bodies: true },
            events: EventsConfig { keep: limits::EVENTS_KEPT },
            audit: AuditConfig::default(),
            redaction: RedactionConfig::default(),
            archive: ArchiveConfig::default(),
            jobs: JobsConfig::default(),
            alerts: AlertsConfig::default(),
            redrive: RedriveConfig::default(),
            retention: Retention::default(),
            sources: BTreeMap::from([(REPORT_SOURCE.to_owned(), report)]),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            body_bytes_max: limits::BODY_BYTES_MAX,
            entry_bytes_max: limits::ENTRY_BYTES_MAX,
            ndjson_bytes_max: limits::NDJSON_BYTES_MAX,
            request_ms_max: limits::REQUEST_MS_MAX,
            body_pause_ms_max: limits::BODY_PAUSE_MS_MAX,
            connections_max: limits::CONNECTIONS_MAX,
        }
    }
}

impl SourceConfig {
    /// A source about which nothing else is set.
    pub fn new(name: &str, kind: SourceKind) -> SourceConfig {
        let tenant = EventPath::parse(TENANT_PATH).expect("this path is one of names");
        SourceConfig {
            kind,
            aggregate: None,
            tenant,
            queue: name.to_owned(),
            governance: Governance::Required,
            destination: None,
            subscribers: BTreeMap::new(),
            retention: Retention::default(),
            queues: BTreeMap::new(),
            outbox: None,
            jetstream: None,
            rabbitmq: None,
        }
    }
}

impl ClassRule {
    pub fn new(when: Conditions, class: ErrorClass) -> Result<ClassRule, EmptyRule> {
        let rule = class::ClassRule::new(when.clone(), class)?;
        Ok(ClassRule { written: when, rule })
    }

    /// When it applies, as it was written.
    pub fn when(&self) -> &Conditions {
        &self.written
    }

    pub fn class(&self) -> ErrorClass {
        self.rule.class()
    }
}

impl LogFormat {
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl SourceKind {
    pub const ALL: [SourceKind; 4] =
        [SourceKind::Report, SourceKind::Outbox, SourceKind::JetStream, SourceKind::RabbitMq];

    pub const fn name(self) -> &'static str {
        match self {
            SourceKind::Report => "report",
            SourceKind::Outbox => "outbox",
            SourceKind::JetStream => "jetstream",
            SourceKind::RabbitMq => "rabbitmq",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            SourceKind::Report => "report",
            SourceKind::Outbox => "outbox",
            SourceKind::JetStream => "JetStream",
            SourceKind::RabbitMq => "RabbitMQ",
        }
    }
}
