//! The rules of the outbox document for visibility, analysis, redrive and retention, one test each, through the doors that a person has.
//! `docs/rules-040.md` is made from the names of such tests.

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::running::{Desk, Server, entry};

/// A letter of an error class, reported by itself; gives its id and its incident's.
fn letter(server: &Server, event: &str, error: &Value) -> (String, String) {
    let report = json!({"eventId": event, "originalEvent": {"pattern": "OrderCreated"}, "error": error});
    let answer = server.run_with_input(&["report", "--json"], report.to_string().as_bytes()).ok();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let id = answer["items"][0]["id"].as_str().unwrap().to_owned();
    let incident = server.json(&["show", &id])["incidentId"].as_str().unwrap().to_owned();
    (id, incident)
}

fn timeout(server: &Server, event: &str) -> (String, String) {
    letter(server, event, &json!({"type": "TimeoutError", "message": "no answer"}))
}

fn diagnose(server: &Server, incident: &str, category: &str) {
    let parts = ["--category", category, "--cause", "the gateway was down", "--remedy", "it was started"];
    server.run(&[&["incident", "diagnose", incident][..], &parts].concat()).ok();
}

/// What a plan over an incident says: how many go, and the codes of the refusals.
fn gate(server: &Server, incident: &str) -> (u64, Vec<String>) {
    let ran = server.run(&["redrive", "plan", "--incident", incident, "--json"]);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let refusals = plan["plan"]["refusals"].as_array().unwrap();
    let codes = refusals.iter().map(|refusal| refusal["code"].as_str().unwrap().to_owned()).collect();
    (plan["count"].as_u64().unwrap(), codes)
}

/// A server that keeps one pending letter and would delete the others.
fn strict() -> Server {
    let desk = Desk::new();
    let text = "[sources.report.retention]\nmax_count = 1\npruning_policy = 'delete'\n";
    desk.file("lazaret.toml", text);
    Server::start_on(desk)
}

#[test]
fn rule_040_021_letters_are_in_sight_and_never_deleted_by_themselves() {
    let server = strict();
    let ids = ["e-1", "e-2", "e-3"].map(|event| timeout(&server, event).0);
    // By a query, in numbers, by their cause, and as it happens.
    assert_eq!(server.json(&["ls", "error:TimeoutError"])["total"], 3);
    assert_eq!(server.json(&["stats"])["byErrorType"]["TimeoutError"], 3);
    assert_eq!(server.json(&["incidents"])["items"][0]["count"], 3);
    let shown = server.json(&["show", &ids[0]]);
    assert_eq!((&shown["status"], &shown["error"]["message"]), (&json!("pending"), &json!("no answer")));
    // A limit takes them out of the way, not out of the world: each is still accounted for, and comes back.
    let pruned = server.json(&["prune"]);
    assert_eq!((&pruned["archived"], &pruned["deleted"]), (&json!(2), &json!(0)), "{pruned}");
    let ledger = server.json(&["ledger", "verify"]);
    assert_eq!((&ledger["captured"], &ledger["pending"]), (&json!(3), &json!(1)));
    assert_eq!((&ledger["archived"], &ledger["pruned"]), (&json!(2), &json!(0)));
    for id in &ids[..2] {
        server.run(&["restore", id]).ok();
        assert_eq!(server.json(&["show", id])["status"], "pending");
    }
}

#[test]
fn rule_040_030_nothing_is_put_back_before_its_cause_is_written_down() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let (id, incident) = timeout(&server, "e-1");
    assert_eq!(gate(&server, &incident), (0, vec!["rca_required".to_owned()]));
    assert!(server.run(&["retry", &id]).fails(1).contains("lazaret incident diagnose"));
    // Each of the three parts is needed.
    for missing in ["--category", "--cause", "--remedy"] {
        let parts = [("--category", "infrastructure"), ("--cause", "down"), ("--remedy", "up")];
        let parts =
            parts.into_iter().filter(|(flag, _)| *flag != missing).flat_map(|(flag, text)| [flag, text]);
        let words: Vec<&str> = ["incident", "diagnose", &incident].into_iter().chain(parts).collect();
        server.run(&words).fails(2);
    }
    assert_eq!(server.json(&["incident", "show", &incident])["state"], "open");
    diagnose(&server, &incident, "infrastructure");
    let rca = server.json(&["incident", "rca", &incident])["rca"].clone();
    assert_eq!(
        (&rca["category"], &rca["rootCause"], &rca["remediation"]),
        (&json!("infrastructure"), &json!("the gateway was down"), &json!("it was started"))
    );
    assert_ne!(gate(&server, &incident).1, ["rca_required"]);
    assert_eq!(receiver.received().len(), 0);
}

