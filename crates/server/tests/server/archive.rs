//! Letters go into files and come back as they were; what happens to files is found out.

use std::path::Path;

use lazaret_core::id::LetterId;
use lazaret_server::archive::{self, ArchiveError};
use lazaret_server::config::{Config, StoreUrl};
use lazaret_server::operations::Progress;
use lazaret_store::archive::FileState;
use lazaret_store::decision::Decided;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::archive_rig::{DAY_MS, Rig, cut, essence, flip, text};
use super::python;
use super::rig::TestApp;

#[tokio::test]
async fn letters_go_into_a_file_and_come_back_as_they_were() {
    let rig = Rig::new(3).await;
    let letters = [rig.letter("e1").await, rig.letter("e2").await, rig.letter("e3").await];
    rig.decide(letters[1], "discard").await;
    rig.decide(letters[2], "resolve").await;
    let mut before = Vec::new();
    for letter in letters {
        before.push(rig.exported(letter).await);
    }
    rig.archive(&letters[..2]).await;
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle, "three make a file");
    assert_eq!(rig.place(letters[0]).await, "waiting");
    rig.decide(letters[2], "delete").await;
    let files = rig.settle().await;
    assert_eq!((files.len(), files[0].letters, files[0].state), (1, 3, FileState::Kept));
    assert!(files[0].path.starts_with("letters/2026/11/15/"), "{}", files[0].path);
    for (letter, before) in letters.into_iter().zip(&before) {
        assert_eq!(rig.place(letter).await, "file");
        let read = archive::read_letter(&rig.app, letter).await.unwrap().unwrap();
        let (mut read, mut before) = (essence(read), essence(before.clone()));
        // The deletion is a decision as well, and comes after.
        for exported in [&mut read, &mut before] {
            exported.decisions.retain(|decision| decision.action != "delete");
        }
        assert_eq!(read, before);
    }
    check_with_pyarrow(&rig, &files[0], &letters);
    assert_eq!(archive::verify_file(&rig.app, &files[0]).await.unwrap(), None);

    for (letter, before) in letters.into_iter().zip(before) {
        assert_eq!(rig.restore(letter).await.unwrap(), Decided::Done);
        assert_eq!(rig.place(letter).await, "live");
        let after = rig.exported(letter).await;
        assert_eq!(after.letter.retention_at, rig.app.clock.now(), "its retention starts again");
        let (mut after, mut before) = (essence(after), essence(before));
        for exported in [&mut after, &mut before] {
            exported.decisions.retain(|decision| decision.action != "delete");
        }
        assert_eq!(after, before);
    }
    assert_eq!(archive::verify_file(&rig.app, &files[0]).await.unwrap(), None, "what came back is no matter");
    assert!(matches!(rig.restore(letters[0]).await.unwrap(), Decided::Refused(_)));
    rig.test.check().await;
}

