//! What this instance has committed since it opened the store, counted for whoever watches it.
//!
//! Kept in memory and begun anew with each start, as counters of a process are. What was rolled back is never counted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use lazaret_core::limits;

/// Something that happened to letters or jobs, by what they are told apart by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Move {
    /// The event's kind, such as `dead_letter.added`, or what has none: `duplicate`, `job.expired`.
    pub kind: &'static str,
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    /// The replay rule that did it; empty if it was none.
    pub rule: String,
}

/// Where a move counts that would be one kind too many.
const OTHER: &str = "other";

/// How often each move was made.
#[derive(Debug, Default)]
pub(crate) struct Moves(HashMap<Move, u64>);

impl Moves {
    pub(crate) fn note(&mut self, one: Move) {
        self.add_times(one, 1);
    }

    pub(crate) fn add(&mut self, other: Moves) {
        for (one, times) in other.0 {
            self.add_times(one, times);
        }
    }

    /// Names come from outside, and whoever makes up new ones must not fill the memory.
    fn add_times(&mut self, mut one: Move, times: u64) {
        if self.0.len() >= limits::MOVES_KEPT_MAX && !self.0.contains_key(&one) {
            one = Move { queue: OTHER.to_owned(), letter_type: OTHER.to_owned(), ..one };
        }
        *self.0.entry(one).or_default() += times;
    }
}

/// The moves of all commits so far.
#[derive(Debug, Default)]
pub(crate) struct Committed(Mutex<Moves>);

impl Committed {
    pub(crate) fn add(&self, moves: Moves) {
        if !moves.0.is_empty() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).add(moves);
        }
    }

    pub(crate) fn all(&self) -> Vec<(Move, u64)> {
        let moves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moves.0.iter().map(|(one, times)| (one.clone(), *times)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_made_up_without_end_are_counted_as_one() {
        let committed = Committed::default();
        let many = limits::MOVES_KEPT_MAX as u64 + 100;
        let mut moves = Moves::default();
        for n in 0..many {
            moves.note(Move {
                kind: "dead_letter.added",
                source: "jobs".into(),
                queue: format!("q{n}"),
                letter_type: "t".into(),
                rule: String::new(),
            });
        }
        committed.add(moves);
        let all = committed.all();
        assert!(all.len() <= limits::MOVES_KEPT_MAX + 1, "{}", all.len());
        assert_eq!(all.iter().map(|(_, times)| times).sum::<u64>(), many);
    }
}
