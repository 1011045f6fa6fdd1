//! How long letters stay, as a person asks and sees it.

use serde_json::json;

use crate::running::{Desk, Server};

fn server(text: &str) -> Server {
    let desk = Desk::new();
    desk.file("lazaret.toml", text);
    Server::start_on(desk)
}

#[test]
fn the_policy_of_each_queue_is_shown_with_where_it_comes_from() {
    let server = server("[retention]\nmax_age = '1d'\n[jobs.queues.mails.retention]\nmax_count = 12000\n");
    let told = server.run(&["retention"]).ok();
    let mails = told.lines().find(|line| line.contains("mails")).unwrap();
    for part in ["jobs", "P1D (g)", "12,000 (q)", "itself", "P90D", "delete"] {
        assert!(mails.contains(part), "{part}: {mails}");
    }
    let report = told.lines().find(|line| line.starts_with("report")).unwrap();
    assert!(report.contains("none") && report.contains("archive"), "{report}");
    let ran = server.run(&["retention", "--source", "jobs", "--queue", "mails"]);
    assert!(ran.stderr.contains("mails of jobs: max_age is shorter than min_age"), "{ran:?}");
    assert!(ran.stderr.contains("next prune: 20"), "{ran:?}");
    let none = server.run(&["retention", "--queue", "nowhere"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no matching queue"));
}

#[test]
fn what_would_go_is_told_before_it_goes() {
    let server = server("[sources.report.retention]\nmax_count = 1\n");
    for event in ["a", "b", "c"] {
        server.letter(event, "order.created");
    }
    let would = server.run(&["prune", "--dry-run"]).ok();
    for part in ["max_count", "pending", "beyond 1 letters, oldest first", "2 would be archived, 0 deleted"] {
        assert!(would.contains(part), "{part}: {would}");
    }
    assert_eq!(server.json(&["ls"])["total"], 3);
    let done = server.run(&["prune"]).ok();
    assert!(done.ends_with("2 archived, 0 deleted\n"), "{done}");
    assert_eq!(server.json(&["ls"])["total"], 1);
    assert_eq!(server.run(&["prune"]).ok(), "no letters beyond their limits\n");
    let events = server.json(&["prune", "--dry-run"]);
    assert_eq!((&events["dryRun"], &events["queues"]), (&json!(true), &json!([])));
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}
