//! Cases: at most one copy of a letter is out at a time, and a claim ends only as its step allows.

use lazaret_core::id::LetterId;
use lazaret_core::letter::{Outcome, Resolution, Strategy};
use lazaret_core::lifecycle::Status;
use lazaret_store::claim::{ClaimFence, ClaimStep};
use lazaret_store::decision::Verb;
use lazaret_store::redrive::SendOutcome;

use crate::redrive_runs::{delivered, refused, unknown};
use crate::rig::{Rig, at, captured, dying};

fn sent() -> SendOutcome {
    SendOutcome::Sent { handle: None }
}

pub async fn a_letter_is_claimed_by_one_run_at_a_time(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let (run, fence) = rig.take(letter, 1, at(10)).await.unwrap();
    assert_eq!(fence, ClaimFence { letter, idempotency_key: format!("{letter}:1:1"), renewals: 0 });
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
    assert_eq!(rig.take(letter, 1, at(20)).await, None);
    let (other, before) = (rig.run_id(), rig.dump().await);
    assert!(!rig.begin(other, &fence, at(30)).await);
    for outcome in [delivered(), sent(), SendOutcome::Unsent, refused(30), unknown()] {
        assert!(!rig.settle(other, &fence, outcome, at(30)).await);
    }
    assert_eq!(rig.dump().await, before);
    assert!(rig.begin(run, &fence, at(40)).await);
}

pub async fn only_the_present_life_can_be_claimed(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.capture(dying("e1", at(5)), at(6)).await;
    for life in [0, 1, 3] {
        assert_eq!(rig.take(letter, life, at(10)).await, None);
    }
    let nowhere = LetterId::mint(at(0), [255; 10]);
    assert_eq!(rig.take(nowhere, 1, at(10)).await, None);
    assert_eq!(rig.letter(letter).await.status, Status::Pending);
    let (_, fence) = rig.take(letter, 2, at(10)).await.unwrap();
    assert_eq!(fence.idempotency_key, format!("{letter}:2:1"));
}

pub async fn a_claim_goes_forward_one_step_at_a_time(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let (run, fence) = rig.take(letter, 1, at(10)).await.unwrap();
    let before = rig.dump().await;
    assert!(!rig.settle(run, &fence, sent(), at(20)).await, "it was not begun");
    assert_eq!(rig.dump().await, before);
    assert!(rig.begin(run, &fence, at(20)).await);
    let before = rig.dump().await;
    assert!(!rig.begin(run, &fence, at(20)).await, "it was begun already");
    assert_eq!(rig.dump().await, before);
    assert!(rig.settle(run, &fence, sent(), at(20)).await);
    let before = rig.dump().await;
    assert!(!rig.begin(run, &fence, at(30)).await);
    assert!(!rig.settle(run, &fence, sent(), at(30)).await);
    assert_eq!(rig.dump().await, before);
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
}

pub async fn a_confirmed_letter_is_resolved_on_its_evidence(rig: &mut Rig) {
    for (event, step) in [("e1", ClaimStep::Sending), ("e2", ClaimStep::Sent)] {
        let letter = rig.create(captured(event), at(0)).await;
        let (run, fence) = rig.send_fenced(letter, step, at(10)).await;
        assert!(rig.settle(run, &fence, delivered(), at(500)).await);
        let found = rig.letter(letter).await;
        let expected = Resolution {
            at: at(500),
            strategy: Strategy::ManualRetry,
            by: "ana".into(),
            notes: Some("delivered".into()),
        };
        assert_eq!((found.status, found.resolution), (Status::Resolved, Some(expected)));
        assert!(!rig.settle(run, &fence, delivered(), at(600)).await);
        assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.resolved");
    }
}

pub async fn an_unclaimed_letter_waits_and_can_be_claimed_again(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    for step in [ClaimStep::Claimed, ClaimStep::Sending] {
        let (run, fence) = rig.send_fenced(letter, step, at(10)).await;
        let told = rig.told_of_letters().await;
        assert!(rig.settle(run, &fence, SendOutcome::Unsent, at(500)).await);
        let found = rig.letter(letter).await;
        assert_eq!((found.status, found.life, found.resolution), (Status::Pending, 1, None));
        assert_eq!(rig.told_of_letters().await, told, "nothing happened to the letter");
    }
    // It was never out, so a later death is no relapse.
    assert_eq!(rig.capture(dying("e1", at(600)), at(700)).await.outcome, Outcome::Recurred);
}

pub async fn a_claim_is_settled_only_from_steps_that_allow_it(rig: &mut Rig) {
    let cases = [
        ("not begun, yet delivered", ClaimStep::Claimed, delivered()),
        ("not begun, yet unknown", ClaimStep::Claimed, unknown()),
        ("not sent, yet quiet", ClaimStep::Sending, SendOutcome::Assumed),
        ("not sent, yet lost", ClaimStep::Sending, SendOutcome::Lost { why: "no trace".into() }),
        ("sent, yet taken back", ClaimStep::Sent, SendOutcome::Unsent),
        ("sent, yet refused", ClaimStep::Sent, refused(10)),
    ];
    for (name, step, outcome) in cases {
        let letter = rig.create(captured(name), at(0)).await;
        let (run, fence) = rig.send_fenced(letter, step, at(10)).await;
        let before = rig.dump().await;
        assert!(!rig.settle(run, &fence, outcome, at(500)).await, "{name}");
        assert_eq!(rig.dump().await, before);
    }
}

pub async fn a_death_ends_the_claim(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    let (run, fence) = rig.send_fenced(letter, ClaimStep::Sent, at(10)).await;
    assert_eq!(rig.capture(dying("e1", at(20)), at(30)).await.outcome, Outcome::Relapse);
    let before = rig.dump().await;
    for outcome in [delivered(), SendOutcome::Unsent, SendOutcome::Assumed] {
        assert!(!rig.settle(run, &fence, outcome, at(500)).await);
    }
    assert_eq!(rig.dump().await, before);
    assert_eq!(rig.take(letter, 1, at(40)).await, None);
    let (_, fence) = rig.take(letter, 2, at(40)).await.unwrap();
    assert_eq!(fence.idempotency_key, format!("{letter}:2:1"));
}

pub async fn a_letter_that_is_not_pending_cannot_be_claimed(rig: &mut Rig) {
    for verb in [Verb::Resolve, Verb::Discard] {
        let letter = rig.create(captured(verb.name()), at(0)).await;
        rig.done(letter, verb, at(5)).await;
        assert_eq!(rig.take(letter, 1, at(10)).await, None);
        rig.done(letter, Verb::Reopen, at(15)).await;
        assert!(rig.take(letter, 1, at(20)).await.is_some());
    }
}

pub async fn many_runs_race_for_one_letter_and_one_gets_it(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let mut runs = Vec::new();
    for _ in 0..16 {
        runs.push(rig.launch(letter, 1, at(10)).await.unwrap());
    }
    let mut taking = tokio::task::JoinSet::new();
    for run in runs {
        let store = rig.shared();
        taking.spawn(async move { store.take_letters(run, 1, at(30_000), at(10)).await.unwrap() });
    }
    let next = taking.join_all().await;
    assert_eq!(next.iter().map(|next| next.taken.len()).sum::<usize>(), 1);
    assert_eq!(next.iter().map(|next| next.skipped).sum::<u64>(), 15);
}
