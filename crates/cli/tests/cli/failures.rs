//! What goes wrong is told with what to do about it, and with the right exit code.

use crate::running::{Desk, Server, arg};

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
    assert!(told.contains("does not exist") && told.contains("hint: "), "{told}");
}

#[test]
fn a_second_server_says_who_holds_the_folder() {
    let server = Server::start();
    let data = server.data();
    let told = server.desk.run(&["serve", "--listen", "127.0.0.1:0", "--data", arg(&data)]).fails(1);
    assert!(told.contains("is in use by process ") && told.contains(&server.url), "{told}");
    assert!(told.contains("hint: "), "{told}");
    let offline = ["--url", "http://127.0.0.1:1", "token", "new", "--name", "x", "--role", "admin"];
    assert!(server.desk.run(&offline).fails(1).contains(&server.url));
}

#[test]
fn a_server_asked_to_stop_ends_well_and_keeps_its_letters() {
    let server = Server::start();
    let id = server.letter("a", "t");
    let server = Server::start_on(server.stop());
    assert!(server.run(&["show", &id]).ok().contains("pending"));
}
