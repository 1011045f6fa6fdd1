//! Cases: at most one copy of a letter is out at a time, and a claim ends only as its step allows.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Outcome, Resolution, Strategy};
use lazaret_core::lifecycle::{Action, Refused, Standing, Status};
use lazaret_store::claim::{Claim, ClaimRefused, ClaimRequest, ClaimStep, Settlement};
use lazaret_store::decision::Verb;

use crate::rig::{Rig, at, captured, dying};

fn confirmed() -> Settlement {
    Settlement::Confirmed { evidence: "acked".into(), by: "redrive".into() }
}

fn ended() -> Settlement {
    Settlement::Ended { evidence: "cancelled".into(), by: "source:jobs".into() }
}

fn refused(status: Status) -> ClaimRefused {
    ClaimRefused::State(Refused { action: Action::Redrive, standing: Standing::live(status) })
}

async fn settle(rig: &Rig, letter: LetterId, run: RedriveId, how: Settlement) -> Result<(), ClaimRefused> {
    rig.store().settle(letter, run, how, at(500)).await.unwrap()
}

pub async fn a_letter_is_claimed_by_one_run_at_a_time(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let (run, other) = (rig.run_id(), rig.run_id());
    let claim = rig.claim(letter, 1, run, at(10)).await.unwrap();
    assert_eq!(
        claim,
        Claim {
            letter,
            life: 1,
            run,
            step: ClaimStep::Claimed,
            lease_until: Some(at(30_010)),
            idempotency_key: format!("{letter}:1:1"),
        }
    );
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
    let before = rig.dump().await;
    for run in [run, other] {
        assert_eq!(rig.claim(letter, 1, run, at(20)).await, Err(refused(Status::Reprocessing)));
    }
    let not_claimed = Err(ClaimRefused::NotClaimed(letter));
    assert_eq!(rig.advance(letter, other, ClaimStep::Sending, at(30)).await, not_claimed);
    for how in [confirmed(), Settlement::Unclaimed, ended()] {
        assert_eq!(settle(rig, letter, other, how).await, not_claimed);
    }
    assert_eq!(rig.dump().await, before);
}

pub async fn only_the_present_life_can_be_claimed(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.capture(dying("e1", at(5)), at(6)).await;
    let (run, before) = (rig.run_id(), rig.dump().await);
    for life in [0, 1, 3] {
        assert_eq!(rig.claim(letter, life, run, at(10)).await, Err(ClaimRefused::OtherLife(letter)));
    }
    let nowhere = LetterId::mint(at(0), [255; 10]);
    assert_eq!(rig.claim(nowhere, 1, run, at(10)).await, Err(ClaimRefused::Unknown(nowhere)));
    assert_eq!(rig.dump().await, before);
    assert_eq!(rig.claim(letter, 2, run, at(10)).await.unwrap().life, 2);
}

pub async fn a_claim_goes_forward_one_step_at_a_time(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let run = rig.run_id();
    rig.claim(letter, 1, run, at(10)).await.unwrap();
    let order = [ClaimStep::Sending, ClaimStep::Sent];
    for (done, allowed) in order.into_iter().enumerate() {
        let before = rig.dump().await;
        for step in ClaimStep::ALL.into_iter().filter(|step| *step != allowed) {
            assert_eq!(
                rig.advance(letter, run, step, at(20)).await,
                Err(ClaimRefused::NotClaimed(letter)),
                "{done}"
            );
        }
        assert_eq!(rig.dump().await, before);
        assert_eq!(rig.advance(letter, run, allowed, at(20)).await, Ok(()));
    }
    assert_eq!(
        rig.advance(letter, run, ClaimStep::Sent, at(30)).await,
        Err(ClaimRefused::NotClaimed(letter))
    );
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
}

pub async fn a_confirmed_letter_is_resolved_on_its_evidence(rig: &mut Rig) {
    for (event, step) in [("e1", ClaimStep::Sending), ("e2", ClaimStep::Sent)] {
        let letter = rig.create(captured(event), at(0)).await;
        let run = rig.send(letter, step, at(10)).await;
        assert_eq!(settle(rig, letter, run, confirmed()).await, Ok(()));
        let found = rig.letter(letter).await;
        let expected = Resolution {
            at: at(500),
            strategy: Strategy::ManualRetry,
            by: "redrive".into(),
            notes: Some("acked".into()),
        };
        assert_eq!((found.status, found.resolution), (Status::Resolved, Some(expected)));
        assert_eq!(settle(rig, letter, run, confirmed()).await, Err(ClaimRefused::NotClaimed(letter)));
        assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.resolved");
    }
}

