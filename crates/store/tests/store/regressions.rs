//! Cases: a fix that did not hold. The incident regresses, and only a revised RCA with a new fix opens the gate again.

use lazaret_core::class::Category;
use lazaret_core::gate::{Passed, Shut};
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::{FixStanding, IncidentState, Unmoved};
use lazaret_core::rca::Analysis;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::decision::Verb;
use lazaret_store::incident::{IncidentStep, IncidentStepped};
use lazaret_store::redrive::{Launched, RunStep, SendOutcome, Stepped};

use crate::analyses::{cured, diagnosis, fix, record, state, step};
use crate::redrive_canaries::with_canary;
use crate::redrive_runs::{sending, settle, take, tend};
use crate::redrives::{frozen, launch_of, plan, run, state_of, step as step_run, unpaced};
use crate::rig::{Rig, at, dying, mark};

/// Letters of one incident, whose fix holds from 1,000 on.
async fn fixed(rig: &Rig, count: i64) -> (IncidentId, Vec<LetterId>) {
    let letters = rig.create_many(count, at(0)).await;
    let id = rig.letter(letters[0]).await.incident;
    cured(rig, id, 1_000, 1_000).await;
    (id, letters)
}

/// A letter dies of the same after the fix, outside of any run.
async fn dies_after_the_fix(rig: &Rig, event: &str, ms: i64) -> LetterId {
    rig.create(dying(event, at(ms)), at(ms)).await
}

/// Plans all that is pending and launches it under the RCA.
async fn launch(rig: &Rig, ms: i64) -> Launched {
    let (id, _) = frozen(rig, "source:report", unpaced(), ms).await;
    let count = plan(rig, id, Passed::Governed, ms).await.letters[&Outcome::Waiting];
    rig.store().launch_redrive(id, launch_of(count, unpaced(), ms)).await.unwrap()
}

/// Asserts that no run of the incident starts or goes on.
async fn is_shut(rig: &Rig, id: IncidentId, stopped: RedriveId, ms: i64) {
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    assert_eq!(launch(rig, ms).await, Launched::Shut(Shut::Regressed, id));
    assert_eq!(step_run(rig, stopped, RunStep::Resume, ms).await, Stepped::Shut(Shut::Regressed, id));
    assert_eq!(step(rig, id, fix(ms), ms).await, IncidentStepped::Refused(Unmoved::Regressed));
    assert_eq!(record(rig, id).await.fix, FixStanding::Disproved);
}

pub async fn letters_that_end_and_wait_again_do_not_bring_a_disproved_fix_back(rig: &mut Rig) {
    let (id, mut letters) = fixed(rig, 3).await;
    let redriven = run(rig, "source:report", Passed::Governed, unpaced(), 2_000).await;
    letters.push(dies_after_the_fix(rig, "late", 2_100).await);
    assert_eq!(tend(rig, redriven, 2_200).await.state, RunState::Stopped);
    is_shut(rig, id, redriven, 2_300).await;
    for (ends, begins, ms) in [
        (Verb::Resolve, Verb::Reopen, 3_000),
        (Verb::Discard, Verb::Reopen, 4_000),
        (Verb::Delete, Verb::Restore, 5_000),
    ] {
        for letter in &letters {
            rig.done(*letter, ends, at(ms)).await;
        }
        assert_eq!(state(rig, id).await, IncidentState::Closed);
        // Not even while it is closed is another fix named under the same RCA.
        assert_eq!(step(rig, id, fix(ms), ms).await, IncidentStepped::Refused(Unmoved::Regressed));
        for letter in &letters {
            rig.done(*letter, begins, at(ms + 100)).await;
            is_shut(rig, id, redriven, ms + 200).await;
        }
    }
    // An old death that is told of now does not either.
    for letter in &letters {
        rig.done(*letter, Verb::Resolve, at(6_000)).await;
    }
    rig.create(dying("old", at(500)), at(6_100)).await;
    is_shut(rig, id, redriven, 6_200).await;
    assert_eq!(step(rig, id, diagnosis(), 7_000).await, IncidentStepped::Done(IncidentState::Diagnosed));
    assert_eq!(launch(rig, 7_100).await, Launched::Shut(Shut::FixRequired, id));
    assert_eq!(step(rig, id, fix(7_200), 7_200).await, IncidentStepped::Done(IncidentState::Fixed));
    assert!(matches!(launch(rig, 7_300).await, Launched::Done(_)));
    assert_eq!(state(rig, id).await, IncidentState::Redriving);
}

