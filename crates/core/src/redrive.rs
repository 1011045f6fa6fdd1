//! Redrives: a frozen list of letters put back at a pace, canaries first, in order within each lane.
//!
//! What a run may do, what becomes of its letters, how fast it goes and when it stops by itself: values in, values out.

mod advance;
mod canary;
mod options;
mod pace;
mod run;
mod stop;

pub use advance::{
    ADVANCES_MAX, Effects, IncidentFacts, LetterEffect, OtherRuns, RunFacts, advance, day_end, day_start,
};
pub use canary::{Canaries, CanaryVerdict, choose, judge};
pub use options::{Direction, Options, OrderBy, Prioritization};
pub use pace::{Granted, Pace};
pub use run::{LaneEffect, Outcome, RedriveKind, RunAction, RunState};
pub use stop::StopRule;
