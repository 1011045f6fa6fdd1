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
    LetterWaits(FixStanding),
    /// The last letter that waited or was under way came to its end.
    LastLetterEnded,
    /// The RCA was written, or revised within its category.
    Diagnosed,
    /// The RCA was revised and names another category: a fix of the old category is none for the new one.
    Recategorized,
    /// The fix was named: a change that is deployed, or the decision of an approver.
    FixNamed,
    /// A redrive was launched under the analysis.
    Launched,
    /// One letter was sent by itself under the RCA: there is nothing left to send.
    SentSingly,
    /// All letters of its runs were sent.
    AllSent,
    /// Its runs are over, no letter relapsed, and some still wait.
    RunEnded,
    /// A canary relapsed, a run had too many relapses, or it ended with relapsed letters.
    RunRelapsed,
}

/// What is known of the fix of an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FixStanding {
    /// No fix is named.
    None,
    /// A fix is named; letters that died up to this time inherit the RCA.
    Named(Time),
    /// The incident regressed, and the RCA was not revised since.
    Disproved,
}

impl FixStanding {
    /// The standing of a fix as it is kept: its time, and whether a regression disproved it.
    pub const fn kept(fix_at: Option<Time>, disproved: bool) -> FixStanding {
        match (disproved, fix_at) {
            (true, _) => FixStanding::Disproved,
            (false, Some(fix_at)) => FixStanding::Named(fix_at),
            (false, None) => FixStanding::None,
        }
    }
}

/// What the letters of an incident did in one commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LetterMoves {
    /// Whether one relapsed that a run which has ended had sent under the RCA.
    pub relapsed: bool,
    /// The last death outside of any run.
    pub last_death: Option<Time>,
    /// How many are pending or reprocessing afterwards.
    pub unsettled: i64,
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
    #[error("RCA required: save the root cause before the fix")]
    NotDiagnosed,
    #[error("RCA revision required: the incident regressed after its fix")]
    Regressed,
    #[error("letters are still pending or in flight")]
    LettersLeft,
}

impl FixStanding {
    /// The time that the fix in force holds from.
    pub const fn at(self) -> Option<Time> {
        match self {
            FixStanding::Named(fix_at) => Some(fix_at),
            FixStanding::None | FixStanding::Disproved => None,
        }
    }

    /// When a letter died, seen from this fix. Under a disproved fix every death speaks against it.
    fn against(self, died_at: Time) -> AgainstFix {
        match self {
            FixStanding::None => AgainstFix::None,
            FixStanding::Named(fix_at) => AgainstFix::of(died_at, Some(fix_at)),
            FixStanding::Disproved => AgainstFix::After,
        }
    }
}

impl AgainstFix {
    pub const ALL: [AgainstFix; 3] = [AgainstFix::None, AgainstFix::Before, AgainstFix::After];

