//! Every dead-letter route with every status it can have, in both namespaces; and the places where the documents of the
//! specification contradict each other, settled as they are settled here.

use http::{Method, header};
use lazaret_server::access::PERMISSIONS;
use lazaret_server::config::{Config, Governance};
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::ojs::{UNKNOWN, error, fetch, id, job, nack, push, wire};
use super::ojs_dead_letter::{dead, die, listed};
use super::rig::{Answer, TestApp};

const PLAIN: &str = "/ojs/v1/dead-letter";
const ADMIN: &str = "/ojs/v1/admin/dead-letter";

/// A request and what it is answered with, of which the last word is the code of an error.
struct Row {
    method: Method,
    /// Behind the namespace; `ID` stands for a job that is dead, `HELD` for one that is held too.
    path: &'static str,
    body: Value,
    status: u16,
    code: &'static str,
}

fn row(method: Method, path: &'static str, body: Value, status: u16, code: &'static str) -> Row {
    Row { method, path, body, status, code }
}

/// What does not depend on the namespace. What changes something stands behind what is refused.
fn rows() -> Vec<Row> {
    let all = || json!({"all": true, "expected_count": 1, "confirm": true});
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    vec![
        row(get.clone(), "", Value::Null, 200, ""),
        row(get.clone(), "?limit=0&per_page=0", Value::Null, 400, "invalid_request"),
        row(get.clone(), "?since=x", Value::Null, 400, "invalid_request"),
        row(get.clone(), "/stats", Value::Null, 200, ""),
        row(get.clone(), "/ID", Value::Null, 200, ""),
        row(get.clone(), "/none", Value::Null, 404, "not_found"),
        row(get.clone(), "/retry", Value::Null, 405, "method_not_allowed"),
        row(get, "/purge", Value::Null, 405, "method_not_allowed"),
        row(post.clone(), "", json!({}), 405, "method_not_allowed"),
        row(post.clone(), "/stats", json!({}), 405, "method_not_allowed"),
        row(post.clone(), "/ID", json!({}), 405, "method_not_allowed"),
        row(post.clone(), "/none/retry", json!({}), 404, "not_found"),
        row(post.clone(), "/ID/retry", json!({"override": {"queue": "No!"}}), 400, "invalid_request"),
        row(
            post.clone(),
            "/ID/retry",
            json!({"override": {"retry": {"max_attempts": -1}}}),
            422,
            "validation_error",
        ),
        row(post.clone(), "/ID/retry", json!([]), 400, "invalid_payload"),
        row(post.clone(), "/retry", json!({"filter": {"queue": "q"}}), 400, "confirm_required"),
        row(post.clone(), "/retry", json!({"filter": {}, "confirm": true}), 400, "filter_required"),
        row(
            post.clone(),
            "/retry",
            json!({"all": true, "expected_count": 9, "confirm": true}),
            409,
            "count_mismatch",
        ),
        row(
            post.clone(),
            "/retry",
            json!({"all": true, "expected_count": 10_001, "confirm": true}),
            409,
            "count_mismatch",
        ),
        row(post.clone(), "/purge", json!({}), 400, "filter_required"),
        row(post.clone(), "/purge", json!({"all": true, "expected_count": 9}), 409, "count_mismatch"),
        row(delete.clone(), "/none", Value::Null, 404, "not_found"),
        row(delete.clone(), "/HELD", Value::Null, 409, "held"),
        row(delete.clone(), "/stats", Value::Null, 405, "method_not_allowed"),
        row(delete.clone(), "", json!({"older_than": "7d"}), 400, "confirm_required"),
        row(delete.clone(), "", json!({"confirm": true}), 400, "filter_required"),
        row(delete, "", json!({"older_than": "soon", "confirm": true}), 400, "invalid_request"),
        row(post.clone(), "/purge?older_than=7d", Value::Null, 200, ""),
        row(post.clone(), "/retry", json!({"filter": {"queue": "none"}, "confirm": true}), 200, ""),
        row(post.clone(), "/ID/retry", Value::Null, 200, ""),
        row(post.clone(), "/ID/retry", Value::Null, 404, "not_found"),
        row(post, "/retry", all(), 200, ""),
    ]
}

async fn ask(app: &TestApp, method: Method, path: &str, body: &Value) -> Answer {
    if body.is_null() {
        return app.send(app.request(method, path, "")).await;
    }
    let mut request = app.request(method, path, body.to_string());
    request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    app.send(request).await
}

#[tokio::test]
async fn every_route_has_the_status_of_the_table() {
    for base in [PLAIN, ADMIN] {
        let app = TestApp::new().await;
        let one = dead(&app, "q", "t", "E").await;
        let held = dead(&app, "r", "t", "E").await;
        let letters = app.get(&format!("/api/v1/dead-letters?eventId={held}")).await.expect(200);
        let letter = letters["items"][0]["id"].as_str().unwrap();
        app.post(&format!("/api/v1/dead-letters/{letter}/hold"), &json!({"reason": "r"})).await.expect(200);
        for Row { method, path, body, status, code } in rows() {
            let path = format!(
                "{base}{}",
                path.replace("ID", &one).replace("HELD", &held).replace("none/", &format!("{UNKNOWN}/"))
            );
            let answer = ask(&app, method.clone(), &path, &body).await;
            if code.is_empty() {
                wire(&answer);
                assert_eq!(answer.status.as_u16(), status, "{method} {path} {body}: {answer:?}");
            } else {
                error(&answer, status, code);
            }
        }
        // The one that was retried is back when its next run fails.
        die(&app, &one, "q", "E").await;
        let answer = ask(&app, Method::DELETE, &format!("{base}/{one}"), &Value::Null).await;
        assert_eq!(answer.status.as_u16(), if base == ADMIN { 204 } else { 200 });
        app.check().await;
    }
}

