//! Cases: how a run takes, sends and settles its letters, at its pace, in the order of their keys, canaries first.

use lazaret_core::gate::Passed;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Outcome as Received, Strategy};
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{Options, Outcome, Pace, RunState};
use lazaret_store::audit::{Actor, AuditQuery};
use lazaret_store::claim::ClaimFence;
use lazaret_store::decision::Verb;
use lazaret_store::redrive::{
    ByPerson, Expired, Launch, Launched, Next, Proof, Proved, Redrive, RunStep, SendOutcome, Stepped, Taken,
};

use crate::analyses::cured;
use crate::job_letters::{DYING, dead, kill, letter as letter_of};
use crate::jobs::{ack, enqueue, fetch, new};
use crate::redrives::{
    frozen, keyed, launch_of, letters, outcome, plan, redrive, run, state_of, step, unpaced,
};
use crate::rig::{Rig, ana, at, captured, dying, failed, mark};

const LEASE_MS: i64 = 60_000;

pub async fn take(rig: &Rig, id: RedriveId, limit: u32, ms: i64) -> Next {
    rig.store().take_letters(id, limit, at(ms + LEASE_MS), at(ms)).await.unwrap()
}

/// The fence of whoever claimed a letter for a run last, unless somebody took the claim over.
pub async fn fence(rig: &Rig, id: RedriveId, letter: LetterId) -> ClaimFence {
    let runs = rig.store().redrives_of(letter).await.unwrap();
    let row = runs.into_iter().find(|(redrive, _)| redrive.id == id).map(|(_, row)| row);
    let idempotency_key = row.and_then(|row| row.idempotency_key).unwrap_or_default();
    ClaimFence { letter, idempotency_key, renewals: 0 }
}

/// Begins to send letters that were taken; answers which were begun.
pub async fn begin(rig: &Rig, id: RedriveId, letters: &[LetterId], ms: i64) -> Vec<LetterId> {
    let mut fences = Vec::new();
    for letter in letters {
        fences.push(fence(rig, id, *letter).await);
    }
    rig.store().begin_sending(id, fences, at(ms)).await.unwrap()
}

/// Takes letters and begins to send them.
pub async fn sending(rig: &Rig, id: RedriveId, limit: u32, ms: i64) -> Vec<LetterId> {
    let taken: Vec<LetterId> =
        take(rig, id, limit, ms).await.taken.iter().map(|taken| taken.letter).collect();
    assert_eq!(begin(rig, id, &taken, ms).await, taken);
    taken
}

pub async fn settle(rig: &Rig, id: RedriveId, letter: LetterId, outcome: SendOutcome, ms: i64) -> bool {
    let fence = fence(rig, id, letter).await;
    rig.store().settle_letters(id, vec![(fence, outcome)], at(ms)).await.unwrap()[0]
}

pub fn delivered() -> SendOutcome {
    SendOutcome::Delivered { evidence: "delivered", handle: None }
}

pub fn refused(ms: i64) -> SendOutcome {
    SendOutcome::Failed { attempt: Box::new(failed(at(ms), "503")), why: "503 Service Unavailable".into() }
}

pub fn unknown() -> SendOutcome {
    SendOutcome::Unknown { why: "no answer within 30 s".into() }
}

/// Sends a letter that was taken, with success.
pub async fn deliver(rig: &Rig, id: RedriveId, letter: LetterId, ms: i64) {
    assert_eq!(begin(rig, id, &[letter], ms).await, [letter]);
    assert!(settle(rig, id, letter, delivered(), ms).await);
}

pub async fn tend(rig: &Rig, id: RedriveId, ms: i64) -> Redrive {
    rig.store().tend_redrive(id, at(ms)).await.unwrap().expect("the redrive exists")
}

pub async fn free_run(rig: &Rig, options: Options) -> RedriveId {
    run(rig, "source:report", Passed::Freely, options, 100).await
}

pub fn ids(next: &Next) -> Vec<LetterId> {
    next.taken.iter().map(|taken| taken.letter).collect()
}

