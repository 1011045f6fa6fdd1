//! What goes wrong is told with what to do about it, and with the right exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use crate::running::{Desk, Server, arg, entry};

const NOWHERE: [&str; 2] = ["--url", "http://127.0.0.1:1"];

#[test]
fn a_server_that_is_not_there_is_named_with_a_hint() {
    let told = Desk::new().run(&[&NOWHERE[..], &["ls"]].concat()).fails(1);
    assert!(told.starts_with("error: cannot reach the server at http://127.0.0.1:1"), "{told}");
    assert!(told.contains("hint: is it running? start it with: lazaret serve"), "{told}");
}

#[test]
fn a_filter_with_a_mistake_is_misuse_and_nothing_is_sent() {
    let desk = Desk::new();
    let told = desk.run(&[&NOWHERE[..], &["ls", "quue:billing"]].concat()).fails(2);
    assert!(told.contains("did you mean `queue`?") && told.contains("hint: "), "{told}");
    desk.run(&[&NOWHERE[..], &["discard", "--filter", "since:yesterday", "--expect", "1"]].concat()).fails(2);
    desk.run(&["ls", "--limit", "0"]).fails(2);
    desk.run(&["show", "not-an-id"]).fails(2);
    desk.run(&["--url", "ftp://x", "ls"]).fails(2);
}

#[test]
fn a_cursor_of_another_list_is_misuse() {
    let server = Server::start();
    assert!(server.run(&["ls", "--cursor", "nonsense"]).fails(2).contains("error: "));
}

#[test]
fn a_letter_that_does_not_exist_is_a_failure() {
    let server = Server::start();
    let told = server.run(&["show", "019a8b1c-7e00-7000-8000-000000000000"]).fails(1);
    assert!(told.contains("not found") && told.contains("hint: "), "{told}");
}

#[test]
fn a_second_server_says_who_holds_the_folder() {
    let server = Server::start();
    let data = server.data();
    let told = server.desk.run(&["serve", "--listen", "127.0.0.1:0", "--data", arg(&data)]).fails(1);
    assert!(told.contains("is in use by process ") && told.contains(&server.url), "{told}");
    assert!(told.contains("hint: "), "{told}");
    let offline = ["audit", "verify", "--data", arg(&data)];
    assert!(server.desk.run(&offline).fails(1).contains(&server.url));
}

#[test]
fn a_server_asked_to_stop_ends_well_and_keeps_its_letters() {
    let server = Server::start();
    let id = server.letter("a", "t");
    let server = Server::start_on(server.stop());
    assert!(server.run(&["show", &id]).ok().contains("pending"));
}

/// Answers as many requests as there are answers, one connection each, and gives back its address.
fn answering(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut body_bytes = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    body_bytes = length.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; body_bytes]).unwrap();
            reader.into_inner().write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn answer(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn a_busy_server_is_asked_again() {
    let busy = answer("503 Busy\r\nretry-after: 0", r#"{"code":"store_busy","detail":"too much to write"}"#);
    let taken = answer("200 OK", r#"{"items":[{"id":"x","eventId":"a","result":"created"}]}"#);
    let url = answering(vec![busy.clone(), busy, taken]);
    let ran = Desk::new().run_with_input(&["--url", &url, "report"], entry("a", "t").as_bytes());
    assert_eq!(ran.ok(), "created 1\n");
}

#[test]
fn a_full_server_without_a_time_to_come_back_is_not_pressed() {
    let full = answer("503 Full", r#"{"code":"store_full","detail":"the disk is full","hint":"make room"}"#);
    let url = answering(vec![full]);
    let told = Desk::new().run_with_input(&["--url", &url, "report"], entry("a", "t").as_bytes()).fails(1);
    assert_eq!(told, "error: the disk is full\nhint: make room\n");
}

#[test]
fn another_kind_of_server_is_recognised() {
    for page in [answer("200 OK", "<html>"), answer("404 Not Found", "nothing here")] {
        let url = answering(vec![page]);
        let told = Desk::new().run(&["--url", &url, "stats"]).fails(1);
        assert!(told.contains("is not a Lazaret server") && told.contains("hint: "), "{told}");
    }
}
