//! Holds as a person uses them: placed by id, by filter or standing, listed, shown, released.

use crate::running::Server;

const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";

#[test]
fn a_hold_is_placed_listed_shown_and_released() {
    let server = Server::start();
    let (a, b) = (server.letter("a", "t"), server.letter("b", "t"));
    let none = server.run(&["holds"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no holds"), "{none:?}");

    // The short forms stay what they were.
    assert_eq!(
        server.run(&["hold", &a, "--reason", "case 12"]).ok(),
        format!("{a} held: is pending, held\n")
    );
    let placed = server.json(&["hold", &a, "--until", "365d", "--reason", "case 13"]);
    let id = placed["id"].as_str().unwrap();
    assert!(placed["until"].is_string(), "{placed}");
    assert_eq!(
        server.run(&["hold", "--filter", "type:t", "--expect", "2", "--reason", "case 14"]).ok(),
        "held 2 letters\n"
    );
    let listed = server.run(&["holds"]).ok();
    for part in ["case 12", "case 13", "case 14", "type:t", id] {
        assert!(listed.contains(part), "{part} is missing in\n{listed}");
    }
    assert_eq!(server.json(&["holds", "--limit", "1"])["items"].as_array().unwrap().len(), 1);
    let shown = server.run(&["holds", "show", id]).ok();
    assert!(shown.contains("case 13") && shown.contains(&a) && !shown.contains(&b), "{shown}");
    let letter = server.run(&["show", &a]).ok();
    assert!(letter.contains("holds (3)") && letter.contains("case 14"), "{letter}");

    assert!(server.run(&["holds", "release", id]).fails(2).contains("reason required"));
    assert_eq!(
        server.run(&["holds", "release", id, "--reason", "closed"]).ok(),
        format!("{id} is released\n")
    );
    assert!(server.run(&["holds", "release", id, "--reason", "closed"]).fails(1).contains("already ended"));
    assert!(server.run(&["delete", &a]).fails(1).contains("hint: release the hold first"));
    assert!(!server.run(&["holds"]).ok().contains(id) && server.run(&["holds", "--ended"]).ok().contains(id));
    server.run(&["release", &a, "--reason", "all closed"]).ok();
    server.run(&["delete", &a]).ok();
    assert!(server.run(&["holds", "show", NOBODY]).fails(1).contains("not found"));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn a_standing_hold_is_on_letters_to_come() {
    let server = Server::start();
    server.letter("a", "order.created");
    let told = server.run(&["hold", "--filter", "type:order.*", "--standing", "--reason", "case 12"]).ok();
    assert!(told.starts_with("hold ") && told.ends_with(" on 1 letter and future matches\n"), "{told}");
    let (later, other) = (server.letter("b", "order.created"), server.letter("c", "mail.sent"));
    assert!(server.run(&["discard", &later]).fails(1).contains("hint: release the hold first"));
    server.run(&["discard", &other]).ok();
    let hold = &server.json(&["holds"])["items"][0];
    assert_eq!((&hold["kind"], &hold["letters"]), (&"standing".into(), &2.into()));
}

#[test]
fn a_mistake_is_told_before_anything_is_held() {
    let server = Server::start();
    let id = server.letter("a", "t");
    for (words, part) in [
        (&["hold", &id][..], "reason required"),
        (&["hold", &id, "--until", "1d"], "reason required"),
        (&["hold", &id, "--until", "P1Y", "--reason", "x"], "use a duration such as 365d"),
        (&["hold", &id, "--until", "2020-01-01T00:00:00Z", "--reason", "x"], "is in the past"),
        (&["hold", &id, "--standing", "--reason", "x"], "cannot be used with"),
        (
            &["hold", "--filter", "type:t", "--standing", "--expect", "1", "--reason", "x"],
            "cannot be used with",
        ),
        (&["hold", "--filter", " ", "--standing", "--reason", "x"], "hint: use --all"),
        (&["hold", "--filter", "type:t", "--until", "1d", "--reason", "x"], "--expect 1"),
        (&["hold", "--standing", "--reason", "x"], "required"),
    ] {
        let ran = server.run(words);
        assert!(ran.code != 0 && ran.stderr.contains(part), "{words:?}: {ran:?}");
    }
    let wrong = server
        .run(&["hold", "--filter", "type:t", "--count", "2", "--until", "1d", "--reason", "x"])
        .fails(1);
    assert!(wrong.contains("1 letters match, expected 2"), "{wrong}");
    assert!(server.run(&["holds"]).ok().is_empty());
}
