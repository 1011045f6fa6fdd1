//! What is masked where letters are shown, and what it takes to see it.

/// Names and paths in one list of `[redaction]`: each is compared with every name of every letter that is shown.
pub const REDACTION_RULES_MAX: usize = 100;

/// Bytes of a name in a free text that are looked at: real ones are shorter, and a stranger's text may have no spaces.
pub const REDACTION_NAME_BYTES_MAX: usize = 64;

/// Levels of JSON inside JSON strings that redaction parses; JSON nested deeper is masked whole. Programs wrap a request
/// in a log entry in an event, and each level about doubles the escapes.
pub const REDACTION_NESTING_MAX: u32 = 6;

/// Characters of a reason to reveal: fewer say nothing to whoever reads the audit log later.
pub const REVEAL_REASON_CHARS_MIN: usize = 10;
