//! What people see who ask PostgreSQL themselves.

use lazaret_core::letter::Captured;
use lazaret_store::testing::TestDatabase;
use serde_json::json;

use crate::postgres_many::{connect, rig};
use crate::rig::{at, captured, envelope, failed};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_outbox_rows_are_found_by_their_pattern_and_history_tells_all() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let client = connect(&database).await;
    let row = r#"{"table":"outbox","rowVersion":"7","retryCount":2,"createdAt":"2026-01-02T03:04:05.678Z","row":{"id":7}}"#;
    let mut refused = failed(at(-2_000), "refused");
    refused.error.backtrace = Some("at a\nat b".into());
    refused.error.context = Some(r#"{"port":5432.10}"#.into());
    let of_row = Captured {
        source: "shop".into(),
        letter_type: "OrderCreated".into(),
        schema_version: Some("2".into()),
        envelope: envelope(br#"{"pattern":"not this one"}"#),
        attempts: vec![refused],
        reported: Some(row.into()),
        ..captured("row")
    };
    let job = Captured {
        source: "jobs".into(),
        letter_type: "mail.send".into(),
        envelope: envelope(br#"["\u0000"]"#),
        reported: Some(r#"{"meta":{"k":"v"},"created_at":"2026-01-02T03:04:05.678Z"}"#.into()),
        ..captured("job")
    };
    let verbatim = Captured { envelope: envelope(br#"{"pattern":"told"}"#), ..captured("told") };
    let mut ids = Vec::new();
    for letter in [of_row, job, verbatim] {
        ids.push(rig.create(letter, at(0)).await);
    }
    let event = async |pattern: &str| {
        let sql = "select event_id, original_event::text from dead_letter_queue where original_event->>'pattern' = $1";
        let row = client.query_one(sql, &[&pattern]).await.unwrap();
        let event: serde_json::Value = serde_json::from_str(row.get(1)).unwrap();
        (row.get::<_, String>(0), event)
    };
    let (id, described) = event("OrderCreated").await;
    assert_eq!((id.as_str(), &described["metadata"]), ("row", &json!({"id": 7})));
    assert_eq!((&described["eventId"], &described["version"]), (&json!("row"), &json!("2")));
    assert_eq!(described["source"], json!({"type": "integration", "id": "shop", "name": "orders"}));
    assert_eq!(described["timestamp"], "2026-01-02T03:04:05.678Z");
    assert_eq!(described["payload"], json!({"pattern": "not this one"}));
    // A payload that jsonb does not hold is left out, and the job is found all the same.
    let (id, described) = event("mail.send").await;
    assert_eq!(
        (id.as_str(), &described["payload"], &described["metadata"]["k"]),
        ("job", &json!(null), &json!("v"))
    );
    assert_eq!(event("told").await.1, json!({"pattern": "told"}));
    let sql = "select retry_history->0->'error'->>'stackTrace', retry_history->0->'error'->'context'->>'port'
                 from dead_letter_queue where event_id = 'row'";
    let told = client.query_one(sql, &[]).await.unwrap();
    let told: (String, String) = (told.get(0), told.get(1));
    assert_eq!(told, ("at a\nat b".into(), "5432.10".into()));
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_letters_from_before_are_filled_once() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let client = connect(&database).await;
    for n in 0..5 {
        let mut refused = failed(at(-2_000), "refused");
        refused.error.backtrace = Some("at a".into());
        let job = Captured {
            source: "jobs".into(),
            envelope: envelope(b"[1]"),
            attempts: vec![refused],
            ..captured(&format!("e{n}"))
        };
        rig.create(job, at(n)).await;
    }
    // As they were written before.
    let old = "update dead_letter_queue
                  set original_event = original_event->'payload', retry_history = retry_history #- '{0,error,stackTrace}'";
    assert_eq!(client.execute(old, &[]).await.unwrap(), 5);
    let full = async || {
        let sql = "select count(*) from dead_letter_queue
                    where original_event->>'pattern' = 'order.created' and original_event->'payload' = '[1]'
                      and retry_history->0->'error'->>'stackTrace' = 'at a'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(full().await, 0);
    for (more, expected) in [(true, 2), (true, 4), (false, 5), (false, 5)] {
        assert_eq!(rig.store().refill_extracts(2).await.unwrap(), more);
        assert_eq!(full().await, expected);
    }
    // It is done for good.
    assert_eq!(client.execute(old, &[]).await.unwrap(), 5);
    assert!(!rig.store().refill_extracts(2).await.unwrap());
    assert_eq!(full().await, 0);
    rig.store().close().await.unwrap();
}
