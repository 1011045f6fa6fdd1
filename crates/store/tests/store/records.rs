//! Cases: events, audit log, tokens, wake-ups, readiness, reset and restart.

use lazaret_core::filter::Filter;
use lazaret_core::id::{IncidentId, RedriveId, TokenId};
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::Status;
use lazaret_store::audit::AuditQuery;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{OperationState, Verb};
use lazaret_store::redrive::SendOutcome;
use lazaret_store::stats::StatsOf;
use lazaret_store::token::StoredToken;

use crate::books;
use crate::rig::{Rig, ana, at, captured, decision, dying, is_closed};

pub async fn events_have_positions_in_commit_order(rig: &mut Rig) {
    let ids = rig.create_many(5, at(0)).await;
    let mut seen = rig.store().events(0, 100).await.unwrap();
    assert_eq!(seen.len(), 6);
    // The times of what follows go backwards; the positions do not.
    rig.done(ids[0], Verb::Resolve, at(-50)).await;
    rig.done(ids[1], Verb::Resolve, at(-60)).await;
    let next = rig.store().events(seen.last().unwrap().position, 100).await.unwrap();
    assert_eq!(next.iter().map(|event| event.letter).collect::<Vec<_>>(), [Some(ids[0]), Some(ids[1])]);
    seen.extend(next);
    assert_eq!(seen[1].about.as_ref().map(|letter| letter.id), Some(ids[0]));
    let mut walked = Vec::new();
    let mut after = 0;
    loop {
        let page = rig.store().events(after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.position;
        walked.extend(page);
    }
    // The letter of an event is shown as it stands now, which is not how it stood then.
    for event in walked.iter_mut().chain(&mut seen) {
        event.about = None;
    }
    assert_eq!(walked, seen);
    assert!(rig.store().events(u64::MAX, 3).await.unwrap().is_empty());
    assert!(seen.iter().all(|event| event.id.at() == event.at));
}

pub async fn the_audit_log_is_read_backwards_in_pages(rig: &mut Rig) {
    let ids = rig.create_many(7, at(0)).await;
    for (id, ms) in ids.iter().zip(1..) {
        rig.done(*id, Verb::Hold, at(ms)).await;
    }
    let mut walked = Vec::new();
    let mut before = None;
    loop {
        let page = rig.store().audit(AuditQuery { before, ..AuditQuery::newest(3) }).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        before = Some(last.position);
        walked.extend(page);
    }
    assert_eq!(walked.iter().map(|entry| entry.letter.unwrap()).collect::<Vec<_>>(), {
        let mut newest_first = ids;
        newest_first.reverse();
        newest_first
    });
    assert!(walked.is_sorted_by(|one, next| one.position > next.position));
    let all = AuditQuery { before: Some(u64::MAX), ..AuditQuery::newest(100) };
    assert_eq!(rig.store().audit(all).await.unwrap(), walked);
}

pub async fn the_audit_log_is_asked_for_one_thing(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    for (id, ms) in ids.iter().zip(1..) {
        rig.done(*id, Verb::Hold, at(ms)).await;
    }
    rig.done(ids[1], Verb::Release, at(9)).await;
    let all = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
    let asked = |query: AuditQuery| rig.store().audit(query);
    let of_letter = AuditQuery { letter: Some(ids[1]), ..AuditQuery::newest(10) };
    let found = asked(of_letter.clone()).await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(), ["release", "hold"]);
    let older = AuditQuery { before: Some(found[0].position), ..of_letter.clone() };
    assert_eq!(asked(older).await.unwrap(), found[1..]);
    let both = AuditQuery { action: Some("hold".into()), ..of_letter };
    assert_eq!(asked(both).await.unwrap(), found[1..]);
    let by = AuditQuery { actor: Some(all[0].actor.name.clone()), ..AuditQuery::newest(10) };
    assert_eq!(asked(by).await.unwrap(), all);
    for nobody in ["", "nobody", "a\0b", "%"] {
        let by = AuditQuery { actor: Some(nobody.into()), ..AuditQuery::newest(10) };
        assert_eq!(asked(by).await.unwrap(), [], "{nobody:?}");
    }
    for stranger in [
        AuditQuery { incident: Some(IncidentId::from_bytes([7; 16])), ..AuditQuery::newest(10) },
        AuditQuery { redrive: Some(RedriveId::from_bytes([7; 16])), ..AuditQuery::newest(10) },
    ] {
        assert_eq!(asked(stranger).await.unwrap(), []);
    }
}