    pub const fn name(self) -> &'static str {
        match self {
            AgainstFix::None => "none",
            AgainstFix::Before => "before",
            AgainstFix::After => "after",
        }
    }

    pub fn parse(text: &str) -> Option<AgainstFix> {
        AgainstFix::ALL.into_iter().find(|against| against.name() == text)
    }

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
            Happening::LetterWaits(fix) => match (self, fix) {
                (Closed, FixStanding::None) => Open,
                (Closed, FixStanding::Named(_)) => Fixed,
                (Closed, FixStanding::Disproved) => Regressed,
                (Open | Diagnosed | Fixed | Redriving | Verifying | Regressed, _) => self,
            },
            Happening::Diagnosed => match self {
                Open | Regressed => Diagnosed,
                Diagnosed | Fixed | Redriving | Verifying | Closed => self,
            },
            Happening::Recategorized => match self {
                Open | Diagnosed | Fixed | Redriving | Verifying | Regressed => Diagnosed,
                Closed => Closed,
            },
            Happening::FixNamed => match self {
                Diagnosed => Fixed,
                Open | Fixed | Redriving | Verifying | Closed | Regressed => self,
            },
            Happening::Launched => match self {
                Fixed | Verifying => Redriving,
                Open | Diagnosed | Redriving | Closed | Regressed => self,
            },
            Happening::SentSingly => match self {
                Fixed => Verifying,
                Open | Diagnosed | Redriving | Verifying | Closed | Regressed => self,
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

    /// Where the letters of one commit lead: first by their deaths, then by how many are unsettled. Both are steps of
    /// the incident, because a regression counts even if the last letter is resolved in the same commit.
    pub fn after_letters(self, fix: FixStanding, moves: LetterMoves) -> [IncidentState; 2] {
        let relapsed = if moves.relapsed { self.after(Happening::RunRelapsed) } else { self };
        let died = match moves.last_death {
            Some(died_at) => relapsed.after(Happening::LetterDied(fix.against(died_at))),
            None => relapsed,
        };
        let settled = if moves.unsettled > 0 {
            died.after(Happening::LetterWaits(fix))
        } else {
            died.after(Happening::LastLetterEnded)
        };
        [died, settled]
    }

    /// Refuses a fix where the RCA has to be written or revised first.
    pub const fn takes_fix(self, fix: FixStanding) -> Result<(), Unmoved> {
        match (self, fix) {
            (IncidentState::Regressed, _) | (_, FixStanding::Disproved) => Err(Unmoved::Regressed),
            (IncidentState::Open, _) => Err(Unmoved::NotDiagnosed),
            (
                IncidentState::Diagnosed
                | IncidentState::Fixed
                | IncidentState::Redriving
                | IncidentState::Verifying
                | IncidentState::Closed,
                FixStanding::None | FixStanding::Named(_),
            ) => Ok(()),
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
        let fix = FixStanding::Named(Time::from_ms(10));
        assert_eq!(Closed.after(Happening::LetterWaits(fix)), Fixed);
        assert_eq!(Fixed.after(Happening::LetterWaits(fix)), Fixed);
    }

    #[test]
    fn nothing_but_a_revised_rca_leads_out_of_a_regression() {
        let disproved = FixStanding::Disproved;
        let ended = LetterMoves::default();
        assert_eq!(Regressed.after_letters(disproved, ended), [Regressed, Closed]);
        assert_eq!(Closed.takes_fix(disproved), Err(Unmoved::Regressed));
        for last_death in [None, Some(Time::from_ms(-5)), Some(Time::from_ms(5))] {
            let waits = LetterMoves { last_death, unsettled: 1, ..ended };
            assert_eq!(Closed.after_letters(disproved, waits)[1], Regressed);
            assert_eq!(Regressed.after_letters(disproved, waits)[1], Regressed);
        }
        // A regression is seen even if nothing is left of it at the end of the commit.
        let fix = FixStanding::Named(Time::from_ms(10));
        let late = LetterMoves { last_death: Some(Time::from_ms(11)), ..ended };
        assert_eq!(Fixed.after_letters(fix, late), [Regressed, Closed]);
        assert_eq!(Fixed.after_letters(fix, LetterMoves { relapsed: true, ..ended }), [Regressed, Closed]);
        for happening in [
            Happening::FixNamed,
            Happening::Launched,
            Happening::SentSingly,
            Happening::AllSent,
            Happening::RunEnded,
            Happening::RunRelapsed,
        ] {
            assert_eq!(Regressed.after(happening), Regressed, "{happening:?}");
        }
        assert_eq!(Regressed.after(Happening::Diagnosed), Diagnosed);
        assert_eq!(Diagnosed.takes_fix(FixStanding::None), Ok(()));
    }

    #[test]
    fn another_category_asks_for_another_fix() {
        for state in [Open, Diagnosed, Fixed, Redriving, Verifying, Regressed] {
            assert_eq!(state.after(Happening::Recategorized), Diagnosed);
        }
        assert_eq!(Closed.after(Happening::Recategorized), Closed);
    }

    #[test]
    fn an_open_incident_is_moved_by_its_analysis_alone() {
        for happening in [
            Happening::FixNamed,
            Happening::Launched,
            Happening::SentSingly,
            Happening::AllSent,
            Happening::RunEnded,
            Happening::RunRelapsed,
            Happening::LetterDied(AgainstFix::After),
        ] {
            assert_eq!(Open.after(happening), Open, "{happening:?}");
        }
    }
}
