//! How far each rule has come. Lost with the process, which only costs a round.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::Look;
use crate::decision::Verb;
use crate::engine::operations::DeathKey;
use crate::replay::{Replay, ReplayQuery, Replayed};

#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<HashMap<String, Round>>);

/// One walk of a rule through the letters.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// What was asked; a rule that asks for something else begins anew.
    filter: Filter,
    max_replays: u32,
    begun_at: Time,
    /// How many letters had come to wait again by hand when it began, once it has looked.
    pub waiting_again: Option<u64>,
    /// Everything up to here was looked at and not given.
    pub place: Option<DeathKey>,
    /// Letters behind it that could not be replayed.
    pub passed: Arc<HashSet<LetterId>>,
}

impl Round {
    pub fn new(query: &ReplayQuery) -> Round {
        Round {
            filter: lasting(&query.filter),
            max_replays: query.max_replays,
            begun_at: query.now,
            waiting_again: None,
            place: None,
            passed: Arc::default(),
        }
    }

    pub fn is_of(&self, query: &ReplayQuery) -> bool {
        let age = query.now.since(self.begun_at);
        (0..limits::REPLAY_ROUND_MS).contains(&age)
            && self.max_replays == query.max_replays
            && self.filter == lasting(&query.filter)
    }

    /// The round as a look at the store goes on with it: letters that came to wait again, in any instance, may lie
    /// behind its place.
    pub fn as_of(&self, waiting_again: u64) -> Round {
        match self.waiting_again {
            Some(seen) if seen != waiting_again => Round {
                place: None,
                passed: Arc::default(),
                waiting_again: Some(waiting_again),
                ..self.clone()
            },
            Some(_) | None => Round { waiting_again: Some(waiting_again), ..self.clone() },
        }
    }
}

/// A filter without the end of its range: that moves on with the clock, and a place is never behind it.
fn lasting(filter: &Filter) -> Filter {
    let mut filter = filter.clone();
    filter.until = None;
    filter.age.min = None;
    filter
}

impl Rounds {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Round>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// The round that a rule is in, or a new one.
    pub(super) fn enter(&self, query: &ReplayQuery) -> Round {
        let mut all = self.all();
        if let Some(round) = all.get(&query.rule).filter(|round| round.is_of(query)) {
            return round.clone();
        }
        if all.len() >= limits::REPLAY_RULES_REMEMBERED_MAX {
            all.clear();
        }
        let round = Round::new(query);
        all.insert(query.rule.clone(), round.clone());
        round
    }

    /// Notes how far a look has come, unless the round has ended meanwhile.
    pub(super) fn reach(&self, rule: &str, from: &Round, look: &Look) {
        let mut all = self.all();
        let Some(round) = all.get_mut(rule) else { return };
        // Each round has a set of its own, which tells it from any other. Of two looks at once the second may have seen
        // another number of letters wait again: then it began anew, and this one has not.
        if !Arc::ptr_eq(&round.passed, &from.passed) || round.waiting_again != from.waiting_again {
            return;
        }
        let mut now = round.as_of(look.waiting_again);
        now.place = now.place.max(look.place);
        *round = now;
    }

    /// Remembers letters that could not be replayed: they must not be given again and again in place of others.
    pub(super) fn pass(&self, replay: &Replay, outcomes: &[Replayed]) {
        let mut all = self.all();
        let Some(round) = all.get_mut(&replay.rule) else { return };
        for ((letter, _), outcome) in replay.letters.iter().zip(outcomes) {
            let stays = matches!(outcome, Replayed::Refused(_) | Replayed::NoWayBack);
            if stays && round.passed.len() < limits::REPLAY_LETTERS_PASSED_MAX {
                Arc::make_mut(&mut round.passed).insert(*letter);
            }
        }
    }

    /// Ends all rounds if letters came to wait, or to be free, that may lie behind them.
    pub fn after(&self, verb: Verb) {
        match verb {
            Verb::Reopen | Verb::Restore | Verb::Release => self.end(),
            Verb::Resolve | Verb::Discard | Verb::Hold | Verb::Retry | Verb::Delete => {}
        }
    }

    pub fn end(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(filter: &str, now: i64) -> ReplayQuery {
        let filter = Filter::from_text(filter).unwrap();
        ReplayQuery { rule: "r".into(), filter, max_replays: 1, now: Time::from_ms(now), limit: 3 }
    }

    fn look(place: i64, waiting_again: u64) -> Look {
        let place = Some((Time::from_ms(place), LetterId::from_bytes([0; 16])));
        Look { letters: Vec::new(), place, waiting_again }
    }

    #[test]
    fn a_round_ends_by_itself_and_with_what_the_rule_asks_for() {
        let ask = query("queue:q", 1_000_000);
        let round = Round::new(&ask);
        assert!(round.is_of(&query("queue:q until:7d", 1_000_000)), "the end of the range moves on anyway");
        assert!(!round.is_of(&query("queue:other", 1_000_000)));
        assert!(!round.is_of(&ReplayQuery { max_replays: 2, ..ask.clone() }));
        assert!(!round.is_of(&query("queue:q", 1_000_000 + limits::REPLAY_ROUND_MS)));
        assert!(!round.is_of(&query("queue:q", 999_999)), "the clock was put back");
    }

    #[test]
    fn a_place_only_moves_on_until_letters_wait_again() {
        let (rounds, ask) = (Rounds::default(), query("queue:q", 1_000_000));
        let place = || rounds.enter(&ask).place.map(|place| place.0.ms());
        let first = rounds.enter(&ask);
        rounds.reach("r", &first, &look(7, 3));
        assert_eq!(place(), Some(7));
        rounds.reach("r", &first, &look(9, 3));
        assert_eq!(place(), Some(7), "it was overtaken");
        rounds.reach("r", &rounds.enter(&ask), &look(5, 3));
        assert_eq!(place(), Some(7));
        let before = rounds.enter(&ask);
        rounds.reach("r", &before, &look(2, 4));
        assert_eq!(place(), Some(2), "it began anew");
        rounds.reach("r", &before, &look(9, 3));
        assert_eq!(place(), Some(2), "what was seen before that counts no more");
    }

    #[test]
    fn a_look_that_was_overtaken_moves_no_place() {
        let (rounds, ask) = (Rounds::default(), query("queue:q", 1_000_000));
        let place = || rounds.enter(&ask).place.map(|place| place.0.ms());
        let old = rounds.enter(&ask);
        rounds.after(Verb::Reopen);
        let new = rounds.enter(&ask);
        rounds.reach("r", &old, &look(7, 0));
        assert_eq!(place(), None);
        rounds.reach("r", &new, &look(7, 0));
        rounds.reach("r", &new, &look(5, 0));
        rounds.after(Verb::Discard);
        assert_eq!(place(), Some(7));
    }
}
