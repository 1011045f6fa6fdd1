//! Cases: holds that stand for letters to come, and letters that come in by any way.

use std::collections::BTreeSet;

use lazaret_core::id::LetterId;
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits::STANDING_HOLDS_MAX;
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::Verb;
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use lazaret_store::job::SOURCE;
use lazaret_store::transfer::Imported;

use crate::books;
use crate::holds::{end, filter, held, holds_of, listed, new, place, record, shown, work};
use crate::job_letters;
use crate::rig::{Rig, at, captured, dying, envelope, postgres, sqlite};
use crate::transfer::{export, put_in};

fn of_queue(event: &str, queue: &str) -> Captured {
    Captured { queue: queue.into(), ..captured(event) }
}

fn saying(event: &str, body: &str) -> Captured {
    Captured { envelope: envelope(body.as_bytes()), ..captured(event) }
}

fn standing(text: &str) -> HoldOn {
    HoldOn::Standing(filter(text))
}

pub async fn a_standing_hold_is_for_what_is_there_and_what_comes(rig: &mut Rig) {
    let there = rig.create(of_queue("a", "q1"), at(0)).await;
    let other = rig.create(of_queue("b", "q2"), at(0)).await;
    // Its clock is ahead, and it comes in before the hold all the same.
    let ahead = rig.create(of_queue("c", "q1"), at(50)).await;
    let hold = new(rig, standing("queue:q1"), at(10));
    let id = hold.id;
    assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
    // It is in force before those that were there are marked.
    let came = rig.create(of_queue("d", "q1"), at(60)).await;
    assert_eq!(rig.letter(came).await.hold, shown(at(10)));
    assert_eq!(record(rig, id).await.state, HoldState::Placing);
    work(rig, id, at(70)).await;
    assert_eq!(held(rig).await, BTreeSet::from([there, ahead, came]));
    let told = record(rig, id).await;
    assert_eq!((told.state, told.standing, told.letters), (HoldState::Standing, true, 3));
    assert_eq!((told.filter.as_deref(), told.letter), (Some("queue:q1"), None));
    let later = rig.create(of_queue("e", "q1"), at(80)).await;
    assert_eq!((holds_of(rig, later).await, holds_of(rig, other).await), (vec![id], vec![]));
    assert_eq!(rig.told_of_letters().await[7..], ["dead_letter.added", "dead_letter.held"]);
    // A restart forgets nothing.
    rig.reopen().await;
    let last = rig.create(of_queue("f", "q1"), at(90)).await;
    assert_eq!(holds_of(rig, last).await, [id]);
    end(rig, id, at(100)).await;
    assert_eq!(held(rig).await, BTreeSet::new());
    let free = rig.create(of_queue("g", "q1"), at(110)).await;
    assert_eq!(rig.letter(free).await.hold, None);
}

pub async fn a_letter_that_dies_into_a_standing_hold_is_held(rig: &mut Rig) {
    let id = rig.create(of_queue("a", "q1"), at(0)).await;
    let hold = place(rig, standing("queue:q2"), at(10)).await;
    assert_eq!(rig.letter(id).await.hold, None);
    let again = Captured { died_at: Some(at(20)), ..of_queue("a", "q2") };
    assert_eq!(rig.capture(again.clone(), at(21)).await.outcome, Outcome::Recurred);
    assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(10)), vec![hold]));
    // The same told again changes nothing, and neither does the next death.
    let told = rig.told_of_letters().await;
    assert_eq!(rig.capture(again, at(30)).await.outcome, Outcome::Duplicate);
    assert_eq!(rig.told_of_letters().await, told);
    rig.capture(Captured { died_at: Some(at(40)), ..of_queue("a", "q2") }, at(41)).await;
    assert_eq!((record(rig, hold).await.letters, rig.told_of_letters().await.len()), (1, told.len() + 1));
    // Released by hand it is free, until it dies into the hold once more.
    rig.done(id, Verb::Release, at(50)).await;
    assert_eq!((rig.letter(id).await.hold, record(rig, hold).await.state), (None, HoldState::Standing));
    rig.capture(Captured { died_at: Some(at(60)), ..of_queue("a", "q2") }, at(61)).await;
    assert_eq!(holds_of(rig, id).await, [hold]);
}

