//! Every limit in one place, each with its reason. A limit that an operator may change is the default of a key under
//! `[limits]`; the others are part of the contract.

mod destination;
mod outbox;
mod redrive;
mod retention;
mod shared;

pub use destination::*;
pub use outbox::*;
pub use redrive::*;
pub use retention::*;
pub use shared::*;

/// Letters in one JSON batch: one store transaction's worth, small enough to answer within a second.
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// Lines in one NDJSON stream: answers are kept until the end, so their number has to be bounded.
pub const NDJSON_LINES_MAX: usize = 10_000;

/// Bytes of one NDJSON stream; a client splits what is larger.
pub const NDJSON_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of one reported entry. Brokers allow about a megabyte (NATS 1 MiB, SQS 256 KiB), and the entry also carries
/// the history of its errors.
pub const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of one request that is not a stream: a batch of ordinary letters fits, a careless upload does not.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Depth of JSON that is read as values. Deeper originals are kept verbatim and only not looked into.
pub const JSON_DEPTH_MAX: usize = 120;

/// Attempts of one life: ten times the most patient retry policy we have seen.
pub const ATTEMPTS_MAX: usize = 1_000;

/// Bytes of the message that stand beside the letter in lists; the whole one is with the attempt.
pub const MESSAGE_BYTES_LISTED: usize = 1_024;

/// Bytes of a name by which letters are filtered: type, queue, source, subscriber, tenant, aggregate, error type and
/// code. Longer ones are kept whole in the envelope and cut here, because indexes hold them.
pub const NAME_BYTES_MAX: usize = 512;

/// Bytes of a message id. The capture key is made of it at full length; the column holds a cut copy.
pub const MESSAGE_ID_BYTES_MAX: usize = 8 * 1024;

/// Words of one letter that the message index holds, and the bytes of a word.
pub const INDEXED_WORDS_MAX: usize = 200;
pub const INDEXED_WORD_BYTES_MAX: usize = 64;

/// Bytes of a filter in its text form and values in one key: a filter is typed by a person or made by a page.
pub const FILTER_BYTES_MAX: usize = 4 * 1024;
pub const FILTER_VALUES_MAX: usize = 50;

/// Rows of a page unless asked, and at most.
pub const PAGE_ROWS: usize = 50;
pub const PAGE_ROWS_MAX: usize = 500;

/// A count that no counter answers stops here and says "at least".
pub const COUNT_ROWS_MAX: u64 = 10_000;

/// Values listed for one dimension of the statistics, largest first.
pub const STATS_VALUES_MAX: usize = 1_000;

/// Letters decided within one call; more become an operation that goes on behind it.
pub const DECISION_ROWS_INLINE_MAX: u64 = 10_000;

/// Jobs that a store remembers after it handed them to workers, so that the end of a run need not begin with a read: as
/// many as are out at once in most places, and no more memory than a few large requests take.
pub const HANDED_JOBS_MAX: usize = 8_192;
pub const HANDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Letters frozen, and letters decided, in one write: either holds the writer well below 50 ms.
pub const FREEZE_ROWS_PER_WRITE: usize = 2_000;
pub const DECISION_ROWS_PER_WRITE: usize = 250;

/// How long one write of decisions may take that move the content of letters, which may be large; it stops after the
/// letter at hand.
pub const DECISION_MS_MAX: u64 = 25;

/// The content of a letter is kept so long after its capture and its last death, whatever removes it (RULE-040-061).
pub const RETENTION_FLOOR_MS: i64 = 90 * 86_400_000;

/// Bytes of a reason or note: a paragraph.
pub const REASON_BYTES_MAX: usize = 4 * 1024;

/// Writes that may wait for the writer before callers are asked to come back later.
pub const WRITER_QUEUE_MAX: usize = 1_024;

/// Letters that one commit takes at most, so that no caller waits for a commit of unbounded size.
pub const COMMIT_LETTERS_MAX: usize = 4_096;

/// How long one read of the store may take before it is stopped and the caller is asked to narrow the filter.
pub const READ_MS_MAX: u64 = 10_000;