pub async fn letters_go_at_the_pace_of_the_run(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    let pace = Pace::from_per_minute(Some(60)).unwrap();
    let id = free_run(rig, Options { pace, ..unpaced() }).await;
    assert_eq!(ids(&take(rig, id, 10, 1_000).await), all[..1]);
    let early = take(rig, id, 10, 1_999).await;
    assert_eq!((early.taken.len(), early.next_at), (0, Some(at(2_000))));
    assert_eq!(ids(&take(rig, id, 10, 2_000).await), all[1..2]);
    // What moved meanwhile costs nothing, and an hour saves up a second.
    rig.done(all[2], Verb::Resolve, at(2_500)).await;
    let later = take(rig, id, 10, 3_600_000).await;
    assert_eq!((ids(&later), later.skipped), (all[3..].to_vec(), 1));
    assert_eq!(take(rig, id, 10, 3_601_000).await, Next::default());
    step(rig, id, RunStep::Pace(Pace::Unlimited), 3_601_000).await;
    assert_eq!(redrive(rig, id).await.options.pace, Pace::Unlimited);
}

pub async fn a_taken_letter_says_where_it_goes_and_under_which_key(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    let expected = Taken {
        letter,
        life: 1,
        idempotency_key: format!("{letter}:1:1"),
        renewals: 0,
        destination: "report".into(),
        source: "report".into(),
        subscriber: Some("billing".into()),
    };
    assert_eq!(take(rig, id, 10, 200).await.taken, [expected]);
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
    let row = letters(rig, id).await.remove(0);
    assert_eq!((row.outcome, row.idempotency_key), (Outcome::Out, Some(format!("{letter}:1:1"))));
    assert_eq!(take(rig, id, 10, 300).await, Next::default());
}

pub async fn letters_of_a_key_go_one_after_the_other(rig: &mut Rig) {
    let third = rig.create(keyed("c", "k", -10), at(0)).await;
    let first = rig.create(keyed("a", "k", -30), at(0)).await;
    let second = rig.create(keyed("b", "k", -20), at(0)).await;
    let other = rig.create(keyed("d", "other", -5), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    assert_eq!(ids(&take(rig, id, 10, 200).await), [first, other]);
    assert!(take(rig, id, 10, 210).await.taken.is_empty());
    deliver(rig, id, first, 220).await;
    assert_eq!(sending(rig, id, 10, 230).await, [second]);
    // Sent is not done: the next one waits until it is.
    assert!(settle(rig, id, second, SendOutcome::Sent { handle: None }, 240).await);
    assert!(take(rig, id, 10, 250).await.taken.is_empty());
    assert!(settle(rig, id, second, delivered(), 260).await);
    assert_eq!(ids(&take(rig, id, 10, 270).await), [third]);
}

pub async fn a_key_whose_letter_fails_stops(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, died) in [("a", -40), ("b", -30), ("c", -20)] {
        all.push(rig.create(keyed(event, "k", died), at(0)).await);
    }
    let other = rig.create(keyed("d", "other", -10), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    assert_eq!(sending(rig, id, 10, 200).await, [all[0], other]);
    assert!(settle(rig, id, all[0], refused(210), 210).await);
    assert!(settle(rig, id, other, delivered(), 220).await);
    assert!(take(rig, id, 10, 230).await.taken.is_empty());
    let found: Vec<Outcome> = letters(rig, id).await.iter().map(|row| row.outcome).collect();
    assert_eq!(found, [Outcome::Failed, Outcome::LaneBlocked, Outcome::LaneBlocked, Outcome::Succeeded]);
    assert_eq!(rig.letter(all[1]).await.status, Status::Pending);
    let done = tend(rig, id, 300).await;
    assert_eq!((done.state, done.letters[&Outcome::LaneBlocked]), (RunState::Done, 2));
}

pub async fn one_letter_of_a_key_is_out_whatever_run_it_belongs_to(rig: &mut Rig) {
    let first = rig.create(keyed("a", "k", -40), at(0)).await;
    let one = free_run(rig, unpaced()).await;
    let second = rig.create(keyed("b", "k", -30), at(50)).await;
    let free = rig.create(dying("c", at(-20)), at(50)).await;
    let two = free_run(rig, unpaced()).await;
    assert_eq!(ids(&take(rig, one, 10, 200).await), [first]);
    let next = take(rig, two, 10, 210).await;
    assert_eq!((ids(&next), next.skipped), (vec![free], 0), "its key waits while one of it is out");
    deliver(rig, one, first, 220).await;
    let next = take(rig, two, 10, 230).await;
    assert_eq!((ids(&next), next.skipped), (vec![second], 1));
    assert_eq!(outcome(rig, two, first).await, Outcome::Skipped);
}

pub async fn a_letter_that_moved_is_skipped_with_the_reason(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, died) in [("a", -50), ("b", -40), ("c", -30), ("d", -20)] {
        all.push(rig.create(keyed(event, "k", died), at(0)).await);
    }
    let id = free_run(rig, unpaced()).await;
    rig.done(all[0], Verb::Discard, at(110)).await;
    rig.capture(keyed("b", "k", 115), at(120)).await;
    rig.done(all[2], Verb::Delete, at(130)).await;
    let next = take(rig, id, 10, 200).await;
    assert_eq!((ids(&next), next.skipped), (vec![all[3]], 3), "its key goes on without them");
    let reasons: Vec<_> =
        letters(rig, id).await.into_iter().map(|row| row.evidence.unwrap_or_default()).collect();
    assert_eq!(
        reasons,
        [
            "cannot redrive a letter that is discarded",
            "the letter died again meanwhile",
            "the letter is gone",
            ""
        ]
    );
    assert_eq!(redrive(rig, id).await.letters[&Outcome::Skipped], 3);
}

