//! `[sources.<name>]` of the kind `rabbitmq`: a virtual host of a RabbitMQ broker whose dead-letter queues are captured.
//!
//! Credentials are shown masked, and no error repeats them.

use lazaret_core::limits;
use lazaret_sources::Secret;
use lazaret_sources::rabbitmq::{
    Auth, DeadLetterQueue, ManagementConfig, MessageField, RabbitMq, RabbitMqConfig, RedriveTo,
};
use serde::Serialize;

use super::check::{parse_scalar, parse_texts};
use super::jetstream::{MASK, ShownTls, shown_tls, tls};
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Place, Problems, quoted};
use super::schema::{Key, Shape, key};
use super::value;

/// Keys of a RabbitMQ source; some of them belong to other kinds as well.
pub(super) const KEYS: &[&str] = &[
    "servers",
    "auth",
    "tls",
    "vhost",
    "dead_letter_queues",
    "redrive_to",
    "restore_expiration",
    "prefetch",
    "receipts_queue",
    "apply_at_start",
    "quiet_window",
    "management",
    "aggregate",
    "schema_version",
    "tenant",
];

pub(super) const DEAD_LETTER_QUEUES: &[Key] =
    &[key("queue", Shape::Text), key("original_queue", Shape::Text), key("service", Shape::Text)];

pub(super) const MANAGEMENT: &[Key] = &[key("url", Shape::Text)];

/// The longest quiet window: a day.
const QUIET_MS_MAX: u64 = 86_400_000;

/// Ways to authenticate that JetStream has and RabbitMQ does not.
const FOREIGN_AUTH: [&str; 3] = ["token", "nkey_seed", "credentials_file"];

/// Reads what is set for the source `name`. Nothing if something of it is bad, which is reported.
pub(super) fn check(
    name: &str,
    place: &Place,
    settings: &Settings,
    problems: &mut Problems,
) -> Option<RabbitMqConfig> {
    let path = format!("sources.{name}");
    let at = |key: &str| format!("{path}.{key}");
    let known = problems.count();
    let servers = parse_texts(settings, &at("servers"), &at("servers"), value::filled, problems);
    let mut config = RabbitMqConfig::new(name, servers);
    let mut text = |key: &str| parse_scalar(settings, &at(key), &at(key), value::filled, problems);
    config.vhost = text("vhost").unwrap_or(config.vhost);
    config.receipts_queue = text("receipts_queue").unwrap_or(config.receipts_queue);
    config.management = text("management.url").map(|url| ManagementConfig { url });
    let mut flag = |key: &str| parse_scalar(settings, &at(key), &at(key), value::flag, problems);
    config.apply_at_start = flag("apply_at_start").unwrap_or(config.apply_at_start);
    config.restore_expiration = flag("restore_expiration").unwrap_or(config.restore_expiration);
    let mut field = |key: &str| parse_scalar(settings, &at(key), &at(key), MessageField::parse, problems);
    config.aggregate = field("aggregate");
    config.schema_version = field("schema_version");
    config.tenant = field("tenant").or(config.tenant);
    let quiet = |text: &str| value::length_ms(text, QUIET_MS_MAX);
    let quiet = parse_scalar(settings, &at("quiet_window"), &at("quiet_window"), quiet, problems);
    config.quiet_ms = quiet.unwrap_or(config.quiet_ms);
    let prefetch = |text: &str| value::count(text, 1..=u64::from(limits::RABBITMQ_PREFETCH_MAX));
    if let Some(count) = parse_scalar(settings, &at("prefetch"), &at("prefetch"), prefetch, problems) {
        config.prefetch = u16::try_from(count).unwrap_or(u16::MAX);
    }
    let redrive_to = parse_scalar(settings, &at("redrive_to"), &at("redrive_to"), redrive_to, problems);
    config.redrive_to = redrive_to.unwrap_or_default();
    config.auth = auth(&at("auth"), settings, problems).unwrap_or(config.auth);
    config.tls = tls(&at("tls"), settings, problems);
    if let Some(Setting { given: Given::Entries(entries), .. }) = settings.get(&at("dead_letter_queues")) {
        config.queues = entries.iter().filter_map(|entry| queue(entry, problems)).collect();
    }
    if problems.count() > known {
        return None;
    }
    // What else can be wrong is known to the source itself.
    if let Err(unfit) = RabbitMq::new(config.clone()) {
        problems.add(place.clone(), &path, unfit.to_string());
        return None;
    }
    Some(config)
}

