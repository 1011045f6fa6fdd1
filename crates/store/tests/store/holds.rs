//! Cases: holds on letters and on lists of them; who placed them, until when, and how they end.

use std::collections::BTreeSet;

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::letter::Hold;
use lazaret_core::lifecycle::{Action, Refused, Standing, Status};
use lazaret_core::limits::DECISION_ROWS_PER_WRITE;
use lazaret_core::time::Time;
use lazaret_store::audit::{Actor, AuditQuery};
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{Decided, Decision, OperationState, Verb};
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldRecord, HoldState, NewHold};

use crate::books;
use crate::rig::{Rig, ana, at, captured, decision, dying};

pub fn filter(text: &str) -> Filter {
    Filter::from_text(text).unwrap()
}

pub fn listed(text: &str, expected: u64) -> HoldOn {
    HoldOn::Filter { filter: filter(text), expected }
}

pub fn new(rig: &Rig, on: HoldOn, at: Time) -> NewHold {
    let id = HoldId::mint(at, rig.mint());
    NewHold { id, on, reason: "litigation 12".into(), until: None, by: bea(), at }
}

pub fn bea() -> Actor {
    Actor { name: "bea".into(), role: "admin".into(), request: Some("req-2".into()) }
}

/// Places a hold and marks its letters.
pub async fn place(rig: &Rig, on: HoldOn, at: Time) -> HoldId {
    let hold = new(rig, on, at);
    let id = hold.id;
    assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
    work(rig, id, at).await;
    id
}

/// Works a hold off; counts the calls.
pub async fn work(rig: &Rig, id: HoldId, at: Time) -> usize {
    let mut calls = 1;
    while rig.store().work_hold(id, at).await.unwrap() {
        calls += 1;
    }
    calls
}

/// Ends a hold and frees its letters.
pub async fn end(rig: &Rig, id: HoldId, at: Time) {
    assert!(rig.store().release_hold(id, Some("settled".into()), bea(), at).await.unwrap());
    work(rig, id, at).await;
}

pub async fn record(rig: &Rig, id: HoldId) -> HoldRecord {
    rig.store().hold(id).await.unwrap().expect("the hold is on record")
}

pub async fn holds_of(rig: &Rig, letter: LetterId) -> Vec<HoldId> {
    rig.store().holds_of(letter).await.unwrap().iter().map(|hold| hold.id).collect()
}

pub async fn held(rig: &Rig) -> BTreeSet<LetterId> {
    rig.find("held:yes").await.into_iter().collect()
}

/// What a letter shows of a hold that was placed then.
pub fn shown(at: Time) -> Option<Hold> {
    Some(Hold { at, by: "bea".into(), reason: "litigation 12".into() })
}

pub async fn a_decision_to_hold_is_a_hold(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Hold, at(10)).await;
    let holds = rig.store().holds_of(id).await.unwrap();
    let expected = HoldRecord {
        id: holds[0].id,
        state: HoldState::Standing,
        standing: false,
        filter: None,
        letter: Some(id),
        reason: "ticket 7".into(),
        held_by: "ana".into(),
        held_at: at(10),
        until: None,
        released_by: None,
        released_at: None,
        release_reason: None,
        letters: 1,
    };
    assert_eq!((holds.len(), &holds[0]), (1, &expected));
    assert_eq!(record(rig, expected.id).await, expected);
    assert_eq!(rig.store().hold_letters(expected.id, None, 10).await.unwrap(), [id]);
    rig.done(id, Verb::Release, at(20)).await;
    assert_eq!(rig.store().holds_of(id).await.unwrap(), []);
    let released = HoldRecord {
        state: HoldState::Released,
        released_by: Some("ana".into()),
        released_at: Some(at(20)),
        release_reason: Some("ticket 7".into()),
        letters: 0,
        ..expected
    };
    assert_eq!(record(rig, released.id).await, released);
    assert!(!rig.store().release_hold(released.id, None, bea(), at(30)).await.unwrap());
}

