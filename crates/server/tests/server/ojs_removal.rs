//! Deleting and purging dead jobs, for clients of the Open Job Specification; retries of many; and who did it.

use http::{Method, header};
use lazaret_core::id::{JobId, RedriveId};
use lazaret_core::job::Job;
use lazaret_core::letter::{Admitted, admit};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RedriveKind};
use lazaret_core::time::Time;
use lazaret_server::operations::Progress;
use lazaret_server::redrive;
use lazaret_store::job::{SOURCE, key_of};
use lazaret_store::{JobStore, Redrives, Store};
use serde_json::{Value, json};

use super::ojs::{error, fetch, id, job, push, wire};
use super::ojs_dead_letter::{dead, listed};
use super::rig::{Answer, START, TestApp};

const BOTH: [&str; 2] = ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"];

/// The letter of a job.
async fn letter_of(app: &TestApp, job: &str) -> String {
    let page = app.get(&format!("/api/v1/dead-letters?source=jobs&eventId={job}")).await.expect(200);
    page["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned()
}

async fn hold(app: &TestApp, job: &str) {
    let letter = letter_of(app, job).await;
    let path = format!("/api/v1/dead-letters/{letter}/hold");
    app.post(&path, &json!({"reason": "case 12"})).await.expect(200);
}

async fn delete_with(app: &TestApp, path: &str, body: &Value) -> Answer {
    let mut request = app.request(Method::DELETE, path, body.to_string());
    request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    app.send(request).await
}

/// The newest entry of the audit log.
async fn audited(app: &TestApp) -> Value {
    app.get("/api/v1/audit?limit=1").await.expect(200)["items"][0].clone()
}

#[tokio::test]
async fn a_deleted_job_is_gone_from_everywhere_and_can_be_restored() {
    for base in BOTH {
        let app = TestApp::new().await;
        let one = dead(&app, "q", "t", "E").await;
        let other = dead(&app, "q", "t", "E").await;
        let letter = letter_of(&app, &one).await;
        let mut request = app.request(Method::DELETE, &format!("{base}/{one}"), "");
        request.headers_mut().insert("x-request-id", "mine-1".parse().unwrap());
        let answer = app.send(request).await;
        if base.contains("admin") {
            assert_eq!((answer.status.as_u16(), answer.bytes.len()), (204, 0));
            assert_eq!(answer.headers["ojs-version"], "1.0");
        } else {
            wire(&answer);
            assert_eq!(answer.expect(200), json!({"deleted": true, "job_id": one}));
        }
        assert_eq!(listed(&app, base).await, [other.as_str()]);
        error(&app.get(&format!("{base}/{one}")).await, 404, "not_found");
        error(&app.get(&format!("/ojs/v1/jobs/{one}")).await, 404, "not_found");
        error(&app.delete(&format!("{base}/{one}")).await, 404, "not_found");
        error(&app.post(&format!("{base}/{one}/retry"), &json!({})).await, 404, "not_found");
        let entry = audited(&app).await;
        assert_eq!((&entry["action"], &entry["letterId"]), (&json!("delete"), &json!(letter)));
        assert_eq!((&entry["actor"], &entry["requestId"]), (&json!("local"), &json!("mine-1")));
        let told = app.get("/ojs/v1/events?types=dead_letter.deleted").await.expect(200);
        assert_eq!(told["events"][0]["subject"], one);
        assert_eq!(app.get(&format!("{base}/stats")).await.expect(200)["total"], 1);

        let kept = app.get("/api/v1/archive?place=deleted").await.expect(200);
        assert_eq!((&kept["items"][0]["id"], &kept["items"][0]["eventId"]), (&json!(letter), &json!(one)));
        assert_eq!(kept["items"][0]["archive"]["reason"], "deleted");
        app.post(&format!("/api/v1/dead-letters/{letter}/restore"), &json!({})).await.expect(200);
        assert_eq!(listed(&app, base).await, [other.as_str(), one.as_str()]);
        assert_eq!(job(&app, &one).await["state"], "discarded");
        app.post(&format!("{base}/{one}/retry"), &json!({})).await.expect(200);
        app.check().await;
    }
}

#[tokio::test]
async fn what_is_held_is_neither_deleted_nor_purged_and_can_be_retried() {
    for base in BOTH {
        let app = TestApp::new().await;
        let held = dead(&app, "q", "t", "E").await;
        let free = dead(&app, "q", "t", "E").await;
        hold(&app, &held).await;
        let told = error(&app.delete(&format!("{base}/{held}")).await, 409, "held");
        assert_eq!(told["details"]["job_id"], held);
        let done = delete_with(&app, base, &json!({"filter": {"queue": "q"}, "confirm": true})).await;
        wire(&done);
        let done = done.expect(200);
        for (name, expected) in [("matched", 2), ("deleted", 1), ("succeeded", 1), ("failed", 0), ("held", 1)]
        {
            assert_eq!(done[name], expected, "{name}: {done}");
        }
        assert_eq!((&done["action"], &done["errors"][0]["job_id"]), (&json!("delete"), &json!(held)));
        assert!(done["errors"][0]["error"].as_str().unwrap().contains("on hold"), "{done}");
        error(&app.get(&format!("{base}/{free}")).await, 404, "not_found");
        app.post(&format!("{base}/{held}/retry"), &json!({})).await.expect(200);
        // It is held and reprocessing, and neither is what is asked for.
        error(&app.delete(&format!("{base}/{held}")).await, 404, "not_found");
        app.check().await;
    }
}

#[tokio::test]
async fn a_purge_takes_its_filter_from_the_query_or_the_body() {
    for base in BOTH {
        let app = TestApp::new().await;
        let purge = format!("{base}/purge");
        let mut all = Vec::new();
        for queue in ["a", "b", "c", "d", "e", "f"] {
            all.push(dead(&app, queue, "t", "E").await);
        }
        app.pass(8 * 86_400_000);
        let fresh = dead(&app, "g", "t", "E").await;
        let none = app.post_text(&format!("{purge}?queue=none"), "application/json", "").await.expect(200);
        assert_eq!(
            (&none["action"], &none["matched"], &none["deleted"]),
            (&json!("purge"), &json!(0), &json!(0))
        );
        assert_eq!((&none["held"], &none["errors"]), (&json!(0), &json!([])));
        let calls: [Answer; 5] = [
            app.send(app.request(Method::POST, &format!("{purge}?queue=a"), "")).await,
            app.post(&purge, &json!({"filter": {"queue": "b"}, "reason": "old"})).await,
            app.delete(&format!("{base}?queue=c&confirm=true")).await,
            delete_with(&app, base, &json!({"older_than": "7d", "filter": {"queue": "d"}, "confirm": true}))
                .await,
            delete_with(&app, &format!("{base}?confirm=true"), &json!({"queue": "e"})).await,
        ];
        for (index, call) in calls.iter().enumerate() {
            assert_eq!(call.expect(200)["deleted"], 1, "{index}");
        }
        let old =
            app.send(app.request(Method::POST, &format!("{purge}?older_than=7d"), "")).await.expect(200);
        assert_eq!(old["deleted"], 1);
        assert_eq!(listed(&app, base).await, [fresh]);
        let entry = audited(&app).await;
        assert_eq!(entry["action"], "delete");
        assert!(entry["filter"].as_str().unwrap().contains("age:>P7D"), "{entry}");
        let kept = app.get("/api/v1/archive?place=deleted").await.expect(200);
        assert_eq!(kept["items"].as_array().unwrap().len(), all.len());
        app.check().await;
    }
}

#[tokio::test]
async fn a_call_for_many_is_confirmed_says_what_it_means_and_counts_if_asked() {
    let app = TestApp::new().await;
    dead(&app, "q", "t", "E").await;
    dead(&app, "q", "t", "E").await;
    for base in BOTH {
        let purge = format!("{base}/purge");
        error(&app.delete(base).await, 400, "confirm_required");
        error(&app.delete(&format!("{base}?queue=q")).await, 400, "confirm_required");
        error(&app.delete(&format!("{base}?queue=q&confirm=no")).await, 400, "schema_validation");
        error(&app.post(&purge, &json!({"queue": "q", "confirm": false})).await, 400, "confirm_required");
        let empty = [
            app.delete(&format!("{base}?confirm=true")).await,
            delete_with(&app, base, &json!({"confirm": true, "filter": {}})).await,
            app.post(&purge, &json!({})).await,
            app.post(&purge, &json!({"queue": "*"})).await,
            app.post(&format!("{base}/retry"), &json!({"confirm": true, "filter": {"type": "**"}})).await,
            app.send(app.request(Method::POST, &purge, "")).await,
            app.send(app.request(Method::POST, &format!("{purge}?all=true"), "")).await,
            app.post(&format!("{base}/retry"), &json!({"confirm": true, "filter": {}})).await,
        ];
        for answer in &empty {
            let told = error(answer, 400, "filter_required");
            let hint = told["hint"].as_str().unwrap();
            assert!(hint.contains("\"all\": true") && hint.contains("expected_count=N"), "{hint}");
        }
        for bad in
            ["que=q", "queue=q&state=active", "queue=q&since=yesterday", "queue=q&all=true&expected_count=2"]
        {
            error(&app.delete(&format!("{base}?confirm=true&{bad}")).await, 400, "invalid_request");
        }
        error(&app.post_text(&purge, "application/json", "[").await, 400, "invalid_payload");
        error(&app.post_text(&purge, "text/plain", "{}").await, 400, "invalid_request");
        let counted = error(
            &app.delete(&format!("{base}?confirm=true&queue=q&expected_count=3")).await,
            409,
            "count_mismatch",
        );
        assert_eq!(counted["details"], json!({"matched": 2, "expected_count": 3}));
        error(&app.post(&purge, &json!({"all": true, "expected_count": 1})).await, 409, "count_mismatch");
        error(&app.post(&purge, &json!({"all": true, "expected_count": 10_001})).await, 422, "too_many");
    }
    assert_eq!(listed(&app, BOTH[0]).await.len(), 2, "what is refused does nothing");
    let done =
        app.send(app.request(Method::POST, "/ojs/v1/dead-letter/purge?all=true&expected_count=2", "")).await;
    assert_eq!(done.expect(200)["deleted"], 2);
    app.check().await;
}

/// Puts letters of so many jobs into the dead letter, none of which has a row.
async fn fill(app: &TestApp, count: u64) {
    let one = dead(app, "q", "t", "E").await;
    let stored = app.store.job(JobId::parse(&one).unwrap()).await.unwrap().unwrap();
    let at = Time::parse(START).unwrap();
    let letters: Vec<Admitted> = (1..count)
        .map(|n| {
            let mut random = [0; 10];
            random[2..].copy_from_slice(&n.to_be_bytes());
            let job = Job { id: JobId::mint(at, random), ..stored.job.clone() };
            let captured = job.to_captured(SOURCE, None);
            let letter = admit(captured, at, [random; 2], &app.app.rules, &app.app.groups());
            Admitted { key: key_of(job.id), ..letter }
        })
        .collect();
    for batch in letters.chunks(1_000) {
        app.store.insert(batch.to_vec()).await.unwrap();
    }
}

#[tokio::test]
async fn one_call_is_for_ten_thousand_jobs_and_not_for_more() {
    let app = TestApp::new().await;
    fill(&app, limits::OJS_BULK_MAX + 1).await;
    let wish = json!({"filter": {"type": "t"}, "confirm": true});
    for answer in [
        delete_with(&app, "/ojs/v1/admin/dead-letter", &wish).await,
        app.post("/ojs/v1/dead-letter/purge", &wish).await,
    ] {
        assert_eq!(error(&answer, 422, "too_many")["details"]["max"], limits::OJS_BULK_MAX);
    }
    let newest = listed(&app, "/ojs/v1/dead-letter?limit=1").await.remove(0);
    app.delete(&format!("/ojs/v1/dead-letter/{newest}")).await.expect(200);
    let done = app.post("/ojs/v1/dead-letter/retry", &wish).await.expect(200);
    let expected = json!({
        "action": "retry", "matched": 10_000, "succeeded": 10_000, "failed": 0, "retried": 10_000, "errors": [],
    });
    assert_eq!(done, expected);
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["total"], 0);
    assert_eq!(app.get("/ojs/v1/queues/q/stats").await.expect(200)["stats"]["available"], 10_000);
    app.check().await;
}