fn redrive_to(text: &str) -> Result<RedriveTo, String> {
    let known = RedriveTo::ALL.map(RedriveTo::name).join(" or ");
    RedriveTo::parse(text).ok_or_else(|| format!("{} is not known; write {known}", quoted(text)))
}

/// User and password, or the client's certificate; nothing where neither is set.
fn auth(path: &str, settings: &Settings, problems: &mut Problems) -> Option<Auth> {
    for key in FOREIGN_AUTH {
        if let Some(setting) = settings.get(&format!("{path}.{key}")) {
            let message =
                "RabbitMQ authenticates by user and password, or by a client certificate".to_owned();
            problems.add(setting.place.clone(), &format!("{path}.{key}"), message);
        }
    }
    let inside = format!("{path}.");
    let first = settings.iter().find(|(key, _)| key.starts_with(&inside));
    let place = first.map(|(_, setting)| setting.place.clone())?;
    let at = |key: &str| format!("{path}.{key}");
    let external = parse_scalar(settings, &at("external"), &at("external"), value::flag, problems);
    let mut text = |key: &str| parse_scalar(settings, &at(key), &at(key), value::filled, problems);
    match (external.unwrap_or(false), text("user"), text("password")) {
        (true, None, None) => Some(Auth::External),
        (false, Some(user), Some(password)) => Some(Auth::User { user, password: Secret::new(password) }),
        (false, None, None) => None,
        (true, _, _) => {
            problems.add(place, path, "external stands for user and password: set one of the two".to_owned());
            None
        }
        (false, _, _) => {
            problems.add(place, path, "user and password belong together".to_owned());
            None
        }
    }
}

fn queue(entry: &Entry, problems: &mut Problems) -> Option<DeadLetterQueue> {
    if !entry.settings.contains_key("queue") {
        problems.add(entry.place.clone(), &entry.path, "queue is missing".to_owned());
    }
    let mut text = |key: &str| {
        parse_scalar(&entry.settings, key, &format!("{}.{key}", entry.path), value::filled, problems)
    };
    let (queue, original_queue, service) = (text("queue"), text("original_queue"), text("service"));
    Some(DeadLetterQueue { queue: queue?, original_queue, service })
}

/// The password of a source: only to compare.
pub(super) fn secret(config: &RabbitMqConfig) -> Option<(&'static str, &str)> {
    match &config.auth {
        Auth::User { password, .. } => Some(("password", password.reveal())),
        Auth::External => None,
    }
}

/// As it is written to a file, beside what all sources have.
#[derive(Serialize)]
pub(super) struct ShownRabbitMq {
    servers: Vec<String>,
    vhost: String,
    redrive_to: &'static str,
    restore_expiration: bool,
    prefetch: u16,
    receipts_queue: String,
    apply_at_start: bool,
    quiet_window: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    auth: ShownAuth,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<ShownTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<ShownManagement>,
    dead_letter_queues: Vec<ShownQueue>,
}

#[derive(Serialize, Default)]
struct ShownAuth {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<bool>,
}

#[derive(Serialize)]
struct ShownManagement {
    url: String,
}

#[derive(Serialize)]
struct ShownQueue {
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
}

