//! Cases: a decision by filter freezes its list, decides it in chunks, and never decides more than was asked for.

use std::collections::BTreeSet;

use lazaret_core::letter::Captured;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits::{DECISION_ROWS_PER_WRITE, FREEZE_ROWS_PER_WRITE};
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::{Expected, OperationState, Verb};
use lazaret_store::stats::StatsOf;

use crate::rig::{Rig, ana, at, captured, dying, error};

pub async fn a_frozen_list_is_decided_in_chunks(rig: &mut Rig) {
    let count = FREEZE_ROWS_PER_WRITE + DECISION_ROWS_PER_WRITE + 50;
    rig.create_many(count as i64, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(10)).await;
    let opened = rig.store().operation(id).await.unwrap().unwrap();
    assert_eq!(
        (opened.state, opened.expected.number(), opened.total),
        (OperationState::Freezing, count as u64, 0)
    );
    let (frozen, calls) = rig.freeze(id).await;
    assert_eq!((frozen.state, frozen.total, calls), (OperationState::Working, count as u64, 2));
    assert_eq!(rig.store().stats(StatsOf::All).await.unwrap().by_status["pending"], count as u64);
    let first = rig.store().work(id, at(20)).await.unwrap();
    assert_eq!((first.state, first.done), (OperationState::Working, DECISION_ROWS_PER_WRITE as u64));
    assert_eq!(first.finished_at, None);
    let (done, calls) = rig.work(id, at(30)).await;
    assert_eq!((done.state, done.done, done.skipped), (OperationState::Done, count as u64, 0));
    assert_eq!((calls, done.finished_at), (count.div_ceil(DECISION_ROWS_PER_WRITE) - 1, Some(at(30))));
    assert_eq!(rig.store().stats(StatsOf::All).await.unwrap().by_status["discarded"], count as u64);
    assert_eq!(rig.store().skipped(id, 10).await.unwrap(), []);
    // What is done stays done, however often it is asked for.
    let before = rig.dump().await;
    assert_eq!(rig.store().work(id, at(40)).await.unwrap(), done);
    assert_eq!(rig.store().freeze(id).await.unwrap(), done);
    assert_eq!(rig.dump().await, before);
}

pub async fn another_count_than_expected_decides_nothing(rig: &mut Rig) {
    rig.create_many(5, at(0)).await;
    for expected in [0, 4, 6] {
        let id = rig.open_operation(Verb::Discard, "queue:orders", expected, at(10)).await;
        let (refused, _) = rig.freeze(id).await;
        assert_eq!((refused.state, refused.total), (OperationState::Refused, 5), "expected {expected}");
        assert_eq!(rig.store().work(id, at(20)).await.unwrap(), refused);
        assert!(refused.finished_at.is_some());
        let log = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
        assert!(log.iter().all(|entry| entry.action == "discard.refused"), "{log:?}");
        assert_eq!(log[0].operation, Some(id));
    }
    assert_eq!(rig.find("status:pending").await.len(), 5);
    assert_eq!(rig.store().working_operations(10).await.unwrap(), []);
}

pub async fn up_to_a_bound_whatever_matches_is_decided(rig: &mut Rig) {
    rig.create_many(5, at(0)).await;
    for (bound, state) in
        [(4, OperationState::Refused), (5, OperationState::Working), (1_000_000, OperationState::Working)]
    {
        let expected = Expected::AtMost(bound);
        let id = rig.open_expecting(Verb::Hold, "queue:orders", expected, at(10)).await;
        let (frozen, _) = rig.freeze(id).await;
        assert_eq!((frozen.expected, frozen.state, frozen.total), (expected, state, 5));
        assert_eq!(rig.store().operation(id).await.unwrap(), Some(frozen));
        let done = if state == OperationState::Refused { 0 } else { 5 };
        assert_eq!(rig.work(id, at(20)).await.0.done, done);
        let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
        // On record is what was found, and not the bound.
        assert_eq!((entry.operation, entry.count, entry.actor), (Some(id), 5, ana()));
        let refused = state == OperationState::Refused;
        assert_eq!(entry.action, if refused { "hold.refused" } else { "hold" });
    }
    let id = rig.open_expecting(Verb::Hold, "queue:nowhere", Expected::AtMost(7), at(10)).await;
    assert_eq!(rig.freeze(id).await.0.state, OperationState::Done);
    assert_eq!(rig.store().audit(AuditQuery::newest(1)).await.unwrap()[0].count, 0);
}

