//! Cases: a deleted letter is out of everything at once, and comes back as it was while its content is kept.

use std::collections::BTreeSet;

use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::incident::IncidentState;
use lazaret_core::letter::{Captured, Letter, Outcome};
use lazaret_core::lifecycle::{Action, Place, Refused, Standing, Status};
use lazaret_core::limits::{CONTENT_BYTES_DROPPED_PER_WRITE, DECISION_ROWS_PER_WRITE, RETENTION_FLOOR_MS};
use lazaret_store::archive::{ArchiveQuery, Archived};
use lazaret_store::audit::AuditQuery;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{Decided, Decision, OperationState, Verb};
use lazaret_store::page::{LetterHistory, Total};
use lazaret_store::series::{SeriesOf, SeriesQuery, Step};
use lazaret_store::stats::LedgerBy;

use crate::rig::{Rig, at, captured, decision, dying, envelope, error, failed, mark, noise};
use crate::shelf::{ARCHIVE, Shelf, archived, batch, prunable};

/// A letter with two lives, several attempts and a body of its own.
async fn lived(rig: &Rig) -> LetterId {
    let first = Captured {
        attempts: vec![failed(at(-3_000), "reset"), failed(at(-1_000), "connection refused")],
        envelope: envelope(&[0, 255, 10, 0]),
        reported: Some(r#"{"status":"x"}"#.into()),
        aggregate: Some("order-7".into()),
        ..dying("lived", at(-1_000))
    };
    let id = rig.create(first, at(0)).await;
    rig.send(id, ClaimStep::Sent, at(100)).await;
    let again = Captured {
        envelope: envelope(br#"{"kind":"quince"}"#),
        error: error("disk on fire"),
        mark: mark(id, 1, rig.run_id()),
        ..dying("lived", at(500))
    };
    assert_eq!(rig.capture(again, at(600)).await.outcome, Outcome::Relapse);
    id
}

async fn trash(rig: &Rig) -> Vec<Archived> {
    archived(rig, Place::Deleted).await
}

async fn in_trash(rig: &Rig) -> Vec<LetterId> {
    trash(rig).await.into_iter().map(|kept| kept.letter.id).collect()
}

async fn deleted(rig: &Rig) -> u64 {
    rig.store().ledger(LedgerBy::Counters).await.unwrap().deleted
}

fn gone(action: Action, status: Status, content_kept: bool) -> Decided {
    let standing = Standing { status, place: Place::Deleted, held: false, content_kept };
    Decided::Refused(Refused { action, standing })
}

pub async fn a_deleted_letter_is_in_the_trash_and_nowhere_else(rig: &mut Rig) {
    let id = lived(rig).await;
    let other = rig.create(captured("other"), at(700)).await;
    let before = rig.letter(id).await;
    rig.done(id, Verb::Delete, at(1_000)).await;
    for filter in ["", "status:pending", "fire", "body:quince", "aggregate:order-7", "event:lived"] {
        assert!(!rig.find(filter).await.contains(&id), "{filter}");
    }
    assert_eq!(rig.find("").await, [other]);
    let pending = Filter::from_text("status:pending").unwrap();
    assert_eq!(rig.store().count(pending, at(2_000)).await.unwrap(), Total::Exact(1));
    assert!(rig.store().history(id).await.unwrap().is_none());
    assert!(rig.store().original(id, None).await.unwrap().is_none());
    assert_eq!(rig.store().export(vec![id]).await.unwrap().len(), 0);
    let kept = trash(rig).await;
    let expected = Archived {
        entry: kept[0].entry,
        letter: Letter { place: Place::Deleted, ..before.clone() },
        removed_at: at(1_000),
        removed_by: "ana".into(),
        reason: "deleted".into(),
        file: None,
    };
    assert_eq!((kept, deleted(rig).await), (vec![expected], 1));
    let events = rig.store().events(0, 100).await.unwrap();
    let told = events.iter().find(|event| event.kind == "dead_letter.deleted").unwrap();
    assert_eq!((told.letter, told.actor.as_deref(), told.at), (Some(id), Some("ana"), at(1_000)));
    assert_eq!((told.incident, told.job), (Some(before.incident), None));
    let about = told.about.as_deref().unwrap();
    assert_eq!((about.id, about.place, about.queue.as_str()), (id, Place::Deleted, "orders"));
    let entry = &rig.store().audit(AuditQuery::newest(1)).await.unwrap()[0];
    assert_eq!((entry.action.as_str(), entry.letter, entry.count), ("delete", Some(id), 1));
}

pub async fn a_restored_letter_is_as_it_was(rig: &mut Rig) {
    for (settle, status) in [
        (None, Status::Pending),
        (Some(Verb::Resolve), Status::Resolved),
        (Some(Verb::Discard), Status::Discarded),
    ] {
        rig.store().reset().await.unwrap();
        let id = lived(rig).await;
        if let Some(verb) = settle {
            rig.done(id, verb, at(700)).await;
        }
        let before = rig.history(id).await;
        let bodies = [rig.store().original(id, Some(1)).await, rig.store().original(id, None).await]
            .map(|found| found.unwrap().unwrap().envelope.body().clone());
        rig.done(id, Verb::Delete, at(1_000)).await;
        rig.reopen().await;
        rig.done(id, Verb::Restore, at(2_000)).await;
        let LetterHistory { letter, lives, attempts, decisions } = rig.history(id).await;
        assert_eq!((letter.status, letter.place), (status, Place::Live));
        assert_eq!((letter.updated_at, letter.retention_at), (at(2_000), at(2_000)));
        let mut same = letter;
        (same.updated_at, same.retention_at) = (before.letter.updated_at, before.letter.retention_at);
        assert_eq!(same, before.letter);
        assert_eq!(format!("{lives:?} {attempts:?}"), format!("{:?} {:?}", before.lives, before.attempts));
        let taken: Vec<_> = decisions.iter().map(|decision| decision.action.as_str()).collect();
        let settled = settle.map(Verb::name);
        assert_eq!(taken, settled.into_iter().chain(["delete", "restore"]).collect::<Vec<_>>());
        for (life, body) in [Some(1), None].into_iter().zip(bodies) {
            assert_eq!(*rig.store().original(id, life).await.unwrap().unwrap().envelope.body(), body);
        }
        assert_eq!((rig.find("fire").await, rig.find("body:quince").await), (vec![id], vec![id]));
        assert_eq!((trash(rig).await, deleted(rig).await), (vec![], 0));
        assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.restored");
        // What it died of is known again, and so is that a copy of it was out.
        let same = rig.capture(dying("lived", at(500)), at(3_000)).await;
        assert_eq!((same.letter, same.outcome), (id, Outcome::Duplicate));
        let again = rig.capture(dying("lived", at(4_000)), at(4_000)).await;
        assert_eq!((again.letter, again.outcome), (id, Outcome::Relapse));
    }
}

pub async fn what_is_held_or_out_cannot_be_deleted(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    rig.done(ids[0], Verb::Hold, at(1)).await;
    rig.send(ids[1], ClaimStep::Claimed, at(1)).await;
    let before = rig.dump().await;
    let refused = |standing| Decided::Refused(Refused { action: Action::Delete, standing });
    let held = Standing { held: true, ..Standing::live(Status::Pending) };
    assert_eq!(rig.decide(ids[0], Verb::Delete, at(2)).await, refused(held));
    let out = Standing::live(Status::Reprocessing);
    assert_eq!(rig.decide(ids[1], Verb::Delete, at(2)).await, refused(out));
    assert_eq!(rig.dump().await, before);
    rig.done(ids[0], Verb::Release, at(3)).await;
    rig.done(ids[0], Verb::Delete, at(4)).await;
}

pub async fn a_letter_is_deleted_once_and_restored_once(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.done(id, Verb::Delete, at(1)).await;
    let before = rig.dump().await;
    for verb in Verb::ALL.into_iter().filter(|verb| *verb != Verb::Restore) {
        assert_eq!(rig.decide(id, verb, at(2)).await, gone(verb.action(), Status::Pending, true));
    }
    assert_eq!(rig.dump().await, before);
    rig.done(id, Verb::Restore, at(3)).await;
    let before = rig.dump().await;
    let refused = Refused { action: Action::Restore, standing: Standing::live(Status::Pending) };
    assert_eq!(rig.decide(id, Verb::Restore, at(4)).await, Decided::Refused(refused));
    assert_eq!(rig.dump().await, before);
}

pub async fn two_people_delete_and_one_is_refused(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let (one, two) = tokio::join!(rig.decide(id, Verb::Delete, at(1)), rig.decide(id, Verb::Delete, at(1)));
    let refused = gone(Action::Delete, Status::Pending, true);
    assert!([(&one, &two), (&two, &one)].contains(&(&Decided::Done, &refused)), "{one:?} {two:?}");
    assert_eq!(deleted(rig).await, 1);
}

pub async fn a_letter_that_dies_after_its_deletion_is_a_new_one(rig: &mut Rig) {
    let first = rig.create(captured("e1"), at(0)).await;
    rig.done(first, Verb::Delete, at(10)).await;
    // The very same report, and one that carries our mark: the letter they speak of is not there.
    let told = Captured { mark: mark(first, 1, rig.run_id()), ..captured("e1") };
    let second = rig.create(told, at(20)).await;
    let letter = rig.letter(second).await;
    assert_eq!((letter.previous, letter.life, letter.status), (Some(first), 1, Status::Pending));
    let before = rig.dump().await;
    assert_eq!(rig.decide(first, Verb::Restore, at(30)).await, Decided::Replaced);
    assert_eq!(rig.dump().await, before);
    rig.done(second, Verb::Delete, at(40)).await;
    rig.reopen().await;
    rig.done(first, Verb::Restore, at(50)).await;
    assert_eq!(rig.decide(second, Verb::Restore, at(60)).await, Decided::Replaced);
    // The older letter has the key now, though a newer one is on record.
    let again = rig.capture(dying("e1", at(70)), at(70)).await;
    assert_eq!((again.letter, again.outcome), (first, Outcome::Recurred));
    rig.done(first, Verb::Delete, at(80)).await;
    let third = rig.create(dying("e1", at(90)), at(90)).await;
    assert_eq!(rig.letter(third).await.previous, Some(second));
    assert_eq!(rig.store().ledger(LedgerBy::Recount).await.unwrap().captured, 3);
}

pub async fn beyond_the_floor_nothing_is_kept(rig: &mut Rig) {
    let [old, young, late] = ["old", "young", "late"].map(captured);
    let [old, young] = [rig.create(old, at(0)).await, rig.create(young, at(1)).await];
    // It was captured long ago and died lately: that counts.
    let late = rig.create(late, at(0)).await;
    rig.capture(dying("late", at(500)), at(500)).await;
    for id in [old, young, late] {
        rig.done(id, Verb::Delete, at(RETENTION_FLOOR_MS)).await;
    }
    assert_eq!(in_trash(rig).await, [late, young]);
    assert_eq!(
        rig.decide(old, Verb::Restore, at(RETENTION_FLOOR_MS)).await,
        gone(Action::Restore, Status::Pending, false)
    );
    assert_eq!(deleted(rig).await, 3);
    let again = rig.create(captured("old"), at(RETENTION_FLOOR_MS + 10)).await;
    assert_eq!(rig.letter(again).await.previous, Some(old), "the key outlives the letter");
}

pub async fn the_floor_counts_from_the_last_capture(rig: &mut Rig) {
    let floor = RETENTION_FLOOR_MS;
    let id = rig.create(dying("late", at(0)), at(0)).await;
    // It died again soon after, which reached us when the floor of both deaths had passed.
    assert_eq!(rig.capture(dying("late", at(1_000)), at(floor + 5_000)).await.letter, id);
    assert_eq!(rig.letter(id).await.life, 2);
    rig.done(id, Verb::Delete, at(2 * floor + 4_999)).await;
    assert_eq!(in_trash(rig).await, [id]);
    rig.done(id, Verb::Restore, at(2 * floor + 4_999)).await;
    assert_eq!(rig.history(id).await.lives.len(), 2);
    rig.done(id, Verb::Delete, at(2 * floor + 5_000)).await;
    assert_eq!(in_trash(rig).await, []);
}

pub async fn a_floor_of_its_own_is_kept_to(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let delete = |floor_ms, ms| Decision { floor_ms: Some(floor_ms), ..decision(Verb::Delete, at(ms)) };
    for (id, floor_ms, ms) in [
        (ids[0], 1_000, 999),
        (ids[1], 1_000, 1_000),
        (ids[2], 2 * RETENTION_FLOOR_MS, RETENTION_FLOOR_MS + 1),
    ] {
        assert_eq!(rig.store().decide(id, delete(floor_ms, ms)).await.unwrap(), Decided::Done);
    }
    assert_eq!(in_trash(rig).await, [ids[2], ids[0]]);
}

pub async fn what_is_deleted_inside_the_floor_is_read_in_pages_and_stays(rig: &mut Rig) {
    let ids = rig.create_many(7, at(0)).await;
    for (n, id) in ids.iter().enumerate() {
        // Two at a time, so that the id decides within one moment.
        rig.done(*id, Verb::Delete, at(10 + n as i64 / 2)).await;
    }
    let mut walked = Vec::new();
    let mut before = None;
    loop {
        let (filter, place) = (Filter::default(), Some(Place::Deleted));
        let query = ArchiveQuery { filter, place, now: at(20), before, limit: 3 };
        let page = rig.store().archived(query).await.unwrap();
        assert_eq!(page.scan, None, "an index answers");
        walked.extend(page.letters.iter().map(|kept| kept.letter.id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let newest_first: Vec<_> = ids.iter().rev().copied().collect();
    assert_eq!(walked, newest_first);
    let mut shelf = Shelf::default();
    for (most, left) in [(2, 5), (10, 0)] {
        let file = shelf.write(rig, most, at(20)).await;
        shelf.keep(rig, file).await;
        assert_eq!(rig.store().archive_waiting().await.unwrap().letters, left);
    }
    assert_eq!((in_trash(rig).await, deleted(rig).await), (newest_first, 7));
    let dump = rig.dump().await;
    for table in ["trash", "trash_lives", "trash_attempts", "lives", "attempts"] {
        let rows = dump.lines().skip_while(|line| *line != table).skip(1);
        assert_eq!(rows.take_while(|line| line.starts_with(' ')).count(), 0, "{table}");
    }
    // Long after the floor it still can be had back, for which its file is read.
    let late = at(10 * RETENTION_FLOOR_MS);
    let refused = gone(Action::Restore, Status::Pending, true);
    assert_eq!(rig.decide(ids[0], Verb::Restore, late).await, refused);
    assert_eq!(shelf.restore(rig, ids[0], late).await, Decided::Done);
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
}

pub async fn an_incident_closes_with_its_last_letter_and_opens_when_it_is_restored(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let incident = rig.letter(ids[0]).await.incident;
    let state = async |rig: &Rig| {
        let found = rig.store().incident(incident).await.unwrap().unwrap().incident;
        (found.state, found.letters)
    };
    rig.done(ids[0], Verb::Delete, at(60_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Open, 1));
    rig.done(ids[1], Verb::Resolve, at(120_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Closed, 1));
    rig.done(ids[1], Verb::Delete, at(180_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Closed, 0));
    rig.done(ids[1], Verb::Restore, at(240_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Closed, 1), "nothing of it waits");
    rig.done(ids[0], Verb::Restore, at(300_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Open, 2));
    rig.done(ids[0], Verb::Delete, at(360_000)).await;
    assert_eq!(state(rig).await, (IncidentState::Closed, 1));
    let told: Vec<_> = rig.told().await.into_iter().filter(|kind| kind.starts_with("incident.")).collect();
    assert_eq!(told, ["opened", "closed", "opened", "closed"].map(|word| format!("incident.{word}")));
    // What waited went out with its deletion; what was settled had gone before.
    let query = SeriesQuery { of: SeriesOf::All, step: Step::Minute, from: at(0), until: at(3_600_000) };
    let line = rig.store().series(query).await.unwrap().remove(0);
    let departed: Vec<_> = line
        .points
        .iter()
        .filter(|point| point.departed > 0)
        .map(|point| (point.at, point.departed))
        .collect();
    assert_eq!(departed, [(at(60_000), 1), (at(120_000), 1), (at(360_000), 1)]);
}

pub async fn a_list_is_deleted_in_chunks_without_what_is_held(rig: &mut Rig) {
    let count = DECISION_ROWS_PER_WRITE as i64 + 20;
    let ids = rig.create_many(count, at(0)).await;
    rig.done(ids[7], Verb::Hold, at(5)).await;
    let id = rig.open_operation(Verb::Delete, "queue:orders", count as u64, at(10)).await;
    assert_eq!(rig.freeze(id).await.0.state, OperationState::Working);
    rig.done(ids[8], Verb::Delete, at(15)).await;
    rig.store().work(id, at(20)).await.unwrap();
    rig.reopen().await;
    let (done, _) = rig.work(id, at(30)).await;
    assert_eq!((done.state, done.done, done.skipped), (OperationState::Done, count as u64 - 2, 2));
    let skipped = rig.store().skipped(id, 10).await.unwrap();
    let reasons: Vec<_> = skipped.iter().map(|skipped| (skipped.letter, skipped.reason.as_str())).collect();
    let held = "cannot delete a letter that is pending and on hold";
    assert_eq!(reasons, [(ids[7], held), (ids[8], "the letter is gone")]);
    assert_eq!(rig.find("").await, [ids[7]]);
    assert_eq!(deleted(rig).await, count as u64 - 1);
    let kept: BTreeSet<_> = in_trash(rig).await.into_iter().collect();
    assert_eq!(kept.len() as i64, count - 1);
    rig.done(ids[0], Verb::Restore, at(40)).await;
    let decisions = rig.history(ids[0]).await.decisions;
    assert_eq!(decisions.iter().map(|told| told.operation).collect::<Vec<_>>(), [Some(id), None]);
    // A list that was frozen before its letters were deleted can be restored, those that were there to be frozen.
    let id = rig.open_operation(Verb::Restore, "event:e0", 1, at(50)).await;
    rig.freeze(id).await;
    rig.done(ids[0], Verb::Delete, at(55)).await;
    assert_eq!(rig.work(id, at(60)).await.0.done, 1);
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
}

pub async fn a_letter_deleted_while_it_is_frozen_is_skipped(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let id = rig.open_operation(Verb::Discard, "queue:orders", 2, at(10)).await;
    rig.freeze(id).await;
    rig.done(ids[0], Verb::Delete, at(11)).await;
    let (done, _) = rig.work(id, at(20)).await;
    assert_eq!((done.done, done.skipped), (1, 1));
    rig.done(ids[0], Verb::Restore, at(30)).await;
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
}

pub async fn bodies_of_new_letters_are_found_when_the_newest_were_deleted(rig: &mut Rig) {
    let saying = |event: &str, word: &str| Captured {
        envelope: envelope(format!("{{\"fruit\":\"{word}\"}}").as_bytes()),
        ..captured(event)
    };
    let apple = rig.create(saying("a", "apple"), at(0)).await;
    let pear = rig.create(saying("b", "pear"), at(1)).await;
    assert_eq!(rig.store().index_bodies(10).await.unwrap().behind, 0);
    for restart in [false, true] {
        rig.done(pear, Verb::Delete, at(10)).await;
        assert_eq!(rig.find("body:pear").await, []);
        let before = rig.store().body_index().await.unwrap();
        if restart {
            rig.reopen().await;
        }
        assert_eq!(rig.store().body_index().await.unwrap(), before, "the index is still of these letters");
        // It must not get the place of the one that is gone: the index has passed that by.
        let event = format!("c {restart}");
        let plum = rig.create(saying(&event, "plum"), at(20)).await;
        for indexed in [false, true] {
            assert_eq!(rig.find("body:plum").await, [plum], "{restart} {indexed}");
            assert_eq!(rig.find("body:pear").await, [], "{restart} {indexed}");
            assert_eq!(rig.find("body:apple").await, [apple], "{restart} {indexed}");
            let index = rig.store().index_bodies(10).await.unwrap();
            assert_eq!((index.behind, index.behind_since), (0, None));
        }
        rig.done(pear, Verb::Restore, at(30)).await;
        assert_eq!(rig.find("body:pear").await, [pear], "before it is indexed again");
        assert_eq!(rig.store().body_index().await.unwrap().behind, 1);
        rig.store().index_bodies(10).await.unwrap();
        assert_eq!(rig.find("body:pear").await, [pear], "and after");
        rig.done(plum, Verb::Delete, at(40)).await;
        assert_eq!(rig.find("body:plum").await, []);
    }
}

pub async fn a_store_that_was_deleted_empty_goes_on_counting(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    rig.store().index_bodies(10).await.unwrap();
    let id = rig.open_operation(Verb::Delete, "queue:orders", 3, at(10)).await;
    rig.freeze(id).await;
    rig.work(id, at(20)).await;
    let mut shelf = Shelf::default();
    let file = shelf.write(rig, 2, at(25)).await;
    assert_eq!(shelf.keep(rig, file).await, 2);
    rig.reopen().await;
    let new = rig.create(captured("new"), at(30)).await;
    assert_eq!(rig.find("body:order").await, [new]);
    rig.done(ids[2], Verb::Restore, at(40)).await;
    for _ in 0..2 {
        let found: BTreeSet<_> = rig.find("body:order").await.into_iter().collect();
        assert_eq!(found, BTreeSet::from([new, ids[2]]));
        rig.store().index_bodies(10).await.unwrap();
    }
}

pub async fn large_letters_go_few_at_a_time(rig: &mut Rig) {
    let body = envelope(noise(CONTENT_BYTES_DROPPED_PER_WRITE).as_bytes());
    for n in 0..5 {
        let large = Captured { envelope: body.clone(), ..captured(&format!("large {n}")) };
        rig.create(large, at(n)).await;
    }
    let mut letters = prunable(rig, Status::Pending, at(10)).await;
    let mut parts = Vec::new();
    while !letters.is_empty() {
        let pruned = rig.store().prune(batch(&letters, ARCHIVE, at(20))).await.unwrap();
        letters.drain(..pruned.looked_at);
        parts.push(pruned.looked_at);
    }
    assert_eq!(parts.iter().sum::<usize>(), 5);
    assert!(parts.iter().all(|looked_at| (1..=2).contains(looked_at)), "{parts:?}");
    let waiting = rig.store().archive_waiting().await.unwrap();
    let bytes = 5 * CONTENT_BYTES_DROPPED_PER_WRITE as u64;
    assert_eq!((waiting.letters, waiting.bytes, waiting.since), (5, bytes, Some(at(20))));
    // They are read for their file in parts as well, and leave the store all the same.
    assert_eq!(rig.store().waiting_letters(None, 100).await.unwrap().len(), 4);
    let mut shelf = Shelf::default();
    let file = shelf.write(rig, 100, at(30)).await;
    assert_eq!(shelf.keep(rig, file).await, 5);
}
