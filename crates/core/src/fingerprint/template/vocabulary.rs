//! Words that say what the word or value beside them is.
//!
//! All are compared whatever their case.

fn is_any(word: &str, known: &[&str]) -> bool {
    known.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Words whose neighbour in quotes is a name that a person gave to a part of a program or of a schema.
#[rustfmt::skip]
pub(super) fn names_a_part(word: &str) -> bool {
    is_any(word, &[
        "field", "fields", "column", "columns", "constraint", "key", "keys", "property", "properties", "attribute", "attributes",
        "parameter", "parameters", "param", "params", "argument", "arguments", "arg", "method", "function", "table", "tables",
        "relation", "reading", "setting", "index", "topic", "queue", "exchange", "stream", "collection", "view", "sequence",
        "variable", "env", "module", "package", "class", "type", "types", "enum", "member", "header", "headers", "option", "config",
        "configuration", "element", "symbol", "identifier", "schema", "role", "database", "trigger", "procedure", "scope", "permission",
        "claim", "feature", "flag", "route", "template", "named", "required", "missing", "undefined", "operator", "trait",
        "struct", "variant", "operation", "action", "event", "command", "instance", "invoke", "because", "subject", "bean",
        "association", "interface", "service", "binding", "vhost", "dataset", "procedure", "policy", "rule", "node", "tag", "hook",
        "plugin", "extension", "driver", "codec", "encoder", "serializer", "handler", "import", "reference", "attr", "path",
        "dimension", "circuitbreaker", "breaker", "circuit", "bulkhead", "ratelimiter", "sheet", "job", "worker", "state", "transition", "stage", "consumer", "subscription", "grant",
    ])
}

/// Words behind a quoted name that tell it from a value: `'email' is required`.
pub(super) fn tells_a_part(word: &str) -> bool {
    is_any(
        word,
        &[
            "field",
            "fields",
            "column",
            "property",
            "attribute",
            "parameter",
            "argument",
            "object",
            "objects",
            "table",
            "relation",
            "key",
            "required",
            "missing",
            "undefined",
            "null",
            "blank",
            "empty",
            "mandatory",
            "defined",
            "must",
            "unset",
            "method",
            "function",
            "constraint",
            "header",
            "option",
            "setting",
            "module",
            "class",
            "type",
            "tag",
        ],
    )
}

/// Words before a list that tells what would have been right.
pub(super) fn offers(word: &str) -> bool {
    is_any(word, &["known", "valid", "allowed", "available", "supported", "possible", "accepted"])
}

/// Nouns of the business: the name behind one is a value.
#[rustfmt::skip]
pub(super) fn is_entity(word: &str) -> bool {
    is_any(word, &[
        "customer", "user", "product", "tenant", "merchant", "account", "patient", "city", "country", "company", "client", "vendor",
        "supplier", "partner", "store", "shop", "warehouse", "employee", "member", "contact", "recipient", "sender", "author",
        "owner", "buyer", "seller", "item", "article", "brand", "organization", "organisation", "team", "project", "carrier",
        "region", "bank", "hotel", "driver", "passenger", "student", "for", "by", "named",
    ])
}

/// Words that announce a number which tells causes apart.
#[rustfmt::skip]
pub(super) fn leads_a_code(word: &str) -> bool {
    is_any(word, &[
        "code", "errno", "error", "exit", "status", "signal", "sqlstate", "sqlcode", "rc", "returncode", "return_code", "hresult",
        "winerror", "exception", "statuscode", "status_code", "error_code", "errorcode", "exitcode", "exit_code", "http",
        "httpstatus", "http_status", "http/1.1", "http/2", "http/2.0", "http/1.0", "err", "fault", "kind",
    ])
}

/// Codes of goods and places are values, whatever stands behind.
#[rustfmt::skip]
pub(super) fn is_of_goods(word: &str) -> bool {
    is_any(word, &["zip", "postal", "promo", "coupon", "product", "country", "currency", "discount", "voucher", "article", "item", "tracking",
        "sku", "bar", "qr", "order", "booking", "reservation", "referral", "gift", "area", "language", "invite", "verification"])
}

/// Verbs that a bare HTTP status follows.
pub(super) fn leads_a_status(word: &str) -> bool {
    is_any(
        word,
        &[
            "returned",
            "response",
            "responded",
            "got",
            "received",
            "answered",
            "replied",
            "with",
            "was",
            "respond",
            "returns",
            "gave",
        ],
    )
}

/// Words that the reason phrases of HTTP begin with.
pub(super) fn is_reason(word: &str) -> bool {
    is_any(
        word,
        &[
            "unauthorized",
            "forbidden",
            "bad",
            "not",
            "internal",
            "service",
            "gateway",
            "too",
            "conflict",
            "unprocessable",
            "gone",
            "method",
            "payment",
            "precondition",
            "client",
            "server",
            "request",
            "ok",
            "created",
            "moved",
            "found",
            "unsupported",
        ],
    )
}

#[rustfmt::skip]
pub(super) fn is_unit(word: &str) -> bool {
    is_any(word, &[
        "ms", "msec", "millis", "millisecond", "milliseconds", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
        "minutes", "h", "hour", "hours", "d", "day", "days", "us", "µs", "ns", "b", "byte", "bytes", "kb", "mb", "gb", "tb", "kib", "mib", "gib",
        "k", "px", "kg", "g", "cm", "mm", "km", "eur", "usd", "gbp", "chf", "jpy", "cad", "aud", "sek", "nok", "dkk", "pln", "czk", "inr",
        "cny", "brl", "mxn", "am", "pm", "utc", "gmt", "cet", "cest", "est", "pst", "chars", "characters", "x", "th", "st", "nd", "rd",
    ])
}

pub(super) fn is_month_or_day(word: &str) -> bool {
    is_any(
        word,
        &[
            "jan",
            "feb",
            "mar",
            "apr",
            "jun",
            "jul",
            "aug",
            "sep",
            "sept",
            "oct",
            "nov",
            "dec",
            "mon",
            "tue",
            "wed",
            "thu",
            "fri",
            "sat",
            "sun",
            "january",
            "february",
            "april",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ],
    )
}

/// Words that a bare name of a host follows.
pub(super) fn leads_a_host(word: &str) -> bool {
    is_any(
        word,
        &[
            "to",
            "at",
            "tcp",
            "host",
            "dial",
            "server",
            "connect",
            "connecting",
            "address",
            "lookup",
            "hostname",
            "enotfound",
            "eai_again",
            "econnrefused",
            "econnreset",
            "etimedout",
            "broker",
            "brokers",
            "on",
            "from",
            "endpoint",
            "peer",
            "node",
            "udp",
            "upstream",
            "ehostunreach",
            "getaddrinfo",
            "resolve",
        ],
    )
}

/// Keys whose values tell causes apart in dumps, bodies and `key=value`.
#[rustfmt::skip]
pub(super) fn is_telling_key(word: &str) -> bool {
    is_any(word, &[
        "error", "code", "status", "statuscode", "status_code", "reason", "kind", "path", "field", "param", "loc", "property",
        "pointer", "keyword", "error_code", "errorcode", "err", "column", "constraint", "table", "type", "exception", "title",
        "error_type", "errortype", "sqlstate", "errno", "syscall", "parameter", "missing", "missingproperty", "exit_code", "exitcode",
        "grant_type", "errorkey", "subcode", "decline_code",
    ])
}

/// Keys whose values are told in words: the words take part.
pub(super) fn is_spoken_key(word: &str) -> bool {
    is_any(
        word,
        &[
            "desc",
            "reason",
            "message",
            "error",
            "detail",
            "details",
            "cause",
            "description",
            "msg",
            "errmsg",
            "err",
        ],
    )
}

/// Types of the languages' own, always telling.
#[rustfmt::skip]
pub(in crate::fingerprint) fn is_type(word: &str) -> bool {
    is_any(word, &[
        "int", "str", "float", "nonetype", "list", "dict", "tuple", "bytes", "bool", "object", "string", "number", "boolean", "null",
        "undefined", "nil", "integer", "double", "long", "array", "map", "set", "bigint", "decimal", "char", "date", "datetime",
        "uuid", "none", "nan", "hash", "symbol", "function", "void", "any", "struct", "enum", "numeric", "text", "timestamp", "guid",
        "err", "ok", "some", "true", "false", "required", "email", "min", "max", "oneof", "binary", "short", "byte",
    ])
}

/// Common words with digits in them that are no ids.
#[rustfmt::skip]
pub(super) fn is_technical(word: &str) -> bool {
    is_any(word, &[
        "utf8", "utf-8", "utf16", "utf-16", "iso-8859-1", "latin1", "sha1", "sha256", "sha-256", "sha512", "md5", "base64", "base32", "http2", "http3",
        "http/1.1", "http/2", "http/2.0", "http/1.0", "s3", "oauth2", "x509", "x.509", "ipv4", "ipv6", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64", "float32", "float64", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "i8", "i16", "usize",
        "h2", "tlsv1", "tlsv1.2", "tlsv1.3", "tls1.2", "tls1.3", "sslv3", "ec2", "sqs", "k8s", "l2", "d3", "mp3", "mp4", "p12", "pkcs12", "pkcs8",
        "pkcs1", "rs256", "hs256", "es256", "aes256", "aes-256", "2fa", "3ds", "sha2", "log4j", "py3", "python3", "oauth1", "rfc3339", "iso8601", "iso-8601",
        "varchar2", "bcrypt2", "argon2", "level3", "psycopg2", "urllib3", "mysql2", "boto3", "h264", "web3", "e164", "e.164", "iso4217",
    ])
}

/// Letters in front of the numbers that vendors give to their errors.
#[rustfmt::skip]
pub(super) fn is_vendor(prefix: &str) -> bool {
    matches!(
        prefix,
        "ORA" | "TNS" | "ERR" | "E" | "P" | "HY" | "HYT" | "AADSTS" | "PGRST" | "SP2" | "PLS" | "JMS" | "MQRC" | "AMQ" | "DB2" | "SQL"
            | "IDX" | "MSB" | "CS" | "TS" | "HHH" | "WFLYCTL" | "ARJUNA" | "PG" | "F" | "W" | "C" | "EF" | "NU" | "NETSDK" | "MSG"
            | "SQLN" | "HTTP" | "BC" | "CA" | "RPC" | "KB" | "AMQP" | "ISC" | "S" | "SQLSTATE" | "XX" | "CVE" | "IBM" | "DFH" | "CSTR"
    )
}

/// Articles and forms of `to be`, which change with a number and tell nothing.
pub(super) fn is_article(lower: &str) -> bool {
    matches!(
        lower,
        "a" | "an"
            | "the"
            | "is"
            | "are"
            | "was"
            | "were"
            | "has"
            | "have"
            | "be"
            | "been"
            | "this"
            | "that"
            | "and"
            | "or"
            | "of"
            | "in"
            | "at"
            | "on"
            | "instance"
            | "class"
    )
}

/// Whether a word is written like a name and is none of those that errors capitalise by themselves.
pub(super) fn is_proper(word: &str) -> bool {
    let mut chars = word.chars();
    let capital = chars.next().is_some_and(char::is_uppercase);
    capital
        && word.len() > 1
        && chars.all(|c| c.is_lowercase() || c == '\'' || c == '-')
        && !is_capitalised_by_errors(word)
}

#[rustfmt::skip]
fn is_capitalised_by_errors(word: &str) -> bool {
    is_type(word) || is_reason(word) || is_any(word, &[
        "unavailable", "timeout", "gateway", "error", "exception", "entity", "many", "requests", "found", "allowed", "acceptable",
        "failed", "large", "type", "media", "required", "connection", "network", "refused", "reset", "access", "denied", "invalid",
        "read", "write", "unknown", "cannot", "could", "unable", "json", "xml", "sql", "http", "request", "response", "server", "client",
        "key", "value", "field", "id", "token", "session", "permission", "file", "host", "process", "queue", "message", "broken", "pipe",
        "end", "stream", "redis", "kafka", "rabbitmq", "postgres", "postgresql", "mysql", "mongo", "oracle", "stripe", "mongodb", "database",
        "unexpected", "missing", "expected", "actual", "got", "no", "not", "duplicate", "entry", "constraint", "violation", "rate", "limit",
        "exceeded", "quota", "service", "api", "url", "uri", "i", "if", "please", "check", "try", "again", "retry", "after", "authentication",
        "authorization", "certificate", "handshake", "channel", "transport", "proxy", "path", "class", "object", "index", "table", "column",
    ])
}
