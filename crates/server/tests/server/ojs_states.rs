//! Every state of a job × everything that can be asked of it: the status of the answer and the state after it.

use http::Method;
use serde_json::{Value, json};

use super::ojs::{error, fetch, id, job, nack, push, wire};
use super::rig::{Answer, TestApp};

/// The eight states; a discarded job is in the dead letter or is not.
const STATES: [&str; 9] = [
    "scheduled",
    "available",
    "pending",
    "active",
    "completed",
    "retryable",
    "cancelled",
    "discarded",
    "discarded, dead",
];

/// The same word without what the dead letter says.
fn plain(state: &str) -> &str {
    state.split(',').next().unwrap()
}

/// A job in a state, brought there as clients would.
async fn job_in(app: &TestApp, state: &str) -> String {
    let options = match state {
        "scheduled" => json!({"delay_until": "+PT1H"}),
        "pending" => json!({"pending": true}),
        "discarded" => json!({"retry": {"max_attempts": 1}}),
        "discarded, dead" => json!({"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}),
        _ => json!({}),
    };
    let one = id(&push(app, json!({"type": "a", "args": [], "options": options})).await);
    if ["active", "completed", "retryable", "discarded", "discarded, dead"].contains(&state) {
        assert_eq!(fetch(app, "default").await.len(), 1);
    }
    match state {
        "completed" => {
            app.post("/ojs/v1/workers/ack", &json!({"id": one})).await.expect(200);
        }
        "retryable" | "discarded" | "discarded, dead" => {
            nack(app, &one, json!({"code": "x", "message": "m"})).await;
        }
        "cancelled" => {
            app.delete(&format!("/ojs/v1/jobs/{one}")).await.expect(200);
        }
        _ => {}
    }
    assert_eq!(job(app, &one).await["state"], plain(state));
    one
}

/// Asks `operation` of a job in each state. `allowed` names the states that are moved, and to which; all others answer
/// with the refusal and stay as they are.
async fn check(operation: &str, refusal: (u16, &str), allowed: &[(&str, &str)]) {
    for state in STATES {
        let app = TestApp::new().await;
        let one = job_in(&app, state).await;
        let before = job(&app, &one).await;
        let answer = ask(&app, operation, &one).await;
        let to = allowed.iter().find(|(from, _)| *from == state).map(|(_, to)| *to);
        match to {
            Some(to) => {
                wire(&answer);
                assert_eq!(answer.status.as_u16(), 200, "{operation} × {state}: {answer:?}");
                assert_eq!(job(&app, &one).await["state"], to, "{operation} × {state}");
            }
            None => {
                let told = error(&answer, refusal.0, refusal.1);
                if refusal.0 == 409 {
                    assert_eq!(told["details"]["current_state"], plain(state), "{operation} × {state}");
                }
                assert_eq!(job(&app, &one).await, before, "{operation} × {state}");
            }
        }
        app.check().await;
    }
}

async fn ask(app: &TestApp, operation: &str, one: &str) -> Answer {
    let failure = json!({"code": "x", "message": "m"});
    match operation {
        "ack" => app.post("/ojs/v1/workers/ack", &json!({"job_id": one})).await,
        "nack" => app.post("/ojs/v1/workers/nack", &json!({"job_id": one, "error": failure})).await,
        "requeue" => {
            let body = json!({"job_id": one, "error": failure, "requeue": true});
            app.post("/ojs/v1/workers/nack", &body).await
        }
        "cancel" => app.delete(&format!("/ojs/v1/jobs/{one}")).await,
        "activate" => app.post(&format!("/ojs/v1/jobs/{one}/activate"), &json!({})).await,
        "retry" => app.send(app.request(Method::POST, &format!("/ojs/v1/dead-letter/{one}/retry"), "")).await,
        "delete" => app.delete(&format!("/ojs/v1/dead-letter/{one}")).await,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn ack_by_state() {
    check("ack", (409, "conflict"), &[("active", "completed")]).await;
}

#[tokio::test]
async fn nack_by_state() {
    check("nack", (409, "conflict"), &[("active", "retryable")]).await;
}

#[tokio::test]
async fn requeue_by_state() {
    check("requeue", (409, "conflict"), &[("active", "available")]).await;
}

#[tokio::test]
async fn cancel_by_state() {
    let open = ["scheduled", "available", "pending", "active", "retryable"].map(|state| (state, "cancelled"));
    check("cancel", (409, "conflict"), &open).await;
}

#[tokio::test]
async fn activate_by_state() {
    check("activate", (409, "conflict"), &[("pending", "available")]).await;
}

#[tokio::test]
async fn retry_by_state() {
    check("retry", (404, "not_found"), &[("discarded, dead", "available")]).await;
}

#[tokio::test]
async fn fetch_by_state() {
    for state in STATES {
        let app = TestApp::new().await;
        let one = job_in(&app, state).await;
        let before = job(&app, &one).await;
        let fetched = fetch(&app, "default").await;
        if state == "available" {
            assert_eq!(fetched.iter().map(id).collect::<Vec<_>>(), [one.as_str()]);
            assert_eq!(job(&app, &one).await["state"], "active");
        } else {
            assert_eq!(fetched, Vec::<Value>::new(), "{state}");
            assert_eq!(job(&app, &one).await, before, "{state}");
        }
    }
}

#[tokio::test]
async fn heartbeat_by_state() {
    for state in STATES {
        let app = TestApp::new().await;
        let one = job_in(&app, state).await;
        let before = job(&app, &one).await;
        let beat = json!({"worker_id": "w", "active_jobs": [one]});
        let answer = app.post("/ojs/v1/workers/heartbeat", &beat).await.expect(200);
        let extended = if state == "active" { json!([one]) } else { json!([]) };
        assert_eq!(answer["jobs_extended"], extended, "{state}");
        assert_eq!(job(&app, &one).await, before, "{state}: a heartbeat moves no job");
    }
}

#[tokio::test]
async fn delete_by_state() {
    for state in STATES {
        let app = TestApp::new().await;
        let one = job_in(&app, state).await;
        let before = job(&app, &one).await;
        let answer = ask(&app, "delete", &one).await;
        if state == "discarded, dead" {
            let told = answer.expect(200);
            assert_eq!((&told["deleted"], &told["job_id"]), (&json!(true), &json!(one)));
            error(&app.get(&format!("/ojs/v1/jobs/{one}")).await, 404, "not_found");
        } else {
            error(&answer, 404, "not_found");
            assert_eq!(job(&app, &one).await, before, "{state}");
        }
        app.check().await;
    }
}
