//! Rows that were given back because they could not be stored: each is fetched again after a pause, which grows with
//! repetitions, so that a store that is down is not asked for the same rows in a tight loop.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lazaret_core::limits;

/// Rows that were given back and not acknowledged since, by key.
#[derive(Default)]
pub(super) struct Released {
    rows: HashMap<String, Pause>,
}

struct Pause {
    due: Instant,
    length: Duration,
    /// Whether the row still waits; false once it was handed over again.
    waits: bool,
}

impl Released {
    /// Gives a row back. Beyond so many rows the next sweep finds it.
    pub fn release(&mut self, key: &str, now: Instant) {
        if self.rows.len() >= limits::OUTBOX_NOTED_MAX {
            self.rows.retain(|_, pause| pause.waits);
        }
        let before = self.rows.get(key).map(|pause| pause.length);
        if before.is_none() && self.rows.len() >= limits::OUTBOX_NOTED_MAX {
            return;
        }
        let longest = Duration::from_millis(limits::SOURCE_RELEASE_MS_MAX);
        let first = Duration::from_millis(limits::SOURCE_RELEASE_MS);
        let length = before.map_or(first, |before| (before * 2).min(longest));
        self.rows.insert(key.to_owned(), Pause { due: now + length, length, waits: true });
    }

    /// Forgets a row that was stored.
    pub fn acknowledge(&mut self, key: &str) {
        self.rows.remove(key);
    }

    /// Whether a row must not be handed over yet.
    pub fn waits(&self, key: &str) -> bool {
        self.rows.get(key).is_some_and(|pause| pause.waits)
    }

    /// The rows whose pause is over.
    pub fn take_due(&mut self, now: Instant) -> Vec<String> {
        let due = self.rows.iter_mut().filter(|(_, pause)| pause.waits && pause.due <= now);
        due.map(|(key, pause)| {
            pause.waits = false;
            key.clone()
        })
        .collect()
    }

    /// When the next pause is over.
    pub fn next_due(&self) -> Option<Instant> {
        self.rows.values().filter(|pause| pause.waits).map(|pause| pause.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(limits::SOURCE_RELEASE_MS);
    const LONGEST: Duration = Duration::from_millis(limits::SOURCE_RELEASE_MS_MAX);

    #[test]
    fn pauses_grow_until_the_row_is_stored() {
        let (mut released, mut now) = (Released::default(), Instant::now());
        let mut expected = FIRST;
        for _ in 0..20 {
            released.release("a", now);
            assert!(released.waits("a"));
            assert_eq!(released.next_due(), Some(now + expected));
            assert!(released.take_due(now + expected - Duration::from_millis(1)).is_empty());
            now += expected;
            assert_eq!(released.take_due(now), ["a"]);
            assert!(!released.waits("a") && released.next_due().is_none());
            assert!(released.take_due(now).is_empty(), "it is handed over once");
            expected = (expected * 2).min(LONGEST);
        }
        released.acknowledge("a");
        released.release("a", now);
        assert_eq!(released.next_due(), Some(now + FIRST));
    }

    #[test]
    fn rows_beyond_the_limit_are_left_to_the_sweep() {
        let (mut released, now) = (Released::default(), Instant::now());
        for n in 0..=limits::OUTBOX_NOTED_MAX {
            released.release(&n.to_string(), now);
        }
        assert_eq!(released.take_due(now + FIRST).len(), limits::OUTBOX_NOTED_MAX);
        released.release("new", now + FIRST);
        assert!(released.waits("new"), "rows that were handed over again make room");
    }
}
