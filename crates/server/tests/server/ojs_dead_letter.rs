//! The dead letter for clients of the Open Job Specification, in both namespaces.

use serde_json::{Value, json};

use super::ojs::{UNKNOWN, error, fetch, id, job, nack, push, wire};
use super::rig::TestApp;

/// A job that died at once.
pub async fn dead(app: &TestApp, queue: &str, job_type: &str, error: &str) -> String {
    let options = json!({"queue": queue, "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let wish = json!({"type": job_type, "args": [1, {"b": 2}], "meta": {"tenant_id": "t", "k": "v"}, "options": options});
    let one = id(&push(app, wish).await);
    die(app, &one, queue, error).await;
    app.pass(1_000);
    one
}

pub async fn die(app: &TestApp, one: &str, queue: &str, error: &str) {
    assert!(fetch(app, queue).await.iter().any(|job| job["id"] == one));
    let answer = nack(app, one, json!({"code": "x", "type": error, "message": "no"})).await;
    assert_eq!(answer["state"], "discarded");
}

pub async fn listed(app: &TestApp, path: &str) -> Vec<String> {
    let body = app.get(path).await.expect(200);
    let jobs = body.get("jobs").or(body.get("items")).unwrap_or_else(|| panic!("{body}"));
    jobs.as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn a_dead_job_is_listed_and_shown_whole() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "mail.send", "Boom").await;
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    let list = app.get("/ojs/v1/dead-letter").await.expect(200);
    assert_eq!(list["total"], 1, "letters of other sources are not jobs");
    assert_eq!(list["pagination"], json!({"total": 1, "limit": 50, "offset": 0, "has_more": false}));
    let admin = app.get("/ojs/v1/admin/dead-letter").await.expect(200);
    assert_eq!((&admin["pagination"]["page"], &admin["pagination"]["per_page"]), (&json!(1), &json!(20)));
    assert!(admin.get("jobs").is_none(), "each namespace has its own shape");
    let detail = app.get(&format!("/ojs/v1/dead-letter/{one}")).await.expect(200);
    let admins = app.get(&format!("/ojs/v1/admin/dead-letter/{one}")).await.expect(200);
    for shown in [&list["jobs"][0], &admin["items"][0], &detail, &detail["job"], &admins] {
        assert_eq!(shown["id"], one);
        assert_eq!((&shown["state"], &shown["type"]), (&json!("discarded"), &json!("mail.send")));
        assert_eq!(shown["args"], json!([1, {"b": 2}]));
        assert_eq!(shown["meta"], json!({"tenant_id": "t", "k": "v"}));
        assert_eq!((&shown["attempt"], &shown["max_attempts"]), (&json!(1), &json!(1)));
        assert_eq!(shown["errors"].as_array().unwrap().len(), 1);
        assert_eq!(shown["error"]["type"], "Boom");
        assert!(shown["discarded_at"].is_string() && shown["metadata"]["discarded_at"].is_string());
    }
    app.check().await;
}

#[tokio::test]
async fn the_original_event_of_a_job_is_described_and_its_arguments_stay_as_they_are() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "mail.send", "Boom").await;
    let letters = app.get("/api/v1/dead-letters?source=jobs").await.expect(200);
    let path = format!("/api/v1/dead-letters/{}", letters["items"][0]["id"].as_str().unwrap());
    let event = &app.get(&path).await.expect(200)["originalEvent"];
    let created_at = &job(&app, &one).await["created_at"];
    let expected = json!({
        "eventId": one,
        "pattern": "mail.send",
        "version": null,
        "source": {"type": "task", "id": "jobs", "name": "q"},
        "timestamp": created_at,
        "payload": [1, {"b": 2}],
        "metadata": {"tenant_id": "t", "k": "v"},
    });
    assert_eq!(*event, expected);
    assert_eq!(app.get(&format!("{path}/body")).await.expect(200), json!([1, {"b": 2}]));
}

