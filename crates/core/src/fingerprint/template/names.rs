//! Names of people, firms, goods and files: values, although they are written like words.
//!
//! A name is told by the noun before it or by how it is written, never by a list of names.

use super::{Kind, Piece, random, vocabulary};
use crate::fingerprint::search::Words;

/// Nouns of the business: the name behind one is a value.
#[rustfmt::skip]
static ENTITIES: Words = Words::of(&[
    "account", "airline", "article", "author", "bank", "branch", "brand", "buyer", "carrier", "city", "client", "company", "contact",
    "country", "courier", "customer", "dealer", "depot", "device", "driver", "employee", "file", "filename", "guest", "hotel", "item",
    "location", "member", "merchant", "organisation", "organization", "owner", "partner", "passenger", "patient", "plant", "player",
    "product", "project", "recipient", "region", "restaurant", "retailer", "seller", "sender", "shop", "site", "sku", "store", "student",
    "subscriber", "supplier", "team", "tenant", "user", "username", "vendor", "vessel", "warehouse", "workspace",
]);

/// Those of them that mean nothing else in a program, so that a bare word in small letters may be a name.
#[rustfmt::skip]
static OWNERS: Words = Words::of(&[
    "airline", "author", "bank", "brand", "buyer", "carrier", "city", "company", "country", "courier", "customer", "dealer", "depot",
    "employee", "guest", "hotel", "merchant", "organisation", "organization", "partner", "passenger", "patient", "product", "recipient",
    "region", "restaurant", "retailer", "seller", "sender", "shop", "sku", "supplier", "team", "tenant", "user", "username", "vendor",
    "vessel", "warehouse", "workspace",
]);

/// Words that follow such a noun without being a name: what it does, what is done to it, and what belongs to it.
#[rustfmt::skip]
static NO_NAMES: Words = Words::of(&[
    "a", "about", "access", "account", "accounts", "active", "adapter", "address", "after", "agent", "agreed", "agreement", "allowed",
    "already", "also", "ambiguous", "and", "annotation", "anonymous", "answered", "api", "app", "archived", "are", "as", "associated",
    "at", "attribute", "authentication", "authorization", "balance", "banned", "based", "batch", "be", "bean", "because", "been",
    "before", "being", "belongs", "bic", "billing", "blacklisted", "blocked", "body", "bounced", "broker", "bundle", "busy", "but", "by",
    "bytes", "cache", "call", "callback", "called", "calls", "can", "canceled", "cancelled", "cannot", "card", "cart", "catalog",
    "category", "cert", "certificate", "certificates", "chain", "changed", "channel", "check", "city", "claims", "class", "client",
    "clients", "closed", "cluster", "code", "codes", "column", "command", "component", "config", "configuration", "confirmed", "connect",
    "connected", "connection", "connector", "consent", "console", "contact", "container", "contains", "content", "contents", "context",
    "contract", "could", "count", "country", "created", "creation", "credential", "credentials", "credit", "currency", "currently",
    "customer", "data", "database", "date", "deactivated", "dead", "deadline", "declined", "deleted", "delivered", "denied", "dependency",
    "depleted", "deployment", "deposit", "descriptor", "descriptors", "details", "device", "did", "differs", "directory", "disabled",
    "disconnected", "discount", "document", "does", "doesn't", "domain", "down", "dropped", "due", "duplicate", "duplicated", "during",
    "earlier", "element", "email", "empty", "enabled", "encoding", "endpoint", "engine", "entity", "entry", "environment", "error",
    "event", "exceeded", "exceeds", "execution", "exhausted", "exist", "existing", "exists", "expired", "export", "factory", "failed",
    "fails", "failure", "feature", "feed", "fetch", "field", "file", "files", "filter", "flow", "for", "form", "format", "found",
    "framework", "from", "frozen", "full", "function", "gateway", "generation", "gone", "group", "groups", "had", "handle", "handler",
    "handshake", "has", "have", "header", "hidden", "history", "host", "hostname", "iban", "id", "identifier", "identity", "ids", "if",
    "ignored", "implementation", "import", "in", "inactive", "incomplete", "inconsistent", "index", "ineligible", "info", "information",
    "input", "insert", "instance", "insufficient", "integration", "interface", "invalid", "inventory", "invoice", "is", "isn't", "item",
    "items", "job", "key", "keys", "kind", "lacks", "language", "lease", "left", "length", "level", "library", "limit", "line", "lines",
    "link", "list", "listener", "loader", "locale", "location", "lock", "locked", "login", "lookup", "lost", "maintenance", "malformed",
    "management", "manager", "mandate", "map", "mapping", "mask", "master", "match", "may", "member", "message", "metadata", "method",
    "methods", "middleware", "might", "migration", "mismatch", "missing", "mode", "model", "module", "moved", "must", "name", "named",
    "names", "namespace", "needs", "negative", "network", "never", "new", "no", "node", "none", "not", "notification", "null", "number",
    "numbers", "object", "of", "offline", "old", "on", "online", "only", "open", "operation", "opted", "option", "options", "or", "order",
    "orders", "outside", "over", "owner", "package", "page", "paid", "parameter", "parse", "parser", "partition", "password", "path",
    "paused", "payload", "payment", "pending", "permission", "permissions", "phone", "pipeline", "plan", "plugin", "policy", "pool",
    "port", "portal", "position", "postal", "postcode", "preferences", "price", "process", "profile", "prohibited", "property",
    "protocol", "provided", "provider", "proxy", "push", "quantity", "quarantined", "query", "queue", "quota", "range", "rate", "reached",
    "read", "reader", "receipt", "receives", "record", "records", "reference", "refused", "region", "registered", "registration",
    "registry", "rejected", "removed", "reply", "report", "reported", "repository", "request", "requested", "requests", "required",
    "requires", "reservation", "reset", "resource", "responded", "response", "restricted", "result", "results", "retired", "retry",
    "returned", "returns", "revoked", "role", "roles", "route", "row", "rows", "rule", "runtime", "said", "save", "scheduler", "schema",
    "scope", "script", "search", "secret", "segment", "sends", "sent", "server", "service", "session", "sessions", "set", "settings",
    "setup", "shard", "shipment", "should", "side", "signature", "signed", "site", "size", "snapshot", "socket", "software", "sold",
    "source", "space", "specific", "specified", "state", "statement", "status", "stock", "stopped", "storage", "store", "stream",
    "street", "stub", "subscription", "supplied", "support", "suspended", "sync", "system", "systems", "table", "task", "tax", "team",
    "template", "terminated", "terms", "test", "than", "that", "the", "their", "this", "thread", "time", "timed", "timeout", "timezone",
    "to", "token", "tokens", "too", "topic", "transaction", "transfer", "trigger", "type", "types", "unauthorized", "unavailable",
    "unconfirmed", "undefined", "unknown", "unreachable", "unsubscribed", "until", "unverified", "update", "updated", "upgrade", "upload",
    "uri", "url", "used", "user", "users", "uses", "validation", "validator", "value", "values", "vanished", "vat", "verified", "version",
    "view", "volume", "waiting", "wallet", "wants", "warned", "was", "webhook", "went", "were", "when", "where", "which", "while", "who",
    "will", "with", "within", "without", "worker", "would", "writer", "wrong", "you", "your", "zip", "zone",
]);

