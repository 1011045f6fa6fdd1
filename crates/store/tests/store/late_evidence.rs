//! Cases: evidence of success that comes late. The work of the present life is done, so its letter is resolved.

use lazaret_core::id::LetterId;
use lazaret_core::job::failure::Failure;
use lazaret_core::job::state::JobState;
use lazaret_core::letter::{Resolution, Strategy};
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::Outcome;
use lazaret_store::job::{Changed, LetterEffect, SOURCE};
use lazaret_store::redrive::{ByPerson, Proof, Proved};

use crate::job_letters::letter as letter_of;
use crate::jobs::{change, enqueue, fetch, new, stored};
use crate::redrive_runs::{begin, free_run, sending, settle, take, tend, unknown};
use crate::redrives::{outcome, unpaced};
use crate::rig::{Rig, ana, at, captured};

async fn prove(rig: &Rig, letter: LetterId, life: u32, ms: i64) -> Proved {
    let proof = Proof { letter, life, evidence: "receipt", by: "billing".into(), at: at(ms) };
    rig.store().prove(proof).await.unwrap()
}

/// A letter that was sent, of which nobody knew what came, and which a person took back.
async fn taken_back(rig: &Rig) -> LetterId {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 1, 200).await;
    assert!(settle(rig, id, letter, unknown(), 210).await);
    assert!(rig.store().settle_unknown(id, letter, ByPerson::Unclaim, ana(), at(220)).await.unwrap());
    tend(rig, id, 230).await;
    assert_eq!(rig.letter(letter).await.status, Status::Pending);
    letter
}

pub async fn a_receipt_resolves_a_letter_that_was_taken_back(rig: &mut Rig) {
    let letter = taken_back(rig).await;
    assert_eq!(prove(rig, letter, 2, 300).await, Proved::Unknown);
    assert_eq!(prove(rig, letter, 1, 300).await, Proved::Done);
    let expected = Resolution {
        at: at(300),
        strategy: Strategy::ManualResolution,
        by: "source:report".into(),
        notes: Some("receipt, says billing".into()),
    };
    let found = rig.letter(letter).await;
    assert_eq!((found.status, found.resolution), (Status::Resolved, Some(expected)));
    assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.resolved");
    let before = rig.dump().await;
    assert_eq!(prove(rig, letter, 1, 400).await, Proved::Late);
    assert_eq!(rig.dump().await, before);
}

pub async fn a_receipt_resolves_a_letter_that_was_claimed_anew(rig: &mut Rig) {
    let letter = taken_back(rig).await;
    let id = free_run(rig, unpaced()).await;
    take(rig, id, 1, 300).await;
    assert_eq!(prove(rig, letter, 1, 310).await, Proved::Done);
    assert_eq!(rig.letter(letter).await.status, Status::Resolved);
    assert_eq!(outcome(rig, id, letter).await, Outcome::Succeeded);
    assert!(begin(rig, id, &[letter], 320).await.is_empty(), "it is not sent a second time");
}

pub async fn a_late_ack_resolves_the_letter_of_a_job_that_was_given_up(rig: &mut Rig) {
    let once = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let id = enqueue(rig, vec![new(rig, once, at(0))], at(0)).await[0];
    fetch(rig, &["default"], 1, at(100)).await;
    let before = stored(rig, id).await;
    let lost = Failure::reservation_expired(1_000);
    let verdict = before.job.verdict(&lost, 0.5);
    let dead = before.job.clone().failed(lost, verdict, at(1_100)).unwrap();
    let die = LetterEffect::Die(Box::new(rig.admit(dead.to_captured(SOURCE, None), at(1_100))));
    assert_eq!(change(rig, &before, dead, die, at(1_100)).await, Changed::Done);
    assert_eq!(letter_of(rig, id).await.letter.status, Status::Pending);
    let before = stored(rig, id).await;
    let after = before.job.clone().acked(None, at(1_200)).unwrap();
    let settled = LetterEffect::SettleElsewhere { evidence: "acked" };
    assert_eq!(change(rig, &before, after, settled, at(1_200)).await, Changed::Done);
    let job = stored(rig, id).await.job;
    assert_eq!((job.state, job.in_dead_letter), (JobState::Completed, false));
    let letter = letter_of(rig, id).await.letter;
    let expected = Resolution {
        at: at(1_200),
        strategy: Strategy::ManualResolution,
        by: "source:jobs".into(),
        notes: Some("acked".into()),
    };
    assert_eq!((letter.status, letter.resolution), (Status::Resolved, Some(expected)));
}
