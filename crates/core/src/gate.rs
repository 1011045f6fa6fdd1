//! The gate that every door has: whether letters of an incident may be put back, and if not, what to do first.

use crate::class::Category;
use crate::incident::{AgainstFix, IncidentState};
use crate::rca::FixKind;

/// Whether the letters of a source are put back only under an analysis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Governance {
    /// Anyone who may decide may put back.
    Optional,
    /// Nothing is put back before the cause is written down and its fix is named.
    Required,
}

/// What the gate knows of an incident.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cause {
    pub state: IncidentState,
    /// What the analysis says, if there is one. It beats the class.
    pub analysed: Option<Category>,
    /// What the class of its letters says.
    pub class: Option<Category>,
    /// The fix that holds now, if one does.
    pub fix: Option<FixKind>,
}

/// How letters pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Passed {
    /// Nobody asked for an analysis: the incident does not move with the run.
    Freely,
    /// Under the analysis: the incident moves with the run.
    Governed,
}

/// Why letters do not pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Shut {
    #[error("RCA required")]
    RcaRequired,
    #[error("RCA revision required: the incident regressed after its fix")]
    Regressed,
    #[error("fix required")]
    FixRequired,
    #[error("approver decision required: business error")]
    DecisionRequired,
    #[error("poison pill: fails again whenever it is sent")]
    Poison,
    #[error("RCA revision required: died after the fix")]
    DiedAfterFix,
}

impl Governance {
    pub const ALL: [Governance; 2] = [Governance::Optional, Governance::Required];

    pub const fn name(self) -> &'static str {
        match self {
            Governance::Optional => "optional",
            Governance::Required => "required",
        }
    }

    pub fn parse(text: &str) -> Option<Governance> {
        Governance::ALL.into_iter().find(|governance| governance.name() == text)
    }
}

impl Passed {
    pub const fn name(self) -> &'static str {
        match self {
            Passed::Freely => "freely",
            Passed::Governed => "governed",
        }
    }
}

impl Shut {
    pub const ALL: [Shut; 6] = [
        Shut::RcaRequired,
        Shut::Regressed,
        Shut::FixRequired,
        Shut::DecisionRequired,
        Shut::Poison,
        Shut::DiedAfterFix,
    ];

    /// The stable code of the refusal.
    pub const fn code(self) -> &'static str {
        match self {
            // What is missing is the same: an analysis that holds.
            Shut::RcaRequired | Shut::Regressed | Shut::DiedAfterFix => "rca_required",
            Shut::FixRequired => "fix_required",
            Shut::DecisionRequired => "decision_required",
            Shut::Poison => "poison",
        }
    }

    /// The word by which a refusal is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Shut::RcaRequired => "rca_required",
            Shut::Regressed => "regressed",
            Shut::FixRequired => "fix_required",
            Shut::DecisionRequired => "decision_required",
            Shut::Poison => "poison",
            Shut::DiedAfterFix => "died_after_fix",
        }
    }

    pub fn parse(text: &str) -> Option<Shut> {
        Shut::ALL.into_iter().find(|shut| shut.name() == text)
    }

    /// What to do next.
    pub const fn hint(self) -> &'static str {
        match self {
            Shut::RcaRequired => {
                "save the root cause: `lazaret incident diagnose`, or POST /api/v1/incidents/{id}/rca; then link the fix"
            }
            Shut::Regressed | Shut::DiedAfterFix => {
                "revise the RCA: `lazaret incident diagnose`, or POST /api/v1/incidents/{id}/rca; then link the new fix"
            }
            Shut::FixRequired => {
                "deploy the fix and link it: `lazaret incident fix`, or POST /api/v1/incidents/{id}/fix"
            }
            Shut::DecisionRequired => {
                "an approver records the decision: `lazaret incident fix --decision`, or POST /api/v1/incidents/{id}/fix"
            }
            Shut::Poison => {
                "discard them: `lazaret discard`; if they are not poison pills, change the RCA category"
            }
        }
    }
}

/// Decides whether letters of an incident, which died then, may be put back.
pub fn pass(governance: Governance, cause: Cause, died: AgainstFix) -> Result<Passed, Shut> {
    match governance {
        Governance::Optional => return Ok(Passed::Freely),
        Governance::Required => {}
    }
    if cause.analysed.or(cause.class) == Some(Category::PoisonPill) {
        return Err(Shut::Poison);
    }
    let Some(category) = cause.analysed else { return Err(Shut::RcaRequired) };
    match cause.state {
        IncidentState::Open => return Err(Shut::RcaRequired),
        IncidentState::Regressed => return Err(Shut::Regressed),
        IncidentState::Diagnosed
        | IncidentState::Fixed
        | IncidentState::Redriving
        | IncidentState::Verifying
        | IncidentState::Closed => {}
    }
    match (category, cause.fix) {
        (Category::Business, Some(FixKind::Decision)) => {}
        (Category::Business, Some(FixKind::Deployed) | None) => return Err(Shut::DecisionRequired),
        (Category::Infrastructure | Category::Contract | Category::PoisonPill, Some(_)) => {}
        (Category::Infrastructure | Category::Contract | Category::PoisonPill, None) => {
            return Err(Shut::FixRequired);
        }
    }
    match died {
        AgainstFix::After => Err(Shut::DiedAfterFix),
        AgainstFix::None | AgainstFix::Before => Ok(Passed::Governed),
    }
}

