//! Replay rules with the real binary: taken by a hangup, at work by themselves, switched for good.

use std::process::Command;

use serde_json::Value;

use crate::running::{Desk, Server};

const OFF: &str = "[[replay_rules]]\nname = 'nightly'\nfilter = 'queue:q'\ndelay = '0s'\nmax_replays = 1\ncategory = 'infrastructure'\nenabled = false\n";

fn named(server: &Server, name: &str) -> Value {
    let rules = server.json(&["rules"]);
    let found = rules["items"].as_array().unwrap().iter().find(|rule| rule["name"] == name);
    found.unwrap_or_else(|| panic!("{rules}")).clone()
}

#[test]
fn a_switch_outlives_a_restart_and_beats_the_configuration() {
    let desk = Desk::new();
    desk.file("lazaret.toml", OFF);
    let server = Server::start_on(desk);
    let table = server.run(&["rules"]).ok();
    assert!(table.contains("NAME") && table.contains("nightly") && table.contains("no"), "{table}");
    assert_eq!(server.run(&["rules", "enable", "nightly"]).ok(), "nightly enabled\n");
    let said = server.run(&["rules", "enable", "none"]).fails(1);
    assert!(said.contains("unknown replay rule `none`") && said.contains("hint:"), "{said}");
    let server = Server::start_on(server.stop());
    let rule = named(&server, "nightly");
    assert_eq!((&rule["enabled"], &rule["enabledBy"]), (&true.into(), &"switch".into()));
    assert!(server.run(&["rules"]).ok().contains("yes (switched)"));
    let off = server.json(&["rules", "disable", "nightly"]);
    assert_eq!(off["enabled"], false);
}

#[test]
fn a_hangup_adds_a_rule() {
    let server = Server::start();
    let none = server.run(&["rules"]);
    assert!(none.stderr.contains("no replay rules"), "{none:?}");
    server.desk.file("lazaret.toml", OFF);
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    // A reload tells nobody but the log when it is done; each question takes a whole process.
    let rules =
        (0..1_000).map(|_| server.json(&["rules"])).find(|rules| rules["items"][0]["name"] == "nightly");
    assert!(rules.is_some());
}
