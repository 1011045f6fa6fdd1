//! Workers that are known, told and missed, and the pages for those who watch: queues, jobs, numbers.

use lazaret_core::time::Time;
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use serde_json::{Value, json};

use super::ojs::{error, fetch, id, job, nack, push, tick, wire};
use super::rig::{START, TestApp};

async fn beat(app: &TestApp, body: Value) -> Value {
    app.post("/ojs/v1/workers/heartbeat", &body).await.expect(200)
}

async fn workers(app: &TestApp) -> Value {
    app.get("/ojs/v1/admin/workers").await.expect(200)
}

async fn tell(app: &TestApp, worker: &str, wish: &str) -> Value {
    app.post(&format!("/ojs/v1/admin/workers/{worker}/{wish}"), &json!({})).await.expect(200)
}

/// The events of these kinds: what they are about.
async fn told(app: &TestApp, kinds: &str) -> Vec<(String, String)> {
    let events = app.get(&format!("/ojs/v1/events?types={kinds}&limit=1000")).await.expect(200);
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    events["events"].as_array().unwrap().iter().map(|e| (text(&e["type"]), text(&e["subject"]))).collect()
}

#[tokio::test]
async fn a_heartbeat_of_either_dialect_makes_a_worker_known() {
    let app = TestApp::new().await;
    assert_eq!(workers(&app).await["items"], json!([]));
    beat(&app, json!({"worker_id": "plain", "active_jobs": []})).await;
    let rich = json!({
        "worker_id": "rich", "state": "running", "active_jobs": 0, "active_job_ids": [], "hostname": "h1",
        "pid": 4711, "queues": ["a", "b"], "concurrency": 10, "labels": {"zone": "x"}, "version": "1.2",
        "started_at": "2026-11-15T02:00:00+00:00",
    });
    for _ in 0..3 {
        assert_eq!(beat(&app, rich.clone()).await["state"], "running");
        app.pass(2_000);
    }
    let list = workers(&app).await;
    assert_eq!(
        list["items"][0],
        json!({
            "id": "plain", "state": "running", "wished": "running", "queues": [], "active_jobs": 0,
            "started_at": START, "last_heartbeat_at": START,
        })
    );
    assert_eq!(
        list["items"][1],
        json!({
            "id": "rich", "hostname": "h1", "pid": 4711, "state": "running", "wished": "running",
            "queues": ["a", "b"], "concurrency": 10, "active_jobs": 0, "version": "1.2",
            "started_at": "2026-11-15T02:00:00.000Z", "last_heartbeat_at": "2026-11-15T03:00:04.000Z",
            "metadata": {"state": "running", "labels": {"zone": "x"}, "version": "1.2"},
        })
    );
    let summary = json!({"total": 2, "running": 2, "quiet": 0, "terminate": 0, "stale": 0});
    assert_eq!(list["summary"], summary);
    let started = |name: &str| ("worker.started".to_owned(), name.to_owned());
    assert_eq!(told(&app, "worker.*").await, [started("plain"), started("rich")], "once each");
}

#[tokio::test]
async fn a_worker_is_heard_whatever_else_it_says() {
    let app = TestApp::new().await;
    let odd = json!({
        "worker_id": "w", "hostname": {"a": 1}, "pid": "x", "queues": [1, "a"], "concurrency": -3,
        "started_at": "now",
    });
    assert_eq!(beat(&app, odd).await["jobs_extended"], json!([]));
    let known = &workers(&app).await["items"][0];
    assert_eq!((&known["queues"], known.get("hostname"), known.get("pid")), (&json!(["a"]), None, None));
    for (bad, code) in [
        (json!({}), "invalid_request"),
        (json!({"worker_id": ""}), "invalid_request"),
        (json!({"worker_id": "x".repeat(2_000)}), "invalid_request"),
        (json!({"worker_id": 7}), "schema_validation"),
        (json!({"worker_id": "w", "active_jobs": {}}), "schema_validation"),
        (json!({"worker_id": "w", "active_job_ids": [1]}), "schema_validation"),
        (json!({"worker_id": "w", "visibility_timeout_ms": 0}), "invalid_request"),
    ] {
        error(&app.post("/ojs/v1/workers/heartbeat", &bad).await, 400, code);
    }
    error(&app.post_text("/ojs/v1/workers/heartbeat", "application/json", "{").await, 400, "invalid_payload");
    assert_eq!(workers(&app).await["total"], 1);
}

