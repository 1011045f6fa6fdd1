//! Export and import: a letter arrives whole or not at all, and a file that is not whole never looks so.

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::rig::TestApp;

const NDJSON: &str = "application/x-ndjson";

/// Letters of every kind: plain, with two lives, held, resolved, discarded, awkward.
async fn fill(app: &TestApp) -> usize {
    let died = |id: &str, time: &str| {
        json!({
            "eventId": id, "subscriberId": "mailer", "originalEvent": {"pattern": "order.created", "n": 1.50},
            "retryHistory": [{"timestamp": time, "processingDuration": 12, "error": {"type": "T", "message": time}, "worker": "w1"}],
            "unheard": [1, {"of": null}],
        })
    };
    app.report(&died("plain", "2026-11-15T01:00:00Z")).await;
    app.report(&died("twice", "2026-11-15T01:00:00Z")).await;
    app.pass(1_000);
    app.report(&died("twice", "2026-11-15T02:00:00Z")).await;
    for (id, verb) in [("held", "hold"), ("resolved", "resolve"), ("discarded", "discard")] {
        let id = app.report(&died(id, "2026-11-15T00:30:00Z")).await;
        app.post(&format!("/api/v1/dead-letters/{id}/{verb}"), &json!({"reason": "because"}))
            .await
            .expect(200);
    }
    let awkward = r#"{"eventId":"odd","originalEvent":{"x":"\ud83d","n":1e999},"error":{"message":"\u0000","context":[123456789012345678901234567890]}}"#;
    app.post_text("/api/v1/dead-letters", "application/json", awkward).await.expect(200);
    6
}

async fn export(app: &TestApp, query: &str) -> String {
    let answer = app.get(&format!("/api/v1/export{query}")).await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
    assert_eq!(answer.headers["content-type"], NDJSON);
    String::from_utf8(answer.bytes).unwrap()
}

async fn import(app: &TestApp, text: impl Into<Body>) -> Value {
    app.post_text("/api/v1/import", NDJSON, text).await.expect(200)
}

fn line(text: &str, at: usize) -> Value {
    serde_json::from_str(text.lines().nth(at).unwrap()).unwrap()
}

#[tokio::test]
async fn an_empty_store_exports_its_end_alone() {
    let app = TestApp::new().await;
    let text = export(&app, "").await;
    // The hash over nothing.
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(text, format!("{{\"sha256\":\"{hash}\",\"end\":{{\"letters\":0}}}}\n"));
    let answer = import(&app, text).await;
    assert_eq!(answer, json!({"created": 0, "known": 0, "conflicts": [], "refused": [], "end": true}));
}

#[tokio::test]
async fn what_was_exported_arrives_whole_in_another_store() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let letters = fill(&here).await;
    let text = export(&here, "").await;
    assert_eq!(text.lines().count(), letters + 1);
    assert_eq!(line(&text, letters)["end"], json!({"letters": letters}));
    let deaths: Vec<String> =
        (0..letters).map(|at| line(&text, at)["letter"]["diedAt"].to_string()).collect();
    assert!(deaths.is_sorted(), "{deaths:?}");
    there.pass(86_400_000);
    let answer = import(&there, text.clone()).await;
    assert_eq!(answer, json!({"created": letters, "known": 0, "conflicts": [], "refused": [], "end": true}));
    assert_eq!(export(&there, "").await, text);
    let answer = import(&there, text.clone()).await;
    assert_eq!(answer, json!({"created": 0, "known": letters, "conflicts": [], "refused": [], "end": true}));
    assert_eq!(export(&there, "").await, text);
    let mut compared = 0;
    for at in 0..letters {
        let id = line(&text, at)["letter"]["id"].as_str().unwrap().to_owned();
        let body = format!("/api/v1/dead-letters/{id}/body");
        assert_eq!(here.get(&body).await.bytes, there.get(&body).await.bytes);
        let mut shown = Vec::new();
        for app in [&here, &there] {
            let answer = app.get(&format!("/api/v1/dead-letters/{id}")).await;
            assert_eq!(answer.status, 200);
            // An original is shown as it was written, also one that this reader of JSON does not take.
            let Ok(mut letter) = serde_json::from_slice::<Value>(&answer.bytes) else { continue };
            // Each store has incidents of its own, and tells which decisions it did not take itself.
            for field in ["incidentId", "grouping", "decisions"] {
                letter.as_object_mut().unwrap().remove(field);
            }
            // A hold that came along is one of this store, under an id of its own.
            for hold in letter["holds"].as_array_mut().into_iter().flatten() {
                hold.as_object_mut().unwrap().remove("id");
            }
            shown.push(letter);
        }
        if let [one, two] = &shown[..] {
            assert_eq!(one, two);
            compared += 1;
        }
    }
    assert!(compared >= letters - 1, "{compared} of {letters} could be compared");
    here.check().await;
    there.check().await;
}

#[tokio::test]
async fn decisions_come_along_and_say_so() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let id = here.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    here.post(&format!("/api/v1/dead-letters/{id}/discard"), &json!({"reason": "spam"})).await.expect(200);
    import(&there, export(&here, "").await).await;
    let letter = there.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["status"], "discarded");
    let decision = &letter["decisions"][0];
    assert_eq!((&decision["action"], &decision["reason"]), (&json!("discard"), &json!("spam")));
    assert_eq!(decision["imported"], true);
    let audit = there.get("/api/v1/audit").await.expect(200);
    assert_eq!(
        (&audit["items"][0]["action"], &audit["items"][0]["count"]),
        (&json!("import"), &json!(1)),
        "{audit}"
    );
}

