//! What becomes of letters that were put back: canaries, unknown outcomes, receipts, edits, refusals.

use lazaret_server::config::{Config, Success};
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::redriving::{drive, fixed, incident_of, launch_of, plan, report, serving, url};
use super::rig::TestApp;

#[tokio::test]
async fn canaries_go_first_and_alone() {
    let (app, receiver) = serving(Success::Receipt).await;
    fixed(&app, 4).await;
    let planned = plan(&app).await;
    let mut launch = launch_of(&planned);
    launch["canary"] = json!(2);
    let launched = app.post("/api/v1/redrives", &launch).await.expect(202);
    assert_eq!((&launched["state"], &launched["canaries"]["waiting"]), (&json!("canary"), &json!(2)));
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let page = app.get(&format!("{}/letters?outcome=sent", url(&planned))).await.expect(200);
    for letter in page["items"].as_array().unwrap() {
        assert_eq!(letter["canary"], true);
        let receipt = json!({"letterId": letter["letterId"], "life": 1});
        app.post("/api/v1/receipts", &receipt).await.expect(200);
    }
    drive(&app).await;
    let running = app.get(&url(&planned)).await.expect(200);
    assert_eq!(
        (&running["canaryPassed"], &running["canaries"]["succeeded"]),
        (&json!(true), &json!(2)),
        "{running}"
    );
    assert_eq!(receiver.got().len(), 4);
    app.check().await;
}

#[tokio::test]
async fn a_letter_of_which_nobody_knows_is_settled_by_a_persons_word() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 2).await;
    receiver.answers(&[502, 504]);
    let planned = plan(&app).await;
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    drive(&app).await;
    let run = app.get(&url(&planned)).await.expect(200);
    assert_eq!((&run["letters"]["unknown"], &run["successRate"]), (&json!(2), &Value::Null), "{run}");
    let at = |id: &str| format!("{}/letters/{id}/settle", url(&planned));
    let settled = app.post(&at(&ids[0]), &json!({"outcome": "unclaim"})).await.expect(200);
    assert_eq!(settled["letters"]["unknown"], 1, "{settled}");
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[0])).await.expect(200);
    assert_eq!(letter["status"], "pending");
    let settled = app.post(&at(&ids[1]), &json!({"outcome": "sent"})).await.expect(200);
    // What nobody knows does not hold up the end of a run, so nobody is left to verify it: it is taken for done.
    assert_eq!((&settled["state"], &settled["letters"]["unknown"]), (&json!("done"), &json!(0)), "{settled}");
    assert_eq!((&settled["letters"]["assumed"], &settled["letters"]["succeeded"]), (&json!(1), &json!(0)));
    let page = app.get(&format!("{}/letters?outcome=assumed", url(&planned))).await.expect(200);
    assert_eq!(
        (&page["items"][0]["letterId"], &page["items"][0]["evidence"]),
        (&json!(ids[1]), &json!("sent, says local"))
    );
    for id in &ids {
        app.post(&at(id), &json!({"outcome": "sent"})).await.problem(409, "not_allowed");
    }
    let nowhere = "/api/v1/redrives/019a8b1c-7e00-7000-8000-000000000000";
    let address = format!("{nowhere}/letters/{}/settle", ids[0]);
    app.post(&address, &json!({"outcome": "sent"})).await.problem(404, "not_found");
    app.check().await;
}

#[tokio::test]
async fn a_subscriber_says_what_became_of_a_letter() {
    let (mut app, _receiver) = serving(Success::Receipt).await;
    let (ids, _) = fixed(&app, 3).await;
    let planned = plan(&app).await;
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    drive(&app).await;
    assert_eq!(app.get(&url(&planned)).await.expect(200)["letters"]["sent"], 3);
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    app.token = Some(app.token_of("producer").await);
    let good = json!({"letterId": ids[0], "life": 1, "redriveId": planned["id"]});
    let answer = app.post("/api/v1/receipts", &good).await.expect(200);
    assert_eq!(answer, json!({"items": [{"letterId": ids[0], "life": 1, "result": "resolved"}]}));
    let again = app.post("/api/v1/receipts", &good).await.expect(200);
    assert_eq!(again["items"][0]["result"], "late");
    let nobody = "019a8b1c-7e00-7000-8000-000000000000";
    app.post("/api/v1/receipts", &json!({"letterId": nobody, "life": 1})).await.problem(404, "not_found");
    let error = json!({"type": "StillDown", "message": "no route", "code": "E7"});
    let many = json!({"receipts": [
        {"letterId": ids[1], "life": 1, "outcome": "succeeded"},
        {"letterId": ids[2], "life": 1, "outcome": "failed", "error": error},
        {"letterId": nobody, "life": 1},
        {"letterId": ids[1], "life": 7},
        {"letterId": ids[2], "life": 1},
    ]});
    let answer = app.post("/api/v1/receipts", &many).await.expect(200);
    let results: Vec<&str> =
        answer["items"].as_array().unwrap().iter().map(|item| item["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["resolved", "relapsed", "unknown", "unknown", "late"]);
    app.token = Some(admin);
    drive(&app).await;
    let run = app.get(&url(&planned)).await.expect(200);
    assert_eq!((&run["letters"]["succeeded"], &run["letters"]["relapsed"]), (&json!(2), &json!(1)), "{run}");
    assert_eq!(run["successRate"], 0.6667);
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[2])).await.expect(200);
    assert_eq!((&letter["status"], &letter["life"]), (&json!("pending"), &json!(2)));
    assert_eq!(letter["error"]["type"], "StillDown");
    app.check().await;
}

