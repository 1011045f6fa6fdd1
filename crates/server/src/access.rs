//! Who may do what: roles, permissions, the table of routes, and the tokens that prove a role.
//!
//! This is the only place that decides it. Every route is in the table; one that is not is refused.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, RwLock};

use http::HeaderMap;
use lazaret_core::id::TokenId;
use lazaret_store::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::net::{host_of, is_loopback};

/// What a token's holder is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Programs: report failures, send receipts, work on jobs.
    Producer,
    /// Looks at everything, changes nothing.
    Viewer,
    /// Decides about letters.
    Operator,
    /// An operator who may also approve business decisions.
    Approver,
    Admin,
}

/// What a route asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Permission {
    /// Nothing, not even a token.
    Open,
    /// Any valid token.
    Known,
    Report,
    Read,
    Decide,
    Approve,
    /// To see what is masked, with a reason.
    Reveal,
    Administer,
}

impl Role {
    pub const ALL: [Role; 5] = [Role::Producer, Role::Viewer, Role::Operator, Role::Approver, Role::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Approver => "approver",
            Role::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == text)
    }

    pub const fn may(self, permission: Permission) -> bool {
        match permission {
            Permission::Open | Permission::Known => true,
            Permission::Report => !matches!(self, Role::Viewer),
            Permission::Read => !matches!(self, Role::Producer),
            Permission::Decide => matches!(self, Role::Operator | Role::Approver | Role::Admin),
            Permission::Approve | Permission::Reveal => matches!(self, Role::Approver | Role::Admin),
            Permission::Administer => matches!(self, Role::Admin),
        }
    }
}

impl Permission {
    pub const fn name(self) -> &'static str {
        match self {
            Permission::Open => "open",
            Permission::Known => "any token",
            Permission::Report => "report",
            Permission::Read => "read",
            Permission::Decide => "decide",
            Permission::Approve => "approve",
            Permission::Reveal => "reveal",
            Permission::Administer => "administer",
        }
    }
}

