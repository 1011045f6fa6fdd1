//! Decisions on one letter and by filter.

use serde_json::{Value, json};

use super::rig::TestApp;

fn entry(n: usize, pattern: &str) -> Value {
    json!({"eventId": format!("{pattern}-{n}"), "originalEvent": {"pattern": pattern}, "error": {"type": "Timeout", "message": "timed out"}})
}

async fn fill(app: &TestApp, count: usize, pattern: &str) {
    for from in (0..count).step_by(1_000) {
        let items: Vec<Value> = (from..count.min(from + 1_000)).map(|n| entry(n, pattern)).collect();
        app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
    }
}

#[tokio::test]
async fn a_letter_goes_through_its_life_by_hand() {
    let app = TestApp::new().await;
    let id = app.report(&entry(1, "order.created")).await;
    let path = |action: &str| format!("/api/v1/dead-letters/{id}/{action}");
    app.pass(1_000);
    let resolved = app.post(&path("resolve"), &json!({"reason": "done by hand"})).await.expect(200);
    assert_eq!(resolved["status"], "resolved");
    assert_eq!(
        resolved["resolution"],
        json!({"timestamp": "2026-11-15T03:00:01.000Z", "strategy": "manual_resolution", "resolvedBy": "local", "notes": "done by hand"})
    );
    let refused = app.post(&path("discard"), &json!({})).await.problem(409, "not_allowed");
    assert_eq!(refused["letterStatus"], "resolved");
    assert_eq!(refused["allowedActions"], json!(["reopen", "hold", "delete"]));
    assert!(app.post(&path("reopen"), &json!({})).await.expect(200)["resolution"].is_null());
    app.post(&path("hold"), &json!({})).await.problem(400, "reason_required");
    app.post(&path("hold"), &json!({"reason": "court order"})).await.expect(200);
    let held = app.post(&path("discard"), &json!({})).await.problem(409, "not_allowed");
    assert_eq!(held["held"], true);
    app.post(&path("release"), &json!({})).await.expect(200);
    // An empty body is as good as an empty object.
    assert_eq!(
        app.post_text(&path("discard"), "application/json", "").await.expect(200)["status"],
        "discarded"
    );
    let audit = app.get("/api/v1/audit").await.expect(200);
    let actions: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["discard", "release", "hold", "reopen", "resolve"]);
    assert_eq!(audit["items"][4]["reason"], "done by hand");
    app.check().await;
}

#[tokio::test]
async fn a_decision_by_filter_needs_the_right_count() {
    let app = TestApp::new().await;
    fill(&app, 5, "a.b").await;
    fill(&app, 3, "c.d").await;
    let discard = "/api/v1/dead-letters/discard";
    let wrong = app
        .post(discard, &json!({"filter": {"type": "a.*"}, "expectedCount": 4}))
        .await
        .problem(409, "count_mismatch");
    assert_eq!((&wrong["count"], &wrong["expectedCount"]), (&json!(5), &json!(4)));
    app.post(discard, &json!({"filter": {"type": "a.*"}, "expectedCount": 6}))
        .await
        .problem(409, "count_mismatch");
    assert_eq!(app.get("/api/v1/stats").await.expect(200)["byStatus"]["pending"], 8);
    let done = app
        .post(discard, &json!({"filter": {"q": "type:a.*"}, "expectedCount": 5, "reason": "test data"}))
        .await
        .expect(200);
    assert_eq!((&done["state"], &done["done"], &done["skipped"]), (&json!("done"), &json!(5), &json!(0)));
    let again = app.get(&format!("/api/v1/operations/{}", done["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(again["done"], 5);
    // Decided already: they match, and are skipped with the reason.
    let again = app.post(discard, &json!({"filter": {"type": "a.*"}, "expectedCount": 5})).await.expect(200);
    assert_eq!(again["skipped"], 5);
    assert!(again["skippedLetters"][0]["reason"].as_str().unwrap().contains("discarded"));
    app.check().await;
}

#[tokio::test]
async fn everything_is_only_meant_when_it_is_said() {
    let app = TestApp::new().await;
    fill(&app, 2, "a").await;
    let resolve = "/api/v1/dead-letters/resolve";
    for body in [
        json!({"expectedCount": 2}),
        json!({"filter": {}, "expectedCount": 2}),
        json!({"filter": {"q": ""}, "expectedCount": 2}),
        json!({"filter": {"type": "*"}, "expectedCount": 2}),
        json!({"filter": {"q": "queue:** status:pending"}, "expectedCount": 2}),
        json!({"filter": {"q": "since:1970-01-01T00:00:00Z error:*"}, "expectedCount": 2}),
    ] {
        app.post(resolve, &body).await.problem(400, "filter_required");
    }
    app.post(resolve, &json!({"all": true})).await.problem(400, "bad_request");
    app.post(resolve, &json!({"all": true, "filter": {"queue": "x"}, "expectedCount": 2}))
        .await
        .problem(400, "bad_request");
    app.post(resolve, &json!({"all": true, "expectedCount": 2, "force": 1}))
        .await
        .problem(400, "bad_request");
    app.post(resolve, &json!({"all": true, "expectedCount": 2})).await.expect(200);
    app.check().await;
}

#[tokio::test]
async fn more_than_ten_thousand_go_on_behind_the_call() {
    let app = TestApp::new().await;
    fill(&app, 10_500, "bulk").await;
    let answer = app
        .post("/api/v1/dead-letters/resolve", &json!({"filter": {"type": "bulk"}, "expectedCount": 10_500}))
        .await;
    let operation = answer.expect(202);
    assert_eq!(operation["state"], "working");
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    while lazaret_server::operations::tick(&app.app).await.unwrap()
        == lazaret_server::operations::Progress::More
    {}
    let operation = app.get(&location).await.expect(200);
    assert_eq!((&operation["state"], &operation["done"]), (&json!("done"), &json!(10_500)));
    app.check().await;
}