#[tokio::test]
async fn more_than_ten_thousand_jobs_go_back_by_a_redrive() {
    let app = TestApp::new().await;
    fill(&app, limits::OJS_BULK_MAX + 1).await;
    let wish = json!({"filter": {"type": "t"}, "confirm": true});
    let accepted = app.post("/ojs/v1/dead-letter/retry", &wish).await;
    let told = accepted.expect(202);
    assert_eq!((&told["action"], &told["matched"]), (&json!("retry"), &json!(10_001)));
    let id = RedriveId::parse(told["redrive_id"].as_str().unwrap()).unwrap();
    assert_eq!(accepted.headers["location"], format!("/api/v1/redrives/{id}"));
    while redrive::tick(&app.app).await.unwrap() == Progress::More {}
    let run = app.store.redrive(id).await.unwrap().unwrap();
    assert_eq!((run.kind, run.letters[&Outcome::Sent]), (RedriveKind::Bulk, 10_001));
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["total"], 0);
    assert_eq!(app.get("/ojs/v1/queues/q/stats").await.expect(200)["stats"]["available"], 10_001);
    app.check().await;
}

#[tokio::test]
async fn many_are_retried_by_what_is_in_their_arguments() {
    let app = TestApp::new().await;
    for customer in ["cust_1", "cust_2", "cust_3"] {
        let options = json!({"queue": customer.replace('_', "-"), "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
        let one =
            id(&push(&app, json!({"type": "t", "args": [{"customer_id": customer}], "options": options}))
                .await);
        super::ojs_dead_letter::die(&app, &one, &customer.replace('_', "-"), "E").await;
    }
    let retry = async |filter: Value| {
        let wish = json!({"filter": filter, "confirm": true});
        app.post("/ojs/v1/admin/dead-letter/retry", &wish).await.expect(200)["retried"].clone()
    };
    assert_eq!(retry(json!({"args": "$[0].customer_id == \"cust_2\""})).await, 1);
    assert_eq!(retry(json!({"args": "\"cust_1\""})).await, 1);
    assert_eq!(retry(json!({"args": "cust_1"})).await, 0, "it is not dead any more");
    assert_eq!(retry(json!({"args_path": "$[0].customer_id", "queue": "cust-*"})).await, 1);
    for queue in ["cust-1", "cust-2", "cust-3"] {
        assert_eq!(fetch(&app, queue).await.len(), 1, "{queue}");
    }
    app.check().await;
}

#[tokio::test]
async fn what_people_do_to_jobs_is_in_the_audit_log_and_what_workers_do_is_not() {
    let mut app = TestApp::new().await;
    let wish = json!({"name": "anna", "role": "operator"});
    let admin = app.post("/api/v1/tokens", &json!({"name": "root", "role": "admin"})).await.expect(201);
    app.token = admin["token"].as_str().map(str::to_owned);
    let anna = app.post("/api/v1/tokens", &wish).await.expect(201);
    app.token = anna["token"].as_str().map(str::to_owned);
    let before = app.get("/api/v1/audit").await.expect(200)["items"].as_array().unwrap().len();

    let one = dead(&app, "q", "t", "E").await;
    app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await.expect(200);
    fetch(&app, "q").await;
    app.post("/ojs/v1/workers/ack", &json!({"id": one})).await.expect(200);
    let parked = id(&push(&app, json!({"type": "t", "args": [], "options": {"pending": true}})).await);
    app.post(&format!("/ojs/v1/jobs/{parked}/activate"), &json!({})).await.expect(200);
    app.delete(&format!("/ojs/v1/jobs/{parked}")).await.expect(200);
    let two = dead(&app, "r", "t", "E").await;
    let wish = json!({"filter": {"queue": "r"}, "confirm": true, "reason": "fixed in 1.2"});
    app.post("/ojs/v1/dead-letter/retry", &wish).await.expect(200);

    let log = app.get("/api/v1/audit").await.expect(200);
    let items = log["items"].as_array().unwrap();
    let new = &items[..items.len() - before];
    let said: Vec<_> = new.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(said, ["retry", "job_cancelled", "job_activated", "retry"]);
    assert!(new.iter().all(|entry| entry["actor"] == "anna" && entry["role"] == "operator"), "{log}");
    assert_eq!(new[0]["reason"], "fixed in 1.2");
    assert_eq!(new[3]["letterId"], letter_of(&app, &one).await);
    assert_eq!(job(&app, &two).await["state"], "available");
    app.check().await;
}
