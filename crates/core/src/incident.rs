//! The life of an incident: the states, and what moves it between them. The only place that knows.
//!
//! An incident opens by itself with the first letter of its fingerprint and closes by itself with the last one. People
//! say why it happened and name the fix; letters that fail after the fix say that it was none.

use std::fmt;

use crate::time::Time;

/// Where an incident stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IncidentState {
    /// Letters wait and nobody has said why.
    Open,
    /// The cause is written down.
    Diagnosed,
    /// The fix is named.
    Fixed,
    /// Its letters are being put back.
    Redriving,
    /// All were sent, and not all are known to have succeeded.
    Verifying,
    /// Nothing of it waits any more.
    Closed,
    /// It came back after its fix.
    Regressed,
}

/// What happens to an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A letter died, outside of any run that could have expected it.
    LetterDied(AgainstFix),
    /// A letter waits again that had come to its end: it was reopened, restored or moved here.
    LetterWaits(AgainstFix),
    /// The last letter that waited or was under way came to its end.
    LastLetterEnded,
    /// The analysis was written, or written anew.
    Diagnosed,
    /// The fix was named: a change that is deployed, or the decision of an approver.
    FixNamed,
    /// A redrive was launched under the analysis.
    Launched,
    /// All letters of its runs were sent.
    AllSent,
    /// Its runs are over, no letter relapsed, and some still wait.
    RunEnded,
    /// A run had too many relapses, or ended with relapsed letters.
    RunRelapsed,
}

/// When a letter died, seen from the fix of its incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgainstFix {
    /// There is no fix.
    None,
    Before,
    After,
}

/// A step that the state of an incident does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unmoved {
    #[error("the fix can be named once the cause is written down")]
    NotDiagnosed,
    #[error("it came back after its fix; the analysis has to be written anew before another fix is named")]
    Regressed,
    #[error("letters of it still wait or are under way")]
    LettersLeft,
}

impl AgainstFix {
    pub fn of(died_at: Time, fix_at: Option<Time>) -> AgainstFix {
        match fix_at {
            None => AgainstFix::None,
            Some(fix_at) if died_at > fix_at => AgainstFix::After,
            Some(_) => AgainstFix::Before,
        }
    }
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

    /// The state after something happened; the same one if that moves nothing.
    pub const fn after(self, happening: Happening) -> IncidentState {
        use IncidentState::{Closed, Diagnosed, Fixed, Open, Redriving, Regressed, Verifying};
        match happening {
            Happening::LastLetterEnded => Closed,
            Happening::LetterDied(against) => match (self, against) {
                (Closed, AgainstFix::None) => Open,
                (Closed, AgainstFix::Before) => Fixed,
                (Diagnosed | Fixed | Redriving | Verifying | Closed | Regressed, AgainstFix::After) => {
                    Regressed
                }
                (
                    Open | Diagnosed | Fixed | Redriving | Verifying | Regressed,
                    AgainstFix::None | AgainstFix::Before,
                )
                | (Open, AgainstFix::After) => self,
            },
            // Old news: what died after the fix was known when the incident closed.
            Happening::LetterWaits(against) => match (self, against) {
                (Closed, AgainstFix::None) => Open,
                (Closed, AgainstFix::Before | AgainstFix::After) => Fixed,
                (Open | Diagnosed | Fixed | Redriving | Verifying | Regressed, _) => self,
            },
            Happening::Diagnosed => match self {
                Open | Regressed => Diagnosed,
                Diagnosed | Fixed | Redriving | Verifying | Closed => self,
            },
            Happening::FixNamed => match self {
                Diagnosed => Fixed,
                Open | Fixed | Redriving | Verifying | Closed | Regressed => self,
            },
            Happening::Launched => match self {
                Fixed | Verifying => Redriving,
                Open | Diagnosed | Redriving | Closed | Regressed => self,
            },
            Happening::AllSent => match self {
                Redriving => Verifying,
                Open | Diagnosed | Fixed | Verifying | Closed | Regressed => self,
            },
            Happening::RunEnded => match self {
                Redriving | Verifying => Fixed,
                Open | Diagnosed | Fixed | Closed | Regressed => self,
            },
            Happening::RunRelapsed => match self {
                Diagnosed | Fixed | Redriving | Verifying | Closed | Regressed => Regressed,
                Open => self,
            },
        }
    }

    /// Whether a fix can be named now.
    pub const fn takes_fix(self) -> Result<(), Unmoved> {
        match self {
            IncidentState::Open => Err(Unmoved::NotDiagnosed),
            IncidentState::Regressed => Err(Unmoved::Regressed),
            IncidentState::Diagnosed
            | IncidentState::Fixed
            | IncidentState::Redriving
            | IncidentState::Verifying
            | IncidentState::Closed => Ok(()),
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
    use IncidentState::{Closed, Diagnosed, Fixed, Open, Redriving, Regressed, Verifying};

    #[test]
    fn the_last_letter_closes_whatever_the_state() {
        for state in IncidentState::ALL {
            assert_eq!(state.after(Happening::LastLetterEnded), Closed);
            assert_eq!(IncidentState::parse(state.name()), Some(state));
        }
    }

    #[test]
    fn the_way_from_open_to_closed() {
        let way = [
            (Happening::Diagnosed, Diagnosed),
            (Happening::FixNamed, Fixed),
            (Happening::Launched, Redriving),
            (Happening::AllSent, Verifying),
            (Happening::RunEnded, Fixed),
            (Happening::Launched, Redriving),
            (Happening::RunRelapsed, Regressed),
            (Happening::FixNamed, Regressed),
            (Happening::Diagnosed, Diagnosed),
            (Happening::FixNamed, Fixed),
            (Happening::LastLetterEnded, Closed),
        ];
        let mut state = Open;
        for (happening, next) in way {
            state = state.after(happening);
            assert_eq!(state, next, "{happening:?}");
        }
    }

    #[test]
    fn a_death_is_weighed_against_the_fix() {
        let died = |state: IncidentState, against| state.after(Happening::LetterDied(against));
        assert_eq!(died(Closed, AgainstFix::None), Open);
        assert_eq!(died(Closed, AgainstFix::Before), Fixed);
        for state in [Fixed, Redriving, Verifying, Closed, Regressed] {
            assert_eq!(died(state, AgainstFix::After), Regressed);
        }
        for state in [Open, Diagnosed, Fixed, Redriving, Verifying, Regressed] {
            assert_eq!(died(state, AgainstFix::Before), state);
            assert_eq!(died(state, AgainstFix::None), state);
        }
        let fix = Time::from_ms(10);
        assert_eq!(AgainstFix::of(Time::from_ms(10), Some(fix)), AgainstFix::Before);
        assert_eq!(AgainstFix::of(Time::from_ms(11), Some(fix)), AgainstFix::After);
        assert_eq!(AgainstFix::of(Time::from_ms(11), None), AgainstFix::None);
    }

    #[test]
    fn a_letter_that_is_reopened_is_no_relapse_of_the_cause() {
        assert_eq!(Closed.after(Happening::LetterWaits(AgainstFix::After)), Fixed);
        assert_eq!(Fixed.after(Happening::LetterWaits(AgainstFix::After)), Fixed);
    }

    #[test]
    fn an_open_incident_is_moved_by_its_analysis_alone() {
        for happening in [
            Happening::FixNamed,
            Happening::Launched,
            Happening::AllSent,
            Happening::RunEnded,
            Happening::RunRelapsed,
            Happening::LetterDied(AgainstFix::After),
        ] {
            assert_eq!(Open.after(happening), Open, "{happening:?}");
        }
    }
}
