//! Every limit in one place, each with its reason. A limit that an operator may change is the default of a key under
//! `[limits]`; the others are part of the contract.

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

/// Letters frozen, and letters decided, in one write: either holds the writer well below 50 ms.
pub const FREEZE_ROWS_PER_WRITE: usize = 2_000;
pub const DECISION_ROWS_PER_WRITE: usize = 250;

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