/// Whether a name follows such a word. Prepositions count where the name is capitalised.
pub(super) fn is_entity(word: &str) -> bool {
    ENTITIES.has(word) || matches!(word, "for" | "by" | "named")
}

/// Whether a bare word behind a noun of the business is the name of one: `carrier nordpost`, `tenant acme-eu`.
pub(super) fn is_name_of(noun: &str, word: &str) -> bool {
    let written = || word.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'.'));
    if word.contains('-') {
        return ENTITIES.has(noun) && written();
    }
    word.len() >= 3 && OWNERS.has(noun) && written() && !NO_NAMES.has(word)
}

/// Whether a word is the code of a currency, a country or a language: `currency EUR`, `pair GBP/CHF`, `locale de-DE`.
pub(super) fn is_code_of(noun: &str, word: &str) -> bool {
    let is_code =
        |part: &str| (2..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    word.len() <= 9
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && CODED.has(noun)
        && word.split(['/', '-', '_']).all(is_code)
}

/// Nouns that codes stand behind.
#[rustfmt::skip]
static CODED: Words = Words::of(&[
    "airport", "country", "currency", "language", "locale", "market", "pair", "port", "region", "state", "symbol", "ticker",
]);

/// Whether a word without digits is an id all the same: drawn letters, or the short capitals of a stock-keeping unit.
pub(super) fn is_bare_id(text: &str) -> bool {
    if text.len() < 6 {
        return false;
    }
    if text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return text.len() >= 8 && random::is_drawn(text);
    }
    if text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') && text.contains('-') {
        return is_stock_unit(text);
    }
    random::is_prefixed_id(text)
}

/// `BLK-LIN-SD`, and not `READ-ONLY`, `END-OF-FILE` or `X-API-KEY`.
fn is_stock_unit(text: &str) -> bool {
    let parts = || text.split('-');
    let is_word = |part: &str| {
        matches!(
            part,
            "OF" | "TO"
                | "IN"
                | "ON"
                | "NO"
                | "NOT"
                | "AND"
                | "OR"
                | "BY"
                | "ONLY"
                | "READ"
                | "WRITE"
                | "KEY"
                | "ID"
                | "IF"
        ) || matches!(
            part,
            "API"
                | "URL"
                | "SQL"
                | "TLS"
                | "SSL"
                | "HTTP"
                | "JSON"
                | "XML"
                | "TYPE"
                | "SAFE"
                | "OUT"
                | "OFF"
                | "PRE"
        )
    };
    parts().count() >= 2
        && !text.starts_with("X-")
        && parts().all(|part| (1..=6).contains(&part.len()) && !is_word(part))
        && parts().any(|part| part.len() <= 3)
}