#[test]
fn rule_040_031_the_analysis_is_a_document() {
    let server = Receiver::start().server("");
    let (_, incident) = timeout(&server, "e-1");
    timeout(&server, "e-2");
    diagnose(&server, &incident, "infrastructure");
    server.run(&["incident", "fix", &incident, "--ref", "PR 4711"]).ok();
    let start =
        ["redrive", "start", "--incident", &incident, "--pace", "unlimited", "--expect", "2", "--watch"];
    server.run(&start).ok();
    let document = server.run(&["incident", "rca", &incident]).ok();
    let lines: Vec<&str> = document.lines().collect();
    assert_eq!(lines[0], "## DLE Incident: OrderCreated");
    let today = lines[1].strip_prefix("- **Date**: ").unwrap();
    assert!(today.len() == 10 && today.starts_with("20"), "{document}");
    let rest = [
        "- **Count**: 2 events".to_owned(),
        "- **Error**: TimeoutError: no answer".to_owned(),
        "- **Root Cause**: the gateway was down".to_owned(),
        "- **Fix Applied**: PR 4711".to_owned(),
    ];
    assert_eq!(lines[2..6], rest);
    let redriven = lines[6].strip_prefix("- **Redrive Date**: ").unwrap();
    assert!(redriven.len() == 10 && redriven >= today, "{document}");
}

#[test]
fn rule_040_032_the_category_decides_what_may_be_done() {
    let server = Receiver::start().server("");
    let class = |id: &str| server.json(&["show", id])["category"].clone();
    let (late, infrastructure) = timeout(&server, "e-1");
    let (wrong, contract) =
        letter(&server, "e-2", &json!({"type": "ValidationError", "message": "missing field currency"}));
    let (poison, poison_pill) = letter(
        &server,
        "e-3",
        &json!({"type": "JSONDecodeError", "message": "Expecting value: line 1 column 1"}),
    );
    assert_eq!((class(&late), class(&wrong)), (json!("infrastructure"), json!("contract")));
    assert_eq!(class(&poison), "poison_pill");
    // Poison is refused whatever is done, and discard is offered.
    assert_eq!(gate(&server, &poison_pill), (0, vec!["poison".to_owned()]));
    let told = server.run(&["redrive", "plan", "--incident", &poison_pill]);
    assert!(told.stdout.contains(&format!("lazaret discard --filter incident:{poison_pill}")), "{told:?}");
    // A fix lets infrastructure and contract go.
    for (incident, category) in [(&infrastructure, "infrastructure"), (&contract, "contract")] {
        diagnose(&server, incident, category);
        server.run(&["incident", "fix", incident, "--ref", "PR 4711"]).ok();
        assert_eq!(gate(&server, incident), (1, Vec::new()), "{category}");
    }
    // A business error needs a decision, and a deployment is none.
    let (_, business) =
        letter(&server, "e-4", &json!({"type": "CreditLimitError", "message": "limit exceeded"}));
    diagnose(&server, &business, "business");
    assert_eq!(gate(&server, &business), (0, vec!["decision_required".to_owned()]));
    server.run(&["incident", "fix", &business, "--ref", "PR 4711"]).fails(1);
    server.run(&["incident", "fix", &business, "--decision", "--ref", "minutes, item 3"]).ok();
    assert_eq!(gate(&server, &business), (1, Vec::new()));
}

#[test]
fn rule_040_040_a_redrive_is_scoped_and_counted() {
    let receiver = Receiver::start();
    let server = receiver.server("governance = \"optional\"");
    for (event, letter_type) in [("a", "OrderCreated"), ("b", "OrderCreated"), ("c", "OrderPaid")] {
        server.letter(event, letter_type);
    }
    let told = server.run(&["redrive", "plan"]).fails(2);
    assert!(told.contains("filter required"), "{told}");
    server.run(&["redrive", "plan", "--all"]).fails(2);
    server.run(&["redrive", "plan", "--all", "--expect", "2"]).fails(1);
    let plan = server.json(&["redrive", "plan", "type:OrderCreated", "--pace", "unlimited"]);
    assert_eq!(plan["count"], 2);
    let id = plan["id"].as_str().unwrap();
    server.run(&["redrive", "start", id, "--expect", "3"]).fails(1);
    // What matches later does not join.
    server.letter("d", "OrderCreated");
    server.run(&["redrive", "start", id, "--expect", "2", "--watch"]).ok();
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.body.contains("OrderCreated")));
    assert_eq!(server.json(&["ls"])["total"], 2);
}