pub async fn a_hold_on_a_letter_is_there_at_once(rig: &mut Rig) {
    let (id, other) = (rig.create(captured("e1"), at(0)).await, rig.create(captured("e2"), at(0)).await);
    let hold = NewHold { until: Some(at(900)), ..new(rig, HoldOn::Letter(id), at(10)) };
    assert_eq!(rig.store().place_hold(hold.clone()).await.unwrap(), HoldPlaced::Placed);
    let letter = rig.letter(id).await;
    assert_eq!((letter.hold, letter.updated_at, letter.status), (shown(at(10)), at(10), Status::Pending));
    assert_eq!(rig.letter(other).await.hold, None);
    let told = record(rig, hold.id).await;
    assert_eq!((told.state, told.letter, told.letters), (HoldState::Standing, Some(id), 1));
    assert_eq!((told.until, told.standing, told.filter), (Some(at(900)), false, None));
    assert!(!rig.store().work_hold(hold.id, at(20)).await.unwrap(), "there is nothing left to do");
    assert_eq!(rig.told_of_letters().await[2..], ["dead_letter.held"]);
    end(rig, hold.id, at(30)).await;
    let letter = rig.letter(id).await;
    assert_eq!((letter.hold, letter.updated_at), (None, at(30)));
    let told = record(rig, hold.id).await;
    assert_eq!((told.state, told.letters, told.released_at), (HoldState::Released, 0, Some(at(30))));
    assert_eq!((told.released_by.as_deref(), told.release_reason.as_deref()), (Some("bea"), Some("settled")));
    assert_eq!(rig.told_of_letters().await[3..], ["dead_letter.released"]);
}

pub async fn what_is_gone_cannot_be_held(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Delete, at(10)).await;
    let before = rig.dump().await;
    for letter in [id, LetterId::from_bytes([1; 16])] {
        let hold = new(rig, HoldOn::Letter(letter), at(20));
        let unknown = hold.id;
        assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Unknown);
        assert_eq!(rig.store().hold(unknown).await.unwrap(), None);
        assert!(!rig.store().work_hold(unknown, at(30)).await.unwrap());
        assert!(!rig.store().release_hold(unknown, None, bea(), at(30)).await.unwrap());
        assert_eq!(rig.store().hold_letters(unknown, None, 10).await.unwrap(), []);
    }
    assert_eq!(rig.dump().await, before);
}

pub async fn a_list_is_held_if_the_count_is_right(rig: &mut Rig) {
    let ids = rig.create_many(5, at(0)).await;
    rig.done(ids[4], Verb::Resolve, at(1)).await;
    for wrong in [0, 3, 5] {
        let hold = new(rig, listed("status:pending", wrong), at(10));
        let id = hold.id;
        assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Count(4), "not {wrong}");
        assert_eq!(rig.store().hold(id).await.unwrap(), None);
        assert_eq!(held(rig).await, BTreeSet::new());
    }
    let id = place(rig, listed("status:pending", 4), at(20)).await;
    assert_eq!(held(rig).await, ids[..4].iter().copied().collect());
    assert_eq!(rig.letter(ids[0]).await.hold, shown(at(20)));
    let told = record(rig, id).await;
    assert_eq!((told.state, told.standing, told.letters), (HoldState::Standing, false, 4));
    assert_eq!((told.filter.as_deref(), told.letter), (Some("status:pending"), None));
    let mut under = ids[..4].to_vec();
    under.sort();
    assert_eq!(rig.store().hold_letters(id, None, 3).await.unwrap(), under[..3]);
    assert_eq!(rig.store().hold_letters(id, Some(under[2]), 3).await.unwrap(), under[3..]);
    // It is for those that matched, and for no others.
    let later = rig.create(captured("later"), at(30)).await;
    assert_eq!(rig.letter(later).await.hold, None);
    let nothing = place(rig, listed("queue:nowhere", 0), at(40)).await;
    assert_eq!(
        (record(rig, nothing).await.state, record(rig, nothing).await.letters),
        (HoldState::Standing, 0)
    );
}

pub async fn what_was_listed_is_held_however_it_went_on(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let hold = new(rig, listed("status:pending", 3), at(10));
    let id = hold.id;
    assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
    let late = rig.create(dying("late", at(-9)), at(10)).await;
    rig.capture(dying("e0", at(15)), at(16)).await;
    rig.done(ids[1], Verb::Resolve, at(17)).await;
    work(rig, id, at(20)).await;
    assert_eq!(held(rig).await, ids.into_iter().collect());
    assert_eq!((record(rig, id).await.letters, rig.letter(late).await.hold), (3, None));
}

