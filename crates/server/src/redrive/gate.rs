//! The gate of every door: which groups go, and which incidents keep letters from going back.

use lazaret_core::gate::{self, Governance, Passed, Shut};
use lazaret_core::id::IncidentId;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::redrive::{Group, GroupVerdict};

use super::{Glass, NotRedriven, ShutIncident};
use crate::app::App;
use crate::jobs::SOURCE;

/// Whether the letters of a source go back only under an analysis.
pub fn governance_of(app: &App, source: &str) -> Governance {
    if source == SOURCE {
        return app.config.jobs.governance;
    }
    // Letters of a source that is not configured any more are no reason to be careless.
    app.config.sources.get(source).map_or(Governance::Required, |source| source.governance)
}

/// Whether the gate is asked or passed by force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Force {
    None,
    /// For this reason.
    Glass(String),
}

impl Force {
    /// Reads what a caller says about passing by force, if anything.
    pub(super) fn read(reason: Option<&str>, glass: Glass) -> Result<Force, NotRedriven> {
        let Some(reason) = reason else { return Ok(Force::None) };
        match glass {
            Glass::OutOfReach => return Err(NotRedriven::GlassForbidden),
            Glass::InReach => {}
        }
        let reason = reason.trim();
        if reason.chars().count() < limits::BREAK_GLASS_CHARS_MIN {
            return Err(NotRedriven::GlassReason);
        }
        Ok(Force::Glass(reason.to_owned()))
    }

    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Force::None => None,
            Force::Glass(reason) => Some(reason.clone()),
        }
    }
}

/// What becomes of each group: the gate is asked, and the way back looked for.
pub(super) fn judge(app: &App, groups: &[Group], force: &Force) -> Vec<(u32, GroupVerdict)> {
    groups.iter().map(|group| (group.number, judge_one(app, group, force))).collect()
}

fn judge_one(app: &App, group: &Group, force: &Force) -> GroupVerdict {
    if let Some(why) = &group.body_missing {
        return GroupVerdict::BodyMissing(why.clone());
    }
    let passed = match ask(app, group, force) {
        Ok(passed) => passed,
        Err(shut) => return GroupVerdict::Shut(shut),
    };
    match app.destinations.of(&group.source, group.subscriber.as_deref()) {
        Ok(named) => GroupVerdict::Goes { passed, destination: named.name },
        Err(why) => GroupVerdict::NoWayBack(why.to_string()),
    }
}

/// Asks the gate for one group.
pub(super) fn ask(app: &App, group: &Group, force: &Force) -> Result<Passed, Shut> {
    let passed = gate::pass(governance_of(app, &group.source), group.cause, group.died);
    match force {
        Force::None => passed,
        // Nobody analysed what is shut, so its incident does not move with the run.
        Force::Glass(_) => Ok(passed.unwrap_or(Passed::Freely)),
    }
}

/// The incidents of groups that the gate refuses, once each, with their letters.
pub(super) fn shut_of(groups: &[Group], verdicts: &[(u32, GroupVerdict)]) -> Vec<ShutIncident> {
    let mut shut = ShutCount::default();
    for (group, (_, verdict)) in groups.iter().zip(verdicts) {
        match verdict {
            GroupVerdict::Shut(why) => shut.add(group.incident, *why, group.letters),
            GroupVerdict::Goes { .. } | GroupVerdict::NoWayBack(_) | GroupVerdict::BodyMissing(_) => {}
        }
    }
    shut.0
}

/// Incidents in the order in which they were met.
#[derive(Default)]
struct ShutCount(Vec<ShutIncident>);

impl ShutCount {
    fn add(&mut self, incident: IncidentId, shut: Shut, letters: u64) {
        match self.0.iter_mut().find(|known| (known.incident, known.shut) == (incident, shut)) {
            Some(known) => known.letters += letters,
            None => self.0.push(ShutIncident { incident, shut, letters }),
        }
    }
}

/// Why the gate is shut for one letter, if it is. A letter that is gone is for the caller to find.
pub async fn shut_for(app: &App, letter: &Letter) -> Result<Option<ShutIncident>, StoreError> {
    let Some(cause) = app.store.letter_cause(letter.id).await? else { return Ok(None) };
    let shut = cause.pass(governance_of(app, &letter.source)).err();
    Ok(shut.map(|shut| ShutIncident { incident: cause.incident, shut, letters: 1 }))
}
