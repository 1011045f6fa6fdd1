//! Incidents: letters of one cause as one thing, lists of them, each by itself, and why a letter is in one.

use serde_json::{Value, json};

use super::rig::{START, TestApp};

fn entry(id: &str, pattern: &str, error_type: &str, message: &str) -> Value {
    json!({
        "eventId": id,
        "originalEvent": {"pattern": pattern, "metadata": {"tenantId": "acme"}},
        "subscriberId": "mailer",
        "error": {"type": error_type, "message": message},
    })
}

async fn list(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/api/v1/incidents?{query}")).await.expect(200)
}

fn titles(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn letters_of_one_cause_are_one_incident() {
    let app = TestApp::new().await;
    for n in 0..3 {
        app.report(&entry(&format!("e{n}"), "order.created", "Timeout", &format!("call {n}1 timed out")))
            .await;
    }
    let page = list(&app, "").await;
    assert_eq!((&page["total"], &page["nextCursor"]), (&json!(1), &Value::Null), "{page}");
    let incident = &page["items"][0];
    assert_eq!((&incident["count"], &incident["state"]), (&json!(3), &json!("open")));
    assert_eq!(incident["byStatus"], json!({"pending": 3, "reprocessing": 0, "resolved": 0, "discarded": 0}));
    assert_eq!((&incident["type"], &incident["errorType"]), (&json!("order.created"), &json!("Timeout")));
    assert_eq!((&incident["class"], &incident["category"]), (&json!("transient"), &json!("infrastructure")));
    assert_eq!((&incident["firstSeenAt"], &incident["lastSeenAt"]), (&json!(START), &json!(START)));
    assert!(incident["title"].as_str().unwrap().contains("Timeout"), "{incident}");
    assert!(incident.get("mergedInto").is_none());
    let sparkline = &incident["sparkline"];
    assert_eq!(
        (&sparkline["step"], &sparkline["from"]),
        (&json!("hour"), &json!("2026-11-13T04:00:00.000Z"))
    );
    let arrived = sparkline["arrived"].as_array().unwrap();
    assert_eq!((arrived.len(), &arrived[47], &arrived[46]), (48, &json!(3), &json!(0)));
    app.check().await;
}

#[tokio::test]
async fn an_incident_closes_with_its_last_letter() {
    let app = TestApp::new().await;
    let id = app.report(&entry("e", "order.created", "Timeout", "timed out")).await;
    app.post(&format!("/api/v1/dead-letters/{id}/resolve"), &json!({})).await.expect(200);
    let page = list(&app, "state=closed").await;
    assert_eq!(page["total"], 1, "{page}");
    assert_eq!((&page["items"][0]["state"], &page["items"][0]["count"]), (&json!("closed"), &json!(1)));
    assert_eq!(page["items"][0]["byStatus"]["resolved"], 1);
    assert_eq!(list(&app, "state=open,regressed&state=fixed").await["total"], 0);
    app.check().await;
}

#[tokio::test]
async fn pages_walk_all_incidents_once_in_every_order() {
    let app = TestApp::new().await;
    for n in 0..7 {
        for letter in 0..=n % 3 {
            app.report(&entry(&format!("e{n}-{letter}"), &format!("type{n}"), "Timeout", "timed out")).await;
        }
        app.pass(60_000);
    }
    for sort in ["-lastSeenAt", "-firstSeenAt", "-count", "-unsettled"] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        // All of them are still to be dealt with.
        let by = if sort == "-unsettled" { "count" } else { &sort[1..] };
        loop {
            let page = list(&app, &format!("limit=3&sort={sort}&cursor={cursor}")).await;
            assert_eq!(page["total"], 7);
            seen.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| (item[by].to_string(), item["id"].as_str().unwrap().to_owned())),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        let mut expected = seen.clone();
        expected.sort();
        expected.dedup();
        expected.reverse();
        assert_eq!((seen.len(), &seen), (7, &expected), "{sort}");
    }
    let first = list(&app, "limit=2&type=type*").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    for query in ["", "type=type1*", "type=type*&sort=-count", "type=type*&since=24h"] {
        app.get(&format!("/api/v1/incidents?{query}&cursor={cursor}")).await.problem(400, "bad_cursor");
    }
    app.get(&format!("/api/v1/dead-letters?cursor={cursor}")).await.problem(400, "bad_cursor");
}

#[tokio::test]
async fn lists_are_narrowed_by_what_incidents_are_like() {
    let app = TestApp::new().await;
    app.report(&entry("e1", "order.created", "Timeout", "call timed out")).await;
    app.pass(3_600_000);
    app.report(&entry("e2", "mail.sent", "ValidationError", "address is invalid")).await;
    for (query, expected) in [
        ("", &["mail.sent", "order.created"][..]),
        ("sort=-firstSeenAt", &["mail.sent", "order.created"]),
        ("type=order.*", &["order.created"]),
        ("errorType=Validation*", &["mail.sent"]),
        ("class=transient", &["order.created"]),
        ("text=ADDRESS", &["mail.sent"]),
        ("since=30m", &["mail.sent"]),
        ("since=2026-11-15T00:00:00Z&state=open", &["mail.sent", "order.created"]),
        ("type=nothing", &[]),
    ] {
        let page = list(&app, query).await;
        assert_eq!(titles(&page), expected, "{query}");
        assert_eq!(page["total"], expected.len(), "{query}");
    }
}