pub async fn a_hold_is_worked_off_in_chunks_through_restarts(rig: &mut Rig) {
    let count = 2 * DECISION_ROWS_PER_WRITE as i64 + 10;
    rig.create_many(count, at(0)).await;
    let holds = [
        new(rig, listed("queue:orders", count as u64), at(10)),
        new(rig, HoldOn::Standing(filter("queue:orders")), at(20)),
    ];
    let ids = holds.clone().map(|hold| hold.id);
    for hold in holds {
        let id = hold.id;
        assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
        assert_eq!(record(rig, id).await.state, HoldState::Placing);
        assert!(rig.store().work_hold(id, at(30)).await.unwrap());
        books::agree(rig.store()).await;
        let part = record(rig, id).await.letters;
        assert!(0 < part && part < count as u64, "one call marks a part, not {part}");
        rig.reopen().await;
        let due: Vec<_> = rig.store().due_holds(at(40)).await.unwrap().iter().map(|hold| hold.id).collect();
        assert_eq!(due, [id]);
        assert!(work(rig, id, at(40)).await > 1);
        assert_eq!(record(rig, id).await.letters, count as u64);
        assert_eq!(rig.store().due_holds(at(40)).await.unwrap(), []);
    }
    assert_eq!(held(rig).await.len() as i64, count);
    for (id, left) in ids.into_iter().zip([count, 0]) {
        assert!(rig.store().release_hold(id, None, bea(), at(50)).await.unwrap());
        assert!(rig.store().work_hold(id, at(50)).await.unwrap());
        books::agree(rig.store()).await;
        assert_eq!(record(rig, id).await.state, HoldState::Releasing);
        assert!(!rig.store().release_hold(id, None, ana(), at(51)).await.unwrap(), "it ended before");
        rig.reopen().await;
        assert_eq!(rig.store().due_holds(at(60)).await.unwrap()[0].id, id);
        work(rig, id, at(60)).await;
        let told = record(rig, id).await;
        assert_eq!((told.state, told.letters), (HoldState::Released, 0));
        assert_eq!(held(rig).await.len() as i64, left);
    }
}

pub async fn a_hold_that_is_released_while_it_is_placed_frees_all(rig: &mut Rig) {
    let count = DECISION_ROWS_PER_WRITE as i64 + 10;
    rig.create_many(count, at(0)).await;
    for on in [listed("queue:orders", count as u64), HoldOn::Standing(filter("queue:orders"))] {
        let hold = new(rig, on, at(10));
        let id = hold.id;
        assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
        assert!(rig.store().work_hold(id, at(20)).await.unwrap());
        end(rig, id, at(30)).await;
        assert_eq!(
            (record(rig, id).await.state, held(rig).await.len()),
            (HoldState::Released, 0),
            "nothing is marked any more"
        );
        assert!(!rig.store().work_hold(id, at(40)).await.unwrap());
        // Whoever goes on with what was asked for finds nothing to do.
        for operation in rig.store().working_operations(10).await.unwrap() {
            assert_eq!(rig.work(operation, at(50)).await.0.state, OperationState::Done);
        }
        assert_eq!(held(rig).await, BTreeSet::new());
    }
}

pub async fn a_letter_is_free_when_its_last_hold_is_gone(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let younger = place(rig, HoldOn::Letter(id), at(20)).await;
    let older = place(rig, listed("queue:orders", 1), at(10)).await;
    let youngest = place(rig, HoldOn::Standing(filter("queue:orders")), at(30)).await;
    assert_eq!(holds_of(rig, id).await, [older, younger, youngest]);
    assert_eq!(rig.letter(id).await.hold, shown(at(10)), "the oldest is shown, whenever it was placed");
    let before = rig.told_of_letters().await.len();
    end(rig, older, at(40)).await;
    assert_eq!(rig.letter(id).await.hold, shown(at(20)));
    end(rig, youngest, at(50)).await;
    assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(20)), vec![younger]));
    assert_eq!(rig.told_of_letters().await.len(), before, "it is not free yet");
    assert!(matches!(rig.decide(id, Verb::Discard, at(55)).await, Decided::Refused(_)));
    end(rig, younger, at(60)).await;
    assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (None, vec![]));
    assert_eq!(rig.told_of_letters().await[before..], ["dead_letter.released"]);
    rig.done(id, Verb::Discard, at(70)).await;
}

pub async fn releasing_a_letter_frees_it_from_all(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let list = place(rig, listed("queue:orders", 2), at(10)).await;
    let own = place(rig, HoldOn::Letter(ids[0]), at(20)).await;
    rig.done(ids[0], Verb::Hold, at(30)).await;
    rig.done(ids[0], Verb::Release, at(40)).await;
    assert_eq!((rig.letter(ids[0]).await.hold, holds_of(rig, ids[0]).await), (None, vec![]));
    assert_eq!(rig.letter(ids[1]).await.hold, shown(at(10)), "the other one stays as it is");
    let (list, own) = (record(rig, list).await, record(rig, own).await);
    assert_eq!((list.state, list.letters), (HoldState::Standing, 1));
    assert_eq!((own.state, own.released_by.as_deref()), (HoldState::Released, Some("ana")));
    let released = rig.store().holds(None, true, 10).await.unwrap();
    assert_eq!(released.iter().filter(|hold| hold.state == HoldState::Released).count(), 2);
}

