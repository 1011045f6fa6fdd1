//! The one filter for letters, the same in the query string, in JSON, on the command line and in rules.
//!
//! It is kept as a person wrote it: times may be relative, so the same filter moves on with the clock. `matches` and
//! `matches_content` are what a filter means; the stores translate the fields and have to agree with them.

mod content;
#[cfg(test)]
mod content_tests;
mod error;
mod json;
mod key;
#[cfg(test)]
mod laws;
mod path;
mod query;
#[cfg(test)]
mod tests;
mod text;
mod value;
pub mod words;

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::class::ErrorClass;
use crate::duration::Length;
use crate::id::IncidentId;
use crate::letter::Letter;
use crate::lifecycle::{Action, Status};
use crate::pattern::Pattern;
use crate::time::Time;

pub use error::FilterError;
pub use path::{PathCondition, Paths};
use words::Words;

/// What letters have to be like. Every field has to hold; an empty field always does.
///
/// The collections are ordered sets, so two filters that say the same are equal and have the same text and hash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    pub queue: Patterns,
    pub letter_type: Patterns,
    pub error_type: Patterns,
    pub class: Choice<ErrorClass>,
    pub code: Patterns,
    pub status: Choice<Status>,
    pub source: Patterns,
    pub incident: Choice<IncidentId>,
    pub subscriber: Patterns,
    pub aggregate: Patterns,
    pub tenant: Patterns,
    pub event_id: Patterns,
    pub held: Option<Held>,
    /// Died at this moment or later.
    pub since: Option<When>,
    /// Died before this moment.
    pub until: Option<When>,
    /// How long ago it died: `max` is the same as `since` that long ago, `min` as `until`.
    pub age: Bounds<Length>,
    /// How often it was retried, both ends included.
    pub retries: Bounds<u32>,
    /// Every one of these begins a word of the letter's type, error type or error message.
    pub words: Words,
    /// Every one of these begins a word of the letter's body or header values.
    pub body: Words,
    /// Every one of these stands in the letter's body as it is written there, upper and lower case apart.
    pub contains: BTreeSet<String>,
    /// Conditions on the body, which has to be JSON to meet one.
    pub path: Paths,
    /// Conditions on the headers, seen as an object of texts.
    pub header_path: Paths,
}

/// Texts to match: any of `include` unless there are none, and none of `exclude`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Patterns {
    pub include: BTreeSet<Pattern>,
    pub exclude: BTreeSet<Pattern>,
}

/// Values to match: any of `include` unless there are none, and none of `exclude`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice<T> {
    pub include: BTreeSet<T>,
    pub exclude: BTreeSet<T>,
}

/// A range whose ends may be open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds<T> {
    pub min: Option<T>,
    pub max: Option<T>,
}

/// Whether a legal hold is on the letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Yes,
    No,
}

/// A moment, or a length of time before whatever is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    At(Time),
    Ago(Length),
}

/// The deaths that a filter asks for at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Died {
    /// Inclusive.
    pub from: Option<Time>,
    /// Exclusive.
    pub until: Option<Time>,
}

impl Filter {
    /// An empty filter matches every letter; nothing that changes letters may run on it.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Returns true if the filter spares nothing that `action` could move, such as `type:*`, or `status:pending` for a
    /// discard. For what changes many letters at once it counts as no filter at all.
    ///
    /// A pattern of stars says nothing in any field, also where letters without a value would not match it.
    pub fn spares_nothing(&self, action: Action, now: Time) -> bool {
        // Taken apart, so that a new field is not forgotten here.
        let Filter { queue, letter_type, error_type, class, code, status, source, incident, .. } = self;
        let Filter { subscriber, aggregate, tenant, event_id, held, since: _, until: _, age: _, .. } = self;
        let Filter { retries, words, body, contains, path, header_path, .. } = self;
        let texts = [queue, letter_type, error_type, code, source, subscriber, aggregate, tenant, event_id];
        let died = self.died(now);
        texts.into_iter().all(Patterns::match_all)
            && ErrorClass::ALL.iter().all(|value| class.allows(value))
            && action.rows().iter().flat_map(|row| row.from).all(|value| status.allows(value))
            && incident.include.is_empty()
            && incident.exclude.is_empty()
            && *held != Some(Held::Yes)
            && retries.contain(0)
            && retries.contain(u32::MAX)
            && died.from.is_none_or(|from| from.ms() <= 0)
            && died.until.is_none_or(|until| until >= now)
            && words.is_empty()
            && body.is_empty()
            && contains.is_empty()
            && path.is_empty()
            && header_path.is_empty()
    }

