//! Limits of sessions, and of guessing at the door.

/// How long a session lasts: a working day and what comes after it. Who is there longer signs in again.
pub const SESSION_MS: i64 = 12 * 3_600_000;

/// Sessions of one token: a person has a few browsers. A program that signs in again and again must not fill the store,
/// so the oldest gives way.
pub const SESSIONS_PER_TOKEN_MAX: usize = 50;

/// Sessions that are over and dropped in one commit.
pub const SESSIONS_DROPPED_PER_WRITE: usize = 500;

/// Wrong tokens from one address in so much time before it has to wait: a person mistakes a token twice or three times,
/// and then looks where it is written down.
pub const WRONG_TOKENS_MAX: usize = 5;
pub const WRONG_TOKENS_WITHIN_MS: i64 = 300_000;

/// How long an address has to wait after a wrong token too many. No longer, because many people may share an address.
pub const LOCK_OUT_MS: i64 = 60_000;

/// Wrong tokens from all addresses in the same time before everybody who is not signed in has to wait: forty people who
/// are all mistaken at once, or somebody with many addresses. It also bounds what is remembered of them.
pub const WRONG_TOKENS_IN_ALL_MAX: usize = 200;

/// How long a browser keeps what it was told about the colours of pages: a year.
pub const THEME_KEPT_S: u64 = 31_536_000;
