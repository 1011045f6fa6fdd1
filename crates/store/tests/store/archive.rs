//! Cases: the archive knows where each letter is, and gives it back as it was.

use lazaret_core::id::{FileId, IncidentId, LetterId};
use lazaret_core::letter::{Captured, Letter, Outcome};
use lazaret_core::lifecycle::{Action, Place, Status};
use lazaret_store::StoreError;
use lazaret_store::archive::{Archived, FileRow, FileState, ShelvedRow};
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::page::LetterHistory;
use lazaret_store::stats::LedgerBy;
use lazaret_store::transfer::Imported;

use crate::rig::{Rig, at, captured, decision, dying, error};
use crate::shelf::{EITHER, Kept, Shelf, archive, find, lived, one, put_away, refused, rows_of, standing};
use crate::transfer::{export, import, put_in};

async fn found(rig: &Rig, filter: &str) -> Vec<LetterId> {
    find(rig, filter, None).await.into_iter().map(|archived| archived.letter.id).collect()
}

pub async fn an_archived_letter_is_found_by_what_it_was(rig: &mut Rig) {
    let id = lived(rig).await;
    let before = rig.letter(id).await;
    let mut ids = vec![id];
    for n in 0..5_i64 {
        let other = Captured {
            queue: format!("q{}", n % 2),
            tenant: (n == 3).then(|| "acme".into()),
            ..captured(&format!("e{n}"))
        };
        ids.push(rig.create(other, at(700 + n)).await);
    }
    for (n, id) in ids.iter().enumerate() {
        archive(rig, *id, at(1_000 + n as i64)).await;
    }
    let kept = one(rig, id).await;
    let expected = Archived {
        entry: kept.entry,
        letter: Letter { place: Place::Archived, ..before.clone() },
        removed_at: at(1_000),
        removed_by: "lazaret".into(),
        reason: "max_age".into(),
        file: None,
    };
    assert_eq!(kept, expected);
    let newest_first = |some: &[usize]| some.iter().rev().map(|n| ids[*n]).collect::<Vec<_>>();
    let incident = format!("incident:{}", before.incident);
    for (filter, expected) in [
        ("", newest_first(&[0, 1, 2, 3, 4, 5])),
        ("queue:q0", newest_first(&[1, 3, 5])),
        ("queue:q*", newest_first(&[1, 2, 3, 4, 5])),
        ("queue:q0,q1 -queue:q1", newest_first(&[1, 3, 5])),
        ("event:e2", newest_first(&[3])),
        ("tenant:acme", newest_first(&[4])),
        ("aggregate:order-7 queue:orders", newest_first(&[0])),
        ("status:resolved", vec![]),
        ("disk fire", newest_first(&[0])),
        ("queue:q1 refused", newest_first(&[2, 4])),
        (&incident, newest_first(&[0])),
        ("held:yes", vec![]),
        ("type:order.created source:report error:ConnectionError", newest_first(&[0, 1, 2, 3, 4, 5])),
    ] {
        assert_eq!(found(rig, filter).await, expected, "{filter}");
    }
    assert_eq!(find(rig, "queue:q0", Some(Place::Archived)).await.len(), 3);
    assert_eq!(find(rig, "", Some(Place::Deleted)).await, []);
    assert_eq!(rig.find("").await, []);
    assert_eq!(rig.take(id, 2, at(2_000)).await, None);
    for verb in [Verb::Resolve, Verb::Discard, Verb::Reopen, Verb::Release] {
        let expected = refused(verb.action(), standing(Status::Pending, Place::Archived));
        assert_eq!(rig.decide(id, verb, at(2_000)).await, expected);
    }
    let events = rig.store().events(0, 100).await.unwrap();
    let about = events.iter().find(|event| event.letter == Some(id)).unwrap().about.as_deref().unwrap();
    assert_eq!((about.id, about.place), (id, Place::Archived));
}

