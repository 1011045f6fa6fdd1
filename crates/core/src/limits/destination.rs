//! Limits of what is sent to destinations.

use super::{CLAIM_LEASE_MS, CLAIM_LEASE_MS_MIN, CLAIM_SLACK_MS};

/// How long one letter may take from the connection to the end of the answer, unless set.
pub const DESTINATION_MS: u64 = 30_000;

/// At most: a claim runs out after a minute unless set, and by then its letter must not be under way any more.
pub const DESTINATION_MS_MAX: u64 = 50_000;

/// How long a letter waits for a free connection; with the longest sending it stays below the lease.
pub const DESTINATION_WAIT_MS: u64 = 5_000;

const _: () = assert!(DESTINATION_WAIT_MS + DESTINATION_MS_MAX + CLAIM_SLACK_MS <= CLAIM_LEASE_MS);
const _: () = assert!(DESTINATION_WAIT_MS + CLAIM_SLACK_MS < CLAIM_LEASE_MS_MIN);

/// How long a connection may take to be made; never more than half of the whole, because a time-out of the whole is
/// not known to have been one of the connection.
pub const DESTINATION_CONNECT_MS_MAX: u64 = 5_000;

/// How long an unused connection is kept. Receivers close theirs after 2 s (gunicorn), 5 s (Node, Apache) or later: a
/// letter written to one that is just being closed would be unknown.
pub const DESTINATION_IDLE_MS: u64 = 1_500;

/// Letters on their way to one destination at once, unless set, and at most.
pub const DESTINATION_CONNECTIONS: usize = 32;
pub const DESTINATION_CONNECTIONS_MAX: usize = 1_024;

/// Characters of a secret that signs: fewer can be guessed.
pub const DESTINATION_SECRET_CHARS_MIN: usize = 16;

/// Bytes of an answer that are kept with the attempt: a message, not a page.
pub const ANSWER_BYTES_KEPT: usize = 2 * 1024;

/// Bytes of an answer that are read. Whoever says more has said enough: the connection is closed.
pub const ANSWER_BYTES_READ_MAX: usize = 64 * 1024;

/// Bytes of original headers that are passed on, names and values: most receivers take 8 KiB of each, and 64 KiB in all.
pub const HEADERS_PASSED_BYTES_MAX: usize = 32 * 1024;