#[test]
fn rule_040_041_a_redrive_has_a_pace() {
    let server = Receiver::start().server("governance = \"optional\"");
    let lines: Vec<String> = (0..201).map(|n| entry(&format!("e-{n}"), "OrderCreated")).collect();
    server.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
    let plan = |more: &[&str]| server.json(&[&["redrive", "plan", "type:OrderCreated"], more].concat());
    let told = |plan: &Value| (plan["options"]["pace"].clone(), plan["plan"]["duration"].clone());
    assert_eq!(told(&plan(&[])), (json!(100), json!("PT2M")));
    assert_eq!(told(&plan(&["--pace", "critical"])), (json!(1_000), json!("PT12S")));
    assert_eq!(plan(&["--pace", "unlimited"])["options"]["pace"], "unlimited");
    server.run(&["redrive", "plan", "type:OrderCreated", "--pace", "0"]).fails(2);
}

#[test]
fn rule_040_042_a_redrive_is_verified_and_closes_the_incident() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let (id, incident) = timeout(&server, "e-1");
    timeout(&server, "e-2");
    diagnose(&server, &incident, "infrastructure");
    server.run(&["incident", "fix", &incident, "--ref", "PR 4711"]).ok();
    let start =
        ["redrive", "start", "--incident", &incident, "--pace", "unlimited", "--expect", "2", "--watch"];
    server.run(&start).ok();
    let run = server.json(&["redrive", "ls", "--incident", &incident])["items"][0].clone();
    assert_eq!((&run["state"], &run["successRate"]), (&json!("done"), &json!(1.0)));
    assert_eq!((&run["letters"]["succeeded"], &run["letters"]["relapsed"]), (&json!(2), &json!(0)));
    assert_eq!(server.json(&["incident", "show", &incident])["state"], "closed");
    let letter = server.json(&["show", &id]);
    assert_eq!(
        (&letter["status"], &letter["resolution"]["strategy"]),
        (&json!("resolved"), &json!("manual_retry"))
    );

    // A death after the fix says that it was none.
    timeout(&server, "e-3");
    assert_eq!(server.json(&["incident", "show", &incident])["state"], "regressed");
}

#[test]
fn rule_040_061_nothing_is_destroyed_before_ninety_days_or_under_a_hold() {
    // Unless anything is set, nothing is deleted at all.
    let policy = Server::start().json(&["retention", "--source", "report"])["queues"][0].clone();
    assert_eq!(policy["pruningPolicy"], json!({"value": "archive", "from": "default"}));
    assert_eq!(policy["minAge"], json!({"value": "P90D", "from": "default"}));

    let server = strict();
    let ids = ["e-1", "e-2", "e-3"].map(|event| timeout(&server, event).0);
    server.run(&["hold", &ids[0], "--reason", "case 4711"]).ok();
    let told = server.run(&["prune", "--dry-run"]).ok();
    assert!(told.contains("2 younger than min_age P90D: archived; 1 held: kept"), "{told}");
    assert!(told.ends_with("2 would be archived, 0 deleted\n"), "{told}");
    server.run(&["prune"]).ok();
    let left = server.json(&["ls"]);
    assert_eq!((&left["total"], &left["items"][0]["id"]), (&json!(1), &json!(ids[0])));
    server.run(&["delete", &ids[0]]).fails(1);
    // Released, it is like any other.
    server.run(&["release", &ids[0]]).ok();
    timeout(&server, "e-4");
    assert_eq!(server.json(&["prune"])["archived"], 1);
    let ledger = server.json(&["ledger", "verify"]);
    assert_eq!(
        (&ledger["archived"], &ledger["pruned"], &ledger["deleted"]),
        (&json!(3), &json!(0), &json!(0))
    );
}

#[test]
fn rule_040_062_nothing_is_put_back_without_a_fix() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let (id, incident) = timeout(&server, "e-1");
    diagnose(&server, &incident, "infrastructure");
    assert_eq!(gate(&server, &incident), (0, vec!["fix_required".to_owned()]));
    assert!(server.run(&["retry", &id]).fails(1).contains("lazaret incident fix"));
    // A fix that is not there yet is none.
    server.run(&["incident", "fix", &incident, "--ref", "PR 1", "--at", "2099-01-01T00:00:00Z"]).fails(2);
    assert_eq!(receiver.received().len(), 0);
    server.run(&["incident", "fix", &incident, "--ref", "PR 1"]).ok();
    assert_eq!(gate(&server, &incident), (1, Vec::new()));
}
