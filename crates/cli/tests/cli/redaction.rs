//! What is masked in the terminal and stays out of the log, and what it takes to see it.

use serde_json::json;

use crate::running::{Desk, Server, arg};

const SECRET: &str = "hush-hush-7";
const WHY: &str = "ticket 7: what was sent";

fn letter(server: &Server) -> String {
    let entry = json!({
        "eventId": "e-1",
        "originalEvent": {"pattern": "user.created", "payload": {"name": "ada", "password": SECRET, "n": 1.50}},
        "error": {
            "type": "AuthError",
            "message": format!("login refused: password={SECRET}"),
            "stackTrace": format!("at login (Bearer {SECRET})"),
            "context": {"headers": {"authorization": format!("Bearer {SECRET}")}},
        },
    });
    let answer = server.run_with_input(&["report", "--json"], entry.to_string().as_bytes()).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["items"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_secret_is_masked_in_every_command_until_it_is_revealed() {
    let server = Server::start();
    let id = letter(&server);
    for args in [
        &["show", &id][..],
        &["show", &id, "--json"],
        &["show", &id, "--body"],
        &["show", &id, "--life", "1"],
        &["ls"],
        &["ls", "--json"],
        &["incidents"],
        &["incidents", "--json"],
    ] {
        let ran = server.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "{args:?}: {}", ran.stdout);
    }
    let shown = server.run(&["show", &id]);
    assert!(shown.stdout.contains("[redacted]") && shown.stdout.contains("ada"), "{}", shown.stdout);
    assert!(shown.stderr.contains("--reveal --reason"), "{}", shown.stderr);

    let refused = server.run(&["show", &id, "--reveal"]);
    assert_eq!(refused.code, 2, "a reason is asked for: {}", refused.stderr);
    let short = server.run(&["show", &id, "--reveal", "--reason", "because"]);
    assert_ne!(short.code, 0);
    assert!(short.stderr.contains("at least 10 characters"), "{}", short.stderr);

    let page = server.run(&["show", &id, "--reveal", "--reason", WHY]).ok();
    assert!(page.contains(SECRET) && !page.contains("[redacted]"), "{page}");
    let body = server.run(&["show", &id, "--body", "--reveal", "--reason", WHY]).ok();
    assert!(body.contains(SECRET), "{body}");
    let log = server.json(&["audit"]);
    let revealed: Vec<_> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["action"] == "letter.revealed")
        .collect();
    assert_eq!(revealed.len(), 2, "{log}");
    assert!(revealed.iter().all(|entry| entry["reason"] == WHY && entry["letterId"] == id.as_str()), "{log}");
}

#[test]
fn an_edit_that_was_made_from_what_is_shown_is_refused() {
    let server = Server::start();
    let id = letter(&server);
    let masked = server.run(&["show", &id, "--body"]).ok();
    let file = server.desk.file("fixed.json", &masked.replace("ada", "eve"));
    let refused = server.run(&["retry", &id, "--body", arg(&file), "--yes"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("contains a mask"), "{}", refused.stderr);
}

#[test]
fn the_log_holds_no_secret_even_when_it_tells_everything() {
    let desk = Desk::new().with_env("LAZARET_LOG__LEVEL", "debug,lazaret_server=trace,lazaret_store=trace");
    let log = desk.folder.path().join("log.txt");
    let server = Server::start_logging(desk, &log);
    let id = letter(&server);
    server.run(&["show", &id]).ok();
    server.run(&["show", &id, "--reveal", "--reason", WHY]).ok();
    server.run(&["retry", &id]);
    server.run(&["ls", &format!("contains:{SECRET}")]).ok();
    let _desk = server.stop();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("was revealed") && text.contains("/api/v1/dead-letters"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}