/// Every route and what it asks for.
pub const PERMISSIONS: &[(&str, &str, Permission)] = &[
    ("GET", "/", Permission::Read),
    ("GET", "/letters", Permission::Read),
    ("GET", "/letters/confirm", Permission::Read),
    ("POST", "/letters/confirm", Permission::Decide),
    ("POST", "/letters/bulk", Permission::Decide),
    ("GET", "/letters/{id}", Permission::Read),
    ("POST", "/letters/{id}/retry", Permission::Decide),
    ("GET", "/letters/{id}/edit", Permission::Decide),
    ("POST", "/letters/{id}/edit", Permission::Decide),
    ("POST", "/letters/{id}/hold", Permission::Decide),
    ("POST", "/letters/{id}/release", Permission::Decide),
    ("POST", "/letters/{id}/resolve", Permission::Decide),
    ("POST", "/letters/{id}/discard", Permission::Decide),
    ("POST", "/letters/{id}/reopen", Permission::Decide),
    ("POST", "/letters/{id}/delete", Permission::Decide),
    ("POST", "/letters/{id}/restore", Permission::Decide),
    ("GET", "/operations/{id}", Permission::Read),
    ("GET", "/incidents", Permission::Read),
    ("GET", "/incidents/{id}", Permission::Read),
    ("POST", "/incidents/{id}/rca", Permission::Decide),
    // A fix of the kind `decision` asks for `approve` besides, here as there.
    ("POST", "/incidents/{id}/fix", Permission::Decide),
    ("POST", "/incidents/{id}/assign", Permission::Decide),
    ("POST", "/incidents/{id}/notes", Permission::Decide),
    ("POST", "/incidents/{id}/close", Permission::Decide),
    ("POST", "/letters/{id}/reveal", Permission::Reveal),
    ("GET", "/assets/{file}", Permission::Open),
    ("GET", "/jobs", Permission::Read),
    ("POST", "/jobs/queues/pause", Permission::Decide),
    ("POST", "/jobs/queues/resume", Permission::Decide),
    ("POST", "/jobs/workers/quiet", Permission::Decide),
    ("POST", "/jobs/workers/resume", Permission::Decide),
    ("POST", "/jobs/workers/terminate", Permission::Decide),
    ("GET", "/jobs/{id}", Permission::Read),
    ("POST", "/jobs/{id}/cancel", Permission::Decide),
    // To look what would be pruned asks for `decide` besides.
    ("GET", "/rules", Permission::Read),
    ("POST", "/rules/replay/enable", Permission::Decide),
    ("POST", "/rules/replay/disable", Permission::Decide),
    ("POST", "/rules/prune", Permission::Decide),
    ("POST", "/rules/holds", Permission::Decide),
    ("GET", "/rules/holds/{id}", Permission::Read),
    ("POST", "/rules/holds/{id}/release", Permission::Decide),
    ("GET", "/sources", Permission::Read),
    ("POST", "/sources/put-back", Permission::Decide),
    ("GET", "/archive", Permission::Read),
    ("POST", "/archive/verify", Permission::Decide),
    ("POST", "/archive/restore", Permission::Decide),
    ("GET", "/archive/{id}", Permission::Read),
    ("GET", "/alerts", Permission::Read),
    ("POST", "/alerts/acknowledge", Permission::Decide),
    ("POST", "/alerts/silence", Permission::Decide),
    ("POST", "/alerts/unsilence", Permission::Decide),
    ("POST", "/alerts/test", Permission::Decide),
    ("GET", "/sign-in", Permission::Open),
    ("POST", "/sign-in", Permission::Open),
    ("POST", "/sign-out", Permission::Known),
    ("POST", "/sign-out-everywhere", Permission::Known),
    ("GET", "/audit", Permission::Read),
    ("GET", "/settings", Permission::Read),
    ("POST", "/settings/theme", Permission::Read),
    ("POST", "/settings/tokens", Permission::Administer),
    ("POST", "/settings/tokens/{id}/revoke", Permission::Administer),
    ("GET", "/redrives", Permission::Read),
    ("GET", "/redrives/new", Permission::Read),
    ("POST", "/redrives/new", Permission::Decide),
    ("GET", "/redrives/{id}", Permission::Read),
    // To break the glass asks for `administer` besides.
    ("POST", "/redrives/{id}/launch", Permission::Decide),
    ("POST", "/redrives/{id}/settle", Permission::Decide),
    ("POST", "/redrives/{id}/letters/{letter}/settle", Permission::Decide),
    ("POST", "/redrives/{id}/pause", Permission::Decide),
    ("POST", "/redrives/{id}/resume", Permission::Decide),
    ("POST", "/redrives/{id}/cancel", Permission::Decide),
    ("POST", "/redrives/{id}/pace", Permission::Decide),
    ("GET", "/health/live", Permission::Open),
    ("GET", "/health/ready", Permission::Open),
    ("GET", "/metrics", Permission::Read),
    ("GET", "/api/openapi.json", Permission::Known),
    ("GET", "/api/v1/me", Permission::Known),
    ("POST", "/api/v1/dead-letters", Permission::Report),
    ("GET", "/api/v1/dead-letters", Permission::Read),
    ("POST", "/api/v1/dead-letters/count", Permission::Read),
    // With `reveal` in the query, this and the three others that show one letter ask for `reveal` besides.
    ("GET", "/api/v1/dead-letters/{id}", Permission::Read),
    ("GET", "/api/v1/dead-letters/{id}/body", Permission::Read),
    ("POST", "/api/v1/dead-letters/resolve", Permission::Decide),
    ("POST", "/api/v1/dead-letters/discard", Permission::Decide),
    ("POST", "/api/v1/dead-letters/reopen", Permission::Decide),
    ("POST", "/api/v1/dead-letters/hold", Permission::Decide),
    ("POST", "/api/v1/dead-letters/release", Permission::Decide),
    ("POST", "/api/v1/dead-letters/delete", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/resolve", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/discard", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/reopen", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/hold", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/release", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/delete", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/restore", Permission::Decide),
    ("POST", "/api/v1/dead-letters/{id}/retry", Permission::Decide),
    ("GET", "/api/v1/dead-letters/{id}/edits", Permission::Read),
    ("GET", "/api/v1/operations/{id}", Permission::Read),
    ("GET", "/api/v1/archive", Permission::Read),
    ("POST", "/api/v1/archive/restore", Permission::Decide),
    ("GET", "/api/v1/archive/files", Permission::Read),
    // It reads every file, which nobody who only looks should cause.
    ("POST", "/api/v1/archive/verify", Permission::Decide),
    ("GET", "/api/v1/archive/{id}", Permission::Read),
    ("GET", "/api/v1/archive/{id}/body", Permission::Read),
    ("POST", "/api/v1/archive/{id}/restore", Permission::Decide),
    ("GET", "/api/v1/holds", Permission::Read),
    ("POST", "/api/v1/holds", Permission::Decide),
    ("GET", "/api/v1/holds/{id}", Permission::Read),
    ("POST", "/api/v1/holds/{id}/release", Permission::Decide),
    ("GET", "/api/v1/stats", Permission::Read),
    ("GET", "/api/v1/ledger", Permission::Read),
    ("GET", "/api/v1/incidents", Permission::Read),
    ("GET", "/api/v1/incidents/{id}", Permission::Read),
    ("GET", "/api/v1/incidents/{id}/rca.md", Permission::Read),
    ("POST", "/api/v1/incidents/{id}/rca", Permission::Decide),
    // A fix of the kind `decision` asks for `approve` besides.
    ("POST", "/api/v1/incidents/{id}/fix", Permission::Decide),
    ("POST", "/api/v1/incidents/{id}/close", Permission::Decide),
    ("POST", "/api/v1/incidents/{id}/assign", Permission::Decide),
    ("POST", "/api/v1/incidents/{id}/notes", Permission::Decide),
    ("POST", "/api/v1/redrives/plan", Permission::Decide),
    // To break the glass asks for `administer` besides.
    ("POST", "/api/v1/redrives", Permission::Decide),
    ("GET", "/api/v1/redrives", Permission::Read),
    ("GET", "/api/v1/redrives/{id}", Permission::Read),
    ("GET", "/api/v1/redrives/{id}/letters", Permission::Read),
    ("GET", "/api/v1/redrives/{id}/series", Permission::Read),
    ("POST", "/api/v1/redrives/{id}/letters/{letter}/settle", Permission::Decide),
    ("POST", "/api/v1/redrives/{id}/pause", Permission::Decide),
    ("POST", "/api/v1/redrives/{id}/resume", Permission::Decide),
    ("POST", "/api/v1/redrives/{id}/cancel", Permission::Decide),
    ("POST", "/api/v1/redrives/{id}/pace", Permission::Decide),
    ("POST", "/api/v1/receipts", Permission::Report),
    ("GET", "/api/v1/sources", Permission::Read),
    ("GET", "/api/v1/sources/{name}", Permission::Read),
    ("GET", "/api/v1/sources/{name}/check", Permission::Read),
    ("GET", "/api/v1/sources/{name}/topology", Permission::Read),
    ("POST", "/api/v1/sources/{name}/topology", Permission::Administer),
    ("GET", "/api/v1/sources/{name}/queues", Permission::Read),
    ("POST", "/api/v1/dead-letters/{id}/put-back", Permission::Decide),
    ("GET", "/api/v1/series", Permission::Read),
    ("GET", "/api/v1/suggest", Permission::Read),
    ("GET", "/api/v1/progress", Permission::Read),
    // It gives letters out whole, with all that is masked elsewhere.
    ("GET", "/api/v1/export", Permission::Administer),
    ("POST", "/api/v1/import", Permission::Administer),
    ("GET", "/api/v1/rules/replay", Permission::Read),
    ("POST", "/api/v1/rules/replay/{name}/enable", Permission::Decide),
    ("POST", "/api/v1/rules/replay/{name}/disable", Permission::Decide),
    ("GET", "/api/v1/alerts", Permission::Read),
    ("POST", "/api/v1/alerts/test", Permission::Decide),
    ("POST", "/api/v1/alerts/{id}/acknowledge", Permission::Decide),
    ("GET", "/api/v1/silences", Permission::Read),
    ("POST", "/api/v1/silences", Permission::Decide),
    ("DELETE", "/api/v1/silences/{id}", Permission::Decide),
    ("GET", "/api/v1/notifications", Permission::Read),
    ("GET", "/api/v1/retention", Permission::Read),
    // To prune asks for `decide` besides; a dry run does not.
    ("POST", "/api/v1/prune", Permission::Decide),
    ("GET", "/api/v1/audit", Permission::Read),
    ("GET", "/api/v1/audit/verify", Permission::Read),
    ("GET", "/api/v1/events", Permission::Read),
    ("GET", "/api/v1/tokens", Permission::Administer),
    ("POST", "/api/v1/tokens", Permission::Administer),
    ("DELETE", "/api/v1/tokens/{id}", Permission::Administer),
    ("GET", "/ojs/manifest", Permission::Open),
    ("GET", "/ojs/v1/health", Permission::Open),
    ("POST", "/ojs/v1/jobs", Permission::Report),
    ("POST", "/ojs/v1/jobs/batch", Permission::Report),
    ("GET", "/ojs/v1/jobs/{id}", Permission::Read),
    ("DELETE", "/ojs/v1/jobs/{id}", Permission::Decide),
    ("POST", "/ojs/v1/jobs/{id}/activate", Permission::Report),
    ("POST", "/ojs/v1/workers/fetch", Permission::Report),
    ("POST", "/ojs/v1/workers/ack", Permission::Report),
    ("POST", "/ojs/v1/workers/nack", Permission::Report),
    ("POST", "/ojs/v1/workers/ack/batch", Permission::Report),
    ("POST", "/ojs/v1/workers/nack/batch", Permission::Report),
    ("POST", "/ojs/v1/workers/heartbeat", Permission::Report),
    ("GET", "/ojs/v1/queues", Permission::Read),
    ("GET", "/ojs/v1/queues/{name}/stats", Permission::Read),
    ("POST", "/ojs/v1/queues/{name}/pause", Permission::Decide),
    ("POST", "/ojs/v1/queues/{name}/resume", Permission::Decide),
    ("GET", "/ojs/v1/events", Permission::Read),
    ("GET", "/ojs/v1/admin/stats", Permission::Read),
    ("GET", "/ojs/v1/admin/queues", Permission::Read),
    ("GET", "/ojs/v1/admin/queues/{name}", Permission::Read),
    ("POST", "/ojs/v1/admin/queues/{name}/pause", Permission::Decide),
    ("POST", "/ojs/v1/admin/queues/{name}/resume", Permission::Decide),
    ("GET", "/ojs/v1/admin/workers", Permission::Read),
    ("POST", "/ojs/v1/admin/workers/{id}/quiet", Permission::Decide),
    ("POST", "/ojs/v1/admin/workers/{id}/terminate", Permission::Decide),
    ("POST", "/ojs/v1/admin/workers/{id}/resume", Permission::Decide),
    ("GET", "/ojs/v1/admin/jobs", Permission::Read),
    ("POST", "/ojs/v1/admin/jobs/{id}/cancel", Permission::Decide),
    ("GET", "/ojs/v1/admin/jobs/{id}", Permission::Read),
    ("GET", "/ojs/v1/dead-letter", Permission::Read),
    ("DELETE", "/ojs/v1/dead-letter", Permission::Decide),
    ("POST", "/ojs/v1/dead-letter/purge", Permission::Decide),
    ("DELETE", "/ojs/v1/dead-letter/{id}", Permission::Decide),
    ("GET", "/ojs/v1/dead-letter/stats", Permission::Read),
    ("GET", "/ojs/v1/dead-letter/{id}", Permission::Read),
    ("POST", "/ojs/v1/dead-letter/retry", Permission::Decide),
    ("POST", "/ojs/v1/dead-letter/{id}/retry", Permission::Decide),
    ("GET", "/ojs/v1/admin/dead-letter", Permission::Read),
    ("DELETE", "/ojs/v1/admin/dead-letter", Permission::Decide),
    ("POST", "/ojs/v1/admin/dead-letter/purge", Permission::Decide),
    ("DELETE", "/ojs/v1/admin/dead-letter/{id}", Permission::Decide),
    ("GET", "/ojs/v1/admin/dead-letter/stats", Permission::Read),
    ("GET", "/ojs/v1/admin/dead-letter/{id}", Permission::Read),
    ("POST", "/ojs/v1/admin/dead-letter/retry", Permission::Decide),
    ("POST", "/ojs/v1/admin/dead-letter/{id}/retry", Permission::Decide),
    ("POST", "/test/reset", Permission::Administer),
];

/// The table by method and route: every request asks.
static BY_ROUTE: LazyLock<HashMap<(&str, &str), Permission>> = LazyLock::new(|| {
    PERMISSIONS.iter().map(|(method, route, permission)| ((*method, *route), *permission)).collect()
});

/// What a route asks for; nothing is known about routes that are not in the table.
pub fn permission(method: &str, route: &str) -> Option<Permission> {
    let method = if method == "HEAD" { "GET" } else { method };
    BY_ROUTE.get(&(method, route)).copied()
}

/// The table for `docs/reference/access.md`.
pub fn table() -> String {
    let mut text = String::from("| route | asks for |");
    for role in Role::ALL {
        text.push_str(&format!(" {} |", role.name()));
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(Role::ALL.len()));
    text.push('\n');
    for (method, route, permission) in PERMISSIONS {
        text.push_str(&format!("| `{method} {route}` | {} |", permission.name()));
        for role in Role::ALL {
            text.push_str(if role.may(*permission) { " yes |" } else { " – |" });
        }
        text.push('\n');
    }
    text
}

/// Who a request comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub name: String,
    pub role: Role,
    /// By which token: names are not unique. Nothing for who was let in without one.
    pub token: Option<TokenId>,
}