#[tokio::test]
async fn what_is_not_dead_is_not_found() {
    let app = TestApp::new().await;
    let alive = id(&push(&app, json!({"type": "a", "args": []})).await);
    let dropped = id(&push(
        &app,
        json!({"type": "a", "args": [], "options": {"queue": "d", "retry": {"max_attempts": 1}}}),
    )
    .await);
    fetch(&app, "d").await;
    nack(&app, &dropped, json!({"code": "x", "message": "m"})).await;
    for one in [alive.as_str(), dropped.as_str(), UNKNOWN, "nonsense"] {
        for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
            let told = error(&app.get(&format!("{base}/{one}")).await, 404, "not_found");
            assert_eq!(told["details"]["resource_type"], "dead_letter_job");
            error(&app.post(&format!("{base}/{one}/retry"), &json!({})).await, 404, "not_found");
        }
    }
    assert_eq!(job(&app, &dropped).await["state"], "discarded");
}

#[tokio::test]
async fn the_list_is_filtered_by_queue_type_error_and_time() {
    let app = TestApp::new().await;
    let a = dead(&app, "q", "mail.send", "Boom").await;
    let b = dead(&app, "q", "mail.read", "Bang").await;
    let c = dead(&app, "r", "bill.send", "Boom").await;
    for (query, expected) in [
        ("", vec![&c, &b, &a]),
        ("queue=q", vec![&b, &a]),
        ("type=mail.send", vec![&a]),
        ("type=mail.*", vec![&b, &a]),
        ("error_type=Boom", vec![&c, &a]),
        ("queue=q&error_type=Boom", vec![&a]),
        ("queue=none", vec![]),
        ("since=2026-11-15T03:00:01Z", vec![&c, &b]),
        ("until=2026-11-15T03:00:01Z", vec![&a]),
        ("since=2026-11-15T04:00:01%2B01:00&until=2026-11-15T03:00:02Z", vec![&b]),
        ("queue=&type=", vec![&c, &b, &a]),
        ("type=m*l.send", vec![&a]),
        ("state=discarded", vec![&c, &b, &a]),
        ("older_than=PT2S", vec![&a]),
        ("order=asc", vec![&a, &b, &c]),
        ("sort=discarded_at&order=desc&queue=q", vec![&b, &a]),
        ("sort=added_at&order=asc", vec![&a, &b, &c]),
        ("args=%7B%22b%22", vec![&c, &b, &a]),
        ("args=nothing+like+it", vec![]),
        ("args=$[1].b+==+2&queue=r", vec![&c]),
        ("args=$[1].b=3", vec![]),
        ("args_path=$[1].b", vec![&c, &b, &a]),
    ] {
        for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
            let found = listed(&app, &format!("{base}?{query}")).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{base} {query}");
        }
    }
    let known = error(&app.get("/ojs/v1/admin/dead-letter?sort=priority").await, 400, "invalid_request");
    assert!(known["hint"].as_str().unwrap().contains("discarded_at"), "{known}");
    for bad in
        ["state=active", "order=up", "args=$[", "older_than=soon", "since=1h&until=2h", "since=1h&since=2h"]
    {
        for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
            error(&app.get(&format!("{base}?{bad}")).await, 400, "invalid_request");
        }
    }
    for bad in ["since=yesterday", "until=2026-11-15T03:00:00", "limit=0", "limit=x", "offset=-1", "cursor=x"]
    {
        error(&app.get(&format!("/ojs/v1/dead-letter?{bad}")).await, 400, "invalid_request");
    }
}

#[tokio::test]
async fn pages_by_offset_by_cursor_and_by_number_show_each_job_once() {
    let app = TestApp::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.insert(0, dead(&app, "q", "t", "E").await);
    }
    let mut found = Vec::new();
    for offset in [0, 2, 4, 6] {
        found.extend(listed(&app, &format!("/ojs/v1/dead-letter?limit=2&offset={offset}")).await);
    }
    assert_eq!(found, all);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("/ojs/v1/dead-letter?limit=2&cursor={cursor}")).await.expect(200);
        found.extend(page["jobs"].as_array().unwrap().iter().map(id));
        assert_eq!((&page["total"], &page["pagination"]["total"]), (&json!(5), &json!(5)));
        let next = page["pagination"]["next_cursor"].as_str();
        assert_eq!(page["pagination"]["has_more"], next.is_some());
        match next {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, all);
    let mut found = Vec::new();
    for page in 1..=4 {
        found.extend(listed(&app, &format!("/ojs/v1/admin/dead-letter?per_page=2&page={page}")).await);
    }
    assert_eq!(found, all);
    error(&app.get(&format!("/ojs/v1/dead-letter?queue=q&cursor={cursor}")).await, 400, "invalid_request");
    let far = error(&app.get("/ojs/v1/dead-letter?offset=100001").await, 422, "too_many");
    assert!(far["hint"].as_str().unwrap().contains("cursor"), "{far}");
    error(&app.get("/ojs/v1/admin/dead-letter?page=9999999").await, 422, "too_many");
}

