//! Holds: who keeps which letters from being removed, why, and until when.
//!
//! A letter may be under several holds; it is free when the last of them is gone. `dead_letter_queue.held_at` and its
//! neighbours, which every removing statement asks, tell of the oldest of them.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// A hold that is to be placed.
#[derive(Clone, PartialEq, Debug)]
pub struct NewHold {
    pub id: HoldId,
    pub on: HoldOn,
    pub reason: String,
    pub until: Option<Time>,
    pub by: Actor,
    pub at: Time,
}

#[derive(Clone, PartialEq, Debug)]
pub enum HoldOn {
    /// One letter, live or archived.
    Letter(LetterId),
    /// The live letters that match now, if there are exactly so many.
    Filter { filter: Filter, expected: u64 },
    /// Those that match now, and those to come.
    Standing(Filter),
}

/// What became of a hold that was to be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HoldPlaced {
    Placed,
    /// There is no such letter, or it is gone.
    Unknown,
    /// The filter matches another number of letters; nothing is held.
    Count(u64),
    /// There are as many standing holds as there may be.
    TooMany,
}

/// A hold as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HoldRecord {
    pub id: HoldId,
    pub state: HoldState,
    pub standing: bool,
    /// The filter in its text form; nothing for a hold on one letter.
    pub filter: Option<String>,
    /// The letter that it was placed on.
    pub letter: Option<LetterId>,
    pub reason: String,
    pub held_by: String,
    pub held_at: Time,
    pub until: Option<Time>,
    pub released_by: Option<String>,
    pub released_at: Option<Time>,
    pub release_reason: Option<String>,
    /// How many letters are under it now.
    pub letters: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HoldState {
    /// In force; letters that matched when it was placed are still being marked.
    Placing,
    Standing,
    /// No longer in force; its letters are still being freed.
    Releasing,
    Released,
}

impl HoldState {
    pub const ALL: [HoldState; 4] =
        [HoldState::Placing, HoldState::Standing, HoldState::Releasing, HoldState::Released];

    pub const fn name(self) -> &'static str {
        match self {
            HoldState::Placing => "placing",
            HoldState::Standing => "standing",
            HoldState::Releasing => "releasing",
            HoldState::Released => "released",
        }
    }

    pub fn parse(text: &str) -> Option<HoldState> {
        HoldState::ALL.into_iter().find(|state| state.name() == text)
    }
}

/// What a store does for holds. Every `Store` is one.
#[async_trait]
pub trait Holds: Send + Sync {
    /// Places a hold. One on a letter is complete at once; of another the letters are counted and the hold is in force,
    /// and `work_hold` marks them.
    async fn place_hold(&self, hold: NewHold) -> Result<HoldPlaced, StoreError>;

    /// Marks or frees the next letters of a hold; true while there are more. One whose time is over by then is ended
    /// first.
    async fn work_hold(&self, id: HoldId, at: Time) -> Result<bool, StoreError>;

    /// Ends a hold; `work_hold` frees its letters. False if there is none, or it ended before.
    async fn release_hold(
        &self,
        id: HoldId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError>;

    /// Holds that end by themselves by then, and those that have letters left to mark or free.
    async fn due_holds(&self, at: Time) -> Result<Vec<HoldRecord>, StoreError>;

    /// Holds, the last placed first, behind an id; those that ended only when asked for.
    async fn holds(
        &self,
        before: Option<HoldId>,
        ended: bool,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError>;

    async fn hold(&self, id: HoldId) -> Result<Option<HoldRecord>, StoreError>;

    /// Letters under a hold, by id, behind one.
    async fn hold_letters(
        &self,
        id: HoldId,
        after: Option<LetterId>,
        limit: usize,
    ) -> Result<Vec<LetterId>, StoreError>;

    /// The holds that a letter is under, oldest first.
    async fn holds_of(&self, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError>;
}