/// How long a request's head may take, how long its body may pause, and how long the whole may take.
pub const HEAD_MS_MAX: u64 = 10_000;
pub const BODY_PAUSE_MS_MAX: u64 = 15_000;
pub const REQUEST_MS_MAX: u64 = 120_000;

/// How long accepted requests may take to finish once a shutdown was asked for.
pub const SHUTDOWN_MS_MAX: u64 = 30_000;

/// Connections served at once: each costs some 20 KiB, and a machine of this size answers no more in time.
pub const CONNECTIONS_MAX: usize = 2_048;

/// Retries never come sooner than this: an immediate retry hits the same failure (RULE-040-013).
pub const RETRY_DELAY_MS_MIN: u64 = 100;

/// Tokens that may exist at once; they are kept in memory.
pub const TOKENS_MAX: usize = 1_000;

/// Bytes of a message that rules look at. The cause stands near the beginning; a dump behind it is hostile or useless,
/// and capture must not slow down with it. A pattern is matched against what is left after this cut.
pub const MESSAGE_BYTES_CLASSIFIED: usize = 4 * 1024;

/// Bytes of a word that may be an error's name.
pub const NAME_IN_MESSAGE_BYTES_MAX: usize = 200;

/// Names that stand one behind the other at the beginning of a message: wrapped errors, outermost first.
pub const MESSAGE_PREFIXES_MAX: usize = 4;

/// The longest delay a policy may ask for: a year. A message that waits longer is forgotten, not retried.
pub const RETRY_DELAY_MS_MAX: u64 = 365 * 86_400_000;

/// Ten thousand years: all of what `Time` can show, and well within what `Length` can read back.
pub const FILTER_LENGTH_MS_MAX: i64 = 3_652_425 * 86_400_000;

/// Bytes of one text: no name, path or pattern comes near.
pub const CONFIG_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Entries of one list: more would be written by a program, and each rule is tried on each letter.
pub const CONFIG_ENTRIES_MAX: usize = 1_000;

/// Characters of a source's name: it stands in URLs, lists and metrics.
pub const SOURCE_NAME_CHARS_MAX: usize = 64;

/// Requests are held in memory while they are read; more than this per request is not a setting but an outage.
pub const BODY_BYTES_CEILING: u64 = 256 << 20;

/// The store takes rows of up to a gigabyte, and an entry is copied a few times on its way there.
pub const ENTRY_BYTES_CEILING: u64 = 64 << 20;

/// A stream is read line by line, so it may be longer.
pub const NDJSON_BYTES_CEILING: u64 = 1 << 30;

/// Bytes of a path: people write some fifty.
pub const EVENT_PATH_BYTES_MAX: usize = 256;

/// Bytes of a configuration file: thousands of rules fit, a database given by mistake does not.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Lines of a stream that are stored together.
pub const STREAM_LINES_PER_WRITE: usize = 1_000;

/// Bytes of a stream that are stored together: bounds the memory of one request.
pub const STREAM_BYTES_PER_WRITE: usize = 4 * 1024 * 1024;

/// Bytes of a caller's own request id that are taken over.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// Up to here the letters that hold a word are fetched and sorted; beyond, they are met soon enough in order of death.
pub const WORD_ROWS_SORTED_MAX: i64 = 2_000;

/// As many as two cores can use; more would only take memory.
pub const READERS_MAX: usize = 4;

/// Bytes of a report that are read on the thread that serves it: some 20 µs.
pub const READ_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Values of one condition that are bound one by one; a statement takes some thirty thousand in all.
pub const FILTER_VALUES_BOUND_MAX: usize = 200;

/// Fingerprints of an incident that its page shows; merges by hand and new rules make more than one.
pub const INCIDENT_FINGERPRINTS_SHOWN: usize = 20;

/// Letters over which an incident's affected queues, orders and tenants are counted: some 20 ms.
pub const AFFECTED_LETTERS_MAX: usize = 10_000;
pub const AFFECTED_VALUES_MAX: usize = 10;

/// Incidents that are compared to find those that look alike, by each way of finding some.
pub const SIMILAR_CANDIDATES_MAX: usize = 100;
pub const SIMILAR_INCIDENTS_MAX: usize = 5;

