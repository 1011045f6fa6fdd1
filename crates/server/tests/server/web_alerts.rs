//! The page of alerts: what a person should be called for, and nothing when all is well.

use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::archive_rig::{Rig, flip};
use super::audit_chain::Chain;
use super::outbox::Shop;
use super::redrive_rig::configured;
use super::redriving::{entry, fixed};
use super::rig::TestApp;
use super::web::Browser;

async fn page(app: &TestApp, path: &str) -> String {
    let answer = Browser::default().get(app, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
    Browser::text(&answer)
}

#[tokio::test]
async fn all_is_well_on_a_server_that_is_linked_and_quiet() {
    let chain = Chain::new().await;
    let text = page(&chain.app, "/alerts").await;
    for part in
        ["No alerts", "Notifications are not configured", "/metrics", "unaccounted: 0", "Verify integrity"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("state critical") && !text.contains("state bad"), "{text}");
    let checked = page(&chain.app, "/alerts?check=audit").await;
    assert!(checked.contains("5 entries fit") && checked.contains("No alerts"), "{checked}");
}

#[tokio::test]
async fn a_log_that_was_changed_or_has_no_key_is_told() {
    let text = page(&TestApp::new().await, "/alerts").await;
    assert!(text.contains("Audit log not linked") && text.contains("no audit log key"), "{text}");
    let chain = Chain::new().await;
    chain.damage("update audit set reason = 'another' where position = 3");
    let text = page(&chain.app, "/alerts?check=audit").await;
    assert!(
        text.contains("Audit chain broken") && text.contains("at entry 3") && text.contains("state critical"),
        "{text}"
    );
}

#[tokio::test]
async fn an_incident_that_came_back_is_told_first() {
    let app = TestApp::new().await;
    let (_, incident) = fixed(&app, 1).await;
    app.pass(60_000);
    let mut again = entry("late");
    again["error"]["message"] = "call timed out".into();
    app.report(&again).await;
    let text = page(&app, "/alerts").await;
    let id = incident.rsplit('/').next().unwrap();
    assert!(text.contains("Incident regressed") && text.contains(&format!("/incidents/{id}")), "{text}");
    assert!(text.find("Incident regressed") < text.find("Audit log not linked"), "the worst first: {text}");
}

#[tokio::test]
async fn a_paused_redrive_is_told_with_its_reason() {
    let app = TestApp::with(configured("[sources.report]\ngovernance = 'optional'\n[sources.report.destination]\nurl = 'https://orders.example.org/in'\n"), Mode::Real).await;
    app.report(&entry("a")).await;
    let wanted = json!({"filter": {"type": "order.*"}, "pace": 1, "canary": 0});
    let plan = app.post("/api/v1/redrives/plan", &wanted).await.expect(201);
    app.post("/api/v1/redrives", &json!({"planId": plan["id"], "count": plan["count"]})).await.expect(202);
    let run = plan["id"].as_str().unwrap();
    assert!(!page(&app, "/alerts").await.contains("Redrive paused"));
    app.post(&format!("/api/v1/redrives/{run}/pause"), &json!({"reason": "a <b>storm</b>"}))
        .await
        .expect(200);
    let text = page(&app, "/alerts").await;
    assert!(text.contains("Redrive paused") && text.contains(&format!("/redrives/{run}")), "{text}");
    assert!(!text.contains("<b>storm"), "{text}");
}

#[tokio::test]
async fn queues_rules_and_files_that_need_somebody_are_told() {
    let rules = "[jobs]\ngovernance = 'required'\n[[replay_rules]]\nname = 'idle'\nfilter = 'error:A'\ndelay = 'PT1H'\nmax_replays = 1\ncategory = 'infrastructure'\n";
    let app = TestApp::with(configured(rules), Mode::Real).await;
    app.post("/ojs/v1/jobs", &json!({"type": "a.b", "args": [], "options": {"queue": "mail"}}))
        .await
        .expect(201);
    assert!(!page(&app, "/alerts").await.contains("Queue paused"));
    app.post("/ojs/v1/queues/mail/pause", &json!({})).await.expect(200);
    let text = page(&app, "/alerts").await;
    for part in ["Queue paused", "mail is paused, and 1 jobs wait in it", "Replay rule", "idle does nothing"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let rig = Rig::new(1).await;
    let one = rig.letter("e1").await;
    rig.archive(&[one]).await;
    let files = rig.settle().await;
    assert!(!page(&rig.test, "/alerts").await.contains("state critical"));
    flip(&rig.path(&files[0]), 100);
    let verify = json!({"fileId": files[0].id.to_string()});
    assert_eq!(rig.test.post("/api/v1/archive/verify", &verify).await.status, 200);
    let text = page(&rig.test, "/alerts").await;
    assert!(text.contains(&files[0].path) && text.contains("state critical"), "{text}");
}

#[tokio::test]
async fn a_source_whose_rows_vanished_is_told() {
    let mut shop = Shop::open().await;
    shop.dead_order("o-1").await;
    shop.capture().await;
    assert!(!page(&shop.app, "/alerts").await.contains("Source in trouble"));
    shop.database.execute("delete from outbox", &[]).await.unwrap();
    shop.look().await;
    let text = page(&shop.app, "/alerts").await;
    assert!(text.contains("Source in trouble") && text.contains("/sources?check=shop"), "{text}");
}

#[tokio::test]
async fn a_producer_sees_nothing_of_it() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("producer").await);
    for path in ["/alerts", "/sources", "/archive", "/rules", "/jobs"] {
        assert_eq!(Browser::default().get(&app, path).await.status, 403, "{path}");
    }
    app.token = None;
    let stranger = Browser::default().get(&app, "/alerts").await;
    assert_eq!(stranger.status, 303);
    assert!(stranger.headers["location"].to_str().unwrap().starts_with("/sign-in"));
}