/// Decides whether a replay rule of a category may redrive a letter by itself. The rule is a standing RCA, and its delay is
/// the fix. It speaks for letters that nobody analysed; what a person found out about their incident beats it, and no
/// waiting mends a poison pill or stands in for the decision of an approver.
pub fn pass_rule(rule: Category, cause: Cause) -> Result<(), Shut> {
    if cause.state == IncidentState::Regressed {
        return Err(Shut::Regressed);
    }
    match cause.analysed.or(cause.class) {
        Some(Category::PoisonPill) => return Err(Shut::Poison),
        Some(Category::Business) => return Err(Shut::DecisionRequired),
        Some(Category::Infrastructure | Category::Contract) | None => {}
    }
    match cause.analysed {
        Some(analysed) if analysed != rule && cause.fix.is_none() => Err(Shut::FixRequired),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Category::{Business, Contract, Infrastructure, PoisonPill};
    use Governance::{Optional, Required};

    const FIXED: Cause = Cause {
        state: IncidentState::Fixed,
        analysed: Some(Contract),
        class: Some(Contract),
        fix: Some(FixKind::Deployed),
    };

    #[test]
    fn without_governance_everything_passes() {
        for state in IncidentState::ALL {
            let cause = Cause { state, analysed: None, class: Some(PoisonPill), fix: None };
            assert_eq!(pass(Optional, cause, AgainstFix::After), Ok(Passed::Freely));
        }
    }

    #[test]
    fn what_is_missing_is_named_in_the_order_in_which_it_is_done() {
        let open = Cause { state: IncidentState::Open, analysed: None, class: Some(Contract), fix: None };
        let diagnosed = Cause { state: IncidentState::Diagnosed, fix: None, ..FIXED };
        let business = Cause { analysed: Some(Business), ..diagnosed };
        let regressed = Cause { state: IncidentState::Regressed, ..FIXED };
        let cases = [
            (open, Err(Shut::RcaRequired)),
            (diagnosed, Err(Shut::FixRequired)),
            (business, Err(Shut::DecisionRequired)),
            (Cause { analysed: Some(Business), ..FIXED }, Err(Shut::DecisionRequired)),
            (Cause { analysed: Some(Business), fix: Some(FixKind::Decision), ..FIXED }, Ok(Passed::Governed)),
            (Cause { class: Some(PoisonPill), ..open }, Err(Shut::Poison)),
            (Cause { analysed: Some(PoisonPill), ..FIXED }, Err(Shut::Poison)),
            // The analysis knows better than the class.
            (
                Cause { class: Some(PoisonPill), analysed: Some(Infrastructure), ..FIXED },
                Ok(Passed::Governed),
            ),
            (regressed, Err(Shut::Regressed)),
            (FIXED, Ok(Passed::Governed)),
            (Cause { state: IncidentState::Closed, ..FIXED }, Ok(Passed::Governed)),
            (
                Cause { state: IncidentState::Closed, analysed: None, fix: None, ..FIXED },
                Err(Shut::RcaRequired),
            ),
        ];
        for (cause, expected) in cases {
            assert_eq!(pass(Required, cause, AgainstFix::Before), expected, "{cause:?}");
        }
        assert_eq!(pass(Required, FIXED, AgainstFix::After), Err(Shut::DiedAfterFix));
    }

    #[test]
    fn a_rule_is_a_standing_rca_and_a_person_knows_better() {
        let unknown = Cause { state: IncidentState::Open, analysed: None, class: None, fix: None };
        let diagnosed = Cause { state: IncidentState::Diagnosed, ..unknown };
        let cases = [
            (unknown, Ok(())),
            (Cause { class: Some(Infrastructure), ..unknown }, Ok(())),
            (Cause { class: Some(Contract), ..unknown }, Ok(())),
            (Cause { class: Some(PoisonPill), ..unknown }, Err(Shut::Poison)),
            (Cause { class: Some(Business), ..unknown }, Err(Shut::DecisionRequired)),
            (Cause { class: Some(PoisonPill), analysed: Some(Infrastructure), ..diagnosed }, Ok(())),
            (
                Cause { class: Some(Infrastructure), analysed: Some(PoisonPill), ..diagnosed },
                Err(Shut::Poison),
            ),
            (Cause { analysed: Some(Business), ..FIXED }, Err(Shut::DecisionRequired)),
            (Cause { analysed: Some(Contract), ..diagnosed }, Err(Shut::FixRequired)),
            (FIXED, Ok(())),
            (Cause { state: IncidentState::Regressed, ..FIXED }, Err(Shut::Regressed)),
        ];
        for (cause, expected) in cases {
            assert_eq!(pass_rule(Infrastructure, cause), expected, "{cause:?}");
        }
        assert_eq!(pass_rule(Contract, Cause { analysed: Some(Contract), ..diagnosed }), Ok(()));
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        for shut in Shut::ALL {
            assert!(!shut.hint().is_empty());
            assert_eq!(Shut::parse(shut.name()), Some(shut));
        }
    }
}
