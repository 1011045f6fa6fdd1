//! Counters, kept as letters move: added up in memory over a commit and written once at its end.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::future::try_join3;
use lazaret_core::time::Time;

use super::incidents::{self, SentSingly, Sums};
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
    /// When a letter of a fingerprint last died outside of any run.
    died: HashMap<String, Time>,
    /// Fingerprints of which a letter died that a run had put back which is over.
    relapsed: HashSet<String>,
    /// Letters that were sent by themselves under the RCA, by their fingerprints.
    sent: HashMap<String, Vec<SentSingly>>,
    /// The latest time at which something of this happened.
    at: Time,
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

    /// A letter of this fingerprint died, and no run had it out.
    pub fn die(&mut self, fingerprint: &str, died_at: Time) {
        match self.died.get_mut(fingerprint) {
            Some(last) => *last = died_at.max(*last),
            None => {
                self.died.insert(fingerprint.to_owned(), died_at);
            }
        }
    }

    /// A letter died of what a run that is over was to have mended.
    pub fn relapse(&mut self, fingerprint: &str) {
        self.relapsed.insert(fingerprint.to_owned());
    }

    /// A letter of this fingerprint was sent by itself under the RCA.
    pub fn send(&mut self, fingerprint: &str, sent: SentSingly) {
        self.at(sent.at);
        self.sent.entry(fingerprint.to_owned()).or_default().push(sent);
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

    /// Writes everything in one order, so that two instances that write at once wait for each other and never in a
    /// circle.
    pub async fn flush(self, write: &mut Write) -> Result<(), StoreError> {
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        for (fingerprint, at) in self.seen {
            sums.entry(fingerprint).or_default().seen_at = Some(at);
        }
        for (fingerprint, died_at) in self.died {
            sums.entry(fingerprint).or_default().died_at = Some(died_at);
        }
        for fingerprint in self.relapsed {
            sums.entry(fingerprint).or_default().relapsed = true;
        }
        for (fingerprint, sent) in self.sent {
            sums.entry(fingerprint).or_default().sent = sent;
        }
        let mut changes: BTreeMap<(&str, &str, &str), i64> = BTreeMap::new();
        for ((dimension, term, value), by) in self.letters.iter().filter(|(_, by)| **by != 0) {
            changes.insert((dimension.name(), value, term), *by);
            if *dimension == Dimension::Fingerprint {
                sums.entry(value.clone()).or_default().add(term, *by);
            }
        }
        write.conn.prepare_all(&[CHANGE_COUNTERS, CHANGE_FLOWS]).await?;
        let fingerprints: Vec<&str> = sums.keys().map(String::as_str).collect();
        // Asked behind the counters on the same way: fingerprints move only while nobody else writes.
        let ((), (), incidents) = try_join3(
            write_letters(write, &changes),
            write_flows(write, &self.flows),
            incidents::of_fingerprints(&write.conn, &fingerprints),
        )
        .await?;
        incidents::add_sums(write, &sums, &incidents, self.at).await
    }
}

async fn write_letters(write: &Write, changes: &BTreeMap<(&str, &str, &str), i64>) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let (mut dimensions, mut values, mut terms, mut by) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((dimension, value, term), change) in changes {
        dimensions.push(*dimension);
        values.push(*value);
        terms.push(*term);
        by.push(*change);
    }
    write.conn.execute(CHANGE_COUNTERS, &[&dimensions, &values, &terms, &by]).await?;
    // There are as many aggregates as orders: what counts nothing must not stay for ever.
    if by.iter().any(|by| *by < 0) {
        write.conn.execute(FORGET_COUNTERS, &[&dimensions, &values, &terms]).await?;
    }
    Ok(())
}

/// Writes the minutes, and what they add up to by the hour.
async fn write_flows(
    write: &Write,
    flows: &HashMap<(i64, Dimension, String), (i64, i64)>,
) -> Result<(), StoreError> {
    if flows.is_empty() {
        return Ok(());
    }
    let mut sums: BTreeMap<(&str, &str, i32, i64), (i64, i64)> = BTreeMap::new();
    for ((minute, dimension, value), (arrived, departed)) in flows {
        for step in [Step::Minute, Step::Hour] {
            let key = (dimension.name(), value.as_str(), step.minutes() as i32, step.floor(*minute));
            let sum = sums.entry(key).or_default();
            sum.0 += arrived;
            sum.1 += departed;
        }
    }
    let (mut dimensions, mut values, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut minutes, mut arrived, mut departed) = (Vec::new(), Vec::new(), Vec::new());
    for ((dimension, value, step, minute), (came, went)) in sums {
        dimensions.push(dimension);
        values.push(value);
        steps.push(step);
        minutes.push(minute);
        arrived.push(came);
        departed.push(went);
    }
    write.conn.execute(CHANGE_FLOWS, &[&dimensions, &values, &steps, &minutes, &arrived, &departed]).await?;
    Ok(())
}

const CHANGE_COUNTERS: &str = "
insert into counters (dimension, value, term, letters)
select c.dimension, c.value, c.term, c.letters
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as c (dimension, value, term, letters)
on conflict (dimension, value, term)
do update set letters = counters.letters + excluded.letters";

const FORGET_COUNTERS: &str = "
delete from counters c
 using unnest($1::text[], $2::text[], $3::text[]) as f (dimension, value, term)
 where c.dimension = f.dimension
   and c.value = f.value
   and c.term = f.term
   and c.letters = 0";

const CHANGE_FLOWS: &str = "
insert into flows (dimension, value, step, minute, arrived, departed)
select f.dimension, f.value, f.step, f.minute, f.arrived, f.departed
  from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[])
    as f (dimension, value, step, minute, arrived, departed)
on conflict (dimension, value, step, minute)
do update set arrived = flows.arrived + excluded.arrived, departed = flows.departed + excluded.departed";