#[tokio::test]
async fn an_edit_is_sent_in_place_of_the_original_and_kept_beside_it() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 1).await;
    let address = format!("/api/v1/dead-letters/{}", ids[0]);
    let before = app.get(&format!("{address}/body")).await.bytes;
    let body = r#"{"reason": "the total was wrong", "edit": {"headers": {"X-Fixed": "yes"},
        "body": {"eventId": "e0", "pattern":"order.created", "payload": {"total": 12345678901234567890.50}}}}"#;
    let answer = app.post_text(&format!("{address}/retry"), "application/json", body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    let redrive = answer.json();
    assert_eq!(
        (&redrive["kind"], &redrive["edit"], &redrive["plan"]),
        (&json!("single"), &json!(1), &Value::Null)
    );
    assert_eq!(answer.headers["location"], url(&redrive).as_str());
    drive(&app).await;
    let got = receiver.got();
    let sent =
        r#"{"eventId": "e0", "pattern":"order.created", "payload": {"total": 12345678901234567890.50}}"#;
    assert_eq!((got.len(), &got[0].body[..]), (1, sent.as_bytes()));
    assert_eq!(got[0].headers["x-fixed"], "yes");
    assert_eq!(got[0].headers["lazaret-letter-id"], ids[0].as_str());
    assert_eq!(app.get(&format!("{address}/body")).await.bytes, before);
    let edits = app.get(&format!("{address}/edits")).await.expect(200);
    let edit = &edits["items"][0];
    assert_eq!((&edit["number"], &edit["author"], &edit["body"]), (&json!(1), &json!("local"), &json!(sent)));
    assert_eq!(edit["reason"], "the total was wrong");
    let diff = edit["diff"].as_str().unwrap();
    assert!(diff.contains("--- original, life 1\n+++ edit 1\n"), "{diff}");
    assert!(
        diff.contains("\n-    \"total\": 1.5")
            && diff.contains("\n+    \"total\": 12345678901234567890.50\n")
    );
    assert_eq!(edit["headersChanged"]["x-fixed"], json!([null, "yes"]));
    let letter = app.get(&address).await.expect(200);
    assert_eq!((&letter["status"], &letter["redrives"][0]["edit"]), (&json!("resolved"), &json!(1)));
    assert_eq!((&letter["edits"][0]["number"], letter["edits"][0].get("body")), (&json!(1), None));
    app.post(&format!("{address}/retry"), &json!({})).await.problem(409, "not_allowed");
    app.check().await;
}

#[tokio::test]
async fn a_retry_that_its_destination_refuses_says_so() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 1).await;
    receiver.answers(&[422]);
    let answer = app.post(&format!("/api/v1/dead-letters/{}/retry", ids[0]), &json!({})).await;
    assert!(answer.status.is_success(), "{answer:?}");
    drive(&app).await;
    let run = app.get(&url(&answer.json())).await.expect(200);
    assert_eq!((&run["state"], &run["letters"]["failed"]), (&json!("done"), &json!(1)), "{run}");
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[0])).await.expect(200);
    assert_eq!((&letter["status"], &letter["life"]), (&json!("pending"), &json!(1)));
    assert_eq!(letter["retryHistory"].as_array().unwrap().len(), 2, "{letter}");
    app.check().await;
}

#[tokio::test]
async fn without_governance_letters_go_freely() {
    let receiver = Receiver::start().await;
    let mut config: Config = receiver.config(Success::Response);
    config.sources.get_mut("report").unwrap().governance = lazaret_server::config::Governance::Optional;
    let app = TestApp::with(config, Mode::Real).await;
    let id = report(&app, 1).await.remove(0);
    let incident = incident_of(&app, &id).await;
    let answer = app.post(&format!("/api/v1/dead-letters/{id}/retry"), &json!({"reason": "try"})).await;
    assert!(answer.status.is_success(), "{answer:?}");
    drive(&app).await;
    assert_eq!(receiver.got().len(), 1);
    assert_eq!(app.get(&incident).await.expect(200)["state"], "closed");
    app.check().await;
}