pub async fn whatever_sending_comes_to_is_written_down(rig: &mut Rig) {
    let all = rig.create_many(5, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    assert_eq!(sending(rig, id, 10, 200).await, all);
    let outcomes =
        [delivered(), SendOutcome::Sent { handle: None }, refused(300), unknown(), SendOutcome::Unsent];
    let mut settled = Vec::new();
    for (letter, outcome) in all.iter().zip(outcomes) {
        settled.push((fence(rig, id, *letter).await, outcome));
    }
    assert_eq!(rig.store().settle_letters(id, settled, at(300)).await.unwrap(), [true; 5]);
    let rows = letters(rig, id).await;
    let found: Vec<_> = rows.iter().map(|row| (row.outcome, row.evidence.as_deref())).collect();
    assert_eq!(
        found,
        [
            (Outcome::Succeeded, Some("delivered")),
            (Outcome::Sent, None),
            (Outcome::Failed, Some("503 Service Unavailable")),
            (Outcome::Unknown, Some("no answer within 30 s")),
            (Outcome::Waiting, None),
        ]
    );
    let mut statuses = Vec::new();
    for letter in &all {
        statuses.push(rig.letter(*letter).await.status);
    }
    use Status::{Pending, Reprocessing, Resolved};
    assert_eq!(statuses, [Resolved, Reprocessing, Pending, Reprocessing, Pending]);
    let resolution = rig.letter(all[0]).await.resolution.unwrap();
    assert_eq!(
        (resolution.strategy, resolution.notes.as_deref()),
        (Strategy::ManualRetry, Some("delivered"))
    );
    let history = rig.history(all[2]).await;
    let last = history.attempts.last().unwrap();
    assert_eq!((last.life, last.attempt.error.message.as_str(), history.letter.life), (1, "503", 1));
    // What is settled, or was never this run's, is nobody's to settle again.
    let before = rig.dump().await;
    let foreign = free_run(rig, unpaced()).await;
    for letter in [all[0], all[2], all[4]] {
        assert!(!settle(rig, id, letter, delivered(), 400).await);
    }
    for outcome in [SendOutcome::Sent { handle: None }, SendOutcome::Unsent, refused(1), unknown()] {
        assert!(!settle(rig, id, all[1], outcome, 400).await, "it was sent");
    }
    for outcome in [delivered(), SendOutcome::Unsent] {
        assert!(!settle(rig, foreign, all[1], outcome, 400).await);
    }
    step(rig, foreign, RunStep::Cancel(None), 400).await;
    assert_eq!(letters(rig, id).await, rows);
    assert!(before.len() < rig.dump().await.len());
}

pub async fn a_letter_that_failed_goes_under_the_next_key(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    for number in 1..=3 {
        let id = free_run(rig, unpaced()).await;
        let taken = take(rig, id, 1, 200).await.taken.remove(0);
        assert_eq!(taken.idempotency_key, format!("{letter}:1:{number}"));
        begin(rig, id, &[letter], 230).await;
        assert!(settle(rig, id, letter, refused(number), 240).await);
        assert_eq!(tend(rig, id, 250).await.state, RunState::Done);
    }
    // It was never taken, so a death that is told now is no relapse.
    assert_eq!(rig.capture(dying("a", at(300)), at(310)).await.outcome, Received::Recurred);
}

pub async fn a_lease_that_is_over_is_found_and_taken_over(rig: &mut Rig) {
    let all = rig.create_many(2, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    take(rig, id, 10, 200).await;
    begin(rig, id, &[all[0]], 210).await;
    let late = 200 + LEASE_MS + 1;
    assert!(rig.store().expired_claims(at(late - 1), 10).await.unwrap().is_empty());
    let expired = rig.store().expired_claims(at(late), 10).await.unwrap();
    let found: Vec<_> = expired.iter().map(|claim| (claim.run, claim.taken.letter, claim.sending)).collect();
    assert_eq!(found, [(id, all[0], true), (id, all[1], false)]);
    assert_eq!(expired[0].taken.destination, "report");
    assert!(begin(rig, id, &[all[1]], late).await.is_empty(), "whoever comes too late must not send");
    let renew = async |one: &Expired| {
        rig.store().renew_claim(one.clone(), at(late + LEASE_MS), at(late)).await.unwrap()
    };
    let renewed = renew(&expired[0]).await.unwrap();
    assert_eq!(
        renewed,
        Taken { renewals: 1, ..expired[0].taken.clone() },
        "the same send, under the same key"
    );
    assert_eq!(renew(&expired[0]).await, None);
    let settled = vec![(renewed.fence(), delivered())];
    assert_eq!(rig.store().settle_letters(id, settled, at(late + 10)).await.unwrap(), [true]);
    assert!(settle(rig, id, all[1], SendOutcome::Unsent, late + 10).await);
    assert_eq!(renew(&expired[1]).await, None);
    assert_eq!(ids(&take(rig, id, 10, late + 20).await), [all[1]]);
}

pub async fn a_person_settles_what_nobody_knows(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, key, died) in [("a", "k1", -40), ("b", "k1", -30), ("c", "k2", -20), ("d", "k2", -10)] {
        all.push(rig.create(keyed(event, key, died), at(0)).await);
    }
    let id = free_run(rig, unpaced()).await;
    assert_eq!(sending(rig, id, 10, 200).await, [all[0], all[2]]);
    for letter in [all[0], all[2]] {
        assert!(settle(rig, id, letter, unknown(), 300).await);
    }
    assert!(rig.store().expired_claims(at(900_000), 10).await.unwrap().is_empty(), "it waits for a person");
    let word =
        async |letter, word| rig.store().settle_unknown(id, letter, word, ana(), at(400)).await.unwrap();
    assert!(!word(all[1], ByPerson::Sent).await, "it was never out");
    assert!(word(all[0], ByPerson::Sent).await);
    assert!(!word(all[0], ByPerson::Sent).await);
    assert_eq!(outcome(rig, id, all[0]).await, Outcome::Assumed, "nothing else may ever tell");
    assert_eq!(rig.letter(all[0]).await.status, Status::Resolved);
    assert!(word(all[2], ByPerson::Unclaim).await);
    assert_eq!(rig.letter(all[2]).await.status, Status::Pending);
    assert_eq!(outcome(rig, id, all[2]).await, Outcome::Failed);
    assert_eq!(outcome(rig, id, all[3]).await, Outcome::LaneBlocked);
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.action.as_str(), entry.reason.as_deref()), ("redrive_settle", Some("unclaim")));
    assert_eq!((entry.letter, entry.redrive), (Some(all[2]), Some(id)));
    assert!(!settle(rig, id, all[0], delivered(), 500).await);
    assert_eq!(ids(&take(rig, id, 10, 510).await), [all[1]]);
    let other = run(rig, "aggregate:k2", Passed::Freely, unpaced(), 600).await;
    let again = take(rig, other, 1, 610).await.taken.remove(0);
    assert_eq!(again.idempotency_key, format!("{}:1:2", all[2]), "another retry is another send");
}

