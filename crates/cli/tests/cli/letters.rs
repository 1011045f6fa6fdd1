//! Letters come in, are found and are shown whole.

use std::process::Stdio;

use crate::running::{Server, arg, entry};

fn three() -> String {
    [entry("e1", "invoice.created"), entry("e2", "invoice.paid"), entry("e3", "order.created")].join("\n")
}

#[test]
fn letters_from_a_file_are_stored_once_and_listed() {
    let server = Server::start();
    let file = server.desk.file("failed.ndjson", &three());
    assert_eq!(server.run(&["report", arg(&file)]).ok(), "created 3\n");
    assert_eq!(server.run(&["report", arg(&file)]).ok(), "created 0, duplicate 3\n");

    let listed = server.run(&["ls", "type:invoice.*"]);
    assert_eq!(listed.code, 0);
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.stdout);
    assert!(listed.stdout.starts_with("ID "), "{}", listed.stdout);
    assert!(listed.stdout.contains("TimeoutError"), "{}", listed.stdout);
    assert!(!listed.stdout.contains('\u{1b}'));
    assert_eq!(listed.stderr, "2 of 2 letters · type:invoice.* status:pending\n");

    let none = server.run(&["ls", "type:nothing"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert_eq!(none.stderr, "no letters match type:nothing status:pending\n");
}

#[test]
fn pages_follow_each_other_and_all_pages_are_one_stream() {
    let server = Server::start();
    server.run_with_input(&["report"], three().as_bytes()).ok();
    let first = server.run(&["ls", "--limit", "2"]);
    let next = first.stderr.lines().find_map(|line| line.strip_prefix("next page: lazaret ")).unwrap();
    let args: Vec<&str> = next.split(' ').collect();
    let second = server.run(&args);
    assert_eq!((second.code, second.stdout.lines().count()), (0, 2), "{second:?}");

    let stream = server.run(&["ls", "--all-pages", "--limit", "1", "--json"]).ok();
    let ids: std::collections::BTreeSet<String> = stream
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(server.run(&["ls", "--all-pages", "--limit", "1"]).ok().lines().count(), 4);
}

#[test]
fn a_letter_is_shown_whole_and_its_body_is_exact() {
    let server = Server::start();
    let event = "{\n  \"pattern\": \"a.b\",\t\"n\": 1.000,\n  \"name\": \"\\u00fc \u{202e}\"\n}";
    let text = format!(
        r#"{{"eventId": "e\u001b[2J", "originalEvent": {event}, "error": {{"type": "T", "message": "x\u001b]0;owned\u0007"}}}}"#
    );
    let answer = server.run_with_input(&["report", "--json"], text.as_bytes()).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let id = answer["items"][0]["id"].as_str().unwrap();

    assert_eq!(server.run(&["show", id, "--body"]).ok(), event);
    assert_eq!(server.run(&["show", id, "--body", "--life", "1"]).ok(), event);
    let page = server.run(&["show", id]).ok();
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page:?}");
    for part in ["pending", "\"n\": 1.000", "\\u202e", "x\\u{1b}]0;owned", &format!("lazaret discard {id}")] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    assert!(server.run(&["show", id, "--json"]).ok().contains("\"n\": 1.000"));
    let listed = server.run(&["ls", "--color", "always"]).ok();
    assert!(!listed.contains("\u{1b}]"), "{listed:?}");
}

#[test]
fn stats_count_and_the_ledger_is_in_order() {
    let server = Server::start();
    server.run_with_input(&["report"], three().as_bytes()).ok();
    let stats = server.run(&["stats"]).ok();
    for part in ["3 letters", "by type", "TimeoutError", "oldest died"] {
        assert!(stats.contains(part), "{part} is missing in\n{stats}");
    }
    assert_eq!(server.json(&["stats", "--status", "resolved"])["total"], 0);
    assert!(server.run(&["ledger"]).ok().contains("captured"));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
    let recount = server.json(&["ledger", "verify"]);
    assert_eq!((&recount["difference"], &recount["recounted"]), (&0.into(), &true.into()));
}

#[test]
fn every_way_to_write_entries_is_understood() {
    let server = Server::start();
    let (a, b) = (entry("a", "t"), entry("b", "t"));
    let array = server.desk.file("array.json", &format!("[{a},\n{b}]"));
    let batch = server.desk.file("batch.json", &format!("{{\"items\":[{a},{b}]}}"));
    let lines = server.desk.file("lines.txt", &format!("{a}\n\n{b}\n"));
    assert_eq!(server.run(&["report", arg(&array)]).ok(), "created 2\n");
    assert_eq!(server.run(&["report", arg(&batch), arg(&lines)]).ok(), "created 0, duplicate 4\n");
    assert_eq!(
        server.run_with_input(&["report", "--ndjson", "-"], a.as_bytes()).ok(),
        "created 0, duplicate 1\n"
    );
}

#[test]
fn a_refused_entry_is_told_with_its_line_and_spoils_no_other() {
    let server = Server::start();
    let text = format!("{}\n\nnot json\n{}\n{{\"eventId\":\"x\"}}\n", entry("a", "t"), entry("b", "t"));
    let file = server.desk.file("mixed.jsonl", &text);
    let ran = server.run(&["report", arg(&file)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "created 2, refused 2\n"), "{ran:?}");
    assert!(ran.stderr.contains("mixed.jsonl: line 3: refused: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 5: refused: originalEvent is missing"), "{}", ran.stderr);

    let ran = server.run(&["report", arg(&file), "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &answer["duplicate"], &answer["refused"]), (1, &2.into(), &2.into()));
    assert_eq!(answer["items"][1]["line"], 3);

    let single = server.run_with_input(&["report"], b"{\"eventId\":\"x\"}");
    assert!(single.fails(1).contains("stdin: entry 1: refused: originalEvent is missing"));
    assert!(server.run_with_input(&["report"], b"{ nonsense").fails(1).contains("neither JSON nor NDJSON"));
    assert!(server.run_with_input(&["report"], b" \n").fails(1).contains("input is empty"));
    assert!(server.run(&["report", "no-such-file"]).fails(1).contains("cannot read no-such-file"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let server = Server::start();
    server.run_with_input(&["report"], three().as_bytes()).ok();
    let mut child = server
        .desk
        .command(&["--url", &server.url, "ls", "--all-pages", "--limit", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
