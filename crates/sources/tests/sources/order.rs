//! Events of one aggregate go out one after the other, and hold up nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_core::class::ClassRules;
use lazaret_sources::outbox::{Order, Relay, RelayConfig};
use lazaret_sources::sink::Sunk;

use crate::app::App;
use crate::sinks::{Scripted, answered};

/// Ticks until nothing is due.
async fn drain(relay: &Relay) {
    while relay.tick().await.unwrap().claimed > 0 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_event_of_an_aggregate_goes_first_and_others_do_not_wait() {
    let app = App::start().await;
    let first = app.event("a", "{\"n\": 1}").await;
    let second = app.event("a", "{\"n\": 2}").await;
    let other = app.event("b", "{\"n\": 3}").await;
    let sink = Arc::new(Scripted::default());
    sink.next(&first, answered(503));
    let relay = app.relay(sink.clone());
    let worked = relay.tick().await.unwrap();
    // The second one is claimed behind the first, and given back when that fails.
    assert_eq!((worked.claimed, worked.delivered, worked.retried, worked.released), (3, 1, 1, 1));
    // The first one waits for its next try, and the second for the first.
    drain(&relay).await;
    let mut got = sink.keys();
    got.sort_unstable();
    let mut expected = [first.clone(), other.clone()];
    expected.sort_unstable();
    assert_eq!(got, expected);
    app.let_time_pass().await;
    drain(&relay).await;
    assert_eq!(sink.keys()[2..], [first, second]);
    assert_eq!(app.counts().await, "PROCESSED 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_001_a_dead_row_is_set_apart_and_blocks_nothing() {
    let app = App::start().await;
    let bad = app.event("a", "{}").await;
    let later = app.event("a", "{}").await;
    let other = app.event("b", "{}").await;
    app.run(&format!("update outbox set max_retries = 1 where id = '{bad}'")).await;
    let sink = Arc::new(Scripted::default());
    sink.always(&bad, answered(422));
    let relay = app.relay(sink.clone());
    drain(&relay).await;
    assert_eq!(app.status(&bad).await, "DEAD_LETTER");
    assert_eq!(
        (app.status(&later).await, app.status(&other).await),
        ("PROCESSED".into(), "PROCESSED".into())
    );
    let row = format!(
        "select concat_ws(' ', retry_count, last_error, processed_at is not null) from outbox where id = '{bad}'"
    );
    assert_eq!(app.text(&row).await, "1 HttpAnswer (422): http://shop answered 422 t");
    // It stays where it is.
    app.let_time_pass().await;
    drain(&relay).await;
    assert_eq!(sink.keys().iter().filter(|key| **key == bad).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_is_set_later_events_wait_for_a_dead_one() {
    let mut app = App::start().await;
    app.config.relay = Some(RelayConfig { order: Order::Wait, ..RelayConfig::default() });
    let bad = app.event("a", "{}").await;
    let later = app.event("a", "{}").await;
    let other = app.event("b", "{}").await;
    app.run(&format!("update outbox set max_retries = 1 where id = '{bad}'")).await;
    let sink = Arc::new(Scripted::default());
    sink.next(&bad, answered(422));
    let relay = app.relay(sink.clone());
    drain(&relay).await;
    assert_eq!((app.status(&later).await, app.status(&other).await), ("PENDING".into(), "PROCESSED".into()));
    // Put back, it goes first.
    app.run("update outbox set status = 'PENDING', next_attempt_at = now() where status = 'DEAD_LETTER'")
        .await;
    drain(&relay).await;
    assert_eq!(app.counts().await, "PROCESSED 3");
    assert_eq!(sink.keys().last(), Some(&later));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_no_aggregate_and_of_other_types_do_not_wait_for_each_other() {
    let app = App::start().await;
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         values ('A', null, null, '{}'), ('A', null, null, '{}'), ('A', 'order', '1', '{}'), ('A', 'cart', '1', '{}'),
                ('A', null, '1', '{}'), ('A', null, '1', '{}')",
    )
    .await;
    let worked = app.relay(Arc::new(Scripted::default())).tick().await.unwrap();
    // The last one goes out behind the earlier one of its kind.
    assert_eq!(worked.delivered, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_relays_keep_the_order_and_deliver_once() {
    let mut app = App::start().await;
    app.config.relay = Some(RelayConfig { batch: 7, concurrency: 4, ..RelayConfig::default() });
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select 'A', 'order', (n % 20)::text, to_jsonb(n) from generate_series(1, 400) as n order by n",
    )
    .await;
    let sink = Arc::new(Scripted::default());
    let relays: Vec<Relay> =
        (0..4).map(|_| Relay::new(app.outbox(), sink.clone(), ClassRules::default()).unwrap()).collect();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let work = async |relay: &Relay| {
        while app.number("select count(*) from outbox where status <> 'PROCESSED'").await > 0 {
            assert!(std::time::Instant::now() < until, "it does not come to an end");
            relay.tick().await.unwrap();
        }
    };
    tokio::join!(work(&relays[0]), work(&relays[1]), work(&relays[2]), work(&relays[3]));
    let mut lanes: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for delivery in sink.got() {
        let number: u64 = serde_json::from_slice(&delivery.body).unwrap();
        lanes.entry(delivery.aggregate_id.unwrap()).or_default().push(number);
    }
    assert_eq!(lanes.values().map(Vec::len).sum::<usize>(), 400);
    for (aggregate, lane) in lanes {
        assert!(lane.is_sorted(), "{aggregate}: {lane:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_tried_does_not_count_and_comes_again() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    let sink = Arc::new(Scripted::default());
    sink.next(&id, Sunk::Unsent);
    let relay = app.relay(sink.clone());
    assert_eq!(relay.tick().await.unwrap().released, 1);
    let row = "select concat_ws(' ', status, retry_count, coalesce(last_error, '-')) from outbox";
    assert_eq!(app.text(row).await, "PENDING 0 -");
    app.let_time_pass().await;
    assert_eq!(relay.tick().await.unwrap().delivered, 1);
}
