//! Cases: what a person decides on one letter is done once, with its record, or refused without a trace.

use lazaret_core::id::LetterId;
use lazaret_core::letter::{Hold, Resolution, Strategy};
use lazaret_core::lifecycle::{Refused, Standing, Status};
use lazaret_store::audit::AuditQuery;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{Decided, Decision, Verb};
use lazaret_store::stats::{Stats, StatsOf};

use crate::rig::{Rig, ana, at, captured, decision, dying};

pub async fn a_resolved_letter_says_by_whom_and_why(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Resolve, at(10)).await;
    let letter = rig.letter(id).await;
    let expected = Resolution {
        at: at(10),
        strategy: Strategy::ManualResolution,
        by: "ana".into(),
        notes: Some("ticket 7".into()),
    };
    assert_eq!((letter.status, letter.resolution), (Status::Resolved, Some(expected)));
    assert_eq!((letter.updated_at, letter.retention_at, letter.life), (at(10), at(10), 1));
}

pub async fn a_discarded_letter_says_by_whom_and_why(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let odd = "'; drop table letters; -- \u{202e}💥\n";
    let unexplained = Decision { reason: None, ..decision(Verb::Discard, at(10)) };
    let by_odd = Decision { actor: lazaret_store::audit::Actor { name: odd.into(), ..ana() }, ..unexplained };
    assert_eq!(rig.store().decide(id, by_odd).await.unwrap(), Decided::Done);
    let letter = rig.letter(id).await;
    let expected = Resolution { at: at(10), strategy: Strategy::Discard, by: odd.into(), notes: None };
    assert_eq!((letter.status, letter.resolution), (Status::Discarded, Some(expected)));
}

pub async fn a_reopened_letter_waits_as_before(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let before = rig.letter(id).await;
    for verb in [Verb::Resolve, Verb::Discard] {
        rig.done(id, verb, at(10)).await;
        rig.done(id, Verb::Reopen, at(20)).await;
        let after = rig.letter(id).await;
        assert_eq!(after, lazaret_core::letter::Letter { updated_at: at(20), ..before.clone() });
    }
}

pub async fn a_held_letter_cannot_be_discarded_until_released(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Hold, at(10)).await;
    let hold = Hold { at: at(10), by: "ana".into(), reason: "ticket 7".into() };
    assert_eq!(rig.letter(id).await.hold, Some(hold));
    let standing = Standing { held: true, ..Standing::live(Status::Pending) };
    let refused = Refused { action: Verb::Discard.action(), standing };
    assert_eq!(rig.decide(id, Verb::Discard, at(20)).await, Decided::Refused(refused));
    assert_eq!(rig.find("held:yes").await, [id]);
    rig.done(id, Verb::Resolve, at(30)).await;
    rig.done(id, Verb::Reopen, at(40)).await;
    assert!(rig.letter(id).await.hold.is_some(), "neither takes the hold away");
    rig.done(id, Verb::Release, at(50)).await;
    assert_eq!(rig.letter(id).await.hold, None);
    assert_eq!(rig.find("held:yes").await, []);
    rig.done(id, Verb::Discard, at(60)).await;
}

pub async fn a_decision_is_on_record(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let order = [Verb::Hold, Verb::Release, Verb::Resolve, Verb::Reopen, Verb::Discard];
    for (verb, ms) in order.into_iter().zip(1..) {
        rig.done(id, verb, at(ms)).await;
    }
    let log = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
    let mut events = rig.store().events(0, 100).await.unwrap();
    events.retain(|event| event.letter.is_some());
    assert_eq!((log.len(), events.len()), (5, 6));
    for (((verb, ms), entry), event) in order.into_iter().zip(1..).zip(log.iter().rev()).zip(&events[1..]) {
        assert_eq!((entry.at, &entry.actor, entry.action.as_str()), (at(ms), &ana(), verb.name()));
        assert_eq!((entry.letter, entry.operation, entry.count), (Some(id), None, 1));
        assert_eq!((entry.reason.as_deref(), entry.filter.as_deref()), (Some("ticket 7"), None));
        assert_eq!((event.kind.as_str(), event.letter, event.at), (verb.event(), Some(id), at(ms)));
        assert_eq!((event.actor.as_deref(), event.operation), (Some("ana"), None));
    }
    let told = rig.history(id).await.decisions;
    assert_eq!(told.iter().map(|told| told.action.as_str()).collect::<Vec<_>>(), order.map(Verb::name));
    assert!(told.iter().all(|told| told.actor == "ana" && told.reason.as_deref() == Some("ticket 7")));
}