#[tokio::test]
async fn a_quiet_worker_finishes_and_gets_no_more() {
    let app = TestApp::new().await;
    let first = id(&push(&app, json!({"type": "a", "args": []})).await);
    fetch(&app, "default").await;
    push(&app, json!({"type": "a", "args": []})).await;
    beat(&app, json!({"worker_id": "w", "active_jobs": [first]})).await;
    assert_eq!(tell(&app, "w", "quiet").await["state"], "quiet");
    assert_eq!(fetch(&app, "default").await, Vec::<Value>::new());
    assert_eq!(beat(&app, json!({"worker_id": "w", "active_jobs": [first]})).await["state"], "quiet");
    app.post("/ojs/v1/workers/ack", &json!({"job_id": first, "worker_id": "w"})).await.expect(200);
    let other = json!({"queues": ["default"], "worker_id": "other"});
    let back = app.post("/ojs/v1/workers/fetch", &other).await.expect(200);
    assert_eq!(back["jobs"].as_array().unwrap().len(), 1, "another worker is not meant");
    let requeue = json!({"job_id": back["jobs"][0]["id"], "requeue": true, "error": {"message": "m"}});
    app.post("/ojs/v1/workers/nack", &requeue).await.expect(200);

    assert_eq!(tell(&app, "w", "resume").await["state"], "running");
    assert_eq!(fetch(&app, "default").await.len(), 1);
    tell(&app, "w", "terminate").await;
    assert_eq!(beat(&app, json!({"worker_id": "w"})).await["state"], "terminate");
    push(&app, json!({"type": "a", "args": []})).await;
    assert_eq!(fetch(&app, "default").await, Vec::<Value>::new());
    for wish in ["resume", "quiet"] {
        let path = format!("/ojs/v1/admin/workers/w/{wish}");
        let refused = error(&app.post(&path, &json!({})).await, 409, "conflict");
        assert_eq!(refused["details"]["current_state"], "terminate");
        error(&app.post(&format!("/ojs/v1/admin/workers/nobody/{wish}"), &json!({})).await, 404, "not_found");
    }
    let kinds: Vec<String> = told(&app, "worker.*").await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["worker.started", "worker.quiet", "worker.running", "worker.terminate"]);
    let audit = app.get("/api/v1/audit").await.expect(200);
    let actions: Vec<&str> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["worker_terminate", "worker_running", "worker_quiet"]);
}

#[tokio::test]
async fn a_dead_worker_loses_its_jobs_and_is_not_believed_any_more() {
    let app = TestApp::new().await;
    let long = json!({"visibility_timeout_ms": 600_000});
    let dead = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let mut last = long.clone();
    last["retry"] = dead;
    let one = id(&push(&app, json!({"type": "a", "args": [], "options": long})).await);
    let two = id(&push(&app, json!({"type": "a", "args": [], "options": last})).await);
    let three = id(&push(&app, json!({"type": "a", "args": [], "options": {"queue": "q"}})).await);
    assert_eq!(fetch(&app, "default").await.len(), 2);
    beat(&app, json!({"worker_id": "w", "active_jobs": [one, two]})).await;
    let mute = json!({"queues": ["q"], "worker_id": "mute", "visibility_timeout_ms": 600_000});
    app.post("/ojs/v1/workers/fetch", &mute).await.expect(200);

    app.pass(30_000);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["state"], "active", "not dead yet");
    app.pass(1);
    tick(&app).await;
    let back = job(&app, &one).await;
    assert_eq!((&back["state"], &back["attempt"]), (&json!("available"), &json!(1)));
    assert_eq!(back["error"]["type"], "worker_death");
    assert_eq!(back["error"]["details"]["worker_id"], "w");
    assert!(back.get("next_attempt_at").is_none(), "{back}");
    let ended = job(&app, &two).await;
    assert_eq!((&ended["state"], &ended["error"]["type"]), (&json!("discarded"), &json!("worker_death")));
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["jobs"][0]["id"], two);
    assert_eq!(job(&app, &three).await["state"], "active", "who never sent a heartbeat is not missed");
    assert_eq!(told(&app, "worker.stopped").await, [("worker.stopped".to_owned(), "w".to_owned())]);

    for late in [one.as_str(), two.as_str()] {
        let nack = json!({"job_id": late, "worker_id": "w", "error": {"message": "m"}});
        error(&app.post("/ojs/v1/workers/nack", &nack).await, 409, "conflict");
    }
    let ack = json!({"job_id": one, "worker_id": "w"});
    error(&app.post("/ojs/v1/workers/ack", &ack).await, 409, "conflict");
    // Nobody else will run the dead one: that its work was done is believed.
    app.post("/ojs/v1/workers/ack", &json!({"job_id": two, "worker_id": "w"})).await.expect(200);
    assert_eq!(job(&app, &two).await["state"], "completed");
    let other = json!({"queues": ["default"], "worker_id": "other"});
    app.post("/ojs/v1/workers/fetch", &other).await.expect(200);
    let ack = json!({"job_id": one, "worker_id": "w"});
    error(&app.post("/ojs/v1/workers/ack", &ack).await, 409, "conflict");
    let late = beat(&app, json!({"worker_id": "w", "active_jobs": [one, two]})).await;
    assert_eq!(late["jobs_extended"], json!([]), "it lives, and holds nothing");
    assert_eq!(job(&app, &one).await["attempt"], 2);
    app.check().await;
}

