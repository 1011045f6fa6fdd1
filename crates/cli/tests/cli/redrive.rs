//! The way back, as a person goes it: cause, fix, plan, start, watch; and what refuses, fails or is edited on the way.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::receiver::Receiver;
use crate::running::{Desk, Server, arg, entry};

/// How often the server is asked whether it has done what it does by itself; each question is a process.
const TRIES_MAX: usize = 1_000;

const ANALYSIS: &str = "\
Category: infrastructure

## Root cause

the gateway was down

## Remediation

it was started again
";

/// Reports so many letters of one type and gives the id of their incident.
fn incident(server: &Server, letter_type: &str, letters: usize) -> String {
    let lines: Vec<String> =
        (0..letters).map(|n| entry(&format!("{letter_type}-{n}"), letter_type)).collect();
    server.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
    let listed = server.json(&["ls", &format!("type:{letter_type}")]);
    listed["items"][0]["incidentId"].as_str().unwrap().to_owned()
}

pub fn diagnose(server: &Server, id: &str) {
    server.run_with_input(&["incident", "diagnose", id, "--file", "-"], ANALYSIS.as_bytes()).ok();
}

pub fn fix(server: &Server, id: &str) {
    server.run(&["incident", "fix", id, "--ref", "deploy 7"]).ok();
}

