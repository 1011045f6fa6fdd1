//! Events are followed through everything that happens to a connection.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use crate::running::{Desk, Server, entry};
use crate::scripted::{Act, Scripted, answer};

/// A running `lazaret tail`; it is killed when the test ends.
pub struct Tail {
    child: Child,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Tail {
    pub fn start(desk: &Desk, url: &str, args: &[&str]) -> Tail {
        let mut child = desk
            .command(&[&["--url", url, "tail"], args].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Some(BufReader::new(child.stdout.take().unwrap()).lines());
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Tail { child, stdout, stderr }
    }

    fn line(&mut self) -> String {
        self.stdout.as_mut().unwrap().next().expect("an event").unwrap()
    }

    pub fn json(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Reads what it says until this is said.
    fn told(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let line =
                self.stderr.next().unwrap_or_else(|| panic!("{part} was not told, but\n{all}")).unwrap();
            all.push_str(&line);
            all.push('\n');
            if line.contains(part) {
                return all;
            }
        }
    }

    /// Ends it as a person does, and gives the exit code.
    fn interrupt(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn event(position: u64, kind: &str) -> String {
    format!(
        "id: {position}\nevent: {kind}\ndata: {{\"id\":\"evt_{position}\",\"position\":{position},\"at\":\"2025-11-15T03:00:12.345Z\",\"kind\":\"{kind}\",\"letterId\":\"019a8b1c-7e00-7000-8000-000000000000\",\"n\":1.00}}\n\n"
    )
}

fn stream(content: &str) -> Act {
    answer("200 OK", "text/event-stream", content)
}

#[test]
fn what_happens_is_told_as_it_happens() {
    let server = Server::start();
    server.letter("before", "t");
    let mut tail = Tail::start(&server.desk, &server.url, &["--json"]);
    tail.told("following after event ");
    let id = server.letter("after", "invoice.created");
    let mut kinds = Vec::new();
    loop {
        let event = tail.json();
        kinds.push(event["kind"].as_str().unwrap().to_owned());
        if event["kind"] == "dead_letter.added" {
            assert_eq!(
                (&event["letterId"], &event["letter"]["type"]),
                (&id.as_str().into(), &"invoice.created".into())
            );
            break;
        }
    }
    server.run(&["resolve", &id, "--reason", "by hand"]).ok();
    while tail.json()["kind"] != "dead_letter.resolved" {}
    assert_eq!(tail.interrupt(), Some(0));
}

#[test]
fn kinds_and_letters_are_chosen_and_the_past_is_told_too() {
    let server = Server::start();
    let lines =
        [entry("a", "invoice.created"), entry("b", "order.created"), entry("c", "invoice.paid")].join("\n");
    server.run_with_input(&["report", "--ndjson"], lines.as_bytes()).ok();
    let args = ["--from-start", "--kind", "dead_letter.*", "type:order.*", "--json"];
    let event = Tail::start(&server.desk, &server.url, &args).json();
    assert_eq!(
        (&event["kind"], &event["letter"]["type"]),
        (&"dead_letter.added".into(), &"order.created".into())
    );

    let position = event["position"].to_string();
    let args = ["--after", &position, "--kind", "dead_letter.added", "--json"];
    assert_eq!(Tail::start(&server.desk, &server.url, &args).json()["letter"]["type"], "invoice.paid");

    let line =
        Tail::start(&server.desk, &server.url, &["--from-start", "--kind", "dead_letter.added"]).line();
    for part in ["Z dead_letter.added invoice.created", "TimeoutError: no answer from a", " incident:"] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    assert!(server.run(&["tail", "quue:a"]).fails(2).contains("did you mean `queue`?"));
    assert!(server.run(&["tail", "--after", "1", "--from-start"]).fails(2).contains("--from-start"));
}

#[test]
fn a_broken_connection_goes_on_behind_the_last_event() {
    let first = format!("retry: 1000\n\n{}: beat\n\n{}id: 9\nevent: dead_", event(3, "a.b"), event(4, "c.d"));
    let lost = "event: lost\ndata: {\"reason\":\"events are kept for 7 days\",\"asked\":4,\"oldest\":10}\n\n";
    let second = format!(
        "{lost}{}: beat\nid: 12\n\nevent: dropped\ndata: {{\"reason\":\"too slow\",\"resumeAfter\":12}}\n\n",
        event(10, "e.f")
    );
    let server = Scripted::start(vec![stream(&first), stream(&second), stream(&event(13, "g.h"))]);
    let desk = Desk::new();
    let mut tail = Tail::start(&desk, &server.url, &["--after", "2", "--kind", "*", "--json"]);
    let positions: Vec<u64> = (0..4).map(|_| tail.json()["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, [3, 4, 10, 13]);
    for (position, query) in [("2", "kind=*"), ("4", "kind=*"), ("12", "kind=*")] {
        let request = server.request();
        assert!(request.contains(&format!("last-event-id: {position}\r\n")), "{request}");
        assert!(request.contains(query) && request.contains("accept: text/event-stream"), "{request}");
    }
    let told = tail.told("disconnected by the server: too slow");
    assert!(told.contains("the server ended the stream; retrying in 1 s"), "{told}");
    assert!(told.contains("5 events lost: events are kept for 7 days"), "{told}");
    assert_eq!(tail.interrupt(), Some(0));
}

#[test]
fn a_place_ahead_of_every_event_is_told_without_a_count() {
    let lost = "id: 4\nevent: lost\ndata: {\"reason\":\"this place is ahead of every event\",\"asked\":99,\"oldest\":5}\n\n";
    let server = Scripted::start(vec![stream(&format!("{lost}{}", event(5, "a.b")))]);
    let desk = Desk::new();
    let mut tail = Tail::start(&desk, &server.url, &["--after", "99", "--json"]);
    assert_eq!(tail.json()["position"], 5);
    let told = tail.told("ahead of every event");
    let expected = "this place is ahead of every event; continuing with the oldest stored event\n";
    assert!(told.ends_with(expected) && !told.contains("0 events"), "{told}");
}

#[test]
fn from_the_start_is_asked_until_there_is_a_place_to_go_on_from() {
    let silent = stream("retry: 1000\n\n");
    let server = Scripted::start(vec![silent, stream(&event(7, "a.b")), stream(&event(8, "c.d"))]);
    let desk = Desk::new();
    let mut tail = Tail::start(&desk, &server.url, &["--from-start", "--kind", "*", "--json"]);
    assert_eq!([tail.json()["position"].as_u64(), tail.json()["position"].as_u64()], [Some(7), Some(8)]);
    for _ in 0..2 {
        let request = server.request();
        assert!(request.starts_with("get /api/v1/events?kind=*&after=0 "), "{request}");
        assert!(!request.contains("last-event-id"), "{request}");
    }
    let request = server.request();
    assert!(request.starts_with("get /api/v1/events?kind=* "), "{request}");
    assert!(request.contains("last-event-id: 7\r\n"), "{request}");
}

#[test]
fn the_position_nought_is_a_place_like_any_other() {
    let server = Scripted::start(vec![stream(&event(1, "a.b"))]);
    let desk = Desk::new();
    Tail::start(&desk, &server.url, &["--after", "0"]).line();
    let request = server.request();
    assert!(request.contains("last-event-id: 0\r\n") && !request.contains("after="), "{request}");
}

#[test]
fn from_now_on_means_from_the_event_that_is_the_newest_now() {
    let newest = answer("200 OK", "application/json", r#"{"items":[],"next":41}"#);
    let server = Scripted::start(vec![newest, stream(&event(42, "a.b"))]);
    let desk = Desk::new();
    let mut tail = Tail::start(&desk, &server.url, &[]);
    let line = tail.line();
    assert_eq!(line, "2025-11-15T03:00:12.345Z a.b 019a8b1c-7e00-7000-8000-000000000000");
    assert!(server.request().contains("accept: application/json\r\n"));
    assert!(server.request().contains("last-event-id: 41\r\n"));
}

#[test]
fn a_wrong_address_and_a_refusal_end_it_at_once() {
    let desk = Desk::new();
    let told = desk.run(&["--url", "http://127.0.0.1:1", "tail", "--from-start"]).fails(1);
    assert!(told.contains("cannot reach the server"), "{told}");
    let problem = r#"{"code":"forbidden","title":"no","status":403}"#;
    let server = Scripted::start(vec![answer("403 Forbidden", "application/problem+json", problem)]);
    let told = desk.run(&["--url", &server.url, "tail", "--after", "7"]).fails(1);
    assert!(told.contains("hint: use a token with a sufficient role"), "{told}");
    let server = Scripted::start(vec![answer("200 OK", "text/html", "<p>hello</p>")]);
    let told = desk.run(&["--url", &server.url, "tail", "--after", "7"]).fails(1);
    assert!(told.contains("is not a Lazaret server"), "{told}");
}

#[test]
fn a_reader_that_leaves_ends_it_without_a_word() {
    let (left, reader_left) = mpsc::channel::<()>();
    let act: Act = Box::new(move |stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{}", event(1, "a.b")).as_bytes()).unwrap();
        reader_left.recv().unwrap();
        stream.write_all(event(2, "c.d").as_bytes()).unwrap();
        // Held open until the command itself closes it.
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    });
    let server = Scripted::start(vec![act]);
    let desk = Desk::new();
    let mut tail = Tail::start(&desk, &server.url, &["--from-start"]);
    tail.line();
    drop(tail.stdout.take());
    left.send(()).unwrap();
    assert_eq!(tail.child.wait().unwrap().code(), Some(0));
    let told: Vec<String> = tail.stderr.by_ref().map(Result::unwrap).collect();
    assert_eq!(told, ["following from the oldest stored event; Ctrl-C ends"]);
}
