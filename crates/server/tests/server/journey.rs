//! The way of a letter through the API, from its report to its end.

use serde_json::json;

use super::rig::TestApp;

#[tokio::test]
async fn a_reported_letter_is_found_whole() {
    let app = TestApp::new().await;
    let event = r#"{"eventId":"e-1","pattern":"order.created","version":"2","payload":{"total":12345678901234567890.10},"metadata":{"tenantId":"acme"}}"#;
    let entry = format!(
        r#"{{"id":"mine","eventId":"e-1","subscriberId":"billing","status":"resolved","originalEvent":{event},
        "error":{{"type":"java.net.SocketTimeoutException","message":"Read timed out","code":504,"stackTrace":"at A.b(A.java:1)","context":{{"host":"pay"}},"retriable":true}},
        "retryHistory":[{{"timestamp":"2026-11-15T01:00:00Z","error":{{"message":"first"}},"processingDuration":12.4,"node":"n1"}}],
        "retryCount":1,"maxRetries":5,"team":"orders"}}"#
    );
    let answer = app.post_text("/api/v1/dead-letters", "application/json", entry).await.expect(200);
    assert_eq!(answer["items"][0]["result"], "created");
    let id = answer["items"][0]["id"].as_str().unwrap();
    let shown = app.get(&format!("/api/v1/dead-letters/{id}")).await;
    let text = String::from_utf8(shown.bytes.clone()).unwrap();
    assert!(text.contains(&format!("\"originalEvent\":{event}")), "{text}");
    let letter = shown.expect(200);
    assert_eq!(letter["status"], "pending");
    assert_eq!(letter["type"], "order.created");
    assert_eq!(letter["tenantId"], "acme");
    assert_eq!(letter["class"], "transient");
    assert_eq!(letter["error"]["stackTrace"], "at A.b(A.java:1)");
    assert_eq!(letter["error"]["retriable"], true);
    assert_eq!(letter["error"]["code"], "504");
    assert_eq!(letter["reported"], json!({"id": "mine", "status": "resolved", "team": "orders"}));
    assert_eq!(letter["retryHistory"][0]["node"], "n1");
    assert_eq!(letter["retryHistory"][0]["processingDuration"], 12);
    assert_eq!(letter["diedAt"], "2026-11-15T01:00:00.000Z");
    assert_eq!(letter["createdAt"], super::rig::START);
    let body = app.get(&format!("/api/v1/dead-letters/{id}/body")).await;
    assert_eq!(body.bytes, event.as_bytes());
    let list = app.get("/api/v1/dead-letters?q=queue:report%20timed").await.expect(200);
    assert_eq!(list["total"], 1);
    app.check().await;
}
