//! Jobs as workers see them: fetch, ack, nack, heartbeat, and what the clock does to them meanwhile.

use lazaret_server::config::Config;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::ojs::{UNKNOWN, error, fetch, id, job, nack, push, tick};
use super::rig::{START, TestApp};

async fn pushed(app: &TestApp, options: Value) -> String {
    id(&push(app, json!({"type": "a", "args": [], "options": options})).await)
}

/// A job of these options, fetched by worker `w`.
async fn held(app: &TestApp, options: Value) -> String {
    let one = pushed(app, options).await;
    assert_eq!(fetch(app, "default").await.len(), 1);
    one
}

#[tokio::test]
async fn a_fetch_hands_out_by_queue_then_priority_then_age() {
    let app = TestApp::new().await;
    let mut ids = Vec::new();
    for (queue, priority) in [("b", 9), ("a", 0), ("a", 5), ("a", 5), ("a", -1)] {
        ids.push(pushed(&app, json!({"queue": queue, "priority": priority})).await);
        app.pass(1);
    }
    let wish = json!({"queues": ["a", "b"], "count": 4});
    let jobs = app.post("/ojs/v1/workers/fetch", &wish).await.expect(200)["jobs"].clone();
    let fetched: Vec<&str> = jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(fetched, [&ids[2], &ids[3], &ids[1], &ids[4]]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["attempt"]), (&json!("active"), &json!(1)));
    assert!(jobs[0]["started_at"].is_string());
    let rest = app.post("/ojs/v1/workers/fetch", &wish).await.expect(200);
    assert_eq!(rest["jobs"][0]["id"], ids[0]);
    assert_eq!(app.post("/ojs/v1/workers/fetch", &wish).await.expect(200), json!({"jobs": []}));
    for bad in [json!({}), json!({"queues": []}), json!({"queues": ["a"], "count": 0})] {
        error(&app.post("/ojs/v1/workers/fetch", &bad).await, 400, "invalid_request");
    }
}

#[tokio::test]
async fn one_job_goes_to_one_worker() {
    let app = TestApp::new().await;
    for _ in 0..20 {
        pushed(&app, json!({})).await;
    }
    let each = (0..8).map(|_| fetch(&app, "default"));
    let fetched = futures_util::future::join_all(each).await;
    let mut ids: Vec<String> = fetched.iter().flatten().map(id).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((all, ids.len()), (20, 20));
}

#[tokio::test]
async fn an_ack_completes_the_job_and_clears_its_error() {
    let app = TestApp::new().await;
    let one = held(&app, json!({"retry": {"initial_interval": "PT1S", "jitter": false}})).await;
    nack(&app, &one, json!({"code": "x", "message": "m"})).await;
    app.pass(1_000);
    tick(&app).await;
    assert_eq!(fetch(&app, "default").await[0]["attempt"], 2);
    for name in ["id", "job_id"] {
        let app = TestApp::new().await;
        let one = held(&app, json!({})).await;
        app.post("/ojs/v1/workers/ack", &json!({name: one})).await.expect(200);
    }
    let answer =
        app.post("/ojs/v1/workers/ack", &json!({"job_id": one, "result": {"n": 1}})).await.expect(200);
    assert_eq!(
        (&answer["acknowledged"], &answer["id"], &answer["job_id"]),
        (&json!(true), &json!(one), &json!(one))
    );
    assert_eq!(
        (&answer["state"], &answer["completed_at"]),
        (&json!("completed"), &json!("2026-11-15T03:00:01.000Z"))
    );
    let done = job(&app, &one).await;
    assert_eq!(done["result"], json!({"n": 1}));
    assert!(done.get("error").is_none(), "{done}");
    assert_eq!(done["errors"].as_array().unwrap().len(), 1);
    error(&app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await, 409, "conflict");
    error(&app.post("/ojs/v1/workers/ack", &json!({"job_id": UNKNOWN})).await, 404, "not_found");
    error(&app.post("/ojs/v1/workers/ack", &json!({})).await, 400, "invalid_request");
}