pub(super) fn shown(config: &RabbitMqConfig) -> ShownRabbitMq {
    let field = |field: &Option<MessageField>| field.as_ref().map(|field| field.text().to_owned());
    let none = ShownAuth::default();
    let auth = match &config.auth {
        Auth::User { user, .. } => ShownAuth { user: Some(user.clone()), password: Some(MASK), ..none },
        Auth::External => ShownAuth { external: Some(true), ..none },
    };
    let queues = config.queues.iter().map(|queue| ShownQueue {
        queue: queue.queue.clone(),
        original_queue: queue.original_queue.clone(),
        service: queue.service.clone(),
    });
    ShownRabbitMq {
        servers: config.servers.clone(),
        vhost: config.vhost.clone(),
        redrive_to: config.redrive_to.name(),
        restore_expiration: config.restore_expiration,
        prefetch: config.prefetch,
        receipts_queue: config.receipts_queue.clone(),
        apply_at_start: config.apply_at_start,
        quiet_window: value::length_text(config.quiet_ms),
        aggregate: field(&config.aggregate),
        schema_version: field(&config.schema_version),
        tenant: field(&config.tenant),
        auth,
        tls: shown_tls(&config.tls),
        management: config.management.as_ref().map(|it| ShownManagement { url: it.url.clone() }),
        dead_letter_queues: queues.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    const SOURCE: &str = "[sources.shop]\nkind = 'rabbitmq'\nservers = ['amqp://127.0.0.1:5672']\n";
    const QUEUE: &str = "[[sources.shop.dead_letter_queues]]\nqueue = 'orders-dlq'\n";

    #[track_caller]
    fn refused(text: &str) -> String {
        let problems = load_text(text).unwrap_err().to_string();
        assert!(!problems.contains("hunter2"), "{problems}");
        problems
    }

    #[test]
    fn everything_that_is_set_is_read() {
        let text = format!(
            "{SOURCE}vhost = 'shop'\nredrive_to = 'exchange'\nrestore_expiration = true\nprefetch = 50\n\
             receipts_queue = 'receipts'\napply_at_start = false\nquiet_window = '90s'\naggregate = 'x-order'\n\
             schema_version = '$.version'\ntenant = '$.tenant.id'\nauth = {{ user = 'app', password = 'hunter2' }}\n\
             management = {{ url = 'http://127.0.0.1:15672' }}\n{QUEUE}original_queue = 'orders'\nservice = 'billing'\n"
        );
        let config = load_text(&text).unwrap();
        let read = config.sources["shop"].rabbitmq.as_ref().unwrap();
        assert_eq!((read.vhost.as_str(), read.redrive_to, read.prefetch), ("shop", RedriveTo::Exchange, 50));
        assert_eq!((read.restore_expiration, read.apply_at_start, read.quiet_ms), (true, false, 90_000));
        assert_eq!(read.receipts_queue, "receipts");
        assert_eq!(read.aggregate, Some(MessageField::Header("x-order".to_owned())));
        assert_eq!(read.tenant.as_ref().map(MessageField::text), Some("$.tenant.id"));
        assert_eq!(read.queues[0].original_queue.as_deref(), Some("orders"));
        assert_eq!(secret(read), Some(("password", "hunter2")));
        let shown = serde_json::to_value(shown(read)).unwrap();
        assert_eq!((&shown["auth"]["password"], &shown["quiet_window"]), (&MASK.into(), &"PT1M30S".into()));
    }

    #[test]
    fn only_a_management_api_is_enough_to_find_queues() {
        assert!(refused(SOURCE).contains("dead_letter_queues is empty"));
        assert!(load_text(&format!("{SOURCE}management = {{ url = 'http://127.0.0.1:15672' }}\n")).is_ok());
    }

    #[test]
    fn bad_settings_say_what_was_expected() {
        for (setting, expected) in [
            ("redrive_to = 'topic'", "write queue or exchange"),
            ("prefetch = 0", "prefetch"),
            ("aggregate = '$.a[?@.b]'", "is not a JSON path"),
            ("auth = { user = 'app' }", "user and password belong together"),
            ("auth = { user = 'app', password = 'hunter2', external = true }", "set one of the two"),
            ("auth = { token = 'hunter2' }", "authenticates by user and password"),
            ("auth = { external = true }", "needs a client certificate"),
            ("dlq_stream = 'DLQ'", "a source of the kind rabbitmq has no dlq_stream"),
            ("management = { url = 'http://app:hunter2@h' }", "write them under auth"),
        ] {
            let problems = refused(&format!("{SOURCE}{setting}\n{QUEUE}"));
            assert!(problems.contains(expected), "{setting}: {problems}");
        }
        let other = "[sources.nats]\nkind = 'jetstream'\nservers = ['nats://h']\n";
        assert!(
            refused(&format!("{other}vhost = '/'\n")).contains("a source of the kind jetstream has no vhost")
        );
        assert!(refused(&format!("{other}auth = {{ external = true }}\n")).contains("has no external"));
        assert!(
            refused(&format!("{SOURCE}{QUEUE}[[sources.shop.dead_letter_queues]]\n"))
                .contains("queue is missing")
        );
    }
}
