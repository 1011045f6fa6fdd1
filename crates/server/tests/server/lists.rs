//! Lists: pages, cursors, totals, counts, statistics.

use serde_json::{Value, json};

use super::rig::TestApp;

async fn fill(app: &TestApp, count: usize) {
    let items: Vec<Value> = (0..count)
        .map(|n| {
            json!({
                "eventId": format!("e{n}"),
                "originalEvent": {"pattern": if n % 2 == 0 { "order.created" } else { "mail.sent" }},
                "error": {"type": "Timeout", "message": format!("call {n} timed out")},
                "createdAt": format!("2026-11-{:02}T00:00:00Z", 1 + n % 10),
            })
        })
        .collect();
    app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
}

#[tokio::test]
async fn pages_walk_all_letters_once_in_every_order() {
    let app = TestApp::new().await;
    fill(&app, 57).await;
    for sort in ["-diedAt", "diedAt", "-createdAt", "createdAt"] {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = app
                .get(&format!("/api/v1/dead-letters?limit=10&sort={sort}&cursor={cursor}"))
                .await
                .expect(200);
            assert_eq!(page["total"], 57);
            for letter in page["items"].as_array().unwrap() {
                let id = letter["id"].as_str().unwrap().to_owned();
                seen.push((letter[sort.trim_start_matches('-')].as_str().unwrap().to_owned(), id));
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        let mut expected = seen.clone();
        expected.sort();
        expected.dedup();
        assert_eq!(expected.len(), 57);
        if sort.starts_with('-') {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{sort}");
    }
}

#[tokio::test]
async fn a_cursor_serves_only_its_own_list() {
    let app = TestApp::new().await;
    fill(&app, 5).await;
    let page = app.get("/api/v1/dead-letters?limit=2&type=order.created").await.expect(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    for query in [
        format!("type=mail.sent&cursor={cursor}"),
        format!("type=order.created&sort=diedAt&cursor={cursor}"),
        "cursor=x".into(),
        "cursor=%00%ff".into(),
    ] {
        app.get(&format!("/api/v1/dead-letters?{query}")).await.problem(400, "bad_cursor");
    }
}

#[tokio::test]
async fn filters_mean_the_same_as_parameters_as_text_and_as_json() {
    let app = TestApp::new().await;
    fill(&app, 20).await;
    for (query, json) in [
        ("type=order.created", json!({"type": "order.created"})),
        (
            "q=type:order.*%20since:2026-11-05T00:00:00Z",
            json!({"type": "order.*", "since": "2026-11-05T00:00:00Z"}),
        ),
        ("text=call%2017", json!({"text": "call 17"})),
        (
            "errorType=Timeout&status=pending&source=report&class=transient",
            json!({"q": "error:Timeout status:pending"}),
        ),
        ("status=resolved", json!({"status": ["resolved"]})),
    ] {
        let listed = app.get(&format!("/api/v1/dead-letters?{query}")).await.expect(200);
        let counted = app.post("/api/v1/dead-letters/count", &json).await.expect(200);
        assert_eq!(listed["total"], counted["total"], "{query}");
        assert_eq!(listed["items"].as_array().unwrap().len() as u64, listed["total"].as_u64().unwrap());
    }
}

#[tokio::test]
async fn statistics_count_by_everything() {
    let app = TestApp::new().await;
    fill(&app, 20).await;
    let stats = app.get("/api/v1/stats").await.expect(200);
    assert_eq!(stats["total"], 20);
    assert_eq!(stats["byStatus"], json!({"discarded": 0, "pending": 20, "reprocessing": 0, "resolved": 0}));
    assert_eq!(stats["byType"], json!({"order.created": 10, "mail.sent": 10}));
    assert_eq!(stats["byQueue"], json!({"report": 20}));
    assert_eq!(stats["byErrorType"], json!({"Timeout": 20}));
    assert_eq!(stats["byClass"], json!({"transient": 20}));
    assert_eq!(stats["oldestAt"], "2026-11-01T00:00:00.000Z");
    assert_eq!(stats["newestAt"], "2026-11-10T00:00:00.000Z");
    let resolved = app.get("/api/v1/stats?status=resolved").await.expect(200);
    assert_eq!((&resolved["total"], &resolved["oldestAt"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn a_list_beyond_ten_thousand_says_at_least_and_a_count_says_all() {
    let app = TestApp::new().await;
    for from in (0..10_002).step_by(1_000) {
        let items: Vec<Value> = (from..10_002.min(from + 1_000))
            .map(|n| json!({"eventId": format!("m{n}"), "originalEvent": {}, "retryCount": 1}))
            .collect();
        app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
    }
    let counted = app.post("/api/v1/dead-letters/count", &json!({})).await.expect(200);
    assert_eq!(counted, json!({"total": 10_002}), "counters answer this one exactly");
    let counted =
        app.post("/api/v1/dead-letters/count", &json!({"retryCount": {"min": 1}})).await.expect(200);
    assert_eq!(counted, json!({"total": 10_002}), "who asks for the number gets it");
    let listed = app.get("/api/v1/dead-letters?limit=1&q=retries:%3E0").await.expect(200);
    assert_eq!(
        (&listed["total"], &listed["totalIsAtLeast"]),
        (&json!(10_000), &json!(true)),
        "{}",
        listed["total"]
    );
}
