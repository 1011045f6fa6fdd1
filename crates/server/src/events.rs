//! Events for those who follow them: which ones a reader wants, how many readers there may be, and how long events are
//! kept.
//!
//! Nothing here knows HTTP. Readers never hold up a writer: who does not read is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::event::{Event, EventsKept};
use tokio::task::JoinSet;

use crate::app::App;
use crate::operations::Progress;

/// The events that a reader wants. Without kinds every kind, without a filter also what is not about a letter.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub kinds: Vec<Pattern>,
    pub letters: Option<Filter>,
}

impl Selection {
    /// Whether the event is wanted, judged by its letter as it stands now.
    pub fn takes(&self, event: &Event, now: Time) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.matches(&event.kind));
        kind && match (&self.letters, &event.about) {
            (None, _) => true,
            (Some(filter), Some(letter)) => filter.matches(letter, now),
            (Some(_), None) => false,
        }
    }
}

/// A place in the events that cannot be gone on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    pub reason: &'static str,
    pub asked: u64,
    /// The first event that there is instead.
    pub oldest: u64,
}

/// Says whether something between `place` and what is kept is gone.
pub fn lost(place: u64, kept: EventsKept) -> Option<Lost> {
    let reason = if place.saturating_add(1) < kept.oldest {
        "events after this place are no longer kept"
    } else if place > kept.newest {
        "this place is ahead of every event: it is from another store, or from before this one was emptied"
    } else {
        return None;
    };
    Some(Lost { reason, asked: place, oldest: kept.oldest })
}

/// Those who follow events over a connection that stays open.
#[derive(Debug, Default)]
pub struct Readers {
    pub bounds: ReaderBounds,
    tasks: Mutex<JoinSet<()>>,
    by_caller: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// How many readers there may be, and how patient one is dealt with. Tests are less patient.
#[derive(Clone, Copy, Debug)]
pub struct ReaderBounds {
    pub readers_max: usize,
    pub per_caller_max: usize,
    pub stall: Duration,
    pub beat: Duration,
}

impl Default for ReaderBounds {
    fn default() -> ReaderBounds {
        ReaderBounds {
            readers_max: limits::EVENT_READERS_MAX,
            per_caller_max: limits::EVENT_READERS_PER_CALLER_MAX,
            stall: Duration::from_millis(limits::EVENT_READER_STALL_MS_MAX),
            beat: Duration::from_millis(limits::EVENT_BEAT_MS),
        }
    }
}

/// There are as many readers as there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooManyReaders {
    InAll(usize),
    OfCaller(usize),
}

/// A reader's place among those of its caller; given up when it is dropped.
struct Seat {
    by_caller: Arc<Mutex<BTreeMap<String, usize>>>,
    caller: String,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut by_caller = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                by_caller.remove(&self.caller);
            }
        }
    }
}

impl Readers {
    pub fn new(bounds: ReaderBounds) -> Readers {
        Readers { bounds, tasks: Mutex::default(), by_caller: Arc::default() }
    }

    /// How many readers there are.
    pub fn count(&self) -> usize {
        self.present().len()
    }

    /// Those who have not left yet.
    fn present(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks
    }

    /// Runs a caller's reader if there is a place for it.
    pub fn admit(
        &self,
        caller: &str,
        reader: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), TooManyReaders> {
        let mut tasks = self.present();
        if tasks.len() >= self.bounds.readers_max {
            return Err(TooManyReaders::InAll(self.bounds.readers_max));
        }
        let mut by_caller = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_caller.entry(caller.to_owned()).or_default();
        if *count >= self.bounds.per_caller_max {
            return Err(TooManyReaders::OfCaller(self.bounds.per_caller_max));
        }
        *count += 1;
        let seat = Seat { by_caller: Arc::clone(&self.by_caller), caller: caller.to_owned() };
        tasks.spawn(async move {
            let _seat = seat;
            reader.await;
        });
        Ok(())
    }
}

/// Forgets the oldest events beyond those that are to be kept, and the minutes that hours tell of.
pub async fn prune(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let before = app.clock.now().plus_ms(-limits::MINUTES_KEPT_MS);
    let events = app.store.prune_events(app.config.events.keep).await?;
    let minutes = app.store.prune_minutes(before).await?;
    // While letters come in there is always one too many: only a full batch means that more is left.
    let more =
        events >= limits::EVENTS_PRUNED_PER_WRITE as u64 || minutes >= limits::FLOWS_PRUNED_PER_WRITE as u64;
    Ok(if more { Progress::More } else { Progress::Idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_lost_when_the_next_event_is_gone_or_never_was() {
        let kept = EventsKept { oldest: 10, newest: 20 };
        for (place, is_lost) in [(0, true), (8, true), (9, false), (20, false), (21, true), (u64::MAX, true)]
        {
            assert_eq!(lost(place, kept).is_some(), is_lost, "{place}");
        }
        assert_eq!(lost(0, EventsKept { oldest: 1, newest: 0 }), None);
        assert_eq!(lost(20, EventsKept { oldest: 21, newest: 20 }), None);
    }
}