/// A plan over an incident whose gate is open, by its id.
fn planned(server: &Server, id: &str, more: &[&str]) -> String {
    diagnose(server, id);
    fix(server, id);
    let plan = server.json(&[&["redrive", "plan", "--incident", id, "--pace", "unlimited"], more].concat());
    plan["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn an_incident_is_diagnosed_fixed_put_back_and_closed() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let id = incident(&server, "order.created", 7);
    incident(&server, "mail.sent", 1);

    let shut = server.run(&["redrive", "plan", "--incident", &id]);
    assert_eq!(shut.code, 1, "{shut:?}");
    has(&shut.stdout, &["none of 7 matching", "blocked (7)", &format!("lazaret incident diagnose {id}")]);
    assert!(!shut.stdout.contains("redrive start"), "{}", shut.stdout);
    server.run(&["incident", "fix", &id, "--ref", "deploy 7"]).fails(1);
    let none = server.run(&["incident", "diagnose", &id]).fails(2);
    has(&none, &["hint: pass --category"]);

    let said = server.run_with_input(&["incident", "diagnose", &id, "--file", "-"], ANALYSIS.as_bytes());
    assert_eq!(said.stdout, format!("{id} diagnosed: is diagnosed\n"), "{said:?}");
    has(&said.stderr, &[&format!("next: lazaret incident fix {id} --ref")]);
    has(&server.run(&["redrive", "plan", "--incident", &id]).stdout, &["fix required"]);
    let said = server.run(&["incident", "fix", &id, "--ref", "deploy 7"]);
    assert_eq!(said.stdout, format!("{id} fix linked: is fixed\n"), "{said:?}");
    has(&said.stderr, &[&format!("next: lazaret redrive plan --incident {id}")]);
    server.run(&["incident", "assign", &id, "anna"]).ok();
    server.run(&["incident", "note", &id, "the gateway team knows"]).ok();

    let page = server.run(&["redrive", "plan", "--incident", &id, "--pace", "unlimited"]).ok();
    has(&page, &["selected    7 letters\n", &receiver.url, "canaries    5 letters first", "sample message"]);
    let start = page.trim_end().lines().last().unwrap().trim();
    let words: Vec<&str> = start.split(' ').skip(1).collect();
    assert_eq!((words[..2].join(" "), words[3..].join(" ")), ("redrive start".into(), "--expect 7".into()));
    assert_eq!(receiver.received().len(), 0, "a plan sends nothing");

    let wrong = server.run(&["redrive", "start", words[2], "--expect", "6"]).fails(1);
    has(&wrong, &["--expect 7"]);
    has(&server.run(&["redrive", "start", words[2]]).fails(2), &["--expect 7"]);
    let watched = server.run(&[&words[..], &["--watch"]].concat());
    assert_eq!(watched.code, 0, "{watched:?}");
    has(&watched.stdout, &["done: 7 ok, in "]);

    let received = receiver.received();
    let keys: std::collections::BTreeSet<_> =
        received.iter().map(|request| request.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!((received.len(), keys.len()), (7, 7));
    assert!(received.iter().all(|request| request.body.contains("12345678901234567890.10")));
    assert!(received.iter().all(|request| request.header("lazaret-redrive-id") == Some(words[2])));

    let page = server.run(&["incident", "show", &id]).ok();
    has(&page, &["closed", "anna", "the gateway was down", "deploy 7", "the gateway team knows", words[2]]);
    has(&server.run(&["incident", "rca", &id]).ok(), &["## DLE Incident: order.created", "deploy 7"]);
    has(&server.run(&["redrive", "ls"]).ok(), &["done", words[2]]);
    has(&server.run(&["redrive", "show", words[2]]).ok(), &["succeeded", "100.0 %"]);
    let letters = server.run(&["redrive", "show", words[2], "--letters"]).ok();
    assert_eq!(letters.matches("delivered").count(), 7, "{letters}");
    let letter = server.json(&["ls", "type:order.created", "status:resolved"])["items"][0]["id"].clone();
    has(&server.run(&["show", letter.as_str().unwrap()]).ok(), &["redrives (1)", "succeeded", words[2]]);
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn a_first_letter_that_fails_keeps_the_others_back() {
    let receiver = Receiver::start();
    receiver.answers(|_| 500);
    let server = receiver.server("");
    let id = incident(&server, "order.created", 8);
    let run = planned(&server, &id, &["--canary", "2"]);
    server.run(&["redrive", "start", &run, "--expect", "8"]).ok();
    let watched = server.run(&["redrive", "watch", &run]);
    assert_eq!(watched.code, 1, "{watched:?}");
    has(&watched.stdout, &["paused", "canaries: "]);
    has(&watched.stderr, &[&format!("lazaret redrive resume {run}"), "--outcome failed"]);
    assert!(receiver.received().len() <= 2, "only the first ones were sent");
    has(&server.run(&["redrive", "show", &run]).ok(), &["failures", "failed", "500"]);
    let cancelled = server.run(&["redrive", "cancel", &run, "--reason", "wrong fix"]).ok();
    assert_eq!(cancelled, format!("{run} is cancelled\n"));
    assert_eq!(server.json(&["ls", "type:order.created"])["total"], 8);
    server.run(&["redrive", "watch", &run]).fails(1);
    has(&server.run(&["redrive", "pace", &run, "20"]).fails(1), &["error: "]);
}

#[test]
fn a_redrive_is_paused_resumed_and_paced() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let id = incident(&server, "order.created", 20);
    diagnose(&server, &id);
    fix(&server, &id);
    // One a minute: it is still at the beginning when it is paused.
    let start =
        ["redrive", "start", "--incident", &id, "--pace", "1", "--canary", "0", "--expect", "20", "--json"];
    let run: serde_json::Value = serde_json::from_str(&server.run(&start).ok()).unwrap();
    let run = run["id"].as_str().unwrap();
    assert_eq!(
        server.run(&["redrive", "pause", run, "--reason", "lunch"]).ok(),
        format!("{run} is paused\n")
    );
    has(
        &server.run(&["redrive", "show", run]).ok(),
        &["paused: lunch", &format!("lazaret redrive resume {run}")],
    );
    let paced = server.run(&["redrive", "pace", run, "unlimited"]).ok();
    assert_eq!(paced, format!("{run} is paused, now unlimited\n"));
    assert_eq!(server.run(&["redrive", "resume", run]).ok(), format!("{run} is running\n"));
    server.run(&["redrive", "watch", run]).ok();
    assert_eq!(receiver.received().len(), 20);
}

/// An editor that puts one text in the place of another.
fn editor(from: &str, to: &str) -> Desk {
    let desk = Desk::new();
    let script = desk.file("editor", &format!("#!/bin/sh\nsed -i 's/{from}/{to}/' \"$1\"\n"));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = arg(&script).to_owned();
    let temporary = arg(desk.folder.path()).to_owned();
    desk.with_env("EDITOR", &path).with_env("VISUAL", "").with_env("TMPDIR", &temporary)
}

#[test]
fn a_letter_is_edited_and_put_back_and_the_original_stays() {
    let receiver = Receiver::start();
    receiver.answers(|request| if request.body.contains("\"order.fixed\"") { 204 } else { 422 });
    let server = receiver.server("governance = \"optional\"");
    let letter = server.letter("e-1", "order.broken");

    let failed = server.run(&["retry", &letter, "--wait"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    has(&failed.stdout, &[&format!("{letter} failed"), "422"]);

    let desk = editor("order.broken", "order.fixed");
    let retry = |desk: &Desk, more: &[&str]| {
        desk.run(&[&["--url", &server.url, "retry", &letter, "--edit"], more].concat())
    };
    has(&retry(&desk, &[]).fails(2), &["hint: pass --yes"]);
    has(&retry(&editor("nothing", "else"), &["--yes"]).fails(1), &["no changes"]);
    let none_any_more = retry(&editor("{", "["), &["--yes"]).fails(1);
    has(&none_any_more, &["edited body is not valid JSON", "saved in "]);
    let edited = retry(&desk, &["--yes", "--wait", "--header", "X-Tenant=acme", "--reason", "typo"]);
    assert_eq!(edited.code, 0, "{edited:?}");
    has(&edited.stdout, &[&format!("{letter} succeeded")]);
    has(
        &edited.stderr,
        &["-   \"pattern\": \"order.broken\"", "+   \"pattern\": \"order.fixed\"", "header X-Tenant: acme"],
    );

    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].body, r#"{"pattern":"order.fixed","amount":12345678901234567890.10}"#);
    assert_eq!(received[1].header("x-tenant"), Some("acme"));
    let page = server.run(&["show", &letter]).ok();
    has(&page, &["redrives (2)", "edit 1 (life 1)", "typo", "order.fixed"]);
    let original = server.run(&["show", &letter, "--body"]).ok();
    assert_eq!(original, r#"{"pattern":"order.broken","amount":12345678901234567890.10}"#);
}

#[test]
fn a_retry_through_a_shut_gate_says_what_opens_it() {
    let server = Receiver::start().server("");
    let letter = server.letter("e-1", "order.created");
    let id = server.json(&["show", &letter])["incidentId"].as_str().unwrap().to_owned();
    let told = server.run(&["retry", &letter]).fails(1);
    has(&told, &[&format!("hint: save the root cause: lazaret incident diagnose {id}")]);
    let short = server.run(&["retry", &letter, "--override", "now"]);
    assert_ne!(short.code, 0, "{short:?}");
    let glass = ["--override", "the shop is closed and the boss stands behind me"];
    server.run(&[&["retry", &letter, "--wait"], &glass[..]].concat()).ok();
    has(&server.run(&["audit"]).ok(), &["break_glass", "the boss stands behind me"]);
}

#[test]
fn a_log_that_was_changed_behind_our_back_is_found() {
    let server = Server::start();
    let letter = server.letter("e-1", "order.created");
    for reason in ["case 10", "case 11", "case 12"] {
        server.run(&["hold", &letter, "--reason", reason]).ok();
        server.run(&["release", &letter]).ok();
    }
    has(&server.run(&["audit", "verify"]).ok(), &["intact: "]);
    let is_linked = (0..TRIES_MAX).any(|_| server.json(&["audit", "verify"])["unlinked"] == 0);
    assert!(is_linked, "entries are not linked by themselves");
    let file = server.data().join("lazaret.db");
    let desk = server.stop();
    let offline = ["audit", "verify", "--data", "lazaret-data", "--json"];
    let intact: serde_json::Value = serde_json::from_str(&desk.run(&offline).ok()).unwrap();
    assert_eq!((&intact["intact"], &intact["linked"]), (&true.into(), &intact["entries"]), "{intact}");
    let database = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(
        database.execute("update audit set reason = 'case 13' where reason = 'case 12'", []).unwrap(),
        1
    );
    drop(database);
    let found = desk.run(&offline);
    let told: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((found.code, &told["fault"]["position"]), (1, &5.into()), "{told}");
    let server = Server::start_on(desk);
    let found = server.run(&["audit", "verify"]);
    assert_eq!(found.code, 1, "{found:?}");
    has(&found.stdout, &["audit log fault at entry "]);
    let nothing = Desk::new().run(&offline).fails(1);
    has(&nothing, &["no store in", "--data"]);
}

#[test]
fn the_log_of_a_stopped_server_is_linked_to_its_last_entry() {
    let desk = Desk::new();
    let new = ["token", "new", "--name", "me", "--role", "admin", "--data", "lazaret-data"];
    let token = desk.run(&new).ok();
    let verify = |desk: &Desk| -> serde_json::Value {
        let offline = ["audit", "verify", "--data", "lazaret-data", "--json"];
        serde_json::from_str(&desk.run(&offline).ok()).unwrap()
    };
    let made = verify(&desk);
    assert_eq!((&made["linked"], &made["unlinked"]), (&1.into(), &0.into()), "{made}");

    let server = Server::start_on(desk);
    let by = ["--token", token.trim_end()];
    server.run(&[&by[..], &["token", "new", "--name", "ci", "--role", "producer"]].concat()).ok();
    let desk = server.stop();
    let stopped = verify(&desk);
    assert_eq!((&stopped["linked"], &stopped["unlinked"]), (&2.into(), &0.into()), "{stopped}");

    // What a kill leaves unlinked is counted, and linked before the next start serves anybody.
    let server = Server::start_on(desk);
    server.run(&[&by[..], &["token", "new", "--name", "eyes", "--role", "viewer"]].concat()).ok();
    let desk = server.kill();
    let killed = verify(&desk);
    assert_eq!(killed["entries"], 3, "{killed}");
    let server = Server::start_on(desk);
    let told: serde_json::Value =
        serde_json::from_str(&server.run(&[&by[..], &["audit", "verify", "--json"]].concat()).ok()).unwrap();
    assert_eq!((&told["linked"], &told["unlinked"]), (&3.into(), &0.into()), "{told}");
}

#[test]
fn a_letter_of_which_nobody_knows_is_settled_by_a_person() {
    let receiver = Receiver::start();
    // A gateway that says so may have passed the letter on.
    receiver.answers(|_| 502);
    let server = receiver.server("governance = \"optional\"");
    let letter = server.letter("e-1", "order.created");
    let unknown = server.run(&["retry", &letter, "--wait"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    has(&unknown.stdout, &[&format!("{letter} unknown")]);
    let run = server.json(&["redrive", "ls"])["items"][0]["id"].as_str().unwrap().to_owned();
    has(&unknown.stderr, &[&format!("lazaret redrive settle {run} {letter} sent|unclaim")]);
    has(&server.run(&["redrive", "show", &run, "--outcome", "unknown"]).ok(), &[&letter]);
    assert_eq!(server.json(&["show", &letter])["status"], "reprocessing");

    server.run(&["redrive", "settle", &run, &letter, "lost"]).fails(2);
    let settled = server.run(&["redrive", "settle", &run, &letter, "unclaim"]).ok();
    assert_eq!(settled, format!("{letter} settled: pending again\n"));
    assert_eq!(server.json(&["show", &letter])["status"], "pending");
    server.run(&["redrive", "settle", &run, &letter, "unclaim"]).fails(1);
}

#[test]
fn broken_glass_takes_along_what_the_gate_refuses_and_is_loud() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let id = incident(&server, "order.created", 3);
    let plan = server.run(&["redrive", "plan", "--incident", &id, "--pace", "unlimited", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    let run = plan["id"].as_str().unwrap();
    server.run(&["redrive", "start", run, "--expect", "3"]).fails(1);
    assert_eq!(receiver.received().len(), 0);
    let glass = "payments are down and the fix is live";
    server.run(&["redrive", "start", run, "--expect", "3", "--override", glass, "--watch"]).ok();
    assert_eq!(receiver.received().len(), 3);
    has(&server.run(&["redrive", "show", run]).ok(), &[&format!("emergency override: {glass}")]);
    has(&server.run(&["audit"]).ok(), &["break_glass", glass]);
}

#[test]
fn whoever_stops_watching_does_not_stop_the_redrive() {
    let receiver = Receiver::start();
    let server = receiver.server("governance = \"optional\"");
    incident(&server, "order.created", 5);
    let start =
        ["redrive", "start", "type:order.created", "--pace", "1", "--canary", "0", "--expect", "5", "--json"];
    let run: serde_json::Value = serde_json::from_str(&server.run(&start).ok()).unwrap();
    let run = run["id"].as_str().unwrap();
    let mut watch = server
        .desk
        .command(&["--url", &server.url, "redrive", "watch", run])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    has(&line, &["running", "of 5: "]);
    assert!(Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap().success());
    let ended = watch.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8(ended.stderr).unwrap();
    has(&told, &[&format!("the redrive continues; follow again: lazaret redrive watch {run}")]);
    assert_eq!(server.json(&["redrive", "show", run])["state"], "running");
}
