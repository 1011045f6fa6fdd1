//! The one clock. Tests stop it and move it by hand.
//!
//! Instances that share a database share its time: each adds to its own clock how far the two are apart. Else a job that
//! one instance hands out would be taken back too early, or too late, by another whose clock is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::{Store, StoreError};

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Stands still at these Unix milliseconds until it is moved.
    Fixed(Arc<AtomicI64>),
    /// That of this machine, put right.
    Shared(Arc<Shared>),
}

/// A clock, and how far another one is ahead of it.
#[derive(Debug)]
pub struct Shared {
    local: Clock,
    ahead_ms: AtomicI64,
}

impl Clock {
    pub fn fixed(at: Time) -> Clock {
        Clock::Fixed(Arc::new(AtomicI64::new(at.ms())))
    }

    /// The clock to use with a store: `local`, or the store's if it may be on another machine.
    pub async fn of(store: &dyn Store, local: Clock) -> Result<Clock, StoreError> {
        if store.now().await?.is_none() {
            return Ok(local);
        }
        let shared = Clock::Shared(Arc::new(Shared { local, ahead_ms: AtomicI64::new(0) }));
        shared.adjust(store).await?;
        Ok(shared)
    }

    pub fn now(&self) -> Time {
        match self {
            Clock::System => {
                // A machine whose clock stands before 1970 gets the epoch: nothing sensible is earlier.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Clock::Fixed(ms) => Time::from_ms(ms.load(Ordering::SeqCst)),
            Clock::Shared(shared) => shared.local.now().plus_ms(shared.ahead_ms.load(Ordering::SeqCst)),
        }
    }

    /// Compares a shared clock with that of the store, and puts it right; other clocks are left alone.
    pub async fn adjust(&self, store: &dyn Store) -> Result<(), StoreError> {
        let Clock::Shared(shared) = self else { return Ok(()) };
        let mut best: Option<Ahead> = None;
        for _ in 0..limits::CLOCK_SAMPLES {
            let asked = shared.local.now();
            let Some(there) = store.now().await? else { return Ok(()) };
            let ahead = Ahead::measured(asked, there, shared.local.now());
            best = Some(best.map_or(ahead, |best| best.surer(ahead)));
        }
        let Some(found) = best else { return Ok(()) };
        let before = shared.ahead_ms.load(Ordering::SeqCst);
        let after = found.instead_of(before);
        shared.ahead_ms.store(after, Ordering::SeqCst);
        match (is_off(before), is_off(after)) {
            (false, true) => tracing::warn!(
                ahead_ms = after,
                "this machine's clock is {} s off the database's, which is used: put it right",
                after / 1_000
            ),
            (true, false) => tracing::info!(ahead_ms = after, "this machine's clock is right again"),
            (true, true) | (false, false) => {}
        }
        Ok(())
    }
}

/// Whether clocks are so far apart that a person should know.
const fn is_off(ahead_ms: i64) -> bool {
    ahead_ms.saturating_abs() > limits::CLOCK_OFF_MS_MAX
}

/// How far another clock is ahead, as far as a question and its answer can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ahead {
    ms: i64,
    /// It may be this much more or less: nobody knows when, on the way, the other clock was looked at.
    unsure_ms: i64,
}

impl Ahead {
    fn measured(asked: Time, there: Time, answered: Time) -> Ahead {
        let way_ms = answered.since(asked).max(0);
        // Both clocks are read to the millisecond.
        Ahead { ms: there.since(asked.plus_ms(way_ms / 2)), unsure_ms: way_ms / 2 + 1 }
    }

    fn surer(self, other: Ahead) -> Ahead {
        if other.unsure_ms < self.unsure_ms { other } else { self }
    }

    /// What to use from now on. A difference that cannot be told from none is none: time would go back and forth.
    fn instead_of(self, before_ms: i64) -> i64 {
        if (self.ms - before_ms).abs() <= self.unsure_ms { before_ms } else { self.ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(asked: i64, there: i64, answered: i64) -> Ahead {
        Ahead::measured(Time::from_ms(asked), Time::from_ms(there), Time::from_ms(answered))
    }

    #[test]
    fn a_clock_is_ahead_by_what_lies_between_it_and_the_middle_of_the_way() {
        assert_eq!(measured(1_000, 4_605, 1_010), Ahead { ms: 3_600, unsure_ms: 6 });
        assert_eq!(measured(1_000, 405, 1_010), Ahead { ms: -600, unsure_ms: 6 });
        // The clock was put back while the answer was on its way.
        assert_eq!(measured(1_000, 1_005, 10), Ahead { ms: 5, unsure_ms: 1 });
    }

    #[test]
    fn the_quickest_answer_counts() {
        let (slow, quick) = (measured(0, 5_900, 2_000), measured(3_000, 8_001, 3_002));
        assert_eq!(slow.surer(quick), quick);
        assert_eq!(quick.surer(slow), quick);
    }

    #[test]
    fn what_cannot_be_told_from_what_is_known_changes_nothing() {
        assert_eq!(measured(1_000, 1_008, 1_010).instead_of(0), 0);
        assert_eq!(measured(1_000, 1_108, 1_010).instead_of(0), 103);
        assert_eq!(measured(1_000, 1_108, 1_010).instead_of(100), 100);
    }

    #[test]
    fn clocks_are_off_beyond_five_seconds() {
        assert!(!is_off(5_000) && !is_off(-5_000));
        assert!(is_off(5_001) && is_off(-5_001) && is_off(i64::MIN));
    }
}