#[tokio::test]
async fn every_dead_letter_route_is_in_both_namespaces() {
    let under = |base: &str| -> Vec<(String, String)> {
        let mut routes: Vec<_> = PERMISSIONS
            .iter()
            .filter_map(|(method, route, _)| {
                Some(((*method).to_owned(), route.strip_prefix(base)?.to_owned()))
            })
            .collect();
        routes.sort();
        routes
    };
    assert_eq!(under(PLAIN), under(ADMIN));
    assert_eq!(under(PLAIN).len(), 8);
}

#[tokio::test]
async fn roles_and_switches_refuse_in_the_same_shape() {
    let mut config = Config::default();
    config.jobs.governance = Governance::Required;
    let mut app = TestApp::with(config, Mode::Real).await;
    let one = dead(&app, "q", "t", "E").await;
    for base in [PLAIN, ADMIN] {
        error(&app.post(&format!("{base}/{one}/retry"), &json!({})).await, 409, "rca_required");
    }
    let admin = app.post("/api/v1/tokens", &json!({"name": "a", "role": "admin"})).await.expect(201);
    for base in [PLAIN, ADMIN] {
        error(&app.delete(&format!("{base}/{one}")).await, 401, "unauthorized");
    }
    app.token = admin["token"].as_str().map(str::to_owned);
    let viewer = app.post("/api/v1/tokens", &json!({"name": "v", "role": "viewer"})).await.expect(201);
    app.token = viewer["token"].as_str().map(str::to_owned);
    for base in [PLAIN, ADMIN] {
        app.get(&format!("{base}/{one}")).await.expect(200);
        error(&app.delete(&format!("{base}/{one}")).await, 403, "forbidden");
        error(&app.delete(base).await, 403, "forbidden");
        error(&app.post(&format!("{base}/purge"), &json!({})).await, 403, "forbidden");
    }
}

/// The numbers are those of the list of contradictions.
#[tokio::test]
async fn contradictions_about_the_dead_letter_are_settled() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "t", "E").await;
    // 7: what is exhausted without a word about the dead letter is not in it.
    let options = json!({"queue": "d", "retry": {"max_attempts": 1}});
    let dropped = id(&push(&app, json!({"type": "t", "args": [], "options": options})).await);
    fetch(&app, "d").await;
    nack(&app, &dropped, json!({"code": "x", "message": "m"})).await;
    // 1 and 2: both paths, each with its own shape.
    let (plain, admin) = (app.get(PLAIN).await.expect(200), app.get(ADMIN).await.expect(200));
    assert_eq!(listed(&app, PLAIN).await, [one.as_str()]);
    assert!(plain["jobs"].is_array() && plain.get("items").is_none() && plain["pagination"]["offset"] == 0);
    assert!(admin["items"].is_array() && admin.get("jobs").is_none() && admin["pagination"]["page"] == 1);
    // 20 and 26: both names of the time of death, one name of the time of a failure.
    let shown = &plain["jobs"][0];
    assert!(shown["discarded_at"].is_string() && shown["discarded_at"] == shown["completed_at"], "{shown}");
    assert!(shown["errors"][0]["occurred_at"].is_string(), "{shown}");
    // 22: more rows than there may be are brought down.
    let wide = app.get(&format!("{PLAIN}?limit=5000")).await.expect(200);
    assert_eq!(wide["pagination"]["limit"], 1_000);
    // 24: the retention of the dead-letter document.
    let stats = app.get(&format!("{PLAIN}/stats")).await.expect(200);
    assert_eq!(
        stats["retention"],
        json!({"max_age": "P180D", "max_count": 10_000, "next_prune_at": "2026-11-15T03:05:00.000Z"})
    );
    // 11 and 12: a job that has ended cannot be cancelled, and the code is `conflict`.
    for ended in [&one, &dropped] {
        let told = error(&app.delete(&format!("/ojs/v1/jobs/{ended}")).await, 409, "conflict");
        assert_eq!(told["details"]["current_state"], "discarded");
    }
    // 16: hint and docs_url are on every error, which `error` has looked at.
    // 8, 27 and 28: a retry makes it available, with its errors and without its attempts.
    let retried = app.post(&format!("{PLAIN}/{one}/retry"), &json!({})).await.expect(200);
    assert_eq!((&retried["state"], &retried["attempt"]), (&json!("available"), &json!(0)));
    assert_eq!(retried["errors"].as_array().unwrap().len(), 1);
    assert_eq!(fetch(&app, "q").await[0]["attempt"], 1);
    nack(&app, &one, json!({"code": "x", "type": "F", "message": "m"})).await;
    assert_eq!(job(&app, &one).await["errors"].as_array().unwrap().len(), 2);
    // 25: the names of the dead-letter document.
    let events = app.get("/ojs/v1/events?types=dead_letter.*").await.expect(200);
    let kinds: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["dead_letter.added", "dead_letter.retried"]);
    // 3: one job is deleted with an answer here and without one there.
    app.delete(&format!("{PLAIN}/{one}")).await.expect(200);
    let two = dead(&app, "q", "t", "E").await;
    assert!(app.delete(&format!("{ADMIN}/{two}")).await.expect(204).is_null());
    app.check().await;
}
