//! Dead rows become letters, whoever killed them and however they are noticed.

use lazaret_core::letter::SourceWord;
use lazaret_sources::Source;
use lazaret_sources::outbox::{DeadRow, KnownRow, judge_row};

use crate::app::{App, NEVER_MS, some};

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_003_a_letter_keeps_what_the_row_says_of_its_death() {
    let app = App::start().await;
    let id = app.event("order-7", "{\"total\": 12.50}").await;
    app.run("update outbox set schema_version = 3, max_retries = 4").await;
    app.die(&id, "HttpAnswer (503): http://shop answered 503").await;
    let outbox = app.outbox();
    let captured = some(outbox.as_ref()).await.remove(0).captured;
    assert_eq!((captured.source.as_str(), captured.queue.as_str()), ("orders", "public.outbox"));
    assert_eq!(captured.subscriber.as_deref(), Some("shop"));
    assert_eq!((captured.retry_count, captured.max_retries), (5, Some(4)));
    assert_eq!(captured.schema_version.as_deref(), Some("3"));
    assert_eq!(captured.error.error_type, "HttpAnswer");
    assert_eq!(captured.error.code.as_deref(), Some("503"));
    assert_eq!(captured.error.message, "http://shop answered 503");
    assert_eq!(captured.envelope.body().as_ref(), b"{\"total\": 12.50}");
    assert_eq!(captured.envelope.headers(), [("aggregate_type".to_owned(), "order".into())]);
    let died = "select floor(extract(epoch from processed_at) * 1000)::int8 from outbox";
    assert_eq!(captured.died_at.unwrap().ms(), app.number(died).await);
    // The row as it is, but for the payload.
    let reported: serde_json::Value = serde_json::from_str(captured.reported.as_deref().unwrap()).unwrap();
    assert_eq!(reported["row"]["id"], id.as_str());
    assert_eq!(reported["row"]["last_error"], "HttpAnswer (503): http://shop answered 503");
    assert_eq!(reported["row"]["retry_count"], 5);
    assert!(reported["row"].get("payload").is_none());
    assert_eq!(reported["rowVersion"], app.text("select xmin::text from outbox").await.as_str());
}

/// What the store would say of the row that was captured last, against the row as it is now.
fn word(before: &str, was_elsewhere: bool, after: &str) -> SourceWord {
    let [before, after] = [before, after].map(|reported| DeadRow::of_reported(reported).unwrap());
    judge_row(Some(&KnownRow { row: before, was_elsewhere }), &after)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_touched_is_the_same_death_and_one_that_died_again_is_not() {
    let app = App::start().await;
    let id = app.dead_event("order-7", "{}").await;
    let reported = async || {
        let arrivals = some(app.outbox().as_ref()).await;
        arrivals[0].captured.reported.clone().unwrap()
    };
    let first = reported().await;
    assert_eq!(word(&first, true, &reported().await), SourceWord::SameDeath);
    app.run("update outbox set max_retries = 9").await;
    let touched = reported().await;
    assert_ne!(touched, first);
    assert_eq!(word(&first, false, &touched), SourceWord::SameDeath);
    // Put back and dead again, of the very same.
    app.run("update outbox set status = 'PENDING'").await;
    app.run("update outbox set status = 'DEAD_LETTER'").await;
    assert_eq!(word(&touched, true, &reported().await), SourceWord::NewDeath);
    app.die(&id, "another error").await;
    assert_eq!(word(&touched, false, &reported().await), SourceWord::NewDeath);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_trigger_rows_are_looked_for() {
    let mut app = App::start().await;
    app.run(
        "drop trigger lazaret_outbox_insert on outbox;
         drop trigger lazaret_outbox_update on outbox",
    )
    .await;
    app.config.poll_ms = 20;
    let outbox = app.outbox();
    app.dead_event("order-1", "{}").await;
    let first = some(outbox.as_ref()).await;
    outbox.ack(&[first[0].receipt.clone()]).await.unwrap();
    let id = app.dead_event("order-2", "{}").await;
    assert_eq!(some(outbox.as_ref()).await[0].captured.message_id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_a_notification_names_are_all_found() {
    let app = App::start().await;
    assert_eq!(app.config.sweep_ms, NEVER_MS);
    let outbox = app.outbox();
    app.dead_event("order-0", "{}").await;
    let first = some(outbox.as_ref()).await;
    outbox.ack(&[first[0].receipt.clone()]).await.unwrap();
    // One statement, one notification, more rows than a batch.
    app.run(
        "insert into outbox (event_type, payload, status)
         select 'Many', '{}', 'DEAD_LETTER' from generate_series(1, 3000)",
    )
    .await;
    let mut got = std::collections::BTreeSet::new();
    while got.len() < 3_000 {
        let arrivals = some(outbox.as_ref()).await;
        let receipts: Vec<_> = arrivals.iter().map(|arrival| arrival.receipt.clone()).collect();
        outbox.ack(&receipts).await.unwrap();
        for arrival in arrivals {
            assert!(got.insert(arrival.captured.message_id), "handed over twice");
        }
    }
    assert_eq!(outbox.state().lag_ms, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_come_in_several_batches() {
    let app = App::start().await;
    // Random, so that it is as large on disk as it looks.
    app.run(
        "insert into outbox (event_type, payload, status)
         select 'Large', jsonb_build_array((select string_agg(md5(random()::text || n || m), '')
                                              from generate_series(1, 50000) as m)), 'DEAD_LETTER'
           from generate_series(1, 12) as n",
    )
    .await;
    let outbox = app.outbox();
    let first = some(outbox.as_ref()).await;
    assert!(!first.is_empty() && first.len() < 12, "{}", first.len());
    let bytes: usize = first.iter().map(|arrival| arrival.captured.envelope.body().len()).sum();
    assert!(bytes < 12 << 20, "{bytes}");
    let mut all = first.len();
    while all < 12 {
        all += some(outbox.as_ref()).await.len();
    }
    assert_eq!(all, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_another_table_tells_nothing() {
    let app = App::start().await;
    let mut other = App::at(&app.config.url);
    other.config.table.name = "other".to_owned();
    other.make_table().await;
    let outbox = app.outbox();
    app.dead_event("order-1", "{}").await;
    assert_eq!(some(outbox.as_ref()).await.len(), 1);
    app.run("insert into other (event_type, payload, status) values ('X', '{}', 'DEAD_LETTER')").await;
    let id = app.dead_event("order-2", "{}").await;
    let next = some(outbox.as_ref()).await;
    assert_eq!(next.iter().map(|arrival| &arrival.captured.message_id).collect::<Vec<_>>(), [&id]);
}
