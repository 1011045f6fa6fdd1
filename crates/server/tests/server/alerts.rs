//! Alerts end to end: rules fire from what happened, notifications arrive as often as promised, people take care of them.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use lazaret_core::limits;
use lazaret_server::alerts;
use lazaret_server::app::App;
use lazaret_store::AlertStore;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};
use sha2::Sha256;

use super::receiver::{Got, Receiver};
use super::redrive_rig::configured;
use super::redriving::{diagnose, entry, incident_of};
use super::rig::TestApp;
use super::web::Browser;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A server that notifies a webhook at once.
async fn notifying(receiver: &Receiver, more: &str) -> TestApp {
    let text = format!(
        "[alerts]\npublic_url = 'https://dlq.example.org'\n\
         [alerts.receivers.ops]\ntype = 'webhook'\nurl = '{}'\nsecret = '{SECRET}'\nallow_private = true\n\
         [[alerts.routes]]\nreceivers = ['ops']\ngroup_wait = '0s'\n{more}",
        receiver.url()
    );
    let app = TestApp::with(configured(&text), Mode::Real).await;
    tick(&app).await;
    app
}

async fn tick(app: &TestApp) {
    alerts::tick(&app.app).await.unwrap();
    alerts::deliver(&app.app).await.unwrap();
}

fn body(got: &Got) -> Value {
    serde_json::from_slice(&got.body).unwrap()
}

async fn firing(app: &TestApp) -> Vec<Value> {
    let listed = app.get("/api/v1/alerts").await.expect(200);
    let firing = |alert: &&Value| alert["state"] != "resolved" && alert["state"] != "pending";
    listed["items"].as_array().unwrap().iter().filter(firing).cloned().collect()
}

fn rules(alerts: &[Value]) -> Vec<&str> {
    let mut rules: Vec<&str> = alerts.iter().map(|alert| alert["rule"].as_str().unwrap()).collect();
    rules.sort_unstable();
    rules
}

#[tokio::test]
async fn rule_040_060_a_new_letter_fires_is_notified_signed_and_shown() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    let mut first = entry("e1");
    first["error"]["message"] = "call timed out, password=hunter2".into();
    let letter = app.report(&first).await;
    tick(&app).await;
    let alerts = firing(&app).await;
    assert_eq!(rules(&alerts), ["new_incident", "new_letter"]);
    let got = receiver.got();
    assert_eq!(got.len(), 2, "one for each rule");
    let told = got.iter().map(body).find(|told| told["labels"]["rule"] == "new_letter").unwrap();
    assert_eq!(
        (&told["status"], &told["severity"], &told["letters"]),
        (&"firing".into(), &"info".into(), &1.into())
    );
    let alert = &told["alerts"][0];
    assert_eq!(alert["sample"], letter);
    assert_eq!(alert["sampleUrl"], format!("https://dlq.example.org/letters/{letter}"));
    assert_eq!(
        (&alert["labels"]["type"], &alert["labels"]["error_type"]),
        (&"order.created".into(), &"Timeout".into())
    );
    assert!(alert["url"].as_str().unwrap().starts_with("https://dlq.example.org/incidents/"), "{alert}");
    assert!(!told.to_string().contains("hunter2"), "{told}");
    // The signature is over the time and the exact bytes.
    let header = got[0].headers["lazaret-signature"].to_str().unwrap();
    let (at, hex) = header.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{at}.").as_bytes());
    mac.update(&got[0].body);
    let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
    let page = Browser::text(&Browser::default().get(&app, "/alerts").await);
    for part in ["new letter", "New dead letters", "Acknowledge alert", "delivered", &letter] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // Nothing new: nothing is told again.
    for _ in 0..5 {
        app.pass(2_000);
        tick(&app).await;
    }
    assert_eq!(receiver.got().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn rule_040_020_count_spike_and_aggregate_fire_with_their_severities() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "[sources.report]\naggregate = '$.payload.orderId'\n").await;
    for n in 0..25 {
        let mut letter = entry(&format!("e{n}"));
        letter["originalEvent"]["payload"]["orderId"] =
            if n < 3 { "o-1".into() } else { format!("o{n}").into() };
        app.report(&letter).await;
    }
    app.pass(10_000);
    tick(&app).await;
    let alerts = firing(&app).await;
    assert_eq!(
        rules(&alerts),
        ["aggregate_repeat", "letter_count", "new_incident", "new_letter", "spike", "spike_total"]
    );
    let of = |rule: &str| alerts.iter().find(|alert| alert["rule"] == rule).unwrap();
    assert_eq!(
        (&of("aggregate_repeat")["subject"], &of("aggregate_repeat")["severity"]),
        (&"o-1".into(), &"critical".into())
    );
    assert_eq!(
        (&of("letter_count")["value"], &of("letter_count")["severity"]),
        (&25.0.into(), &"warning".into())
    );
    assert_eq!((&of("spike")["value"], &of("spike")["severity"]), (&25.0.into(), &"critical".into()));
    assert_eq!(of("new_letter")["count"], 25);
    let critical: Vec<&Value> = alerts.iter().filter(|alert| alert["severity"] == "critical").collect();
    assert!(
        alerts.iter().position(|it| it["severity"] != "critical").unwrap() >= critical.len(),
        "the worst first"
    );
    // What is decided about resolves them.
    app.post("/api/v1/dead-letters/discard", &json!({"filter": {"type": "order.*"}, "expectedCount": 25}))
        .await
        .expect(200);
    for _ in 0..40 {
        app.pass(30_000);
        tick(&app).await;
    }
    let alerts = firing(&app).await;
    // Nobody indexes bodies here, which a health check notices.
    let rules: Vec<&str> = rules(&alerts).into_iter().filter(|rule| *rule != "health_check").collect();
    assert_eq!(rules, ["aggregate_repeat"]);
    assert!(receiver.got().iter().map(body).any(|told| told["status"] == "resolved"));
}

