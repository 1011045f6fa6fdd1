//! How a relay retries, gives up, waits and wakes.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lazaret_core::attempt::LetterError;
use lazaret_core::class::ErrorClass;
use lazaret_core::retry::{Preset, RetryPolicies, RetryPolicy};
use lazaret_sources::Source;
use lazaret_sources::outbox::RelayConfig;
use lazaret_sources::sink::{Delivery, Sink, Sunk};

use crate::app::{App, NEVER_MS, connect, some};
use crate::sinks::{Scripted, answered};

/// The clock of the database, in milliseconds.
const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000)::int8";

const NEXT: &str = "select (extract(epoch from next_attempt_at) * 1000)::int8 from outbox";

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_010_each_retry_waits_twice_as_long() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    let sink = Arc::new(Scripted::default());
    sink.always(&id, answered(503));
    let relay = app.relay(sink.clone());
    for (failed, plain) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)] {
        let before = app.number(CLOCK).await;
        assert_eq!(relay.tick().await.unwrap().retried, 1);
        let after = app.number(CLOCK).await;
        let next = app.number(NEXT).await;
        // The failure was written down somewhere between the two.
        assert!(next - before >= plain, "{failed}: {} of {plain}", next - before);
        assert!(next - after <= plain + plain / 10, "{failed}: {} of {plain}", next - after);
        assert_eq!(app.number("select retry_count::int8 from outbox").await, failed);
        app.let_time_pass().await;
    }
    // RULE-040-002: the fifth failure is the last one.
    assert_eq!(relay.tick().await.unwrap().died, 1);
    assert_eq!(app.status(&id).await, "DEAD_LETTER");
    assert_eq!(app.number("select retry_count::int8 from outbox").await, 5);
    assert_eq!(sink.got().last().unwrap().attempt, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_002_the_rows_own_limit_and_the_kind_of_failure_count() {
    let app = App::start().await;
    let mut ids = Vec::new();
    for aggregate in ["business", "validation", "two tries", "nine tries", "unreadable"] {
        ids.push(app.event(aggregate, "{}").await);
    }
    for (id, max_retries) in [(&ids[2], 2), (&ids[3], 9)] {
        app.run(&format!("update outbox set max_retries = {max_retries} where id = '{id}'")).await;
    }
    let failed = |error_type: &str, message: &str| {
        Sunk::Failed(Box::new(LetterError {
            error_type: error_type.to_owned(),
            message: message.to_owned(),
            ..LetterError::default()
        }))
    };
    let sink = Arc::new(Scripted::default());
    sink.always(&ids[0], failed("BusinessRuleViolation", "business rule violated: credit limit exceeded"));
    sink.always(&ids[1], answered(422));
    sink.always(&ids[2], answered(503));
    sink.always(&ids[3], answered(503));
    sink.always(&ids[4], failed("JSONDecodeError", "Expecting value: line 1 column 1 (char 0)"));
    let relay = app.relay(sink.clone());
    while app.number("select count(*) from outbox where status = 'DEAD_LETTER'").await < 5 {
        relay.tick().await.unwrap();
        app.let_time_pass().await;
        assert!(sink.got().len() <= 20, "{:?}", app.counts().await);
    }
    let tries = ids.iter().map(|id| sink.keys().iter().filter(|key| *key == id).count());
    assert_eq!(tries.collect::<Vec<_>>(), [3, 3, 2, 9, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_sets_every_number_for_each_class() {
    let mut app = App::start().await;
    let mut relay = app.config.relay.take().unwrap();
    let base = RetryPolicy { attempts: 2, first_ms: 5_000, ..*relay.retry.base() };
    relay.retry = RetryPolicies::new(Preset::Outbox, base);
    relay
        .retry
        .set(ErrorClass::Validation, RetryPolicy { attempts: 4, first_ms: 60_000, cap_ms: 60_000, ..base });
    app.config.relay = Some(relay);
    app.run("alter table outbox alter max_retries drop not null, alter max_retries drop default").await;
    let [refused, late] = [app.event("a", "{}").await, app.event("b", "{}").await];
    let sink = Arc::new(Scripted::default());
    sink.always(&refused, answered(422));
    sink.always(&late, answered(503));
    let relay = app.relay(sink.clone());
    let before = app.number(CLOCK).await;
    assert_eq!(relay.tick().await.unwrap().retried, 2);
    let after = app.number(CLOCK).await;
    let next = async |id: &str| app.number(&format!("{NEXT} where id = '{id}'")).await;
    let (refused_at, late_at) = (next(&refused).await, next(&late).await);
    assert!(refused_at - before >= 54_000 && refused_at - after <= 60_000, "{}", refused_at - before);
    assert!(late_at - before >= 5_000 && late_at - after <= 5_500, "{}", late_at - before);
    for _ in 0..4 {
        app.let_time_pass().await;
        relay.tick().await.unwrap();
    }
    let tries = |id: &String| sink.keys().iter().filter(|key| *key == id).count();
    assert_eq!((tries(&refused), tries(&late)), (4, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_012_a_row_that_is_tried_often_waits_for_the_cap() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    app.run("update outbox set max_retries = 12, retry_count = 8").await;
    let sink = Arc::new(Scripted::default());
    sink.always(&id, answered(503));
    let relay = app.relay(sink);
    let before = app.number(CLOCK).await;
    assert_eq!(relay.tick().await.unwrap().retried, 1);
    let next = app.number(NEXT).await;
    assert!(next - before >= 27_000 && next - app.number(CLOCK).await <= 30_000, "{}", next - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_011_what_failed_together_does_not_come_back_together() {
    let app = App::start().await;
    app.run("insert into outbox (event_type, aggregate_id, payload) select 'A', 'x' || n, '{}' from generate_series(1, 100) as n").await;
    let sink = Arc::new(Scripted::default());
    for n in 1..=100 {
        sink.always(&format!("x{n}"), answered(503));
    }
    assert_eq!(app.relay(sink).tick().await.unwrap().retried, 100);
    // In whole milliseconds behind the first; without a spread these would be as few as there were commits.
    let spread = "select count(distinct (extract(epoch from next_attempt_at) * 1000)::int8) from outbox";
    assert!(app.number(spread).await > 30, "{}", app.number(spread).await);
}

#[test]
fn rule_040_012_no_wait_is_longer_than_the_cap() {
    for (preset, cap_ms) in [(Preset::Outbox, 30_000), (Preset::ExternalApi, 300_000)] {
        for n in [6, 10, 100, u32::MAX] {
            for unit in [0.0, 0.5, 1.0] {
                assert!(preset.policy().delay_ms(n, unit) <= cap_ms, "{preset} {n}");
            }
        }
        assert_eq!(preset.policy().delay_ms(100, 0.0), cap_ms);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_013_nothing_is_tried_again_at_once() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    let sink = Arc::new(Scripted::default());
    sink.always(&id, answered(503));
    let relay = app.relay(sink.clone());
    let before = app.number(CLOCK).await;
    relay.tick().await.unwrap();
    assert!(app.number(NEXT).await >= before + 100);
    let worked = relay.tick().await.unwrap();
    assert_eq!((worked.claimed, sink.got().len()), (0, 1));
    // It knows when to look again.
    assert!(worked.next_due_ms.is_some_and(|due| due <= 1_100), "{worked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_relay_gives_up_is_captured() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    app.run("update outbox set max_retries = 1").await;
    let sink = Arc::new(Scripted::default());
    sink.always(&id, answered(422));
    let outbox = app.outbox();
    let (arrivals, worked) =
        tokio::join!(some(outbox.as_ref()), async { app.relay(sink.clone()).tick().await.unwrap() });
    assert_eq!(worked.died, 1);
    let captured = &arrivals[0].captured;
    assert_eq!((captured.message_id.as_str(), captured.retry_count), (id.as_str(), 1));
    assert_eq!(
        (captured.error.error_type.as_str(), captured.error.code.as_deref()),
        ("HttpAnswer", Some("422"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_event_wakes_a_relay_that_waits() {
    let app = App::start().await;
    assert_eq!(app.config.relay.as_ref().unwrap().poll_ms, NEVER_MS);
    let outbox = app.outbox();
    let sink = Arc::new(Scripted::default());
    let relay =
        lazaret_sources::outbox::Relay::new(outbox.clone(), sink.clone(), Default::default()).unwrap();
    // Captures beside it, because that is who listens.
    app.dead_event("x", "{}").await;
    some(outbox.as_ref()).await;
    let listening = async {
        loop {
            outbox.next().await.unwrap();
        }
    };
    let working = async {
        let worked = relay.tick().await.unwrap();
        assert_eq!(worked.claimed, 0);
        let id = app.event("a", "{}").await;
        relay.wait(&worked).await;
        relay.tick().await.unwrap();
        assert_eq!(sink.keys(), [id]);
    };
    let working = tokio::time::timeout(std::time::Duration::from_secs(60), working);
    tokio::select! { () = listening => {}, done = working => done.expect("it was not woken") }
}

/// Takes the row away from the relay that delivers it, as another one does whose turn it is.
#[derive(Debug)]
struct Thief(Mutex<Option<String>>);

#[async_trait]
impl Sink for Thief {
    fn name(&self) -> &str {
        "shop"
    }

    fn address(&self) -> String {
        "shop".to_owned()
    }

    async fn deliver(&self, _: &Delivery) -> Sunk {
        let url = self.0.lock().unwrap().take();
        if let Some(url) = url {
            let sql = "update outbox set next_attempt_at = now() + interval '1 hour'";
            connect(&url).await.batch_execute(sql).await.unwrap();
        }
        answered(422)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_lost_its_claim_writes_nothing() {
    let app = App::start().await;
    let id = app.event("a", "{}").await;
    let relay = app.relay(Arc::new(Thief(Mutex::new(Some(app.config.url.clone())))));
    let worked = relay.tick().await.unwrap();
    assert_eq!((worked.claimed, worked.died, worked.lost), (1, 0, 1));
    assert_eq!(app.status(&id).await, "PROCESSING");
    assert_eq!(app.number("select retry_count::int8 from outbox").await, 0);
}

/// Never comes to an end.
#[derive(Debug)]
struct Hanging;

#[async_trait]
impl Sink for Hanging {
    fn name(&self) -> &str {
        "shop"
    }

    fn address(&self) -> String {
        "shop".to_owned()
    }

    async fn deliver(&self, _: &Delivery) -> Sunk {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_hangs_is_a_failure_before_the_claim_is_over() {
    let mut app = App::start().await;
    app.config.relay = Some(RelayConfig { stuck_after_ms: 1_000, concurrency: 1, ..RelayConfig::default() });
    app.event("a", "{}").await;
    app.event("b", "{}").await;
    let worked = app.relay(Arc::new(Hanging)).tick().await.unwrap();
    // The second one had no time left, and was not tried.
    assert_eq!((worked.retried, worked.released, worked.lost), (1, 1, 0));
    let errors = "select count(*) from outbox where last_error like 'DeliveryTimeout: no end within 500 ms'";
    assert_eq!(app.number(errors).await, 1);
}
