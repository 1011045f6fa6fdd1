//! Cases: a message arrives under a known key. The same death told again moves nothing; a new one begins a life.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, Outcome, SourceWord};
use lazaret_core::lifecycle::Status;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::Verb;
use lazaret_store::redrive::SendOutcome;

use crate::redrive_runs::delivered;
use crate::rig::{Rig, at, captured, dying, envelope, error, failed, mark};

pub async fn a_duplicate_adds_only_the_attempts_not_yet_known(rig: &mut Rig) {
    let told = |attempts: &[i64]| Captured {
        attempts: attempts.iter().map(|ms| failed(at(*ms), "connection refused")).collect(),
        ..dying("e1", at(-10))
    };
    let id = rig.create(told(&[-30, -10]), at(0)).await;
    let again = rig.capture(told(&[-40, -30, -20, -20, -10]), at(5)).await;
    assert_eq!((again.letter, again.outcome), (id, Outcome::Duplicate));
    let found = rig.history(id).await;
    let attempts: Vec<_> =
        found.attempts.iter().map(|attempt| (attempt.ordinal, attempt.attempt.at.unwrap())).collect();
    assert_eq!(attempts, [(1, at(-30)), (2, at(-10)), (3, at(-40)), (4, at(-20)), (5, at(-20))]);
    assert_eq!((found.letter.life, found.letter.died_at, found.letter.updated_at), (1, at(-10), at(5)));
    assert_eq!((found.lives.len(), found.lives[0].fatal), (1, 2));
    assert_eq!(rig.told().await, ["incident.opened", "dead_letter.added"]);
}

pub async fn a_duplicate_of_everything_leaves_no_trace(rig: &mut Rig) {
    let told =
        Captured { attempts: vec![failed(at(-30), "x"), failed(at(-20), "y")], ..dying("e1", at(-10)) };
    rig.create(told.clone(), at(0)).await;
    let before = rig.dump().await;
    for ms in 1..4 {
        assert_eq!(rig.capture(told.clone(), at(ms)).await.outcome, Outcome::Duplicate);
    }
    // Another body is no evidence, and changes no original.
    let other = Captured { envelope: envelope(b"other"), ..told };
    assert_eq!(rig.capture(other, at(9)).await.outcome, Outcome::Duplicate);
    assert_eq!(rig.dump().await, before);
}

pub async fn a_later_failure_begins_the_next_life(rig: &mut Rig) {
    let first = Captured { envelope: envelope(b"first"), ..dying("e1", at(-10)) };
    let later = Captured {
        envelope: envelope(b"second"),
        error: error("disk on fire"),
        attempts: vec![failed(at(-10), "connection refused"), failed(at(100), "reset")],
        retry_count: 9,
        ..dying("e1", at(150))
    };
    let id = rig.create(first.clone(), at(0)).await;
    let receipt = rig.capture(later.clone(), at(200)).await;
    assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Recurred));
    let found = rig.history(id).await;
    let letter = &found.letter;
    assert_eq!((letter.status, letter.life, letter.retry_count), (Status::Pending, 2, 9));
    assert_eq!((letter.created_at, letter.died_at, letter.updated_at), (at(0), at(150), at(200)));
    assert_eq!((letter.retention_at, letter.error_message.as_str()), (at(200), "disk on fire"));
    let lives: Vec<_> =
        found.lives.iter().map(|life| (life.life, life.captured_at, life.died_at, life.fatal)).collect();
    assert_eq!(lives, [(1, at(0), at(-10), 1), (2, at(200), at(150), 3)]);
    let attempts: Vec<_> =
        found.attempts.iter().map(|attempt| (attempt.life, attempt.attempt.at.unwrap())).collect();
    assert_eq!(attempts, [(1, at(-10)), (2, at(100)), (2, at(150))]);
    for (life, sealed) in [(Some(1), &first.envelope), (Some(2), &later.envelope), (None, &later.envelope)] {
        let original = rig.store().original(id, life).await.unwrap().unwrap();
        assert_eq!(original.envelope, *sealed);
    }
    assert_eq!(rig.told_of_letters().await, ["dead_letter.added", "dead_letter.recurred"]);
    assert_eq!(rig.capture(later, at(300)).await.outcome, Outcome::Duplicate);
}

pub async fn a_life_may_come_with_another_type_and_queue(rig: &mut Rig) {
    let id = rig.create(Captured { aggregate: Some("a1".into()), ..dying("e1", at(-10)) }, at(0)).await;
    rig.create(dying("e2", at(-10)), at(0)).await;
    let moved = Captured { letter_type: "order.paid".into(), queue: "late".into(), ..dying("e1", at(5)) };
    assert_eq!(rig.capture(moved, at(9)).await.outcome, Outcome::Recurred);
    assert_eq!(rig.find("type:order.paid queue:late").await, [id]);
    assert_eq!(rig.find("queue:orders").await.len(), 1);
    assert_eq!(rig.find("aggregate:a1").await, []);
    let (letter, lives) = (rig.letter(id).await, rig.history(id).await.lives);
    assert_eq!(letter.fingerprint, lives[1].fingerprint);
    assert_ne!(lives[0].fingerprint, lives[1].fingerprint);
    assert_eq!(rig.find(&format!("incident:{}", letter.incident)).await, [id]);
}