pub async fn a_standing_hold_looks_into_letters(rig: &mut Rig) {
    let there = rig.create(saying("a", r#"{"customer":7}"#), at(0)).await;
    let other = rig.create(saying("b", r#"{"customer":8}"#), at(0)).await;
    let hold = place(rig, standing("queue:orders path:$.customer=7"), at(10)).await;
    let came = rig.create(saying("c", r#"{"customer":7}"#), at(20)).await;
    rig.create(saying("d", "no JSON at all"), at(20)).await;
    rig.create(saying("e", r#"{"customer":[7]}"#), at(20)).await;
    assert_eq!(held(rig).await, BTreeSet::from([there, came]));
    let again = Captured { died_at: Some(at(30)), ..saying("b", r#"{"customer":7,"again":true}"#) };
    rig.capture(again, at(31)).await;
    assert_eq!(held(rig).await, BTreeSet::from([there, came, other]));
    assert_eq!(record(rig, hold).await.letters, 3);
}

pub async fn every_standing_hold_that_matches_holds(rig: &mut Rig) {
    let first = place(rig, standing("queue:orders"), at(10)).await;
    let second = place(rig, standing("type:order.*"), at(20)).await;
    place(rig, standing("queue:elsewhere"), at(5)).await;
    let id = rig.create(captured("e1"), at(30)).await;
    assert_eq!(holds_of(rig, id).await, [first, second]);
    assert_eq!(rig.letter(id).await.hold, shown(at(10)));
    end(rig, first, at(40)).await;
    assert_eq!(rig.letter(id).await.hold, shown(at(20)));
}

pub async fn relative_times_of_a_standing_hold_move_on(rig: &mut Rig) {
    // Letters that were dead for an hour when they came in.
    let hold = place(rig, standing("age:>1h"), at(0)).await;
    let hour = 3_600_000;
    let fresh = rig.create(dying("a", at(2 * hour)), at(2 * hour + 1)).await;
    let old = rig.create(dying("b", at(hour)), at(2 * hour + 1)).await;
    assert_eq!((holds_of(rig, fresh).await, holds_of(rig, old).await), (vec![], vec![hold]));
}

pub async fn a_standing_hold_ends_by_itself(rig: &mut Rig) {
    let hold = NewHold { until: Some(at(100)), ..new(rig, standing("queue:orders"), at(10)) };
    assert_eq!(rig.store().place_hold(hold.clone()).await.unwrap(), HoldPlaced::Placed);
    work(rig, hold.id, at(10)).await;
    let before = rig.create(captured("a"), at(99)).await;
    let after = rig.create(captured("b"), at(100)).await;
    assert_eq!(held(rig).await, BTreeSet::from([before]), "it is over, though nobody has looked yet");
    let due = rig.store().due_holds(at(120)).await.unwrap();
    assert_eq!(due.iter().map(|due| due.id).collect::<Vec<_>>(), [hold.id]);
    work(rig, hold.id, at(120)).await;
    assert_eq!((rig.letter(before).await.hold, rig.letter(after).await.hold), (None, None));
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.action.as_str(), entry.at, entry.count), ("hold_expired", at(120), 1));
    assert_eq!(entry.filter.as_deref(), Some("queue:orders"));
    // One that is over before its letters are marked marks none.
    let hold = NewHold { until: Some(at(130)), ..new(rig, standing("queue:orders"), at(125)) };
    assert_eq!(rig.store().place_hold(hold.clone()).await.unwrap(), HoldPlaced::Placed);
    work(rig, hold.id, at(140)).await;
    assert_eq!((record(rig, hold.id).await.state, held(rig).await.len()), (HoldState::Released, 0));
}

pub async fn there_are_not_more_standing_holds_than_may_be(rig: &mut Rig) {
    let mut placed = Vec::new();
    for n in 0..STANDING_HOLDS_MAX {
        placed.push(place(rig, standing(&format!("queue:q{n}")), at(10)).await);
    }
    let before = rig.dump().await;
    let one_more = new(rig, standing("queue:orders"), at(20));
    assert_eq!(rig.store().place_hold(one_more.clone()).await.unwrap(), HoldPlaced::TooMany);
    assert_eq!(rig.dump().await, before);
    let last = rig.create(of_queue("a", "q99"), at(30)).await;
    assert_eq!(rig.letter(last).await.hold, shown(at(10)));
    // Other holds are not counted.
    place(rig, HoldOn::Letter(last), at(40)).await;
    place(rig, listed("queue:q99", 1), at(40)).await;
    end(rig, placed[0], at(50)).await;
    assert_eq!(rig.store().place_hold(one_more.clone()).await.unwrap(), HoldPlaced::Placed);
    let came = rig.create(captured("b"), at(60)).await;
    assert_eq!(holds_of(rig, came).await, [one_more.id]);
}

pub async fn a_job_that_dies_into_a_standing_hold_is_held(rig: &mut Rig) {
    let hold = place(rig, standing(&format!("source:{SOURCE}")), at(0)).await;
    let job = job_letters::dead(rig).await;
    let letter = job_letters::letter(rig, job).await.letter;
    assert_eq!((letter.status, holds_of(rig, letter.id).await), (Status::Pending, vec![hold]));
}

pub async fn a_restored_letter_is_under_the_holds_that_stand(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Delete, at(10)).await;
    let hold = place(rig, standing("queue:orders"), at(20)).await;
    assert_eq!(record(rig, hold).await.letters, 0);
    rig.done(id, Verb::Restore, at(30)).await;
    assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(20)), vec![hold]));
}

pub async fn an_imported_letter_brings_its_hold_along(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    place(rig, HoldOn::Letter(ids[0]), at(10)).await;
    place(rig, HoldOn::Letter(ids[0]), at(20)).await;
    let exported = export(rig, &ids).await;
    for there in [Rig::open(sqlite()).await, Rig::open(postgres()).await] {
        put_in(&there, exported.clone()).await;
        let letter = there.letter(ids[0]).await;
        assert_eq!((letter.hold, letter.updated_at), (shown(at(10)), at(20)), "as it was elsewhere");
        assert_eq!(there.letter(ids[1]).await.hold, None);
        let holds = there.store().holds_of(ids[0]).await.unwrap();
        assert_eq!((holds.len(), holds[0].letter, holds[0].letters), (1, Some(ids[0]), 1));
        assert_eq!((holds[0].state, holds[0].held_at), (HoldState::Standing, at(10)));
        end(&there, holds[0].id, at(2_000_000)).await;
        assert_eq!(there.letter(ids[0]).await.hold, None);
        books::agree(there.store()).await;
        there.store().close().await.unwrap();
    }
    let there = Rig::open(sqlite()).await;
    let hold = place(&there, standing("queue:orders"), at(30)).await;
    assert_eq!(put_in(&there, exported).await, [Imported::Created, Imported::Created]);
    assert_eq!((holds_of(&there, ids[0]).await.len(), holds_of(&there, ids[1]).await), (2, vec![hold]));
    assert_eq!(there.letter(ids[0]).await.hold, shown(at(10)));
    books::agree(there.store()).await;
    there.store().close().await.unwrap();
}

pub async fn a_reset_forgets_the_holds(rig: &mut Rig) {
    let id = rig.create(captured("a"), at(0)).await;
    place(rig, standing("queue:orders"), at(10)).await;
    place(rig, HoldOn::Letter(id), at(10)).await;
    rig.store().reset().await.unwrap();
    assert_eq!(rig.store().holds(None, true, 10).await.unwrap(), []);
    let free: LetterId = rig.create(captured("b"), at(20)).await;
    assert_eq!(rig.letter(free).await.hold, None);
}
