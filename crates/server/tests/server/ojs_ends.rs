//! Ends of many jobs in one request: each has an answer of its own.

use serde_json::{Value, json};

use super::ojs::{UNKNOWN, error, fetch, id, job, push, wire};
use super::rig::TestApp;

const ACK: &str = "/ojs/v1/workers/ack/batch";
const NACK: &str = "/ojs/v1/workers/nack/batch";

/// Jobs that worker `w` holds.
async fn held(app: &TestApp, count: usize) -> Vec<String> {
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    for _ in 0..count {
        push(app, json!({"type": "a", "args": [], "options": {"retry": retry}})).await;
    }
    let jobs = fetch(app, "default").await;
    assert_eq!(jobs.len(), count);
    jobs.iter().map(id).collect()
}

fn statuses(answer: &Value) -> Vec<u64> {
    answer["results"].as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect()
}

fn failure(id: &str) -> Value {
    json!({"job_id": id, "worker_id": "w", "error": {"type": "Boom", "message": "m", "backtrace": ["at a", "at b"]}})
}

#[tokio::test]
async fn many_acks_are_answered_one_by_one_in_their_order() {
    let app = TestApp::new().await;
    let ids = held(&app, 3).await;
    let items = json!([
        {"job_id": ids[0], "result": {"n": 1}},
        {"job_id": UNKNOWN},
        {"id": ids[1], "worker_id": "w"},
        {"worker_id": "w"},
        {"job_id": ids[2], "worker_id": "another"},
        7,
        {"job_id": ids[0]},
    ]);
    let answer = app.post(ACK, &json!({"jobs": items})).await;
    wire(&answer);
    let answer = answer.expect(200);
    assert_eq!(statuses(&answer), [200, 404, 200, 400, 409, 400, 409]);
    assert_eq!(
        (&answer["count"], &answer["succeeded"], &answer["failed"]),
        (&json!(7), &json!(2), &json!(5))
    );
    let first = &answer["results"][0];
    assert_eq!((&first["job_id"], &first["state"]), (&json!(ids[0]), &json!("completed")));
    assert_eq!(
        (&first["acknowledged"], &first["completed_at"]),
        (&json!(true), &json!("2026-11-15T03:00:00.000Z"))
    );
    assert!(first.get("job").is_none(), "jobs are left out: {first}");
    let missing = &answer["results"][1]["error"];
    assert_eq!(
        (&missing["code"], &missing["details"]["resource_id"]),
        (&json!("not_found"), &json!(UNKNOWN))
    );
    assert!(missing["hint"].is_string() && missing["request_id"].is_string(), "{missing}");
    assert_eq!(answer["results"][3]["error"]["details"]["field"], "job_id");
    let states: Vec<Value> = [job(&app, &ids[0]).await, job(&app, &ids[1]).await, job(&app, &ids[2]).await]
        .map(|job| job["state"].clone())
        .into();
    assert_eq!(states, ["completed", "completed", "active"]);
    assert_eq!(job(&app, &ids[0]).await["result"], json!({"n": 1}));
}

#[tokio::test]
async fn many_failures_become_dead_letters() {
    let app = TestApp::new().await;
    let ids = held(&app, 30).await;
    let items: Vec<Value> = ids.iter().map(|id| failure(id)).collect();
    let answer = app.post(NACK, &json!({"jobs": items})).await.expect(200);
    assert_eq!((&answer["succeeded"], &answer["failed"]), (&json!(30), &json!(0)));
    for (id, result) in ids.iter().zip(answer["results"].as_array().unwrap()) {
        assert_eq!((&result["job_id"], &result["state"]), (&json!(id), &json!("discarded")));
        assert_eq!((&result["attempt"], &result["max_attempts"]), (&json!(1), &json!(1)));
    }
    let stats = app.get("/ojs/v1/dead-letter/stats").await.expect(200);
    assert_eq!((&stats["total"], &stats["by_error_type"]["Boom"]), (&json!(30), &json!(30)));
    let recount = app.get("/api/v1/ledger?recount=true").await.expect(200);
    assert_eq!(recount["difference"], 0, "{recount}");
    let again = app.post(NACK, &json!({"jobs": items})).await.expect(200);
    assert_eq!(statuses(&again), [409; 30]);
}

#[tokio::test]
async fn jobs_that_are_not_remembered_are_read_first() {
    let app = TestApp::new().await;
    let ids = held(&app, 20).await;
    for id in &ids {
        // Refused, and forgotten with it.
        let stranger = json!({"job_id": id, "worker_id": "another"});
        error(&app.post("/ojs/v1/workers/ack", &stranger).await, 409, "conflict");
    }
    let items: Vec<Value> = ids.iter().map(|id| failure(id)).collect();
    let answer = app.post(NACK, &json!({"jobs": items})).await.expect(200);
    assert_eq!(statuses(&answer), [200; 20]);
}

#[tokio::test]
async fn a_batch_has_at_least_one_item_and_at_most_so_many() {
    let app = TestApp::new().await;
    for route in [ACK, NACK] {
        let many: Vec<Value> = (0..1_001).map(|_| json!({"job_id": UNKNOWN})).collect();
        for bad in [json!({"jobs": []}), json!({}), json!({"jobs": many})] {
            error(&app.post(route, &bad).await, 400, "invalid_request");
        }
        error(&app.post(route, &json!({"jobs": 1})).await, 400, "schema_validation");
        error(&app.post(route, &json!([])).await, 400, "invalid_payload");
    }
}
