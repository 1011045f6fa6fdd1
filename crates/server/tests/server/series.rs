//! Lines over time, suggestions, and how far the work behind the requests has come.

use serde_json::{Value, json};

use super::rig::{START, TestApp};

async fn fill(app: &TestApp) -> Vec<String> {
    let mut ids = Vec::new();
    for (id, pattern) in [("e1", "order.created"), ("e2", "order.created"), ("e3", "mail.sent")] {
        let event = json!({"pattern": pattern, "metadata": {"tenantId": "acme"}});
        let error = json!({"type": "Timeout", "code": "504", "message": "timed out"});
        ids.push(app.report(&json!({"eventId": id, "originalEvent": event, "error": error})).await);
    }
    ids
}

fn line(value: &str, points: &[(&str, u64, u64)]) -> Value {
    let points: Vec<Value> = points
        .iter()
        .map(|(at, arrived, departed)| json!({"at": at, "arrived": arrived, "departed": departed}))
        .collect();
    json!({"value": value, "points": points})
}

#[tokio::test]
async fn lines_show_what_came_and_what_went() {
    let app = TestApp::new().await;
    let ids = fill(&app).await;
    app.pass(3_600_000);
    app.post(&format!("/api/v1/dead-letters/{}/discard", ids[0]), &json!({})).await.expect(200);
    let later = "2026-11-15T04:00:00.000Z";
    let all = app.get("/api/v1/series").await.expect(200);
    assert_eq!(
        all,
        json!({"step": "hour", "from": "2026-11-13T05:00:00.000Z", "until": "2026-11-15T05:00:00.000Z",
               "items": [line("", &[(START, 3, 0), (later, 0, 1)])]})
    );
    let by = app.get("/api/v1/series?by=type&step=minute").await.expect(200);
    assert_eq!((&by["by"], &by["step"]), (&json!("type"), &json!("minute")));
    assert_eq!(
        by["items"],
        json!([line("order.created", &[(START, 2, 0), (later, 0, 1)]), line("mail.sent", &[(START, 1, 0)])])
    );
    let named = app
        .get("/api/v1/series?by=type&value=mail.sent&value=order.created&step=minute&since=30m")
        .await
        .expect(200);
    assert_eq!(named["items"], json!([line("mail.sent", &[]), line("order.created", &[(later, 0, 1)])]));
    let before = app.get(&format!("/api/v1/series?by=source&value=report&until={later}")).await.expect(200);
    assert_eq!(before["items"], json!([line("report", &[(START, 3, 0)])]));
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[2])).await.expect(200);
    let incident = letter["incidentId"].as_str().unwrap();
    let one = app.get(&format!("/api/v1/series?incident={incident}")).await.expect(200);
    assert_eq!((&one["incident"], one.get("by")), (&json!(incident), None));
    assert_eq!(one["items"], json!([line(incident, &[(START, 1, 0)])]));
    app.check().await;
}

#[tokio::test]
async fn what_is_asked_of_lines_is_asked_within_bounds() {
    let app = TestApp::new().await;
    let many = "value=a&".repeat(21);
    for (query, said) in [
        ("colour=red", "known: by, value"),
        ("by=colour", "source, queue, type"),
        ("step=second", "minute, hour"),
        ("value=a", "requires by"),
        ("incident=019a8b1c-7e00-7000-8000-000000000000&by=queue", "conflicts"),
        ("since=2h&until=3h", "before until"),
        ("step=minute&since=15d", "maximum is 20000"),
        ("since=2000-01-01T00:00:00Z", "maximum is 20000"),
        ("until=2026-11-15T00:00:00", "until"),
        (&format!("by=queue&{many}"), "maximum is 20"),
    ] {
        let problem = app.get(&format!("/api/v1/series?{query}")).await.problem(400, "bad_request");
        assert!(problem.to_string().contains(said), "{query}: {problem}");
    }
    app.get("/api/v1/series?incident=7").await.problem(400, "bad_id");
    app.get("/api/v1/series?step=minute&since=13d").await.expect(200);
    app.get("/api/v1/series?since=800d").await.expect(200);
}

#[tokio::test]
async fn values_that_occur_are_suggested() {
    let app = TestApp::new().await;
    fill(&app).await;
    let suggest = async |query: &str| app.get(&format!("/api/v1/suggest?{query}")).await.expect(200);
    assert_eq!(
        suggest("key=type&prefix=order").await,
        json!({"key": "type", "prefix": "order", "items": [{"value": "order.created", "count": 2}]})
    );
    assert_eq!(suggest("key=type&limit=1").await["items"], json!([{"value": "order.created", "count": 2}]));
    assert_eq!(suggest("key=queue&prefix=zz").await["items"], json!([]));
    let errors = suggest("key=error&prefix=Ti").await;
    assert_eq!((&errors["key"], &errors["items"][0]["value"]), (&json!("errorType"), &json!("Timeout")));
    for (key, value) in [
        ("source", "report"),
        ("class", "transient"),
        ("status", "pending"),
        ("code", "504"),
        ("tenant", "acme"),
    ] {
        assert_eq!(suggest(&format!("key={key}")).await["items"][0]["value"], value, "{key}");
    }
    assert_eq!(suggest("key=subscriber").await["items"], json!([]));
}

#[tokio::test]
async fn suggestions_know_their_keys() {
    let app = TestApp::new().await;
    let long = format!("key=queue&prefix={}", "x".repeat(513));
    for (query, said) in [
        ("", "key is missing"),
        ("key=colour", "source, queue, type, errorType, class, status, code, subscriber, aggregate, tenant"),
        ("key=held", "known: source"),
        ("key=queue&colour=red", "known: key, prefix, limit"),
        ("key=queue&limit=x", "1 to 100"),
        ("key=queue&key=type", "given twice"),
        (&long, "512"),
    ] {
        let problem = app.get(&format!("/api/v1/suggest?{query}")).await.problem(400, "bad_request");
        assert!(problem.to_string().contains(said), "{query}: {problem}");
    }
}

#[tokio::test]
async fn progress_is_told() {
    let app = TestApp::new().await;
    fill(&app).await;
    let progress = app.get("/api/v1/progress").await.expect(200);
    let index = &progress["bodyIndex"];
    assert!(["on", "off"].contains(&index["state"].as_str().unwrap()), "{index}");
    for field in ["indexed", "behind", "lagMs"] {
        assert!(index[field].is_u64(), "{index}");
    }
    let regrouping = &progress["regrouping"];
    assert!(regrouping["revision"].is_string(), "{regrouping}");
    assert!(regrouping["towards"].is_null() || regrouping["towards"].is_string(), "{regrouping}");
    assert!(regrouping["done"].as_u64() <= regrouping["total"].as_u64(), "{regrouping}");
    app.get("/api/v1/progress?colour=red").await.problem(400, "bad_request");
    // A list that indexes answer says nothing of scanning.
    let page = app.get("/api/v1/dead-letters").await.expect(200);
    assert_eq!((page.get("scan"), page.get("bodyIndex")), (None, None));
}
