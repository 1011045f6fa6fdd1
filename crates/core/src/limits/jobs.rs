//! Limits of jobs, their workers, and the rules that replay them.

use super::ATTEMPTS_MAX;

/// Jobs that a store remembers after it handed them to workers, so that the end of a run need not begin with a read: as
/// many as are out at once in most places, and no more memory than a few large requests take.
pub const HANDED_JOBS_MAX: usize = 8_192;
pub const HANDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of one job as it is enqueued: what the specification recommends, and about what brokers allow.
pub const JOB_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a job's `meta`: it travels with every event and answer, and belongs to tracing, not to the payload.
pub const JOB_META_BYTES_MAX: usize = 64 * 1024;

/// Depth of a job's JSON: readers of answers stop at 128, and a job stands a few levels deep in them.
pub const JOB_DEPTH_MAX: usize = 100;

/// Bytes of a job's type and of its queue's name, as the specification says.
pub const JOB_TYPE_BYTES_MAX: usize = 255;
pub const JOB_QUEUE_BYTES_MAX: usize = 128;

/// A job's priority goes from minus this to this.
pub const JOB_PRIORITY_MAX: i64 = 100;

/// Attempts that a job may ask for: what the stores' integers hold. A client that means "for ever" writes such numbers.
pub const JOB_ATTEMPTS_MAX: u32 = i32::MAX as u32;

/// Failures that a job carries along, the newest; the letters of its deaths keep theirs.
pub const JOB_ERRORS_MAX: usize = ATTEMPTS_MAX;

/// How long a job may run, and how long a worker holds one without a sign of life, unless the job says otherwise.
pub const JOB_TIMEOUT_MS: u64 = 1_800_000;
pub const JOB_VISIBILITY_MS: u64 = 30_000;

/// The longest that a job may run, be held or be put off: a year. What waits longer is forgotten.
pub const JOB_WAIT_MS_MAX: u64 = 365 * 86_400_000;

/// Frames and characters of a backtrace in an OJS answer; the whole one is with the letter.
pub const JOB_BACKTRACE_FRAMES_SHOWN: usize = 50;
pub const JOB_BACKTRACE_CHARS_SHOWN: usize = 10_000;

/// Bytes of an error's message and of its backtrace that a job keeps: a thousand frames fit, a core dump does not.
pub const JOB_MESSAGE_BYTES_MAX: usize = 64 * 1024;
pub const JOB_BACKTRACE_BYTES_MAX: usize = 256 * 1024;

/// Jobs that one fetch hands out, and queues that it may name: a worker runs some dozens at a time, and each queue is
/// looked into by itself.
pub const JOB_FETCH_MAX: usize = 1_000;
pub const JOB_FETCH_QUEUES_MAX: usize = 100;

/// Jobs of one batch, which is one commit: as many as a write of decisions moves.
pub const JOB_BATCH_MAX: usize = 1_000;

/// How often a change of a job is tried anew because another one came first. Few ever speak about one job.
pub const JOB_CHANGE_TRIES_MAX: usize = 10;

/// Jobs that one tick promotes, takes back or ends: their commits share the writer with capture.
pub const JOBS_DUE_PER_TICK: usize = 200;

/// Changes of jobs that one request has under way: they share commits.
pub const JOB_CHANGES_AT_ONCE: usize = 32;

/// Characters of an error's message in an event, which goes to every reader.
pub const JOB_EVENT_MESSAGE_CHARS: usize = 500;

/// Rows of a page for OJS clients at most, of an admin page unless asked and at most, and the farthest offset: rows that
/// are skipped are read, and a cursor skips none.
pub const OJS_PAGE_ROWS_MAX: usize = 1_000;
pub const OJS_ADMIN_ROWS: usize = 20;
pub const OJS_ADMIN_ROWS_MAX: usize = 100;
pub const OJS_OFFSET_MAX: usize = 100_000;

/// Pages that one list for OJS clients looks into letters for until their time is over, so that it is full.
pub const OJS_SCANS_MAX: u32 = 4;

/// Jobs that one page of the list of jobs looks at, read so many at a time: each is read whole.
pub const OJS_JOBS_LOOKED_AT_MAX: usize = 10_000;
pub const OJS_JOBS_PER_READ: usize = 200;

/// Events that the throughput is counted from, when there were more within a minute.
pub const OJS_THROUGHPUT_EVENTS_MAX: usize = 5_000;