pub async fn what_nobody_knows_holds_up_its_key_and_not_the_end(rig: &mut Rig) {
    let first = rig.create(keyed("a", "k", -40), at(0)).await;
    let second = rig.create(keyed("b", "k", -30), at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 10, 200).await;
    assert!(settle(rig, id, first, unknown(), 300).await);
    let done = tend(rig, id, 400).await;
    assert_eq!((done.state, done.letters[&Outcome::Unknown]), (RunState::Done, 1));
    assert_eq!(outcome(rig, id, second).await, Outcome::LaneBlocked);
    let other = free_run(rig, unpaced()).await;
    assert!(take(rig, other, 10, 500).await.taken.is_empty(), "nothing overtakes it by another run");
    assert!(rig.store().settle_unknown(id, first, ByPerson::Sent, ana(), at(600)).await.unwrap());
    assert_eq!(rig.letter(first).await.status, Status::Resolved);
    assert_eq!(outcome(rig, id, first).await, Outcome::Assumed);
    assert_eq!(ids(&take(rig, other, 10, 700).await), [second]);
}

pub async fn a_run_whose_letters_fail_stops_by_itself(rig: &mut Rig) {
    let all = rig.create_many(10, at(0)).await;
    let incident = rig.letter(all[0]).await.incident;
    cured(rig, incident, 50, 50).await;
    let id = run(rig, "source:report", Passed::Governed, unpaced(), 100).await;
    sending(rig, id, 4, 200).await;
    for letter in &all[..2] {
        assert!(settle(rig, id, *letter, refused(210), 210).await);
    }
    assert_eq!(tend(rig, id, 220).await.state, RunState::Running);
    assert!(settle(rig, id, all[2], refused(230), 230).await);
    let stopped = tend(rig, id, 240).await;
    assert_eq!(stopped.state, RunState::Stopped);
    assert_eq!(stopped.why.as_deref(), Some("more than 20 % of the last 50 letters failed or relapsed"));
    assert!(take(rig, id, 10, 250).await.taken.is_empty());
    assert!(settle(rig, id, all[3], delivered(), 260).await, "what is out is settled as ever");
    assert_eq!(state_of(step(rig, id, RunStep::Resume, 270).await), RunState::Running);
    assert_eq!(tend(rig, id, 280).await.state, RunState::Running, "what was before is forgiven");
    assert_eq!(take(rig, id, 10, 290).await.taken.len(), 6);
}

