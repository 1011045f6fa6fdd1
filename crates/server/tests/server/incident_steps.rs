//! What people write down about an incident, and who may.

use serde_json::{Value, json};

use super::rig::{START, TestApp};

const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";

/// Reports a letter and gives the address of its incident.
async fn incident(app: &TestApp, event: &str, error_type: &str, message: &str) -> String {
    let entry = json!({
        "eventId": event,
        "originalEvent": {"pattern": "order.created"},
        "error": {"type": error_type, "message": message},
    });
    let letter = app.report(&entry).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    format!("/api/v1/incidents/{}", letter["incidentId"].as_str().unwrap())
}

fn analysis(category: &str) -> Value {
    json!({"category": category, "rootCause": "the pool was too small", "remediation": "made it larger"})
}

fn kinds(incident: &Value) -> Vec<&str> {
    let timeline = incident["timeline"].as_array().unwrap();
    timeline.iter().map(|entry| entry["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_incident_is_diagnosed_and_fixed_and_every_revision_is_kept() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let open = app.get(&url).await.expect(200);
    assert_eq!((&open["state"], &open["rca"], &open["fix"]), (&json!("open"), &Value::Null, &Value::Null));
    assert_eq!((&open["rcas"], &open["fixes"], &open["redrives"]), (&json!([]), &json!([]), &json!([])));
    assert_eq!((&open["suggestedCategory"], &open["assignee"]), (&json!("infrastructure"), &Value::Null));
    assert_eq!(open["next"]["code"], "rca_required");
    let first = app.post(&format!("{url}/rca"), &analysis("contract")).await.expect(200);
    assert_eq!((&first["state"], &first["next"]["code"]), (&json!("diagnosed"), &json!("fix_required")));
    assert_eq!(
        (&first["category"], &first["suggestedCategory"]),
        (&json!("contract"), &json!("infrastructure"))
    );
    app.pass(1_000);
    let second = json!({"category": "infrastructure", "rootCause": " the pool \n", "remediation": "none"});
    let second = app.post(&format!("{url}/rca"), &second).await.expect(200);
    let rcas = second["rcas"].as_array().unwrap();
    assert_eq!((rcas.len(), &second["rca"]), (2, &rcas[1]));
    let expected = json!({"revision": 2, "category": "infrastructure", "rootCause": "the pool", "remediation": "none",
        "author": "local", "at": "2026-11-15T03:00:01.000Z"});
    assert_eq!((rcas[0]["revision"].as_u64(), &rcas[1]), (Some(1), &expected));
    let fix = json!({"reference": "deploy 7", "fixedAt": "2026-11-15T04:00:00+01:00"});
    let fixed = app.post(&format!("{url}/fix"), &fix).await.expect(200);
    assert_eq!((&fixed["state"], &fixed["next"]), (&json!("fixed"), &Value::Null));
    let expected = json!({"kind": "deployed", "reference": "deploy 7", "fixedAt": START, "author": "local",
        "at": "2026-11-15T03:00:01.000Z", "revision": 2});
    assert_eq!(
        (&fixed["fix"], &fixed["fixes"], &fixed["fixAt"]),
        (&expected, &json!([expected]), &json!(START))
    );
    let kinds = kinds(&fixed);
    for kind in ["diagnosed", "revised", "fix_named", "fixed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert_eq!(app.get(&url).await.expect(200), fixed);
    app.check().await;
}

#[tokio::test]
async fn every_step_stands_in_the_audit_log_with_its_incident() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    app.post(&format!("{url}/rca"), &analysis("contract")).await.expect(200);
    app.post(&format!("{url}/fix"), &json!({"reference": "PR 7"})).await.expect(200);
    app.post(&format!("{url}/assign"), &json!({"assignee": "anna"})).await.expect(200);
    app.post(&format!("{url}/notes"), &json!({"text": "seen"})).await.expect(200);
    let audit = app.get("/api/v1/audit").await.expect(200);
    let entries = audit["items"].as_array().unwrap();
    assert_eq!(entries.len(), 4, "{audit}");
    for entry in entries {
        assert!(url.ends_with(entry["incidentId"].as_str().unwrap()), "{entry}");
        assert_eq!((&entry["actor"], entry["requestId"].is_string()), (&json!("local"), true));
    }
}

#[tokio::test]
async fn what_is_missing_for_a_fix_is_answered() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let refused = app.post(&format!("{url}/fix"), &json!({"reference": "PR 7"})).await;
    let refused = refused.problem(409, "rca_required");
    assert_eq!(refused["incidents"][0]["url"], url);
    assert!(refused["hint"].as_str().unwrap().contains("/rca"), "{refused}");
    app.post(&format!("{url}/rca"), &analysis("business")).await.expect(200);
    for fix in [json!({"reference": "PR 7"}), json!({"reference": "PR 7", "kind": "deployed"})] {
        let refused = app.post(&format!("{url}/fix"), &fix).await.problem(409, "decision_required");
        assert!(refused["hint"].as_str().unwrap().contains("decision"), "{refused}");
        assert_eq!(refused["incidents"][0]["url"], url);
    }
    assert_eq!(app.get(&url).await.expect(200)["state"], "diagnosed");
    let decision = json!({"reference": "minutes of 14 November", "kind": "decision"});
    let fixed = app.post(&format!("{url}/fix"), &decision).await.expect(200);
    assert_eq!((&fixed["state"], &fixed["fix"]["kind"]), (&json!("fixed"), &json!("decision")));
}

#[tokio::test]
async fn a_decision_is_an_approvers() {
    let mut app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    app.post(&format!("{url}/rca"), &analysis("business")).await.expect(200);
    app.token = Some(app.token_of("admin").await);
    let (operator, approver) = (app.token_of("operator").await, app.token_of("approver").await);
    let viewer = app.token_of("viewer").await;
    let decision = json!({"reference": "minutes", "kind": "decision"});
    app.token = Some(operator);
    let refused = app.post(&format!("{url}/fix"), &decision).await.problem(403, "forbidden");
    assert_eq!(refused["may"], json!(["approver", "admin"]));
    app.token = Some(viewer);
    for (step, body) in [
        ("rca", analysis("contract")),
        ("fix", decision.clone()),
        ("close", json!({})),
        ("assign", json!({"assignee": null})),
        ("notes", json!({"text": "x"})),
    ] {
        app.post(&format!("{url}/{step}"), &body).await.problem(403, "forbidden");
    }
    app.get(&format!("{url}/rca.md")).await.headers.get("content-type").unwrap();
    app.token = Some(approver);
    let fixed = app.post(&format!("{url}/fix"), &decision).await.expect(200);
    assert_eq!(
        (&fixed["fix"]["kind"], &fixed["fix"]["author"]),
        (&json!("decision"), &json!("the approver"))
    );
}

#[tokio::test]
async fn what_cannot_be_taken_is_told_by_its_field() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    app.post(&format!("{url}/rca"), &analysis("contract")).await.expect(200);
    let long = "x".repeat(20_001);
    let cases = [
        ("rca", json!({"rootCause": "a", "remediation": "b"}), "category"),
        ("rca", json!({"category": "weather", "rootCause": "a", "remediation": "b"}), "category"),
        ("rca", json!({"category": 7, "rootCause": "a", "remediation": "b"}), "category"),
        ("rca", json!({"category": "contract", "remediation": "b"}), "rootCause"),
        ("rca", json!({"category": "contract", "rootCause": " \n ", "remediation": "b"}), "rootCause"),
        ("rca", json!({"category": "contract", "rootCause": ["a"], "remediation": "b"}), "rootCause"),
        ("rca", json!({"category": "contract", "rootCause": "a", "remediation": long}), "remediation"),
        ("rca", json!({"category": "contract", "rootCause": "a", "remediation": null}), "remediation"),
        (
            "rca",
            json!({"category": "contract", "rootCause": "a", "remediation": "b", "author": "x"}),
            "author",
        ),
        ("fix", json!({}), "reference"),
        ("fix", json!({"reference": ""}), "reference"),
        ("fix", json!({"reference": "x".repeat(2_001)}), "reference"),
        ("fix", json!({"reference": "a", "fixedAt": "2026-11-15T03:02:00Z"}), "fixedAt"),
        ("fix", json!({"reference": "a", "fixedAt": "2026-11-15T03:00:00"}), "fixedAt"),
        ("fix", json!({"reference": "a", "fixedAt": 1763175600}), "fixedAt"),
        ("fix", json!({"reference": "a", "kind": "hope"}), "kind"),
        ("fix", json!({"reference": "a", "fixed_at": START}), "fixed_at"),
        ("close", json!({"reason": 1}), "reason"),
        ("close", json!({"reason": "x".repeat(4_097)}), "reason"),
        ("close", json!({"force": true}), "force"),
        ("assign", json!({}), "assignee"),
        ("assign", json!({"assignee": 1}), "assignee"),
        ("assign", json!({"assignee": ""}), "assignee"),
        ("assign", json!({"assignee": "x".repeat(201)}), "assignee"),
        ("notes", json!({}), "text"),
        ("notes", json!({"text": "a\u{0}b"}), "text"),
        ("assign", json!({"assignee": "a\u{0}b"}), "assignee"),
        ("close", json!({"reason": "a\u{0}b"}), "reason"),
        ("notes", json!({"text": "  "}), "text"),
        ("notes", json!({"text": "x".repeat(10_001)}), "text"),
    ];
    let before = app.get(&url).await.expect(200);
    for (step, body, field) in cases {
        let problem = app.post(&format!("{url}/{step}"), &body).await.problem(400, "bad_request");
        assert_eq!(problem["field"], field, "{step} {body}: {problem}");
    }
    for step in ["rca", "fix", "close", "assign", "notes"] {
        let address = format!("{url}/{step}");
        app.post_text(&address, "application/json", "{").await.problem(400, "bad_json");
        app.post_text(&address, "application/json", "[]").await.problem(400, "bad_json");
    }
    assert_eq!(app.get(&url).await.expect(200), before);
    // A clock that is a little ahead is no lie.
    let soon = json!({"reference": "a", "fixedAt": "2026-11-15T03:00:59Z"});
    app.post(&format!("{url}/fix"), &soon).await.expect(200);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let app = TestApp::new().await;
    for (step, body) in [
        ("rca", analysis("contract")),
        ("fix", json!({"reference": "a"})),
        ("fix", json!({"reference": "a", "kind": "decision"})),
        ("close", json!({})),
        ("assign", json!({"assignee": "anna"})),
        ("notes", json!({"text": "a"})),
    ] {
        app.post(&format!("/api/v1/incidents/{NOBODY}/{step}"), &body).await.problem(404, "not_found");
        app.post(&format!("/api/v1/incidents/7/{step}"), &body).await.problem(400, "bad_id");
    }
    app.get(&format!("/api/v1/incidents/{NOBODY}/rca.md")).await.problem(404, "not_found");
}

