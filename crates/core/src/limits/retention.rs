//! Limits of retention, the archive and holds.

/// How old a letter gets unless something is set: six months.
pub const RETENTION_MAX_AGE_MS: i64 = 180 * 86_400_000;

/// The shortest that a limit of age may be set to: less empties a queue before anybody has looked.
pub const RETENTION_AGE_MS_MIN: u64 = 60_000;

/// The longest, which is as good as for ever: a hundred years.
pub const RETENTION_AGE_MS_MAX: u64 = 36_525 * 86_400_000;

/// How often letters are looked for that a limit pushes out.
pub const PRUNE_EVERY_MS: i64 = 300_000;

/// Letters that one commit takes away, which holds the writer for some ten milliseconds.
pub const PRUNED_PER_WRITE: usize = 100;

/// How long one commit may take letters away before it ends with those it has.
pub const PRUNE_MS_MAX: u64 = 15;

/// Free pages of the embedded store that are left for what is captured next: four megabytes.
pub const ROOM_PAGES_KEPT: i64 = 1_000;

/// How long one commit may give pages back that nothing stands in; nothing is captured meanwhile.
pub const ROOM_MS_MAX: u64 = 10;

/// Letters of one file of the archive, and how long the first of them waits for the others.
pub const ARCHIVE_FILE_LETTERS: u64 = 10_000;
pub const ARCHIVE_FILE_AGE_MS: i64 = 86_400_000;

/// Bytes of originals after which a file is full, however few letters it holds: it is made and read in memory.
pub const ARCHIVE_FILE_BYTES: u64 = 128 * 1024 * 1024;

/// The most letters that a file can be set to hold, and the longest that it can be waited for: a year.
pub const ARCHIVE_FILE_LETTERS_MAX: u64 = 100_000;
pub const ARCHIVE_FILE_AGE_MS_MAX: u64 = 365 * 86_400_000;

/// Bytes of a row group, uncompressed: reading one letter decompresses a part of one group, and writing buffers one.
pub const ARCHIVE_ROW_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// Letters of a file that are unpacked together.
pub const ARCHIVE_ROWS_PER_BATCH: usize = 32;

/// How long a connection to object storage may take, one answer of it may let wait, and one whole file may take.
pub const ARCHIVE_CONNECT_MS_MAX: u64 = 5_000;
pub const ARCHIVE_READ_MS_MAX: u64 = 30_000;
pub const ARCHIVE_TRANSFER_MS_MAX: u64 = 120_000;

/// How often one request to object storage is repeated at once, before it waits for the next try.
pub const ARCHIVE_RETRIES: usize = 2;

/// How long the archive rests after a failure, at first and at most: the time doubles in between.
pub const ARCHIVE_REST_MS: i64 = 1_000;
pub const ARCHIVE_REST_MS_MAX: i64 = 300_000;

/// How long one search may open archived letters one by one, and how many bytes of files it may read.
pub const ARCHIVE_SCAN_MS_MAX: u64 = 5_000;
pub const ARCHIVE_SCAN_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How often a letter is looked for again that moved from the store to a file meanwhile. Once is enough; the others are for
/// a letter that comes back and goes again.
pub const ARCHIVE_LOOKS_MAX: usize = 3;

/// Letters that are read for a file at once, and bytes of their originals.
pub const ARCHIVE_LETTERS_PER_READ: usize = 200;
pub const ARCHIVE_BYTES_PER_READ: usize = 8 * 1024 * 1024;

/// Letters whose content one commit drops after it stands in a file.
pub const SHELVED_PER_WRITE: usize = 100;

/// Archived letters that one call restores by a filter.
pub const RESTORED_PER_CALL: usize = 10_000;

/// Archived letters that are brought back between two words of progress; those of one file are read from it together.
pub const RESTORED_PER_STEP: usize = 1_000;

/// Holds that stand at the same time and catch letters to come: each is asked about every letter that is captured.
pub const STANDING_HOLDS_MAX: usize = 100;

/// Holds that a tick is told of at once: those that end, and those that have letters left to mark or free.
pub const HOLDS_DUE_MAX: usize = 100;

/// Holds of one letter that are told of.
pub const HOLDS_SHOWN_MAX: usize = 1_000;

/// Characters of why a hold was placed.
pub const HOLD_REASON_CHARS_MAX: usize = 2_000;

/// The largest limit on the number of letters; nothing that keeps so many is kept small by a limit.
pub const RETENTION_COUNT_MAX: u64 = 1_000_000_000;

/// Queues that one answer tells the policies of, the largest first: names come from outside.
pub const RETENTION_QUEUES_SHOWN: usize = 1_000;

/// How long whoever prunes rests between two commits: there is one writer, and every capture would stand behind them.
pub const PRUNE_REST_MS: u64 = 5;

/// How many times as long as a commit of its own whoever prunes rests after it. On a slow disk that leaves two thirds of
/// the writer to captures, and their pages are written back seldom enough that one capture in a hundred does not meet it.
pub const PRUNE_REST_TIMES: u32 = 2;

/// Letters that a prune by hand takes away within its call; the rest goes behind it.
pub const PRUNED_PER_CALL: u64 = 10_000;

/// How long a prune by hand goes on within its call: a request ends after half a minute.
pub const PRUNE_CALL_MS_MAX: u64 = 20_000;

/// Letters that a dry run looks at before it says "at least", and how many it reads at once.
pub const DRY_RUN_LETTERS_MAX: u64 = 200_000;
pub const DRY_RUN_LETTERS_PER_READ: usize = 1_000;
