//! Masks that must not become values, and values that must not slip past them.

use serde_json::json;

use super::ojs::fetch;
use super::redaction::{entry, full, tells_nothing};
use super::rig::TestApp;

#[tokio::test]
async fn a_mask_is_never_sent_in_the_place_of_a_value() {
    let full = full().await;
    let retry = format!("/api/v1/dead-letters/{}/retry", full.letter);
    for edit in [
        json!({"body": "{\"password\":\"[redacted]\"}"}),
        json!({"body": "{\"card\":\"•••• 4242\"}"}),
        json!({"headers": {"X-Trace": "[redacted]"}}),
        json!({"headers": {"X-Url": "https://u:[redacted]@h/other"}}),
    ] {
        let refused = full.app.post(&retry, &json!({"edit": edit})).await.problem(400, "bad_request");
        assert!(refused["detail"].as_str().unwrap().contains("contains a mask"), "{refused}");
    }
    // One that was there before switches nothing off.
    let mut told = entry("e-9");
    told["originalEvent"]["note"] = "[redacted]".into();
    let told = full.app.report(&told).await;
    let edit = json!({"edit": {"body": "{\"note\":\"[redacted]\",\"password\":\"[redacted]\"}"}});
    full.app.post(&format!("/api/v1/dead-letters/{told}/retry"), &edit).await.problem(400, "bad_request");
    let retry = format!("/ojs/v1/dead-letter/{}/retry", full.job);
    let refused = full.app.post(&retry, &json!({"args": [1, {"password": "[redacted]"}]})).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let back = full.app.post(&retry, &json!({})).await;
    assert_eq!(back.status, 200);
    tells_nothing("retry", &back);
    assert_eq!(fetch(&full.app, "mails").await[0]["args"][1]["password"], "hush-30");
}

#[tokio::test]
async fn a_revision_does_not_keep_the_masks_of_the_one_before() {
    let full = full().await;
    let path = format!("/api/v1/incidents/{}", full.incident);
    let shown = full.app.get(&path).await.expect(200)["rca"].clone();
    let revised = json!({
        "category": "contract", "rootCause": shown["rootCause"], "remediation": "the vault was asked again",
    });
    let refused = full.app.post(&format!("{path}/rca"), &revised).await.problem(400, "bad_request");
    assert_eq!(refused["field"], "rootCause", "{refused}");
    let other = json!({
        "category": "contract", "rootCause": "the vault gave an old one", "remediation": "the vault was asked again",
    });
    full.app.post(&format!("{path}/rca"), &other).await.expect(200);
}

#[tokio::test]
async fn half_a_secret_is_not_in_a_list() {
    let app = TestApp::new().await;
    for (n, tail) in ["4242 4242 4242 4242", "postgres://app:hunter2secret@db/x"].into_iter().enumerate() {
        // The end of what a list keeps falls into it.
        let message = format!("{} {tail}", "x".repeat(1_024 - 12));
        app.report(&json!({"eventId": format!("e{n}"), "originalEvent": {}, "error": {"message": message}}))
            .await;
    }
    let answer = app.get("/api/v1/dead-letters").await;
    let text = String::from_utf8_lossy(&answer.bytes);
    assert!(text.contains("xxx") && !text.contains("4242") && !text.contains("app:"), "{text}");
}

#[tokio::test]
async fn what_is_done_to_a_redrive_does_not_tell_its_filter() {
    let mut full = full().await;
    let filter =
        json!({"filter": {"q": "status:pending path:$.payload.password=hush-1"}, "reason": "token=hush-50"});
    let planned = full.app.post("/api/v1/redrives/plan", &filter).await;
    assert_eq!(planned.status, 201, "{planned:?}");
    let id = planned.json()["id"].as_str().unwrap().to_owned();
    let operator = full.app.token_of("operator").await;
    full.app.token = Some(operator);
    let cancelled = full.app.post(&format!("/api/v1/redrives/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200);
    tells_nothing("cancel", &cancelled);
    let released = json!({"reason": "over"});
    let released = full.app.post(&format!("/api/v1/holds/{}/release", full.hold), &released).await;
    assert!(released.status.is_success(), "{released:?}");
    tells_nothing("release", &released);
}
