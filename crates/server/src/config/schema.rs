//! Every key there is, and the shape of its value. A new key is added here, in `check.rs`, `show.rs`, the example
//! file and the reference; tests fail where one is forgotten.

use super::{alerts, jetstream, outbox, rabbitmq, retry};

/// What a key's value looks like.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    Flag,
    Count,
    /// A number that may have a fraction.
    Number,
    /// A number, or `"none"`.
    CountOrNone,
    Size,
    Length,
    Status,
    Texts,
    /// A filter for letters, as text or as a table.
    Filter,
    Table(&'static [Key]),
    /// Tables under names that the operator chooses.
    Named(&'static Shape, Names),
    /// A list of tables.
    Entries(&'static [Key]),
}

/// What the names of tables are names of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    Source,
    /// As letters name it, whatever it looks like.
    Subscriber,
    /// As letters name it, whatever it looks like.
    Queue,
    /// A class of errors.
    Class,
    Receiver,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
}

pub(super) const KEYS_HINT: &str = "lazaret.example.toml shows every key with its meaning and default";

pub(super) const ROOT: &Shape = &Shape::Table(KEYS);

const KEYS: &[Key] = &[
    key("listen", Shape::Text),
    key("data", Shape::Text),
    key("store", Shape::Text),
    key("allowed_hosts", Shape::Texts),
    key("log", Shape::Table(&[key("level", Shape::Text), key("format", Shape::Text)])),
    key(
        "limits",
        Shape::Table(&[
            key("body_bytes_max", Shape::Size),
            key("entry_bytes_max", Shape::Size),
            key("ndjson_bytes_max", Shape::Size),
            key("request_time_max", Shape::Length),
            key("body_pause_max", Shape::Length),
            key("connections_max", Shape::Count),
        ]),
    ),
    key(
        "class_rules",
        Shape::Entries(&[
            key("class", Shape::Text),
            key("error_type", Shape::Text),
            key("code", Shape::Text),
            key("message", Shape::Text),
            key("http_status", Shape::Status),
            key("source", Shape::Text),
        ]),
    ),
    key(
        "fingerprint_rules",
        Shape::Entries(&[
            key("name", Shape::Text),
            key("source", Shape::Text),
            key("type", Shape::Text),
            key("error_type", Shape::Text),
            key("code", Shape::Text),
            key("message", Shape::Text),
            key("frame", Shape::Text),
            key("group", Shape::Text),
            key("split_by", Shape::Texts),
        ]),
    ),
    key(
        "replay_rules",
        Shape::Entries(&[
            key("name", Shape::Text),
            key("filter", Shape::Filter),
            key("delay", Shape::Length),
            key("max_replays", Shape::Count),
            key("enabled", Shape::Flag),
            key("cause", Shape::Text),
            key("category", Shape::Text),
        ]),
    ),
    key("fingerprint", Shape::Table(&[key("in_app", Shape::Texts), key("library", Shape::Texts)])),
    key("search", Shape::Table(&[key("bodies", Shape::Flag)])),
    key("events", Shape::Table(&[key("keep", Shape::Count)])),
    key("audit", Shape::Table(&[key("key_file", Shape::Text)])),
    key(
        "redaction",
        Shape::Table(&[
            key("enabled", Shape::Flag),
            key("defaults", Shape::Flag),
            key("headers", Shape::Texts),
            key("keys", Shape::Texts),
            key("paths", Shape::Texts),
            key("card_numbers", Shape::Flag),
            key("search", Shape::Flag),
        ]),
    ),
    key(
        "archive",
        Shape::Table(&[
            key("url", Shape::Text),
            key("file_letters", Shape::Count),
            key("file_age", Shape::Length),
            key("endpoint", Shape::Text),
            key("region", Shape::Text),
            key("allow_http", Shape::Flag),
        ]),
    ),
    key(
        "jobs",
        Shape::Table(&[
            key("keep_completed", Shape::Length),
            key("keep_cancelled", Shape::Length),
            key("keep_discarded", Shape::Length),
            key("governance", Shape::Text),
            key("allowed_origins", Shape::Texts),
            key("retention", Shape::Table(RETENTION)),
            key("queues", Shape::Named(&Shape::Table(QUEUE), Names::Queue)),
        ]),
    ),
    key(
        "alerts",
        Shape::Table(&[
            key("enabled", Shape::Flag),
            key("public_url", Shape::Text),
            key("rules", Shape::Entries(alerts::RULE)),
            key("routes", Shape::Entries(alerts::ROUTE)),
            key("receivers", Shape::Named(&Shape::Table(alerts::RECEIVER), Names::Receiver)),
        ]),
    ),
    key("redrive", Shape::Table(&[key("lease", Shape::Length)])),
    key("retention", Shape::Table(RETENTION)),
    key(
        "sources",
        Shape::Named(
            &Shape::Table(&[
                key("kind", Shape::Text),
                key("aggregate", Shape::Text),
                key("tenant", Shape::Text),
                key("queue", Shape::Text),
                key("governance", Shape::Text),
                key("destination", Shape::Table(DESTINATION)),
                key("subscribers", Shape::Named(&Shape::Table(DESTINATION), Names::Subscriber)),
                key("retention", Shape::Table(RETENTION)),
                key("queues", Shape::Named(&Shape::Table(QUEUE), Names::Queue)),
                key("url", Shape::Text),
                key("table", Shape::Text),
                key("subscriber", Shape::Text),
                key("sweep", Shape::Length),
                key("poll", Shape::Length),
                key(outbox::ACKNOWLEDGE, Shape::Flag),
                key("columns", Shape::Table(outbox::COLUMNS)),
                key("statuses", Shape::Table(outbox::STATUSES)),
                key("relay", Shape::Table(RELAY)),
                key("servers", Shape::Texts),
                key("auth", Shape::Table(jetstream::AUTH)),
                key("tls", Shape::Table(jetstream::TLS)),
                key("consumers", Shape::Entries(jetstream::CONSUMERS)),
                key("scope", Shape::Text),
                key("dlq_stream", Shape::Text),
                key("advisory_stream", Shape::Text),
                key("metrics_stream", Shape::Text),
                key("replicas", Shape::Count),
                key("dlq_max_age", Shape::Length),
                key("duplicate_window", Shape::Length),
                key("apply_at_start", Shape::Flag),
                key("delete_exhausted", Shape::Flag),
                key("aggregate_header", Shape::Text),
                key("schema_version_header", Shape::Text),
                key("tenant_header", Shape::Text),
                key("vhost", Shape::Text),
                key("dead_letter_queues", Shape::Entries(rabbitmq::DEAD_LETTER_QUEUES)),
                key("redrive_to", Shape::Text),
                key("restore_expiration", Shape::Flag),
                key("prefetch", Shape::Count),
                key("receipts_queue", Shape::Text),
                key("quiet_window", Shape::Length),
                key("management", Shape::Table(rabbitmq::MANAGEMENT)),
                key("schema_version", Shape::Text),
            ]),
            Names::Source,
        ),
    ),
];

const DESTINATION: &[Key] = &[
    key("url", Shape::Text),
    key("secret", Shape::Text),
    key("timeout", Shape::Length),
    key("connections_max", Shape::Count),
    key("allow_private", Shape::Flag),
    key("deduplicates", Shape::Flag),
    key("success", Shape::Text),
];

const QUEUE: &[Key] = &[key("retention", Shape::Table(RETENTION))];

const RETENTION: &[Key] = &[
    key("max_age", Shape::Length),
    key("max_count", Shape::CountOrNone),
    key("min_age", Shape::Length),
    key("pruning_policy", Shape::Text),
    key("resolved_max_age", Shape::Length),
    key("discarded_max_age", Shape::Length),
];

const RELAY: &[Key] = &[
    key("preset", Shape::Text),
    key("attempts", Shape::Count),
    key("first_delay", Shape::Length),
    key("factor", Shape::Number),
    key("max_delay", Shape::Length),
    key("jitter", Shape::Number),
    key("classes", Shape::Named(&Shape::Table(retry::KEYS), Names::Class)),
    key("concurrency", Shape::Count),
    key("batch", Shape::Count),
    key("order", Shape::Text),
    key("stuck_after", Shape::Length),
    key("poll", Shape::Length),
    key("sink", Shape::Table(DESTINATION)),
];

pub(super) const fn key(name: &'static str, shape: Shape) -> Key {
    Key { name, shape }
}

impl Shape {
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Shape::Text => "a text",
            Shape::Flag => "true or false",
            Shape::Count => "an integer",
            Shape::Number => "a number",
            Shape::CountOrNone => "an integer, or \"none\"",
            Shape::Size => "a number of bytes such as 16777216 or \"16MiB\"",
            Shape::Length => "a length of time such as \"120s\"",
            Shape::Status => "an HTTP status such as 503, \"5xx\" or \"500-599\"",
            Shape::Texts => "a list of texts",
            Shape::Filter => "a filter such as \"queue:billing\" or { queue = \"billing\" }",
            Shape::Table(_) => "a table",
            Shape::Named(_, Names::Source) => "a table of tables, such as [sources.billing]",
            Shape::Named(_, Names::Subscriber) => {
                "a table of tables, such as [sources.billing.subscribers.ledger]"
            }
            Shape::Named(_, Names::Queue) => "a table of tables, such as [jobs.queues.mails.retention]",
            Shape::Named(_, Names::Class) => {
                "a table of tables, such as [sources.shop.relay.classes.business]"
            }
            Shape::Named(_, Names::Receiver) => "a table of tables, such as [alerts.receivers.ops]",
            Shape::Entries(_) => "a list of tables, such as [[class_rules]]",
        }
    }

    /// The shape of what stands under `name`.
    pub(super) fn child(&self, name: &str) -> Option<&'static Shape> {
        match self {
            Shape::Table(keys) => keys.iter().find(|key| key.name == name).map(|key| &key.shape),
            Shape::Named(shape, _) => Some(shape),
            Shape::Text
            | Shape::Flag
            | Shape::Count
            | Shape::Number
            | Shape::CountOrNone
            | Shape::Size
            | Shape::Length
            | Shape::Status
            | Shape::Texts
            | Shape::Filter
            | Shape::Entries(_) => None,
        }
    }
}