#[tokio::test]
async fn of_many_answers_at_once_one_counts() {
    let app = TestApp::new().await;
    let one = held(&app, json!({})).await;
    let body = json!({"job_id": one});
    let each = (0..8).map(|_| app.post("/ojs/v1/workers/ack", &body));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(each).await.iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
}

#[tokio::test]
async fn only_the_holder_speaks_for_a_job_unless_it_gives_no_name() {
    let app = TestApp::new().await;
    let one = held(&app, json!({})).await;
    let failure = json!({"job_id": one, "worker_id": "other", "error": {"code": "x", "message": "m"}});
    error(&app.post("/ojs/v1/workers/nack", &failure).await, 409, "conflict");
    let other = json!({"job_id": one, "worker_id": "other"});
    error(&app.post("/ojs/v1/workers/ack", &other).await, 409, "conflict");
    assert_eq!(job(&app, &one).await["state"], "active");
    app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await.expect(200);
}

#[tokio::test]
async fn a_nack_is_decided_as_the_table_says() {
    let once = json!({"max_attempts": 1});
    let to_dead = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let dead = json!({"on_exhaustion": "dead_letter"});
    let fatal = json!({"non_retryable_errors": ["Fatal", "auth.*"], "on_exhaustion": "dead_letter"});
    let rows = [
        (json!({}), json!({"code": "x"}), "retryable", 0),
        (json!({"max_attempts": 0}), json!({"code": "x"}), "discarded", 0),
        (once.clone(), json!({"code": "x"}), "discarded", 0),
        (once, json!({"code": "RETRY"}), "discarded", 0),
        (to_dead, json!({"code": "x"}), "discarded", 1),
        (dead.clone(), json!({"code": "DISCARD"}), "discarded", 0),
        (dead.clone(), json!({"code": "FAIL"}), "discarded", 0),
        (json!({}), json!({"code": "DEAD_LETTER"}), "discarded", 1),
        (json!({}), json!({"code": "x", "retryable": false}), "discarded", 0),
        (dead.clone(), json!({"code": "x", "retryable": false}), "discarded", 1),
        (dead, json!({"code": "RETRY", "retryable": false}), "retryable", 0),
        (fatal.clone(), json!({"code": "x", "details": {"error_class": "Fatal"}}), "discarded", 1),
        (fatal.clone(), json!({"type": "auth.expired"}), "discarded", 1),
        (fatal.clone(), json!({"type": "auth"}), "retryable", 0),
        (fatal, json!({"type": "fatal"}), "retryable", 0),
    ];
    for (retry, mut told, state, in_dead_letter) in rows {
        let app = TestApp::new().await;
        let one = held(&app, json!({"retry": retry})).await;
        told["message"] = "m".into();
        let answer = nack(&app, &one, told.clone()).await;
        assert_eq!(answer["state"], state, "{retry} {told}");
        assert_eq!((&answer["id"], &answer["job_id"]), (&json!(one), &json!(one)));
        assert_eq!(answer["attempt"], 1);
        let ended = state == "discarded";
        for (name, there) in [
            ("next_attempt_at", !ended),
            ("retry_delay_ms", !ended),
            ("discarded_at", ended),
            ("completed_at", ended),
        ] {
            assert_eq!(answer.get(name).is_some(), there, "{name}: {answer}");
        }
        let list = app.get("/ojs/v1/dead-letter").await.expect(200);
        assert_eq!(list["total"], in_dead_letter, "{retry} {told}");
        let job = job(&app, &one).await;
        assert_eq!((&job["state"], job["errors"].as_array().unwrap().len()), (&json!(state), 1));
        app.check().await;
    }
}

