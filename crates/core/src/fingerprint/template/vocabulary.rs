//! Words that say what the word or value beside them is.
//!
//! All are compared whatever their case. The tables are sorted and in small letters, because each word of each message is
//! looked up in several of them.

use crate::fingerprint::search::Words;

/// Words whose neighbour in quotes is a name that a person gave to a part of a program or of a schema.
pub(super) fn names_a_part(word: &str) -> bool {
    NAMES_A_PART.has(word)
}

/// Words behind a quoted name that tell it from a value: `'email' is required`.
pub(super) fn tells_a_part(word: &str) -> bool {
    TELLS_A_PART.has(word)
}

/// Words before a list that tells what would have been right.
pub(super) fn offers(word: &str) -> bool {
    OFFERS.has(word)
}

/// Words that announce a number which tells causes apart.
pub(super) fn leads_a_code(word: &str) -> bool {
    LEADS_A_CODE.has(word)
}

/// Codes of goods and places are values, whatever stands behind.
pub(super) fn is_of_goods(word: &str) -> bool {
    IS_OF_GOODS.has(word)
}

/// Verbs that a bare HTTP status follows.
pub(super) fn leads_a_status(word: &str) -> bool {
    LEADS_A_STATUS.has(word)
}

/// Words that the reason phrases of HTTP begin with.
pub(super) fn is_reason(word: &str) -> bool {
    IS_REASON.has(word)
}

/// The names of statuses as programs write them, without spaces.
pub(super) fn is_status_name(word: &str) -> bool {
    IS_STATUS_NAME.has(word)
}

pub(super) fn is_unit(word: &str) -> bool {
    IS_UNIT.has(word)
}

pub(super) fn is_month_or_day(word: &str) -> bool {
    IS_MONTH_OR_DAY.has(word)
}

/// Words that a bare name of a host follows.
pub(super) fn leads_a_host(word: &str) -> bool {
    LEADS_A_HOST.has(word)
}

/// Keys whose values tell causes apart in dumps, bodies and `key=value`.
pub(super) fn is_telling_key(word: &str) -> bool {
    IS_TELLING_KEY.has(word)
}

/// Keys whose values are told in words: the words take part.
pub(super) fn is_spoken_key(word: &str) -> bool {
    IS_SPOKEN_KEY.has(word)
}

/// Types of the languages' own, always telling.
pub(in crate::fingerprint) fn is_type(word: &str) -> bool {
    IS_TYPE.has(word)
}

/// Common words with digits in them that are no ids.
pub(super) fn is_technical(word: &str) -> bool {
    IS_TECHNICAL.has(word)
}