/// While the server is away nobody can be heard: a worker that works on must not lose its jobs to the first tick.
#[tokio::test]
async fn a_worker_is_not_dead_because_the_server_was_away() {
    let app = TestApp::new().await;
    let long = json!({"visibility_timeout_ms": 600_000});
    let one = id(&push(&app, json!({"type": "a", "args": [], "options": long})).await);
    assert_eq!(fetch(&app, "default").await.len(), 1);
    beat(&app, json!({"worker_id": "w", "active_jobs": [one]})).await;
    app.pass(60_000);
    let back_at = Time::parse(START).unwrap().plus_ms(60_000);
    let started = App::new(app.store.clone(), Config::default(), Clock::fixed(back_at), false).await.unwrap();
    lazaret_server::jobs::tick(&started).await.unwrap();
    assert_eq!(job(&app, &one).await["state"], "active", "it had no chance to be heard yet");
    let Clock::Fixed(clock) = &started.clock else { unreachable!("it stands still") };
    clock.fetch_add(30_001, std::sync::atomic::Ordering::SeqCst);
    lazaret_server::jobs::tick(&started).await.unwrap();
    let gone = job(&app, &one).await;
    assert_eq!((&gone["state"], &gone["error"]["type"]), (&json!("available"), &json!("worker_death")));
    app.check().await;
}

#[tokio::test]
async fn heartbeats_keep_a_worker_alive_and_its_death_is_shown_until_it_is_forgotten() {
    let app = TestApp::new().await;
    let long = json!({"visibility_timeout_ms": 600_000});
    let one = id(&push(&app, json!({"type": "a", "args": [], "options": long})).await);
    fetch(&app, "default").await;
    for _ in 0..10 {
        beat(&app, json!({"worker_id": "w", "active_jobs": []})).await;
        app.pass(25_000);
        tick(&app).await;
    }
    assert_eq!(job(&app, &one).await["state"], "active");
    app.pass(60_000);
    tick(&app).await;
    assert_eq!(job(&app, &one).await["state"], "available");
    let list = workers(&app).await;
    assert_eq!((&list["items"][0]["state"], &list["summary"]["stale"]), (&json!("stale"), &json!(1)));
    assert_eq!(app.get("/ojs/v1/admin/stats").await.expect(200)["workers"], 0);
    app.pass(86_400_000);
    lazaret_server::jobs::ended::prune(&app.app).await.unwrap();
    assert_eq!(workers(&app).await["items"], json!([]));
}

