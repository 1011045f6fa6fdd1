//! Tables with much in one place: hot aggregates, large payloads, absurd times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lazaret_sources::Duty;
use lazaret_sources::outbox::{Order, RelayConfig};
use lazaret_sources::sink::{Delivery, Sink, Sunk};

use crate::app::App;
use crate::sinks::{Scripted, answered};

/// Events of one aggregate, oldest first.
async fn fill(app: &App, aggregate: &str, count: u32) {
    app.run(&format!(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select 'A', 'order', '{aggregate}', to_jsonb(n) from generate_series(1, {count}) as n order by n"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_aggregate_that_waits_holds_up_no_other() {
    for order in [Order::Pass, Order::Wait] {
        let mut app = App::bare().await;
        app.config.relay = Some(RelayConfig { order, ..RelayConfig::default() });
        app.make_table().await;
        fill(&app, "hot", 30_000).await;
        fill(&app, "other", 3).await;
        let sink = Arc::new(Scripted::default());
        sink.next("hot", answered(503));
        let relay = app.relay(sink.clone());
        let begun = Instant::now();
        let worked = relay.tick().await.unwrap();
        assert_eq!((worked.delivered, worked.retried), (3, 1), "{worked:?}");
        // The head waits, and nothing of its aggregate moves.
        fill(&app, "third", 1).await;
        assert_eq!(relay.tick().await.unwrap().delivered, 1);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(sink.keys().len(), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_moves_many_events_at_once_and_in_order() {
    let app = App::start().await;
    fill(&app, "hot", 500).await;
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    let mut ticks = 0;
    while relay.tick().await.unwrap().claimed > 0 {
        ticks += 1;
    }
    assert!(ticks <= 6, "{ticks}");
    let numbers: Vec<u32> =
        sink.got().iter().map(|delivery| serde_json::from_slice(&delivery.body).unwrap()).collect();
    assert_eq!(numbers, (1..=500).collect::<Vec<u32>>());
}

/// The pages that a plan touched, over all of its nodes at the top.
fn pages(plans: &str) -> u64 {
    let number = |line: &str, what: &str| -> u64 {
        let rest = line.split_once(what).map_or("", |(_, rest)| rest);
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let tops = plans.lines().filter(|line| line.starts_with("  Buffers:"));
    tops.map(|line| number(line, "hit=") + number(line, "read=")).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reads_the_same_whatever_one_aggregate_holds() {
    let mut costs = Vec::new();
    for count in [1_000, 40_000] {
        let app = App::start().await;
        fill(&app, "hot", count).await;
        fill(&app, "other", 3).await;
        app.run("vacuum analyze outbox").await;
        let plans = app.outbox().explain_claim().await.unwrap();
        assert!(!plans.contains("Seq Scan"), "{plans}");
        assert!(plans.contains("lazaret_outbox_heads"), "{plans}");
        costs.push(pages(&plans));
    }
    assert!(costs[0] > 0 && costs[1] <= costs[0] * 2, "{costs:?} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_the_index_is_relayed_in_order_too() {
    let app = App::start().await;
    app.run("drop index lazaret_outbox_heads").await;
    fill(&app, "hot", 2_000).await;
    fill(&app, "other", 200).await;
    let sink = Arc::new(Scripted::default());
    sink.next("hot", answered(503));
    let relay = app.relay(sink.clone());
    while relay.tick().await.unwrap().claimed > 0 {}
    assert_eq!(app.counts().await, "PENDING 2000, PROCESSED 200");
    app.let_time_pass().await;
    while relay.tick().await.unwrap().claimed > 0 {}
    assert_eq!(app.counts().await, "PROCESSED 2200");
    let of = |aggregate: &str| -> Vec<u32> {
        let got = sink.got();
        let of_it = got.iter().filter(|delivery| delivery.aggregate_id.as_deref() == Some(aggregate));
        of_it.map(|delivery| serde_json::from_slice(&delivery.body).unwrap()).collect()
    };
    assert!(of("hot").is_sorted() && of("other").is_sorted());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_aggregate_has_its_turn() {
    let mut app = App::start().await;
    app.config.relay = Some(RelayConfig { batch: 10, ..RelayConfig::default() });
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select 'A', 'order', lpad((n % 40)::text, 2, '0'), to_jsonb(n) from generate_series(1, 4000) as n order by n",
    )
    .await;
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    for _ in 0..4 {
        relay.tick().await.unwrap();
    }
    let seen: std::collections::BTreeSet<_> =
        sink.got().into_iter().map(|delivery| delivery.aggregate_id).collect();
    assert_eq!(seen.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absurd_time_delays_nobody_else() {
    let app = App::start().await;
    for absurd in ["infinity", "-infinity", "294276-12-31"] {
        let never = app.event(absurd, "{}").await;
        app.run(&format!("update outbox set next_attempt_at = '{absurd}' where id = '{never}'")).await;
    }
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    let first = relay.tick().await.unwrap();
    assert_eq!((first.delivered, first.next_due_ms), (1, None));
    let id = app.event("a", "{}").await;
    assert_eq!(relay.tick().await.unwrap().delivered, 1);
    assert_eq!(sink.keys().last(), Some(&id));
}

/// Counts the bytes that are being delivered at one time.
#[derive(Debug, Default)]
struct Weighing {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Sink for Weighing {
    fn name(&self) -> &str {
        "shop"
    }

    fn address(&self) -> String {
        "shop".to_owned()
    }

    async fn deliver(&self, delivery: &Delivery) -> Sunk {
        let bytes = delivery.body.len();
        assert!(delivery.content_type == "application/json" && bytes > 4_000_000, "{bytes}");
        let now = self.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.now.fetch_sub(bytes, Ordering::SeqCst);
        Sunk::Delivered
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_fetched_within_a_bound() {
    let app = App::start().await;
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select 'A', 'order', n::text, to_jsonb(repeat('x', 4000000)) from generate_series(1, 30) as n",
    )
    .await;
    let sink = Arc::new(Weighing::default());
    let relay = app.relay(sink.clone());
    assert_eq!(relay.tick().await.unwrap().delivered, 30);
    let most = sink.most.load(Ordering::SeqCst);
    assert!(most <= 32 * 1024 * 1024, "{most} bytes at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_kills_its_relay_is_dead_after_its_tries() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    for _ in 0..5 {
        let dying = app.relay(Arc::new(Scripted::default())).with_hook(|_| lazaret_sources::outbox::Go::Die);
        dying.tick().await.unwrap_err();
        app.let_time_pass().await;
        let idle = app.relay(Arc::new(Scripted::default()));
        idle.stop();
        assert_eq!(idle.tick().await.unwrap().taken_back, 1);
        app.let_time_pass().await;
    }
    assert_eq!(app.status(&id).await, "DEAD_LETTER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_stopped_gives_back_what_it_has_not_begun() {
    let app = App::start().await;
    fill(&app, "a", 20).await;
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    relay.stop();
    let worked = relay.tick().await.unwrap();
    assert_eq!((worked.claimed, worked.released), (20, 20));
    assert_eq!(app.counts().await, "PENDING 20");
    assert_eq!(app.number("select count(*) from outbox where retry_count > 0").await, 0);
}