/// Below this two incidents share no more than a common kind of error.
pub const SIMILAR_LIKENESS_MIN: f64 = 0.5;

/// Incidents without letters of which one commit says where these went.
pub const INCIDENTS_MERGED_PER_WRITE: usize = 500;

/// Events that are forgotten in one commit.
pub const EVENTS_PRUNED_PER_WRITE: usize = 5_000;

/// Points of lines that are forgotten in one commit.
pub const FLOWS_PRUNED_PER_WRITE: usize = 5_000;

/// How long minutes are kept; hours are kept for good.
pub const MINUTES_KEPT_MS: i64 = 8 * 86_400_000;

/// Counters that are read to suggest values of one prefix: there are as many aggregates as orders.
pub const SUGGEST_COUNTERS_MAX: usize = 5_000;

/// Newest letters that are looked at to suggest values that nothing counts.
pub const SUGGEST_LETTERS_MAX: usize = 2_000;

/// Points of one line that are read at once: two weeks by the minute.
pub const SERIES_POINTS_MAX: usize = 20_160;

/// Decisions on one letter that are shown and carried along; a letter that needs more has other problems.
pub const DECISIONS_SHOWN_MAX: usize = 1_000;

/// How long one page may look into letters one by one before it says how far it came.
pub const SCAN_MS_MAX: u64 = 1_500;

/// The same for the number of letters that goes with a page.
pub const SCAN_COUNT_MS_MAX: u64 = 20;

/// The same for a count that somebody asked for.
pub const COUNT_MS_MAX: u64 = 8_000;

/// The same for one chunk of a frozen list, during which nothing is captured.
pub const FREEZE_SCAN_MS_MAX: u64 = 25;

/// Letters that one page may look into; the time is over earlier.
pub const SCAN_LETTERS_MAX: i64 = 1_000_000;

/// Candidates that the body index may name, and lives behind it, which are candidates all: with more of them, looking
/// into letters in order fills a page sooner.
pub const CANDIDATES_MAX: i64 = 20_000;

/// Words as long as this are worth asking the body index for.
pub const TELLING_WORD_BYTES: usize = 3;

// What filters ask of the inside of letters, and how far they may look.

/// Bytes of a JSON path: ten times what people write, and what bounds the reader of it.
pub const JSON_PATH_BYTES_MAX: usize = 1_024;

/// Parentheses inside of each other in a JSON path, functions included: nobody can read more, and readers recurse.
pub const JSON_PATH_NESTING_MAX: usize = 16;

/// Steps of one JSON path on one document, a step being a node visited or some bytes compared: a body of the largest
/// size is walked through, and a hostile one ends after about a second even in a debug build.
pub const JSON_PATH_STEPS_MAX: usize = 5_000_000;

/// Steps that a pattern costs for each byte of text, on which the slowest spend a microsecond, and steps that it costs to
/// compile one that stands in the document and not in the path: about a millisecond.
pub const JSON_PATH_STEPS_PER_PATTERN_BYTE: usize = 4;
pub const JSON_PATH_STEPS_PER_PATTERN: usize = 20_000;

/// Bytes of a compiled pattern in a JSON path, and of its outline without classes. The first lets ten classes of
/// Unicode pass; the second lets some two hundred characters pass and bounds how slow each character of a text is.
pub const JSON_PATH_PATTERN_BYTES_MAX: usize = 512 * 1024;
pub const JSON_PATH_PATTERN_OUTLINE_BYTES_MAX: usize = 8 * 1024;

/// Groups inside of each other in such a pattern: its reader recurses.
pub const JSON_PATH_PATTERN_NESTING_MAX: u32 = 50;

/// Path conditions of one kind, and texts to find, in one filter: each walks through the letter once.
pub const FILTER_PATHS_MAX: usize = 10;
pub const FILTER_PARTS_MAX: usize = 10;

/// Values of a JSON document that is looked into: each takes some 50 bytes while it is.
pub const JSON_VALUES_MAX: usize = 1_000_000;