#[tokio::test]
async fn a_job_that_is_given_back_is_available_at_once_and_unharmed() {
    let app = TestApp::new().await;
    let one = held(&app, json!({"retry": {"max_attempts": 1}})).await;
    let back =
        json!({"job_id": one, "requeue": true, "error": {"code": "x", "message": "m", "retryable": false}});
    let answer = app.post("/ojs/v1/workers/nack", &back).await.expect(200);
    assert_eq!(answer["state"], "available");
    let job = job(&app, &one).await;
    assert!(job.get("error").is_none() && job.get("errors").is_none(), "{job}");
    assert_eq!(fetch(&app, "default").await.len(), 1);
}

#[tokio::test]
async fn a_bad_nack_is_refused() {
    let app = TestApp::new().await;
    let one = held(&app, json!({})).await;
    error(&app.post("/ojs/v1/workers/nack", &json!({"job_id": one})).await, 400, "invalid_request");
    error(
        &app.post("/ojs/v1/workers/nack", &json!({"job_id": one, "error": "x"})).await,
        400,
        "schema_validation",
    );
    let unknown = json!({"job_id": UNKNOWN, "error": {"code": "x", "message": "m"}});
    error(&app.post("/ojs/v1/workers/nack", &unknown).await, 404, "not_found");
    assert_eq!(job(&app, &one).await["state"], "active");
}

