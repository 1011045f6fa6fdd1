//! Limits of sources, and of the outbox in an application's database.

/// The longest pause before a lost source is tried again: an operator who repairs it does not wait longer.
pub const SOURCE_RETRY_MS_MAX: u64 = 30_000;

/// How long one call waits for messages: whoever calls looks for a shutdown in between.
pub const SOURCE_NEXT_MS_MAX: u64 = 5_000;

/// The pause before a message that was given back comes again, and the longest after repetitions: a store that is down is
/// not asked in a tight loop, and one that is back does not wait long.
pub const SOURCE_RELEASE_MS: u64 = 500;
pub const SOURCE_RELEASE_MS_MAX: u64 = 30_000;

/// The span over which the growth of a dead-letter queue is averaged.
pub const SOURCE_GROWTH_MS: u64 = 300_000;

/// Connections to an application's database, shared by redrive, relay and looks: it has others to serve.
pub const OUTBOX_CONNECTIONS_MAX: usize = 4;

/// How long one statement there may take, and how long it may wait for a lock: redrives have to end well before their
/// claims do.
pub const OUTBOX_STATEMENT_MS_MAX: u64 = 20_000;
/// How long we wait for an answer: longer than the server may take for it, so that it says itself what went wrong.
pub const OUTBOX_ANSWER_MS_MAX: u64 = 23_000;
pub const OUTBOX_LOCK_MS_MAX: u64 = 5_000;

/// Rows handed over at once, and the bytes of their payloads: one batch of a capture.
pub const OUTBOX_ROWS_MAX: usize = 200;
pub const OUTBOX_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What a payload of unknown size is taken for.
pub const OUTBOX_PAYLOAD_BYTES_GUESSED: u64 = 64 * 1024;

/// Keys of dead rows that are looked at in one statement.
pub const OUTBOX_SWEEP_ROWS: i64 = 2_000;

/// Keys that one notification names, and its bytes: PostgreSQL takes 8,000. Beyond it says only that there are some.
pub const OUTBOX_NOTE_ROWS_MAX: usize = 100;
pub const OUTBOX_NOTE_BYTES_MAX: usize = 7_000;

/// Redriven rows of one outbox whose outcome is awaited, of which the relay's deliveries are remembered.
pub const OUTBOX_AWAITED_MAX: usize = 200_000;

/// Keys that were noted and not yet fetched; beyond, a sweep finds them.
pub const OUTBOX_NOTED_MAX: usize = 10_000;

/// Dead rows that are remembered as acknowledged, some 40 bytes each. The rest is offered again by each sweep, which
/// costs time and changes nothing.
pub const OUTBOX_ROWS_REMEMBERED_MAX: usize = 500_000;

/// How often all dead rows are looked at where a trigger tells of new ones, and where nothing does.
pub const OUTBOX_SWEEP_MS: u64 = 60_000;
pub const OUTBOX_POLL_MS: u64 = 5_000;

/// Rows whose status is asked for at once.
pub const OUTBOX_STATUSES_MAX: usize = 1_000;

/// Bytes of a row beside its payload that are kept with the letter; of a longer one only what is mapped.
pub const OUTBOX_ROW_BYTES_MAX: usize = 256 * 1024;

/// Rows that a relay claims at once, unless set and at most, and deliveries under way.
pub const RELAY_BATCH: usize = 200;
pub const RELAY_BATCH_MAX: usize = 5_000;
pub const RELAY_CONCURRENCY: usize = 16;
pub const RELAY_CONCURRENCY_MAX: usize = 1_024;

/// How long a claimed row is a relay's own, unless set: after that it is taken for stuck. No less than a delivery takes.
pub const RELAY_STUCK_MS: u64 = 120_000;
pub const RELAY_STUCK_MS_MIN: u64 = 1_000;

/// How often a relay looks for due rows that nothing told it of.
pub const RELAY_POLL_MS: u64 = 1_000;

/// Bytes of an error that are written into a row: a message, and not a page.
pub const RELAY_ERROR_BYTES_MAX: usize = 4 * 1024;

/// Rows that are counted for the doctor before it says "at least".
pub const OUTBOX_COUNT_MAX: i64 = 10_000;

/// How long the failed deliveries of a row are kept that is neither delivered nor captured again: as long as the floor of
/// retention, 90 days.
pub const RELAY_TRIES_KEPT_MS: i64 = 90 * 86_400_000;
/// Events of one aggregate that a relay claims at once: enough to outweigh the cost of a claim, few enough that giving them
/// back behind a failure is cheap.
pub const RELAY_LANE_ROWS_MAX: usize = 100;

/// Aggregates that one statement of a claim visits, and one claim in all: beyond that the next claim goes on.
pub const RELAY_HEADS_PAGE_MIN: usize = 50;
pub const RELAY_HEADS_PAGE_MAX: usize = 2_000;
pub const RELAY_HEADS_VISITED_MAX: usize = 20_000;

/// KiB of payloads above 16 KiB that one relay holds in memory; a larger payload is delivered alone.
pub const RELAY_LARGE_BODIES_KIB_MAX: u32 = 32 * 1024;

/// Rows that the database refuses to change: how many are left out of claims, and for how long.
pub const RELAY_REFUSED_ROWS_MAX: usize = 1_000;
pub const RELAY_REFUSED_MS: u64 = 600_000;