/// Sends a letter with `step` as far as it gets, then reports its death at 200.
async fn redriven(rig: &Rig, step: ClaimStep) -> (LetterId, RedriveId, Outcome) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let run = rig.send(id, step, at(100)).await;
    // It failed before the send: that is the old death told late, whoever tells it.
    let late = rig.capture(dying("e1", at(50)), at(150)).await;
    assert_eq!((late.outcome, rig.letter(id).await.status), (Outcome::Duplicate, Status::Reprocessing));
    let outcome = rig.capture(dying("e1", at(200)), at(250)).await.outcome;
    (id, run, outcome)
}

pub async fn a_letter_that_dies_after_its_redrive_relapses(rig: &mut Rig) {
    let (id, run, outcome) = redriven(rig, ClaimStep::Sent).await;
    assert_eq!(outcome, Outcome::Relapse);
    let letter = rig.letter(id).await;
    assert_eq!((letter.status, letter.life, letter.died_at), (Status::Pending, 2, at(200)));
    assert_eq!(rig.told().await.last().unwrap(), "dead_letter.relapsed");
    // The same by the mark alone, with no time that would prove it.
    let second = rig.send(id, ClaimStep::Sent, at(300)).await;
    assert_ne!(run, second);
    let marked = Captured { mark: mark(id, 2, second), ..captured("e1") };
    let receipt = rig.capture(marked.clone(), at(400)).await;
    assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Relapse));
    let found = rig.history(id).await;
    assert_eq!((found.letter.status, found.letter.life), (Status::Pending, 3));
    assert_eq!(found.lives.iter().map(|life| life.redrive).collect::<Vec<_>>(), [None, None, Some(second)]);
    assert_eq!(rig.capture(marked, at(500)).await.outcome, Outcome::Duplicate);
}

pub async fn a_letter_that_dies_while_being_sent_relapses(rig: &mut Rig) {
    let (id, _, outcome) = redriven(rig, ClaimStep::Sending).await;
    assert_eq!(outcome, Outcome::Relapse);
    assert_eq!((rig.letter(id).await.status, rig.letter(id).await.life), (Status::Pending, 2));
}

pub async fn a_confirmed_letter_that_dies_again_relapses(rig: &mut Rig) {
    for (event, step) in [("e1", ClaimStep::Sending), ("e2", ClaimStep::Sent)] {
        let id = rig.create(dying(event, at(-10)), at(0)).await;
        let (run, fence) = rig.send_fenced(id, step, at(100)).await;
        assert!(rig.settle(run, &fence, delivered(), at(150)).await);
        let receipt = rig.capture(dying(event, at(200)), at(250)).await;
        assert_eq!(receipt.outcome, Outcome::Relapse, "confirmed while {}", step.name());
        let letter = rig.letter(id).await;
        assert_eq!((letter.status, letter.life, letter.resolution), (Status::Pending, 2, None));
    }
}

pub async fn a_mark_of_an_earlier_life_moves_nothing(rig: &mut Rig) {
    let (id, run, _) = redriven(rig, ClaimStep::Sent).await;
    let told = rig.told().await;
    for life in [0, 1] {
        let earlier = Captured { mark: mark(id, life, run), ..dying("e1", at(900 + i64::from(life))) };
        let receipt = rig.capture(earlier, at(1_000)).await;
        assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Duplicate));
    }
    let found = rig.history(id).await;
    assert_eq!((found.letter.status, found.letter.life, found.letter.died_at), (Status::Pending, 2, at(200)));
    // What it tells is kept as history of the life it belongs to; there is no life before the first.
    let last: Vec<_> = found.attempts.iter().rev().take(2).map(|attempt| attempt.life).collect();
    assert_eq!(last, [1, 1]);
    assert_eq!(rig.told().await, told);
}

pub async fn a_mark_of_another_letter_proves_nothing(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let other = rig.create(dying("e2", at(-10)), at(0)).await;
    for wrong in [mark(other, 1, rig.run_id()), mark(id, 7, rig.run_id())] {
        let marked = Captured { mark: wrong, ..dying("e1", at(-10)) };
        assert_eq!(rig.capture(marked, at(50)).await.outcome, Outcome::Duplicate);
    }
    assert_eq!(rig.letter(id).await.life, 1);
    assert_eq!(rig.letter(other).await.life, 1);
}

