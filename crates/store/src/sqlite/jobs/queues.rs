//! What queues hold, counted as jobs move so that nobody has to add up.

use std::collections::HashMap;

use lazaret_core::job::state::JobState;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::writer::Write;
use crate::StoreError;

/// How many states a job can be in.
const STATES: usize = JobState::ALL.len();

/// Changes to what queues hold, added up: over one request, and for most requests over all that share a commit.
#[derive(Default, Debug)]
pub(in crate::sqlite) struct Depths(HashMap<String, Depth>);

#[derive(Debug)]
struct Depth {
    counts: [i64; STATES],
    /// When a queue begins that is met for the first time.
    at: Time,
}

impl Depths {
    pub fn add(&mut self, queue: &str, state: JobState, by: i64) {
        let place = place(state);
        match self.0.get_mut(queue) {
            Some(depth) => depth.counts[place] += by,
            None => {
                let mut counts = [0; STATES];
                counts[place] = by;
                self.0.insert(queue.to_owned(), Depth { counts, at: Time::default() });
            }
        }
    }

    /// Leaves the changes to the end of the commit, where those of many requests are one; a queue that is met for the
    /// first time begins at `at`.
    pub fn defer(self, write: &mut Write, at: Time) {
        for (queue, depth) in self.0 {
            write.tally.depths.join(queue, Depth { at, ..depth });
        }
    }

    /// Takes over the changes of a request that went well.
    pub fn join_all(&mut self, other: Depths) {
        for (queue, depth) in other.0 {
            self.join(queue, depth);
        }
    }

    fn join(&mut self, queue: String, other: Depth) {
        match self.0.get_mut(&queue) {
            Some(depth) => {
                for (count, by) in depth.counts.iter_mut().zip(other.counts) {
                    *count += by;
                }
                depth.at = depth.at.min(other.at);
            }
            None => {
                self.0.insert(queue, other);
            }
        }
    }

    /// Writes the changes at once.
    pub fn flush(mut self, write: &Write, at: Time) -> Result<(), StoreError> {
        for depth in self.0.values_mut() {
            depth.at = at;
        }
        self.put(write)
    }

    pub fn put(self, write: &Write) -> Result<(), StoreError> {
        let mut change = write.conn.prepare_cached(CHANGE)?;
        for (queue, Depth { counts, at }) in self.0 {
            let [scheduled, available, pending, active, completed, retryable, cancelled, discarded] = counts;
            change.execute((
                queue,
                at.ms(),
                scheduled,
                available,
                pending,
                active,
                completed,
                retryable,
                cancelled,
                discarded,
            ))?;
        }
        Ok(())
    }
}

/// The place of a state in `JobState::ALL`, which is also that of its column.
const fn place(state: JobState) -> usize {
    match state {
        JobState::Scheduled => 0,
        JobState::Available => 1,
        JobState::Pending => 2,
        JobState::Active => 3,
        JobState::Completed => 4,
        JobState::Retryable => 5,
        JobState::Cancelled => 6,
        JobState::Discarded => 7,
    }
}

const CHANGE: &str = "
insert into queues (name, paused, created_at, scheduled, available, pending, active, completed, retryable, cancelled,
       discarded)
values (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
on conflict (name)
do update set scheduled = scheduled + excluded.scheduled, available = available + excluded.available,
   pending = pending + excluded.pending, active = active + excluded.active,
   completed = completed + excluded.completed, retryable = retryable + excluded.retryable,
   cancelled = cancelled + excluded.cancelled, discarded = discarded + excluded.discarded";

const PAUSED: &str = "select paused from queues where name = ?1";

pub(super) fn is_paused(conn: &Connection, name: &str) -> Result<bool, StoreError> {
    let paused: Option<bool> = conn.prepare_cached(PAUSED)?.query_row([name], |row| row.get(0)).optional()?;
    Ok(paused.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_its_place_among_all() {
        for (at, state) in JobState::ALL.into_iter().enumerate() {
            assert_eq!(place(state), at);
        }
    }
}