pub async fn a_run_stops_when_its_incident_comes_back(rig: &mut Rig) {
    let all = rig.create_many(3, at(0)).await;
    let incident = rig.letter(all[0]).await.incident;
    cured(rig, incident, 50, 50).await;
    let id = run(rig, "source:report", Passed::Governed, unpaced(), 100).await;
    rig.create(dying("new", at(150)), at(160)).await;
    let stopped = tend(rig, id, 200).await;
    assert_eq!((stopped.state, stopped.why.as_deref()), (RunState::Stopped, Some("the incident came back")));
    let shut = step(rig, id, RunStep::Resume, 210).await;
    assert_eq!(shut, Stepped::Shut(lazaret_core::gate::Shut::Regressed, incident));
}

pub async fn relapses_count_against_the_run(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, died) in [("a", -40), ("b", -30), ("c", -20)] {
        all.push(rig.create(keyed(event, "k", died), at(0)).await);
    }
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 1, 200).await;
    assert!(settle(rig, id, all[0], SendOutcome::Sent { handle: None }, 210).await);
    let mut again = keyed("a", "k", 300);
    again.mark = mark(all[0], 1, id);
    assert_eq!(rig.capture(again, at(310)).await.outcome, Received::Relapse);
    let found: Vec<Outcome> = letters(rig, id).await.iter().map(|row| row.outcome).collect();
    assert_eq!(found, [Outcome::Relapsed, Outcome::LaneBlocked, Outcome::LaneBlocked]);
    assert!(!settle(rig, id, all[0], delivered(), 320).await, "the death answered the claim");
    let done = tend(rig, id, 330).await;
    assert_eq!((done.state, done.letters[&Outcome::Relapsed]), (RunState::Done, 1));
    // Its next life can be put back, and the key of another life begins anew.
    let next = run(rig, "aggregate:k", Passed::Freely, unpaced(), 400).await;
    let taken = take(rig, next, 10, 410).await.taken;
    assert_eq!(taken[0].letter, all[1], "it died after the others, so it goes after them");
}

