//! Where an analysis of the cause is required, no way over `/ojs` puts a job back.

use lazaret_server::config::{Config, Governance};
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::ojs::{UNKNOWN, error};
use super::ojs_dead_letter::{dead, listed};
use super::rig::TestApp;

async fn governed() -> TestApp {
    let mut config = Config::default();
    config.jobs.governance = Governance::Required;
    TestApp::with(config, Mode::Real).await
}

#[tokio::test]
async fn every_retry_is_refused_and_names_the_incident() {
    let app = governed().await;
    let one = dead(&app, "q", "t", "E").await;
    let letters = app.get("/api/v1/dead-letters").await.expect(200);
    let incident = letters["items"][0]["incidentId"].clone();
    for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
        for answer in [
            app.post(&format!("{base}/{one}/retry"), &json!({})).await,
            app.post(&format!("{base}/{one}/retry"), &json!({"override": {"queue": "r"}})).await,
            app.post(&format!("{base}/retry"), &json!({"filter": {"queue": "q"}, "confirm": true})).await,
            app.post(&format!("{base}/retry"), &json!({"all": true, "expected_count": 1, "confirm": true}))
                .await,
        ] {
            let told = error(&answer, 409, "rca_required");
            assert_eq!(told["details"]["incident"], incident);
            let url = told["details"]["incident_url"].as_str().unwrap();
            assert_eq!(app.get(url).await.expect(200)["id"], incident);
        }
        error(&app.post(&format!("{base}/{UNKNOWN}/retry"), &json!({})).await, 404, "not_found");
        error(&app.post(&format!("{base}/retry"), &json!({"confirm": true})).await, 400, "filter_required");
    }
    assert_eq!(listed(&app, "/ojs/v1/dead-letter").await, [one.as_str()]);
    // What removes is not a retry.
    app.delete(&format!("/ojs/v1/dead-letter/{one}")).await.expect(200);
    app.check().await;
}

#[tokio::test]
async fn a_retry_of_many_names_the_first_ten_incidents() {
    let app = governed().await;
    for n in 0..12 {
        dead(&app, "q", "t", &format!("Error{}", (b'A' + n) as char)).await;
    }
    let wish = json!({"filter": {"queue": "q"}, "confirm": true});
    let told = error(&app.post("/ojs/v1/dead-letter/retry", &wish).await, 409, "rca_required");
    let named = told["details"]["incidents"].as_array().unwrap();
    assert_eq!(named.len(), 10, "{told}");
    assert_eq!(named[0]["incident"], told["details"]["incident"]);
}

#[tokio::test]
async fn a_retry_under_the_rca_moves_the_incident() {
    let app = governed().await;
    let one = dead(&app, "q", "t", "E").await;
    let letters = app.get("/api/v1/dead-letters").await.expect(200);
    let incident = format!("/api/v1/incidents/{}", letters["items"][0]["incidentId"].as_str().unwrap());
    let rca = json!({"category": "contract", "rootCause": "a field was renamed", "remediation": "read both"});
    app.post(&format!("{incident}/rca"), &rca).await.expect(200);
    let fix = json!({"reference": "PR 7"});
    app.post(&format!("{incident}/fix"), &fix).await.expect(200);
    let wish = json!({"override": {"queue": "r"}});
    app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &wish).await.expect(200);
    let moved = app.get(&incident).await.expect(200);
    assert_eq!((&moved["state"], &moved["redrives"][0]["kind"]), (&json!("verifying"), &json!("single")));
    app.check().await;
}