pub async fn a_long_list_that_is_refused_is_dropped_part_by_part(rig: &mut Rig) {
    let count = FREEZE_ROWS_PER_WRITE as i64 * 2 + 500;
    rig.create_many(count, at(0)).await;
    for expected in [count as u64 + 1, count as u64 - 1] {
        let id = rig.open_operation(Verb::Discard, "queue:orders", expected, at(10)).await;
        for _ in 0..2 {
            assert_eq!(rig.store().freeze(id).await.unwrap().state, OperationState::Freezing);
        }
        let changes = rig.store().changes();
        let commits = *changes.borrow();
        let refused = rig.store().freeze(id).await.unwrap();
        assert_eq!((refused.state, refused.total), (OperationState::Refused, count as u64));
        let parts = *changes.borrow() - commits;
        assert!(parts > 3, "one commit to refuse it and one for each part, not {parts}");
        assert_eq!(listed(rig).await, 0);
        assert_eq!(rig.store().operation(id).await.unwrap(), Some(refused));
    }
    // The same of a list whose caller went away while it was frozen.
    let id = rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(10)).await;
    for _ in 0..2 {
        rig.store().freeze(id).await.unwrap();
    }
    let changes = rig.store().changes();
    let commits = *changes.borrow();
    assert_eq!(rig.store().drop_unfrozen(at(20)).await.unwrap(), 1);
    assert!(*changes.borrow() - commits > 2);
    assert_eq!(listed(rig).await, 0);
}

/// Rows of frozen lists.
async fn listed(rig: &Rig) -> usize {
    let dump = rig.dump().await;
    let rows = dump.lines().skip_while(|line| *line != "selections").skip(1);
    rows.take_while(|line| line.starts_with(' ')).count()
}

