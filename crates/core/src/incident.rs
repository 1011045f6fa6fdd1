//! The life of an incident: the states, and what moves it between them. The only place that knows.
//!
//! An incident opens by itself with the first letter of its fingerprint and closes by itself with the last one.

use std::fmt;

/// Where an incident stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IncidentState {
    /// Letters wait and nobody has said why.
    Open,
    /// The cause is written down.
    Diagnosed,
    /// The fix is named.
    Fixed,
    Redriving,
    Verifying,
    /// Nothing of it waits any more.
    Closed,
    /// It came back after its fix.
    Regressed,
}

/// What happens to an incident because of its letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A letter died that had not been part of it, or waits again.
    LetterWaits,
    /// The last letter that waited or was under way came to its end.
    LastLetterEnded,
}

impl IncidentState {
    pub const ALL: [IncidentState; 7] = [
        IncidentState::Open,
        IncidentState::Diagnosed,
        IncidentState::Fixed,
        IncidentState::Redriving,
        IncidentState::Verifying,
        IncidentState::Closed,
        IncidentState::Regressed,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            IncidentState::Open => "open",
            IncidentState::Diagnosed => "diagnosed",
            IncidentState::Fixed => "fixed",
            IncidentState::Redriving => "redriving",
            IncidentState::Verifying => "verifying",
            IncidentState::Closed => "closed",
            IncidentState::Regressed => "regressed",
        }
    }

    pub fn parse(text: &str) -> Option<IncidentState> {
        IncidentState::ALL.into_iter().find(|state| state.name() == text)
    }

    /// The state after something happened to its letters; the same one if that moves nothing.
    pub const fn after(self, happening: Happening) -> IncidentState {
        match (self, happening) {
            (_, Happening::LastLetterEnded) => IncidentState::Closed,
            (IncidentState::Closed, Happening::LetterWaits) => IncidentState::Open,
            (
                IncidentState::Open
                | IncidentState::Diagnosed
                | IncidentState::Fixed
                | IncidentState::Redriving
                | IncidentState::Verifying
                | IncidentState::Regressed,
                Happening::LetterWaits,
            ) => self,
        }
    }
}

impl fmt::Display for IncidentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_letter_closes_and_a_new_one_opens_again() {
        for state in IncidentState::ALL {
            assert_eq!(state.after(Happening::LastLetterEnded), IncidentState::Closed);
            assert_eq!(IncidentState::parse(state.name()), Some(state));
            assert_ne!(state.after(Happening::LetterWaits), IncidentState::Closed);
        }
        assert_eq!(IncidentState::Closed.after(Happening::LetterWaits), IncidentState::Open);
        assert_eq!(IncidentState::Fixed.after(Happening::LetterWaits), IncidentState::Fixed);
    }
}
