//! Cases: an archived letter that is told again, dies again, is held or deleted; waiting for its file or in one.

use lazaret_core::letter::{Captured, Outcome, SourceWord};
use lazaret_core::lifecycle::{Action, Place, Standing, Status};
use lazaret_core::limits::RETENTION_FLOOR_MS;
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::page::{LetterHistory, LifeAttempt};
use lazaret_store::stats::LedgerBy;

use crate::rig::{Rig, at, dying, error, failed, mark};
use crate::shelf::{EITHER, Kept, Shelf, archived, lived, one, put_away, refused, rows_of, standing};

pub async fn told_again_it_stays_in_the_archive(rig: &mut Rig) {
    for kept in EITHER {
        rig.store().reset().await.unwrap();
        let mut shelf = Shelf::default();
        let id = lived(rig).await;
        put_away(rig, &mut shelf, id, kept, 1_000).await;
        let before = without_late(rig.dump().await);
        let same = dying("lived", at(500));
        let older =
            Captured { attempts: vec![failed(at(-2_000), "never told")], ..dying("lived", at(-1_000)) };
        let marked = Captured { mark: mark(id, 1, rig.run_id()), ..dying("lived", at(5_000)) };
        let word = Captured { word: SourceWord::SameDeath, ..dying("lived", at(5_000)) };
        for told in [same, older, marked, word] {
            let receipt = rig.capture(told, at(9_000)).await;
            assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Duplicate), "{kept:?}");
            assert_eq!(without_late(rig.dump().await), before, "{kept:?}");
        }
    }
}

/// A dump without the attempts that are kept beside archived letters.
fn without_late(dump: String) -> String {
    let (before, rest) = dump.split_once("\narchive_attempts\n").unwrap();
    let (_, after) = rest.split_once("relay_tries\n").unwrap();
    format!("{before}\n{after}")
}

pub async fn an_archived_letter_is_told_of_again(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = lived(rig).await;
    put_away(rig, &mut shelf, id, EITHER[0], 1_000).await;
    let told = Captured {
        attempts: vec![failed(at(-2_000), "never told")],
        error: error("disk on fire"),
        ..dying("lived", at(500))
    };
    rig.capture(told, at(9_000)).await;
}

pub async fn attempts_reported_of_an_archived_letter_are_kept_and_come_back_with_it(rig: &mut Rig) {
    for kept in EITHER {
        for dies_again in [false, true] {
            rig.store().reset().await.unwrap();
            let mut shelf = Shelf::default();
            let id = lived(rig).await;
            let known = rig.history(id).await.attempts.len() as u32;
            put_away(rig, &mut shelf, id, kept, 1_000).await;
            // The last failure is known; of the earlier ones one was never told. The first life left something behind too.
            let told = Captured {
                attempts: vec![failed(at(-2_000), "never told")],
                error: error("disk on fire"),
                ..dying("lived", at(500))
            };
            let first = Captured { mark: mark(id, 1, rig.run_id()), ..dying("lived", at(200)) };
            for _ in 0..2 {
                for captured in [&told, &first] {
                    let receipt = rig.capture(captured.clone(), at(9_000)).await;
                    assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Duplicate), "{kept:?}");
                }
            }
            rig.reopen().await;
            let late = rig.store().late_attempts(id).await.unwrap();
            let shown = |told: &LifeAttempt| (told.ordinal, told.life, told.attempt.error.message.clone());
            let never_told = |ordinal| (ordinal, 2, "never told".to_owned());
            let left_behind = |ordinal| (ordinal, 1, "connection refused".to_owned());
            assert_eq!(
                late.iter().map(shown).collect::<Vec<_>>(),
                [never_told(1), left_behind(2)],
                "{kept:?}"
            );
            assert_eq!(late[0].attempt.at, Some(at(-2_000)));
            match dies_again {
                true => {
                    let again = rig.capture(dying("lived", at(10_000)), at(10_000)).await;
                    assert_eq!(again.outcome, Outcome::Relapse);
                }
                false => assert_eq!(shelf.restore(rig, id, at(10_000)).await, Decided::Done),
            }
            let attempts = rig.history(id).await.attempts;
            let come: Vec<_> = attempts.iter().map(shown).filter(|told| told.0 > known).collect();
            assert_eq!(come[..2], [never_told(known + 1), left_behind(known + 2)], "{kept:?} {dies_again}");
            assert_eq!(come.len(), if dies_again { 3 } else { 2 });
            assert_eq!(rig.store().late_attempts(id).await.unwrap(), []);
            // They are known from now on, wherever the letter is.
            for away in [false, true] {
                if away {
                    put_away(rig, &mut shelf, id, kept, 20_000).await;
                }
                for captured in [&told, &first] {
                    let receipt = rig.capture(captured.clone(), at(21_000)).await;
                    assert_eq!(receipt.outcome, Outcome::Duplicate);
                }
                assert_eq!(rig.store().late_attempts(id).await.unwrap(), []);
            }
            assert_eq!(shelf.restore(rig, id, at(30_000)).await, Decided::Done);
            // What was kept of a letter goes with it.
            put_away(rig, &mut shelf, id, kept, 31_000).await;
            rig.capture(Captured { word: SourceWord::SameDeath, ..dying("lived", at(32_000)) }, at(32_000))
                .await;
            assert_eq!(rig.store().late_attempts(id).await.unwrap().len(), 1);
            rig.done(id, Verb::Delete, at(40_000 + RETENTION_FLOOR_MS)).await;
            assert_eq!(rig.store().late_attempts(id).await.unwrap(), []);
        }
    }
}

