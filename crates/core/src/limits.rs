//! Every limit in one place, each with its reason. A limit that an operator may change is the default of a key under
//! `[limits]`; the others are part of the contract.

mod alerts;
mod destination;
mod fingerprint;
mod jetstream;
mod jobs;
mod outbox;
mod rabbitmq;
mod redaction;
mod redrive;
mod retention;
mod session;
mod shared;
mod web;

pub use alerts::*;
pub use destination::*;
pub use fingerprint::*;
pub use jetstream::*;
pub use jobs::*;
pub use outbox::*;
pub use rabbitmq::*;
pub use redaction::*;
pub use redrive::*;
pub use retention::*;
pub use session::*;
pub use shared::*;
pub use web::*;

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

/// Levels of arrays and tables in the value of a header: brokers nest two or three (`x-death`), and whoever walks through
/// headers does so on the stack. What is deeper is kept as the text of its JSON form.
pub const HEADER_DEPTH_MAX: usize = 16;

/// Bytes of the JSON of an origin: names of streams, subjects and queues are far shorter.
pub const ORIGIN_BYTES_MAX: usize = 16 * 1024;

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

/// What is written to find out whether letters can be stored again after they could not: about a batch of them.
pub const PROBE_BYTES: usize = 256 * 1024;

/// Letters that one commit takes at most, so that no caller waits for a commit of unbounded size.
pub const COMMIT_LETTERS_MAX: usize = 4_096;

/// Letters that stand in no list yet, so that whoever reads a list next waits for some ten milliseconds at most. Fewer would
/// write more: the pages of the lists are written once for so many letters.
pub const UNLISTED_LETTERS_MAX: i64 = 500;

/// Keys that are found in memory before they go into their index: the more, the more of them share a page there.
pub const UNINDEXED_KEYS_MAX: usize = 16_384;

/// Keys that a commit puts into their index beside its own work: some milliseconds with ten million letters.
pub const KEYS_INDEXED_PER_COMMIT: usize = 256;

/// Pages of the message index that one commit merges beside its own work: some five milliseconds with a million letters.
pub const WORD_PAGES_MERGED_PER_COMMIT: i64 = 8;

/// How long one read of the store may take before it is stopped and the caller is asked to narrow the filter.
pub const READ_MS_MAX: u64 = 10_000;

/// How long a request's head may take, how long its body may pause, and how long the whole may take.
pub const HEAD_MS_MAX: u64 = 10_000;
pub const BODY_PAUSE_MS_MAX: u64 = 15_000;
pub const REQUEST_MS_MAX: u64 = 120_000;

/// How long a page may work on a check of files before it shows what it has: nobody looks at an empty page for longer.
pub const PAGE_WORK_MS_MAX: u64 = 5_000;

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

/// Letters over which an incident's affected queues, orders and tenants are counted: its newest, some 20 ms among a million.
pub const AFFECTED_LETTERS_MAX: usize = 2_000;
/// Fingerprints of an incident whose letters are among those: the newest.
pub const AFFECTED_FINGERPRINTS_MAX: usize = 1_000;
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

/// How long the count that goes with a page may look into letters one by one.
pub const SCAN_COUNT_MS_MAX: u64 = 20;

/// How long a count that somebody asked for may look into letters one by one.
pub const COUNT_MS_MAX: u64 = 8_000;

/// How long one chunk of a frozen list may look into letters one by one: nothing is captured meanwhile.
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

/// A run of up to so long is told by the minute, a longer one by the hour: with both its ends some 120 steps.
pub const RUN_MINUTES_MS_MAX: i64 = 118 * 60_000;

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

/// Readers of one caller among them: one person's tabs or one program must not take every place.
pub const EVENT_READERS_PER_CALLER_MAX: usize = 20;

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
