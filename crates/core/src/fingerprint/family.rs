//! Failures that every library words in its own way, and those that belong to no place in a program.
//!
//! A refused connection is one failure of the place that connects, whichever layer's exception was reported. A dry
//! pool or a full disk hits whichever line comes next. Only what is sure may be listed: the rest keeps its words.

/// What kind of failure the words tell, where the words themselves do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Of the whole process or machine: the frames tell nothing.
    Exhausted,
    /// A failure with many wordings: with frames, this name stands for type and words.
    Named(&'static str),
    None,
}

impl Family {
    /// Judges by the normalised type and the words of the template.
    pub fn of(error_type: &str, words: &[String]) -> Family {
        let said = Said { name: error_type.to_lowercase(), text: words.join(" "), words };
        if said.is_exhausted() {
            return Family::Exhausted;
        }
        if said.named(&["authentication", "unauthorized", "autherror", "loginfailed"]) {
            return Family::Named("credentials refused");
        }
        if said.named(&["unicodedecode", "unicodeencode", "malformedinput", "invalidbytesequence"]) {
            return Family::Named("wrong encoding");
        }
        // A status, a lock or a statement tells more than the network does.
        let more = ["lock", "statement", "transaction", "query", "visibility", "lease", "session"];
        if words.iter().any(|word| is_status(word)) || said.any(&more) {
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

impl Said<'_> {
    fn any(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.text.contains(part))
    }

    fn named(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.name.contains(part))
    }

    /// A pool, a disk, the memory or the stack is used up.
    fn is_exhausted(&self) -> bool {
        let pool = self.words.iter().any(|word| word == "pool")
            || self.any(&["queuepool", "connection not available"]);
        pool && self.any(&["time", "exhaust", "not available", "full", "limit", "no free", "wait"])
            || self.any(&["too many client", "too many connection", "too many open file", "no space left"])
            || self.any(&[
                "remaining connection slot",
                "out memory",
                "cannot allocate memory",
                "java heap space",
            ])
            || self.any(&["enospc", "emfile", "maximum call stack", "stack level too deep"])
            || self.any(&["maximum recursion depth"])
            || self.named(&["outofmemory", "nomemory", "stackoverflow", "recursionerror", "systemstack"])
    }

    /// What went wrong between the program and another.
    fn of_network(&self) -> Option<&'static str> {
        if self.any(&["econnrefused", "connection refused", "actively refused", "connect call failed"])
            || self.named(&["connectionrefused"])
        {
            return Some("connection refused");
        }
        if self.any(&["enotfound", "eai_again", "no such host", "nxdomain", "name resolution", "getaddrinfo"])
            || self.any(&["name service not known", "nodename nor servname"])
            || self.named(&["unknownhost", "nameresolution", "gaierror"])
        {
            return Some("host not found");
        }
        if self.any(&["econnreset", "connection reset", "broken pipe", "epipe", "socket hang up"]) {
            return Some("connection reset");
        }
        let timed = self.any(&["timed out", "timeout", "deadline exceeded", "deadline elapsed", "etimedout"])
            || self.named(&["timeout", "timedout", "deadlineexceeded"]);
        if !timed {
            return None;
        }
        if self.words.iter().any(|word| word.starts_with("connect")) || self.named(&["connect"]) {
            return Some("connect timed out");
        }
        let waited = self.any(&["read", "await", "respon", "answer", "receiv", "http", "request", "socket"])
            || self.any(&["operation"])
            || self.named(&["read", "socket", "http", "request"])
            || self.words.len() <= 3;
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
        assert_eq!(of("", "request failed with status code 504 timeout"), Family::None);
        assert_eq!(of("", "lock wait timeout exceeded"), Family::None);
        assert_eq!(of("KeyError", "sku"), Family::None);
    }

    #[test]
    fn a_dry_pool_belongs_to_no_place() {
        assert_eq!(of("", "connection not available request timed out"), Family::Exhausted);
        assert_eq!(of("", "sorry too many client already"), Family::Exhausted);
        assert_eq!(of("OutOfMemoryError", "java heap space"), Family::Exhausted);
    }
}
