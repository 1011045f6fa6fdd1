//! `lazaret store copy` from the outside: what was copied is served as the original was.

use lazaret_store::testing::TestDatabase;
use serde_json::{Value, json};

use crate::running::{Desk, Server, arg, entry};
use crate::shared::{die, post, recount, start};

/// What a server says of its store; the same of a copy.
fn told(server: &Server) -> Value {
    let mut audit = server.json(&["audit"])["items"].take();
    // To ask is on record as well.
    audit.as_array_mut().unwrap().retain(|entry| entry["action"] != "letters.exported");
    json!({
        "letters": server.run(&["export", "--all"]).ok(),
        "incidents": server.json(&["incidents"]),
        "holds": server.json(&["holds"]),
        "audit": audit,
    })
}

#[test]
fn a_store_is_copied_to_postgresql_and_back() {
    let server = Server::start();
    let lines: Vec<String> = (0..50).map(|n| entry(&format!("e-{n}"), "order.created")).collect();
    server.run_with_input(&["report", "-"], lines.join("\n").as_bytes()).ok();
    let held = server.letter("held", "order.held");
    server.run(&["hold", &held, "--reason", "court"]).ok();
    let gone = server.letter("gone", "order.gone");
    server.run(&["discard", &gone, "--reason", "test"]).ok();
    let dead = die(&server, "billing");
    let first = server.json(&["jobs", "push", "mail.send", "--queue", "mails"])["job"]["id"].clone();
    server.json(&["jobs", "push", "mail.send", "--queue", "mails"]);
    server.run(&["queues", "pause", "mails"]).ok();
    let before = told(&server);

    let database = TestDatabase::bare();
    let from = format!("sqlite:{}", server.data().display());
    let there = ["store", "copy", "--from", &from, "--to", &database.url(), "--json"];
    let desk = Desk::new();
    let refused = desk.run(&there).fails(1);
    assert!(refused.contains("in use by process") && refused.contains("hint: stop the server"), "{refused}");
    let original = server.stop();

    let copied: Value = serde_json::from_str(&desk.run(&there).ok()).unwrap();
    let rows = &copied["rows"];
    assert_eq!(
        (&rows["dead_letter_queue"], &rows["jobs"], &rows["holds"]),
        (&json!(53), &json!(3), &json!(1))
    );
    assert!(rows["events"].as_u64() > Some(50) && rows["audit"].as_u64() > Some(2), "{copied}");
    assert!(copied["auditLinksVerified"].is_u64(), "{copied}");
    let refused = desk.run(&there).fails(1);
    assert!(refused.contains("is not empty") && refused.contains("hint: use an empty"), "{refused}");

    let key = original.folder.path().join("lazaret-data/audit.key");
    let config = desk.folder.path().join("lazaret.toml");
    std::fs::write(&config, format!("[audit]\nkey_file = \"{}\"\n", arg(&key))).unwrap();
    let shared = Server::start_with(Desk::new(), &["--store", &database.url(), "--config", arg(&config)]);
    assert_eq!(told(&shared), before);
    shared.run(&["audit", "verify"]).ok();
    let back = Desk::new();
    let folder = format!("sqlite:{}", back.folder.path().join("lazaret-data").display());
    let back_again = ["store", "copy", "--from", &database.url(), "--to", &folder, "--config", arg(&config)];
    let refused = desk.run(&back_again).fails(1);
    assert!(refused.contains("in use by a server") && refused.contains("hint: stop the server"), "{refused}");
    shared.stop();
    desk.run(&back_again).ok();

    for server in [start(Desk::new(), &database.url()), Server::start_on(back)] {
        assert_eq!(told(&server), before);
        server.run(&["queues", "resume", "mails"]).ok();
        let wish = json!({"queues": ["mails"], "count": 1, "worker_id": "w"});
        assert_eq!(post(&server, "/ojs/v1/workers/fetch", &wish)["jobs"][0]["id"], first);
        post(&server, &format!("/ojs/v1/dead-letter/{dead}/retry"), &json!({}));
        recount(&server);
        // The embedded copy has the key of its own.
        if server.data().exists() {
            server.run(&["audit", "verify"]).ok();
        }
    }
}

#[test]
fn nothing_is_copied_from_where_nothing_is() {
    let desk = Desk::new();
    let nowhere = desk.folder.path().join("nothing");
    let from = format!("sqlite:{}", arg(&nowhere));
    let told = desk.run(&["store", "copy", "--from", &from, "--to", "sqlite:other"]).fails(1);
    assert!(told.contains("no store in"), "{told}");
    assert!(!nowhere.exists());
    desk.run(&["store", "copy", "--from", "mysql:x", "--to", "sqlite:other"]).fails(2);
    desk.run(&["store", "copy", "--from", "sqlite:a", "--to", "sqlite:a"]).fails(2);
}