#[tokio::test]
async fn a_dead_workers_many_jobs_come_back_tick_by_tick() {
    let app = TestApp::new().await;
    let jobs: Vec<Value> = (0..450)
        .map(|_| json!({"type": "a", "args": [], "options": {"visibility_timeout_ms": 600_000}}))
        .collect();
    app.post("/ojs/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
    let wish = json!({"queues": ["default"], "count": 1_000, "worker_id": "w"});
    app.post("/ojs/v1/workers/fetch", &wish).await.expect(200);
    beat(&app, json!({"worker_id": "w"})).await;
    app.pass(31_000);
    use lazaret_server::operations::Progress;
    let mut ticks = 1;
    while lazaret_server::jobs::tick(&app.app).await.unwrap() == Progress::More {
        ticks += 1;
    }
    assert_eq!(ticks, 3);
    let queue = app.get("/ojs/v1/admin/queues/default").await.expect(200);
    assert_eq!((&queue["counts"]["available"], &queue["counts"]["active"]), (&json!(450), &json!(0)));
}

#[tokio::test]
async fn queues_are_listed_with_what_they_hold_and_paused_from_there() {
    let app = TestApp::new().await;
    for queue in ["a", "b", "b"] {
        push(&app, json!({"type": "t", "args": [], "options": {"queue": queue}})).await;
    }
    fetch(&app, "b").await;
    let list = app.get("/ojs/v1/admin/queues?page=1&per_page=50").await;
    wire(&list);
    let list = list.expect(200);
    let zero = json!({
        "scheduled": 0, "available": 0, "pending": 0, "active": 0, "completed": 0, "retryable": 0,
        "cancelled": 0, "discarded": 0,
    });
    let mut counts = zero.clone();
    counts["active"] = 2.into();
    assert_eq!(
        list["items"][1],
        json!({
            "name": "b", "state": "active", "status": "active", "paused": false, "counts": counts,
            "created_at": START,
        })
    );
    let page = |total: u64, page: u64, more: bool| json!({"total": total, "page": page, "per_page": 1, "limit": 1, "offset": page - 1, "has_more": more});
    let second = app.get("/ojs/v1/admin/queues?page=2&per_page=1").await.expect(200);
    assert_eq!((&second["items"][0]["name"], &second["pagination"]), (&json!("b"), &page(2, 2, false)));
    let first = app.get("/ojs/v1/admin/queues?per_page=1").await.expect(200);
    assert_eq!(first["pagination"], page(2, 1, true));

    let pause = |verb: &str| format!("/ojs/v1/admin/queues/a/{verb}");
    assert_eq!(app.post(&pause("pause"), &json!({})).await.expect(200)["status"], "paused");
    let paused = app.get("/ojs/v1/admin/queues/a").await.expect(200);
    assert_eq!((&paused["paused"], &paused["state"]), (&json!(true), &json!("paused")));
    assert_eq!(fetch(&app, "a").await, Vec::<Value>::new());
    app.post(&pause("resume"), &json!({})).await.expect(200);
    assert_eq!(fetch(&app, "a").await.len(), 1);
    error(&app.get("/ojs/v1/admin/queues/nothing").await, 404, "not_found");
    error(&app.get("/ojs/v1/admin/queues?page=0").await, 400, "invalid_request");
    error(&app.get("/ojs/v1/admin/queues?page=99999999").await, 422, "too_many");
}

#[tokio::test]
async fn jobs_are_listed_newest_first_and_narrowed_down() {
    let app = TestApp::new().await;
    let mut ids = Vec::new();
    for (queue, job_type) in
        [("a", "mail.send"), ("a", "mail.sort"), ("b", "invoice.make"), ("b", "mail.send")]
    {
        ids.push(id(&push(&app, json!({"type": job_type, "args": [], "options": {"queue": queue}})).await));
        app.pass(1_000);
    }
    app.delete(&format!("/ojs/v1/jobs/{}", ids[0])).await.expect(200);
    fetch(&app, "b").await;
    let rows: [(&str, &[usize], Option<u64>); 12] = [
        ("", &[3, 2, 1, 0], Some(4)),
        ("queue=a", &[1, 0], Some(2)),
        ("state=active", &[3, 2], Some(2)),
        ("queue=a&state=cancelled", &[0], Some(1)),
        ("queue=a&state=active", &[], Some(0)),
        ("type=mail.send", &[3, 0], Some(2)),
        ("type=mail.*", &[3, 1, 0], Some(3)),
        ("worker=w", &[3, 2], Some(2)),
        ("since=2026-11-15T03:00:01Z", &[3, 2, 1], Some(3)),
        ("until=2026-11-15T03:00:02.000Z", &[1, 0], Some(2)),
        ("sort=created_at&order=desc&per_page=2&page=2", &[1, 0], Some(4)),
        ("type=mail.*&per_page=2", &[3, 1], None),
    ];
    for (query, expected, total) in rows {
        let list = app.get(&format!("/ojs/v1/admin/jobs?{query}")).await.expect(200);
        let found: Vec<String> = list["items"].as_array().unwrap().iter().map(id).collect();
        let expected: Vec<String> = expected.iter().map(|at| ids[*at].clone()).collect();
        assert_eq!(found, expected, "{query}");
        let pagination = &list["pagination"];
        match total {
            Some(total) => {
                assert_eq!(
                    (&pagination["total"], pagination.get("total_is_at_least")),
                    (&json!(total), None)
                );
            }
            None => assert_eq!(pagination["total_is_at_least"], true, "{query}: {pagination}"),
        }
    }
    let mut cursor = String::new();
    let mut all = Vec::new();
    while all.len() < 4 {
        let page = app.get(&format!("/ojs/v1/admin/jobs?per_page=1&cursor={cursor}")).await.expect(200);
        all.extend(page["items"].as_array().unwrap().iter().map(id));
        cursor = page["pagination"]["next_cursor"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(all.iter().rev().collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    for bad in ["state=dead", "since=soon", "order=asc", "sort=type", "cursor=x", "per_page=0"] {
        error(&app.get(&format!("/ojs/v1/admin/jobs?{bad}")).await, 400, "invalid_request");
    }
    error(&app.get("/ojs/v1/admin/jobs?page=100000").await, 422, "too_many");
    let foreign = error(&app.get("/ojs/v1/admin/jobs?cursor=x").await, 400, "invalid_request");
    assert!(foreign["hint"].as_str().unwrap().contains("next_cursor"), "{foreign}");
    let misnamed = app.post("/ojs/v1/admin/queues/Bad_/pause", &json!({})).await;
    let misnamed = error(&misnamed, 400, "invalid_request");
    assert!(misnamed["hint"].as_str().unwrap().contains("a-z"), "{misnamed}");
}

#[tokio::test]
async fn the_numbers_add_up_over_queues() {
    let app = TestApp::new().await;
    let empty = app.get("/ojs/v1/admin/stats").await.expect(200);
    assert_eq!(
        (&empty["queues"], &empty["workers"], &empty["jobs"]["available"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(empty["throughput"], json!({"processed_per_minute": 0, "failed_per_minute": 0}));
    let dead = json!({"queue": "b", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let one = id(&push(&app, json!({"type": "t", "args": [], "options": dead})).await);
    let two = id(&push(&app, json!({"type": "t", "args": [], "options": {"queue": "a"}})).await);
    push(&app, json!({"type": "t", "args": [], "options": {"queue": "a", "pending": true}})).await;
    fetch(&app, "a").await;
    fetch(&app, "b").await;
    beat(&app, json!({"worker_id": "w", "active_jobs": [one, two]})).await;
    nack(&app, &one, json!({"message": "m"})).await;
    app.post("/ojs/v1/workers/ack", &json!({"job_id": two})).await.expect(200);
    app.post("/ojs/v1/queues/a/pause", &json!({})).await.expect(200);
    let stats = app.get("/ojs/v1/admin/stats").await.expect(200);
    assert_eq!(
        stats["jobs"],
        json!({
            "scheduled": 0, "available": 0, "pending": 1, "active": 0, "completed": 1, "retryable": 0,
            "cancelled": 0, "discarded": 1,
        })
    );
    assert_eq!(
        (&stats["queues"], &stats["paused_queues"], &stats["workers"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(stats["dead_letter"]["total"], 1);
    assert_eq!(stats["throughput"], json!({"processed_per_minute": 1, "failed_per_minute": 1}));
    app.pass(120_000);
    let later = app.get("/ojs/v1/admin/stats").await.expect(200);
    assert_eq!(later["throughput"], json!({"processed_per_minute": 0, "failed_per_minute": 0}));
}

#[tokio::test]
async fn a_job_is_cancelled_from_the_admin_pages() {
    let app = TestApp::new().await;
    let one = id(&push(&app, json!({"type": "a", "args": []})).await);
    let path = format!("/ojs/v1/admin/jobs/{one}/cancel");
    assert_eq!(app.post(&path, &json!({})).await.expect(200)["state"], "cancelled");
    error(&app.post(&path, &json!({})).await, 409, "conflict");
}