#[tokio::test]
async fn delays_follow_the_policy_and_end_on_the_millisecond() {
    for (policy, delays) in [
        (json!({"backoff_strategy": "none"}), [1_000, 1_000, 1_000]),
        (json!({"backoff_strategy": "constant"}), [1_000, 1_000, 1_000]),
        (json!({"backoff_strategy": "linear"}), [1_000, 2_000, 3_000]),
        (json!({"backoff_coefficient": 2.0}), [1_000, 2_000, 4_000]),
        (json!({"backoff_coefficient": 2.0, "max_interval": "PT3S"}), [1_000, 2_000, 3_000]),
        (json!({"backoff_type": "polynomial", "backoff_coefficient": 4.0}), [1_000, 16_000, 81_000]),
        (json!({"initial_interval": "PT0.5S"}), [500, 1_000, 2_000]),
    ] {
        let app = TestApp::new().await;
        let mut retry = json!({"max_attempts": 4, "initial_interval": "PT1S", "jitter": false});
        retry.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        let one = pushed(&app, json!({"retry": retry})).await;
        for (at, delay_ms) in delays.into_iter().enumerate() {
            let fetched = fetch(&app, "default").await;
            assert_eq!(fetched[0]["attempt"], at + 1, "{policy}");
            let answer = nack(&app, &one, json!({"code": "x", "message": "m"})).await;
            assert_eq!(
                (&answer["state"], &answer["retry_delay_ms"]),
                (&json!("retryable"), &json!(delay_ms)),
                "{policy}"
            );
            app.pass(delay_ms - 1);
            tick(&app).await;
            assert_eq!(fetch(&app, "default").await.len(), 0, "{policy}: too early");
            app.pass(1);
            tick(&app).await;
        }
        let last = fetch(&app, "default").await;
        assert_eq!(last[0]["retry_delay_ms"], delays[2], "the last delay is told with the job");
        assert_eq!(nack(&app, &one, json!({"code": "x", "message": "m"})).await["state"], "discarded");
        assert_eq!(job(&app, &one).await["errors"].as_array().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn jitter_stays_within_half_and_one_and_a_half() {
    let app = TestApp::new().await;
    for _ in 0..40 {
        let one = held(&app, json!({"retry": {"initial_interval": "PT2S"}})).await;
        let delay =
            nack(&app, &one, json!({"code": "x", "message": "m"})).await["retry_delay_ms"].as_u64().unwrap();
        assert!((1_000..3_000).contains(&delay), "{delay}");
    }
}

#[tokio::test]
async fn a_silent_worker_loses_the_job_when_its_reservation_is_over() {
    let app = TestApp::new().await;
    let one = held(&app, json!({"visibility_timeout_ms": 3_000})).await;
    app.pass(2_999);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["state"], "active");
    app.pass(1);
    tick(&app).await;
    let back = job(&app, &one).await;
    assert_eq!((&back["state"], &back["attempt"]), (&json!("available"), &json!(1)));
    assert_eq!(back["error"]["type"], "visibility_timeout");
    assert!(back.get("started_at").is_none(), "{back}");
    error(&app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await, 409, "conflict");
    assert_eq!(fetch(&app, "default").await[0]["attempt"], 2);
}

#[tokio::test]
async fn the_fetchs_reservation_beats_the_jobs_and_thirty_seconds_are_the_rule() {
    for (options, wish, ms) in [
        (json!({}), json!({}), 30_000),
        (json!({"visibility_timeout_ms": 3_000}), json!({}), 3_000),
        (json!({"visibility_timeout_ms": 3_000}), json!({"visibility_timeout_ms": 500}), 500),
    ] {
        let app = TestApp::new().await;
        let one = pushed(&app, options).await;
        let mut request = json!({"queues": ["default"]});
        request.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        app.post("/ojs/v1/workers/fetch", &request).await.expect(200);
        app.pass(ms - 1);
        tick(&app).await;
        assert_eq!(job(&app, &one).await["state"], "active");
        app.pass(1);
        tick(&app).await;
        assert_eq!(job(&app, &one).await["state"], "available");
    }
}

#[tokio::test]
async fn a_lost_reservation_on_the_last_attempt_ends_the_job() {
    let app = TestApp::new().await;
    let policy = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let one = held(&app, json!({"visibility_timeout_ms": 1_000, "retry": policy})).await;
    app.pass(1_000);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["state"], "discarded");
    let list = app.get("/ojs/v1/dead-letter").await.expect(200);
    assert_eq!(list["jobs"][0]["error"]["type"], "visibility_timeout");
    app.check().await;
}

#[tokio::test]
async fn a_late_ack_completes_a_job_that_was_given_up_and_resolves_its_letter() {
    let app = TestApp::new().await;
    let policy = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    for limit in ["visibility_timeout_ms", "timeout_ms"] {
        let one = held(&app, json!({limit: 1_000, "retry": policy})).await;
        app.pass(1_000);
        tick(&app).await;
        assert_eq!(job(&app, &one).await["state"], "discarded");
        let ack = json!({"job_id": one, "result": {"n": 1}});
        let answer = app.post("/ojs/v1/workers/ack", &ack).await.expect(200);
        assert_eq!(answer["acknowledged"], true);
        let done = job(&app, &one).await;
        assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!({"n": 1})));
        assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["jobs"], json!([]));
        let list = app.get("/api/v1/dead-letters").await.expect(200);
        let letter =
            list["items"].as_array().unwrap().iter().find(|letter| letter["eventId"] == one).unwrap();
        let by = &letter["resolution"]["resolvedBy"];
        assert_eq!((&letter["status"], by), (&json!("resolved"), &json!("source:jobs")));
        error(&app.post("/ojs/v1/workers/ack", &ack).await, 409, "conflict");
        app.check().await;
    }
    // What its worker reported as failed is not done because somebody says so later.
    let one = held(&app, json!({"retry": policy})).await;
    nack(&app, &one, json!({"code": "x", "message": "m"})).await;
    error(&app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await, 409, "conflict");
    assert_eq!(job(&app, &one).await["state"], "discarded");
}

#[tokio::test]
async fn a_run_that_takes_too_long_has_failed() {
    let app = TestApp::new().await;
    let one = held(&app, json!({"timeout_ms": 2_000, "retry": {"jitter": false}})).await;
    app.pass(2_000);
    tick(&app).await;
    let late = job(&app, &one).await;
    assert_eq!((&late["state"], &late["error"]["type"]), (&json!("retryable"), &json!("timeout")));
    assert_eq!(late["error"]["details"]["timeout_kind"], "execution");
}