/// Jobs that one bulk call puts back or deletes, and failures that its answer lists.
pub const OJS_BULK_MAX: u64 = 10_000;
pub const OJS_BULK_ERRORS_SHOWN: usize = 100;

/// Events of one poll unless asked, and at most.
pub const OJS_EVENTS: usize = 100;
pub const OJS_EVENTS_MAX: usize = 1_000;

/// Jobs that one heartbeat prolongs: ten times what a busy worker holds.
pub const JOB_HEARTBEAT_JOBS_MAX: usize = 10_000;

/// Workers that are known at once: a hundred machines with a hundred processes each. Names that are made up for each
/// heartbeat must not fill the store: the ones that were silent longest are forgotten first, some at once.
pub const WORKERS_MAX: usize = 10_000;
pub const WORKERS_FORGOTTEN_WHEN_FULL: usize = 500;

/// Workers that are listed.
pub const WORKERS_SHOWN_MAX: usize = 1_000;

/// Bytes of what a worker says of itself that nobody asked for, and queues that are kept of it.
pub const WORKER_SAID_BYTES_MAX: usize = 4 * 1024;
pub const WORKER_QUEUES_MAX: usize = 100;

/// How long the last heartbeat of a worker that says nothing new is good enough: it is no news a second later.
pub const WORKER_BEAT_KEPT_MS: i64 = 1_000;

/// Jobs that one page looks at when no index answers its filter: some twenty milliseconds.
pub const JOBS_LOOKED_AT_MAX: usize = 10_000;

/// Letters that one look of a replay rule goes through, and how long it may look into their content.
pub const REPLAY_LETTERS_LOOKED_AT_MAX: usize = 20_000;
pub const REPLAY_SCAN_MS_MAX: u64 = 200;

/// Deaths this young may still be committed out of order, so a replay rule looks at them again.
pub const REPLAY_UNSETTLED_MS: i64 = 60_000;

/// How often a replay rule goes through all letters again, for what came to wait where it had passed already.
pub const REPLAY_ROUND_MS: i64 = 600_000;

/// Rules whose place is remembered, and letters that a rule passes over until its next round because they could not be
/// put back.
pub const REPLAY_RULES_REMEMBERED_MAX: usize = 1_000;
pub const REPLAY_LETTERS_PASSED_MAX: usize = 10_000;

/// A worker that was silent for so long is dead: six heartbeats of the pace that the specification recommends.
pub const WORKER_SILENT_MS: i64 = 30_000;

/// How long a worker that is gone is still shown: whoever comes in the morning sees what died in the night.
pub const WORKER_KEEP_MS: i64 = 86_400_000;

/// Dead workers that one tick looks at.
pub const WORKERS_DEAD_PER_TICK: usize = 100;

/// Workers that are forgotten in one commit.
pub const WORKERS_FORGOTTEN_PER_WRITE: usize = 500;

/// How long ended jobs that are not in the dead letter are kept, for whoever asks what became of them.
pub const JOB_KEEP_COMPLETED_MS: i64 = 86_400_000;
pub const JOB_KEEP_CANCELLED_MS: i64 = 7 * 86_400_000;
pub const JOB_KEEP_DISCARDED_MS: i64 = 7 * 86_400_000;

/// The longest that an operator can have ended jobs kept: ten years. What has to be kept longer belongs elsewhere.
pub const JOB_KEEP_MS_MAX: u64 = 3_652 * 86_400_000;

/// How many dead letters of jobs the specification keeps unless something else is set.
pub const OJS_DEAD_LETTERS_KEPT: u64 = 10_000;

/// Incidents that are named when a retry of many is refused for want of their analysis.
pub const OJS_INCIDENTS_NAMED: usize = 10;

/// Ended jobs that are forgotten in one commit.
pub const JOBS_PRUNED_PER_WRITE: usize = 500;

/// Replay rules: each asks the store every few seconds.
pub const REPLAY_RULES_MAX: usize = 100;

/// Characters of a replay rule's name: it stands in events, metrics and the audit log.
pub const RULE_NAME_CHARS_MAX: usize = 64;

/// How often one rule may put one letter back at most: more is a loop, and not a rule.
pub const REPLAYS_MAX: u32 = 1_000;

/// The longest delay of a replay rule: a year. What waits longer is forgotten.
pub const REPLAY_DELAY_MS_MAX: u64 = 365 * 86_400_000;

/// Letters that a rule puts back in one commit, which holds the writer for some ten milliseconds.
pub const REPLAYS_PER_WRITE: usize = 200;
