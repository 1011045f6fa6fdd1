//! Jobs, queues and workers from the terminal, against a server that runs.

use serde_json::{Value, json};

use crate::running::Server;

/// Sends one request as a worker would, and gives the answer's body.
fn post(server: &Server, path: &str, body: &Value) -> Value {
    use std::io::{Read, Write};
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn fetch(server: &Server, queue: &str) -> Vec<String> {
    let wish = json!({"queues": [queue], "count": 10, "worker_id": "w-1"});
    let jobs = post(server, "/ojs/v1/workers/fetch", &wish);
    jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_is_pushed_listed_shown_and_cancelled() {
    let server = Server::start();
    let none = server.run(&["jobs", "ls"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (0, "", "no jobs\n"));
    let args = ["jobs", "push", "mail.send", "[12345678901234567890, \"a\\u001b[2J\"]", "--queue", "mails"];
    let pushed = server.run(&[&args[..], &["--priority", "-5", "--meta", "tenant_id=acme"]].concat());
    assert_eq!((pushed.code, pushed.stderr.as_str()), (0, "available in queue mails\n"), "{pushed:?}");
    let id = pushed.stdout.trim_end();
    let delayed = server.json(&["jobs", "push", "report.make", "--delay", "10m", "--max-attempts", "7"]);
    assert_eq!((&delayed["job"]["state"], &delayed["job"]["max_attempts"]), (&json!("scheduled"), &json!(7)));
    let piped = server.run_with_input(&["jobs", "push", "mail.sort", "-", "--json"], b"[1.00]\n").ok();
    assert!(piped.contains("\"args\":[1.00]"), "{piped}");

    let huge = format!("[\"{}\"]", "x".repeat(2 * 1024 * 1024));
    let refused = server.run_with_input(&["jobs", "push", "mail.sort", "-"], huge.as_bytes()).fails(1);
    assert!(refused.contains("exceed") && refused.contains("hint: "), "{refused}");

    let listed = server.run(&["jobs", "ls"]);
    assert_eq!((listed.stdout.lines().count(), listed.stderr.as_str()), (4, "3 of 3 jobs\n"), "{listed:?}");
    assert_eq!(server.json(&["jobs", "ls", "--queue", "mails"])["items"][0]["id"], id);
    assert_eq!(server.json(&["jobs", "ls", "--type", "mail.*"])["total"], 2);
    let page = server.run(&["jobs", "ls", "--limit", "2"]);
    let next = page.stderr.lines().find_map(|line| line.strip_prefix("next page: lazaret ")).unwrap();
    let rest = server.run(&next.split(' ').collect::<Vec<_>>());
    assert!(rest.stdout.contains(id) && rest.stdout.lines().count() == 2, "{rest:?}");

    let shown = server.run(&["jobs", "show", id]).ok();
    for part in ["available", "mails", "12345678901234567890", "acme", &format!("lazaret jobs cancel {id}")] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert_eq!(server.run(&["jobs", "cancel", id]).ok(), format!("{id} cancelled: was available\n"));
    let again = server.run(&["jobs", "cancel", id]).fails(1);
    assert!(again.contains("cancelled") && again.contains("hint: "), "{again}");
}

#[test]
fn what_is_wrong_is_said_before_or_by_the_server() {
    let server = Server::start();
    for (args, part) in [
        (&["jobs", "push", "t", "{}"][..], "JSON array"),
        (&["jobs", "push", "t", "[1"], "not JSON"),
        (&["jobs", "push", "t", "--delay", "soon"], "not a length of time"),
        (&["jobs", "push", "t", "--meta", "x"], "tenant_id=acme"),
        (&["jobs", "push", "t", "--id", "x"], "--id"),
        (&["jobs", "push", "Bad Type"], "type"),
        (&["jobs", "push", "t", "--priority", "101"], "priority"),
        (&["jobs", "ls", "--state", "dead"], "discarded"),
        (&["jobs", "show", "x"], "ID"),
        (&["queues", "pause", "Bad Name"], "not a valid queue name"),
    ] {
        let told = server.run(args).fails(2);
        assert!(told.contains(part), "{args:?}: {told}");
    }
    let unknown = "019a8b1c-7e00-7000-8000-000000000000";
    assert!(server.run(&["jobs", "show", unknown]).fails(1).contains("not found"));
    assert!(server.run(&["workers", "quiet", "nobody"]).fails(1).contains("hint: a worker is registered"));
}

#[test]
fn a_job_that_dies_leads_to_its_letter_and_its_incident() {
    let server = Server::start();
    let id = server.run(&["jobs", "push", "mail.send", "--max-attempts", "1", "--dead-letter"]).ok();
    let id = id.trim_end();
    assert_eq!(fetch(&server, "default"), [id]);
    let failure = json!({"job_id": id, "error": {"type": "SmtpError", "message": "421 busy"}});
    post(&server, "/ojs/v1/workers/nack", &failure);
    let shown = server.run(&["jobs", "show", id]).ok();
    for part in ["discarded", "1/1", "SmtpError: 421 busy", "dead letter", "lazaret incident show "] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let letter = shown.lines().find_map(|line| line.trim().strip_prefix("lazaret show ")).unwrap();
    assert!(server.run(&["show", letter]).ok().contains("SmtpError"));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn queues_are_listed_and_paused() {
    let server = Server::start();
    assert!(server.run(&["queues"]).stderr.contains("no queues"));
    server.run(&["jobs", "push", "t", "--queue", "a"]).ok();
    assert_eq!(server.run(&["queues", "pause", "a"]).ok(), "a paused\n");
    assert!(fetch(&server, "a").is_empty());
    let listed = server.run(&["queues"]);
    assert!(listed.stdout.contains("paused") && listed.stderr.contains("1 paused"), "{listed:?}");
    assert_eq!(server.run(&["queues", "resume", "a"]).ok(), "a resumed\n");
    assert_eq!(fetch(&server, "a").len(), 1);
    let queue = &server.json(&["queues"])["items"][0];
    assert_eq!((&queue["paused"], &queue["counts"]["active"]), (&json!(false), &json!(1)));
    for n in 0..101 {
        server.run(&["queues", "resume", &format!("q{n}")]).ok();
    }
    assert_eq!(server.run(&["queues"]).ok().lines().count(), 103, "all pages");
    assert_eq!(server.json(&["queues"])["items"].as_array().unwrap().len(), 102);
}

#[test]
fn workers_are_listed_and_told() {
    let server = Server::start();
    assert!(server.run(&["workers"]).stderr.contains("no workers"));
    let id = server.run(&["jobs", "push", "t"]).ok();
    fetch(&server, "default");
    let beat = json!({
        "worker_id": "w-1", "active_jobs": [id.trim_end()], "hostname": "h\u{1b}]0;owned\u{7}",
        "pid": 4711, "queues": ["default"], "concurrency": 10,
    });
    assert_eq!(post(&server, "/ojs/v1/workers/heartbeat", &beat)["state"], "running");
    let listed = server.run(&["workers"]).ok();
    for part in ["w-1", "running", "4711", "default", "1/10", "just now"] {
        assert!(listed.contains(part), "{part} is missing in\n{listed}");
    }
    assert!(!listed.contains('\u{1b}'), "{listed:?}");
    server.run(&["workers", "quiet", "w-1"]).ok();
    server.run(&["jobs", "push", "t"]).ok();
    assert!(fetch(&server, "default").is_empty());
    assert_eq!(post(&server, "/ojs/v1/workers/heartbeat", &beat)["state"], "quiet");
    server.run(&["workers", "resume", "w-1"]).ok();
    server.run(&["workers", "terminate", "w-1"]).ok();
    assert_eq!(server.json(&["workers"])["items"][0]["wished"], "terminate");
    let refused = server.run(&["workers", "resume", "w-1"]).fails(1);
    assert!(refused.contains("cannot be undone") && refused.contains("hint: "), "{refused}");
    assert!(server.run(&["audit"]).ok().contains("worker_terminate"));
}

#[test]
fn a_list_of_several_pages_has_the_shape_of_one() {
    let server = Server::start();
    let jobs = |queues: std::ops::Range<u32>| -> Value {
        queues.map(|n| json!({"type": "t", "args": [], "options": {"queue": format!("q{n}")}})).collect()
    };
    post(&server, "/ojs/v1/jobs/batch", &json!({"jobs": jobs(0..3)}));
    let few = server.json(&["queues"]);
    post(&server, "/ojs/v1/jobs/batch", &json!({"jobs": jobs(3..102)}));
    let many = server.json(&["queues"]);
    let names = |list: &Value| list.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&many), names(&few));
    assert_eq!((many["items"].as_array().unwrap().len(), &many["total"]), (102, &json!(102)));
    assert_eq!(many["pagination"]["has_more"], false);
    assert_eq!(server.run(&["queues"]).ok().lines().count(), 103);
}
