//! Jobs as those who enqueue them see them: push, batch, look, cancel, activate.

use serde_json::{Value, json};

use super::ojs::{UNKNOWN, error, fetch, id, job, nack, push, tick};
use super::rig::{START, TestApp};

#[tokio::test]
async fn a_pushed_job_is_whole_and_says_what_applies_to_it() {
    let app = TestApp::new().await;
    let pushed = push(
        &app,
        json!({
            "type": "mail.send", "args": [{"to": "a"}, 12345678901234567890_u64], "x_custom": [1],
            "meta": {"trace_id": "t"}, "state": "completed", "attempt": 7,
            "options": {"queue": "mail", "priority": 5, "tags": ["x"], "timeout_ms": 1000},
        }),
    )
    .await;
    for (name, expected) in [
        ("specversion", json!("1.0")),
        ("type", json!("mail.send")),
        ("queue", json!("mail")),
        ("state", json!("available")),
        ("attempt", json!(0)),
        ("max_attempts", json!(3)),
        ("priority", json!(5)),
        ("timeout_ms", json!(1000)),
        ("visibility_timeout_ms", json!(30000)),
        ("tags", json!(["x"])),
        ("x_custom", json!([1])),
        ("meta", json!({"trace_id": "t"})),
        ("created_at", json!(START)),
        ("enqueued_at", json!(START)),
    ] {
        assert_eq!(pushed[name], expected, "{name}: {pushed}");
    }
    for absent in
        ["started_at", "completed_at", "error", "errors", "result", "retry_delay_ms", "cancelled_at"]
    {
        assert!(pushed.get(absent).is_none(), "{absent}: {pushed}");
    }
    let shown = app.get(&format!("/ojs/v1/jobs/{}", id(&pushed))).await;
    let text = String::from_utf8(shown.bytes.clone()).unwrap();
    assert!(text.contains(r#"[{"to":"a"},12345678901234567890]"#), "{text}");
    let shown = shown.expect(200);
    assert_eq!(shown["job"], pushed);
    assert_eq!(shown["id"], pushed["id"], "the same fields stand at the top");
}

#[tokio::test]
async fn a_bad_job_is_refused_by_field_and_nothing_is_kept() {
    let app = TestApp::new().await;
    let base = json!({"type": "a.b", "args": []});
    for (field, value, status, code) in [
        ("type", json!(null), 400, "invalid_request"),
        ("type", json!(""), 400, "invalid_request"),
        ("type", json!("Upper.Case"), 400, "invalid_request"),
        ("type", json!("1a"), 400, "invalid_request"),
        ("args", json!(null), 400, "invalid_request"),
        ("args", json!({}), 400, "schema_validation"),
        ("args", json!("x"), 400, "schema_validation"),
        ("id", json!("nope"), 400, "invalid_request"),
        ("id", json!("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"), 400, "invalid_request"),
        ("meta", json!([]), 400, "schema_validation"),
        ("queue", json!("my_queue!"), 400, "invalid_request"),
        ("priority", json!(101), 400, "invalid_request"),
        ("scheduled_at", json!("2026-11-15T03:00:00"), 400, "invalid_request"),
        ("timeout_ms", json!(0), 400, "invalid_request"),
        ("retry", json!({"max_attempts": -1}), 422, "validation_error"),
        ("retry", json!({"backoff_coefficient": 0.5}), 422, "validation_error"),
        ("retry", json!({"initial_interval": "1s"}), 422, "validation_error"),
        ("retry", json!({"on_exhaustion": "explode"}), 422, "validation_error"),
    ] {
        let mut job = base.clone();
        job[field] = value.clone();
        let told = error(&app.post("/ojs/v1/jobs", &job).await, status, code);
        assert!(told["message"].as_str().unwrap().contains(field), "{field} {value}: {told}");
        assert!(told["details"]["field"].as_str().unwrap().starts_with(field), "{told}");
        assert_eq!(told["type"], code);
    }
    assert_eq!(app.get("/ojs/v1/queues").await.expect(200)["queues"], json!([]));
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let app = TestApp::new().await;
    let mine = json!({"id": UNKNOWN, "type": "a", "args": []});
    assert_eq!(push(&app, mine.clone()).await["id"], UNKNOWN);
    let told = error(&app.post("/ojs/v1/jobs", &mine).await, 409, "duplicate");
    assert_eq!(told["details"]["existing_job_id"], UNKNOWN);
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let app = TestApp::new().await;
    let good = json!({"type": "a", "args": []});
    let made = app.post("/ojs/v1/jobs/batch", &json!({"jobs": [good, good]})).await.expect(201);
    assert_eq!((&made["count"], made["jobs"].as_array().unwrap().len()), (&json!(2), 2));
    let told = error(
        &app.post("/ojs/v1/jobs/batch", &json!({"jobs": [good, {"type": "a"}]})).await,
        400,
        "invalid_request",
    );
    assert_eq!(told["details"]["index"], 1);
    let policy = json!({"type": "a", "args": [], "retry": {"max_attempts": -1}});
    error(&app.post("/ojs/v1/jobs/batch", &json!({"jobs": [policy]})).await, 422, "validation_error");
    let mine = json!({"id": UNKNOWN, "type": "a", "args": []});
    error(&app.post("/ojs/v1/jobs/batch", &json!({"jobs": [good, mine, mine]})).await, 409, "duplicate");
    for (bad, code) in [
        (json!({}), "invalid_request"),
        (json!({"jobs": []}), "invalid_request"),
        (json!({"jobs": {}}), "schema_validation"),
        (json!([]), "invalid_payload"),
    ] {
        error(&app.post("/ojs/v1/jobs/batch", &bad).await, 400, code);
    }
    assert_eq!(fetch(&app, "default").await.len(), 2, "nothing of the refused ones is there");
}

#[tokio::test]
async fn a_job_waits_for_its_time() {
    let app = TestApp::new().await;
    let later =
        push(&app, json!({"type": "a", "args": [], "options": {"delay_until": "2026-11-15T03:01:00Z"}}))
            .await;
    assert_eq!(later["state"], "scheduled");
    let past =
        json!({"type": "a", "args": [], "options": {"queue": "p", "delay_until": "2020-01-01T00:00:00Z"}});
    assert_eq!(push(&app, past).await["state"], "available");
    app.pass(59_999);
    tick(&app).await;
    assert_eq!(fetch(&app, "default").await.len(), 0);
    app.pass(1);
    tick(&app).await;
    assert_eq!(job(&app, &id(&later)).await["state"], "available");
    assert_eq!(fetch(&app, "default").await.len(), 1);
}

#[tokio::test]
async fn a_job_past_its_deadline_is_discarded_and_never_run() {
    let app = TestApp::new().await;
    let wish = json!({"type": "a", "args": [], "options": {"expires_at": "+PT2S", "retry": {"on_exhaustion": "dead_letter"}}});
    let (ticked, fetched) = (id(&push(&app, wish.clone()).await), wish);
    app.pass(2_000);
    tick(&app).await;
    let second = id(&push(&app, fetched).await);
    app.pass(2_000);
    assert_eq!(fetch(&app, "default").await.len(), 0);
    for one in [ticked, second] {
        let gone = job(&app, &one).await;
        assert_eq!((&gone["state"], &gone["attempt"]), (&json!("discarded"), &json!(0)));
        assert!(gone.get("completed_at").is_none() && gone["discarded_at"].is_string(), "{gone}");
    }
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["total"], 0);
}

/// Brings a new job into a state.
async fn in_state(app: &TestApp, state: &str) -> String {
    let options = match state {
        "scheduled" => json!({"queue": "s", "delay_until": "2026-12-01T00:00:00Z"}),
        "pending" => json!({"queue": "s", "pending": true}),
        "discarded" => json!({"queue": "s", "retry": {"max_attempts": 1}}),
        _ => json!({"queue": "s"}),
    };
    let one = id(&push(app, json!({"type": "a", "args": [], "options": options})).await);
    if ["active", "completed", "retryable", "discarded"].contains(&state) {
        fetch(app, "s").await;
    }
    match state {
        "completed" => drop(app.post("/ojs/v1/workers/ack", &json!({"id": one})).await.expect(200)),
        "retryable" | "discarded" => drop(nack(app, &one, json!({"code": "x", "message": "m"})).await),
        "cancelled" => drop(app.delete(&format!("/ojs/v1/jobs/{one}")).await.expect(200)),
        _ => {}
    }
    assert_eq!(job(app, &one).await["state"], state);
    one
}

const STATES: [&str; 8] =
    ["scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"];

#[tokio::test]
async fn every_state_allows_exactly_what_the_table_says() {
    for state in STATES {
        for (verb, allowed) in [
            ("cancel", &["scheduled", "available", "pending", "active", "retryable"][..]),
            ("activate", &["pending"]),
            ("ack", &["active"]),
            ("nack", &["active"]),
        ] {
            let app = TestApp::new().await;
            let one = in_state(&app, state).await;
            let before = job(&app, &one).await;
            let answer = match verb {
                "cancel" => app.delete(&format!("/ojs/v1/jobs/{one}")).await,
                "activate" => app.post(&format!("/ojs/v1/jobs/{one}/activate"), &Value::Null).await,
                "ack" => app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await,
                _ => {
                    let body = json!({"job_id": one, "error": {"code": "x", "message": "m"}});
                    app.post("/ojs/v1/workers/nack", &body).await
                }
            };
            if allowed.contains(&state) {
                answer.expect(200);
            } else {
                let told = error(&answer, 409, "conflict");
                assert_eq!(told["details"]["current_state"], state, "{verb}");
                assert!(told["message"].as_str().unwrap().contains(state), "{told}");
                assert_eq!(job(&app, &one).await, before, "a refused {verb} changes nothing");
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_job_says_when_and_from_what() {
    let app = TestApp::new().await;
    let one = in_state(&app, "active").await;
    let answer = app.delete(&format!("/ojs/v1/jobs/{one}")).await.expect(200);
    for shown in [&answer, &answer["job"]] {
        assert_eq!((&shown["state"], &shown["previous_state"]), (&json!("cancelled"), &json!("active")));
        assert_eq!(shown["cancelled_at"], START);
        assert!(shown.get("completed_at").is_none(), "{shown}");
    }
    assert!(job(&app, &one).await.get("previous_state").is_none());
    error(&app.delete(&format!("/ojs/v1/jobs/{UNKNOWN}")).await, 404, "not_found");
}

#[tokio::test]
async fn a_parked_job_runs_once_it_is_activated() {
    let app = TestApp::new().await;
    let one = in_state(&app, "pending").await;
    assert_eq!(fetch(&app, "s").await.len(), 0);
    let answer = app.post(&format!("/ojs/v1/jobs/{one}/activate"), &json!({})).await.expect(200);
    assert_eq!(answer["job"]["previous_state"], "pending");
    assert_eq!(answer["job"]["activated_at"], START);
    assert_eq!(fetch(&app, "s").await.len(), 1);
    error(&app.post(&format!("/ojs/v1/jobs/{UNKNOWN}/activate"), &json!({})).await, 404, "not_found");
}