pub async fn too_many_letters_are_refused_before_all_are_frozen(rig: &mut Rig) {
    rig.create_many(FREEZE_ROWS_PER_WRITE as i64 * 2 + 1, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:orders", 10, at(10)).await;
    let (refused, calls) = rig.freeze(id).await;
    assert_eq!((refused.state, calls), (OperationState::Refused, 1));
}

pub async fn nothing_expected_and_nothing_found_is_done(rig: &mut Rig) {
    rig.create(captured("e1"), at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:nowhere", 0, at(10)).await;
    let (done, calls) = rig.freeze(id).await;
    assert_eq!((done.state, done.total, calls), (OperationState::Done, 0, 1));
    assert!(done.finished_at.is_some());
}

pub async fn letters_captured_later_do_not_join(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:orders", 3, at(10)).await;
    // It died long ago; that it is told only now is what keeps it out.
    let late = rig.create(dying("late", at(-1_000)), at(11)).await;
    assert_eq!(rig.freeze(id).await.0.total, 3);
    let later = rig.create(dying("later", at(-1_000)), at(12)).await;
    assert_eq!(rig.work(id, at(20)).await.0.done, 3);
    let discarded: BTreeSet<_> = rig.find("status:discarded").await.into_iter().collect();
    assert_eq!(discarded, ids.into_iter().collect());
    assert_eq!(rig.find("status:pending").await, [later, late]);
}

pub async fn a_letter_that_moved_meanwhile_is_skipped_with_the_reason(rig: &mut Rig) {
    let ids = rig.create_many(4, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "status:pending", 4, at(10)).await;
    rig.freeze(id).await;
    rig.done(ids[1], Verb::Resolve, at(11)).await;
    rig.done(ids[2], Verb::Hold, at(12)).await;
    let (done, _) = rig.work(id, at(20)).await;
    assert_eq!((done.state, done.done, done.skipped), (OperationState::Done, 2, 2));
    let skipped: Vec<_> = rig
        .store()
        .skipped(id, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|skipped| (skipped.letter, skipped.reason))
        .collect();
    assert_eq!(
        skipped,
        [
            (ids[1], "cannot discard a letter that is resolved".to_owned()),
            (ids[2], "cannot discard a letter that is pending and on hold".to_owned()),
        ]
    );
    assert_eq!(rig.store().skipped(id, 1).await.unwrap().len(), 1);
    assert_eq!(rig.letter(ids[1]).await.status, Status::Resolved);
    assert_eq!(rig.letter(ids[2]).await.status, Status::Pending);
}

pub async fn a_letter_that_died_meanwhile_is_skipped(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "status:pending", 2, at(10)).await;
    rig.freeze(id).await;
    rig.capture(dying("e0", at(15)), at(16)).await;
    let (done, _) = rig.work(id, at(20)).await;
    assert_eq!((done.done, done.skipped), (1, 1));
    assert_eq!(rig.store().skipped(id, 10).await.unwrap()[0].letter, ids[0]);
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
}

pub async fn a_letter_that_dies_between_two_chunks_is_listed_once(rig: &mut Rig) {
    let count = FREEZE_ROWS_PER_WRITE as i64 + 10;
    let ids = rig.create_many(count, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(10)).await;
    assert_eq!(rig.store().freeze(id).await.unwrap().state, OperationState::Freezing);
    // Its death moves it behind the chunk that has it already.
    rig.capture(dying("e0", at(15)), at(16)).await;
    let (frozen, _) = rig.freeze(id).await;
    assert_eq!((frozen.state, frozen.total), (OperationState::Working, count as u64));
    let (done, _) = rig.work(id, at(20)).await;
    assert_eq!((done.done, done.skipped), (count as u64 - 1, 1));
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
}

pub async fn relative_times_are_counted_from_the_opening(rig: &mut Rig) {
    let (old, new) = (dying("old", at(-100_000)), dying("new", at(-10_000)));
    let old = rig.create(old, at(0)).await;
    let new = rig.create(new, at(0)).await;
    let id = rig.open_operation(Verb::Resolve, "age:>1m", 1, at(10)).await;
    rig.freeze(id).await;
    // Much later both are old, but only one was when the list was asked for.
    rig.work(id, at(9_000_000)).await;
    assert_eq!(rig.letter(old).await.status, Status::Resolved);
    assert_eq!(rig.letter(new).await.status, Status::Pending);
}

pub async fn words_and_values_select_together(rig: &mut Rig) {
    let acme = |event: &str, message: &str| Captured {
        tenant: Some("acme".into()),
        error: error(message),
        ..captured(event)
    };
    let wanted = rig.create(acme("e1", "disk on fire"), at(0)).await;
    rig.create(acme("e2", "connection refused"), at(0)).await;
    rig.create(Captured { error: error("disk on fire"), ..captured("e3") }, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "tenant:acme fire", 1, at(10)).await;
    assert_eq!(rig.freeze(id).await.0.state, OperationState::Working);
    rig.work(id, at(20)).await;
    assert_eq!(rig.find("status:discarded").await, [wanted]);
}

pub async fn an_operation_is_on_record(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let id = rig.open_operation(Verb::Resolve, "queue:orders status:pending", 2, at(10)).await;
    rig.freeze(id).await;
    let (operation, _) = rig.work(id, at(20)).await;
    assert_eq!((operation.verb, operation.actor.as_str()), (Verb::Resolve, "ana"));
    assert_eq!((operation.reason.as_deref(), operation.opened_at), (Some("ticket 7"), at(10)));
    assert_eq!(operation.filter, "queue:orders status:pending");
    let log = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
    let [entry] = log.as_slice() else { panic!("one entry for the whole: {log:?}") };
    assert_eq!((entry.operation, entry.letter, entry.count), (Some(id), None, 2));
    assert_eq!((&entry.actor, entry.action.as_str(), entry.at), (&ana(), "resolve", at(10)));
    assert_eq!(entry.filter.as_deref(), Some("queue:orders status:pending"));
    let events = rig.store().events(0, 100).await.unwrap();
    let resolved: Vec<_> = events.iter().filter(|event| event.kind == "dead_letter.resolved").collect();
    assert_eq!(resolved.iter().map(|event| event.letter.unwrap()).collect::<Vec<_>>(), ids);
    assert!(resolved.iter().all(|event| event.operation == Some(id) && event.at == at(20)));
    let resolution = rig.letter(ids[0]).await.resolution.unwrap();
    assert_eq!(
        (resolution.by.as_str(), resolution.notes.as_deref(), resolution.at),
        ("ana", Some("ticket 7"), at(20))
    );
}

pub async fn an_operation_whose_caller_went_away_is_dropped(rig: &mut Rig) {
    let count = FREEZE_ROWS_PER_WRITE as i64 + 1;
    rig.create_many(count, at(0)).await;
    let left = rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(10)).await;
    rig.store().freeze(left).await.unwrap();
    let young = rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(20)).await;
    assert_eq!(rig.store().drop_unfrozen(at(20)).await.unwrap(), 1);
    assert_eq!(rig.store().drop_unfrozen(at(20)).await.unwrap(), 0);
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.operation, entry.action.as_str(), entry.actor), (Some(left), "discard.refused", ana()));
    let dropped = rig.store().operation(left).await.unwrap().unwrap();
    assert_eq!((dropped.state, dropped.finished_at.is_some()), (OperationState::Refused, true));
    assert_eq!(rig.store().freeze(left).await.unwrap(), dropped);
    assert_eq!(rig.store().work(left, at(30)).await.unwrap(), dropped);
    assert_eq!(rig.find("status:pending").await.len() as i64, count);
    assert_eq!(rig.freeze(young).await.0.state, OperationState::Working);
    assert_eq!(rig.store().drop_unfrozen(at(99)).await.unwrap(), 0);
    assert_eq!(listed(rig).await as i64, count, "nothing is left of the dropped list");
}

