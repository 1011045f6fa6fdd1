//! One failed run of a message, and the error that ended it.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::time::Time;

/// What went wrong, as the failing program told it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LetterError {
    /// The error's own name, such as `java.net.SocketTimeoutException`; empty when the program gave none.
    pub error_type: String,
    pub code: Option<String>,
    pub message: String,
    pub backtrace: Option<String>,
    /// JSON text of whatever the program added, verbatim.
    pub context: Option<String>,
    /// JSON text of an object with the fields that we have no name for, verbatim.
    pub extra: Option<String>,
}

/// One failed run. Times are as the program stated them: they are evidence, not ours to correct.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    pub at: Option<Time>,
    pub duration_ms: Option<u64>,
    pub error: LetterError,
    /// JSON text of an object with the fields that we have no name for, verbatim.
    pub extra: Option<String>,
}

/// What makes two reports of an attempt the same attempt: time, type, code, message and the ordinal among equals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptIdentity(pub [u8; 16]);

/// The identity of each attempt, in order. Equal attempts in one report differ by their ordinal, so that five runs
/// that failed alike within one millisecond stay five, and the same report sent twice adds none.
pub fn identities(attempts: &[Attempt]) -> Vec<AttemptIdentity> {
    let mut seen: HashMap<[u8; 32], u32> = HashMap::with_capacity(attempts.len());
    let mut identities = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let mut hash = Sha256::new();
        hash.update(attempt.at.map_or(i64::MIN, Time::ms).to_be_bytes());
        for part in [
            &attempt.error.error_type,
            attempt.error.code.as_ref().unwrap_or(&String::new()),
            &attempt.error.message,
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let base: [u8; 32] = hash.clone().finalize().into();
        let equals = seen.entry(base).or_default();
        let ordinal = *equals;
        *equals += 1;
        hash.update(ordinal.to_be_bytes());
        let full: [u8; 32] = hash.finalize().into();
        let mut cut = [0; 16];
        cut.copy_from_slice(&full[..16]);
        identities.push(AttemptIdentity(cut));
    }
    identities
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(ms: i64, message: &str) -> Attempt {
        Attempt {
            at: Some(Time::from_ms(ms)),
            duration_ms: None,
            error: LetterError { message: message.into(), ..LetterError::default() },
            extra: None,
        }
    }

    #[test]
    fn equal_attempts_in_one_report_stay_apart_and_a_second_report_adds_none() {
        let first = identities(&[attempt(1, "a"), attempt(1, "a"), attempt(1, "b")]);
        assert_ne!(first[0], first[1]);
        assert_ne!(first[0], first[2]);
        assert_eq!(identities(&[attempt(1, "a"), attempt(1, "a"), attempt(1, "b")]), first);
        // A longer history keeps the identities of what it repeats.
        assert_eq!(identities(&[attempt(1, "a"), attempt(1, "a"), attempt(2, "a")])[..2], first[..2]);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let mut left = attempt(1, "c");
        left.error.error_type = "ab".into();
        let mut right = attempt(1, "bc");
        right.error.error_type = "a".into();
        assert_ne!(identities(&[left]), identities(&[right]));
    }
}
