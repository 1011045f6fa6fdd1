//! The form that reveals a letter, as a browser without JavaScript sends it.

use lazaret_core::letter::Captured;
use serde_json::json;

use super::rig::TestApp;
use super::web::Browser;
use super::web_letter::{captured, message};

const WHY: &str = "ticket 7: <what> was sent";

async fn secret(app: &TestApp) -> String {
    let event = json!({"pattern": "a", "password": "hunter2", "note": "<script>"});
    let error = json!({"type": "AuthError", "message": "password=hunter2", "context": {"token": "hunter3"}});
    app.report(&json!({"eventId": "e", "originalEvent": event, "error": error})).await
}

#[tokio::test]
async fn a_letter_is_revealed_once_with_a_reason() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    let (id, approver) = (secret(&app).await, app.token_of("approver").await);
    app.token = Some(approver);
    let (browser, action) = (Browser::default(), format!("/letters/{id}/reveal"));
    let short = browser.submit(&app, "/", &action, &[("reason", "so <so>")]).await;
    let page = Browser::text(&short);
    assert_eq!(short.status, 400, "{page}");
    assert!(page.contains("value=\"so &#60;so&#62;\"") && page.contains("at least 10 characters"), "{page}");
    assert!(!page.contains("hunter2"), "{page}");
    let shown = browser.submit(&app, "/", &action, &[("reason", WHY)]).await;
    let page = Browser::text(&shown);
    assert_eq!(shown.status, 200, "{page}");
    for there in ["password=hunter2", "hunter3", "&#60;what&#62;", "&lt;script&gt;"] {
        assert!(page.contains(there), "{there} in {page}");
    }
    assert_eq!(shown.headers["cache-control"], "no-store");
    let log = app.get("/api/v1/audit").await.expect(200);
    assert_eq!(
        (&log["items"][0]["action"], &log["items"][0]["reason"]),
        (&json!("letter.revealed"), &json!(WHY))
    );
    assert_eq!(log["items"][0]["letterId"], id);
}

#[tokio::test]
async fn nobody_is_shown_a_letter_without_the_role_or_the_proof() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    let (id, viewer) = (secret(&app).await, app.token_of("viewer").await);
    let (browser, action) = (Browser::default(), format!("/letters/{id}/reveal"));
    let forged = browser.post(&app, &action, &[("csrf", "0"), ("reason", WHY)]).await;
    assert_eq!(forged.status, 403);
    assert!(!Browser::text(&forged).contains("hunter2"));
    app.token = Some(viewer);
    let refused = browser.submit(&app, "/", &action, &[("reason", WHY)]).await;
    assert_eq!(refused.status, 403);
    assert!(!Browser::text(&refused).contains("hunter2"));
    let log = app.get("/api/v1/audit").await.expect(200);
    assert!(
        log["items"].as_array().unwrap().iter().all(|entry| entry["action"] != "letter.revealed"),
        "{log}"
    );
}

#[tokio::test]
async fn a_letter_of_the_archive_is_revealed_where_it_is() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    let id = secret(&app).await;
    app.post(&format!("/api/v1/dead-letters/{id}/delete"), &json!({})).await.expect(200);
    let (browser, at) = (Browser::default(), format!("/letters/{id}"));
    let masked = Browser::text(&browser.get(&app, &at).await);
    assert!(masked.contains(&format!("action=\"{at}/reveal\"")) && !masked.contains("hunter2"), "{masked}");
    let short = browser.submit(&app, &at, &format!("{at}/reveal"), &[("reason", "so")]).await;
    assert_eq!(short.status, 400);
    assert!(!Browser::text(&short).contains("hunter2"));
    let shown = browser.submit(&app, &at, &format!("{at}/reveal"), &[("reason", WHY)]).await;
    let page = Browser::text(&shown);
    assert_eq!(shown.status, 200, "{page}");
    assert!(page.contains("password=hunter2") && page.contains(&format!("href=\"{at}\"")), "{page}");
    let log = app.get("/api/v1/audit").await.expect(200);
    assert_eq!(
        (&log["items"][0]["action"], &log["items"][0]["letterId"]),
        (&json!("letter.revealed"), &json!(id))
    );
}

#[tokio::test]
async fn bodies_that_are_no_json_and_headers_are_revealed_as_they_are() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    let headers = [("authorization", "Bearer hunter4"), ("x-order", "7")];
    let bodies: [(&str, &[u8], &str, &str); 2] = [
        ("e1", &[0xff, 0x00, b'A'], "application/x-protobuf", "00000000  ff 00 41"),
        ("e2", b"user=ana&password=hunter2", "application/x-www-form-urlencoded", "password=hunter2"),
    ];
    for (event, body, content_type, seen) in bodies {
        let id =
            captured(&app, Captured { message_id: event.into(), ..message(body, content_type, &headers) });
        let (id, browser) = (id.await, Browser::default());
        let masked = Browser::text(&browser.get(&app, &format!("/letters/{id}")).await);
        assert!(!masked.contains(seen) && !masked.contains("hunter4"), "{masked}");
        let action = format!("/letters/{id}/reveal");
        let shown = Browser::text(&browser.submit(&app, "/", &action, &[("reason", WHY)]).await);
        for there in [seen, "Bearer hunter4", "x-order"] {
            assert!(shown.contains(there), "{there} in {shown}");
        }
    }
}
