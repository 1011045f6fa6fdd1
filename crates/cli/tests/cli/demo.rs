//! The demo as a person meets it: letters of fourteen days, jobs that a worker works off over HTTP, and one
//! incident whose letters can be put back.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::running::{Desk, Server};

/// Reads what is told of letters until one of a job has died.
fn wait_for_a_death(server: &Server) -> Value {
    let mut tail = server
        .desk
        .command(&["--url", &server.url, "tail", "source:jobs", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let death = events.into_iter().find(|event| event["kind"] == "dead_letter.added").expect("a death");
    tail.kill().unwrap();
    tail.wait().unwrap();
    death
}

#[test]
fn the_demo_shows_queues_workers_jobs_and_their_dead_letters() {
    let args = ["demo", "--listen", "127.0.0.1:0", "--still", "--seed", "7"];
    let server = Server::start_as(Desk::new(), &args);
    let death = wait_for_a_death(&server);
    let worker = &server.json(&["workers"])["items"][0];
    assert_eq!((&worker["id"], &worker["state"]), (&json!("shop-worker-1"), &json!("running")));
    assert_eq!((&worker["concurrency"], &worker["hostname"]), (&json!(4), &json!("shop-07")));

    let queues = server.run(&["queues"]).ok();
    for part in ["invoices", "emails", "newsletters", "paused"] {
        assert!(queues.contains(part), "{part} is missing in\n{queues}");
    }
    let waiting = server.json(&["jobs", "ls", "--queue", "newsletters", "--state", "available"]);
    assert_eq!(waiting["total"], 8);
    assert_eq!(server.json(&["jobs", "ls", "--queue", "newsletters", "--state", "scheduled"])["total"], 1);
    assert!(server.json(&["jobs", "ls", "--state", "completed"])["total"].as_u64().unwrap() > 0);

    // A letter of a job lies in the incident of the letters that died of the same before.
    let letter = server.json(&["show", death["letterId"].as_str().unwrap()]);
    assert_eq!(letter["source"], "jobs");
    let incident = server.json(&["incident", "show", letter["incidentId"].as_str().unwrap()]);
    assert!(incident["count"].as_u64().unwrap() > 10, "{incident}");
    let shown = server.run(&["jobs", "show", letter["eventId"].as_str().unwrap()]).ok();
    assert!(shown.contains("failed attempts (3)") && shown.contains("lazaret incident show "), "{shown}");

    // The cause of the bad deploy is written down before the worker begins: its letters can be put back.
    let plan =
        server.json(&["redrive", "plan", "error:KeyError", "tenant:harbour-pine-fr", "--pace", "unlimited"]);
    let (id, count) = (plan["id"].as_str().unwrap(), plan["count"].as_u64().unwrap());
    assert!(count > 10 && plan["refused"] == 0, "{plan}");
    server.run(&["redrive", "start", id, "--expect", &count.to_string(), "--watch"]).ok();
    assert_eq!(server.json(&["redrive", "show", id])["letters"]["succeeded"], count);

    // What was discarded long ago is archived, and what is disputed is held, those to come too.
    let archived = server.json(&["archive", "ls", "--archived", "--limit", "500"]);
    let archived = archived["items"].as_array().unwrap();
    assert!((5..=100).contains(&archived.len()), "{}", archived.len());
    assert!(archived.iter().all(|letter| letter["status"] == "discarded"));
    let id = archived[0]["id"].as_str().unwrap();
    assert!(server.run(&["archive", "show", id]).ok().contains("max_age"));
    server.run(&["restore", id]).ok();
    let holds = server.json(&["holds"]);
    let standing = &holds["items"][0];
    assert_eq!((&standing["kind"], &standing["by"]), (&json!("standing"), &json!("legal")), "{holds}");
    assert!(standing["letters"].as_u64().unwrap() >= 2, "{holds}");
    // Its history is some days old, and nothing of it is too old.
    let would = server.json(&["prune", "--dry-run"]);
    assert_eq!((&would["archived"], &would["deleted"]), (&json!(0), &json!(0)), "{would}");

    assert_eq!(server.run(&["workers", "quiet", "shop-worker-1"]).code, 0);
    assert_eq!(server.json(&["workers"])["items"][0]["wished"], "quiet");
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}
