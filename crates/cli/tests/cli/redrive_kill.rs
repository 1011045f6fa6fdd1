//! The server is killed in the middle of a redrive, again and again, and started again on the same store: every letter
//! arrives, what arrives twice has the same key, and where the receiver does not know a repetition nothing arrives twice.
//!
//! `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it; `cargo xtask torture` sets them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use lazaret_store::testing::TestDatabase;
use serde_json::{Value, json};

use crate::receiver::{Received, Receiver};
use crate::redrive::{diagnose, fix, has};
use crate::running::{Desk, Server};
use crate::torture::{Random, setting};

const LETTERS: usize = 5_000;
const KILLS_PER_REDRIVE: usize = 5;

/// The most requests between two kills: the last one comes while letters are left.
const REQUESTS_PER_KILL: usize = LETTERS / (KILLS_PER_REDRIVE + 2);

/// Letters on their way at once: so many can be in doubt after a kill.
const AT_ONCE: &str = "16";

/// How long a redrive may take after the last kill. On an embedded store that is less than a lease takes to end by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// The subscriber that takes a key once. The others, whose letters name none, take whatever comes.
const KNOWS: &str = "knows";

#[test]
fn a_redrive_outlives_kills_of_its_server_on_the_embedded_store() {
    let receiver = Receiver::start();
    let desk = Desk::new();
    desk.file("lazaret.toml", &settings(&receiver, "30s", "60s"));
    under_kills(&receiver, desk, &[]);
}

#[test]
fn a_redrive_outlives_kills_of_its_server_on_postgresql() {
    let (receiver, database) = (Receiver::start(), TestDatabase::bare());
    let desk = Desk::new();
    // What a killed server had claimed lies until its lease is over: as short as can be.
    desk.file("lazaret.toml", &settings(&receiver, "1s", "7s"));
    under_kills(&receiver, desk, &["--store", &database.url()]);
}

/// Half of the letters go to a receiver that knows a repetition, the others to one that does not.
fn settings(receiver: &Receiver, timeout: &str, lease: &str) -> String {
    let url = &receiver.url;
    let to = format!("url = \"{url}\"\nallow_private = true\ntimeout = \"{timeout}\"\n");
    format!(
        "[redrive]\nlease = \"{lease}\"\n[sources.report.destination]\n{to}\
         [sources.report.subscribers.{KNOWS}]\n{to}deduplicates = true\n"
    )
}

/// What happened to letters that were in doubt.
#[derive(Default)]
struct Doubt {
    /// Arrived more than once.
    repeated: usize,
    /// Were settled by a person, as sent and as not sent.
    sent: usize,
    unclaimed: usize,
}

fn under_kills(receiver: &Receiver, desk: Desk, store: &[&str]) {
    // Half of the kills for each store.
    let kills = setting("LAZARET_TORTURE_ROUNDS", 10).div_ceil(2);
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let mut random = Random(seed);
    let mut doubt = Doubt::default();
    let mut server = Server::start_with(desk, store);
    let redrives = kills.div_ceil(KILLS_PER_REDRIVE as u64);
    for redrive in 0..redrives {
        let letter_type = format!("order.r{redrive}");
        let incident = report(&server, &letter_type);
        let run = start(&server, &incident, LETTERS);
        for _ in 0..KILLS_PER_REDRIVE {
            receiver.wait_for_more(1 + random.below(REQUESTS_PER_KILL as u64) as usize);
            let desk = server.kill();
            receiver.wait_until_alone();
            server = Server::start_with(desk, store);
        }
        wait_for_end(&server, &run);
        settle(&server, receiver, &incident, &run, &mut doubt);
        doubt.repeated += verify(&server, receiver, &letter_type, &incident);
    }
    let Doubt { repeated, sent, unclaimed } = doubt;
    println!(
        "{} kills in {redrives} redrives of {LETTERS}, seed {seed}: {repeated} letters sent again, \
         {sent} settled as sent, {unclaimed} as not sent",
        redrives * KILLS_PER_REDRIVE as u64
    );
    assert!(repeated > 0 && sent + unclaimed > 0, "no kill left a letter in doubt: the test proved nothing");
}

/// Reports letters of one cause, whose fix is named; gives the incident.
fn report(server: &Server, letter_type: &str) -> String {
    let entry = |n: usize| {
        let knows = n.is_multiple_of(2);
        let mut entry = json!({
            "eventId": format!("{letter_type}-{n}"),
            "originalEvent": {"pattern": letter_type, "n": n, "knows": knows},
            "error": {"type": "TimeoutError", "message": "no answer from the gateway"},
        });
        if knows {
            entry["subscriberId"] = KNOWS.into();
        }
        entry.to_string()
    };
    let lines: Vec<String> = (0..LETTERS).map(entry).collect();
    server.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
    let listed = server.json(&["ls", &format!("type:{letter_type}")]);
    let incident = listed["items"][0]["incidentId"].as_str().unwrap().to_owned();
    diagnose(server, &incident);
    fix(server, &incident);
    incident
}