#[tokio::test]
async fn an_incident_is_closed_when_nothing_waits() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let refused = app.post(&format!("{url}/close"), &json!({})).await.problem(409, "not_allowed");
    assert_eq!((&refused["pending"], &refused["reprocessing"]), (&json!(1), &json!(0)));
    let all = json!({"all": true, "expectedCount": 1});
    app.post("/api/v1/dead-letters/resolve", &all).await.expect(200);
    let closed = app.post(&format!("{url}/close"), &json!({"reason": "done"})).await.expect(200);
    assert_eq!(closed["state"], "closed");
    app.check().await;
}

#[tokio::test]
async fn an_incident_has_an_assignee_and_notes() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let assigned = app.post(&format!("{url}/assign"), &json!({"assignee": " anna "})).await.expect(200);
    assert_eq!(assigned["assignee"], "anna");
    let noted = app
        .post(&format!("{url}/notes"), &json!({"text": "called the bank\nnobody there"}))
        .await
        .expect(200);
    let last = noted["timeline"].as_array().unwrap().last().unwrap().clone();
    let expected =
        json!({"at": START, "kind": "note", "by": "local", "text": "called the bank\nnobody there"});
    assert_eq!(last, expected);
    let nobody = app.post(&format!("{url}/assign"), &json!({"assignee": null})).await.expect(200);
    assert_eq!((&nobody["assignee"], &nobody["state"]), (&Value::Null, &json!("open")));
}

