//! Tokens: the first one without a server, then every request needs one.

use crate::running::{Desk, Server};

#[test]
fn a_token_made_without_a_server_closes_the_server() {
    let desk = Desk::new();
    let nowhere = "http://127.0.0.1:1";
    let made = desk.run(&["--url", nowhere, "token", "new", "--name", "me", "--role", "admin"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.stderr.contains("made offline in ") && made.stderr.contains("this once"), "{}", made.stderr);
    let token = made.stdout.trim_end();
    assert_eq!((token.len(), &token[..4], made.stdout.lines().count()), (47, "lzr_", 1));

    let server = Server::start_on(desk);
    let refused = server.run(&["stats"]).fails(1);
    assert!(refused.contains("hint: ") && refused.contains("--token"), "{refused}");
    let wrong = server.run(&["stats", "--token", "lzr_not-this-one"]).fails(1);
    assert!(!wrong.contains("lzr_not-this-one"), "{wrong}");
    server.run(&["stats", "--token", token]).ok();
    let listed = server.run(&["token", "ls", "--token", token]);
    assert!(listed.stdout.contains("admin") && !listed.stdout.contains("lzr_"), "{}", listed.stdout);
}

#[test]
fn a_running_server_makes_tokens_and_revokes_them() {
    let server = Server::start();
    assert!(server.run(&["token", "ls"]).stderr.contains("no tokens"));
    let admin = server.run(&["token", "new", "--name", "me", "--role", "admin"]);
    assert!(admin.stderr.contains("made by the server"), "{}", admin.stderr);
    let admin = admin.ok();
    let admin = ["--token", admin.trim_end()];
    let with_admin = |args: &[&str]| server.run(&[&admin[..], args].concat());

    let viewer = with_admin(&["token", "new", "--name", "eyes", "--role", "viewer", "--json"]).ok();
    let viewer: serde_json::Value = serde_json::from_str(&viewer).unwrap();
    let (id, token) = (viewer["id"].as_str().unwrap(), viewer["token"].as_str().unwrap());
    server.run(&["--token", token, "ls"]).ok();
    let forbidden = server.run(&["--token", token, "discard", "--all", "--expect", "1"]).fails(1);
    assert!(forbidden.contains("hint: "), "{forbidden}");
    assert_eq!(with_admin(&["token", "revoke", id]).ok(), format!("{id} revoked\n"));
    server.run(&["--token", token, "ls"]).fails(1);
    assert!(with_admin(&["token", "revoke", id]).fails(1).contains("no token"));
    server.run(&["token", "new", "--name", "x", "--role", "king"]).fails(2);
}

#[test]
fn a_token_in_the_environment_is_used_and_not_shown() {
    let desk = Desk::new().with_env("LAZARET_TOKEN", "lzr_very_secret");
    let help = desk.run(&["ls", "--help"]).ok();
    assert!(help.contains("LAZARET_TOKEN") && !help.contains("very_secret"), "{help}");
    let failed = desk.run(&["--url", "http://127.0.0.1:1", "ls"]).fails(1);
    assert!(!failed.contains("very_secret"), "{failed}");
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_tokens_and_in_test_mode() {
    let desk = Desk::new();
    let refused = desk.run(&["serve", "--listen", "0.0.0.0:0"]).fails(1);
    assert!(refused.contains("can be reached from other machines"), "{refused}");
    assert!(refused.contains("hint: make a token first: lazaret token new"), "{refused}");
    let refused = desk.run(&["serve", "--listen", "0.0.0.0:0", "--data", "test", "--test-mode"]).fails(1);
    assert!(refused.contains("test mode serves on loopback only"), "{refused}");
}