pub async fn operations_wait_in_the_order_they_were_opened(rig: &mut Rig) {
    rig.create_many(1, at(0)).await;
    let mut ids = Vec::new();
    for ms in [30, 10, 20] {
        let id = rig.open_operation(Verb::Hold, "queue:orders", 1, at(ms)).await;
        assert!(!rig.store().working_operations(10).await.unwrap().contains(&id), "it is not frozen yet");
        rig.freeze(id).await;
        ids.push(id);
    }
    assert_eq!(rig.store().working_operations(10).await.unwrap(), [ids[1], ids[2], ids[0]]);
    assert_eq!(rig.store().working_operations(2).await.unwrap(), [ids[1], ids[2]]);
    rig.work(ids[1], at(40)).await;
    assert_eq!(rig.store().working_operations(10).await.unwrap(), [ids[2], ids[0]]);
}

pub async fn a_frozen_operation_goes_on_after_a_restart(rig: &mut Rig) {
    let count = DECISION_ROWS_PER_WRITE as i64 + 10;
    rig.create_many(count, at(0)).await;
    let id = rig.open_operation(Verb::Resolve, "queue:orders", count as u64, at(10)).await;
    rig.freeze(id).await;
    rig.store().work(id, at(20)).await.unwrap();
    rig.reopen().await;
    assert_eq!(rig.store().working_operations(10).await.unwrap(), [id]);
    let (done, calls) = rig.work(id, at(30)).await;
    assert_eq!((done.state, done.done, calls), (OperationState::Done, count as u64, 1));
}