#[tokio::test]
async fn the_analysis_is_a_document() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let text = |answer: super::rig::Answer| {
        assert_eq!(answer.headers["content-type"], "text/markdown; charset=utf-8");
        String::from_utf8(answer.bytes).unwrap()
    };
    let before = text(app.get(&format!("{url}/rca.md")).await);
    assert!(
        before.starts_with("## DLE Incident: order.created\n- **Date**: 2026-11-15\n- **Count**: 1 events\n")
    );
    assert!(before.contains("- **Root Cause**: _not yet_\n- **Fix Applied**: _not yet_\n"), "{before}");
    app.post(&format!("{url}/rca"), &analysis("contract")).await.expect(200);
    app.post(&format!("{url}/fix"), &json!({"reference": "PR 7"})).await.expect(200);
    let after = text(app.get(&format!("{url}/rca.md")).await);
    assert!(after.contains("- **Error**: Timeout: call timed out\n"), "{after}");
    assert!(after.contains("- **Root Cause**: the pool was too small\n- **Fix Applied**: PR 7\n"), "{after}");
    assert!(after.contains("- **Category**: contract\n- **Remediation**: made it larger\n"), "{after}");
}

#[tokio::test]
async fn two_operators_who_diagnose_at_once_both_leave_their_revision() {
    let app = TestApp::new().await;
    let url = incident(&app, "e", "Timeout", "call timed out").await;
    let address = format!("{url}/rca");
    let (left, right) = (analysis("contract"), analysis("infrastructure"));
    let (left, right) = tokio::join!(app.post(&address, &left), app.post(&address, &right));
    left.expect(200);
    right.expect(200);
    let incident = app.get(&url).await.expect(200);
    let rcas = incident["rcas"].as_array().unwrap();
    let revisions: Vec<u64> = rcas.iter().map(|rca| rca["revision"].as_u64().unwrap()).collect();
    assert_eq!((revisions, &incident["state"]), (vec![1, 2], &json!("diagnosed")));
    let mut categories: Vec<&str> = rcas.iter().map(|rca| rca["category"].as_str().unwrap()).collect();
    categories.sort_unstable();
    assert_eq!(categories, ["contract", "infrastructure"]);
    assert_eq!(incident["category"], rcas[1]["category"]);
}