/// Bytes of a body that is looked into as JSON: as large as a reported entry may be unless configured.
pub const JSON_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Distinct words of headers and body that a letter is found by, and the bytes of text that they are taken from: a long
/// document fits, and an index stays smaller than what it is over.
pub const CONTENT_WORDS_MAX: usize = 2_000;
pub const CONTENT_TEXT_BYTES_MAX: usize = 256 * 1024;

/// Steps of one line over time: two years of hours, two weeks of minutes.
pub const SERIES_STEPS_MAX: usize = 20_000;

/// Lines of values that are named one by one: more cannot be told apart in a picture.
pub const SERIES_VALUES_MAX: usize = 20;

/// Lines of the largest values, when none is named.
pub const SERIES_LARGEST: usize = 10;

/// Suggestions unless asked, and at most: a list that is read while typing.
pub const SUGGESTIONS: usize = 10;
pub const SUGGESTIONS_MAX: usize = 100;

/// Letters that an export looks up at once, and letters that it holds whole: each may have several originals of
/// megabytes.
pub const EXPORT_LETTERS_PER_PAGE: usize = 100;
pub const EXPORT_LETTERS_PER_READ: usize = 10;

/// Letters imported in one write: holds the writer no longer than a chunk of decisions does.
pub const IMPORT_LETTERS_PER_WRITE: usize = 200;

/// Lives, attempts and decisions of one imported letter. A life is reported with a thousand attempts at most, but later
/// reports add to them; what is beyond this was not written by us.
pub const IMPORT_LIVES_MAX: usize = 1_000;
pub const IMPORT_ATTEMPTS_MAX: usize = 20_000;
pub const IMPORT_DECISIONS_MAX: usize = 10_000;

/// How far ahead another machine's clock may be before what it says is refused.
pub const CLOCKS_APART_MS_MAX: i64 = 86_400_000;

/// Readers of events that may be connected at once: each looks into the store by itself and holds what it has queued.
pub const EVENT_READERS_MAX: usize = 200;

/// How long a reader of events may leave its queue full. Who pauses longer is not reading, and comes back by itself.
pub const EVENT_READER_STALL_MS_MAX: u64 = 10_000;

/// Events read at once for one reader, and batches that wait until it takes them: some 500 KiB at worst, so that all
/// readers together stay below a hundred megabytes.
pub const EVENTS_PER_READ: usize = 100;
pub const EVENT_BATCHES_QUEUED: usize = 2;

/// How often a reader hears that the connection stands: proxies cut what is silent for half a minute.
pub const EVENT_BEAT_MS: u64 = 15_000;

/// How long a reader waits before it looks by itself: another instance may have written what nothing here announced.
pub const EVENT_LOOK_MS_MAX: u64 = 3_000;

/// How long a reader that has seen everything rests between two looks. Capture commits hundreds of times a second, and
/// nobody reads that fast.
pub const EVENT_REST_MS: u64 = 50;

/// Events left out by a filter before the reader is told that its place has moved: it would look at them again if the
/// connection broke.
pub const EVENTS_LEFT_OUT_MAX: u64 = 2_000;

/// Events that one poll looks at; the answer says where the next one goes on.
pub const EVENTS_PER_POLL_MAX: usize = 5_000;

/// Patterns for the kinds of events in one request.
pub const EVENT_KINDS_MAX: usize = 50;

/// Events that are kept unless configured, and the ends between which that can be set. Fewer than the floor and a
/// reader that reconnects has lost its place; at the ceiling they take some 20 GB.
pub const EVENTS_KEPT: u64 = 1_000_000;
pub const EVENTS_KEPT_FLOOR: u64 = 1_000;
pub const EVENTS_KEPT_CEILING: u64 = 100_000_000;

/// How long a client may take no byte of its answer before its connection is cut.
pub const WRITE_MS_MAX: u64 = 30_000;

/// Lives that one batch puts into the body index, and that one batch of regrouping looks at: either holds the writer
/// for some ten milliseconds.
pub const INDEX_LIVES_PER_BATCH: usize = 200;
pub const REGROUP_LIVES_PER_BATCH: usize = 500;

