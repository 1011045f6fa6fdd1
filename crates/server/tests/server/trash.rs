//! Deleting letters over the API, the trash they are in, and what brings them back.

use lazaret_server::operations::Progress;
use serde_json::json;

use super::rig::TestApp;

const DAY_MS: i64 = 86_400_000;

async fn letter(app: &TestApp, event: &str) -> String {
    let entry = json!({
        "eventId": event,
        "originalEvent": {"pattern": "order.created"},
        "error": {"type": "Timeout", "message": "timed out"},
    });
    let id = app.report(&entry).await;
    app.pass(1_000);
    id
}

#[tokio::test]
async fn a_deleted_letter_can_be_restored_as_it_was() {
    let app = TestApp::new().await;
    let id = letter(&app, "e1").await;
    let path = |action: &str| format!("/api/v1/dead-letters/{id}/{action}");
    app.post(&path("discard"), &json!({"reason": "poison"})).await.expect(200);
    let deleted = app.post(&path("delete"), &json!({"reason": "test data"})).await.expect(200);
    assert_eq!((&deleted["status"], &deleted["place"]), (&json!("discarded"), &json!("deleted")));
    app.get(&format!("/api/v1/dead-letters/{id}")).await.problem(404, "not_found");
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 0);
    let refused = app.post(&path("delete"), &json!({})).await;
    assert!([404, 409].contains(&refused.status.as_u16()), "{refused:?}");
    let trash = app.get("/api/v1/trash").await.expect(200);
    let expected = json!({
        "letterId": id, "source": "report", "queue": "report", "type": "order.created", "eventId": "e1",
        "errorType": "Timeout", "errorMessage": "timed out", "status": "discarded",
        "diedAt": "2026-11-15T03:00:00.000Z", "deletedAt": "2026-11-15T03:00:01.000Z", "deletedBy": "local",
        "keptUntil": "2027-02-13T03:00:00.000Z",
    });
    assert_eq!(trash, json!({"items": [expected], "nextCursor": null}));

    let restored = app.post(&path("restore"), &json!({"reason": "by mistake"})).await.expect(200);
    assert_eq!((&restored["status"], &restored["place"]), (&json!("discarded"), &json!("live")));
    app.post(&path("restore"), &json!({})).await.problem(409, "not_allowed");
    assert_eq!(app.get("/api/v1/trash").await.expect(200)["items"], json!([]));
    let audit = app.get("/api/v1/audit").await.expect(200);
    let said: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(said, ["restore", "delete", "discard"]);
    app.check().await;
}

#[tokio::test]
async fn what_is_held_stays_and_what_has_a_successor_stays_deleted() {
    let app = TestApp::new().await;
    let held = letter(&app, "held").await;
    app.post(&format!("/api/v1/dead-letters/{held}/hold"), &json!({"reason": "case"})).await.expect(200);
    let refused = app.post(&format!("/api/v1/dead-letters/{held}/delete"), &json!({})).await;
    assert_eq!(refused.problem(409, "not_allowed")["held"], true);

    let old = letter(&app, "again").await;
    app.post(&format!("/api/v1/dead-letters/{old}/delete"), &json!({})).await.expect(200);
    let new = letter(&app, "again").await;
    assert_ne!(old, new);
    let replaced = app.post(&format!("/api/v1/dead-letters/{old}/restore"), &json!({})).await;
    assert!(replaced.problem(409, "replaced")["hint"].as_str().unwrap().contains("eventId"));
    app.check().await;
}

#[tokio::test]
async fn by_filter_a_reason_is_needed() {
    let app = TestApp::new().await;
    for event in ["a", "b", "c"] {
        letter(&app, event).await;
    }
    let path = "/api/v1/dead-letters/delete";
    let wish = json!({"filter": {"type": "order.*"}, "expectedCount": 3});
    app.post(path, &wish).await.problem(400, "reason_required");
    let mut wish = wish;
    wish["reason"] = json!("test data");
    let done = app.post(path, &wish).await.expect(200);
    assert_eq!((&done["action"], &done["done"], &done["skipped"]), (&json!("delete"), &json!(3), &json!(0)));
    app.check().await;
}

#[tokio::test]
async fn the_trash_is_turned_over_by_cursor_and_emptied_by_the_clock() {
    let app = TestApp::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let id = letter(&app, &format!("e{n}")).await;
        app.post(&format!("/api/v1/dead-letters/{id}/delete"), &json!({})).await.expect(200);
        ids.insert(0, id);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("/api/v1/trash?limit=2&cursor={cursor}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item["letterId"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, ids);
    app.get("/api/v1/trash?cursor=x").await.problem(400, "bad_cursor");
    app.get("/api/v1/trash?limit=0").await.problem(400, "bad_request");
    app.get("/api/v1/trash?queue=q").await.problem(400, "bad_request");

    app.pass(89 * DAY_MS);
    assert_eq!(lazaret_server::trash::empty(&app.app).await.unwrap(), Progress::Idle);
    assert_eq!(app.get("/api/v1/trash").await.expect(200)["items"].as_array().unwrap().len(), 5);
    app.pass(DAY_MS);
    lazaret_server::trash::empty(&app.app).await.unwrap();
    assert_eq!(app.get("/api/v1/trash").await.expect(200)["items"], json!([]));
    let gone = app.post(&format!("/api/v1/dead-letters/{}/restore", ids[0]), &json!({})).await;
    assert!([404, 409].contains(&gone.status.as_u16()), "{gone:?}");
    app.check().await;
}
