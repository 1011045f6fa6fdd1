//! What an instance may take of the database that it shares with others, and how long it waits for it.

/// Connections of one instance to PostgreSQL that read: a server takes a hundred by default, shared by all instances.
pub const POSTGRES_READERS_MAX: usize = 8;

/// How long one connection may take to be made; a server that is there answers in a tenth.
pub const POSTGRES_CONNECT_MS_MAX: u64 = 5_000;

/// How long a server may answer nothing at all, not even to the network, before its connections are given up.
pub const POSTGRES_SILENCE_MS_MAX: u64 = 12_000;

/// How far an instance's clock may be off the database's before it warns: times are put right, but what the machine
/// says in its own log is not.
pub const CLOCK_OFF_MS_MAX: i64 = 5_000;

/// How often it is asked how far the clocks are apart; good clocks drift by less than a millisecond in that time.
pub const CLOCK_CHECK_MS: u64 = 60_000;

/// How often the clocks are compared each time; the quickest answer counts.
pub const CLOCK_SAMPLES: usize = 3;

/// How long a month may have passed before its partition is taken away if it is empty: an instance whose clock is late
/// still finds its own. Two months.
pub const EMPTY_MONTH_KEPT_MS: i64 = 62 * 86_400_000;

/// How long one statement of a write may take, and how long it may wait for somebody else's lock.
pub const POSTGRES_WRITE_MS_MAX: u64 = 60_000;
pub const POSTGRES_LOCK_MS_MAX: u64 = 30_000;

/// How long one statement of a capture or a decision may take: whoever sent it waits for the answer.
pub const POSTGRES_QUICK_WRITE_MS_MAX: u64 = 20_000;

/// How much longer than the server's own limit a client waits for an answer: then the server says what went wrong, and
/// only a connection that answers nothing runs into the client's limit.
pub const POSTGRES_ANSWER_MARGIN_MS: u64 = 2_000;

/// How many statements at their limit one operation may take: a transaction does not go on for ever by being slow.
pub const POSTGRES_OPERATION_STATEMENTS: u32 = 3;

/// How long a readiness check waits for the store: those who ask give up after seconds.
pub const READY_MS_MAX: u64 = 5_000;

/// How long a transaction may stand still before the server ends it: an instance that hangs must not hold up the others.
pub const POSTGRES_IDLE_MS_MAX: u64 = 30_000;

/// Pause before a lost connection is made again.
pub const POSTGRES_RETRY_MS: u64 = 500;

/// Rows and bytes of them that travel together when a store is copied: a few batches are in memory at once.
pub const COPY_ROWS_PER_BATCH: usize = 1_000;
pub const COPY_BYTES_PER_BATCH: usize = 4 * 1024 * 1024;
