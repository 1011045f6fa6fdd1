//! The archive over the API: what was deleted or pushed out is listed, shown, and brought back.

use http::header;
use lazaret_core::duration::Length;
use lazaret_core::lifecycle::Status;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_store::RetentionStore;
use lazaret_store::retention::{PrunableQuery, PruneBatch, PruneLetter};
use serde_json::{Value, json};

use super::rig::TestApp;

const DAY_MS: i64 = 86_400_000;
const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";

async fn letter(app: &TestApp, event: &str) -> String {
    let entry = json!({
        "eventId": event,
        "originalEvent": {"pattern": "order.created", "who": event},
        "error": {"type": "Timeout", "message": "timed out"},
    });
    let id = app.report(&entry).await;
    app.pass(1_000);
    id
}

/// Pushes out every pending letter, as a limit does, and says how many went.
async fn push_out(app: &TestApp) -> u64 {
    let query = PrunableQuery {
        queues: vec![("report".into(), "report".into())],
        status: Status::Pending,
        until: app.app.clock.now(),
        after: None,
        planned: None,
        limit: 1_000,
    };
    let found = app.store.prunable(query).await.unwrap();
    let letters = found.iter().map(|one| PruneLetter {
        letter: one.key.letter,
        retention_at: one.key.retention_at,
        policy: PruningPolicy::Archive,
        min_age: Length::from_ms(90 * DAY_MS),
    });
    let mut left: Vec<PruneLetter> = letters.collect();
    let mut archived = 0;
    while !left.is_empty() {
        let (letters, at) = (left.clone(), app.app.clock.now());
        let batch = PruneBatch { letters, status: Status::Pending, limit: Limit::MaxCount, at };
        let pruned = app.store.prune(batch).await.unwrap();
        assert!(pruned.looked_at > 0, "each commit looks at one letter at least");
        archived += pruned.queues.iter().map(|queue| queue.archived).sum::<u64>();
        left.drain(..pruned.looked_at);
    }
    archived
}