/// Why a request is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    NoToken,
    UnknownToken,
}

/// The tokens in force, kept in memory because every request asks; the store stays the truth.
#[derive(Debug, Default)]
pub struct Access {
    tokens: RwLock<Arc<Tokens>>,
    /// Hash of the key that lies in the data folder. It makes tokens and opens nothing else.
    folder_key: OnceLock<[u8; 32]>,
}

#[derive(Debug, Default)]
struct Tokens {
    /// By hash; only those in force.
    holders: HashMap<[u8; 32], Holder>,
    /// Whether a token was ever made: a revoked one counts.
    ever_made: bool,
}

/// Whose a token is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub token: TokenId,
    pub caller: Caller,
}

/// From where a request can come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Only from this machine: let in without a token until the first token is made.
    Loopback,
    /// From other machines too, directly or through a proxy: a token is required.
    Abroad,
}

/// Headers that proxies add. A proxy on this machine connects from loopback on behalf of anyone.
const PROXY_HEADERS: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

impl Reach {
    /// Returns `Abroad` if the server listens on another address than loopback, or names a host that only a proxy can
    /// stand for.
    pub fn of_config(config: &Config) -> Reach {
        let hosts = config.allowed_hosts.iter().map(String::as_str).chain([config.listen.as_str()]);
        Reach::if_loopback(hosts.into_iter().all(|host| is_loopback(host_of(host))))
    }

