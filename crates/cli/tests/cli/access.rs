//! Tokens: the first one without a server, then every request needs one.

use crate::running::{Desk, Server, arg};

#[test]
fn a_token_made_without_a_server_closes_the_server() {
    let desk = Desk::new();
    let made = desk.run(&["token", "new", "--name", "me", "--role", "admin", "--data", "lazaret-data"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(
        made.stderr.contains("created offline in ") && made.stderr.contains("shown once"),
        "{}",
        made.stderr
    );
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
    assert!(admin.stderr.contains("created by the server"), "{}", admin.stderr);
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
fn a_named_folder_decides_where_a_token_is_made() {
    let other = Server::start();
    let desk = Desk::new().with_env("LAZARET_URL", &other.url);
    let new = ["token", "new", "--name", "me", "--role", "admin"];
    let made = desk.run(&[&new[..], &["--data", "mine"]].concat());
    assert!(made.stderr.contains("created offline in ") && made.stderr.contains("mine"), "{made:?}");
    assert!(other.run(&["token", "ls"]).stderr.contains("no tokens"), "the other server was left alone");
    let both = [&new[..], &["--data", "mine", "--url", &other.url]].concat();
    assert!(desk.run(&both).fails(2).contains("--url selects a server"));

    let nowhere = [&new[..], &["--url", "http://127.0.0.1:1"]].concat();
    desk.run(&nowhere).fails(1);
    assert!(
        !desk.folder.path().join("lazaret-data").exists(),
        "nothing was made beside the server that was named"
    );
}

#[test]
fn a_folder_that_a_server_holds_gets_its_token_from_that_server() {
    let desk = Desk::new();
    desk.file("lazaret.toml", "allowed_hosts = ['letters.example.org']\n");
    let server = Server::start_on(desk);
    let refused = server.run(&["stats"]).fails(1);
    assert!(refused.contains("lazaret token new --name me --role admin --data DIR"), "{refused}");
    let data = server.data();
    let new = ["token", "new", "--name", "me", "--role", "admin", "--data", arg(&data)];
    let made = server.desk.run(&new);
    assert!(made.stderr.contains("created by the server"), "{made:?}");
    let token = made.ok();
    server.run(&["--token", token.trim_end(), "stats"]).ok();
    let audit = server.run(&["--token", token.trim_end(), "audit"]).ok();
    assert!(audit.contains("command line"), "{audit}");

    // The key opens no other door, and no other server.
    let lock = std::fs::read_to_string(data.join("lock")).unwrap();
    let key = lock.lines().find_map(|line| line.strip_prefix("key ")).unwrap();
    server.run(&["--token", key, "stats"]).fails(1);
    let other = Server::start_on({
        let desk = Desk::new();
        desk.file("lazaret.toml", "allowed_hosts = ['letters.example.org']\n");
        desk
    });
    std::fs::write(data.join("lock"), lock.replace(&server.url, &other.url)).unwrap();
    let refused = server.desk.run(&new).fails(1);
    assert!(refused.contains("a different server answers at its address"), "{refused}");
    assert!(!refused.contains(key), "{refused}");
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
    assert!(refused.contains("hint: create a token first: lazaret token new"), "{refused}");
    let refused = desk.run(&["serve", "--listen", "0.0.0.0:0", "--data", "test", "--test-mode"]).fails(1);
    assert!(refused.contains("test mode serves on loopback only"), "{refused}");
}