fn start(server: &Server, incident: &str, letters: usize) -> String {
    let how = ["--pace", "unlimited", "--canary", "0", "--concurrency", AT_ONCE, "--stop-percent", "100"];
    let which = ["redrive", "start", "--incident", incident, "--expect", &letters.to_string()];
    let started = server.json(&[&which[..], &how[..]].concat());
    started["id"].as_str().unwrap().to_owned()
}

/// Watches a redrive until it is done.
fn wait_for_end(server: &Server, run: &str) {
    let mut watch = server.desk.command(&["--url", &server.url, "redrive", "watch", run]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(watch.wait_with_output().unwrap()));
    let watched = end.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        panic!("the redrive does not end: {}", server.run(&["redrive", "show", run]).ok())
    });
    // It says by its code that letters are unknown, which is not what is asked here.
    has(&String::from_utf8(watched.stdout).unwrap(), &["done: "]);
}

/// Decides about letters of which nobody knows by what the receiver has, and puts back what it has not.
fn settle(server: &Server, receiver: &Receiver, incident: &str, run: &str, doubt: &mut Doubt) {
    let arrived: BTreeSet<String> = receiver.received().iter().map(letter_of).collect();
    let unknown = server.json(&["redrive", "show", run, "--outcome", "unknown", "--limit", "500"]);
    let mut unclaimed = 0;
    for letter in unknown["items"].as_array().unwrap() {
        let id = letter["letterId"].as_str().unwrap();
        let word = if arrived.contains(id) { "sent" } else { "unclaim" };
        server.run(&["redrive", "settle", run, id, word]).ok();
        unclaimed += usize::from(word == "unclaim");
        doubt.sent += usize::from(word == "sent");
    }
    doubt.unclaimed += unclaimed;
    let shown = server.json(&["redrive", "show", run]);
    let count = |outcome: &str| shown["letters"][outcome].as_u64().unwrap() as usize;
    assert_eq!(shown["state"], "done", "{shown}");
    assert_eq!((count("unknown"), count("failed")), (0, unclaimed), "{}", shown["letters"]);
    assert_eq!(count("succeeded") + count("assumed") + unclaimed, LETTERS, "{}", shown["letters"]);
    if unclaimed > 0 {
        let rest = start(server, incident, unclaimed);
        wait_for_end(server, &rest);
    }
}

/// Compares what arrived with what was to arrive; says how many letters came more than once.
fn verify(server: &Server, receiver: &Receiver, letter_type: &str, incident: &str) -> usize {
    let received = receiver.received();
    let mut arrived: BTreeMap<u64, Vec<(&Received, bool)>> = BTreeMap::new();
    for request in &received {
        let event: Value = serde_json::from_str(&request.body).unwrap();
        if event["pattern"] == letter_type {
            let knows = event["knows"].as_bool().unwrap();
            arrived.entry(event["n"].as_u64().unwrap()).or_default().push((request, knows));
        }
    }
    let missing: Vec<usize> = (0..LETTERS).filter(|n| !arrived.contains_key(&(*n as u64))).collect();
    assert!(missing.is_empty(), "never arrived: {missing:?}");
    let mut repeated = 0;
    for (n, requests) in &arrived {
        let header = |name: &str| -> BTreeSet<&str> {
            requests.iter().map(|(request, _)| request.header(name).unwrap()).collect()
        };
        let letter = letter_of(requests[0].0);
        assert_eq!(header("lazaret-letter-id"), BTreeSet::from([letter.as_str()]), "{n}");
        assert_eq!(header("lazaret-life"), BTreeSet::from(["1"]), "{n}");
        // However often one send is repeated, its key stays. A claim that was given back unsent uses up a number.
        let keys = header("idempotency-key");
        let is_one_key = keys.len() == 1 && keys.iter().all(|key| key.starts_with(&format!("{letter}:1:")));
        assert!(is_one_key, "{n}: {keys:?}");
        assert!(requests.len() == 1 || requests[0].1, "{n} arrived {} times", requests.len());
        repeated += usize::from(requests.len() > 1);
    }
    assert_eq!(server.json(&["ls", &format!("type:{letter_type}"), "status:resolved"])["total"], LETTERS);
    assert_eq!(server.json(&["incident", "show", incident])["state"], "closed");
    let ledger = server.json(&["ledger", "verify"]);
    assert_eq!((&ledger["difference"], &ledger["wrongCounters"]), (&json!(0), &json!(0)), "{ledger}");
    repeated
}

fn letter_of(request: &Received) -> String {
    request.header("lazaret-letter-id").unwrap().to_owned()
}