#[tokio::test]
async fn a_regressed_incident_and_a_relapse_are_critical_and_attended_incidents_resolve() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    let letter = app.report(&entry("e1")).await;
    tick(&app).await;
    let incident = incident_of(&app, &letter).await;
    diagnose(&app, &incident, "infrastructure").await;
    app.pass(2_000);
    tick(&app).await;
    assert_eq!(rules(&firing(&app).await), ["new_letter"], "somebody takes care of the incident");
}

#[tokio::test]
async fn a_failing_webhook_is_retried_and_every_notification_arrives_once() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    app.report(&entry("e1")).await;
    receiver.answers(&[503, 200, 500]);
    for _ in 0..10 {
        tick(&app).await;
        app.pass(10_000);
    }
    let mut ids: Vec<String> =
        receiver.got().iter().map(|got| body(got)["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 4, "two arrive, two failed");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2, "a retry has the same id");
    let sent = app.get("/api/v1/notifications").await.expect(200);
    let sent = sent["items"].as_array().unwrap();
    assert!(sent.iter().all(|one| one["state"] == "delivered"), "{sent:?}");
    assert_eq!(sent.iter().map(|one| one["attempts"].as_u64().unwrap()).sum::<u64>(), 4);
}

#[tokio::test]
async fn a_notification_that_fails_for_good_becomes_a_letter_that_notifies_no_webhook() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "match = 'rule=new_letter'\n").await;
    receiver.answers(&[500; 100]);
    app.report(&entry("e1")).await;
    for _ in 0..limits::NOTIFICATION_ATTEMPTS_MAX {
        tick(&app).await;
        app.pass(limits::NOTIFICATION_BACKOFF_MS_MAX);
    }
    let letters = app.get("/api/v1/dead-letters?source=lazaret").await.expect(200);
    let [letter] = letters["items"].as_array().unwrap().as_slice() else { panic!("{letters}") };
    assert_eq!((&letter["type"], &letter["subscriberId"]), (&"lazaret.notification".into(), &"ops".into()));
    let attempts = receiver.got().len();
    for _ in 0..20 {
        app.pass(600_000);
        tick(&app).await;
    }
    let own = |got: &Got| body(got)["alerts"].to_string().contains("\"source\":\"lazaret\"");
    assert!(!receiver.got()[attempts..].iter().any(own));
    app.check().await;
}

