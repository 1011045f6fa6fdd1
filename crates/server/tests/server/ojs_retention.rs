//! The retention of the dead letter by the Open Job Specification: DLQ-004 (policies) and DLQ-005 (pruning).

use std::collections::BTreeMap;

use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::ojs::error;
use super::ojs_dead_letter::{dead, listed};
use super::redrive_rig::configured;
use super::retention::{DAY_MS, prune};
use super::rig::TestApp;

#[tokio::test]
async fn dlq_004_there_is_always_a_policy_with_an_age_and_a_count() {
    let app = TestApp::new().await;
    dead(&app, "q", "t", "E").await;
    let next = "2026-11-15T03:05:00.000Z";
    for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
        let stats = app.get(&format!("{base}/stats")).await.expect(200);
        let expected = json!({"max_age": "P180D", "max_count": 10_000, "next_prune_at": next});
        assert_eq!(stats["retention"], expected);
    }
    let text = "[jobs.retention]\nmax_age = '30d'\nmax_count = 7\n\
                [jobs.queues.billing.retention]\nmax_age = 'P365D'\nmax_count = 50_000\n";
    let app = TestApp::with(configured(text), Mode::Real).await;
    let stats = app.get("/ojs/v1/dead-letter/stats").await.expect(200);
    let expected = json!({"max_age": "P30D", "max_count": 7, "next_prune_at": next});
    assert_eq!(stats["retention"], expected);
    // The document's own example of a policy for one queue.
    for queue in ["billing", "other"] {
        dead(&app, queue, "t", "E").await;
    }
    let of_queue = async |queue: &str| {
        let stats = app.get(&format!("/ojs/v1/queues/{queue}/stats")).await.expect(200);
        stats["dead_letter"]["retention"].clone()
    };
    let billing = json!({"max_age": "P365D", "max_count": 50_000, "next_prune_at": next});
    assert_eq!(of_queue("billing").await, billing);
    assert_eq!(of_queue("other").await, expected);
}

#[tokio::test]
async fn dlq_004_a_job_goes_when_either_limit_is_passed() {
    let text = "[jobs.retention]\nmax_age = '30d'\nmax_count = 2\n";
    let app = TestApp::with(configured(text), Mode::Real).await;
    let by_age = dead(&app, "q", "t", "E").await;
    app.pass(31 * DAY_MS);
    prune(&app).await;
    assert!(listed(&app, "/ojs/v1/dead-letter").await.is_empty());
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(dead(&app, "q", "t", "E").await);
    }
    prune(&app).await;
    let mut left = listed(&app, "/ojs/v1/dead-letter").await;
    left.sort();
    let mut young = jobs[2..].to_vec();
    young.sort();
    assert_eq!(left, young);
    let address = format!("/ojs/v1/dead-letter/{by_age}");
    for answer in [
        app.get(&address).await,
        app.delete(&address).await,
        app.post(&format!("{address}/retry"), &serde_json::json!({})).await,
    ] {
        let told = error(&answer, 404, "not_found");
        assert!(told["hint"].as_str().unwrap_or_default().contains("lazaret restore"), "{told}");
    }
    error(&app.get(&format!("/ojs/v1/jobs/{}", jobs[0])).await, 404, "not_found");
    app.check().await;
}

#[tokio::test]
async fn dlq_005_pruning_is_periodic_and_tells_the_count() {
    let text = "[jobs.retention]\nmax_age = '10d'\nmin_age = '0s'\n";
    let app = TestApp::with(configured(text), Mode::Real).await;
    for queue in ["a", "a", "b"] {
        dead(&app, queue, "t", "E").await;
    }
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    app.pass(11 * DAY_MS);
    prune(&app).await;
    let events = app.get("/ojs/v1/events?types=dead_letter.pruned").await.expect(200)["events"].clone();
    // How many commits it takes is a matter of time; what they say together is not.
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for event in events.as_array().unwrap() {
        assert_eq!(event["type"], "dead_letter.pruned");
        assert_eq!(event["subject"], event["data"]["queue"]);
        assert_eq!(event["data"]["reason"], "max_age");
        let queue = event["data"]["queue"].as_str().unwrap().to_owned();
        *told.entry(queue).or_default() += event["data"]["count"].as_u64().unwrap();
    }
    let expected = [("a".to_owned(), 2), ("b".to_owned(), 1)];
    assert_eq!(told, expected.into(), "letters of other sources are not jobs");
    let only = app.get("/ojs/v1/events?types=dead_letter.pruned&queues=b").await.expect(200);
    assert_eq!(only["events"].as_array().map(Vec::len), Some(1));
    let metrics = String::from_utf8(app.get("/metrics").await.bytes).unwrap();
    assert!(metrics.contains("\nojs_dead_letter_pruned_total{queue=\"a\"} 2\n"), "{metrics}");
    assert_eq!(app.get("/ojs/v1/dead-letter/stats").await.expect(200)["total"], 0);
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["jobs"], Value::Array(Vec::new()));
    app.check().await;
}