pub async fn what_waits_for_a_file_is_whole(rig: &mut Rig) {
    let id = lived(rig).await;
    rig.done(id, Verb::Resolve, at(700)).await;
    let other = rig.create(captured("other"), at(800)).await;
    let before = export(rig, &[id]).await.remove(0);
    assert_eq!(rig.store().archive_waiting().await.unwrap(), Default::default());
    archive(rig, id, at(1_000)).await;
    rig.done(other, Verb::Delete, at(2_000)).await;
    let waiting = rig.store().archive_waiting().await.unwrap();
    let bytes = 4 + 17 + 11;
    assert_eq!((waiting.letters, waiting.bytes, waiting.since), (2, bytes, Some(at(1_000))));
    let letters = rig.store().waiting_letters(None, 10).await.unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| letter.archived.letter.id).collect();
    assert_eq!(ids, [id, other], "in the order in which they went");
    let behind = rig.store().waiting_letters(Some(letters[0].archived.entry), 10).await.unwrap();
    assert_eq!(behind[0].archived, letters[1].archived);
    assert_eq!(behind.len(), 1);
    assert_eq!(rig.store().waiting_letters(None, 1).await.unwrap().len(), 1);
    let whole = rig.store().waiting_letter(id).await.unwrap().unwrap();
    assert_eq!(whole.archived, one(rig, id).await);
    let mut same = whole.exported;
    assert_eq!(same.letter.place, Place::Archived);
    same.letter.place = Place::Live;
    assert_eq!(format!("{same:?}"), format!("{before:?}"));
    assert!(rig.store().waiting_letter(LetterId::mint(at(0), rig.mint())).await.unwrap().is_none());
}

pub async fn a_file_is_known_from_its_name_to_its_keeping(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    archive(rig, id, at(1_000)).await;
    let opened = FileId::mint(at(2_000), rig.mint());
    rig.store().open_file(opened, "a/b.parquet".into(), at(2_000)).await.unwrap();
    let file = rig.store().file(opened).await.unwrap().unwrap();
    assert_eq!(
        (file.state, file.path.as_str(), file.opened_at),
        (FileState::Writing, "a/b.parquet", at(2_000))
    );
    let waiting = rig.store().waiting_letter(id).await.unwrap().unwrap();
    let row = ShelvedRow { letter: id, entry: waiting.archived.entry, row: 0, first_life: 1, last_life: 1 };
    let before = rig.dump().await;
    let unverified = rig.store().shelve(opened, vec![row]).await;
    assert!(matches!(unverified, Err(StoreError::Corrupt(_))), "{unverified:?}");
    assert!(rig.store().file_kept(opened).await.is_err());
    assert_eq!(rig.dump().await, before, "content goes only for what was read back");
    let file = shelf.write(rig, 10, at(3_000)).await;
    let unfinished = rig.store().unfinished_files().await.unwrap();
    let states: Vec<_> = unfinished.iter().map(|file| (file.id, file.state)).collect();
    assert_eq!(states, [(opened, FileState::Writing), (file, FileState::Written)]);
    assert!(rig.store().drop_file(opened).await.unwrap());
    assert_eq!(rig.store().file(opened).await.unwrap(), None);
    assert_eq!(shelf.keep(rig, file).await, 1);
    assert!(!rig.store().drop_file(file).await.unwrap(), "a letter stands in it");
    assert_eq!(rig.store().unfinished_files().await.unwrap(), []);
    let kept = rig.store().file(file).await.unwrap().unwrap();
    assert_eq!((kept.state, kept.letters, kept.bytes, kept.sha256), (FileState::Kept, 1, 7, [7; 32]));
    assert_eq!((kept.first_died_at, kept.last_died_at), (Some(at(-10)), Some(at(-10))));
    assert_eq!((kept.checked_at, &kept.problem), (Some(at(3_000)), &None));
    rig.store().file_checked(file, Some("it is gone".into()), at(4_000)).await.unwrap();
    let checked = rig.store().file(file).await.unwrap().unwrap();
    assert_eq!((checked.checked_at, checked.problem.as_deref()), (Some(at(4_000)), Some("it is gone")));
    let next = shelf.write(rig, 10, at(5_000)).await;
    let ids = async |rig: &Rig, after, limit| {
        let files = rig.store().files(after, limit).await.unwrap();
        files.into_iter().map(|file| file.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(rig, None, 10).await, [file, next]);
    assert_eq!(ids(rig, None, 1).await, [file]);
    assert_eq!(ids(rig, Some(file), 10).await, [next]);
    shelf.keep(rig, next).await;
}

pub async fn a_letter_leaves_the_store_with_its_file(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = lived(rig).await;
    let other = rig.create(captured("other"), at(700)).await;
    rig.store().index_bodies(10).await.unwrap();
    for (letter, ms) in [(id, 1_000), (other, 1_001)] {
        archive(rig, letter, at(ms)).await;
    }
    let file = shelf.write(rig, 10, at(2_000)).await;
    assert_eq!(rows_of(&rig.dump().await, "trash"), 2, "nothing goes before the file is on record");
    assert_eq!(rig.store().shelve(file, shelf.rows(file)).await.unwrap(), 2);
    // A crash may have hidden that it was done.
    assert_eq!(rig.store().shelve(file, shelf.rows(file)).await.unwrap(), 0);
    rig.store().file_kept(file).await.unwrap();
    let dump = rig.dump().await;
    for table in ["trash", "trash_lives", "trash_attempts", "lives", "attempts", "dead_letter_queue"] {
        assert_eq!(rows_of(&dump, table), 0, "{table}");
    }
    let place = |row, last_life| FileRow { file, row, first_life: 1, last_life };
    let kept = one(rig, id).await;
    assert_eq!((kept.file.clone(), kept.letter.place), (Some(place(0, 2)), Place::Archived));
    assert_eq!(rig.store().file_rows(file).await.unwrap(), [(id, place(0, 2)), (other, place(1, 1))]);
    assert_eq!(rig.store().older_lives(id).await.unwrap(), [place(0, 2)]);
    assert_eq!(rig.store().archive_waiting().await.unwrap(), Default::default());
    assert!(rig.store().waiting_letter(id).await.unwrap().is_none());
    assert_eq!(rig.find("body:quince").await, []);
    let ledger = rig.store().ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.captured, ledger.archived, ledger.wrong_counters), (2, 2, 0));
    assert_eq!(put_in(rig, vec![shelf.read(&place(0, 2))]).await, [Imported::Conflict(id)]);
}