pub async fn a_mark_of_a_redrive_that_did_not_send_the_letter_proves_nothing(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let told = |life, run| Captured { mark: mark(id, life, run), ..captured("e1") };
    let stranger = rig.run_id();
    for ms in 1..4 {
        assert_eq!(rig.capture(told(1, stranger), at(ms)).await.outcome, Outcome::Duplicate);
    }
    let (claimed, fence) = rig.send_fenced(id, ClaimStep::Claimed, at(10)).await;
    assert_eq!(rig.capture(told(1, claimed), at(20)).await.outcome, Outcome::Duplicate, "it was never sent");
    assert!(rig.settle(claimed, &fence, SendOutcome::Unsent, at(30)).await);
    let sent = rig.send(id, ClaimStep::Sending, at(40)).await;
    assert_eq!(
        rig.capture(told(1, claimed), at(50)).await.outcome,
        Outcome::Duplicate,
        "another one sent it"
    );
    assert_eq!(rig.capture(told(1, sent), at(60)).await.outcome, Outcome::Relapse);
    // That redrive did not send the next life.
    assert_eq!(rig.capture(told(2, sent), at(70)).await.outcome, Outcome::Duplicate);
    let letter = rig.letter(id).await;
    assert_eq!((letter.status, letter.life), (Status::Pending, 2));
    // What the report says of a later failure counts as that of any other.
    let later = Captured { mark: mark(id, 2, stranger), ..dying("e1", at(80)) };
    assert_eq!(rig.capture(later, at(90)).await.outcome, Outcome::Relapse, "it was sent in an earlier life");
}

pub async fn a_letter_that_died_before_the_clock_was_set_back_dies_again(rig: &mut Rig) {
    let ahead = 600_000;
    let id = rig.create(dying("e1", at(ahead)), at(ahead)).await;
    assert_eq!(rig.capture(dying("e1", at(10)), at(10)).await.outcome, Outcome::Recurred);
    let letter = rig.letter(id).await;
    assert_eq!((letter.life, letter.died_at), (2, at(10)));
    assert_eq!(rig.capture(dying("e1", at(10)), at(20)).await.outcome, Outcome::Duplicate);
    assert_eq!(rig.capture(dying("e1", at(5)), at(20)).await.outcome, Outcome::Duplicate);
    // Sent before the clock was set back, and dead after it.
    rig.send(id, ClaimStep::Sent, at(ahead)).await;
    assert_eq!(rig.capture(dying("e1", at(30)), at(30)).await.outcome, Outcome::Relapse);
    assert_eq!((rig.letter(id).await.life, rig.letter(id).await.died_at), (3, at(30)));
}

pub async fn a_resolved_letter_that_dies_again_is_pending(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.done(id, Verb::Resolve, at(10)).await;
    assert_eq!(rig.capture(dying("e1", at(-10)), at(20)).await.outcome, Outcome::Duplicate);
    assert_eq!(rig.letter(id).await.status, Status::Resolved);
    assert_eq!(rig.capture(dying("e1", at(20)), at(30)).await.outcome, Outcome::Recurred);
    let letter = rig.letter(id).await;
    assert_eq!((letter.status, letter.life, letter.resolution), (Status::Pending, 2, None));
}

pub async fn a_discarded_letter_stays_discarded_and_remembers(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.done(id, Verb::Discard, at(10)).await;
    let resolution = rig.letter(id).await.resolution;
    assert_eq!(rig.capture(dying("e1", at(20)), at(30)).await.outcome, Outcome::Recurred);
    let found = rig.history(id).await;
    assert_eq!((found.letter.status, found.letter.life), (Status::Discarded, 1));
    assert_eq!((found.letter.resolution, found.letter.died_at), (resolution, at(20)));
    assert_eq!((found.lives.len(), found.attempts.len()), (1, 2));
    assert_eq!(rig.told().await.last().unwrap(), "dead_letter.recurred");
    assert_eq!(rig.capture(dying("e1", at(20)), at(40)).await.outcome, Outcome::Duplicate);
}

pub async fn a_hold_outlives_a_death(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.done(id, Verb::Hold, at(5)).await;
    assert_eq!(rig.capture(dying("e1", at(20)), at(30)).await.outcome, Outcome::Recurred);
    assert_eq!(rig.letter(id).await.hold.unwrap().at, at(5));
}

pub async fn the_word_of_the_source_beats_the_clock(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let same = Captured { word: SourceWord::SameDeath, ..dying("e1", at(500)) };
    assert_eq!(rig.capture(same, at(1_000)).await.outcome, Outcome::Duplicate);
    let anew = Captured { word: SourceWord::NewDeath, ..dying("e1", at(-500)) };
    assert_eq!(rig.capture(anew, at(1_000)).await.outcome, Outcome::Recurred);
    let letter = rig.letter(id).await;
    // The last death never goes back in time.
    assert_eq!((letter.life, letter.died_at), (2, at(-10)));
}