fn token(n: u8, created_ms: i64) -> StoredToken {
    StoredToken {
        id: TokenId::mint(at(created_ms), [n; 10]),
        hash: [n; 32],
        name: format!("worker {n}"),
        role: "producer".into(),
        created_at: at(created_ms),
        created_by: "ana".into(),
        revoked_at: None,
    }
}

pub async fn a_token_is_added_and_revoked_once(rig: &mut Rig) {
    let (one, two) = (token(1, 10), token(2, 5));
    rig.store().add_token(one.clone(), ana()).await.unwrap();
    rig.store().add_token(two.clone(), ana()).await.unwrap();
    assert_eq!(rig.store().tokens().await.unwrap(), [two.clone(), one.clone()]);
    assert!(rig.store().add_token(one.clone(), ana()).await.is_err(), "an id is given once");
    let same_hash = StoredToken { hash: one.hash, ..token(3, 7) };
    assert!(rig.store().add_token(same_hash, ana()).await.is_err(), "a hash names one token");
    assert!(rig.store().revoke_token(one.id, ana(), at(20)).await.unwrap());
    assert!(!rig.store().revoke_token(one.id, ana(), at(30)).await.unwrap());
    assert!(!rig.store().revoke_token(token(9, 0).id, ana(), at(30)).await.unwrap());
    assert_eq!(rig.store().tokens().await.unwrap(), [two, StoredToken { revoked_at: Some(at(20)), ..one }]);
    let log = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
    let log: Vec<_> =
        log.iter().rev().map(|entry| (entry.action.as_str(), entry.reason.as_deref(), entry.at)).collect();
    assert_eq!(
        log,
        [
            ("token_created", Some("worker 1 (producer)"), at(10)),
            ("token_created", Some("worker 2 (producer)"), at(5)),
            ("token_revoked", Some("worker 1"), at(20)),
        ]
    );
}

pub async fn a_commit_wakes_those_who_wait(rig: &mut Rig) {
    let mut changes = rig.store().changes();
    changes.mark_unchanged();
    assert!(!changes.has_changed().unwrap());
    rig.create(captured("e1"), at(0)).await;
    changes.changed().await.unwrap();
    assert!(!changes.has_changed().unwrap());
    assert!(rig.store().lead().await.unwrap());
}

pub async fn a_store_that_can_write_is_ready_and_leaves_no_trace(rig: &mut Rig) {
    rig.create(captured("e1"), at(0)).await;
    let before = rig.dump().await;
    rig.store().ready().await.unwrap();
    assert_eq!(rig.dump().await, before);
}

pub async fn a_reset_forgets_all_but_the_tokens(rig: &mut Rig) {
    rig.store().add_token(token(1, 0), ana()).await.unwrap();
    let ids = rig.create_many(3, at(0)).await;
    rig.done(ids[0], Verb::Hold, at(1)).await;
    rig.send(ids[1], ClaimStep::Sent, at(2)).await;
    let operation = rig.open_operation(Verb::Resolve, "queue:orders", 3, at(3)).await;
    rig.freeze(operation).await;
    let position = rig.store().events(0, 100).await.unwrap().last().unwrap().position;
    rig.store().reset().await.unwrap();
    assert_eq!(rig.find("").await, []);
    assert_eq!(rig.find("connection").await, []);
    assert_eq!(rig.store().operation(operation).await.unwrap(), None);
    assert_eq!(rig.store().audit(AuditQuery::newest(10)).await.unwrap(), []);
    assert_eq!(rig.store().tokens().await.unwrap(), [token(1, 0)]);
    assert_eq!(rig.store().stats(StatsOf::All).await.unwrap().total, 0);
    // What was there before can come again, and a reader of events goes on where it was.
    assert_eq!(rig.capture(dying("e0", at(5)), at(6)).await.outcome, Outcome::Created);
    let next = rig.store().events(position, 100).await.unwrap();
    assert_eq!(next.len(), 2);
}

