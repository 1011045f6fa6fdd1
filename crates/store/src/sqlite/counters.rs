//! Counters, kept as letters move: added up in memory over a commit and written once at its end.

use std::collections::HashMap;

use lazaret_core::lifecycle::Status;
use rusqlite::Connection;

use crate::StoreError;

/// What letters are counted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Dimension {
    /// All letters; the only value is the empty one.
    All,
    Source,
    Queue,
    Type,
    ErrorType,
    Class,
    Fingerprint,
    Aggregate,
}

impl Dimension {
    pub const ALL: [Dimension; 8] = [
        Dimension::All,
        Dimension::Source,
        Dimension::Queue,
        Dimension::Type,
        Dimension::ErrorType,
        Dimension::Class,
        Dimension::Fingerprint,
        Dimension::Aggregate,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Dimension::All => "all",
            Dimension::Source => "source",
            Dimension::Queue => "queue",
            Dimension::Type => "type",
            Dimension::ErrorType => "error_type",
            Dimension::Class => "class",
            Dimension::Fingerprint => "fingerprint",
            Dimension::Aggregate => "aggregate",
        }
    }

    /// The column that holds it; all letters have the same value of `All`.
    pub const fn column(self) -> &'static str {
        match self {
            Dimension::All => "''",
            Dimension::Source
            | Dimension::Queue
            | Dimension::Type
            | Dimension::ErrorType
            | Dimension::Class
            | Dimension::Fingerprint
            | Dimension::Aggregate => self.name(),
        }
    }
}

/// What a letter counts under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Counted {
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    pub error_type: String,
    pub class: &'static str,
    pub fingerprint: String,
    pub aggregate: Option<String>,
    pub status: Status,
}

impl Counted {
    fn values(&self) -> impl Iterator<Item = (Dimension, &str)> {
        [
            (Dimension::All, Some("")),
            (Dimension::Source, Some(self.source.as_str())),
            (Dimension::Queue, Some(self.queue.as_str())),
            (Dimension::Type, Some(self.letter_type.as_str())),
            (Dimension::ErrorType, Some(self.error_type.as_str())),
            (Dimension::Class, Some(self.class)),
            (Dimension::Fingerprint, Some(self.fingerprint.as_str())),
            (Dimension::Aggregate, self.aggregate.as_deref()),
        ]
        .into_iter()
        .filter_map(|(dimension, value)| Some((dimension, value?)))
    }
}

/// Changes to the counters that are not written yet.
#[derive(Default, Debug)]
pub(super) struct Tally {
    letters: HashMap<(Dimension, &'static str, String), i64>,
    series: HashMap<(i64, Dimension, String), (i64, i64)>,
    /// All counters were emptied: what was tallied before counts letters that are gone.
    begins_anew: bool,
}

/// Whether a letter came in or went out, for the series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Arrived,
    Departed,
}

impl Tally {
    pub fn appear(&mut self, letter: &Counted) {
        self.change(letter, 1);
    }

    pub fn vanish(&mut self, letter: &Counted) {
        self.change(letter, -1);
    }

    fn change(&mut self, letter: &Counted, by: i64) {
        for (dimension, value) in letter.values() {
            *self.letters.entry((dimension, letter.status.name(), value.to_owned())).or_default() += by;
        }
    }

    pub fn flow(&mut self, minute: i64, flow: Flow, letter: &Counted) {
        for (dimension, value) in letter.values() {
            if !matches!(dimension, Dimension::Source | Dimension::Queue | Dimension::Type) {
                continue;
            }
            let (arrived, departed) = self.series.entry((minute, dimension, value.to_owned())).or_default();
            match flow {
                Flow::Arrived => *arrived += 1,
                Flow::Departed => *departed += 1,
            }
        }
    }

    /// Says that the counters and all that they counted were emptied.
    pub fn begin_anew(&mut self) {
        *self = Tally { begins_anew: true, ..Tally::default() };
    }

    pub fn add(&mut self, other: Tally) {
        if other.begins_anew {
            self.begin_anew();
        }
        for (key, by) in other.letters {
            *self.letters.entry(key).or_default() += by;
        }
        for (key, (arrived, departed)) in other.series {
            let sums = self.series.entry(key).or_default();
            sums.0 += arrived;
            sums.1 += departed;
        }
    }

    pub fn flush(self, conn: &Connection) -> Result<(), StoreError> {
        let mut change = conn.prepare_cached(CHANGE_COUNTER)?;
        let mut forget = conn.prepare_cached(FORGET_COUNTER)?;
        for ((dimension, term, value), by) in self.letters {
            if by != 0 {
                change.execute((dimension.name(), &value, term, by))?;
            }
            // There are as many aggregates as orders: what counts nothing must not stay for ever.
            if by < 0 {
                forget.execute((dimension.name(), &value, term))?;
            }
        }
        let mut change = conn.prepare_cached(CHANGE_SERIES)?;
        for ((minute, dimension, value), (arrived, departed)) in self.series {
            change.execute((minute, dimension.name(), value, arrived, departed))?;
        }
        Ok(())
    }
}

const CHANGE_COUNTER: &str = "
insert into counters (dimension, value, term, letters)
values (?1, ?2, ?3, ?4)
on conflict (dimension, value, term)
do update set letters = letters + excluded.letters";

const FORGET_COUNTER: &str = "
delete from counters
 where dimension = ?1
   and value = ?2
   and term = ?3
   and letters = 0";

const CHANGE_SERIES: &str = "
insert into series (minute, dimension, value, arrived, departed)
values (?1, ?2, ?3, ?4, ?5)
on conflict (minute, dimension, value)
do update set arrived = arrived + excluded.arrived, departed = departed + excluded.departed";
