//! The archive as a person uses it: what was deleted or pushed out is listed, looked at, and brought back.

use serde_json::Value;

use crate::running::{Desk, Server};

const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";

#[test]
fn deleted_letters_are_in_the_archive_until_they_are_restored() {
    let server = Server::start();
    let (a, b, held) = (server.letter("a", "t"), server.letter("b", "t"), server.letter("c", "t"));
    server.run(&["hold", &held, "--reason", "case 12"]).ok();
    let none = server.run(&["archive", "ls", "--deleted"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no deleted letters"), "{none:?}");
    assert_eq!(
        server.run(&["delete", &a, "--reason", "test data"]).ok(),
        format!("{a} deleted: was pending\n")
    );
    let gone = server.run(&["show", &a]).fails(1);
    assert!(gone.contains("was deleted by") && gone.contains(&format!("lazaret restore {a}")), "{gone}");
    assert!(server.run(&["delete", &held]).fails(1).contains("hint: release the hold first"));
    let unsaid = server.run(&["delete", "--filter", "type:t", "--expect", "2"]).fails(2);
    assert!(unsaid.contains("reason required"), "{unsaid}");
    let ran = server.run(&["delete", "--filter", "type:t", "--expect", "2", "--reason", "test data"]);
    assert!(ran.stdout.starts_with("deleted 1 letter, skipped 1\n"), "{ran:?}");

    let listed = server.run(&["archive", "ls", "--deleted"]).ok();
    assert!(listed.contains(&a) && listed.contains(&b) && !listed.contains(&held), "{listed}");
    assert!(server.run(&["archive", "ls", "--archived"]).ok().is_empty());
    assert!(!server.run(&["archive", "ls", "-event:a"]).ok().contains(&a));
    let page = server.json(&["archive", "ls", "--limit", "1"]);
    assert_eq!(page["items"][0]["id"], b);
    let rest = server.json(&["archive", "ls", "--cursor", page["nextCursor"].as_str().unwrap()]);
    assert_eq!((&rest["items"][0]["id"], rest["items"].as_array().unwrap().len()), (&a.clone().into(), 1));
    let shown = server.run(&["archive", "show", &a]).ok();
    for part in ["archived", "deleted", "12345678901234567890.10", "lazaret restore"] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let bytes = server.run(&["archive", "show", &a, "--body"]).ok();
    assert_eq!(bytes, r#"{"pattern":"t","amount":12345678901234567890.10}"#);

    assert_eq!(server.run(&["restore", &a]).ok(), format!("{a} restored: is pending\n"));
    assert!(server.run(&["restore", &a]).fails(1).contains("cannot restore"));
    assert!(server.run(&["show", &a]).ok().contains("pending"));
    assert!(!server.run(&["archive", "ls"]).ok().contains(&a));
    assert!(server.run(&["archive", "show", &a]).fails(1).contains("is not archived"));
    assert!(server.run(&["archive", "show", NOBODY]).fails(1).contains("not found"));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn by_filter_the_number_is_stated_and_has_to_be_right() {
    let server = Server::start();
    for event in ["a", "b", "c"] {
        server.letter(event, "t");
    }
    server.run(&["delete", "--filter", "type:t", "--expect", "3", "--reason", "test data"]).ok();
    let restore = |words: &[&str]| server.run(&[&["archive", "restore", "--deleted"], words].concat());
    assert!(restore(&["--filter", "type:t"]).fails(2).contains("--expect"));
    assert!(restore(&["--filter", " ", "--expect", "3"]).fails(2).contains("hint: use --all"));
    let wrong = restore(&["--filter", "type:t", "--expect", "2"]).fails(1);
    assert!(wrong.contains("3 archived letters match, expected 2"), "{wrong}");
    assert_eq!(restore(&["--filter", "event:a", "--expect", "1"]).ok(), "restored 1 letter\n");
    let json = restore(&["--all", "--expect", "2", "--reason", "needed", "--json"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["end"]["restored"], 2, "{json}");
    assert_eq!(server.json(&["stats"])["byStatus"]["pending"], 3);
    assert!(server.run(&["audit"]).ok().contains("needed"));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn files_and_their_check_say_what_there_is() {
    let server = Server::start();
    let ran = server.run(&["archive", "files"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert!(ran.stderr.contains("no letters queued for the next file"), "{ran:?}");
    assert_eq!(server.run(&["archive", "verify"]).ok(), "0 files with 0 letters verified\n");
    let end: Value = serde_json::from_str(&server.run(&["archive", "verify", "--json"]).ok()).unwrap();
    assert_eq!(end["end"]["files"], 0, "{end}");
    assert!(server.run(&["archive", "verify", NOBODY]).fails(1).contains("not found"));
    let id = server.letter("a", "t");
    server.run(&["delete", &id, "--reason", "test data"]).ok();
    let ran = server.run(&["archive", "files"]);
    assert!(ran.stderr.contains("1 letter ("), "{ran:?}");
}

#[test]
fn the_trash_is_no_command_any_more() {
    assert!(Desk::new().run(&["trash"]).fails(2).contains("unrecognized subcommand"));
}

#[test]
fn letters_in_files_are_checked_shown_and_brought_back() {
    let desk = Desk::new();
    desk.file("lazaret.toml", "[archive]\nfile_letters = 1\n");
    let server = Server::start_on(desk);
    let id = server.letter("a", "t");
    server.run(&["delete", &id, "--reason", "test data"]).ok();
    // The loop that writes files looks at the start, and then now and then.
    let server = Server::start_on(server.stop());
    let listed = wait_for_file(&server);
    let path = listed["items"][0]["path"].as_str().unwrap().to_owned();
    assert_eq!(server.run(&["archive", "verify"]).ok(), "1 file with 1 letter verified\n");
    assert!(server.run(&["archive", "files"]).ok().contains(&path));
    assert!(server.run(&["archive", "show", &id]).ok().contains(", row 0"));

    let file = server.data().join("archive").join(&path);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let bad = server.run(&["archive", "verify"]);
    assert_eq!(bad.code, 1, "{bad:?}");
    assert!(
        bad.stdout.starts_with("1 of 1 file missing or damaged\n") && bad.stdout.contains(&path),
        "{bad:?}"
    );
    let bad = server.run(&["restore", &id]).fails(1);
    assert!(bad.contains(&path) && bad.contains("hint: restore the file from a backup"), "{bad}");
    std::fs::write(&file, whole).unwrap();
    server.run(&["restore", &id]).ok();
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

/// Asks until there is a file: it is written by a loop that starts with the server.
fn wait_for_file(server: &Server) -> Value {
    for _ in 0..1_000 {
        let listed = server.json(&["archive", "files"]);
        if listed["items"][0]["state"] == "kept" {
            return listed;
        }
    }
    panic!("no file was written")
}