pub async fn a_hold_hinders_removal_and_nothing_else(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    place(rig, HoldOn::Letter(id), at(10)).await;
    let standing = Standing { held: true, ..Standing::live(Status::Pending) };
    for (verb, action) in [(Verb::Discard, Action::Discard), (Verb::Delete, Action::Delete)] {
        let before = rig.dump().await;
        assert_eq!(rig.decide(id, verb, at(20)).await, Decided::Refused(Refused { action, standing }));
        assert_eq!(rig.dump().await, before);
    }
    rig.done(id, Verb::Resolve, at(30)).await;
    rig.done(id, Verb::Reopen, at(40)).await;
    rig.send(id, ClaimStep::Sent, at(50)).await;
    assert_eq!(rig.letter(id).await.status, Status::Reprocessing);
    rig.capture(dying("e1", at(60)), at(61)).await;
    let letter = rig.letter(id).await;
    assert_eq!((letter.status, letter.life, letter.hold), (Status::Pending, 2, shown(at(10))));
}

pub async fn a_hold_ends_by_itself(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let hold = NewHold { until: Some(at(100)), ..new(rig, HoldOn::Letter(id), at(10)) };
    assert_eq!(rig.store().place_hold(hold.clone()).await.unwrap(), HoldPlaced::Placed);
    assert_eq!(rig.store().due_holds(at(99)).await.unwrap(), []);
    assert!(!rig.store().work_hold(hold.id, at(99)).await.unwrap());
    assert_eq!(rig.letter(id).await.hold, shown(at(10)));
    let due = rig.store().due_holds(at(100)).await.unwrap();
    assert_eq!(due, [record(rig, hold.id).await]);
    work(rig, hold.id, at(100)).await;
    assert_eq!((rig.letter(id).await.hold, rig.store().due_holds(at(200)).await.unwrap()), (None, vec![]));
    let told = record(rig, hold.id).await;
    assert_eq!((told.state, told.released_at), (HoldState::Released, Some(at(100))));
    assert_eq!((told.released_by.as_deref(), told.release_reason), (Some("lazaret"), None));
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.action.as_str(), entry.letter, entry.count), ("hold_expired", Some(id), 1));
    assert_eq!((entry.actor.name.as_str(), entry.actor.role.as_str()), ("lazaret", "system"));
    // The same by a word of ours, for whoever looks after them.
    let id = place(rig, HoldOn::Letter(id), at(200)).await;
    assert!(rig.store().release_hold(id, None, entry.actor, at(210)).await.unwrap());
    assert_eq!(rig.store().audit(AuditQuery::newest(1)).await.unwrap()[0].action, "hold_expired");
    work(rig, id, at(210)).await;
}

pub async fn holds_are_on_record(rig: &mut Rig) {
    let letter = rig.create(captured("e1"), at(0)).await;
    let list = place(rig, listed("queue:orders", 1), at(10)).await;
    let standing = place(rig, HoldOn::Standing(filter("queue:orders")), at(20)).await;
    let own = place(rig, HoldOn::Letter(letter), at(30)).await;
    for (id, ms) in [(own, 40), (standing, 50), (list, 60)] {
        end(rig, id, at(ms)).await;
    }
    let log = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
    let told: Vec<_> = log
        .iter()
        .rev()
        .map(|entry| {
            assert_eq!(entry.actor, bea());
            (entry.action.as_str(), entry.at, entry.letter, entry.filter.as_deref(), entry.count)
        })
        .collect();
    let text = Some("queue:orders");
    let expected = [
        ("hold", at(10), None, text, 1),
        ("hold", at(20), None, text, 0),
        ("hold", at(30), Some(letter), None, 1),
        ("release_hold", at(40), Some(letter), None, 1),
        ("release_hold", at(50), None, text, 1),
        ("release_hold", at(60), None, text, 1),
    ];
    assert_eq!(told, expected);
    assert!(log[3..].iter().all(|entry| entry.reason.as_deref() == Some("litigation 12")));
    assert!(log[..3].iter().all(|entry| entry.reason.as_deref() == Some("settled")));
    let events = rig.store().events(0, 100).await.unwrap();
    let by_bea: Vec<_> = events
        .iter()
        .filter(|event| event.actor.as_deref() == Some("bea"))
        .map(|e| e.kind.as_str())
        .collect();
    let held = "dead_letter.held";
    assert_eq!(by_bea, [held, held, held, "dead_letter.released"]);
    let own = format!("{{\"hold\":\"{own}\"}}");
    assert!(events.iter().any(|event| event.detail.as_deref() == Some(own.as_str())));
}