pub async fn jobs_are_put_back_by_a_run_one_of_a_key_at_a_time(rig: &mut Rig) {
    let first = dead(rig).await;
    let second = enqueue(rig, vec![new(rig, DYING, at(2_000))], at(2_000)).await[0];
    kill(rig, second, 2_000).await;
    let id = run(rig, "source:jobs", Passed::Freely, unpaced(), 10_000).await;
    let next = take(rig, id, 10, 10_100).await;
    assert_eq!((next.put_back, next.taken.len()), (1, 0), "both jobs are of one order");
    let (one, two) = (letter_of(rig, first).await.letter.id, letter_of(rig, second).await.letter.id);
    assert_eq!(outcome(rig, id, one).await, Outcome::Sent);
    assert_eq!(rig.letter(one).await.status, Status::Reprocessing);
    assert!(!settle(rig, id, one, SendOutcome::Unsent, 10_150).await);
    let proof = Proof { letter: one, life: 1, evidence: "receipt", by: "x".into(), at: at(10_160) };
    assert_eq!(rig.store().prove(proof).await.unwrap(), Proved::Late, "what a job comes to its worker says");
    assert_eq!(rig.store().sent_letters(id, 0, 10).await.unwrap(), [], "nor is its silence success");
    assert_eq!(fetch(rig, &["default"], 1, at(10_200)).await, [first]);
    ack(rig, first, at(10_300)).await;
    assert_eq!(outcome(rig, id, one).await, Outcome::Succeeded);
    assert_eq!(take(rig, id, 10, 10_400).await.put_back, 1);
    kill(rig, second, 10_500).await;
    assert_eq!(outcome(rig, id, two).await, Outcome::Relapsed);
    let done = tend(rig, id, 20_000).await;
    assert_eq!((done.state, done.letters[&Outcome::Succeeded]), (RunState::Done, 1));
}

pub async fn a_receipt_resolves_what_is_out_once(rig: &mut Rig) {
    let all = rig.create_many(3, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    let proof = |letter, life| Proof { letter, life, evidence: "receipt", by: "billing".into(), at: at(400) };
    let prove = async |letter, life| rig.store().prove(proof(letter, life)).await.unwrap();
    take(rig, id, 10, 200).await;
    begin(rig, id, &all[..2], 210).await;
    assert!(settle(rig, id, all[0], SendOutcome::Sent { handle: None }, 300).await);
    assert!(settle(rig, id, all[1], unknown(), 300).await);
    for letter in &all[..2] {
        assert_eq!(prove(*letter, 2).await, Proved::Unknown);
        assert_eq!(prove(*letter, 1).await, Proved::Done);
        let dump = rig.dump().await;
        assert_eq!(prove(*letter, 1).await, Proved::Late);
        assert_eq!(rig.dump().await, dump);
        assert_eq!(outcome(rig, id, *letter).await, Outcome::Succeeded);
        let resolution = rig.letter(*letter).await.resolution.unwrap();
        // Whoever launched the run decided; the receipt is the evidence.
        assert_eq!((resolution.by.as_str(), resolution.notes.as_deref()), ("ana", Some("receipt")));
    }
    assert_eq!(prove(LetterId::mint(at(0), [255; 10]), 1).await, Proved::Unknown);
    rig.capture(dying("e0", at(500)), at(510)).await;
    assert_eq!(prove(all[0], 1).await, Proved::Late, "that life is over");
}

pub async fn a_letter_is_resolved_by_whoever_launched_its_run(rig: &mut Rig) {
    let all = rig.create_many(2, at(0)).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 100).await;
    plan(rig, id, Passed::Freely, 100).await;
    let ben = Actor { name: "ben".into(), role: "approver".into(), request: None };
    let launch = Launch { by: ben, ..launch_of(2, unpaced(), 200) };
    assert!(matches!(rig.store().launch_redrive(id, launch).await.unwrap(), Launched::Done(_)));
    assert_eq!(redrive(rig, id).await.by.name, "ben");
    sending(rig, id, 10, 300).await;
    assert!(settle(rig, id, all[0], delivered(), 400).await);
    assert!(settle(rig, id, all[1], SendOutcome::Sent { handle: None }, 400).await);
    assert!(settle(rig, id, all[1], SendOutcome::Assumed, 1_000).await);
    for letter in all {
        let resolution = rig.letter(letter).await.resolution.unwrap();
        assert_eq!((resolution.strategy, resolution.by.as_str()), (Strategy::ManualRetry, "ben"));
    }
}