pub async fn a_fix_of_another_category_is_none(rig: &mut Rig) {
    let (id, letters) = fixed(rig, 1).await;
    let rca = |category| IncidentStep::Diagnose(Analysis::new(category, "bytes are broken", "none").unwrap());
    let done = IncidentStepped::Done;
    assert_eq!(step(rig, id, rca(Category::PoisonPill), 1_100).await, done(IncidentState::Diagnosed));
    assert_eq!(step(rig, id, fix(1_200), 1_200).await, done(IncidentState::Fixed));
    assert_eq!(launch(rig, 1_300).await, Launched::Shut(Shut::Poison, id));
    assert_eq!(step(rig, id, rca(Category::Contract), 1_400).await, done(IncidentState::Diagnosed));
    assert_eq!(record(rig, id).await.fix, FixStanding::None);
    assert_eq!(launch(rig, 1_500).await, Launched::Shut(Shut::FixRequired, id));
    // Within its category the RCA is revised and the fix holds.
    assert_eq!(step(rig, id, fix(1_600), 1_600).await, done(IncidentState::Fixed));
    assert_eq!(step(rig, id, diagnosis(), 1_700).await, done(IncidentState::Fixed));
    assert_eq!(record(rig, id).await.fix, FixStanding::Named(at(1_600)));
    // A change of category while the incident is closed voids the fix, too.
    rig.done(letters[0], Verb::Resolve, at(1_800)).await;
    assert_eq!(step(rig, id, rca(Category::Infrastructure), 1_900).await, done(IncidentState::Closed));
    rig.done(letters[0], Verb::Reopen, at(2_000)).await;
    assert_eq!(record(rig, id).await.fix, FixStanding::None);
    assert!(matches!(launch(rig, 2_100).await, Launched::Shut(Shut::RcaRequired | Shut::FixRequired, _)));
}

pub async fn a_relapsed_canary_closes_the_gate_at_once(rig: &mut Rig) {
    let (id, letters) = fixed(rig, 20).await;
    let redriven = run(rig, "source:report", Passed::Governed, with_canary(5), 2_000).await;
    let canaries = sending(rig, redriven, 20, 2_100).await;
    assert_eq!(canaries.len(), 5);
    for canary in &canaries {
        assert!(settle(rig, redriven, *canary, SendOutcome::Sent { handle: None }, 2_200).await);
    }
    let place = letters.iter().position(|letter| *letter == canaries[0]).unwrap();
    let mut again = dying(&format!("e{place}"), at(2_300));
    again.mark = mark(canaries[0], 1, redriven);
    rig.capture(again, at(2_300)).await;
    // Nobody has looked after the run yet, and the gate is shut already.
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    assert_eq!(launch(rig, 2_400).await, Launched::Shut(Shut::Regressed, id));
    assert!(take(rig, redriven, 20, 2_450).await.taken.is_empty());
    assert_eq!(tend(rig, redriven, 2_500).await.state, RunState::Stopped);
    is_shut(rig, id, redriven, 2_600).await;
    cured(rig, id, 3_000, 3_000).await;
    assert_eq!(state_of(step_run(rig, redriven, RunStep::Resume, 3_100).await), RunState::Canary);
    assert_eq!(state(rig, id).await, IncidentState::Redriving);
}