    /// Returns `Abroad` unless the server is reachable from this machine only and the request shows no trace of a proxy.
    pub fn of_request(config: &Config, host: &str, headers: &HeaderMap) -> Reach {
        let direct = !PROXY_HEADERS.iter().any(|name| headers.contains_key(*name));
        let local = Reach::of_config(config) == Reach::Loopback && is_loopback(host_of(host));
        Reach::if_loopback(direct && local)
    }

    const fn if_loopback(loopback: bool) -> Reach {
        if loopback { Reach::Loopback } else { Reach::Abroad }
    }
}

impl Access {
    /// Reads the tokens anew: at the start, after a change, and now and then because another instance may change them.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut tokens = Tokens::default();
        for token in store.tokens().await? {
            let Some(role) = Role::parse(&token.role) else {
                return Err(StoreError::Corrupt(format!(
                    "token {} has the unknown role `{}`",
                    token.id, token.role
                )));
            };
            tokens.ever_made = true;
            if token.revoked_at.is_none() {
                let caller = Caller { name: token.name, role, token: Some(token.id) };
                tokens.holders.insert(token.hash, Holder { token: token.id, caller });
            }
        }
        *self.tokens.write().unwrap_or_else(|broken| broken.into_inner()) = Arc::new(tokens);
        Ok(())
    }

    /// Returns true if a request of this reach is let in without a token: no token was ever made.
    pub fn is_open(&self, reach: Reach) -> bool {
        reach == Reach::Loopback && !self.current().ever_made
    }

    pub fn has_tokens(&self) -> bool {
        !self.current().holders.is_empty()
    }

    /// Finds out who a request comes from, by the token it carries.
    pub fn admit(&self, token: Option<&str>, reach: Reach) -> Result<Caller, Denied> {
        if self.is_open(reach) {
            return Ok(Caller { name: "local".into(), role: Role::Admin, token: None });
        }
        let token = token.ok_or(Denied::NoToken)?;
        self.holder(&hash(token)).map(|holder| holder.caller).ok_or(Denied::UnknownToken)
    }

    /// Takes the key that was written to the data folder; only the first one counts.
    pub(crate) fn set_folder_key(&self, key: &str) {
        self.folder_key.get_or_init(|| hash(key));
    }

    /// Returns who holds the key of the data folder, if this is it. Reading the folder proves ownership of the store, so
    /// its holder may make the token that everybody else needs.
    pub(crate) fn admit_by_folder_key(&self, key: &str) -> Option<Caller> {
        let known = self.folder_key.get()? == &hash(key);
        known.then(|| Caller { name: COMMAND_LINE.into(), role: Role::Admin, token: None })
    }

    /// Whose token has this hash, if it is in force. Sessions are asked for in this way with every request: one does not
    /// outlive its token.
    pub fn holder(&self, hash: &[u8; 32]) -> Option<Holder> {
        self.current().holders.get(hash).cloned()
    }

    /// Whether someone who was let in still would be: a connection that stays open must not outlive its token.
    pub fn still_admits(&self, caller: &Caller) -> bool {
        let tokens = self.current();
        match caller.token {
            None => !tokens.ever_made,
            Some(_) => tokens.holders.values().any(|known| known.caller == *caller),
        }
    }

    fn current(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.read().unwrap_or_else(|broken| broken.into_inner()))
    }
}

/// How the hint of a 401 begins while nobody could have a token; the rest says how the first one is made.
pub const NO_TOKEN_IN_FORCE: &str = "no token exists";

/// Who makes tokens on the server's own machine, as the audit log names them.
pub(crate) const COMMAND_LINE: &str = "command line";

/// Tokens are kept and looked up by this alone: 256 random bits need no slower hash.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests;
