//! The failed attempts of messages that wait to be delivered again. Kept in memory: what another instance saw is not known here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lazaret_core::attempt::Attempt;

/// Messages that are remembered; the oldest are forgotten first.
const MESSAGES_MAX: usize = 10_000;

/// Bytes of an attempt's texts that are remembered.
const TEXT_BYTES_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Histories {
    by_sequence: Mutex<BTreeMap<u64, Vec<Attempt>>>,
}

impl Histories {
    pub(crate) fn add(&self, sequence: u64, mut attempt: Attempt) {
        attempt.error.backtrace = None;
        let message = &mut attempt.error.message;
        message.truncate(message.floor_char_boundary(TEXT_BYTES_MAX));
        let mut histories = self.lock();
        histories.entry(sequence).or_default().push(attempt);
        if histories.len() > MESSAGES_MAX {
            histories.pop_first();
        }
    }

    /// The attempts of a message, oldest first.
    pub(crate) fn get(&self, sequence: u64) -> Vec<Attempt> {
        self.lock().get(&sequence).cloned().unwrap_or_default()
    }

    pub(crate) fn forget(&self, sequence: u64) {
        self.lock().remove(&sequence);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Nothing can be left half done under the lock, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Attempt>>> {
        self.by_sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::attempt::LetterError;

    use super::*;

    fn attempt(message: &str) -> Attempt {
        let error = LetterError { message: message.into(), ..LetterError::default() };
        Attempt { at: None, duration_ms: None, error, extra: None }
    }

    #[test]
    fn the_oldest_messages_are_forgotten_first() {
        let histories = Histories::default();
        for sequence in 0..=MESSAGES_MAX as u64 {
            histories.add(sequence, attempt("a"));
        }
        assert_eq!(histories.get(0), []);
        histories.add(1, attempt(&"é".repeat(TEXT_BYTES_MAX)));
        let kept = histories.get(1);
        assert_eq!((kept.len(), kept[1].error.message.len()), (2, TEXT_BYTES_MAX));
        histories.forget(1);
        assert_eq!(histories.get(1), []);
    }
}