#[tokio::test]
async fn an_alert_is_acknowledged_and_silenced_by_api_and_page() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "repeat_interval = '10m'\n").await;
    let matchers = json!({"matchers": "rule=new_incident", "until": "1h", "reason": "known"});
    app.post("/api/v1/silences", &json!({"matchers": "", "until": "1h", "reason": "x"}))
        .await
        .problem(400, "bad_request");
    app.post("/api/v1/silences", &json!({"matchers": "a=b", "until": "1h"}))
        .await
        .problem(400, "reason_required");
    let silence = app.post("/api/v1/silences", &matchers).await.expect(201);
    app.report(&entry("e1")).await;
    tick(&app).await;
    assert_eq!(receiver.got().len(), 1, "one is silenced");
    let alerts = firing(&app).await;
    let state = |rule: &str| alerts.iter().find(|alert| alert["rule"] == rule).unwrap()["state"].clone();
    assert_eq!((state("new_incident"), state("new_letter")), ("silenced".into(), "firing".into()));
    let id =
        alerts.iter().find(|alert| alert["rule"] == "new_letter").unwrap()["id"].as_str().unwrap().to_owned();
    let acked =
        app.post(&format!("/api/v1/alerts/{id}/acknowledge"), &json!({"reason": "mine"})).await.expect(200);
    assert_eq!((&acked["state"], &acked["reason"]), (&"acknowledged".into(), &"mine".into()));
    app.post("/api/v1/alerts/019a8b1c-7e00-7000-8000-000000000000/acknowledge", &json!({}))
        .await
        .problem(404, "not_found");
    app.pass(599_000);
    app.report(&entry("e2")).await;
    tick(&app).await;
    app.pass(300_000);
    tick(&app).await;
    assert_eq!(receiver.got().len(), 1, "what is acknowledged is not repeated");
    let page = Browser::text(&Browser::default().get(&app, "/alerts").await);
    for part in ["acknowledged by", "mine", "rule=new_incident", "known"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    app.delete(&format!("/api/v1/silences/{}", silence["id"].as_str().unwrap())).await.expect(204);
    tick(&app).await;
    assert_eq!(receiver.got().len(), 2, "what still fires after a silence is told");
    let actions = app.get("/api/v1/audit").await.expect(200);
    let actions: Vec<&str> =
        actions["items"].as_array().unwrap().iter().map(|it| it["action"].as_str().unwrap()).collect();
    for action in ["alert_acknowledged", "alert_silenced", "alert_unsilenced"] {
        assert!(actions.contains(&action), "{actions:?}");
    }
}

#[tokio::test]
async fn two_instances_on_one_store_notify_once() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    let other = Arc::new((*app.app).clone());
    for n in 0..20 {
        app.report(&entry(&format!("e{n}"))).await;
        let both = tokio::join!(alerts::tick(&app.app), alerts::tick(&other));
        both.0.unwrap();
        both.1.unwrap();
        let both = tokio::join!(alerts::deliver(&app.app), alerts::deliver(&other));
        both.0.unwrap();
        both.1.unwrap();
        app.pass(1_000);
    }
    app.pass(10_000);
    for instance in [&app.app, &other] {
        alerts::tick(instance).await.unwrap();
        alerts::deliver(instance).await.unwrap();
    }
    let mut rules: Vec<String> =
        receiver.got().iter().map(|got| body(got)["labels"]["rule"].as_str().unwrap().to_owned()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["letter_count", "new_incident", "new_letter", "spike", "spike_total"]);
}

