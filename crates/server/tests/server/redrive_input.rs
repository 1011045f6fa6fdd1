//! What cannot be taken at the doors of redrives, told by the field that is wrong.

use serde_json::{Value, json};

use super::rig::TestApp;

const ID: &str = "019a8b1c-7e00-7000-8000-000000000000";

/// Every case is refused with 400, this code and this field, or with the field that the problem says nothing of.
async fn refused(app: &TestApp, address: &str, cases: &[(Value, &str, &str)]) {
    for (body, code, field) in cases {
        let problem = app.post(address, body).await.problem(400, code);
        let told = problem["field"].as_str().unwrap_or_default();
        assert_eq!(told, *field, "{address} {body}: {problem}");
    }
    for text in ["{", "[]", "7", "\"x\""] {
        app.post_text(address, "application/json", text).await.problem(400, "bad_json");
    }
}

fn with(more: Value) -> Value {
    let mut body = json!({"filter": {"queue": "a"}});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn options(more: Value) -> Value {
    with(json!({"reprocessingOptions": more}))
}

#[tokio::test]
async fn a_plan_that_makes_no_sense_is_refused_by_its_field() {
    let app = TestApp::new().await;
    let bad = "bad_request";
    let criteria = "reprocessingOptions.filterCriteria";
    let cases = [
        (json!({}), "filter_required", ""),
        (json!({"filter": {}}), "filter_required", ""),
        (json!({"filter": {"q": ""}}), "filter_required", ""),
        (json!({"all": false}), "filter_required", ""),
        (json!({"filter": {"type": "*"}}), "filter_required", ""),
        (json!({"filter": {"q": "queue:** status:pending"}}), "filter_required", ""),
        (json!({"filter": {"status": "pending"}}), "filter_required", ""),
        (json!({"all": true}), bad, "expectedCount"),
        (json!({"all": "yes", "expectedCount": 1}), bad, "all"),
        (with(json!({"all": true, "expectedCount": 1})), bad, "all"),
        (json!({"filter": {"color": "red"}}), "bad_filter", ""),
        (json!({"filter": []}), "bad_filter", ""),
        (json!({"letters": []}), bad, "letters"),
        (json!({"letters": ID}), bad, "letters"),
        (json!({"letters": [7]}), bad, "letters[0]"),
        (json!({"letters": [ID, "7"]}), "bad_id", "letters[1]"),
        (json!({"letters": vec![ID; 501]}), bad, "letters"),
        (with(json!({"letters": [ID]})), bad, "letters"),
        (json!({"letters": [ID], "all": true, "expectedCount": 1}), bad, "letters"),
        (with(json!({"expectedCount": -1})), bad, "expectedCount"),
        (with(json!({"expectedCount": 1.5})), bad, "expectedCount"),
        (with(json!({"expectedCount": "1"})), bad, "expectedCount"),
        (with(json!({"pace": 0})), bad, "pace"),
        (with(json!({"pace": 1_000_001})), bad, "pace"),
        (with(json!({"pace": 1e300})), bad, "pace"),
        (with(json!({"pace": "fast"})), bad, "pace"),
        (with(json!({"pace": {"perMinute": 1}})), bad, "pace"),
        (with(json!({"canary": 101})), bad, "canary"),
        (with(json!({"canary": -1})), bad, "canary"),
        (with(json!({"canaryAssumed": 1})), bad, "canaryAssumed"),
        (with(json!({"canaryTimeout": 300})), bad, "canaryTimeout"),
        (with(json!({"canaryTimeout": "soon"})), bad, "canaryTimeout"),
        (with(json!({"canaryTimeout": "1s"})), bad, "canaryTimeout"),
        (with(json!({"quiet": "9999d"})), bad, "quiet"),
        (with(json!({"stopPercent": 101})), bad, "stopPercent"),
        (with(json!({"stopOf": 0})), bad, "stopOf"),
        (with(json!({"stopOf": 99_999_999_999_u64})), bad, "stopOf"),
        (with(json!({"reason": ["x"]})), bad, "reason"),
        (with(json!({"reason": "x".repeat(5_000)})), bad, "reason"),
        (with(json!({"speed": 1})), bad, "speed"),
        (with(json!({"reprocessingOptions": []})), bad, "reprocessingOptions"),
        (options(json!({"batchSize": 0})), bad, "reprocessingOptions.batchSize"),
        (options(json!({"batchSize": "50"})), bad, "reprocessingOptions.batchSize"),
        (options(json!({"concurrency": 513})), bad, "reprocessingOptions.concurrency"),
        (options(json!({"order": 1})), bad, "reprocessingOptions.order"),
        (options(json!({"prioritization": "asc"})), bad, "reprocessingOptions.prioritization"),
        (
            options(json!({"prioritization": {"orderBy": "size"}})),
            bad,
            "reprocessingOptions.prioritization.orderBy",
        ),
        (
            options(json!({"prioritization": {"direction": 1}})),
            bad,
            "reprocessingOptions.prioritization.direction",
        ),
        (options(json!({"prioritization": {"by": "x"}})), bad, "reprocessingOptions.prioritization.by"),
        (options(json!({"filterCriteria": 7})), bad, criteria),
        (options(json!({"filterCriteria": {"queue": "a"}})), bad, "reprocessingOptions.filterCriteria.queue"),
        (options(json!({"filterCriteria": {"errorTypes": []}})), "bad_filter", criteria),
        (options(json!({"filterCriteria": {"maxAge": "old"}})), "bad_filter", criteria),
        (options(json!({"filterCriteria": {"minRetryCount": -1}})), "bad_filter", criteria),
        (
            options(json!({"filterCriteria": {"minRetryCount": 5, "maxRetryCount": 1}})),
            "bad_filter",
            criteria,
        ),
    ];
    refused(&app, "/api/v1/redrives/plan", &cases).await;
    let both = json!({"filter": {"errorType": "A"},
        "reprocessingOptions": {"filterCriteria": {"errorTypes": ["B"]}}});
    let problem = app.post("/api/v1/redrives/plan", &both).await.problem(400, bad);
    assert_eq!(problem["field"], "reprocessingOptions.filterCriteria.errorTypes");
    assert_eq!(app.get("/api/v1/redrives").await.expect(200)["items"], json!([]), "none of them left a plan");
}

#[tokio::test]
async fn a_launch_that_makes_no_sense_is_refused_by_its_field() {
    let app = TestApp::new().await;
    let bad = "bad_request";
    let with = |more: Value| {
        let mut body = json!({"planId": ID, "count": 1});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let cases = [
        (json!({}), bad, "planId"),
        (json!({"planId": ID}), bad, "count"),
        (json!({"planId": 7, "count": 1}), bad, "planId"),
        (json!({"planId": "7", "count": 1}), "bad_id", "planId"),
        (with(json!({"count": -1})), bad, "count"),
        (with(json!({"count": "1"})), bad, "count"),
        (with(json!({"breakGlass": true})), bad, "breakGlass"),
        (with(json!({"breakGlass": "short"})), "break_glass", "breakGlass"),
        (with(json!({"pace": null, "canary": 1000})), bad, "canary"),
        (with(json!({"filter": {"queue": "a"}})), bad, "filter"),
        (
            with(json!({"reprocessingOptions": {"filterCriteria": {"maxAge": "1h"}}})),
            bad,
            "reprocessingOptions.filterCriteria",
        ),
        (
            with(json!({"reprocessingOptions": {"prioritization": {}}})),
            bad,
            "reprocessingOptions.prioritization",
        ),
    ];
    refused(&app, "/api/v1/redrives", &cases).await;
    app.post("/api/v1/redrives", &with(json!({}))).await.problem(404, "not_found");
}

#[tokio::test]
async fn steps_and_words_are_read_with_care() {
    let app = TestApp::new().await;
    let bad = "bad_request";
    let at = |step: &str| format!("/api/v1/redrives/{ID}/{step}");
    let cases = [(json!({"reason": 1}), bad, "reason"), (json!({"force": true}), bad, "force")];
    refused(&app, &at("pause"), &cases).await;
    refused(&app, &at("cancel"), &cases).await;
    refused(&app, &at("resume"), &[(json!({"reason": "x"}), bad, "reason")]).await;
    let cases = [
        (json!({}), bad, "pace"),
        (json!({"pace": null}), bad, "pace"),
        (json!({"pace": -5}), bad, "pace"),
        (json!({"pace": 5, "canary": 1}), bad, "canary"),
    ];
    refused(&app, &at("pace"), &cases).await;
    let cases = [
        (json!({}), bad, "outcome"),
        (json!({"outcome": "lost"}), bad, "outcome"),
        (json!({"outcome": 1}), bad, "outcome"),
        (json!({"outcome": "sent", "why": "x"}), bad, "why"),
    ];
    refused(&app, &at(&format!("letters/{ID}/settle")), &cases).await;
    app.post(&at("letters/7/settle"), &json!({"outcome": "sent"})).await.problem(400, "bad_id");
    for step in ["pause", "resume", "cancel"] {
        app.post(&at(step), &json!({})).await.problem(404, "not_found");
        app.post(&format!("/api/v1/redrives/7/{step}"), &json!({})).await.problem(400, "bad_id");
    }
    app.post(&at("pace"), &json!({"pace": "critical"})).await.problem(404, "not_found");
    app.get(&format!("/api/v1/redrives/{ID}")).await.problem(404, "not_found");
    app.get(&at("series")).await.problem(404, "not_found");
    app.get("/api/v1/redrives/7/series").await.problem(400, "bad_id");
    app.get(&format!("/api/v1/redrives/{ID}/letters")).await.problem(404, "not_found");
}

#[tokio::test]
async fn what_is_asked_of_redrives_is_asked_by_the_known_words() {
    let app = TestApp::new().await;
    for (query, code) in [
        ("state=lost", "bad_request"),
        ("kind=all", "bad_request"),
        ("incident=7", "bad_id"),
        ("limit=0", "bad_request"),
        ("limit=1&limit=2", "bad_request"),
        ("cursor=x", "bad_cursor"),
        ("sort=x", "bad_request"),
    ] {
        app.get(&format!("/api/v1/redrives?{query}")).await.problem(400, code);
    }
    for query in ["outcome=refused", "outcome=laneBlocked", "limit=x", "status=pending"] {
        app.get(&format!("/api/v1/redrives/{ID}/letters?{query}")).await.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn a_retry_is_read_with_care() {
    let app = TestApp::new().await;
    let id = app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    let bad = "bad_request";
    let edit = |edit: Value| json!({"edit": edit});
    let cases = [
        (json!({"reason": 1}), bad, "reason"),
        (json!({"force": true}), bad, "force"),
        (json!({"breakGlass": "too short"}), "break_glass", "breakGlass"),
        (edit(json!("text")), bad, "edit"),
        (edit(json!({})), bad, "edit"),
        (edit(json!({"headers": {}})), bad, "edit"),
        (edit(json!({"body": "a", "bodyBase64": "YQ=="})), bad, "edit.body"),
        (edit(json!({"bodyBase64": "no base64!"})), bad, "edit.bodyBase64"),
        (edit(json!({"bodyBase64": 7})), bad, "edit.bodyBase64"),
        (edit(json!({"contentType": "a\nb"})), bad, "edit.contentType"),
        (edit(json!({"headers": []})), bad, "edit.headers"),
        (edit(json!({"headers": {"x": 7}})), bad, "edit.headers.x"),
        (edit(json!({"headers": {"x": "a\r\nb: c"}})), bad, "edit.headers.x"),
        (edit(json!({"headers": {"a b": "c"}})), bad, "edit.headers.a b"),
        (edit(json!({"headers": {"Authorization": "Bearer x"}})), bad, "edit.headers.Authorization"),
        (edit(json!({"headers": {"X-Remote-User": "root"}})), bad, "edit.headers.X-Remote-User"),
        (edit(json!({"destination": 7})), bad, "edit.destination"),
        (edit(json!({"url": "http://evil.example.org"})), bad, "edit.url"),
    ];
    refused(&app, &format!("/api/v1/dead-letters/{id}/retry"), &cases).await;
    app.post(&format!("/api/v1/dead-letters/{ID}/retry"), &json!({})).await.problem(404, "not_found");
    app.get(&format!("/api/v1/dead-letters/{ID}/edits")).await.problem(404, "not_found");
    assert_eq!(app.get(&format!("/api/v1/dead-letters/{id}/edits")).await.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn receipts_are_read_whole_before_the_first_is_taken() {
    let app = TestApp::new().await;
    let bad = "bad_request";
    let good = json!({"letterId": ID, "life": 1});
    let with = |more: Value| {
        let mut body = good.clone();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let cases = [
        (json!({}), bad, "letterId"),
        (json!({"letterId": ID}), bad, "life"),
        (json!({"letterId": "7", "life": 1}), "bad_id", "letterId"),
        (with(json!({"life": 0})), bad, "life"),
        (with(json!({"life": 4_294_967_296_u64})), bad, "life"),
        (with(json!({"redriveId": "7"})), "bad_id", "redriveId"),
        (with(json!({"outcome": "perhaps"})), bad, "outcome"),
        (with(json!({"outcome": "failed"})), bad, "error"),
        (with(json!({"outcome": "failed", "error": "x"})), bad, "error"),
        (with(json!({"outcome": "failed", "error": {"type": "x"}})), bad, "error.message"),
        (with(json!({"error": {"message": "x"}})), bad, "error"),
        (with(json!({"at": "yesterday"})), bad, "at"),
        (with(json!({"status": "ok"})), bad, "status"),
        (json!({"receipts": []}), bad, "receipts"),
        (json!({"receipts": {}}), bad, "receipts"),
        (json!({"receipts": [good.clone(), 7]}), bad, "receipts[1]"),
        (json!({"receipts": [good.clone(), {"letterId": ID}]}), bad, "receipts[1].life"),
        (json!({"receipts": [good.clone()], "life": 1}), bad, "life"),
        (json!({"receipts": vec![good.clone(); 1_001]}), bad, "receipts"),
    ];
    refused(&app, "/api/v1/receipts", &cases).await;
}