#[tokio::test]
async fn a_retried_job_begins_anew_with_its_history() {
    for base in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
        let app = TestApp::new().await;
        let one = dead(&app, "q", "t", "E").await;
        let answer = app.send(app.request(http::Method::POST, &format!("{base}/{one}/retry"), "")).await;
        wire(&answer);
        let body = answer.expect(200);
        for shown in [&body, &body["job"]] {
            assert_eq!((&shown["id"], &shown["state"]), (&json!(one), &json!("available")));
            assert_eq!((&shown["attempt"], &shown["max_attempts"]), (&json!(0), &json!(1)));
            assert_eq!(shown["errors"].as_array().unwrap().len(), 1);
            for (name, there) in [
                ("re_enqueued_at", true),
                ("completed_at", false),
                ("discarded_at", false),
                ("started_at", false),
            ] {
                assert_eq!(shown.get(name).is_some(), there, "{name}: {shown}");
            }
        }
        assert!(listed(&app, base).await.is_empty());
        error(&app.post(&format!("{base}/{one}/retry"), &json!({})).await, 404, "not_found");
        assert_eq!(fetch(&app, "q").await[0]["attempt"], 1);
        app.post("/ojs/v1/workers/ack", &json!({"id": one})).await.expect(200);
        let stats = app.get("/api/v1/stats").await.expect(200);
        assert_eq!(stats["byStatus"]["resolved"], 1, "its letter is resolved with it: {stats}");
        app.check().await;
    }
}

#[tokio::test]
async fn a_job_that_dies_again_is_the_next_life_of_its_letter() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "t", "E").await;
    app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await.expect(200);
    die(&app, &one, "q", "F").await;
    let again = app.get("/ojs/v1/dead-letter").await.expect(200);
    assert_eq!((&again["total"], &again["jobs"][0]["error"]["type"]), (&json!(1), &json!("F")));
    assert_eq!(again["jobs"][0]["errors"].as_array().unwrap().len(), 2);
    let letters = app.get("/api/v1/dead-letters?source=jobs").await.expect(200);
    assert_eq!((&letters["total"], &letters["items"][0]["life"]), (&json!(1), &json!(2)));
    app.check().await;
}

#[tokio::test]
async fn a_cancelled_retry_ends_its_letter() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "t", "E").await;
    app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await.expect(200);
    app.delete(&format!("/ojs/v1/jobs/{one}")).await.expect(200);
    assert_eq!(app.get("/api/v1/stats").await.expect(200)["byStatus"]["discarded"], 1);
    app.check().await;
}

#[tokio::test]
async fn a_retry_changes_what_its_override_says_and_refuses_the_rest() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "t", "E").await;
    let path = format!("/ojs/v1/dead-letter/{one}/retry");
    for (bad, status, code) in [
        (json!({"override": {"queue": "No!"}}), 400, "invalid_request"),
        (json!({"override": {"type": "other"}}), 400, "invalid_request"),
        (json!({"override": {"args": {}}}), 400, "schema_validation"),
        (json!({"override": {"retry": {"max_attempts": -1}}}), 422, "validation_error"),
        (json!({"override": []}), 400, "schema_validation"),
    ] {
        error(&app.post(&path, &bad).await, status, code);
    }
    assert_eq!(listed(&app, "/ojs/v1/dead-letter").await, [one.as_str()], "a refused retry moves nothing");
    let with = json!({"override": {"queue": "r", "args": [9], "meta": {"k": "w", "n": 1}, "retry": {"max_attempts": 5}}});
    let body = app.post(&path, &with).await.expect(200);
    assert_eq!((&body["queue"], &body["args"], &body["max_attempts"]), (&json!("r"), &json!([9]), &json!(5)));
    assert_eq!(body["meta"], json!({"tenant_id": "t", "k": "w", "n": 1}));
    assert_eq!(body["retry"]["on_exhaustion"], "dead_letter");
    assert_eq!(fetch(&app, "r").await.len(), 1);
}

