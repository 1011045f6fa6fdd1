//! Limits of the pages: what a stranger sent must neither fill a browser nor a line to a phone.

/// Bytes of a body that a page shows unless asked for more: longer ones are looked for something, not read.
pub const WEB_BODY_BYTES: usize = 64 * 1024;

/// At most; browsers become slow beyond, and the file is one link away.
pub const WEB_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of markup that they may become: many small values become more markup than text.
pub const WEB_BODY_MARKUP_BYTES: usize = 96 * 1024;
pub const WEB_BODY_MARKUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Levels of JSON that can be folded one by one; what lies deeper is shown in one piece.
pub const WEB_JSON_DEPTH_MAX: usize = 32;

/// Levels that are open at first.
pub const WEB_JSON_DEPTH_OPEN: usize = 4;

/// Bytes of markup of one text within a JSON body, and of a piece that is not folded.
pub const WEB_JSON_TEXT_BYTES: usize = 8 * 1024;

/// Bytes shown as hex at once: 256 lines.
pub const WEB_HEX_BYTES: usize = 4 * 1024;

/// Bytes of markup of all headers, and of one value.
pub const WEB_HEADERS_MARKUP_BYTES: usize = 24 * 1024;
pub const WEB_HEADER_MARKUP_BYTES: usize = 4 * 1024;

/// Attempts on the page of a letter, the newest, and the bytes of markup of all, of one backtrace and of one message.
pub const WEB_ATTEMPTS: usize = 50;
pub const WEB_ATTEMPTS_MARKUP_BYTES: usize = 64 * 1024;
pub const WEB_BACKTRACE_MARKUP_BYTES: usize = 16 * 1024;
pub const WEB_MESSAGE_MARKUP_BYTES: usize = 4 * 1024;

/// Bytes of markup of all diffs on the page of a letter.
pub const WEB_DIFFS_MARKUP_BYTES: usize = 24 * 1024;

/// Bytes of markup of a body that is edited on a page, and of its headers: they travel there and back, and stand there
/// once more beside the diff.
pub const WEB_EDIT_BYTES_MAX: usize = 96 * 1024;

/// Values suggested for one key of the filter before anything is typed.
pub const WEB_SUGGESTIONS: usize = 8;

/// Bytes of a filter that suggestions are written behind: each of them repeats it.
pub const WEB_SUGGESTED_BYTES_MAX: usize = 200;

/// Keys of letters ever captured that are counted anew for every page: more take longer than a page may.
pub const LEDGER_KEYS_COUNTED_MAX: u64 = 100_000;