/// Extensions of files that are worked on, and not part of a program.
#[rustfmt::skip]
static DATA_FILES: Words = Words::of(&[
    "7z", "avi", "avro", "bak", "bin", "bmp", "bz2", "crt", "csv", "dat", "doc", "docx", "dump", "edi", "eml", "gif", "gz", "ics", "jpeg",
    "jpg", "json", "jsonl", "lock", "log", "mov", "mp3", "mp4", "ndjson", "orc", "p12", "parquet", "pdf", "pem", "pfx", "png", "svg",
    "tar", "tgz", "tif", "tiff", "tmp", "tsv", "txt", "vcf", "wav", "webp", "xls", "xlsx", "xml", "xz", "zip",
]);

/// Whether a word is a file of data, whose name a customer or a clock chose: `orders-final.csv`.
pub(super) fn is_data_file(text: &str) -> bool {
    let Some((stem, extension)) = text.rsplit_once('.') else { return false };
    !stem.is_empty()
        && DATA_FILES.has(extension)
        && !matches!(
            stem,
            "package" | "tsconfig" | "composer" | "pom" | "web" | "appsettings" | "manifest" | "requirements"
        )
}

/// Turns runs of capitalised words inside a sentence into values.
pub(super) fn hide(source: &str, pieces: &mut [Piece]) {
    let is_proper =
        |piece: &Piece| piece.kind == Kind::Word && vocabulary::is_proper(&source[piece.start..piece.end]);
    let names: Vec<bool> = pieces.iter().map(is_proper).collect();
    if !names.contains(&true) {
        return;
    }
    let plain = pieces.iter().zip(&names).filter(|(it, is_name)| it.kind == Kind::Word && !**is_name).count();
    let mut at = 1;
    while at < pieces.len() {
        let mut end = at;
        while end < pieces.len()
            && names[end]
            && (end == at || source[pieces[end - 1].end..pieces[end].start].trim().is_empty())
        {
            end += 1;
        }
        let before = &source[pieces[at - 1].end..pieces[at].start];
        let in_sentence = !before.contains(['.', ':', '!', '\n', '(', '[']) && plain >= 2;
        let led =
            pieces[at - 1].kind == Kind::Word && is_entity(&source[pieces[at - 1].start..pieces[at - 1].end]);
        if in_sentence && (end - at >= 2 || end - at == 1 && led) {
            for piece in &mut pieces[at..end] {
                piece.kind = Kind::Value("<name>");
            }
        }
        at = end.max(at + 1);
    }
}

/// Words whose value says which run or place it was: `attempt 3`, `request id: 9f2c`, `partition 7`.
#[rustfmt::skip]
static OF_RUNS: Words = Words::of(&[
    "attempt", "attempts", "correlation", "correlation_id", "correlationid", "duration", "elapsed", "jobid", "line", "offset",
    "partition", "pid", "pod", "position", "reqid", "request", "request_id", "requestid", "retry", "script", "shard", "span", "spanid",
    "thread", "took", "trace", "trace_id", "traceid", "x-request-id",
]);

pub(super) fn is_of_run(word: &str) -> bool {
    OF_RUNS.has(word)
}

/// Takes such words out of the comparison, where a value follows: one layer prints them and another does not.
pub(super) fn hide_runs(source: &str, pieces: &mut [Piece]) {
    for at in 1..pieces.len() {
        let gap = source[pieces[at - 1].end..pieces[at].start].trim_matches([' ', '#']);
        if !matches!(pieces[at].kind, Kind::Value(_)) || !matches!(gap, "" | ":" | "=" | ":\"" | "='") {
            continue;
        }
        let text = |at: usize| &source[pieces[at].start..pieces[at].end];
        let is_id = at >= 2 && matches!(text(at - 1), "id" | "ids" | "ID" | "Id" | "number" | "no");
        let noun = if is_id { at - 2 } else { at - 1 };
        let is_column =
            pieces[at].kind == Kind::Value("<number>") && text(noun).eq_ignore_ascii_case("column");
        if is_of_run(text(noun)) || is_column {
            for piece in &mut pieces[noun..at] {
                if matches!(piece.kind, Kind::Word | Kind::Kept) {
                    piece.kind = Kind::Shown;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched() {
        for table in [&ENTITIES, &OWNERS, &NO_NAMES, &DATA_FILES, &OF_RUNS, &CODED] {
            assert!(table.is_table(), "{table:?}");
        }
    }
}
