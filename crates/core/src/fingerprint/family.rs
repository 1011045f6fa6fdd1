//! Failures that every library words in its own way, and those that belong to no place in a program.
//!
//! A refused connection is one failure of the place that connects, whichever layer's exception was reported. A dry
//! pool or a full disk hits whichever line comes next. Only what is sure may be listed: the rest keeps its words.

use crate::fingerprint::search::{self, Parts};

/// What kind of failure the words tell, where the words themselves do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Of the whole process or machine: what is used up tells it, and neither words nor frames do.
    Exhausted(&'static str),
    /// A failure with many wordings: with frames, this name stands for type and words.
    Named(&'static str),
    /// A failure that its name tells, with frames or without: words and type only say which table, layer or vendor.
    Stated(&'static str),
    None,
}

impl Family {
    /// Judges by the normalised type and the words of the template.
    pub fn of(error_type: &str, words: &[String]) -> Family {
        let said = Said { name: error_type.to_lowercase(), text: words.join(" "), words };
        if let Some(resource) = said.exhausted() {
            return Family::Exhausted(resource);
        }
        if words.iter().any(|word| matches!(word.as_str(), "deadlock" | "deadlocked")) {
            return Family::Stated("deadlock");
        }
        if let Some(name) = said.of_refusal() {
            return Family::Named(name);
        }
        if said.named(
            const { Parts::of(&["unicodedecode", "unicodeencode", "malformedinput", "invalidbytesequence"]) },
        ) {
            return Family::Named("wrong encoding");
        }
        // A status, a lock or a statement tells more than the network does.
        const MORE: Parts =
            Parts::of(&["lock", "statement", "transaction", "query", "visibility", "lease", "session"]);
        if said.status().is_some() || said.any(MORE) {
            return Family::None;
        }
        said.of_network().map_or(Family::None, Family::Named)
    }
}

/// An error's name and words, lowered. The words come without articles and plurals.
struct Said<'a> {
    name: String,
    text: String,
    words: &'a [String],
}

/// A family, the words that tell it, and the types that do.
struct Signs {
    family: &'static str,
    said: Parts,
    named: Parts,
}

const fn signs(family: &'static str, said: &'static [&'static str], named: &'static [&'static str]) -> Signs {
    Signs { family, said: Parts::of(said), named: Parts::of(named) }
}

/// What is used up. `time` is up where a clock or a shutdown ended the work, at whichever line it had come to.
#[rustfmt::skip]
const RESOURCES: &[Signs] = &[
    signs("connections", &["too many client", "too many connection", "remaining connection slot"], &[]),
    signs("files", &["too many open file", "emfile"], &[]),
    signs("disk", &["no space left", "enospc"], &[]),
    signs("memory", &["out memory", "cannot allocate memory", "java heap space", "memory size", "gc overhead limit"], &["outofmemory", "nomemory"]),
    signs("stack", &["maximum call stack", "stack level too deep", "maximum recursion depth"], &["stackoverflow", "recursionerror", "systemstack"]),
    signs(
        "time",
        &["maximum execution time", "execution expired", "time limit exceeded", "worker exited prematurely", "task timed out after"],
        &["softtimelimit", "timelimitexceeded", "jobtimeout", "workerlost", "workershutdown", "sigterm", "maxattemptsexceeded", "taskrevoked",
          "keyboardinterrupt", "systemexit", "threadabort"],
    ),
];

/// Whose connections a dry pool holds: two pools of one program are two failures.
const POOLS: &[Signs] = &[
    signs("pool of redis", &["redis", "jedis", "lettuce"], &["redis", "jedis", "lettuce"]),
    signs("pool of http", &["http", "finch", "hackney"], &["http", "finch", "hackney"]),
    signs("pool of threads", &["thread", "executor", "worker"], &["thread", "executor", "worker"]),
];

/// What the other side answered.
#[rustfmt::skip]
const REFUSALS: &[Signs] = &[
    signs("too many requests", &["throttl", "rate exceeded", "too many request", "slowdown", "rate limit exceeded"], &["toomanyrequest", "ratelimit", "throttl"]),
    signs("credentials refused", &[], &["authentication", "unauthorized", "autherror", "loginfailed"]),
    signs("http 503", &[], &["serviceunavailable"]),
    signs("http 504", &[], &["gatewaytimeout"]),
    signs("http 502", &[], &["badgateway"]),
];

/// How stores and clouds say that a role lacks a permission.
const DENIED: Parts = Parts::of(&["access denied", "accessdenied", "not authorized to perform"]);

/// What went wrong between the program and another. gRPC tells beside its deadline how long it resolved and connected.
#[rustfmt::skip]
const OF_NETWORK: &[Signs] = &[
    signs("timed out", &["deadline_exceeded", "deadline exceeded"], &["deadlineexceeded"]),
    signs("connection refused", &["econnrefused", "connection refused", "actively refused", "connect call failed"], &["connectionrefused"]),
    signs(
        "host not found",
        &["enotfound", "eai_again", "no such host", "nxdomain", "name resolution", "getaddrinfo", "name service not known", "nodename nor servname"],
        &["unknownhost", "nameresolution", "gaierror"],
    ),
    signs("connection reset", &["econnreset", "connection reset", "broken pipe", "epipe", "socket hang up"], &[]),
];

const TIMED: Signs =
    signs("", &["timed out", "timeout", "deadline elapsed", "etimedout"], &["timeout", "timedout"]);

impl Said<'_> {
    fn any(&self, parts: Parts) -> bool {
        search::has_any(&self.text, parts)
    }

    fn named(&self, parts: Parts) -> bool {
        search::has_any(&self.name, parts)
    }

    fn tells(&self, signs: &Signs) -> bool {
        self.any(signs.said) || self.named(signs.named)
    }

    fn first(&self, families: &'static [Signs]) -> Option<&'static str> {
        families.iter().find(|signs| self.tells(signs)).map(|signs| signs.family)
    }

    fn status(&self) -> Option<&str> {
        self.words.iter().map(String::as_str).find(|word| is_status(word))
    }

    /// The pool, the disk, the memory or whatever else is used up.
    fn exhausted(&self) -> Option<&'static str> {
        const POOL: Parts = Parts::of(&["queuepool", "connection not available", "waiting for idle object"]);
        const DRY: Parts =
            Parts::of(&["time", "exhaust", "not available", "full", "limit", "no free", "wait", "unable"]);
        let is_pool = self.words.iter().any(|word| word == "pool") || self.any(POOL);
        if is_pool && self.any(DRY) {
            return Some(self.first(POOLS).unwrap_or("pool of a database"));
        }
        self.first(RESOURCES)
    }

    /// What the other side answered, where its status says why by itself; bodies and clients only reword it.
    fn of_refusal(&self) -> Option<&'static str> {
        match self.status() {
            Some("401" | "407") => Some("credentials refused"),
            Some("403") if self.any(DENIED) => Some("access denied"),
            Some("429") => Some("too many requests"),
            Some("500") => Some("http 500"),
            Some("502") => Some("http 502"),
            Some("503") => Some("http 503"),
            Some("504") => Some("http 504"),
            Some(_) => None,
            None if self.any(DENIED) => Some("access denied"),
            None => self.first(REFUSALS),
        }
    }

    /// What went wrong between the program and another.
    fn of_network(&self) -> Option<&'static str> {
        if let Some(family) = self.first(OF_NETWORK) {
            return Some(family);
        }
        if !self.tells(&TIMED) {
            return None;
        }
        let connects =
            |word: &String| matches!(word.as_str(), "connect" | "connecting" | "connection" | "connected");
        if self.words.iter().any(connects) || self.named(const { Parts::of(&["connect"]) }) {
            return Some("connect timed out");
        }
        const WAITED: Parts = Parts::of(&[
            "read",
            "await",
            "respon",
            "answer",
            "receiv",
            "http",
            "request",
            "socket",
            "operation",
        ]);
        let waited = self.words.len() <= 3 || self.named(TIMED.named) || self.any(WAITED);
        waited.then_some("timed out")
    }
}