#[tokio::test]
async fn an_incident_shows_its_cause_and_whom_it_hits() {
    let app = TestApp::new().await;
    for n in 0..3 {
        app.report(&entry(&format!("e{n}"), "order.created", "Timeout", "call timed out")).await;
    }
    app.report(&entry("other", "order.paid", "Timeout", "call timed out")).await;
    let page = list(&app, "type=order.created").await;
    let id = page["items"][0]["id"].as_str().unwrap();
    let incident = app.get(&format!("/api/v1/incidents/{id}")).await.expect(200);
    for (key, value) in page["items"][0].as_object().unwrap() {
        assert_eq!(&incident[key], value, "{key}");
    }
    let cause = &incident["fingerprints"][0];
    assert_eq!(cause["fingerprint"], incident["fingerprint"]);
    assert_eq!(
        (&cause["parts"]["type"], &cause["parts"]["errorType"]),
        (&json!("order.created"), &json!("Timeout"))
    );
    assert!(cause["parts"]["frames"].is_array() && cause["parts"]["rule"].is_null(), "{cause}");
    let affected = &incident["affected"];
    assert_eq!(affected["over"], 3);
    for (key, value) in [
        ("queues", "report"),
        ("types", "order.created"),
        ("subscribers", "mailer"),
        ("tenants", "acme"),
        ("classes", "transient"),
    ] {
        assert_eq!(affected[key], json!([{"value": value, "count": 3}]), "{key}");
    }
    assert_eq!(affected["aggregates"], json!([]));
    let series = &incident["series"];
    assert_eq!(
        (&series["from"], &series["until"]),
        (&json!("2026-11-01T04:00:00.000Z"), &json!("2026-11-15T04:00:00.000Z"))
    );
    assert_eq!(series["points"], json!([{"at": START, "arrived": 3, "departed": 0}]));
    let similar = &incident["similar"][0];
    assert!(similar["id"].is_string() && similar["id"] != json!(id), "{similar}");
    assert_eq!((&similar["count"], &similar["state"]), (&json!(1), &json!("open")));
    let likeness = similar["likeness"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&likeness), "{likeness}");
}

#[tokio::test]
async fn an_incident_that_is_not_there_is_not_found() {
    let app = TestApp::new().await;
    let problem =
        app.get("/api/v1/incidents/019a8b1c-7e00-7000-8000-000000000000").await.problem(404, "not_found");
    assert!(problem["detail"].as_str().unwrap().contains("019a8b1c"), "{problem}");
    app.get("/api/v1/incidents/7").await.problem(400, "bad_id");
}

#[tokio::test]
async fn what_is_asked_of_incidents_is_asked_by_the_known_words() {
    let app = TestApp::new().await;
    for (query, said) in [
        ("colour=red", "known: state, type"),
        ("state=dead", "regressed"),
        ("state=", "regressed"),
        ("class=odd", "transient"),
        ("sort=lastSeenAt", "-lastSeenAt"),
        ("limit=0", "1 to 500"),
        ("text=", "empty"),
        ("since=soon", "since"),
        ("type=a&type=b", "type given twice"),
    ] {
        let problem = app.get(&format!("/api/v1/incidents?{query}")).await.problem(400, "bad_request");
        assert!(problem.to_string().contains(said), "{query}: {problem}");
    }
    app.report(&entry("e1", "a", "T", "m")).await;
    app.report(&entry("e2", "a", "T", "m")).await;
    let letters = app.get("/api/v1/dead-letters?limit=1").await.expect(200);
    for cursor in [letters["nextCursor"].as_str().unwrap(), "x", "%00"] {
        app.get(&format!("/api/v1/incidents?cursor={cursor}")).await.problem(400, "bad_cursor");
    }
    assert_eq!(list(&app, "cursor=&limit=9999").await["nextCursor"], Value::Null);
}

#[tokio::test]
async fn a_letter_tells_why_it_is_where_it_is() {
    let app = TestApp::new().await;
    let id = app.report(&entry("e", "order.created", "Timeout", "order 4711 timed out")).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    let grouping = &letter["grouping"];
    assert_eq!(grouping["fingerprint"], letter["fingerprint"]);
    assert_eq!(grouping["incidentId"], letter["incidentId"]);
    assert_eq!(
        (&grouping["parts"]["type"], &grouping["parts"]["errorType"]),
        (&json!("order.created"), &json!("Timeout"))
    );
    assert!(
        grouping["parts"]["language"].is_null() && grouping["parts"]["template"].is_string(),
        "{grouping}"
    );
    let differences = grouping["differences"].as_array().unwrap();
    assert!(
        differences.iter().any(|one| one["here"].as_str().unwrap().contains("4711")
            && !one["common"].as_str().unwrap().contains("4711")
            && one["part"].is_string()),
        "{grouping}"
    );
}

#[tokio::test]
async fn a_letter_tells_what_was_decided_on_it() {
    let app = TestApp::new().await;
    let id = app.report(&entry("e", "order.created", "Timeout", "timed out")).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["decisions"], json!([]));
    app.post(&format!("/api/v1/dead-letters/{id}/hold"), &json!({"reason": "case 7"})).await.expect(200);
    app.pass(1_000);
    app.post(&format!("/api/v1/dead-letters/{id}/release"), &json!({})).await.expect(200);
    let many = json!({"filter": {"queue": "report"}, "expectedCount": 1, "reason": "done by hand"});
    let operation = app.post("/api/v1/dead-letters/resolve", &many).await.expect(200);
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    let later = "2026-11-15T03:00:01.000Z";
    assert_eq!(
        letter["decisions"],
        json!([
            {"at": START, "action": "hold", "actor": "local", "role": "admin", "reason": "case 7", "operationId": null, "imported": false},
            {"at": later, "action": "release", "actor": "local", "role": "admin", "reason": null, "operationId": null, "imported": false},
            {"at": later, "action": "resolve", "actor": "local", "role": "admin", "reason": "done by hand", "operationId": operation["id"], "imported": false},
        ])
    );
}
