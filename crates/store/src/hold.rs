//! Holds: who keeps which letters from being removed, why, and until when.
//!
//! A letter may be under several holds; it is free when the last of them is gone. `dead_letter_queue.held_at` and its
//! neighbours, which every removing statement asks, tell of the oldest of them.

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::time::Time;

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
