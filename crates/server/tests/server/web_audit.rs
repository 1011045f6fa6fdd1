//! The audit log as a page.

use lazaret_server::audit::{self, AuditKey};
use rusqlite::Connection;
use serde_json::json;

use super::rig::{Answer, TestApp};
use super::web::{Browser, between};

#[track_caller]
fn shown(answer: &Answer) -> String {
    let text = Browser::text(answer);
    assert_eq!(answer.status, 200, "{text}");
    text
}

async fn letter(app: &TestApp, event: &str) -> String {
    app.report(&json!({"eventId": event, "originalEvent": {}})).await
}

#[tokio::test]
async fn an_empty_log_says_what_will_stand_there() {
    let app = TestApp::new().await;
    let page = shown(&Browser::default().get(&app, "/audit").await);
    assert!(page.contains("No entries yet."), "{page}");
    let page = shown(&Browser::default().get(&app, "/audit?before=1").await);
    assert!(page.contains("No older entries."), "{page}");
}

#[tokio::test]
async fn an_entry_tells_who_what_why_and_leads_there() {
    let app = TestApp::new().await;
    let id = letter(&app, "e").await;
    let decided = json!({"reason": "it was paid <b>by hand</b>\u{202e}"});
    app.post(&format!("/api/v1/dead-letters/{id}/resolve"), &decided).await.expect(200);
    let many = json!({"filter": {"queue": "report"}, "expectedCount": 1, "reason": "again"});
    app.post("/api/v1/dead-letters/reopen", &many).await.expect(200);
    let incidents = app.get("/api/v1/incidents").await.expect(200);
    let incident = incidents["items"][0]["id"].as_str().unwrap().to_owned();
    let note = json!({"text": "looking"});
    app.post(&format!("/api/v1/incidents/{incident}/notes"), &note).await;
    let page = shown(&Browser::default().get(&app, "/audit").await);
    assert!(page.contains(&format!("href=\"/letters/{id}\"")), "{page}");
    assert!(page.contains(&format!("href=\"/incidents/{incident}\"")), "{page}");
    assert!(page.contains("href=\"/letters?q=queue%3Areport\""), "{page}");
    assert!(page.contains("it was paid &#60;b&#62;by hand&#60;/b&#62;⟨U+202E⟩"), "{page}");
    assert!(page.contains(">local ") && page.contains(">admin<"), "{page}");
    let (_, entries) = page.split_once("id=\"entries\"").unwrap();
    let (reopened, resolved) = (entries.find("reopen").unwrap(), entries.find("resolve").unwrap());
    assert!(reopened < resolved, "Newest");
}

#[tokio::test]
async fn the_log_is_read_page_by_page() {
    let app = TestApp::new().await;
    let id = letter(&app, "e").await;
    for n in 0..60 {
        let verb = if n % 2 == 0 { "hold" } else { "release" };
        let why = json!({"reason": format!("reason {n};")});
        app.post(&format!("/api/v1/dead-letters/{id}/{verb}"), &why).await.expect(200);
    }
    let browser = Browser::default();
    let first = shown(&browser.get(&app, "/audit").await);
    assert!(first.contains("reason 59;") && first.contains("reason 10;") && !first.contains("reason 9;"));
    assert!(first.contains("id=\"entries\" data-live="), "the newest page lives");
    let older = between(&first, "<a class=\"button\" href=\"/audit?before=", "\"").unwrap();
    let second = shown(&browser.get(&app, &format!("/audit?before={older}")).await);
    assert!(second.contains("reason 9;") && second.contains("reason 0;") && !second.contains("reason 10;"));
    assert!(second.contains("End of log") && second.contains("href=\"/audit\">Newest"), "{second}");
    assert!(!second.contains("id=\"entries\" data-live"));
    let bad = browser.get(&app, "/audit?before=x").await;
    assert_eq!(bad.status, 400);
    assert!(Browser::text(&bad).contains("before must be a position"));
    let bad = browser.get(&app, "/audit?colour=red").await;
    assert_eq!(bad.status, 400, "what cannot be filtered by is not passed over");
}