pub async fn a_letter_that_dies_again_leaves_the_archive(rig: &mut Rig) {
    for kept in EITHER {
        for (settle, sent) in [(None, false), (Some(Verb::Resolve), true), (Some(Verb::Discard), true)] {
            rig.store().reset().await.unwrap();
            let mut shelf = Shelf::default();
            let id = match sent {
                true => lived(rig).await,
                false => {
                    let id = rig.create(dying("lived", at(-1_000)), at(0)).await;
                    rig.capture(dying("lived", at(500)), at(600)).await;
                    id
                }
            };
            if let Some(verb) = settle {
                rig.done(id, verb, at(700)).await;
            }
            let before = rig.history(id).await;
            put_away(rig, &mut shelf, id, kept, 1_000).await;
            let again = Captured { queue: "late".into(), ..dying("lived", at(5_000)) };
            let receipt = rig.capture(again, at(6_000)).await;
            let outcome = if sent { Outcome::Relapse } else { Outcome::Recurred };
            assert_eq!((receipt.letter, receipt.outcome), (id, outcome), "{kept:?} {settle:?}");
            let LetterHistory { letter, lives, attempts, .. } = rig.history(id).await;
            assert_eq!((letter.status, letter.life, letter.place), (Status::Pending, 3, Place::Live));
            assert_eq!(
                (letter.queue.as_str(), letter.died_at, letter.retention_at),
                ("late", at(5_000), at(6_000))
            );
            assert_eq!((letter.created_at, letter.resolution), (before.letter.created_at, None));
            let numbers: Vec<u32> = lives.iter().map(|life| life.life).collect();
            let older = rig.store().older_lives(id).await.unwrap();
            let last = before.attempts.len() as u32 + 1;
            match kept {
                Kept::Waiting => assert_eq!((numbers, older), (vec![1, 2, 3], vec![])),
                Kept::InFile => {
                    assert_eq!(numbers, [3]);
                    assert_eq!((older[0].first_life, older[0].last_life, older.len()), (1, 2, 1));
                    assert_eq!(shelf.read(&older[0]).lives.len(), 2);
                    assert_eq!(attempts.len(), 1);
                }
            }
            assert_eq!((attempts.last().unwrap().ordinal, lives.last().unwrap().fatal), (last, last));
            assert_eq!(rig.store().archived_letter(id).await.unwrap(), None);
            assert_eq!(rig.find("queue:late refused").await, [id]);
            // Whatever was told of it before is known, wherever that is kept.
            let reason = if sent { "disk on fire" } else { "connection refused" };
            let same = Captured { error: error(reason), ..dying("lived", at(500)) };
            let same = rig.capture(same, at(7_000)).await;
            assert_eq!((same.letter, same.outcome), (id, Outcome::Duplicate));
            assert_eq!(rig.history(id).await.attempts.len(), attempts.len());
        }
    }
}