#[tokio::test]
async fn a_test_notification_says_what_came_of_it() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    let sent = app.post("/api/v1/alerts/test", &json!({})).await.expect(200);
    let states: Vec<(&Value, &Value)> =
        sent["items"].as_array().unwrap().iter().map(|one| (&one["receiver"], &one["state"])).collect();
    assert_eq!(states, [(&"ops".into(), &"delivered".into()), (&"log".into(), &"delivered".into())]);
    receiver.answers(&[401]);
    let sent = app.post("/api/v1/alerts/test", &json!({"receiver": "ops"})).await.expect(200);
    assert_eq!(sent["items"][0]["state"], "waiting");
    let error = sent["items"][0]["error"].as_str().unwrap();
    assert!(error.contains("401") && !error.contains("/events") && !error.contains(SECRET), "{error}");
    app.post("/api/v1/alerts/test", &json!({"receiver": "nobody"})).await.problem(404, "not_found");
}

/// A server on the store of another, as after a crash.
async fn restarted(app: &TestApp) -> Arc<App> {
    let (config, clock) = (app.app.config.clone(), app.app.clock.clone());
    App::new(app.store.clone(), config, clock, false).await.unwrap()
}

#[tokio::test]
async fn a_notification_claimed_by_a_dead_instance_is_delivered_by_the_next() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "").await;
    app.report(&entry("e1")).await;
    alerts::tick(&app.app).await.unwrap();
    // Claimed, and the process dies before anything is sent.
    let now = app.app.clock.now();
    let lease = now.plus_ms(limits::NOTIFICATION_LEASE_MS);
    assert_eq!(app.store.claim_notifications(now, lease, 10).await.unwrap().len(), 2);
    let next = restarted(&app).await;
    alerts::deliver(&next).await.unwrap();
    assert!(receiver.got().is_empty(), "the lease still holds");
    app.pass(limits::NOTIFICATION_LEASE_MS);
    alerts::deliver(&next).await.unwrap();
    alerts::deliver(&next).await.unwrap();
    assert_eq!(receiver.got().len(), 2);
}

#[tokio::test]
async fn rule_040_020_a_storm_is_at_most_ten_notifications_and_costs_little() {
    let receiver = Receiver::start().await;
    let app = notifying(&receiver, "[sources.report]\naggregate = '$.payload.orderId'\n").await;
    let (letters, causes) = (5_000, 40);
    let (mut capturing, mut evaluating) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    for batch in 0..letters / 500 {
        let entries: Vec<Value> = (0..500)
            .map(|n| {
                let (n, cause) = (batch * 500 + n, n % causes);
                let mut letter = entry(&format!("s{n}"));
                letter["originalEvent"]["pattern"] = format!("type.{}", cause % 20).into();
                letter["originalEvent"]["payload"]["orderId"] = format!("o-{}", n / 3).into();
                letter["error"]["type"] = format!("Error{}", char::from(b'A' + (cause % 26) as u8)).into();
                letter["error"]["message"] = format!("cause {}", ["alpha", "beta"][cause / 20]).into();
                letter
            })
            .collect();
        let began = std::time::Instant::now();
        app.post("/api/v1/dead-letters", &Value::Array(entries)).await.expect(200);
        capturing += began.elapsed();
        app.pass(6_000);
        let began = std::time::Instant::now();
        alerts::tick(&app.app).await.unwrap();
        evaluating += began.elapsed();
        alerts::deliver(&app.app).await.unwrap();
    }
    let told = receiver.got();
    let mut rules: Vec<String> =
        told.iter().map(|got| body(got)["labels"]["rule"].as_str().unwrap().to_owned()).collect();
    rules.sort_unstable();
    rules.dedup();
    assert!(told.len() <= 10, "{} notifications: {rules:?}", told.len());
    for rule in ["aggregate_repeat", "letter_count", "new_letter", "spike"] {
        assert!(rules.iter().any(|told| told == rule), "{rule} in {rules:?}");
    }
    println!("{letters} letters: captured in {capturing:?}, evaluated in {evaluating:?}");
}