/// Whether a word is a status of HTTP that tells of an error.
pub(super) fn is_status(word: &str) -> bool {
    word.len() == 3 && word.starts_with(['4', '5']) && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(error_type: &str, said: &str) -> Family {
        let words: Vec<String> = said.split(' ').map(String::from).collect();
        Family::of(error_type, &words)
    }

    #[test]
    fn each_library_has_its_own_words_for_one_failure() {
        let timed_out = Family::Named("timed out");
        assert_eq!(of("TimeoutError", "read operation timed out"), timed_out);
        assert_eq!(of("ReadTimeout", "httpsconnectionpool read timed out"), timed_out);
        assert_eq!(of("SocketTimeoutException", "read timed out"), timed_out);
        assert_eq!(of("ConnectTimeout", "timed out"), Family::Named("connect timed out"));
        assert_eq!(of("", "connect econnrefused"), Family::Named("connection refused"));
        assert_eq!(of("", "lookup no such host"), Family::Named("host not found"));
    }

    #[test]
    fn what_tells_more_keeps_its_words() {
        assert_eq!(of("", "request failed with status code 409 timeout"), Family::None);
        assert_eq!(of("", "lock wait timeout exceeded"), Family::None);
        assert_eq!(of("KeyError", "sku"), Family::None);
    }

    #[test]
    fn a_dry_pool_belongs_to_no_place() {
        assert_eq!(
            of("", "connection not available request timed out"),
            Family::Exhausted("pool of a database")
        );
        assert_eq!(of("", "sorry too many client already"), Family::Exhausted("connections"));
        assert_eq!(of("OutOfMemoryError", "java heap space"), Family::Exhausted("memory"));
    }
}
