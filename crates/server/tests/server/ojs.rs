//! The wire rules of the Open Job Specification: headers, errors, statuses; the manifest, health, queues and events.

use axum::body::Body;
use http::{Method, header};
use lazaret_server::access::Role;
use lazaret_server::config::Config;
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::rig::{Answer, TestApp};

pub const UNKNOWN: &str = "019a8b1c-7e00-7000-8000-000000000000";

/// Pushes a job and gives it as it was answered.
pub async fn push(app: &TestApp, job: Value) -> Value {
    app.post("/ojs/v1/jobs", &job).await.expect(201)["job"].clone()
}

pub fn id(job: &Value) -> String {
    job["id"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
}

pub async fn job(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/ojs/v1/jobs/{id}")).await.expect(200)["job"].clone()
}

pub async fn fetch(app: &TestApp, queue: &str) -> Vec<Value> {
    let wish = json!({"queues": [queue], "count": 100, "worker_id": "w"});
    let answer = app.post("/ojs/v1/workers/fetch", &wish).await.expect(200);
    answer["jobs"].as_array().unwrap().clone()
}

pub async fn nack(app: &TestApp, id: &str, error: Value) -> Value {
    app.post("/ojs/v1/workers/nack", &json!({"job_id": id, "error": error})).await.expect(200)
}

pub async fn tick(app: &TestApp) {
    lazaret_server::jobs::tick(&app.app).await.unwrap();
}

/// What every answer has, an error or not.
#[track_caller]
pub fn wire(answer: &Answer) {
    assert_eq!(answer.headers["ojs-version"], "1.0", "{answer:?}");
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/openjobspec+json", "{answer:?}");
    assert!(answer.headers.contains_key("x-request-id"), "{answer:?}");
}

/// An error of this code, with everything that an error must have.
#[track_caller]
pub fn error(answer: &Answer, status: u16, code: &str) -> Value {
    wire(answer);
    let body = answer.expect(status);
    let error = &body["error"];
    assert_eq!(error["code"], code, "{body}");
    for name in ["type", "message", "hint", "docs_url", "request_id"] {
        assert!(error[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {body}");
    }
    assert_eq!(error["request_id"], answer.headers["x-request-id"].to_str().unwrap());
    assert!(error["retryable"].is_boolean(), "{body}");
    error.clone()
}

#[tokio::test]
async fn every_answer_carries_the_headers_of_the_specification() {
    let app = TestApp::new().await;
    let pushed = app.post("/ojs/v1/jobs", &json!({"type": "a.b", "args": []})).await;
    wire(&pushed);
    let location = pushed.headers[header::LOCATION].to_str().unwrap();
    assert_eq!(location, format!("/ojs/v1/jobs/{}", id(&pushed.expect(201)["job"])));
    for path in [
        location,
        "/ojs/manifest",
        "/ojs/v1/health",
        "/ojs/v1/queues",
        "/ojs/v1/events",
        "/ojs/v1/dead-letter",
        "/ojs/v1/dead-letter/stats",
        "/ojs/v1/admin/dead-letter",
        "/ojs/v1/admin/dead-letter/stats",
    ] {
        let answer = app.get(path).await;
        wire(&answer);
        answer.expect(200);
    }
    let answer = app.get("/health/live").await;
    assert!(!answer.headers.contains_key("ojs-version"), "the rest of the server is not touched");
}

#[tokio::test]
async fn the_callers_request_id_comes_back_and_another_one_is_minted() {
    let app = TestApp::new().await;
    let minted = app.get("/ojs/manifest").await.headers["x-request-id"].to_str().unwrap().to_owned();
    assert!(minted.starts_with("req_") && minted.len() == 40, "{minted}");
    let mut request = app.request(Method::GET, &format!("/ojs/v1/jobs/{UNKNOWN}"), "");
    request.headers_mut().insert("x-request-id", "mine-1".parse().unwrap());
    assert_eq!(error(&app.send(request).await, 404, "not_found")["request_id"], "mine-1");
}

#[tokio::test]
async fn errors_have_one_shape_whoever_finds_them() {
    let mut app = TestApp::new().await;
    let job = format!("/ojs/v1/jobs/{UNKNOWN}");
    let missing = error(&app.get(&job).await, 404, "not_found");
    assert_eq!(missing["retryable"], false);
    assert_eq!(missing["details"], json!({"resource_type": "job", "resource_id": UNKNOWN}));
    error(&app.get("/ojs/v1/jobs/nonsense").await, 404, "not_found");
    error(&app.get("/ojs/v1/jobs/%E4").await, 400, "invalid_request");
    error(&app.get("/ojs/v1/nothing").await, 404, "not_found");
    error(&app.get("/ojs/v1/jobs").await, 405, "method_not_allowed");
    error(&app.send(app.request("ASSERT".parse().unwrap(), &job, "")).await, 405, "method_not_allowed");
    let mut request = app.request(Method::GET, "/ojs/manifest", "");
    request.headers_mut().insert(header::HOST, "evil.example.org".parse().unwrap());
    error(&app.send(request).await, 421, "misdirected");
    let mut request = app.request(Method::POST, "/ojs/v1/jobs", "{}");
    request.headers_mut().insert(header::ORIGIN, "http://evil.example.org".parse().unwrap());
    error(&app.send(request).await, 403, "forbidden");
    let wish = json!({"name": "a", "role": "admin"});
    let admin = app.post("/api/v1/tokens", &wish).await.expect(201)["token"].as_str().unwrap().to_owned();
    error(&app.get(&job).await, 401, "unauthorized");
    app.token = Some(admin);
    let wish = json!({"name": "p", "role": Role::Producer.name()});
    let producer = app.post("/api/v1/tokens", &wish).await.expect(201);
    app.token = producer["token"].as_str().map(str::to_owned);
    error(&app.get(&job).await, 403, "forbidden");
    app.post("/ojs/v1/jobs", &json!({"type": "a", "args": []})).await.expect(201);
}

#[tokio::test]
async fn an_unknown_method_anywhere_is_answered() {
    let app = TestApp::new().await;
    for path in ["/", "/ojs", "/ojs/v1/jobs", "/ojs/manifest"] {
        let answer = app.send(app.request("ASSERT".parse().unwrap(), path, "")).await;
        assert!([404, 405].contains(&answer.status.as_u16()), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn bodies_are_taken_as_json_under_both_names_and_nothing_else() {
    let app = TestApp::new().await;
    let job = r#"{"type":"a.b","args":[]}"#;
    for kind in ["application/json", "application/openjobspec+json", "Application/JSON; charset=utf-8"] {
        app.post_text("/ojs/v1/jobs", kind, job).await.expect(201);
    }
    app.send(app.request(Method::POST, "/ojs/v1/jobs", job)).await.expect(201);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "x"] {
        error(&app.post_text("/ojs/v1/jobs", kind, job).await, 400, "invalid_request");
        // Where no body is needed, the type of none does not matter.
        app.post_text("/ojs/v1/queues/q/pause", kind, "").await.expect(200);
    }
    for bad in ["", "{", "[]", "1", "nope"] {
        error(&app.post_text("/ojs/v1/jobs", "application/json", bad).await, 400, "invalid_payload");
    }
    let bytes = Body::from(vec![b'{', 0xff, b'}']);
    error(&app.post_text("/ojs/v1/jobs", "application/json", bytes).await, 400, "invalid_payload");
    let large = format!(r#"{{"type":"a","args":["{}"]}}"#, "x".repeat(1024 * 1024));
    error(&app.post_text("/ojs/v1/jobs", "application/json", large).await, 413, "envelope_too_large");
}

#[tokio::test]
async fn another_version_is_refused_and_ours_is_not() {
    let app = TestApp::new().await;
    for (version, spoken) in [("1.0", true), ("1", true), ("1.0.0-rc.1", true), ("2.0", false), ("x", false)]
    {
        let mut request = app.request(Method::GET, "/ojs/v1/queues", "");
        request.headers_mut().insert("ojs-version", version.parse().unwrap());
        let answer = app.send(request).await;
        if spoken {
            answer.expect(200);
        } else {
            error(&answer, 422, "unsupported");
        }
    }
}

#[tokio::test]
async fn the_manifest_says_what_can_be_done() {
    let app = TestApp::new().await;
    let manifest = app.get("/ojs/manifest").await.expect(200);
    assert_eq!((&manifest["specversion"], &manifest["ojs_version"]), (&json!("1.0"), &json!("1.0")));
    assert_eq!(manifest["implementation"]["name"], "lazaret");
    assert_eq!(manifest["conformance_level"], 1);
    assert_eq!(manifest["protocols"], json!(["http"]));
    assert_eq!(manifest["capabilities"]["dead_letter"], true);
    assert_eq!(manifest["extensions"], json!(["dead-letter", "admin-api", "worker-batch"]));
}

#[tokio::test]
async fn health_is_the_stores() {
    let app = TestApp::new().await;
    let health = app.get("/ojs/v1/health").await.expect(200);
    assert_eq!((&health["status"], &health["backend"]["status"]), (&json!("ok"), &json!("ok")));
    assert!(health["uptime_seconds"].is_u64() && health["backend"]["latency_ms"].is_u64(), "{health}");
    app.store.failures().plan(FailurePoint::Commit, Failure::DiskFull, 1);
    let answer = app.get("/ojs/v1/health").await;
    wire(&answer);
    assert_eq!(answer.expect(503)["status"], "unhealthy");
}

#[tokio::test]
async fn queues_are_listed_counted_paused_and_resumed() {
    let app = TestApp::new().await;
    for queue in ["b", "a", "a"] {
        push(&app, json!({"type": "t", "args": [], "options": {"queue": queue}})).await;
    }
    let list = app.get("/ojs/v1/queues?limit=1").await.expect(200);
    assert_eq!(list["queues"][0]["name"], "a");
    assert_eq!(list["queues"][0]["status"], "active");
    assert!(list["queues"][0]["created_at"].is_string());
    assert_eq!(list["pagination"], json!({"total": 2, "limit": 1, "offset": 0, "has_more": true}));
    let stats = app.get("/ojs/v1/queues/a/stats").await.expect(200);
    assert_eq!((&stats["stats"]["available"], &stats["stats"]["active"]), (&json!(2), &json!(0)));
    error(&app.get("/ojs/v1/queues/none/stats").await, 404, "not_found");
    let paused = app.post("/ojs/v1/queues/a/pause", &json!({})).await.expect(200);
    assert_eq!(paused["status"], "paused");
    assert_eq!(fetch(&app, "a").await.len(), 0);
    push(&app, json!({"type": "t", "args": [], "options": {"queue": "a"}})).await;
    let list = app.get("/ojs/v1/queues").await.expect(200);
    assert_eq!(list["queues"][0]["status"], "paused");
    app.send(app.request(Method::POST, "/ojs/v1/queues/a/resume", "")).await.expect(200);
    assert_eq!(fetch(&app, "a").await.len(), 3);
    error(&app.post("/ojs/v1/queues/No!/pause", &json!({})).await, 400, "invalid_request");
}

#[tokio::test]
async fn events_tell_what_happened_to_jobs_in_order() {
    let app = TestApp::new().await;
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    let one = id(&push(&app, json!({"type": "mail.send", "args": [], "options": {"queue": "q"}})).await);
    push(&app, json!({"type": "other.thing", "args": [], "options": {"queue": "r"}})).await;
    fetch(&app, "q").await;
    nack(&app, &one, json!({"code": "x", "message": "no"})).await;
    let all = app.get("/ojs/v1/events").await.expect(200);
    let kinds: Vec<&str> =
        all["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["job.enqueued", "job.enqueued", "job.started", "job.failed", "job.retrying"]);
    let first = &all["events"][0];
    assert_eq!(first["specversion"], "1.0");
    assert!(first["id"].as_str().unwrap().starts_with("evt_"), "{first}");
    assert!(first["source"].as_str().unwrap().starts_with("ojs://"), "{first}");
    assert_eq!(first["subject"], one);
    assert_eq!((&first["data"]["job_type"], &first["data"]["queue"]), (&json!("mail.send"), &json!("q")));
    assert_eq!(all["events"][2]["data"]["worker_id"], "w");
    assert_eq!(all["events"][4]["data"]["max_attempts"], 3);

    for (query, expected) in [
        ("types=job.enqueued", 2),
        ("types=job.enqueued,job.started", 3),
        ("types=job.*&queues=r", 1),
        ("job_types=mail.send", 4),
        ("types=job.enqueued&queues=q&job_types=other.thing", 0),
    ] {
        let page = app.get(&format!("/ojs/v1/events?{query}")).await.expect(200);
        assert_eq!(page["events"].as_array().unwrap().len(), expected, "{query}: {page}");
    }
}

#[tokio::test]
async fn a_reader_of_events_goes_on_where_it_was() {
    let app = TestApp::new().await;
    for _ in 0..5 {
        push(&app, json!({"type": "t", "args": []})).await;
        app.pass(60_000);
    }
    let first = app.get("/ojs/v1/events?limit=2").await.expect(200);
    assert_eq!(first["has_more"], true);
    let last = first["events"][1]["id"].as_str().unwrap();
    for after in [last, first["cursor"].as_str().unwrap()] {
        let rest = app.get(&format!("/ojs/v1/events?after={after}")).await.expect(200);
        assert_eq!((rest["events"].as_array().unwrap().len(), &rest["has_more"]), (3, &json!(false)));
        let end = rest["cursor"].as_str().unwrap();
        let none = app.get(&format!("/ojs/v1/events?after={end}")).await.expect(200);
        assert_eq!((none["events"].as_array().unwrap().len(), &none["cursor"]), (0, &json!(end)));
    }
    error(&app.get(&format!("/ojs/v1/events?after=evt_{UNKNOWN}")).await, 400, "invalid_request");
    error(&app.get("/ojs/v1/events?after=x").await, 400, "invalid_request");
    error(&app.get("/ojs/v1/events?limit=0").await, 400, "invalid_request");
}

#[tokio::test]
async fn a_reset_takes_the_jobs_along() {
    let app = TestApp::with(Config::default(), Mode::Test).await;
    let one = id(&push(&app, json!({"type": "t", "args": []})).await);
    app.post("/test/reset", &json!({})).await.expect(204);
    error(&app.get(&format!("/ojs/v1/jobs/{one}")).await, 404, "not_found");
    assert_eq!(app.get("/ojs/v1/events").await.expect(200)["events"], json!([]));
}