pub async fn holds_are_listed_the_last_placed_first(rig: &mut Rig) {
    let ids = rig.create_many(4, at(0)).await;
    let mut placed = Vec::new();
    for (letter, ms) in ids.iter().zip([30, 10, 20, 20]) {
        placed.push((at(ms), place(rig, HoldOn::Letter(*letter), at(ms)).await));
    }
    placed.sort();
    placed.reverse();
    let placed: Vec<_> = placed.into_iter().map(|(_, id)| id).collect();
    end(rig, placed[1], at(40)).await;
    for (ended, expected) in [(true, placed.clone()), (false, [&placed[..1], &placed[2..]].concat())] {
        for limit in [1, 2, 10] {
            let (mut walked, mut before) = (Vec::new(), None);
            loop {
                let page = rig.store().holds(before, ended, limit).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                walked.extend(page.iter().map(|hold| hold.id));
            }
            assert_eq!(walked, expected, "{limit} at a time");
        }
    }
}

pub async fn an_operation_that_holds_is_one_hold(rig: &mut Rig) {
    let count = DECISION_ROWS_PER_WRITE as i64 + 10;
    let ids = rig.create_many(count, at(0)).await;
    let operation = rig.open_operation(Verb::Hold, "queue:orders", count as u64, at(10)).await;
    rig.freeze(operation).await;
    rig.capture(dying("e0", at(15)), at(16)).await;
    let (done, _) = rig.work(operation, at(20)).await;
    assert_eq!((done.done, done.skipped), (count as u64, 0), "one that died again is held as well");
    let id = HoldId::from_bytes(*operation.bytes());
    let told = record(rig, id).await;
    assert_eq!((told.state, told.standing, told.letters), (HoldState::Standing, false, count as u64));
    assert_eq!((told.filter.as_deref(), told.letter, told.held_at), (Some("queue:orders"), None, at(10)));
    let hold = Some(Hold { at: at(10), by: "ana".into(), reason: "ticket 7".into() });
    assert_eq!(rig.letter(ids[0]).await.hold, hold);
    end(rig, id, at(30)).await;
    assert_eq!(held(rig).await, BTreeSet::new());
    // And one that is released while it is worked off holds no more.
    let operation = rig.open_operation(Verb::Hold, "queue:orders", count as u64, at(40)).await;
    rig.freeze(operation).await;
    rig.store().work(operation, at(50)).await.unwrap();
    end(rig, HoldId::from_bytes(*operation.bytes()), at(60)).await;
    let (done, _) = rig.work(operation, at(70)).await;
    assert_eq!((done.state, done.skipped), (OperationState::Done, 10));
    assert_eq!(rig.store().skipped(operation, 1).await.unwrap()[0].reason, "the hold was released meanwhile");
    assert_eq!(held(rig).await, BTreeSet::new());
}

pub async fn an_operation_that_releases_frees_from_all(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let list = place(rig, listed("queue:orders", 3), at(10)).await;
    let own = place(rig, HoldOn::Letter(ids[0]), at(20)).await;
    let operation = rig.open_operation(Verb::Release, "held:yes", 3, at(30)).await;
    rig.freeze(operation).await;
    assert_eq!(rig.work(operation, at(40)).await.0.done, 3);
    assert_eq!(held(rig).await, BTreeSet::new());
    assert_eq!((record(rig, list).await.letters, record(rig, own).await.state), (0, HoldState::Released));
}

pub async fn an_unexplained_hold_is_a_hold(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let unexplained = Decision { reason: None, ..decision(Verb::Hold, at(10)) };
    assert_eq!(rig.store().decide(id, unexplained).await.unwrap(), Decided::Done);
    let hold = Hold { at: at(10), by: "ana".into(), reason: String::new() };
    assert_eq!(rig.letter(id).await.hold, Some(hold));
    assert_eq!(rig.store().holds_of(id).await.unwrap()[0].reason, "");
}
