//! Counters, kept as letters move: added up in memory over a commit and written once at its end.

use std::collections::HashMap;

use lazaret_core::time::Time;

use super::incidents::{self, Sums};
use super::jobs::queues::Depths;
use super::words;
use super::writer::Write;
use crate::StoreError;
use crate::job::SOURCE;
use crate::moves::{Move, Moves};
use crate::series::Step;

pub(super) use crate::engine::dimension::{Counted, Dimension};

/// Changes to the counters that are not written yet.
#[derive(Default, Debug)]
pub(super) struct Tally {
    letters: HashMap<(Dimension, &'static str, String), i64>,
    flows: HashMap<(i64, Dimension, String), (i64, i64)>,
    /// When a letter of a fingerprint was last captured.
    seen: HashMap<String, Time>,
    /// When a letter of a fingerprint last died that no run had put back.
    died: HashMap<String, Time>,
    /// What queues hold now that they did not.
    pub depths: Depths,
    /// The latest time at which something of this happened.
    at: Time,
    /// All counters were emptied: what was tallied before counts letters that are gone.
    begins_anew: bool,
    moves: Moves,
}

/// Whether a letter came in or went out, for the lines over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Arrived,
    Departed,
}

impl Tally {
    /// Notes when the changes happen that follow.
    pub fn at(&mut self, at: Time) {
        self.at = at.max(self.at);
    }

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
            if !dimension.has_line() {
                continue;
            }
            let (arrived, departed) = self.flows.entry((minute, dimension, value.to_owned())).or_default();
            match flow {
                Flow::Arrived => *arrived += 1,
                Flow::Departed => *departed += 1,
            }
        }
    }

    /// A life that was captured in this minute counts under another fingerprint now.
    pub fn reflow(&mut self, minute: i64, from: &str, to: &str) {
        self.flows.entry((minute, Dimension::Fingerprint, from.to_owned())).or_default().0 -= 1;
        self.flows.entry((minute, Dimension::Fingerprint, to.to_owned())).or_default().0 += 1;
    }

    /// A letter of this fingerprint was captured.
    pub fn see(&mut self, fingerprint: &str, at: Time) {
        self.at(at);
        match self.seen.get_mut(fingerprint) {
            Some(last) => *last = at.max(*last),
            None => {
                self.seen.insert(fingerprint.to_owned(), at);
            }
        }
    }

    /// A letter of this fingerprint died, and no run could have expected it.
    pub fn die(&mut self, fingerprint: &str, died_at: Time) {
        match self.died.get_mut(fingerprint) {
            Some(last) => *last = died_at.max(*last),
            None => {
                self.died.insert(fingerprint.to_owned(), died_at);
            }
        }
    }

    /// Something happened that is counted for whoever watches, if it is committed.
    pub fn note(&mut self, one: Move) {
        self.moves.note(one);
    }

    /// Something happened to a job that is counted for whoever watches, if it is committed.
    pub fn note_job(&mut self, kind: &'static str, queue: &str, job_type: &str) {
        self.note(Move {
            kind,
            source: SOURCE.to_owned(),
            queue: queue.to_owned(),
            letter_type: job_type.to_owned(),
            rule: String::new(),
        });
    }

    pub fn take_moves(&mut self) -> Moves {
        std::mem::take(&mut self.moves)
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
        for (key, (arrived, departed)) in other.flows {
            let sums = self.flows.entry(key).or_default();
            sums.0 += arrived;
            sums.1 += departed;
        }
        for (fingerprint, at) in other.seen {
            self.see(&fingerprint, at);
        }
        for (fingerprint, died_at) in other.died {
            self.die(&fingerprint, died_at);
        }
        self.depths.join_all(other.depths);
        self.at(other.at);
        self.moves.add(other.moves);
    }

    pub fn flush(self, write: &mut Write) -> Result<(), StoreError> {
        let mut sums: HashMap<&str, Sums> = HashMap::new();
        for (fingerprint, at) in &self.seen {
            sums.entry(fingerprint).or_default().seen_at = Some(*at);
        }
        for (fingerprint, died_at) in &self.died {
            sums.entry(fingerprint).or_default().died_at = Some(*died_at);
        }
        let mut change = write.conn.prepare_cached(CHANGE_COUNTER)?;
        let mut forget = write.conn.prepare_cached(FORGET_COUNTER)?;
        for ((dimension, term, value), by) in &self.letters {
            if *by != 0 {
                change.execute((dimension.name(), value, term, by))?;
                if *dimension == Dimension::Fingerprint {
                    sums.entry(value).or_default().add(term, *by);
                }
            }
            // There are as many aggregates as orders: what counts nothing must not stay for ever.
            if *by < 0 {
                forget.execute((dimension.name(), value, term))?;
            }
        }
        drop((change, forget));
        write_flows(write, &self.flows)?;
        self.depths.put(write)?;
        incidents::add_sums(write, sums, self.at)?;
        if self.letters.is_empty() { Ok(()) } else { words::merge(&write.conn) }
    }
}

/// Writes the minutes, and what they add up to by the hour.
fn write_flows(
    write: &Write,
    flows: &HashMap<(i64, Dimension, String), (i64, i64)>,
) -> Result<(), StoreError> {
    let mut change = write.conn.prepare_cached(CHANGE_FLOW)?;
    let mut hours: HashMap<(i64, Dimension, &str), (i64, i64)> = HashMap::new();
    for ((minute, dimension, value), (arrived, departed)) in flows {
        change.execute((dimension.name(), value, Step::Minute.minutes(), minute, arrived, departed))?;
        let hour = hours.entry((Step::Hour.floor(*minute), *dimension, value)).or_default();
        hour.0 += arrived;
        hour.1 += departed;
    }
    for ((minute, dimension, value), (arrived, departed)) in hours {
        change.execute((dimension.name(), value, Step::Hour.minutes(), minute, arrived, departed))?;
    }
    Ok(())
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

const CHANGE_FLOW: &str = "
insert into flows (dimension, value, step, minute, arrived, departed)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (dimension, value, step, minute)
do update set arrived = arrived + excluded.arrived, departed = departed + excluded.departed";
