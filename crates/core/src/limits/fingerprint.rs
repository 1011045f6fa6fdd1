//! Limits of reading errors and grouping by them.

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

/// Words of a message that tell a failure of a known place without the error's name: fewer may be a mere key or a verb.
pub const FINGERPRINT_WORDS_ENOUGH: usize = 3;
