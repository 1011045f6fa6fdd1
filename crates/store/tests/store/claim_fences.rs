//! Cases: who lost a claim neither sends nor settles, and every send that is decided anew has a key of its own.

use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::Outcome;
use lazaret_store::claim::ClaimFence;
use lazaret_store::decision::Verb;
use lazaret_store::redrive::{ByPerson, Edit, Expired, SendOutcome, Taken};

use crate::redrive_runs::{
    begin, deliver, delivered, free_run, refused, sending, settle, take, tend, unknown,
};
use crate::redrives::{outcome, unpaced};
use crate::rig::{Rig, ana, at, captured};

const LATE: i64 = 100_000;

/// A letter that was claimed at 200, of which nobody heard since.
async fn expired(rig: &Rig) -> Expired {
    rig.store().expired_claims(at(LATE), 10).await.unwrap().remove(0)
}

async fn renew(rig: &Rig, expired: &Expired) -> Option<Taken> {
    rig.store().renew_claim(expired.clone(), at(2 * LATE), at(LATE)).await.unwrap()
}

/// Every report that a holder could give is refused, and leaves the store as it was.
async fn is_fenced_off(rig: &Rig, run: lazaret_core::id::RedriveId, fence: &ClaimFence, ms: i64) {
    let before = rig.dump().await;
    assert!(rig.store().begin_sending(run, vec![fence.clone()], at(ms)).await.unwrap().is_empty());
    for outcome in
        [delivered(), SendOutcome::Sent { handle: None }, refused(ms), unknown(), SendOutcome::Unsent]
    {
        let settled = vec![(fence.clone(), outcome.clone())];
        assert_eq!(rig.store().settle_letters(run, settled, at(ms)).await.unwrap(), [false], "{outcome:?}");
    }
    assert_eq!(rig.dump().await, before);
}

pub async fn who_lost_a_claim_neither_sends_nor_settles(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    let stalled = take(rig, id, 1, 200).await.taken.remove(0).fence();
    let taken_over = renew(rig, &expired(rig).await).await.unwrap().fence();
    // With its clock set back the stalled holder would think that its lease still lasts.
    is_fenced_off(rig, id, &stalled, 300).await;
    let unsent = vec![(taken_over.clone(), SendOutcome::Unsent)];
    assert_eq!(rig.store().settle_letters(id, unsent, at(LATE)).await.unwrap(), [true]);
    is_fenced_off(rig, id, &stalled, 300).await;
    let next = take(rig, id, 1, LATE + 10).await.taken.remove(0).fence();
    for lost in [&stalled, &taken_over] {
        is_fenced_off(rig, id, lost, 300).await;
    }
    assert_eq!(rig.store().begin_sending(id, vec![next.clone()], at(LATE + 20)).await.unwrap(), [letter]);
    for lost in [&stalled, &taken_over] {
        is_fenced_off(rig, id, lost, 300).await;
    }
    let settled = vec![(next, delivered())];
    assert_eq!(rig.store().settle_letters(id, settled, at(LATE + 30)).await.unwrap(), [true]);
    is_fenced_off(rig, id, &stalled, 300).await;
    assert_eq!(rig.letter(letter).await.status, Status::Resolved);
}

pub async fn a_claim_that_its_holder_began_is_not_taken_over_as_unsent(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    let holder = take(rig, id, 1, 200).await.taken.remove(0).fence();
    let found = expired(rig).await;
    assert!(!found.sending);
    // The holder's clock is behind: by it, the lease is not over.
    assert_eq!(rig.store().begin_sending(id, vec![holder.clone()], at(300)).await.unwrap(), [letter]);
    assert_eq!(renew(rig, &found).await, None);
    assert!(expired(rig).await.sending);
    assert!(settle(rig, id, letter, delivered(), 400).await);
}

pub async fn an_answer_that_comes_late_settles_what_was_unknown(rig: &mut Rig) {
    let all = rig.create_many(3, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 3, 200).await;
    let expired = rig.store().expired_claims(at(LATE), 10).await.unwrap();
    for one in &expired {
        let settled = vec![(one.taken.fence(), unknown())];
        assert_eq!(rig.store().settle_letters(id, settled.clone(), at(LATE)).await.unwrap(), [true]);
        assert_eq!(rig.store().settle_letters(id, settled, at(LATE)).await.unwrap(), [false]);
    }
    // Nobody else sent it, so its holder still knows best.
    assert!(settle(rig, id, all[0], delivered(), LATE + 10).await);
    assert!(settle(rig, id, all[1], refused(LATE + 10), LATE + 10).await);
    assert!(settle(rig, id, all[2], SendOutcome::Sent { handle: None }, LATE + 10).await);
    assert_eq!(outcome(rig, id, all[0]).await, Outcome::Succeeded);
    assert_eq!(outcome(rig, id, all[1]).await, Outcome::Failed);
    assert_eq!(outcome(rig, id, all[2]).await, Outcome::Sent);
}

pub async fn a_send_that_is_decided_anew_has_a_key_of_its_own(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let key = |number: u32| format!("{letter}:1:{number}");
    let first = free_run(rig, unpaced()).await;
    assert_eq!(take(rig, first, 1, 200).await.taken[0].idempotency_key, key(1));
    // Repeated because nobody knows what came of it, it is the same send.
    begin(rig, first, &[letter], 210).await;
    let again = renew(rig, &expired(rig).await).await.unwrap();
    assert_eq!(again.idempotency_key, key(1));
    let settled = vec![(again.fence(), unknown())];
    assert_eq!(rig.store().settle_letters(first, settled, at(LATE)).await.unwrap(), [true]);
    // A person says that it was not sent, and retries it.
    assert!(rig.store().settle_unknown(first, letter, ByPerson::Unclaim, ana(), at(LATE)).await.unwrap());
    tend(rig, first, LATE).await;
    let second = free_run(rig, unpaced()).await;
    assert_eq!(take(rig, second, 1, 300).await.taken[0].idempotency_key, key(2));
    deliver(rig, second, letter, 310).await;
    tend(rig, second, 320).await;
    // Reopened, changed by a person and sent once more.
    rig.done(letter, Verb::Reopen, at(400)).await;
    let edit = Edit {
        number: 0,
        life: 1,
        body: b"{}".to_vec(),
        content_type: "application/json".into(),
        headers: Vec::new(),
        destination: None,
        author: "ana".into(),
        reason: None,
        at: at(410),
    };
    assert_eq!(rig.store().add_edit(letter, edit).await.unwrap(), Some(1));
    let third = free_run(rig, unpaced()).await;
    assert_eq!(take(rig, third, 1, 500).await.taken[0].idempotency_key, key(3));
    // Given back before it was sent, it is another claim.
    assert!(settle(rig, third, letter, SendOutcome::Unsent, 510).await);
    assert_eq!(take(rig, third, 1, 520).await.taken[0].idempotency_key, key(4));
}
