//! What a report becomes: results per item, kept fields, times, duplicates, lives.

use serde_json::{Value, json};

use super::rig::TestApp;

async fn results(app: &TestApp, items: Vec<Value>) -> Vec<String> {
    let answer = app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
    answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["result"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_thousand_reported_twice_are_a_thousand() {
    let app = TestApp::new().await;
    let items: Vec<Value> = (0..1_000)
        .map(|n| json!({"eventId": format!("e{n}"), "originalEvent": {"n": n}, "error": "boom"}))
        .collect();
    assert!(results(&app, items.clone()).await.iter().all(|result| result == "created"));
    assert!(results(&app, items).await.iter().all(|result| result == "duplicate"));
    assert_eq!(app.get("/api/v1/ledger?recount=true").await.expect(200)["captured"], 1_000);
    app.check().await;
}

#[tokio::test]
async fn one_event_at_two_subscribers_is_two_letters_and_tenants_and_sources_tell_apart() {
    let app = TestApp::new().await;
    let entry = |subscriber: Option<&str>, tenant: &str| json!({"eventId": "e", "subscriberId": subscriber, "originalEvent": {"metadata": {"tenantId": tenant}}});
    let items = vec![
        entry(Some("a"), "t"),
        entry(Some("b"), "t"),
        entry(None, "t"),
        entry(Some("a"), "u"),
        entry(Some("a"), "t"),
    ];
    assert_eq!(results(&app, items).await, ["created", "created", "created", "created", "duplicate"]);
    app.check().await;
}

#[tokio::test]
async fn a_bad_item_does_not_spoil_the_batch() {
    let app = TestApp::new().await;
    let good = json!({"eventId": "good", "originalEvent": {}});
    let answer = app
        .post("/api/v1/dead-letters", &json!({"items": [good, {"originalEvent": {}}, 7, {"eventId": "late", "originalEvent": {}, "createdAt": "2026-11-15T03:00:00"}]}))
        .await
        .expect(200);
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items[0]["result"], "created");
    assert_eq!(items[1]["error"]["field"], "eventId");
    assert_eq!(items[2]["error"]["code"], "bad_json");
    assert_eq!((&items[3]["eventId"], &items[3]["error"]["code"]), (&json!("late"), &json!("bad_time")));
    app.check().await;
}

#[tokio::test]
async fn a_later_failure_is_another_life_and_the_old_one_is_kept() {
    let app = TestApp::new().await;
    let died = |time: &str, total: u32| {
        json!({"eventId": "e", "originalEvent": {"total": total}, "error": {"type": "T", "message": time},
               "retryHistory": [{"timestamp": time, "error": {"type": "T", "message": time}}]})
    };
    let id = app.report(&died("2026-11-15T01:00:00Z", 1)).await;
    assert_eq!(results(&app, vec![died("2026-11-15T01:00:00Z", 1)]).await, ["duplicate"]);
    assert_eq!(results(&app, vec![died("2026-11-15T02:00:00Z", 2)]).await, ["recurred"]);
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!((&letter["life"], &letter["originalEvent"]["total"]), (&json!(2), &json!(2)));
    assert_eq!(letter["lives"].as_array().unwrap().len(), 2);
    assert_eq!(letter["retryHistory"].as_array().unwrap().len(), 2);
    assert_eq!(letter["diedAt"], "2026-11-15T02:00:00.000Z");
    let first = app.get(&format!("/api/v1/dead-letters/{id}/body?life=1")).await;
    assert_eq!(first.bytes, br#"{"total":1}"#);
    assert_eq!(first.headers["lazaret-life"], "1");
    app.get(&format!("/api/v1/dead-letters/{id}/body?life=3")).await.problem(404, "not_found");
    app.check().await;
}

#[tokio::test]
async fn a_repetition_that_tells_no_error_adds_no_run() {
    let app = TestApp::new().await;
    let id = app
        .report(&json!({"eventId": "e", "originalEvent": {}, "error": {"type": "T", "message": "m"}}))
        .await;
    assert_eq!(results(&app, vec![json!({"eventId": "e", "originalEvent": {}})]).await, ["duplicate"]);
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["retryHistory"].as_array().unwrap().len(), 1);
    // A different error is history, even if it comes without a time.
    assert_eq!(
        results(&app, vec![json!({"eventId": "e", "originalEvent": {}, "error": "other"})]).await,
        ["duplicate"]
    );
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["retryHistory"].as_array().unwrap().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn what_a_reporter_may_not_decide_is_data() {
    let app = TestApp::new().await;
    let id = app
        .report(&json!({"id": "x", "eventId": "e", "originalEvent": {}, "status": "discarded", "resolution": {"strategy": "discard"},
                        "updatedAt": "1999-01-01T00:00:00Z", "createdAt": "2026-11-14T00:00:00Z", "unheard": [1, {"of": null}]}))
        .await;
    assert_ne!(id, "x");
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["status"], "pending");
    assert_eq!(letter["diedAt"], "2026-11-14T00:00:00.000Z");
    assert_eq!(letter["reported"]["unheard"], json!([1, {"of": null}]));
    assert_eq!(letter["reported"]["status"], "discarded");
}

#[tokio::test]
async fn top_level_event_id_wins_and_events_need_not_be_objects() {
    let app = TestApp::new().await;
    let id = app.report(&json!({"eventId": "outer", "originalEvent": {"eventId": "inner"}})).await;
    assert_eq!(app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200)["eventId"], "outer");
    for event in [json!("text"), json!([1]), json!(7), json!(false)] {
        let id = app.report(&json!({"eventId": event.to_string(), "originalEvent": event})).await;
        let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
        assert_eq!((&letter["originalEvent"], &letter["type"]), (&event, &json!("unknown")));
    }
    app.check().await;
}