pub async fn silence_is_taken_for_success_after_a_while(rig: &mut Rig) {
    let all = rig.create_many(3, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 10, 200).await;
    for (letter, ms) in all.iter().zip([300, 400, 500]) {
        assert!(settle(rig, id, *letter, SendOutcome::Sent { handle: None }, ms).await);
    }
    let sent = rig.store().sent_letters(id, 0, 10).await.unwrap();
    let known: Vec<_> = sent.iter().map(|it| (it.claim.letter, it.event_id.as_str(), it.sent_at)).collect();
    assert_eq!(
        known,
        [(all[0], "e0", Some(at(300))), (all[1], "e1", Some(at(400))), (all[2], "e2", Some(at(500)))]
    );
    assert!(settle(rig, id, all[0], SendOutcome::Assumed, 1_000).await);
    assert!(settle(rig, id, all[1], SendOutcome::Assumed, 1_000).await);
    assert!(!settle(rig, id, all[1], SendOutcome::Assumed, 1_000).await);
    assert_eq!(rig.store().sent_letters(id, sent[0].ordinal, 10).await.unwrap(), sent[2..]);
    assert_eq!(outcome(rig, id, all[0]).await, Outcome::Assumed);
    let resolution = rig.letter(all[0]).await.resolution.unwrap();
    assert_eq!((resolution.by.as_str(), resolution.notes.as_deref()), ("ana", Some("quiet_window")));
    assert_eq!(tend(rig, id, 1_100).await.state, RunState::Verifying);
    assert!(settle(rig, id, all[2], SendOutcome::Lost { why: "its row is gone".into() }, 1_000).await);
    let lost = letters(rig, id).await.remove(2);
    assert_eq!((lost.outcome, lost.sent_at), (Outcome::Unknown, Some(at(500))));
    let sent = rig.store().settle_unknown(id, all[2], ByPerson::Sent, ana(), at(1_150)).await.unwrap();
    assert!(sent, "a person tells what became of it");
    assert_eq!(tend(rig, id, 1_200).await.state, RunState::Done);
    assert_eq!(rig.capture(dying("e0", at(2_000)), at(2_100)).await.outcome, Received::Relapse);
    assert_eq!(outcome(rig, id, all[0]).await, Outcome::Relapsed);
}

pub async fn what_is_out_of_a_cancelled_run_is_still_counted(rig: &mut Rig) {
    let all = rig.create_many(5, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    assert_eq!(sending(rig, id, 2, 200).await, all[..2]);
    take(rig, id, 1, 210).await;
    assert_eq!(state_of(step(rig, id, RunStep::Cancel(None), 300).await), RunState::Cancelled);
    assert_eq!(rig.store().unfinished_redrives(10).await.unwrap().len(), 1, "three are still out");
    assert!(settle(rig, id, all[0], delivered(), 310).await);
    assert!(settle(rig, id, all[1], refused(320), 320).await);
    assert!(settle(rig, id, all[2], SendOutcome::Unsent, 330).await);
    let ended = tend(rig, id, 400).await;
    let counts = [Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled, Outcome::Out, Outcome::Waiting]
        .map(|outcome| ended.letters[&outcome]);
    assert_eq!((ended.state, counts), (RunState::Cancelled, [1, 1, 3, 0, 0]));
    assert_eq!(ended.finished_at, Some(at(400)));
    assert!(rig.store().unfinished_redrives(10).await.unwrap().is_empty());
    let outcomes: Vec<Outcome> = letters(rig, id).await.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes[2..], [Outcome::Cancelled; 3]);
    assert_eq!(rig.letter(all[4]).await.status, Status::Pending);
}