#[tokio::test]
async fn a_heartbeat_prolongs_the_reservation_and_not_the_run() {
    let app = TestApp::new().await;
    let one = held(&app, json!({"visibility_timeout_ms": 1_000, "timeout_ms": 2_500})).await;
    for body in [
        json!({"worker_id": "w", "active_jobs": [one]}),
        json!({"worker_id": "w", "active_jobs": 1, "active_job_ids": [one], "hostname": "h", "pid": 1}),
    ] {
        app.pass(900);
        tick(&app).await;
        let answer = app.post("/ojs/v1/workers/heartbeat", &body).await.expect(200);
        assert_eq!((&answer["state"], &answer["jobs_extended"]), (&json!("running"), &json!([one])));
        assert!(answer["server_time"].is_string());
    }
    app.pass(699);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["state"], "active");
    app.pass(1);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["error"]["type"], "timeout");
}

#[tokio::test]
async fn a_heartbeat_prolongs_only_what_its_worker_holds() {
    let app = TestApp::new().await;
    let (mine, done) = (held(&app, json!({})).await, held(&app, json!({})).await);
    app.post("/ojs/v1/workers/ack", &json!({"id": done})).await.expect(200);
    let ids = json!([mine, done, UNKNOWN, "nonsense"]);
    let other = json!({"worker_id": "other", "active_jobs": ids});
    let answer = app.post("/ojs/v1/workers/heartbeat", &other).await.expect(200);
    assert_eq!(answer["jobs_extended"], json!([]), "a worker that is new is taken as it is");
    let beat = json!({"worker_id": "w", "active_jobs": ids, "visibility_timeout_ms": 90_000});
    let answer = app.post("/ojs/v1/workers/heartbeat", &beat).await.expect(200);
    assert_eq!(answer["jobs_extended"], json!([mine]));
    app.pass(89_999);
    tick(&app).await;
    assert_eq!(job(&app, &mine).await["state"], "active");
    error(&app.post("/ojs/v1/workers/heartbeat", &json!({})).await, 400, "invalid_request");
}

#[tokio::test]
async fn a_test_directs_its_worker_in_test_mode_alone() {
    for (mode, wished, expected) in [
        (Mode::Test, "quiet", "quiet"),
        (Mode::Test, "terminate", "terminate"),
        (Mode::Test, "dance", "running"),
        (Mode::Real, "quiet", "running"),
    ] {
        let app = TestApp::with(Config::default(), mode).await;
        let one = held(&app, json!({"metadata": {"test_directive": wished}})).await;
        let beat = json!({"worker_id": "w", "active_jobs": [one]});
        let answer = app.post("/ojs/v1/workers/heartbeat", &beat).await.expect(200);
        assert_eq!(answer["state"], expected, "{wished}");
        assert_eq!(answer["server_time"], START);
    }
}

#[tokio::test]
async fn the_loop_is_told_how_long_nothing_is_due() {
    let app = TestApp::new().await;
    let until =
        || async { lazaret_server::jobs::until_due(&app.app).await.unwrap().map(|wait| wait.as_millis()) };
    assert_eq!(until().await, None);
    held(&app, json!({"visibility_timeout_ms": 3_000})).await;
    assert_eq!(until().await, Some(3_000));
    app.pass(5_000);
    assert_eq!(until().await, Some(20), "what is overdue is looked at soon, and not in a circle");
    tick(&app).await;
    assert_eq!(until().await, None);
}

#[tokio::test]
async fn a_completed_job_is_forgotten_after_a_day_and_one_that_waits_is_not() {
    let app = TestApp::new().await;
    let done = held(&app, json!({})).await;
    app.post("/ojs/v1/workers/ack", &json!({"job_id": done})).await.expect(200);
    let waiting = pushed(&app, json!({})).await;
    app.pass(86_400_000 - 1);
    lazaret_server::jobs::ended::prune(&app.app).await.unwrap();
    assert_eq!(job(&app, &done).await["state"], "completed");
    app.pass(2);
    lazaret_server::jobs::ended::prune(&app.app).await.unwrap();
    error(&app.get(&format!("/ojs/v1/jobs/{done}")).await, 404, "not_found");
    assert_eq!(job(&app, &waiting).await["state"], "available");
}