/// What a reader that knows nothing of us finds in a file.
fn check_with_pyarrow(rig: &Rig, file: &lazaret_store::archive::ArchiveFile, letters: &[LetterId]) {
    let found = python::rows(&rig.path(file));
    let metadata = json!({"lazaret.archive.version": "2", "lazaret.archive.file": file.id.to_string()});
    assert_eq!((&found["metadata"], &found["codecs"]), (&metadata, &json!(["ZSTD"])));
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| text(row, "id").to_owned()).collect::<Vec<_>>(), {
        letters.iter().map(LetterId::to_string).collect::<Vec<_>>()
    });
    let statuses: Vec<&str> = rows.iter().map(|row| text(row, "status")).collect();
    assert_eq!(statuses, ["pending", "discarded", "resolved"]);
    let places: Vec<&str> = rows.iter().map(|row| text(row, "place")).collect();
    assert_eq!(places, ["archived", "archived", "deleted"]);
    let row = &rows[0];
    assert_eq!(
        (text(row, "event_id"), text(row, "subscriber_id"), text(row, "tenant")),
        ("e1", "billing", "acme")
    );
    assert_eq!((&row["aggregate"], &row["max_retries"]), (&json!(null), &json!(null)));
    assert_eq!(text(row, "created_at"), "2026-11-15T03:00:01.000Z");
    let body = text(&row["lives"][0], "body");
    let bytes: Vec<u8> =
        (0..body.len()).step_by(2).map(|at| u8::from_str_radix(&body[at..at + 2], 16).unwrap()).collect();
    let event: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["n"], json!(12345678901234567890_u64));
    assert_eq!(row["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(text(&rows[1]["decisions"][0], "action"), "discard");
}

#[tokio::test]
async fn few_letters_wait_for_a_day_and_then_go() {
    let rig = Rig::new(10_000).await;
    let letter = rig.letter("e1").await;
    rig.archive(&[letter]).await;
    rig.test.pass(DAY_MS - 1);
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle);
    assert_eq!(rig.place(letter).await, "waiting");
    rig.test.pass(1);
    assert_eq!(rig.settle().await.len(), 1);
    assert_eq!(rig.place(letter).await, "file");
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_that_waits_comes_back_without_any_file() {
    let rig = Rig::new(10_000).await;
    let letter = rig.letter("e1").await;
    let before = rig.exported(letter).await;
    rig.archive(&[letter]).await;
    let read = archive::read_letter(&rig.app, letter).await.unwrap().unwrap();
    assert_eq!(essence(read), essence(before.clone()));
    assert_eq!(rig.restore(letter).await.unwrap(), Decided::Done);
    assert_eq!(essence(rig.exported(letter).await), essence(before));
    assert_eq!(rig.settle().await, []);
    rig.test.check().await;
}

/// What is done to a file of so many bytes.
type Harm = fn(&Path, usize);

#[tokio::test]
async fn a_file_that_is_missing_cut_or_changed_is_found_and_named_and_keeps_its_letters() {
    let rig = Rig::new(1).await;
    let letter = rig.letter("e1").await;
    rig.archive(&[letter]).await;
    let file = rig.settle().await.remove(0);
    let path = rig.path(&file);
    let whole = std::fs::read(&path).unwrap();
    let archived = rig.archived(letter).await;
    let harms: [(&str, Harm); 5] = [
        ("is missing", |path, _| std::fs::remove_file(path).unwrap()),
        ("bytes instead of", |path, bytes| cut(path, bytes - 1)),
        ("bytes instead of", |path, _| cut(path, 0)),
        ("SHA-256", |path, _| flip(path, 10)),
        ("SHA-256", |path, bytes| flip(path, bytes / 2)),
    ];
    for (told, harm) in harms {
        harm(&path, whole.len());
        let problem = archive::verify_file(&rig.app, &file).await.unwrap().expect(told);
        assert!(problem.contains(told) && problem.contains(&file.path), "{problem}");
        assert!(problem.contains(&file.id.to_string()), "{problem}");
        let noted = rig.app.store.file(file.id).await.unwrap().unwrap();
        assert_eq!((noted.problem, noted.checked_at), (Some(problem.clone()), Some(rig.app.clock.now())));
        let refused = rig.restore(letter).await.unwrap_err();
        assert!(matches!(refused, ArchiveError::Missing { .. } | ArchiveError::Damaged { .. }), "{refused}");
        assert_eq!(refused.to_string(), problem);
        assert_eq!(rig.archived(letter).await, archived, "nothing changed");
        assert!(archive::read_letter(&rig.app, letter).await.is_err());
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(archive::verify_file(&rig.app, &file).await.unwrap(), None);
    }
    assert_eq!(rig.app.store.file(file.id).await.unwrap().unwrap().problem, None);
    assert_eq!(rig.restore(letter).await.unwrap(), Decided::Done);
    rig.test.check().await;
}

#[tokio::test]
async fn a_damaged_file_spoils_its_own_letters_alone() {
    let rig = Rig::new(2).await;
    let mut letters = Vec::new();
    for event in ["a", "b", "c", "d", "e"] {
        letters.push(rig.letter(event).await);
    }
    for pair in letters.chunks(2) {
        rig.archive(pair).await;
        rig.settle().await;
        // Files are in the order of their milliseconds.
        rig.test.pass(1_000);
    }
    let files = rig.settle().await;
    assert_eq!(files.len(), 2);
    flip(&rig.path(&files[0]), 100);
    let wanted = rig.all_archived().await;
    let read = archive::read_many(&rig.app, &wanted).await.unwrap();
    assert_eq!(read.iter().filter(|(_, exported)| exported.is_ok()).count(), 3);
    let done = archive::restore_many(&rig.app, wanted, rig.wish()).await.unwrap();
    let mut kept: Vec<LetterId> = Vec::new();
    for (letter, answer) in done {
        match answer {
            Ok(decided) => assert_eq!(decided, Decided::Done),
            Err(error) => {
                assert!(error.to_string().contains(&files[0].id.to_string()), "{error}");
                kept.push(letter);
            }
        }
    }
    kept.sort();
    assert_eq!(kept, letters[..2]);
    let mut places = Vec::new();
    for letter in &letters {
        places.push(rig.place(*letter).await);
    }
    assert_eq!(places, ["file", "file", "live", "live", "live"]);
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_that_dies_again_leaves_its_older_lives_in_their_file() {
    let rig = Rig::new(1).await;
    let letter = rig.letter("e1").await;
    let first = rig.exported(letter).await;
    rig.archive(&[letter]).await;
    rig.settle().await;
    assert_eq!(rig.dies("e1", "second").await, letter, "it is the same letter");
    assert_eq!(rig.place(letter).await, "live");
    let live = rig.exported(letter).await;
    assert_eq!((live.letter.life, live.lives.len()), (2, 1));
    let older = archive::read_older(&rig.app, letter).await.unwrap();
    assert_eq!(older.len(), 1);
    assert_eq!(older[0].lives, first.lives);
    assert_eq!(older[0].attempts, first.attempts);

    rig.test.pass(1_000);
    rig.archive(&[letter]).await;
    assert_eq!(rig.settle().await.len(), 2);
    let whole = archive::read_letter(&rig.app, letter).await.unwrap().unwrap();
    let lives: Vec<u32> = whole.lives.iter().map(|(life, _)| life.life).collect();
    assert_eq!(lives, [1, 2]);
    assert_eq!(rig.restore(letter).await.unwrap(), Decided::Done);
    assert_eq!(rig.exported(letter).await.lives, live.lives);
    assert_eq!(archive::read_older(&rig.app, letter).await.unwrap()[0].lives, first.lives);
    for file in rig.settle().await {
        assert_eq!(archive::verify_file(&rig.app, &file).await.unwrap(), None);
    }
    rig.test.check().await;
}

#[tokio::test]
async fn the_archive_is_searched_by_content_wherever_letters_are() {
    let rig = Rig::new(2).await;
    let first = rig.dies("a", "needle").await;
    let second = rig.dies("b", "hay").await;
    rig.archive(&[first, second]).await;
    rig.settle().await;
    let third = rig.dies("c", "needle").await;
    rig.archive(&[third]).await;
    assert_eq!(rig.place(third).await, "waiting");
    let page = archive::search(&rig.app, rig.query("path:$.word=needle", 10)).await.unwrap();
    let found: Vec<LetterId> = page.letters.iter().map(|archived| archived.letter.id).collect();
    assert_eq!(found, [third, first]);
    let scan = page.scan.unwrap();
    assert_eq!((scan.letters, scan.cut_short, page.next), (3, false, None));
    let one = archive::search(&rig.app, rig.query("path:$.word=needle", 1)).await.unwrap();
    assert_eq!(one.letters[0].letter.id, third);
    let mut rest = rig.query("path:$.word=needle", 1);
    rest.before = one.next;
    let rest = archive::search(&rig.app, rest).await.unwrap();
    assert_eq!(rest.letters[0].letter.id, first);
    assert!(archive::search(&rig.app, rig.query("queue:report", 10)).await.unwrap().scan.is_none());
    flip(&rig.path(&rig.settle().await[0]), 100);
    let spoiled = archive::search(&rig.app, rig.query("path:$.word=needle", 10)).await;
    assert!(matches!(spoiled, Err(ArchiveError::Damaged { .. })), "an answer without it would look whole");
    rig.test.check().await;
}

#[tokio::test]
async fn while_files_cannot_be_written_letters_wait_and_it_is_tried_less_and_less_often() {
    let rig = Rig::new(1).await;
    let letter = rig.letter("e1").await;
    rig.archive(&[letter]).await;
    // A file where the folder should be.
    let place = rig.folder.path().join("archive");
    std::fs::write(&place, "in the way").unwrap();
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle);
    let state = archive::state(&rig.app);
    let now = rig.app.clock.now();
    assert_eq!((state.failing_since, state.next_try_at), (Some(now), Some(now.plus_ms(1_000))));
    assert!(state.problem.unwrap().contains("writing a file failed"));
    rig.test.pass(1_000);
    rig.settle().await;
    let state = archive::state(&rig.app);
    assert_eq!((state.failing_since, state.next_try_at), (Some(now), Some(now.plus_ms(3_000))));
    assert_eq!(rig.place(letter).await, "waiting");

    std::fs::remove_file(&place).unwrap();
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle, "it rests");
    assert_eq!(rig.place(letter).await, "waiting");
    rig.test.pass(2_000);
    let files = rig.settle().await;
    assert_eq!((files.len(), rig.place(letter).await), (1, "file"), "what was begun was taken back");
    assert_eq!(archive::state(&rig.app).problem, None);
    rig.test.check().await;
}