pub async fn older_lives_stay_in_the_files_they_are_in(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    for life in 1..=3_i64 {
        put_away(rig, &mut shelf, id, Kept::InFile, life * 1_000).await;
        let again = rig.capture(dying("e1", at(life * 1_000 + 1)), at(life * 1_000 + 2)).await;
        assert_eq!((again.letter, again.outcome), (id, Outcome::Recurred));
    }
    let lives = async |rig: &Rig| {
        let older = rig.store().older_lives(id).await.unwrap();
        older.iter().map(|row| (row.first_life, row.last_life)).collect::<Vec<_>>()
    };
    assert_eq!(lives(rig).await, [(1, 1), (2, 2), (3, 3)]);
    let here = rig.history(id).await;
    let numbers = |here: &LetterHistory| here.lives.iter().map(|life| life.life).collect::<Vec<_>>();
    assert_eq!((here.letter.life, numbers(&here), here.attempts[0].ordinal), (4, vec![4], 4));
    for ms in [-10, 1_001, 2_001, 3_001] {
        assert_eq!(rig.capture(dying("e1", at(ms)), at(9_000)).await.outcome, Outcome::Duplicate);
    }
    assert_eq!(rig.history(id).await.attempts.len(), 1, "all of them are known");
    // Back from a file come the lives that went there last; the others stay.
    put_away(rig, &mut shelf, id, Kept::InFile, 10_000).await;
    assert_eq!(lives(rig).await, [(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert_eq!(shelf.restore(rig, id, at(11_000)).await, Decided::Done);
    assert_eq!(lives(rig).await, [(1, 1), (2, 2), (3, 3)]);
    let here = rig.history(id).await;
    assert_eq!((here.letter.life, numbers(&here)), (4, vec![4]));
    rig.capture(dying("e1", at(12_000)), at(12_000)).await;
    put_away(rig, &mut shelf, id, Kept::InFile, 13_000).await;
    assert_eq!(lives(rig).await, [(1, 1), (2, 2), (3, 3), (4, 5)]);
    assert_eq!(shelf.restore(rig, id, at(14_000)).await, Decided::Done);
    assert_eq!(rig.history(id).await.attempts.iter().map(|told| told.ordinal).collect::<Vec<_>>(), [4, 5]);
    // With the letter all that leads to them goes.
    rig.done(id, Verb::Delete, at(12_000 + RETENTION_FLOOR_MS)).await;
    assert_eq!(lives(rig).await, []);
    assert_eq!(rig.store().archived_letter(id).await.unwrap(), None);
}

pub async fn a_life_holds_the_run_that_ended_it(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    put_away(rig, &mut shelf, id, Kept::InFile, 1_000).await;
    // The source says that it died anew, of what is known from a file alone.
    let told = Captured { word: SourceWord::NewDeath, ..dying("e1", at(-10)) };
    assert_eq!(rig.capture(told.clone(), at(2_000)).await.outcome, Outcome::Recurred);
    let here = rig.history(id).await;
    assert_eq!((here.letter.life, here.lives[0].fatal), (2, 2));
    assert_eq!(here.attempts.iter().map(|told| (told.life, told.ordinal)).collect::<Vec<_>>(), [(2, 2)]);
    assert_eq!(rig.capture(told, at(3_000)).await.outcome, Outcome::Recurred);
    put_away(rig, &mut shelf, id, Kept::InFile, 4_000).await;
    assert_eq!(shelf.restore(rig, id, at(5_000)).await, Decided::Done);
    assert_eq!(rig.history(id).await.lives.iter().map(|life| life.life).collect::<Vec<_>>(), [2, 3]);
}

pub async fn an_archived_letter_is_deleted_by_hand(rig: &mut Rig) {
    for kept in EITHER {
        for beyond in [false, true] {
            rig.store().reset().await.unwrap();
            let mut shelf = Shelf::default();
            let id = lived(rig).await;
            put_away(rig, &mut shelf, id, kept, 1_000).await;
            let entry = one(rig, id).await.entry;
            let deleted_at = at(600 + RETENTION_FLOOR_MS - i64::from(!beyond));
            rig.done(id, Verb::Delete, deleted_at).await;
            let ledger = rig.store().ledger(LedgerBy::Recount).await.unwrap();
            assert_eq!((ledger.captured, ledger.archived, ledger.deleted), (1, 0, 1));
            assert_eq!(archived(rig, Place::Archived).await, []);
            let told = rig.store().events(0, 100).await.unwrap().pop().unwrap();
            assert_eq!((told.kind.as_str(), told.letter), ("dead_letter.deleted", Some(id)));
            assert_eq!(told.about.is_some(), !beyond);
            let entry_of_log = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
            assert_eq!((entry_of_log.action.as_str(), entry_of_log.letter), ("delete", Some(id)));
            let gone = Standing { content_kept: !beyond, ..standing(Status::Pending, Place::Deleted) };
            assert_eq!(rig.decide(id, Verb::Delete, deleted_at).await, refused(Action::Delete, gone));
            if beyond {
                assert_eq!(archived(rig, Place::Deleted).await, []);
                assert_eq!(rig.store().older_lives(id).await.unwrap(), []);
                assert_eq!(rows_of(&rig.dump().await, "trash"), 0);
                assert_eq!(rig.decide(id, Verb::Restore, deleted_at).await, refused(Action::Restore, gone));
            } else {
                let kept = one(rig, id).await;
                assert_eq!((kept.entry, kept.letter.place), (entry, Place::Deleted));
                assert_eq!((kept.removed_at, kept.removed_by.as_str()), (deleted_at, "ana"));
                assert_eq!(kept.reason, "deleted");
                shelf.file(rig, deleted_at).await;
                assert_eq!(shelf.restore(rig, id, deleted_at).await, Decided::Done);
                assert_eq!(rig.history(id).await.lives.len(), 2);
                rig.done(id, Verb::Delete, deleted_at).await;
            }
            // Deleted, it has a successor and not another life.
            let next = rig.create(dying("lived", deleted_at), deleted_at).await;
            assert_eq!(rig.letter(next).await.previous, Some(id));
            if !beyond {
                shelf.file(rig, deleted_at).await;
                assert_eq!(shelf.restore(rig, id, deleted_at).await, Decided::Replaced, "{kept:?}");
            }
        }
    }
}

pub async fn a_held_letter_of_the_archive_stays_and_comes_back_held(rig: &mut Rig) {
    for kept in EITHER {
        for comes_back in [Verb::Restore, Verb::Reopen] {
            rig.store().reset().await.unwrap();
            let mut shelf = Shelf::default();
            let id = rig.create(dying("e1", at(-10)), at(0)).await;
            put_away(rig, &mut shelf, id, kept, 1_000).await;
            rig.done(id, Verb::Hold, at(2_000)).await;
            assert_eq!(one(rig, id).await.letter.hold.unwrap().by, "ana");
            let before = rig.dump().await;
            let held = Standing { held: true, ..standing(Status::Pending, Place::Archived) };
            for ms in [3_000, 2 * RETENTION_FLOOR_MS] {
                assert_eq!(rig.decide(id, Verb::Delete, at(ms)).await, refused(Action::Delete, held));
            }
            assert_eq!(rig.dump().await, before);
            match comes_back {
                Verb::Restore => assert_eq!(shelf.restore(rig, id, at(4_000)).await, Decided::Done),
                _ => assert_eq!(
                    rig.capture(dying("e1", at(4_000)), at(4_000)).await.outcome,
                    Outcome::Recurred
                ),
            }
            assert_eq!(rig.letter(id).await.hold.unwrap().by, "ana", "{kept:?}");
            rig.done(id, Verb::Release, at(5_000)).await;
            put_away(rig, &mut shelf, id, kept, 6_000).await;
            rig.done(id, Verb::Hold, at(7_000)).await;
            rig.done(id, Verb::Release, at(8_000)).await;
            rig.done(id, Verb::Delete, at(9_000)).await;
        }
    }
}