pub async fn a_reset_among_reports_keeps_the_books_right(rig: &mut Rig) {
    for round in 0..10 {
        let before = vec![rig.admit(captured(&format!("before {round}")), at(0))];
        let after = vec![rig.admit(captured(&format!("after {round}")), at(0))];
        // Started together they are likely to share a commit.
        let (one, reset, two) =
            tokio::join!(rig.store().insert(before), rig.store().reset(), rig.store().insert(after));
        one.unwrap();
        reset.unwrap();
        two.unwrap();
        books::agree(rig.store()).await;
    }
}

pub async fn statistics_count_by_status(rig: &mut Rig) {
    let ids = rig.create_many(4, at(0)).await;
    rig.create(Captured { queue: "late".into(), ..dying("x", at(-900)) }, at(0)).await;
    rig.done(ids[0], Verb::Discard, at(1)).await;
    let all = rig.store().stats(StatsOf::All).await.unwrap();
    assert_eq!((all.total, all.by_queue), (5, vec![("orders".into(), 4), ("late".into(), 1)]));
    assert_eq!((all.oldest_at, all.newest_at), (Some(at(-900)), Some(at(-1))));
    let discarded = rig.store().stats(StatsOf::Only(Status::Discarded)).await.unwrap();
    assert_eq!((discarded.total, discarded.by_queue), (1, vec![("orders".into(), 1)]));
    assert_eq!((discarded.oldest_at, discarded.newest_at), (Some(at(-4)), Some(at(-4))));
    let none = rig.store().stats(StatsOf::Only(Status::Reprocessing)).await.unwrap();
    assert_eq!((none.total, none.oldest_at, none.by_type.len()), (0, None, 0));
}

pub async fn a_reopened_store_has_kept_everything(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    rig.capture(dying("e0", at(5)), at(6)).await;
    rig.done(ids[1], Verb::Hold, at(7)).await;
    let (run, fence) = rig.send_fenced(ids[2], ClaimStep::Sending, at(8)).await;
    let operation = rig.open_operation(Verb::Resolve, "held:yes", 1, at(9)).await;
    rig.freeze(operation).await;
    rig.store().add_token(token(1, 10), ana()).await.unwrap();
    let (before, events) = (rig.dump().await, rig.store().events(0, 100).await.unwrap());
    rig.reopen().await;
    assert_eq!(rig.dump().await, before);
    assert_eq!(rig.store().events(0, 100).await.unwrap(), events);
    assert_eq!(rig.capture(dying("e0", at(5)), at(10)).await.outcome, Outcome::Duplicate);
    assert!(rig.settle(run, &fence, SendOutcome::Sent { handle: None }, at(11)).await);
    assert_eq!(rig.work(operation, at(12)).await.0.state, OperationState::Done);
    let next = rig.store().events(events.last().unwrap().position, 100).await.unwrap();
    assert_eq!(next.len(), 1);
}

pub async fn a_closed_store_says_that_it_is_closed(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    // What was accepted before the close is finished.
    let accepted = rig.admit(captured("e2"), at(1));
    let (inserted, closed) = tokio::join!(rig.store().insert(vec![accepted]), rig.store().close());
    assert_eq!(inserted.unwrap()[0].outcome, Outcome::Created);
    closed.unwrap();
    assert!(is_closed(rig.store().insert(vec![rig.admit(captured("e3"), at(2))]).await));
    assert!(is_closed(rig.store().decide(id, decision(Verb::Hold, at(2))).await));
    assert!(is_closed(rig.store().history(id).await));
    assert!(is_closed(rig.store().count(Filter::default(), at(2)).await));
    rig.store().close().await.unwrap();
    rig.reopen().await;
    assert_eq!(rig.find("").await.len(), 2);
}
