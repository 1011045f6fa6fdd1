//! Cases: every way of sending letters asks the gate about the incident that the letter is in now.

use lazaret_core::class::{Category, ErrorClass};
use lazaret_core::fingerprint::{Grouping, Parts};
use lazaret_core::gate::{Governance, Passed, Shut};
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::incident::IncidentState;
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::Status;
use lazaret_core::rca::Analysis;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::incident::{IncidentStep, IncidentStepped};
use lazaret_store::job::{Changed, LetterEffect};
use lazaret_store::redrive::{Launched, RedriveQuery};
use lazaret_store::replay::{Replay, Replayed};

use crate::analyses::{cured, diagnosis, fix, record, state, step};
use crate::job_letters::{dead, kill, letter as letter_of};
use crate::jobs::{ack, change, fetch, stored};
use crate::redrive_runs::{deliver, ids, take, tend};
use crate::redrives::{frozen, launch_of, letters, outcome, plan, run, unpaced};
use crate::regroup::{by_message, regroup};
use crate::rig::{Rig, at, captured, dying};

pub async fn a_letter_is_judged_by_its_own_incident_whatever_its_plan_says(rig: &mut Rig) {
    let mut other = dying("a", at(0));
    other.letter_type = "other".into();
    let known = rig.create(other, at(0)).await;
    let joins = rig.create(dying("b", at(1)), at(1)).await;
    let leaves = rig.create(dying("c", at(2)), at(2)).await;
    let (one, two) = (rig.letter(known).await.incident, rig.letter(joins).await.incident);
    cured(rig, one, 1_000, 1_000).await;
    cured(rig, two, 1_000, 1_000).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 2_000).await;
    assert_eq!(plan(rig, id, Passed::Governed, 2_000).await.letters[&Outcome::Waiting], 3);
    // New rules: the second incident falls apart. Its heir is the first one, and a part of it is a cause of its own.
    let target = rig.letter(known).await.fingerprint;
    regroup(rig, "apart", 10, |life| match life.position {
        1 | 2 => Grouping { fingerprint: target.clone(), parts: Parts::default() },
        _ => by_message("apart", &life.error.message),
    })
    .await;
    let gone = rig.store().incident(two).await.unwrap().unwrap().incident;
    assert_eq!((gone.merged_into, gone.letters), (Some(one), 0));
    let own = rig.letter(leaves).await.incident;
    assert_eq!(state(rig, own).await, IncidentState::Open);
    // A single retry is refused, so the plan must not send it either.
    let cause = rig.store().letter_cause(leaves).await.unwrap().unwrap();
    assert_eq!((cause.incident, cause.pass(Governance::Required)), (own, Err(Shut::RcaRequired)));
    let launched = rig.store().launch_redrive(id, launch_of(3, unpaced(), 3_000)).await.unwrap();
    assert!(matches!(launched, Launched::Done(_)), "{launched:?}");
    assert_eq!(ids(&take(rig, id, 10, 3_100).await), [known, joins]);
    assert_eq!(rig.letter(leaves).await.status, Status::Pending);
    let row = letters(rig, id).await.into_iter().find(|row| row.letter == leaves).unwrap();
    assert_eq!((row.outcome, row.evidence), (Outcome::Skipped, Some(Shut::RcaRequired.to_string())));
}

pub async fn a_refused_letter_is_not_overtaken_by_the_next_of_its_key(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, died) in [("a", 0), ("b", 1), ("c", 2)] {
        let mut letter = dying(event, at(died));
        letter.aggregate = Some("k".into());
        all.push(rig.create(letter, at(10)).await);
    }
    cured(rig, rig.letter(all[0]).await.incident, 1_000, 1_000).await;
    let id = run(rig, "source:report", Passed::Governed, unpaced(), 2_000).await;
    regroup(rig, "apart", 10, |life| match life.position {
        1 => by_message("apart", "another cause"),
        _ => Grouping { fingerprint: life.fingerprint.clone(), parts: Parts::default() },
    })
    .await;
    // The oldest letter keeps the incident that people know; the others are in one of their own.
    assert_eq!(ids(&take(rig, id, 10, 2_100).await), [all[0]]);
    deliver(rig, id, all[0], 2_200).await;
    assert!(take(rig, id, 10, 2_300).await.taken.is_empty());
    assert_eq!(outcome(rig, id, all[1]).await, Outcome::LaneBlocked);
    assert_eq!(rig.letter(all[2]).await.status, Status::Pending);
    assert_eq!(tend(rig, id, 2_400).await.letters[&Outcome::Waiting], 0, "the rest of the key is let go");
}

/// Retries a job as an OJS client does.
async fn retry(rig: &Rig, id: JobId, ms: i64) -> Changed {
    let before = stored(rig, id).await;
    let after = before.job.clone().retried_from_dead_letter(&Override::default(), at(ms)).unwrap();
    let letter = letter_of(rig, id).await.letter.id;
    change(rig, &before, after, LetterEffect::Redrive(letter, Governance::Required), at(ms)).await
}

