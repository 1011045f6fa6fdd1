//! Limits of analyses and redrives.

/// Characters of the cause and of the remedy in an analysis: some pages, not a log.
pub const RCA_TEXT_CHARS_MAX: usize = 20_000;

/// Revisions of one analysis: whoever writes more has another incident.
pub const RCA_REVISIONS_MAX: u32 = 1_000;

/// Characters of the reference of a fix: an address with room to spare.
pub const FIX_REFERENCE_CHARS_MAX: usize = 2_000;

/// How far a person's clock may be ahead of ours when they say that something has happened.
pub const CLOCK_DIFFERENCE_MS_MAX: i64 = 60_000;

/// Characters of a note on an incident, and of an assignee.
pub const NOTE_CHARS_MAX: usize = 10_000;
pub const ASSIGNEE_CHARS_MAX: usize = 200;

/// Entries of an incident's timeline that are shown, newest last.
pub const TIMELINE_ENTRIES_SHOWN: usize = 500;

/// Bytes of a body up to which an edit shows what is different: more is not read line by line.
pub const EDIT_DIFF_BYTES_MAX: usize = 256 * 1024;

/// Entries of the audit log that are linked in one commit, and that are read at once when the chain is verified: each
/// holds some kilobytes at most.
pub const AUDIT_LINKED_PER_WRITE: usize = 500;

/// How long a start or an end waits for entries of the audit log to be linked; a backlog of thousands takes less.
pub const AUDIT_LINK_ALL_MS_MAX: u64 = 5_000;
pub const AUDIT_VERIFIED_PER_READ: usize = 2_000;

/// Characters that a reason to break the glass has at least: a word is no reason.
pub const BREAK_GLASS_CHARS_MIN: usize = 20;

/// Letters a minute unless asked, and for what is critical (RULE-040-041).
pub const PACE_PER_MINUTE: u32 = 100;
pub const PACE_PER_MINUTE_CRITICAL: u32 = 1_000;

/// Letters a minute at most; who wants more says that there shall be no limit.
pub const PACE_PER_MINUTE_MAX: u32 = 1_000_000;

/// How much of a pace may be saved up while nothing is sent: after a pause a receiver must not get a minute at once.
pub const PACE_SAVED_MS_MAX: i64 = 1_000;

/// Letters claimed at once unless asked, and at most.
pub const REDRIVE_BATCH: u32 = 100;
pub const REDRIVE_BATCH_MAX: u32 = 1_000;

/// Letters on their way to one run's destinations at once unless asked, and at most.
pub const REDRIVE_CONCURRENCY: u32 = 8;
pub const REDRIVE_CONCURRENCY_MAX: u32 = 512;

/// Letters that go first and alone unless asked, and at most.
pub const CANARY_LETTERS: u32 = 5;
pub const CANARY_LETTERS_MAX: u32 = 100;

/// Letters at the head of a plan among which canaries are looked for.
pub const CANARY_CANDIDATES_MAX: usize = 1_000;

/// How long canaries may take to be verified at least.
pub const CANARY_MS_MIN: i64 = 5 * 60_000;

/// A run stops by itself when more than so many of a hundred of its last letters failed or relapsed.
pub const STOP_PERCENT: u32 = 20;
pub const STOP_OUTCOMES: u32 = 50;

/// With fewer outcomes than this, shares are counted as if there were so many: one of two is no trend.
pub const STOP_OUTCOMES_MIN: u32 = 10;

/// How long an instance that claimed letters has to begin with them, and then to send them, unless set.
pub const CLAIM_LEASE_MS: u64 = 60_000;

/// What of a lease is left for the store: a letter is on its way only after a commit.
pub const CLAIM_SLACK_MS: u64 = 1_000;

/// At least: a letter may wait for a free connection, and has to be sent after that.
pub const CLAIM_LEASE_MS_MIN: u64 = 7_000;

/// At most: what an instance that died had claimed lies for twice as long.
pub const CLAIM_LEASE_MS_MAX: u64 = 600_000;

/// Groups of one plan (incident, source and subscriber): each is judged by itself and shown.
pub const PLAN_GROUPS_MAX: usize = 10_000;

/// Letters of one plan. A larger one is two.
pub const PLAN_LETTERS_MAX: u64 = 5_000_000;

/// How long a plan may be launched: what it says of the letters grows old.
pub const PLAN_AGE_MS_MAX: i64 = 24 * 3_600_000;

/// Values that a plan shows of each dimension, largest first, and letters it shows as they would be sent.
pub const PLAN_VALUES_SHOWN: usize = 20;
pub const PLAN_SAMPLES: usize = 5;

/// Runs that one tick looks after, oldest first.
pub const REDRIVES_RUNNING_MAX: usize = 100;

/// Characters of the reason that a run keeps for a letter.
pub const OUTCOME_REASON_CHARS_MAX: usize = 500;

/// The most that a person can ask for: a bound of a hundred percent never stops, and more outcomes are no recent ones.
pub const STOP_PERCENT_MAX: u32 = 100;
pub const STOP_OUTCOMES_MAX: u32 = 1_000;

/// How long canaries may take, and a quiet window may be, at most.
pub const CANARY_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// Incidents that a refusal names.
pub const INCIDENTS_NAMED: usize = 20;

/// Bytes of a body that a plan shows of a sample.
pub const PLAN_SAMPLE_BYTES: usize = 2_000;

/// Bytes of what a destination handed out for a letter that are kept: names and numbers, far shorter than this.
pub const HANDLE_BYTES_MAX: usize = 1_024;

/// Names of headers that stay behind, as far as a sample of a plan tells them.
pub const PLAN_HEADERS_SHOWN: usize = 50;

/// Letters of one run that one look at it sends, so that tasks end now and then and see a changed configuration.
pub const REDRIVE_LETTERS_PER_LOOK: u64 = 20_000;

/// Expired claims that one look takes on.
pub const EXPIRED_CLAIMS_PER_LOOK: usize = 1_000;

/// Letters that one commit assumes to have succeeded.
pub const ASSUMED_PER_WRITE: usize = 1_000;