pub async fn an_old_file_does_not_take_what_came_back(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let ids = rig.create_many(3, at(0)).await;
    for id in &ids {
        archive(rig, *id, at(1_000)).await;
    }
    let file = shelf.write(rig, 10, at(2_000)).await;
    assert_eq!(shelf.restore(rig, ids[0], at(2_100)).await, Decided::Done);
    assert_eq!(shelf.restore(rig, ids[1], at(2_100)).await, Decided::Done);
    let entry = one(rig, ids[2]).await.entry;
    archive(rig, ids[1], at(2_200)).await;
    assert!(one(rig, ids[1]).await.entry > entry, "it went again");
    assert_eq!(shelf.keep(rig, file).await, 1);
    assert_eq!(rig.letter(ids[0]).await.status, Status::Pending);
    assert_eq!(one(rig, ids[1]).await.file, None, "it waits for the next one");
    assert_eq!(one(rig, ids[2]).await.file.unwrap().file, file);
    assert_eq!(rig.store().file_rows(file).await.unwrap().len(), 1);
    let next = shelf.write(rig, 10, at(3_000)).await;
    assert_eq!(shelf.keep(rig, next).await, 1);
    assert_eq!(one(rig, ids[1]).await.file.unwrap().file, next);
}

pub async fn a_letter_comes_back_as_it_was(rig: &mut Rig) {
    for kept in EITHER {
        for (settle, status) in [
            (None, Status::Pending),
            (Some(Verb::Resolve), Status::Resolved),
            (Some(Verb::Discard), Status::Discarded),
        ] {
            rig.store().reset().await.unwrap();
            let mut shelf = Shelf::default();
            let id = lived(rig).await;
            if let Some(verb) = settle {
                rig.done(id, verb, at(700)).await;
            }
            let before = rig.history(id).await;
            let body = rig.store().original(id, Some(1)).await.unwrap().unwrap().envelope;
            put_away(rig, &mut shelf, id, kept, 1_000).await;
            rig.reopen().await;
            assert_eq!(shelf.restore(rig, id, at(2_000)).await, Decided::Done, "{kept:?}");
            let LetterHistory { letter, lives, attempts, decisions } = rig.history(id).await;
            assert_eq!((letter.status, letter.place, letter.retention_at), (status, Place::Live, at(2_000)));
            let mut same = letter;
            (same.updated_at, same.retention_at) = (before.letter.updated_at, before.letter.retention_at);
            assert_eq!(same, before.letter);
            assert_eq!(
                format!("{lives:?} {attempts:?}"),
                format!("{:?} {:?}", before.lives, before.attempts)
            );
            let taken: Vec<_> = decisions.iter().map(|decision| decision.action.as_str()).collect();
            assert_eq!(taken, settle.map(Verb::name).into_iter().chain(["restore"]).collect::<Vec<_>>());
            let again = rig.store().original(id, Some(1)).await.unwrap().unwrap().envelope;
            assert_eq!((again.body(), again.headers()), (body.body(), body.headers()));
            assert_eq!((rig.find("fire").await, rig.find("body:quince").await), (vec![id], vec![id]));
            assert_eq!(rig.store().archived_letter(id).await.unwrap(), None);
            assert_eq!(rig.store().older_lives(id).await.unwrap(), []);
            assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.restored");
            // What it died of is known again, and so is that a copy of it was out.
            let same = rig.capture(dying("lived", at(500)), at(3_000)).await;
            assert_eq!((same.letter, same.outcome), (id, Outcome::Duplicate));
            let again = rig.capture(dying("lived", at(4_000)), at(4_000)).await;
            assert_eq!((again.letter, again.outcome), (id, Outcome::Relapse));
        }
    }
}