pub async fn a_governed_retry_of_a_job_asks_the_gate_and_moves_its_incident(rig: &mut Rig) {
    let job = dead(rig).await;
    let letter = letter_of(rig, job).await.letter;
    let id = letter.incident;
    assert_eq!(retry(rig, job, 3_000).await, Changed::Shut(Shut::RcaRequired, id));
    assert_eq!(rig.letter(letter.id).await.status, Status::Pending);
    cured(rig, id, 4_000, 4_000).await;
    assert_eq!(retry(rig, job, 5_000).await, Changed::Done);
    assert_eq!(state(rig, id).await, IncidentState::Verifying);
    assert_eq!(record(rig, id).await.redriven_at, Some(at(5_000)));
    let query = RedriveQuery { incident: Some(id), limit: 10, ..RedriveQuery::default() };
    let redrive = rig.store().redrives(query).await.unwrap().remove(0);
    assert_eq!((redrive.state, redrive.letters[&Outcome::Sent]), (RunState::Verifying, 1));
    // It dies of the same again: the fix was none, and nobody has to look after the redrive to see that.
    kill(rig, job, 6_000).await;
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    assert_eq!(tend(rig, redrive.id, 8_000).await.state, RunState::Done);
    assert_eq!(retry(rig, job, 8_100).await, Changed::Shut(Shut::Regressed, id));
    step(rig, id, diagnosis(), 9_000).await;
    assert_eq!(step(rig, id, fix(9_000), 9_000).await, IncidentStepped::Done(IncidentState::Fixed));
    assert_eq!(retry(rig, job, 10_000).await, Changed::Done);
    assert_eq!(fetch(rig, &["default"], 1, at(10_100)).await, [job]);
    ack(rig, job, at(10_200)).await;
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    assert_eq!(
        record(rig, id).await.timeline.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>()[4..8],
        ["redrive_started", "verifying", "regressed", "redrive_done"]
    );
}

pub async fn a_governed_retry_leaves_the_fix_to_the_letters_that_wait(rig: &mut Rig) {
    let (one, two) = (dead(rig).await, dead(rig).await);
    let id = letter_of(rig, one).await.letter.incident;
    assert_eq!(letter_of(rig, two).await.letter.incident, id);
    cured(rig, id, 4_000, 4_000).await;
    assert_eq!(retry(rig, one, 5_000).await, Changed::Done);
    assert_eq!(fetch(rig, &["default"], 1, at(5_100)).await, [one]);
    ack(rig, one, at(5_200)).await;
    let query = RedriveQuery { incident: Some(id), limit: 10, ..RedriveQuery::default() };
    let redrive = rig.store().redrives(query).await.unwrap().remove(0);
    assert_eq!(tend(rig, redrive.id, 5_300).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
}

async fn replay(rig: &Rig, category: Category, letter: LetterId, ms: i64) -> Replayed {
    let life = rig.letter(letter).await.life;
    let letters = vec![(letter, life)];
    let replay = Replay { rule: "r".into(), category, max_replays: 9, letters, at: at(ms) };
    rig.store().replay(replay).await.unwrap().remove(0)
}

pub async fn a_rule_asks_the_class_of_the_letter_and_what_people_found_out(rig: &mut Rig) {
    let infrastructure = Category::Infrastructure;
    for (class, expected) in [
        (ErrorClass::Malformed, Some(Shut::Poison)),
        (ErrorClass::Business, Some(Shut::DecisionRequired)),
        (ErrorClass::NotFound, Some(Shut::DecisionRequired)),
        (ErrorClass::Validation, None),
        (ErrorClass::Unknown, None),
    ] {
        // All are in one incident: what counts is the class of the letter.
        let mut admitted = rig.admit(captured(class.name()), at(0));
        admitted.class = class;
        let id = rig.insert(vec![admitted]).await[0].letter;
        // None is a job, so an open gate redrives nothing here.
        let expected = expected.map_or(Replayed::NoWayBack, Replayed::Shut);
        assert_eq!(replay(rig, infrastructure, id, 1_000).await, expected, "{class:?}");
        assert_eq!(rig.letter(id).await.status, Status::Pending);
    }
    let job = dead(rig).await;
    let letter = letter_of(rig, job).await.letter;
    let rca = |category| IncidentStep::Diagnose(Analysis::new(category, "it is broken", "none").unwrap());
    step(rig, letter.incident, rca(Category::PoisonPill), 3_000).await;
    assert_eq!(replay(rig, infrastructure, letter.id, 3_100).await, Replayed::Shut(Shut::Poison));
    step(rig, letter.incident, rca(Category::Business), 3_200).await;
    assert_eq!(replay(rig, infrastructure, letter.id, 3_300).await, Replayed::Shut(Shut::DecisionRequired));
    step(rig, letter.incident, rca(Category::Contract), 3_400).await;
    assert_eq!(replay(rig, infrastructure, letter.id, 3_500).await, Replayed::Shut(Shut::FixRequired));
    assert_eq!(rig.letter(letter.id).await.status, Status::Pending);
    step(rig, letter.incident, rca(infrastructure), 3_600).await;
    assert_eq!(replay(rig, infrastructure, letter.id, 3_700).await, Replayed::Done);
}