#[tokio::test]
async fn a_text_cut_within_an_emoji_is_no_reason_to_lose_a_letter() {
    let app = TestApp::new().await;
    let entry = r#"{"eventId":"e\ud83d","originalEvent":{"pattern":"p\udc00","x":"\ud83d"},"error":{"message":"cut \ud83d","stackTrace":"\udead"}}"#;
    let answer = app.post_text("/api/v1/dead-letters", "application/json", entry).await.expect(200);
    let id = answer["items"][0]["id"].as_str().unwrap();
    let body = app.get(&format!("/api/v1/dead-letters/{id}/body")).await;
    assert_eq!(body.bytes, br#"{"pattern":"p\udc00","x":"\ud83d"}"#);
    let shown = app.get(&format!("/api/v1/dead-letters/{id}")).await;
    assert!(String::from_utf8_lossy(&shown.bytes).contains("cut \u{fffd}"));
}

#[tokio::test]
async fn streams_are_answered_line_by_line() {
    let app = TestApp::new().await;
    let mut stream = String::new();
    for n in 0..2_500 {
        stream.push_str(&format!("{{\"eventId\":\"s{n}\",\"originalEvent\":{n}}}\r\n"));
    }
    stream.push_str("\n  \nnot json\n{\"eventId\":\"last\",\"originalEvent\":null}\n{\"eventId\":\"end\",\"originalEvent\":1}");
    let answer = app.post_text("/api/v1/dead-letters", "application/x-ndjson", stream).await.expect(200);
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), 2_503);
    assert_eq!((&items[2_500]["line"], &items[2_500]["result"]), (&json!(2_503), &json!("refused")));
    assert_eq!(items[2_501]["error"]["field"], "originalEvent");
    assert_eq!(items[2_502]["result"], "created");
    let mut broken =
        b"{\"eventId\":\"u1\",\"originalEvent\":1}\n\xff\xfe\n{\"eventId\":\"u2\",\"originalEvent\":1}\n"
            .to_vec();
    broken.push(b'\n');
    let answer = app.post_text("/api/v1/dead-letters", "application/x-ndjson", broken).await.expect(200);
    assert_eq!(
        answer["items"][1],
        json!({"eventId": null, "result": "refused", "line": 2, "error": {"code": "bad_json", "message": "the line is not UTF-8"}})
    );
    assert_eq!(answer["items"][2]["result"], "created");
    let many: String =
        (0..10_001).map(|n| format!("{{\"eventId\":\"m{n}\",\"originalEvent\":1}}\n")).collect();
    let problem =
        app.post_text("/api/v1/dead-letters", "application/x-ndjson", many).await.problem(413, "too_large");
    assert_eq!(problem["itemsKept"], 10_000);
    app.check().await;
}

#[tokio::test]
async fn sources_are_configured_and_read_by_their_paths() {
    let text =
        "[sources.orders]\nkind = \"report\"\naggregate = \"$.payload.orderId\"\nqueue = \"order-service\"\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let config = lazaret_server::config::load(Some(file.path()), [], Default::default()).unwrap();
    let app = TestApp::with(config, lazaret_store::sqlite::Mode::Real).await;
    let entry = json!({"eventId": "e", "originalEvent": {"payload": {"orderId": 4711}}});
    let problem = app.post("/api/v1/dead-letters?source=nope", &entry).await.problem(400, "unknown_source");
    assert!(problem["hint"].as_str().unwrap().contains("orders"));
    app.post("/api/v1/dead-letters?source=orders", &entry).await.expect(200);
    let list = app.get("/api/v1/dead-letters?source=orders&aggregate=4711").await.expect(200);
    assert_eq!(list["items"][0]["queue"], "order-service");
    assert_eq!(list["items"][0]["aggregateId"], "4711");
}

#[tokio::test]
async fn a_full_store_keeps_nothing_and_says_so() {
    use lazaret_store::failure::{Failure, FailurePoint};
    let app = TestApp::new().await;
    for (failure, code, hint) in [
        (Failure::DiskFull, "store_full", "nothing was stored"),
        (Failure::ReadOnly, "store_unavailable", "nothing was stored"),
        (Failure::Unavailable, "store_unavailable", "it is unknown whether the request took effect"),
        (Failure::Panic, "store_unavailable", "it is unknown whether the request took effect"),
    ] {
        app.store.failures().plan(FailurePoint::InsertLetter, failure, 1);
        let entry = json!({"eventId": code, "originalEvent": {}});
        let answer = app.post("/api/v1/dead-letters", &entry).await;
        let problem = answer.problem(503, code);
        assert!(problem["hint"].as_str().unwrap().contains(hint), "{problem}");
        assert!(answer.headers.contains_key("retry-after"));
        if failure != Failure::Panic {
            app.store.failures().plan(FailurePoint::Commit, failure, 1);
            let job = app.post("/ojs/v1/jobs", &json!({"type": "mail", "args": []})).await.expect(503);
            assert!(job["error"]["hint"].as_str().unwrap().contains(hint), "{job}");
        }
    }
    app.store.failures().plan(FailurePoint::Commit, Failure::DiskFull, 1);
    app.get("/health/ready").await.problem(503, "store_full");
    app.get("/health/ready").await.expect(200);
    assert_eq!(app.get("/api/v1/ledger").await.expect(200)["captured"], 0);
    app.check().await;
}