pub async fn only_what_was_read_comes_back_from_a_file(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = rig.create(captured("e1"), at(0)).await;
    let entry = async |rig: &Rig| one(rig, id).await.entry;
    let bring = async |rig: &Rig, read, entry| {
        rig.store().restore_from_file(import(rig, read), entry, decision(Verb::Restore, at(5_000))).await
    };
    put_away(rig, &mut shelf, id, Kept::InFile, 1_000).await;
    let (first, read) = (entry(rig).await, shelf.read(&one(rig, id).await.file.unwrap()));
    let before = rig.dump().await;
    let expected = refused(Action::Restore, standing(Status::Pending, Place::Archived));
    assert_eq!(rig.decide(id, Verb::Restore, at(5_000)).await, expected, "it is not here");
    assert_eq!(bring(rig, read.clone(), first + 1).await.unwrap(), expected);
    let mut stranger = read.clone();
    stranger.letter.id = LetterId::mint(at(0), rig.mint());
    assert_eq!(bring(rig, stranger, first).await.unwrap(), Decided::Unknown);
    let mut cut = read.clone();
    cut.lives.clear();
    assert!(bring(rig, cut, first).await.is_err(), "lives are missing");
    assert_eq!(rig.dump().await, before);
    assert_eq!(bring(rig, read.clone(), first).await.unwrap(), Decided::Done);
    let live = refused(Action::Restore, standing(Status::Pending, Place::Live));
    assert_eq!(bring(rig, read.clone(), first).await.unwrap(), live);
    archive(rig, id, at(6_000)).await;
    assert_eq!(bring(rig, read.clone(), entry(rig).await).await.unwrap(), expected, "it waits here");
    assert_eq!(bring(rig, read, first).await.unwrap(), expected, "it went again");
    assert_eq!(shelf.restore(rig, id, at(7_000)).await, Decided::Done);
}

pub async fn a_letter_from_a_file_is_grouped_by_the_rules_of_today(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let ids = rig.create_many(2, at(0)).await;
    put_away(rig, &mut shelf, ids[0], Kept::InFile, 1_000).await;
    let Archived { entry, file, letter, .. } = one(rig, ids[0]).await;
    let mut read = import(rig, shelf.read(&file.unwrap()));
    let other = rig.admit(Captured { error: error("disk on fire"), ..captured("x") }, at(0)).grouping;
    let opened = IncidentId::mint(at(2_000), rig.mint());
    read.groupings = vec![(other.clone(), opened)];
    let done = rig.store().restore_from_file(read, entry, decision(Verb::Restore, at(2_000))).await.unwrap();
    assert_eq!(done, Decided::Done);
    let back = rig.letter(ids[0]).await;
    assert_eq!((back.incident, back.fingerprint), (opened, other.fingerprint));
    let old = rig.store().incident(letter.incident).await.unwrap().unwrap().incident;
    assert_eq!((old.letters, rig.letter(ids[1]).await.incident), (1, letter.incident));
}