#[tokio::test]
async fn a_changed_line_is_refused_and_the_others_are_taken() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let letters = fill(&here).await;
    let text = export(&here, "").await;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace("order.created", "order.deleted");
    lines.insert(2, "not json".into());
    let answer = import(&there, lines.join("\n")).await;
    assert_eq!((&answer["created"], &answer["end"]), (&json!(letters - 1), &json!(false)), "{answer}");
    let refused = answer["refused"].as_array().unwrap();
    assert_eq!((&refused[0]["line"], &refused[1]["line"]), (&json!(2), &json!(3)));
    assert!(refused[0]["detail"].as_str().unwrap().contains("hash"), "{answer}");
    there.check().await;
}

#[tokio::test]
async fn a_file_without_its_end_is_taken_and_told() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let letters = fill(&here).await;
    let text = export(&here, "").await;
    let torn: String = text.lines().take(letters - 1).map(|line| format!("{line}\r\n\n")).collect();
    let answer = import(&there, torn).await;
    assert_eq!((&answer["created"], &answer["end"]), (&json!(letters - 1), &json!(false)), "{answer}");
    let answer = import(&there, text).await;
    assert_eq!(
        (&answer["created"], &answer["known"], &answer["end"]),
        (&json!(1), &json!(letters - 1), &json!(true))
    );
}

#[tokio::test]
async fn another_letter_under_the_same_key_is_a_conflict() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let entry = json!({"eventId": "e", "originalEvent": {}});
    let (id, other) = (here.report(&entry).await, there.report(&entry).await);
    let answer = import(&there, export(&here, "").await).await;
    let conflict = &answer["conflicts"][0];
    assert_eq!((&answer["created"], &conflict["line"], &conflict["id"]), (&json!(0), &json!(1), &json!(id)));
    assert!(conflict["detail"].as_str().unwrap().contains(&other), "{conflict}");
    there.check().await;
}

#[tokio::test]
async fn an_export_takes_the_filter_and_goes_through_all_pages() {
    let app = TestApp::new().await;
    let items: Vec<Value> = (0..230)
        .map(|n| json!({"eventId": format!("e{n}"), "originalEvent": {"pattern": if n % 10 == 0 { "mail.sent" } else { "order.created" }}}))
        .collect();
    app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
    for (query, letters) in
        [("", 230), ("?type=mail.sent", 23), ("?q=type:order.*", 207), ("?since=1h&type=none", 0)]
    {
        let text = export(&app, query).await;
        assert_eq!(line(&text, letters)["end"], json!({"letters": letters}), "{query}");
        assert_eq!(text.lines().count(), letters + 1, "{query}");
    }
    for query in ["?colour=red", "?limit=1", "?q=nokey:1"] {
        app.get(&format!("/api/v1/export{query}")).await.problem(400, "bad_filter");
    }
}

#[tokio::test]
async fn an_export_that_breaks_off_has_no_end() {
    let app = TestApp::new().await;
    let items: Vec<Value> = (0..30)
        .map(|n| json!({"eventId": format!("e{n:02}"), "originalEvent": n, "createdAt": format!("2026-11-14T00:00:{n:02}Z")}))
        .collect();
    app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
    rusqlite::Connection::open(app.backing.database())
        .unwrap()
        .execute_batch(
            "update lives set body = x'09616263'
              where letter = (select letter from dead_letter_queue where event_id = 'e25')",
        )
        .unwrap();
    let request = Request::builder().method(Method::GET).uri("/api/v1/export").header("host", "localhost");
    let router = lazaret_server::api::router(app.app.clone());
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut text = Vec::new();
    let broken = loop {
        match body.frame().await {
            Some(Ok(frame)) => text.extend_from_slice(&frame.into_data().unwrap()),
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    assert!(broken.is_some(), "it ended as if it were whole");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\"letter\":") && !text.contains("\"end\":"), "{text}");
    // A failure that is met before anything was sent is a problem like any other.
    app.get("/api/v1/export?eventId=e25").await.problem(500, "internal");
}

#[tokio::test]
async fn an_import_is_lines_within_bounds() {
    let app = TestApp::new().await;
    app.post_text("/api/v1/import", "application/json", "{}").await.problem(415, "unsupported_media_type");
    app.post_text("/api/v1/import?dry=true", NDJSON, "").await.problem(400, "bad_request");
    let answer = import(&app, "\n  \r\n").await;
    assert_eq!(answer, json!({"created": 0, "known": 0, "conflicts": [], "refused": [], "end": false}));
    let answer = import(&app, &b"\xff\xfe\n{}\n"[..]).await;
    assert_eq!(answer["refused"][0], json!({"line": 1, "detail": "the line is not UTF-8"}));
    assert_eq!(answer["refused"][1]["line"], 2);
    let most = import(&app, "x\n".repeat(10_001)).await;
    assert_eq!(most["refused"].as_array().unwrap().len(), 10_001);
    app.post_text("/api/v1/import", NDJSON, "x\n".repeat(10_002)).await.problem(413, "too_large");
    app.post_text("/api/v1/import", NDJSON, vec![b' '; 65 << 20]).await.problem(413, "too_large");
    app.check().await;
}
