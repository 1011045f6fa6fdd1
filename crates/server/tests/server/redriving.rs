//! What tests of redrives have in common: letters whose cause is known and fixed, plans of them, runs that go on.

use lazaret_server::config::Success;
use lazaret_server::operations::Progress;
use lazaret_server::redrive;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::rig::TestApp;

/// A server whose letters go back to a receiver.
pub async fn serving(success: Success) -> (TestApp, Receiver) {
    let receiver = Receiver::start().await;
    let app = TestApp::with(receiver.config(success), Mode::Real).await;
    (app, receiver)
}

pub fn entry(event: &str) -> Value {
    json!({
        "eventId": event,
        "originalEvent": {"eventId": event, "pattern": "order.created", "payload": {"total": 1.50}},
        "error": {"type": "Timeout", "message": "call timed out"},
    })
}

pub async fn report(app: &TestApp, letters: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..letters {
        ids.push(app.report(&entry(&format!("e{n}"))).await);
        app.pass(1_000);
    }
    ids
}

pub async fn incident_of(app: &TestApp, letter: &str) -> String {
    let letter = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    format!("/api/v1/incidents/{}", letter["incidentId"].as_str().unwrap())
}

pub async fn diagnose(app: &TestApp, incident: &str, category: &str) {
    let rca = json!({"category": category, "rootCause": "a", "remediation": "b"});
    app.post(&format!("{incident}/rca"), &rca).await.expect(200);
}

/// Letters whose cause is known and fixed, and their incident.
pub async fn fixed(app: &TestApp, letters: usize) -> (Vec<String>, String) {
    let ids = report(app, letters).await;
    let incident = incident_of(app, &ids[0]).await;
    diagnose(app, &incident, "infrastructure").await;
    app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
    (ids, incident)
}

pub fn all() -> Value {
    json!({"filter": {"type": "order.*"}, "pace": "unlimited", "canary": 0})
}

pub async fn plan(app: &TestApp) -> Value {
    app.post("/api/v1/redrives/plan", &all()).await.expect(201)
}

pub fn launch_of(plan: &Value) -> Value {
    json!({"planId": plan["id"], "count": plan["count"]})
}

pub fn url(redrive: &Value) -> String {
    format!("/api/v1/redrives/{}", redrive["id"].as_str().unwrap())
}

/// Lets every run go on until nothing more happens by itself.
pub async fn drive(app: &TestApp) {
    while redrive::tick(&app.app).await.unwrap() == Progress::More {}
}