/// Letters in front of the numbers that vendors give to their errors.
pub(super) fn is_vendor(prefix: &str) -> bool {
    matches!(
        prefix,
        "ORA"
            | "TNS"
            | "ERR"
            | "E"
            | "P"
            | "HY"
            | "HYT"
            | "AADSTS"
            | "PGRST"
            | "SP2"
            | "PLS"
            | "JMS"
            | "MQRC"
            | "AMQ"
            | "DB2"
            | "SQL"
            | "IDX"
            | "MSB"
            | "CS"
            | "TS"
            | "HHH"
            | "WFLYCTL"
            | "ARJUNA"
            | "PG"
            | "F"
            | "W"
            | "C"
            | "EF"
            | "NU"
            | "NETSDK"
            | "MSG"
            | "SQLN"
            | "HTTP"
            | "BC"
            | "CA"
            | "RPC"
            | "KB"
            | "AMQP"
            | "ISC"
            | "S"
            | "SQLSTATE"
            | "XX"
            | "CVE"
            | "IBM"
            | "DFH"
            | "CSTR"
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

fn is_capitalised_by_errors(word: &str) -> bool {
    is_type(word) || is_reason(word) || IS_CAPITALISED_BY_ERRORS.has(word)
}

#[rustfmt::skip]
static NAMES_A_PART: Words = Words::of(&[
    "action", "arg", "argument", "arguments", "association", "attr", "attribute", "attributes", "bean", "because", "binding", "breaker",
    "bulkhead", "circuit", "circuitbreaker", "claim", "class", "codec", "collection", "column", "columns", "command", "config",
    "configuration", "constraint", "consumer", "database", "dataset", "dimension", "driver", "element", "encoder", "enum", "env", "event",
    "exchange", "extension", "feature", "field", "fields", "flag", "function", "grant", "handler", "header", "headers", "hook",
    "identifier", "import", "index", "instance", "interface", "invoke", "job", "key", "keys", "member", "method", "missing", "module",
    "named", "node", "operation", "operator", "option", "package", "param", "parameter", "parameters", "params", "path", "permission",
    "plugin", "policy", "procedure", "properties", "property", "queue", "ratelimiter", "reading", "reference", "relation", "required",
    "role", "route", "rule", "schema", "scope", "sequence", "serializer", "service", "setting", "sheet", "stage", "state", "stream",
    "struct", "subject", "subscription", "symbol", "table", "tables", "tag", "template", "topic", "trait", "transition", "trigger",
    "type", "types", "undefined", "variable", "variant", "vhost", "view", "worker",
]);

#[rustfmt::skip]
static TELLS_A_PART: Words = Words::of(&[
    "argument", "attribute", "blank", "class", "column", "constraint", "defined", "empty", "field", "fields", "function", "header", "key",
    "mandatory", "method", "missing", "module", "must", "null", "object", "objects", "option", "parameter", "property", "relation",
    "required", "setting", "table", "tag", "type", "undefined", "unset",
]);

#[rustfmt::skip]
static OFFERS: Words = Words::of(&[
    "accepted", "allowed", "available", "known", "possible", "supported", "valid",
]);

#[rustfmt::skip]
static LEADS_A_CODE: Words = Words::of(&[
    "code", "err", "errno", "error", "error_code", "errorcode", "exception", "exit", "exit_code", "exitcode", "fault", "hresult", "http",
    "http/1.0", "http/1.1", "http/2", "http/2.0", "http_status", "httpstatus", "kind", "rc", "return_code", "returncode", "signal",
    "sqlcode", "sqlstate", "status", "status_code", "statuscode", "winerror",
]);

#[rustfmt::skip]
static IS_OF_GOODS: Words = Words::of(&[
    "area", "article", "bar", "booking", "country", "coupon", "currency", "discount", "gift", "invite", "item", "language", "order",
    "postal", "product", "promo", "qr", "referral", "reservation", "sku", "tracking", "verification", "voucher", "zip",
]);

#[rustfmt::skip]
static LEADS_A_STATUS: Words = Words::of(&[
    "answered", "gave", "got", "received", "replied", "respond", "responded", "response", "returned", "returns", "was", "with",
]);

#[rustfmt::skip]
static IS_REASON: Words = Words::of(&[
    "bad", "client", "conflict", "created", "forbidden", "found", "gateway", "gone", "internal", "method", "moved", "not", "ok",
    "payment", "precondition", "request", "server", "service", "too", "unauthorized", "unprocessable", "unsupported",
]);

#[rustfmt::skip]
static IS_STATUS_NAME: Words = Words::of(&[
    "badgateway", "badrequest", "conflict", "forbidden", "gatewaytimeout", "gone", "internalservererror", "methodnotallowed", "notfound",
    "paymentrequired", "preconditionfailed", "requesttimeout", "serviceunavailable", "toomanyrequests", "unauthorized",
    "unprocessableentity",
]);

#[rustfmt::skip]
static IS_UNIT: Words = Words::of(&[
    "am", "aud", "b", "brl", "byte", "bytes", "cad", "cest", "cet", "characters", "chars", "chf", "cm", "cny", "czk", "d", "day", "days",
    "dkk", "est", "eur", "g", "gb", "gbp", "gib", "gmt", "h", "hour", "hours", "inr", "jpy", "k", "kb", "kg", "kib", "km", "m", "mb",
    "mib", "millis", "millisecond", "milliseconds", "min", "mins", "minute", "minutes", "mm", "ms", "msec", "mxn", "nd", "nok", "ns",
    "pln", "pm", "pst", "px", "rd", "s", "sec", "second", "seconds", "secs", "sek", "st", "tb", "th", "us", "usd", "utc", "x", "µs",
]);

#[rustfmt::skip]
static IS_MONTH_OR_DAY: Words = Words::of(&[
    "apr", "april", "aug", "august", "dec", "december", "feb", "february", "fri", "jan", "january", "jul", "july", "jun", "june", "mar",
    "mon", "nov", "november", "oct", "october", "sat", "sep", "sept", "september", "sun", "thu", "tue", "wed",
]);

#[rustfmt::skip]
static LEADS_A_HOST: Words = Words::of(&[
    "address", "at", "broker", "brokers", "connect", "connecting", "dial", "eai_again", "econnrefused", "econnreset", "ehostunreach",
    "endpoint", "enotfound", "etimedout", "from", "getaddrinfo", "host", "hostname", "lookup", "node", "on", "peer", "resolve", "server",
    "tcp", "to", "udp", "upstream",
]);

#[rustfmt::skip]
static IS_TELLING_KEY: Words = Words::of(&[
    "code", "column", "constraint", "decline_code", "err", "errno", "error", "error_code", "error_type", "errorcode", "errorkey",
    "errortype", "exception", "exit_code", "exitcode", "field", "grant_type", "keyword", "kind", "loc", "missing", "missingproperty",
    "param", "parameter", "path", "pointer", "property", "reason", "sqlstate", "status", "status_code", "statuscode", "subcode",
    "syscall", "table", "title", "type",
]);

#[rustfmt::skip]
static IS_SPOKEN_KEY: Words = Words::of(&[
    "cause", "desc", "description", "detail", "details", "err", "errmsg", "error", "message", "msg", "reason",
]);

#[rustfmt::skip]
static IS_TYPE: Words = Words::of(&[
    "any", "array", "bigint", "binary", "bool", "boolean", "byte", "bytes", "char", "date", "datetime", "decimal", "dict", "double",
    "email", "enum", "err", "false", "float", "function", "guid", "hash", "int", "integer", "list", "long", "map", "max", "min", "nan",
    "nil", "none", "nonetype", "null", "number", "numeric", "object", "ok", "oneof", "required", "set", "short", "some", "str", "string",
    "struct", "symbol", "text", "timestamp", "true", "tuple", "undefined", "uuid", "void",
]);

#[rustfmt::skip]
static IS_TECHNICAL: Words = Words::of(&[
    "2fa", "3ds", "aes-256", "aes256", "argon2", "base32", "base64", "bcrypt2", "boto3", "d3", "e.164", "e164", "ec2", "es256", "f32",
    "f64", "float32", "float64", "h2", "h264", "hs256", "http/1.0", "http/1.1", "http/2", "http/2.0", "http2", "http3", "i16", "i32",
    "i64", "i8", "int16", "int32", "int64", "int8", "ipv4", "ipv6", "iso-8601", "iso-8859-1", "iso4217", "iso8601", "k8s", "l2", "latin1",
    "level3", "log4j", "md5", "mp3", "mp4", "mysql2", "oauth1", "oauth2", "p12", "pkcs1", "pkcs12", "pkcs8", "psycopg2", "py3", "python3",
    "rfc3339", "rs256", "s3", "sha-256", "sha1", "sha2", "sha256", "sha512", "sqs", "sslv3", "tls1.2", "tls1.3", "tlsv1", "tlsv1.2",
    "tlsv1.3", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "urllib3", "usize", "utf-16", "utf-8", "utf16", "utf8",
    "varchar2", "web3", "x.509", "x509",
]);

#[rustfmt::skip]
static IS_CAPITALISED_BY_ERRORS: Words = Words::of(&[
    "acceptable", "access", "actual", "after", "again", "allowed", "api", "authentication", "authorization", "broken", "cannot",
    "certificate", "channel", "check", "class", "client", "column", "connection", "constraint", "could", "database", "denied",
    "duplicate", "end", "entity", "entry", "error", "exceeded", "exception", "expected", "failed", "field", "file", "found", "gateway",
    "got", "handshake", "host", "http", "i", "id", "if", "index", "invalid", "json", "kafka", "key", "large", "limit", "many", "media",
    "message", "missing", "mongo", "mongodb", "mysql", "network", "no", "not", "object", "oracle", "path", "permission", "pipe", "please",
    "postgres", "postgresql", "process", "proxy", "queue", "quota", "rabbitmq", "rate", "read", "redis", "refused", "request", "requests",
    "required", "reset", "response", "retry", "server", "service", "session", "sql", "stream", "stripe", "table", "timeout", "token",
    "transport", "try", "type", "unable", "unavailable", "unexpected", "unknown", "uri", "url", "value", "violation", "write", "xml",
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched() {
        for table in [
            &NAMES_A_PART,
            &TELLS_A_PART,
            &OFFERS,
            &LEADS_A_CODE,
            &IS_OF_GOODS,
            &LEADS_A_STATUS,
            &IS_REASON,
            &IS_STATUS_NAME,
            &IS_UNIT,
            &IS_MONTH_OR_DAY,
            &LEADS_A_HOST,
            &IS_TELLING_KEY,
            &IS_SPOKEN_KEY,
            &IS_TYPE,
            &IS_TECHNICAL,
            &IS_CAPITALISED_BY_ERRORS,
        ] {
            assert!(table.is_table(), "{table:?}");
        }
    }
}
