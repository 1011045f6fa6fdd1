//! What queues hold, counted as jobs move so that nobody has to add up.

use std::collections::BTreeMap;

use lazaret_core::job::state::JobState;
use lazaret_core::time::Time;

use super::super::cell::At;
use super::super::conn::Conn;
use crate::StoreError;

/// How many states a job can be in.
const STATES: usize = JobState::ALL.len();

/// Changes to what queues hold, added up over one transaction and written once, in the order of their names.
#[derive(Default)]
pub(in crate::postgres) struct Depths(BTreeMap<String, (Time, [i64; STATES])>);

impl Depths {
    /// A queue that is met for the first time begins at `at`.
    pub fn add(&mut self, queue: &str, state: JobState, by: i64, at: Time) {
        match self.0.get_mut(queue) {
            Some((_, counts)) => counts[place(state)] += by,
            None => {
                let mut counts = [0; STATES];
                counts[place(state)] = by;
                self.0.insert(queue.to_owned(), (at, counts));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub async fn flush(self, conn: &Conn) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let at: Vec<At> = self.0.values().map(|(at, _)| At(*at)).collect();
        let counts: Vec<Vec<i64>> =
            (0..STATES).map(|state| self.0.values().map(|(_, counts)| counts[state]).collect()).collect();
        let [scheduled, available, pending, active, completed, retryable, cancelled, discarded] =
            counts.as_slice()
        else {
            return Err(StoreError::Corrupt("a job has another number of states".into()));
        };
        conn.execute(
            CHANGE,
            &[&names, &at, scheduled, available, pending, active, completed, retryable, cancelled, discarded],
        )
        .await?;
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

pub(in super::super) const CHANGE: &str = "
insert into queues (name, paused, created_at, scheduled, available, pending, active, completed, retryable, cancelled,
       discarded)
select q.name, false, q.at, q.scheduled, q.available, q.pending, q.active, q.completed, q.retryable, q.cancelled,
       q.discarded
  from unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
              $8::bigint[], $9::bigint[], $10::bigint[])
    as q (name, at, scheduled, available, pending, active, completed, retryable, cancelled, discarded)
on conflict (name)
do update set scheduled = queues.scheduled + excluded.scheduled, available = queues.available + excluded.available,
   pending = queues.pending + excluded.pending, active = queues.active + excluded.active,
   completed = queues.completed + excluded.completed, retryable = queues.retryable + excluded.retryable,
   cancelled = queues.cancelled + excluded.cancelled, discarded = queues.discarded + excluded.discarded";

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