#[tokio::test]
async fn a_bulk_retry_puts_back_what_matches_and_nothing_else() {
    let app = TestApp::new().await;
    let a = dead(&app, "q", "t", "E").await;
    let b = dead(&app, "q", "u", "E").await;
    let c = dead(&app, "r", "t", "E").await;
    for base in ["/ojs/v1/dead-letter/retry", "/ojs/v1/admin/dead-letter/retry"] {
        error(&app.post(base, &json!({"filter": {"queue": "q"}})).await, 400, "confirm_required");
        error(&app.post(base, &json!({"filter": {}, "confirm": true})).await, 400, "filter_required");
        error(
            &app.post(base, &json!({"filter": {"que": "q"}, "confirm": true})).await,
            400,
            "invalid_request",
        );
        let counted = json!({"filter": {"queue": "q"}, "confirm": true, "expected_count": 3});
        error(&app.post(base, &counted).await, 409, "count_mismatch");
        error(
            &app.post(base, &json!({"all": true, "confirm": true, "expected_count": 7})).await,
            409,
            "count_mismatch",
        );
    }
    assert_eq!(listed(&app, "/ojs/v1/dead-letter").await, [c.clone(), b.clone(), a.clone()]);
    let wish =
        json!({"filter": {"queue": "q", "type": "t", "error_type": "E", "since": "24h"}, "confirm": true});
    let done = app.post("/ojs/v1/dead-letter/retry", &wish).await.expect(200);
    let expected =
        json!({"action": "retry", "matched": 1, "succeeded": 1, "failed": 0, "retried": 1, "errors": []});
    assert_eq!(done, expected);
    assert_eq!(job(&app, &a).await["state"], "available");
    assert_eq!(listed(&app, "/ojs/v1/dead-letter").await, [c, b]);
    let rest = json!({"all": true, "expected_count": 2, "confirm": true});
    let done = app.post("/ojs/v1/admin/dead-letter/retry", &rest).await.expect(200);
    assert_eq!((&done["matched"], &done["succeeded"]), (&json!(2), &json!(2)));
    assert!(listed(&app, "/ojs/v1/dead-letter").await.is_empty());
    app.check().await;
}

#[tokio::test]
async fn numbers_are_those_of_jobs_alone() {
    let app = TestApp::new().await;
    let retention =
        json!({"max_age": "P180D", "max_count": 10_000, "next_prune_at": "2026-11-15T03:05:00.000Z"});
    for base in ["/ojs/v1/dead-letter/stats", "/ojs/v1/admin/dead-letter/stats"] {
        assert_eq!(
            app.get(base).await.expect(200),
            json!({"total": 0, "by_queue": {}, "by_type": {}, "by_error_type": {}, "retention": retention})
        );
    }
    dead(&app, "q", "t", "E").await;
    dead(&app, "q", "u", "E").await;
    dead(&app, "r", "t", "F").await;
    let expected = json!({
        "total": 3,
        "by_queue": {"q": 2, "r": 1},
        "by_type": {"t": 2, "u": 1},
        "by_error_type": {"E": 2, "F": 1},
        "oldest_at": "2026-11-15T03:00:00.000Z",
        "newest_at": "2026-11-15T03:00:02.000Z",
        "retention": retention,
    });
    assert_eq!(app.get("/ojs/v1/dead-letter/stats").await.expect(200), expected);
    app.report(&json!({"eventId": "e", "originalEvent": {}, "error": {"type": "Other"}})).await;
    assert_eq!(app.get("/ojs/v1/dead-letter/stats").await.expect(200), expected);
}

#[tokio::test]
async fn the_way_into_the_dead_letter_and_out_of_it_is_told() {
    let app = TestApp::new().await;
    let one = dead(&app, "q", "t", "E").await;
    app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await.expect(200);
    let page = app.get("/ojs/v1/events?types=dead_letter.*").await.expect(200);
    let told: Vec<(&Value, &Value)> =
        page["events"].as_array().unwrap().iter().map(|event| (&event["type"], &event["subject"])).collect();
    let subject = json!(one);
    assert_eq!(told, [(&json!("dead_letter.added"), &subject), (&json!("dead_letter.retried"), &subject)]);
    assert_eq!(page["events"][0]["data"]["job_type"], "t");
    assert_eq!(page["events"][0]["data"]["queue"], "q");
}