#[tokio::test]
async fn attempts_reported_of_an_archived_letter_are_shown_and_come_back_with_it() {
    let app = TestApp::new().await;
    let id = letter(&app, "e1").await;
    app.pass(100 * DAY_MS);
    assert_eq!(push_out(&app).await, 1);
    let entry = json!({
        "eventId": "e1",
        "originalEvent": {"pattern": "order.created", "who": "e1"},
        "error": {"type": "Timeout", "message": "timed out"},
        "retryHistory": [{"error": {"type": "Refused", "message": "never told"}}],
    });
    for _ in 0..2 {
        let answer = app.post("/api/v1/dead-letters", &entry).await;
        assert_eq!(answer.expect(200)["items"][0]["result"], "duplicate");
    }
    let messages = |letter: &Value| {
        let history = letter["retryHistory"].as_array().unwrap();
        history.iter().map(|run| run["error"]["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let archived = app.get(&format!("/api/v1/archive/{id}")).await.expect(200);
    assert_eq!(messages(&archived), ["timed out", "never told"]);
    assert_eq!(archived["error"]["message"], "timed out");
    app.post(&format!("/api/v1/archive/{id}/restore"), &json!({})).await.expect(200);
    let live = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(messages(&live), ["timed out", "never told"]);
    app.check().await;
}

/// The lines of an answer that came as NDJSON.
async fn lines(app: &TestApp, path: &str, body: &Value) -> Vec<Value> {
    let mut request = app.request(http::Method::POST, path, body.to_string());
    request.headers_mut().insert(header::ACCEPT, "application/x-ndjson".parse().unwrap());
    let answer = app.send(request).await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/x-ndjson");
    let text = String::from_utf8(answer.bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_deleted_letter_can_be_restored_as_it_was() {
    let app = TestApp::new().await;
    let id = letter(&app, "e1").await;
    let path = |action: &str| format!("/api/v1/dead-letters/{id}/{action}");
    app.post(&path("discard"), &json!({"reason": "poison"})).await.expect(200);
    let deleted = app.post(&path("delete"), &json!({"reason": "test data"})).await.expect(200);
    assert_eq!((&deleted["status"], &deleted["place"]), (&json!("discarded"), &json!("deleted")));
    let gone = app.get(&format!("/api/v1/dead-letters/{id}")).await.problem(404, "not_found");
    assert_eq!(
        (&gone["place"], &gone["archive"]),
        (&json!("deleted"), &json!(format!("/api/v1/archive/{id}")))
    );
    assert!(gone["hint"].as_str().unwrap().contains(&format!("lazaret restore {id}")), "{gone}");
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 0);
    let refused = app.post(&path("delete"), &json!({})).await;
    assert!([404, 409].contains(&refused.status.as_u16()), "{refused:?}");
    let kept = app.get("/api/v1/archive?place=deleted").await.expect(200);
    let item = &kept["items"][0];
    for (name, expected) in [
        ("id", json!(id)),
        ("source", json!("report")),
        ("eventId", json!("e1")),
        ("type", json!("order.created")),
        ("status", json!("discarded")),
        ("place", json!("deleted")),
        ("diedAt", json!("2026-11-15T03:00:00.000Z")),
        (
            "archive",
            json!({"removedAt": "2026-11-15T03:00:01.000Z", "removedBy": "local", "reason": "deleted", "file": null}),
        ),
        ("allowedActions", json!(["restore"])),
    ] {
        assert_eq!(item[name], expected, "{name}: {item}");
    }
    assert_eq!((ids(&kept).len(), &kept["nextCursor"]), (1, &Value::Null));

    let restored = app.post(&path("restore"), &json!({"reason": "by mistake"})).await.expect(200);
    assert_eq!((&restored["status"], &restored["place"]), (&json!("discarded"), &json!("live")));
    app.post(&path("restore"), &json!({})).await.problem(409, "not_allowed");
    assert_eq!(app.get("/api/v1/archive").await.expect(200)["items"], json!([]));
    let audit = app.get("/api/v1/audit").await.expect(200);
    let said: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(said, ["restore", "delete", "discard"]);
    app.check().await;
}

#[tokio::test]
async fn what_is_held_stays_and_what_has_a_successor_stays_deleted() {
    let app = TestApp::new().await;
    let held = letter(&app, "held").await;
    app.post(&format!("/api/v1/dead-letters/{held}/hold"), &json!({"reason": "case"})).await.expect(200);
    let refused = app.post(&format!("/api/v1/dead-letters/{held}/delete"), &json!({})).await;
    assert_eq!(refused.problem(409, "not_allowed")["held"], true);

    let old = letter(&app, "again").await;
    app.post(&format!("/api/v1/dead-letters/{old}/delete"), &json!({})).await.expect(200);
    let new = letter(&app, "again").await;
    assert_ne!(old, new);
    for path in [format!("/api/v1/dead-letters/{old}/restore"), format!("/api/v1/archive/{old}/restore")] {
        let replaced = app.post(&path, &json!({})).await;
        assert!(replaced.problem(409, "replaced")["hint"].as_str().unwrap().contains("eventId"));
    }
    app.check().await;
}

#[tokio::test]
async fn by_filter_a_reason_is_needed() {
    let app = TestApp::new().await;
    for event in ["a", "b", "c"] {
        letter(&app, event).await;
    }
    let path = "/api/v1/dead-letters/delete";
    let wish = json!({"filter": {"type": "order.*"}, "expectedCount": 3});
    app.post(path, &wish).await.problem(400, "reason_required");
    let mut wish = wish;
    wish["reason"] = json!("test data");
    let done = app.post(path, &wish).await.expect(200);
    assert_eq!((&done["action"], &done["done"], &done["skipped"]), (&json!("delete"), &json!(3), &json!(0)));
    app.check().await;
}

#[tokio::test]
async fn the_archive_is_turned_over_by_cursor_and_never_emptied_by_the_clock() {
    let app = TestApp::new().await;
    let mut expected = Vec::new();
    for n in 0..5 {
        let id = letter(&app, &format!("e{n}")).await;
        app.post(&format!("/api/v1/dead-letters/{id}/delete"), &json!({})).await.expect(200);
        expected.insert(0, id);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            app.get(&format!("/api/v1/archive?place=deleted&limit=2&cursor={cursor}")).await.expect(200);
        found.extend(ids(&page));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, expected);
    app.pass(400 * DAY_MS);
    assert_eq!(ids(&app.get("/api/v1/archive").await.expect(200)), expected);
    app.post(&format!("/api/v1/archive/{}/restore", expected[0]), &json!({})).await.expect(200);
    app.check().await;
}

#[tokio::test]
async fn a_bad_question_is_refused_with_what_is_right() {
    let app = TestApp::new().await;
    letter(&app, "a").await;
    let page = app.get("/api/v1/dead-letters?limit=1").await.expect(200);
    let id = ids(&page)[0].clone();
    app.post(&format!("/api/v1/dead-letters/{id}/delete"), &json!({})).await.expect(200);
    let foreign = app.get("/api/v1/archive?limit=1&queue=report").await.expect(200);
    assert_eq!(ids(&foreign), [id.as_str()]);
    app.get("/api/v1/archive?cursor=x").await.problem(400, "bad_cursor");
    app.get("/api/v1/archive?limit=0").await.problem(400, "bad_request");
    app.get("/api/v1/archive?limit=1&limit=2").await.problem(400, "bad_request");
    app.get("/api/v1/archive?quue=q").await.problem(400, "bad_filter");
    let live = app.get("/api/v1/archive?place=live").await.problem(400, "bad_request");
    assert!(live["hint"].as_str().unwrap().contains("/api/v1/dead-letters"), "{live}");
    app.get("/api/v1/archive/files?queue=q").await.problem(400, "bad_request");
    app.get("/api/v1/archive/files?cursor=x").await.problem(400, "bad_cursor");
    app.get("/api/v1/archive/x").await.problem(400, "bad_id");
    app.get(&format!("/api/v1/archive/{NOBODY}")).await.problem(404, "not_found");
    app.get(&format!("/api/v1/archive/{NOBODY}/body")).await.problem(404, "not_found");
    app.post(&format!("/api/v1/archive/{NOBODY}/restore"), &json!({})).await.problem(404, "not_found");
    app.get(&format!("/api/v1/archive/{id}/body?life=7")).await.problem(404, "not_found");
    app.get(&format!("/api/v1/archive/{id}/body?live=1")).await.problem(400, "bad_request");

    let restore = "/api/v1/archive/restore";
    app.post(restore, &json!({"count": 1})).await.problem(400, "filter_required");
    app.post(restore, &json!({"filter": {"q": ""}, "count": 1})).await.problem(400, "filter_required");
    app.post(restore, &json!({"filter": {"queue": "*"}, "count": 1})).await.problem(400, "filter_required");
    app.post(restore, &json!({"all": true, "filter": {"queue": "x"}, "count": 1}))
        .await
        .problem(400, "bad_request");
    assert_eq!(app.post(restore, &json!({"all": true})).await.problem(400, "bad_request")["field"], "count");
    let place = app.post(restore, &json!({"all": true, "count": 1, "place": "live"})).await;
    assert_eq!(place.problem(400, "bad_request")["field"], "place");
    app.post(restore, &json!({"all": true, "count": 1, "force": true})).await.problem(400, "bad_request");
    app.post(restore, &json!({"filter": {"quue": "x"}, "count": 1})).await.problem(400, "bad_filter");
    app.post_text(restore, "application/json", "{").await.problem(400, "bad_json");
    let verify = "/api/v1/archive/verify";
    app.post(verify, &json!({"fileId": "x"})).await.problem(400, "bad_id");
    app.post(verify, &json!({"fileId": NOBODY})).await.problem(404, "not_found");
    app.post(verify, &json!({"file": NOBODY})).await.problem(400, "bad_request");
    app.check().await;
}

#[tokio::test]
async fn a_letter_that_a_limit_pushed_out_is_found_shown_held_and_restored() {
    let app = TestApp::new().await;
    let (a, b) = (letter(&app, "a").await, letter(&app, "b").await);
    assert_eq!(push_out(&app).await, 2);
    let gone = app.get(&format!("/api/v1/dead-letters/{a}")).await.problem(404, "not_found");
    assert_eq!(gone["place"], "archived");
    for path in ["retry", "resolve"] {
        let refused = app.post(&format!("/api/v1/dead-letters/{a}/{path}"), &json!({})).await;
        assert!([404, 409].contains(&refused.status.as_u16()), "{refused:?}");
    }
    let page = app.get("/api/v1/archive?q=type:order.*").await.expect(200);
    let mut found = ids(&page);
    found.sort();
    assert_eq!(found, [a.as_str(), b.as_str()]);
    assert_eq!(page["items"][0]["archive"]["reason"], "max_count");
    assert_eq!(ids(&app.get("/api/v1/archive?place=deleted").await.expect(200)), Vec::<String>::new());
    assert_eq!(ids(&app.get("/api/v1/archive?eventId=a").await.expect(200)), [a.as_str()]);
    // No index knows the body: the letters are opened, and that is said.
    let inside = app.get("/api/v1/archive?q=path:$.who=b").await.expect(200);
    assert_eq!((ids(&inside), inside["scan"].is_object()), (vec![b.clone()], true), "{inside}");

    let whole = app.get(&format!("/api/v1/archive/{a}")).await.expect(200);
    assert_eq!(whole["originalEvent"], json!({"pattern": "order.created", "who": "a"}));
    assert_eq!((&whole["place"], &whole["lives"][0]["life"]), (&json!("archived"), &json!(1)));
    assert_eq!(whole["retryHistory"][0]["error"]["type"], "Timeout");
    let body = app.get(&format!("/api/v1/archive/{a}/body")).await;
    assert_eq!(body.status, 200);
    assert_eq!(serde_json::from_slice::<Value>(&body.bytes).unwrap(), whole["originalEvent"]);

    let held =
        app.post(&format!("/api/v1/dead-letters/{a}/hold"), &json!({"reason": "case 12"})).await.expect(200);
    assert_eq!((&held["place"], &held["hold"]["reason"]), (&json!("archived"), &json!("case 12")));
    let refused = app.post(&format!("/api/v1/dead-letters/{a}/delete"), &json!({})).await;
    assert_eq!(refused.problem(409, "not_allowed")["held"], true);
    assert_eq!(app.get(&format!("/api/v1/archive/{a}")).await.expect(200)["holds"][0]["reason"], "case 12");
    let restored =
        app.post(&format!("/api/v1/archive/{a}/restore"), &json!({"reason": "needed"})).await.expect(200);
    assert_eq!(
        (&restored["place"], &restored["status"], &restored["hold"]["reason"]),
        (&json!("live"), &json!("pending"), &json!("case 12"))
    );
    let live = app.post(&format!("/api/v1/archive/{a}/restore"), &json!({})).await;
    assert!(live.problem(409, "not_archived")["hint"].as_str().unwrap().contains("lazaret show"));
    app.get(&format!("/api/v1/archive/{a}")).await.problem(409, "not_archived");
    // An archived letter that is deleted by hand is kept inside the floor, and says who did it.
    let deleted = app.post(&format!("/api/v1/dead-letters/{b}/delete"), &json!({})).await.expect(200);
    assert_eq!(deleted["place"], "deleted");
    assert_eq!(ids(&app.get("/api/v1/archive?place=deleted").await.expect(200)), [b.as_str()]);
    app.check().await;
}

#[tokio::test]
async fn by_filter_letters_come_back_if_they_are_as_many_as_expected() {
    let app = TestApp::new().await;
    for event in ["a", "b", "c", "d"] {
        letter(&app, event).await;
    }
    assert_eq!(push_out(&app).await, 4);
    let deleted = letter(&app, "e").await;
    app.post(&format!("/api/v1/dead-letters/{deleted}/delete"), &json!({})).await.expect(200);
    let restore = "/api/v1/archive/restore";
    let wish = |count: u64| json!({"filter": {"type": "order.*"}, "count": count, "reason": "audit"});
    let wrong = app.post(restore, &wish(5)).await.problem(409, "count_mismatch");
    assert_eq!((&wrong["count"], &wrong["expectedCount"]), (&json!(4), &json!(5)));
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 0);
    let done = app.post(restore, &json!({"filter": {"eventId": "a"}, "count": 1})).await.expect(200);
    assert_eq!(done, json!({"restored": 1, "skipped": 0}));
    let told = lines(&app, restore, &wish(3)).await;
    assert_eq!(told.first().unwrap()["of"], 3, "{told:?}");
    assert_eq!(told.last().unwrap()["end"], json!({"restored": 3, "skipped": 0}), "{told:?}");
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 4);
    // What people deleted comes back when that is said.
    let told = lines(&app, restore, &json!({"all": true, "count": 1, "place": "deleted"})).await;
    assert_eq!(told.last().unwrap()["end"]["restored"], 1, "{told:?}");
    assert_eq!(app.get("/api/v1/archive").await.expect(200)["items"], json!([]));
    app.check().await;
}

#[tokio::test]
async fn a_job_whose_letter_is_archived_is_not_found_and_says_how_to_have_it_back() {
    let app = TestApp::new().await;
    let job = json!({"type": "t", "args": [], "options": {"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
    let job = app.post("/ojs/v1/jobs", &job).await.expect(201)["job"]["id"].as_str().unwrap().to_owned();
    app.post("/ojs/v1/workers/fetch", &json!({"queues": ["default"]})).await.expect(200);
    let error = json!({"code": "x", "type": "Boom", "message": "m"});
    app.post("/ojs/v1/workers/nack", &json!({"job_id": job, "error": error})).await.expect(200);
    let letter = ids(&app.get("/api/v1/dead-letters").await.expect(200))[0].clone();
    app.pass(1_000);
    let query = PrunableQuery {
        queues: vec![("jobs".into(), "default".into())],
        status: Status::Pending,
        until: app.app.clock.now(),
        after: None,
        planned: None,
        limit: 1,
    };
    let found = app.store.prunable(query).await.unwrap().remove(0);
    let (min_age, policy) = (Length::from_ms(90 * DAY_MS), PruningPolicy::Delete);
    let (letter_id, retention_at) = (found.key.letter, found.key.retention_at);
    let letters = vec![PruneLetter { letter: letter_id, retention_at, policy, min_age }];
    let at = app.app.clock.now();
    app.store
        .prune(PruneBatch { letters, status: Status::Pending, limit: Limit::MaxCount, at })
        .await
        .unwrap();
    let answer = app.get(&format!("/ojs/v1/jobs/{job}")).await;
    let body = answer.expect(404);
    assert_eq!(body["error"]["details"]["letter_id"], letter, "{body}");
    assert!(answer.bytes.windows(7).any(|part| part == b"restore"), "{body}");
    app.post("/ojs/v1/jobs", &json!({"id": job, "type": "t", "args": []})).await.expect(409);
    app.post(&format!("/api/v1/archive/{letter}/restore"), &json!({})).await.expect(200);
    let back = app.get(&format!("/ojs/v1/jobs/{job}")).await.expect(200);
    assert_eq!(back["job"]["state"], "discarded", "{back}");
    app.check().await;
}

#[tokio::test]
async fn files_are_listed_with_what_waits_and_checked_line_by_line() {
    let app = TestApp::new().await;
    letter(&app, "a").await;
    push_out(&app).await;
    let files = app.get("/api/v1/archive/files").await.expect(200);
    assert_eq!((&files["items"], &files["waiting"]["letters"]), (&json!([]), &json!(1)), "{files}");
    assert!(
        files["waiting"]["since"].is_string() && files["waiting"]["bytes"].as_u64().unwrap() > 0,
        "{files}"
    );
    let told = lines(&app, "/api/v1/archive/verify", &json!({})).await;
    assert_eq!(told, [json!({"end": {"files": 0, "letters": 0, "damaged": []}})]);
}