#[tokio::test]
async fn the_log_is_narrowed_and_keeps_that_from_page_to_page() {
    let app = TestApp::new().await;
    let (one, other) = (letter(&app, "e1").await, letter(&app, "e2").await);
    let hold = |id: String| {
        let app = &app;
        async move {
            app.post(&format!("/api/v1/dead-letters/{id}/hold"), &json!({"reason": "kept"})).await.expect(200)
        }
    };
    hold(other.clone()).await;
    for n in 0..55 {
        let why = json!({"reason": format!("reason {n};")});
        let verb = if n % 2 == 0 { "hold" } else { "release" };
        app.post(&format!("/api/v1/dead-letters/{one}/{verb}"), &why).await.expect(200);
    }
    let browser = Browser::default();
    let of = |page: &str| page.matches("id=\"entry-").count();
    // The form sends what was left empty, too.
    let text = shown(&browser.get(&app, &format!("/audit?actor=&action=hold&letter={one}")).await);
    assert_eq!(of(&text), 28);
    assert!(!text.contains(&format!("/letters/{other}")) && text.contains("action: hold"), "{text}");
    let first = shown(&browser.get(&app, &format!("/audit?letter={one}&actor=local")).await);
    assert_eq!(of(&first), 50);
    let older =
        between(&first, "<a class=\"button\" href=\"/audit?letter", "\"").unwrap().replace("&#38;", "&");
    assert!(older.contains("actor=local") && older.contains("before="), "{older}");
    let second = shown(&browser.get(&app, &format!("/audit?letter{older}")).await);
    assert_eq!(of(&second), 5);
    assert!(second.contains(&format!("href=\"/audit?letter={one}&#38;actor=local\">Newest")), "{second}");
    let nobody = shown(&browser.get(&app, "/audit?actor=nobody").await);
    assert!(nobody.contains("No matching entries."), "{nobody}");
    let bad = browser.get(&app, "/audit?letter=nonsense%3Cb%3E").await;
    assert_eq!(bad.status, 400);
    let text = Browser::text(&bad);
    assert!(text.contains("class=\"trouble\"") && text.contains("value=\"nonsense&#60;b&#62;\""), "{text}");
    let api = app.get("/api/v1/audit?action=release&limit=2").await.expect(200);
    assert_eq!(api["items"].as_array().unwrap().len(), 2);
    app.get("/api/v1/audit?incident=x").await.problem(400, "bad_id");
}

#[tokio::test]
async fn the_state_of_the_log_is_told_when_asked_for() {
    let mut app = TestApp::new().await;
    let browser = Browser::default();
    let page = shown(&browser.get(&app, "/audit").await);
    assert!(page.contains("href=\"/audit?verify=1\"") && !page.contains("id=\"chain\""), "{page}");
    let page = shown(&browser.get(&app, "/audit?verify=1").await);
    assert!(page.contains("no audit log key configured"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.key");
    std::fs::write(&path, [7; 32]).unwrap();
    app.use_audit_key(AuditKey::read_from(&path).unwrap());
    let id = letter(&app, "e").await;
    for verb in ["hold", "release", "hold"] {
        let why = json!({"reason": "case 7"});
        app.post(&format!("/api/v1/dead-letters/{id}/{verb}"), &why).await.expect(200);
    }
    audit::tick(&app.app).await.unwrap();
    let page = shown(&browser.get(&app, "/audit?verify=1").await);
    assert!(page.contains(">intact<") && page.contains("3 entries verified: 3 linked"), "{page}");
    let conn = Connection::open(app.backing.database()).unwrap();
    conn.execute("update audit set reason = 'another' where position = 2", []).unwrap();
    let page = shown(&browser.get(&app, "/audit?verify=1").await);
    assert!(page.contains(">tampered<") && page.contains("At position 2"), "{page}");
    assert!(page.contains("<code>changed</code>"), "{page}");
}