/// A letter in each state, held and not.
async fn one_of_each(rig: &Rig) -> Vec<(LetterId, Standing)> {
    let mut letters = Vec::new();
    for status in Status::ALL {
        for held in [false, true] {
            let id = rig.create(captured(&format!("{status} {held}")), at(0)).await;
            match status {
                Status::Pending => {}
                Status::Reprocessing => drop(rig.send(id, ClaimStep::Sent, at(5)).await),
                Status::Resolved => rig.done(id, Verb::Resolve, at(5)).await,
                Status::Discarded => rig.done(id, Verb::Discard, at(5)).await,
            }
            if held {
                rig.done(id, Verb::Hold, at(6)).await;
            }
            letters.push((id, Standing { held, ..Standing::live(status) }));
        }
    }
    letters
}

pub async fn a_refused_decision_says_how_the_letter_stands_and_leaves_no_trace(rig: &mut Rig) {
    let letters = one_of_each(rig).await;
    let before = rig.dump().await;
    let mut refusals = 0;
    for (id, standing) in letters {
        for verb in Verb::ALL {
            if let Err(refused) = standing.after(verb.action()) {
                assert_eq!(rig.decide(id, verb, at(10)).await, Decided::Refused(refused));
                refusals += 1;
            }
        }
    }
    // A held pending letter cannot be discarded either, and the four free ones have nothing to release.
    let within = 2 * (1 + 3 + 2 + 2) + 1 + 4;
    // What does not wait cannot go out, what is out or held cannot go, and what is here cannot come back.
    assert_eq!(refusals, within + 2 * 3 + (2 + 3) + 8);
    assert_eq!(rig.dump().await, before);
}

pub async fn a_decision_on_a_letter_that_stands_otherwise_than_it_did_is_refused(rig: &mut Rig) {
    let (id, from) = (rig.create(captured("e1"), at(0)).await, Some(Status::Pending));
    rig.done(id, Verb::Resolve, at(1)).await;
    let before = rig.dump().await;
    let delete = Decision { from, ..decision(Verb::Delete, at(2)) };
    let refused = Refused { action: Verb::Delete.action(), standing: Standing::live(Status::Resolved) };
    assert_eq!(rig.store().decide(id, delete.clone()).await.unwrap(), Decided::Refused(refused));
    assert_eq!(rig.dump().await, before);
    rig.done(id, Verb::Reopen, at(3)).await;
    assert_eq!(rig.store().decide(id, delete).await.unwrap(), Decided::Done);
}

pub async fn a_decision_on_an_unknown_letter_leaves_no_trace(rig: &mut Rig) {
    rig.create(captured("e1"), at(0)).await;
    let before = rig.dump().await;
    for verb in Verb::ALL {
        assert_eq!(rig.decide(LetterId::mint(at(0), [255; 10]), verb, at(10)).await, Decided::Unknown);
    }
    assert_eq!(rig.dump().await, before);
}

pub async fn a_decision_moves_the_counters(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let moves = [
        (ids[0], Verb::Resolve, [2, 0, 1, 0]),
        (ids[1], Verb::Discard, [1, 0, 1, 1]),
        (ids[2], Verb::Hold, [1, 0, 1, 1]),
        (ids[0], Verb::Reopen, [2, 0, 0, 1]),
        (ids[1], Verb::Reopen, [3, 0, 0, 0]),
        (ids[2], Verb::Release, [3, 0, 0, 0]),
    ];
    for (id, verb, expected) in moves {
        rig.done(id, verb, at(10)).await;
        let Stats { by_status, by_queue, total, .. } = rig.store().stats(StatsOf::All).await.unwrap();
        assert_eq!(Status::ALL.map(|status| by_status[status.name()]), expected, "after {}", verb.name());
        assert_eq!((total, by_queue), (3, vec![("orders".to_owned(), 3)]));
    }
}

pub async fn two_people_discard_and_one_is_refused(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let (one, two) = tokio::join!(
        rig.store().decide(id, decision(Verb::Discard, at(1))),
        rig.store().decide(id, decision(Verb::Discard, at(2))),
    );
    let refused = Decided::Refused(Refused {
        action: Verb::Discard.action(),
        standing: Standing::live(Status::Discarded),
    });
    let answers = [one.unwrap(), two.unwrap()];
    assert!(answers.contains(&Decided::Done) && answers.contains(&refused), "{answers:?}");
    assert_eq!(rig.store().audit(AuditQuery::newest(10)).await.unwrap().len(), 1);
}