/// Lives between two lines in the log about how far regrouping has come.
pub const REGROUP_LIVES_PER_LINE: u64 = 10_000;

/// Bytes of a backtrace that are looked at from either end: some five hundred frames each.
pub const BACKTRACE_BYTES_EACH_END: usize = 48 * 1024;

/// Lines looked at from either end, and bytes of one line. Longer lines are dumps, not frames.
pub const BACKTRACE_LINES_MAX: usize = 1_000;
pub const BACKTRACE_LINE_BYTES_MAX: usize = 1_024;

/// Causes kept of one chain, the last one always: nobody wraps an error so often by hand.
pub const CAUSES_MAX: usize = 32;

/// Causes around the root that are asked for what the root does not tell: a library wraps its own errors so often.
pub const CAUSES_TOLD_MAX: usize = 4;

/// Bytes of the message that a backtrace states for one cause; the line that tells the cause is among the first.
pub const CAUSE_MESSAGE_BYTES_MAX: usize = 1_024;

/// Frames kept of one cause while it is read, and frames that make a fingerprint.
pub const CAUSE_FRAMES_MAX: usize = 8;
pub const FINGERPRINT_FRAMES_MAX: usize = 3;

/// Bytes of a message that is turned into a template, and words of it that make a fingerprint: what comes later is a
/// response body, a statement or a dump.
pub const TEMPLATE_SOURCE_BYTES_MAX: usize = 2 * 1024;
pub const TEMPLATE_WORDS_MAX: usize = 40;

/// Bytes of a template that is kept and shown.
pub const TEMPLATE_BYTES_MAX: usize = 512;

/// Bytes between two quotes, and of one fragment in braces: longer ones are not values but unbalanced.
pub const QUOTED_BYTES_MAX: usize = 256;
pub const FRAGMENT_BYTES_MAX: usize = 1_024;

/// Bytes looked ahead for the word behind a value.
pub const LOOKAHEAD_BYTES_MAX: usize = 48;

/// Openings without an end that are tried before the rest of a message counts as unbalanced.
pub const UNBALANCED_MAX: usize = 8;

/// Bytes of the title of an incident: one line of a card.
pub const TITLE_BYTES_MAX: usize = 200;

/// Differences listed for one letter: more than a person compares.
pub const DIFFERENCES_MAX: usize = 20;

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

/// Words of a message that tell a failure of a known place without the error's name: fewer may be a mere key or a verb.
pub const FINGERPRINT_WORDS_ENOUGH: usize = 3;

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

/// How often a group of writes is done again after a deadlock or a lost connection before its callers are told.
pub const WRITE_AGAIN_MAX: usize = 5;

/// How often one looks for changes that no notification told of.
pub const CHANGES_POLL_MS: u64 = 5_000;

/// Bytes of bodies in one statement: a message to the server holds less than a gigabyte, and both sides hold it whole.
pub const STATEMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of one copy that is made for people who ask the database themselves, and attempts in it: enough to look at,
/// and the whole is kept anyway.
pub const EXTRACT_BYTES_MAX: usize = 64 * 1024;
pub const EXTRACT_ATTEMPTS_MAX: usize = 100;

/// Letters that a scan asks the server for at once: what is asked for is sent, even if the time is over before.
pub const SCAN_LETTERS_PER_READ: i64 = 64;

/// Bytes of content after which a commit drops no more letters or jobs, however few it has dropped: SQLite visits every
/// page of what it removes, which takes some twenty milliseconds for a megabyte.
pub const CONTENT_BYTES_DROPPED_PER_WRITE: usize = 2 * 1024 * 1024;

/// Moves that are counted apart for whoever watches an instance: a thousand types in ten queues each. The rest is one.
pub const MOVES_KEPT_MAX: usize = 10_000;

/// Series of one metric: what a scraper stores without being asked for more. The rest is under `other`.
pub const METRIC_SERIES_MAX: usize = 1_000;

/// Bytes of a label's value; longer names are cut.
pub const METRIC_LABEL_BYTES_MAX: usize = 255;

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
