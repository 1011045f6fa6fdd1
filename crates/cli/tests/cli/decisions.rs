//! Decisions on letters: one, several, by filter, and what refuses them.

use crate::running::{Server, arg, entry};

const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";

#[test]
fn letters_are_decided_by_id_and_the_audit_knows() {
    let server = Server::start();
    let (a, b) = (server.letter("a", "t"), server.letter("b", "t"));
    assert_eq!(
        server.run(&["resolve", &a, "--reason", "booked by hand"]).ok(),
        format!("{a} resolved: is resolved\n")
    );
    assert!(server.run(&["show", &a]).ok().contains("booked by hand"));

    let ran = server.run(&["resolve", NOBODY, &a, &b]);
    assert_eq!((ran.code, ran.stdout), (1, format!("{b} resolved: is resolved\n")));
    assert!(ran.stderr.contains(&format!("error: {NOBODY}: ")), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: allowed now: "), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("2 of 3 were not resolved\n"), "{}", ran.stderr);

    assert!(server.run(&["reopen", &a, &b]).ok().contains(&format!("{b} reopened: is pending")));
    assert_eq!(server.json(&["discard", &a])["status"], "discarded");
    let audit = server.run(&["audit"]).ok();
    assert!(audit.contains("booked by hand") && audit.contains("discard"), "{audit}");
    assert_eq!(server.json(&["audit", "--limit", "2"])["items"].as_array().unwrap().len(), 2);
    let held = server.json(&["audit", "--action", "hold"]);
    assert!(held["items"].as_array().unwrap().iter().all(|entry| entry["action"] == "hold"), "{held}");
    assert!(server.run(&["audit", "--actor", "nobody"]).stderr.contains("no matching entries"));
    let narrow = server.run(&["audit", "--actor", "local", "--limit", "1"]);
    assert!(
        narrow.stderr.contains("older: lazaret audit --limit 1 --actor local --before "),
        "{}",
        narrow.stderr
    );
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn by_filter_the_number_is_stated_and_has_to_be_right() {
    let server = Server::start();
    for event in ["a", "b", "c"] {
        server.letter(event, "invoice.created");
    }
    let id = server.letter("d", "order.created");

    let unstated = server.run(&["discard", "--filter", "type:invoice.*"]).fails(2);
    assert!(unstated.contains("hint: 3 letters matching") && unstated.contains("--expect 3"), "{unstated}");
    let wrong = server.run(&["discard", "--filter", "type:invoice.*", "--expect", "2"]).fails(1);
    assert!(wrong.contains("3 letters match, expected 2") && wrong.contains("hint: "), "{wrong}");
    assert_eq!(
        server.run(&["discard", "--filter", "type:invoice.*", "--expect", "3"]).ok(),
        "discarded 3 letters\n"
    );
    let empty = server.run(&["discard", "--filter", " ", "--expect", "1"]).fails(2);
    assert!(empty.contains("hint: use --all"), "{empty}");
    assert_eq!(
        server.run(&["reopen", "--filter", "type:invoice.*", "--expect", "3"]).ok(),
        "reopened 3 letters\n"
    );
    assert_eq!(server.json(&["resolve", "--all", "--expect", "4"])["done"], 4);
    assert!(server.run(&["show", &id]).ok().contains("resolved"));
    assert!(server.run(&["resolve", "--filter", "type:invoice.*"]).fails(1).contains("no matching letters"));
}

#[test]
fn what_is_held_is_not_discarded() {
    let server = Server::start();
    let (held, free) = (server.letter("a", "t"), server.letter("b", "t"));
    assert!(server.run(&["hold", &held]).fails(2).contains("reason required"));
    assert_eq!(
        server.run(&["hold", &held, "--reason", "case 12"]).ok(),
        format!("{held} held: is pending, held\n")
    );
    assert!(server.run(&["discard", &held]).fails(1).contains("hint: release the hold first"));

    let ran = server.run(&["discard", "--filter", "type:t", "--expect", "2"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.starts_with("discarded 1 letter, skipped 1\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains(&held) && !ran.stdout.contains(&free), "{}", ran.stdout);

    server.run(&["release", &held, "--reason", "closed"]).ok();
    server.run(&["discard", &held]).ok();
}

#[test]
fn a_large_decision_is_followed_to_its_end() {
    const LETTERS: usize = 10_050;
    let server = Server::start();
    let lines: Vec<String> = (0..LETTERS).map(|n| entry(&format!("e{n}"), "bulk.test")).collect();
    let file = server.desk.file("many.ndjson", &lines.join("\n"));
    assert_eq!(server.run(&["report", arg(&file)]).ok(), "created 10,050\n");
    let ran = server.run(&["discard", "--filter", "type:bulk.*", "--expect", "10050", "--reason", "a test"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "discarded 10,050 letters\n"), "{ran:?}");
    assert!(ran.stderr.contains("is running on the server"), "{}", ran.stderr);
    assert_eq!(server.json(&["stats"])["byStatus"]["discarded"], LETTERS);
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}