/// `outer.name`, or `name` at the top.
pub(super) fn join(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") }
}

/// The paths of all values, with `named` where the operator chooses the name of a source. Keys of list entries are left out.
pub(super) fn paths(named: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect_paths(ROOT, "", named, &mut found);
    found
}

fn collect_paths(shape: &Shape, outer: &str, named: &str, found: &mut Vec<String>) {
    match shape {
        Shape::Table(keys) => {
            for key in *keys {
                collect_paths(&key.shape, &join(outer, key.name), named, found);
            }
        }
        Shape::Named(shape, Names::Source) => collect_paths(shape, &join(outer, named), named, found),
        Shape::Named(shape, Names::Subscriber) => collect_paths(shape, &join(outer, "<id>"), named, found),
        Shape::Named(shape, Names::Queue) => collect_paths(shape, &join(outer, "<queue>"), named, found),
        Shape::Named(shape, Names::Receiver) => {
            collect_paths(shape, &join(outer, "<receiver>"), named, found);
        }
        Shape::Named(shape, Names::Class) => collect_paths(shape, &join(outer, "<class>"), named, found),
        Shape::Text
        | Shape::Flag
        | Shape::Count
        | Shape::Number
        | Shape::CountOrNone
        | Shape::Size
        | Shape::Length
        | Shape::Status
        | Shape::Texts
        | Shape::Filter
        | Shape::Entries(_) => found.push(outer.to_owned()),
    }
}

/// The most likely meaning of a key that is not among `keys`: one spelt like it, or one of its name elsewhere.
pub(super) fn suggest_key(unknown: &str, keys: &[Key]) -> Option<String> {
    let beside = nearest(unknown, keys.iter().map(|key| key.name.to_owned()));
    beside.or_else(|| {
        paths("<name>").into_iter().find(|path| path.rsplit('.').next().is_some_and(|last| last == unknown))
    })
}

/// The candidate that differs in at most a third of its characters, if there is one.
pub(super) fn nearest(unknown: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    // Nothing we know is longer, and comparing takes time in the product of the lengths.
    if unknown.len() > 64 {
        return None;
    }
    let unknown = unknown.to_lowercase();
    candidates
        .map(|known| (strsim::damerau_levenshtein(&unknown, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