#[tokio::test]
async fn a_file_that_was_begun_and_not_verified_is_taken_back() {
    let rig = Rig::new(1).await;
    let letter = rig.letter("e1").await;
    rig.archive(&[letter]).await;
    let now = rig.app.clock.now();
    let id = lazaret_core::id::FileId::mint(now, [7; 10]);
    rig.app.store.open_file(id, "letters/x.parquet".into(), now).await.unwrap();
    let folder = rig.folder.path().join("archive/letters");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["x.parquet", "x.parquet#1"] {
        std::fs::write(folder.join(name), "half of it").unwrap();
    }
    let files = rig.settle().await;
    assert!(files.iter().all(|file| file.id != id), "{files:?}");
    let mut left: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["2026"]);
    assert_eq!(rig.place(letter).await, "file");
    rig.test.check().await;
}

#[tokio::test]
async fn servers_that_share_a_database_and_no_place_let_letters_wait() {
    let store = StoreUrl::parse("postgres://db/letters").unwrap();
    let test = TestApp::with(Config { store, ..Config::default() }, Mode::Real).await;
    let entry = json!({"eventId": "e1", "originalEvent": {"pattern": "a"}, "error": {"message": "m"}});
    let id = test.report(&entry).await;
    test.post(&format!("/api/v1/dead-letters/{id}/delete"), &json!({})).await.expect(200);
    test.pass(2 * DAY_MS);
    assert_eq!(archive::tick(&test.app).await.unwrap(), Progress::Idle);
    assert_eq!(archive::state(&test.app).place, None);
    let letter = LetterId::parse(&id).unwrap();
    assert!(test.app.store.waiting_letter(letter).await.unwrap().is_some());
    test.check().await;
}