    /// Whether the letter's columns are what the filter asks for. What is inside of the letter is not looked at; where
    /// `needs_content` says so, `matches_content` has to hold as well.
    pub fn matches(&self, letter: &Letter, now: Time) -> bool {
        self.queue.allow(Some(&letter.queue))
            && self.letter_type.allow(Some(&letter.letter_type))
            && self.error_type.allow(Some(&letter.error_type))
            && self.class.allows(&letter.class)
            && self.code.allow(letter.error_code.as_deref())
            && self.status.allows(&letter.status)
            && self.source.allow(Some(&letter.source))
            && self.incident.allows(&letter.incident)
            && self.subscriber.allow(letter.subscriber.as_deref())
            && self.aggregate.allow(letter.aggregate.as_deref())
            && self.tenant.allow(letter.tenant.as_deref())
            && self.event_id.allow(Some(&letter.event_id))
            && self.held.is_none_or(|held| (held == Held::Yes) == letter.hold.is_some())
            && self.died(now).contains(letter.died_at)
            && self.retries.contain(letter.retry_count)
            && self.words.begin_words_of(&letter.letter_type, &letter.error_type, &letter.error_message)
    }

    /// The deaths asked for as seen from `now`: `since`, `until` and `age` in one range.
    pub fn died(&self, now: Time) -> Died {
        let oldest = self.age.max.map(|length| When::Ago(length).resolve(now));
        let youngest = self.age.min.map(|length| When::Ago(length).resolve(now));
        let since = self.since.map(|when| when.resolve(now));
        let until = self.until.map(|when| when.resolve(now));
        Died { from: oldest.into_iter().chain(since).max(), until: youngest.into_iter().chain(until).min() }
    }

    /// A stable hash of what the filter says, not of what it means at a moment: a cursor for `since:24h` goes on.
    pub fn hash(&self) -> [u8; 8] {
        let digest = Sha256::digest(self.to_string().as_bytes());
        let mut hash = [0; 8];
        hash.copy_from_slice(&digest[..8]);
        hash
    }
}

impl Patterns {
    /// One value or pattern, and nothing else.
    pub fn only(text: &str) -> Patterns {
        Patterns { include: [Pattern::new(text)].into_iter().collect(), ..Patterns::default() }
    }

    fn match_all(&self) -> bool {
        self.exclude.is_empty() && (self.include.is_empty() || self.include.iter().any(Pattern::matches_all))
    }

    /// A value that is not there is matched by no pattern, not even by `*`.
    pub fn allow(&self, value: Option<&str>) -> bool {
        match value {
            Some(value) => {
                (self.include.is_empty() || self.include.iter().any(|pattern| pattern.matches(value)))
                    && !self.exclude.iter().any(|pattern| pattern.matches(value))
            }
            None => self.include.is_empty(),
        }
    }
}

impl<T: Ord> Choice<T> {
    pub fn allows(&self, value: &T) -> bool {
        (self.include.is_empty() || self.include.contains(value)) && !self.exclude.contains(value)
    }
}

// Not derived, because that would ask for `T: Default`.
impl<T> Default for Choice<T> {
    fn default() -> Choice<T> {
        Choice { include: BTreeSet::new(), exclude: BTreeSet::new() }
    }
}

impl<T: PartialOrd> Bounds<T> {
    /// Whether the value lies between the ends, both included.
    pub fn contain(&self, value: T) -> bool {
        self.min.as_ref().is_none_or(|min| *min <= value) && self.max.as_ref().is_none_or(|max| value <= *max)
    }
}

impl<T> Default for Bounds<T> {
    fn default() -> Bounds<T> {
        Bounds { min: None, max: None }
    }
}

impl When {
    pub fn resolve(self, now: Time) -> Time {
        match self {
            When::At(time) => time,
            When::Ago(length) => now.plus_ms(length.ms().saturating_neg()),
        }
    }
}

impl Died {
    pub fn contains(&self, died_at: Time) -> bool {
        self.from.is_none_or(|from| from <= died_at) && self.until.is_none_or(|until| died_at < until)
    }
}