pub async fn an_unclaimed_letter_waits_and_can_be_claimed_again(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    for step in [ClaimStep::Claimed, ClaimStep::Sending] {
        let told = rig.told().await;
        let run = rig.send(letter, step, at(10)).await;
        assert_eq!(settle(rig, letter, run, Settlement::Unclaimed).await, Ok(()));
        let found = rig.letter(letter).await;
        assert_eq!((found.status, found.life, found.resolution), (Status::Pending, 1, None));
        assert_eq!(rig.told().await, told, "nothing happened to the letter");
    }
    // It was never out, so a later death is no relapse.
    assert_eq!(rig.capture(dying("e1", at(600)), at(700)).await.outcome, Outcome::Recurred);
}

pub async fn an_ended_letter_is_discarded_on_its_evidence(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    // A hold guards against people, not against what has happened elsewhere.
    rig.done(letter, Verb::Hold, at(5)).await;
    let run = rig.send(letter, ClaimStep::Sent, at(10)).await;
    assert_eq!(settle(rig, letter, run, ended()).await, Ok(()));
    let found = rig.letter(letter).await;
    let expected = Resolution {
        at: at(500),
        strategy: Strategy::Discard,
        by: "source:jobs".into(),
        notes: Some("cancelled".into()),
    };
    assert_eq!((found.status, found.resolution), (Status::Discarded, Some(expected)));
    assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.discarded");
}

pub async fn a_claim_is_settled_only_from_steps_that_allow_it(rig: &mut Rig) {
    let unclaimed = Settlement::Unclaimed;
    let cases = [
        ("not sent, yet confirmed", ClaimStep::Claimed, confirmed()),
        ("not sent, yet ended", ClaimStep::Claimed, ended()),
        ("sent, yet taken back", ClaimStep::Sent, unclaimed),
    ];
    for (name, step, how) in cases {
        let letter = rig.create(captured(name), at(0)).await;
        let run = rig.send(letter, step, at(10)).await;
        let before = rig.dump().await;
        assert_eq!(settle(rig, letter, run, how).await, Err(ClaimRefused::NotClaimed(letter)), "{name}");
        assert_eq!(rig.dump().await, before);
    }
}

pub async fn a_death_ends_the_claim(rig: &mut Rig) {
    let letter = rig.create(dying("e1", at(-10)), at(0)).await;
    let run = rig.send(letter, ClaimStep::Sent, at(10)).await;
    assert_eq!(rig.capture(dying("e1", at(20)), at(30)).await.outcome, Outcome::Relapse);
    let before = rig.dump().await;
    for how in [confirmed(), Settlement::Unclaimed, ended()] {
        assert_eq!(settle(rig, letter, run, how).await, Err(ClaimRefused::NotClaimed(letter)));
    }
    assert_eq!(rig.claim(letter, 1, run, at(40)).await, Err(ClaimRefused::OtherLife(letter)));
    assert_eq!(rig.dump().await, before);
    assert_eq!(rig.claim(letter, 2, run, at(40)).await.unwrap().idempotency_key, format!("{letter}:2:1"));
}

pub async fn a_letter_that_is_not_pending_cannot_be_claimed(rig: &mut Rig) {
    for (verb, status) in [(Verb::Resolve, Status::Resolved), (Verb::Discard, Status::Discarded)] {
        let letter = rig.create(captured(verb.name()), at(0)).await;
        rig.done(letter, verb, at(5)).await;
        assert_eq!(rig.claim(letter, 1, rig.run_id(), at(10)).await, Err(refused(status)));
        rig.done(letter, Verb::Reopen, at(15)).await;
        rig.claim(letter, 1, rig.run_id(), at(20)).await.unwrap();
    }
}

pub async fn many_runs_race_for_one_letter_and_one_gets_it(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (store, run) = (rig.shared(), rig.run_id());
        runs.spawn(async move {
            let request = ClaimRequest { letter, life: 1, run, lease_until: at(30_000) };
            store.claim(request, at(10)).await.unwrap()
        });
    }
    let (won, lost): (Vec<_>, Vec<_>) = runs.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 15));
    assert!(lost.into_iter().all(|claim| claim == Err(refused(Status::Reprocessing))));
}
