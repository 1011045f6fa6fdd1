//! A relay or its database dies at any moment: every event is delivered all the same, and none is lost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lazaret_core::class::ClassRules;
use lazaret_sources::outbox::{Go, Outbox, Point, Relay, RelayConfig};
use lazaret_sources::{Source, SourceError};
use lazaret_store::testing::own::{OwnServer, Stop};

use crate::app::App;
use crate::sinks::{Scripted, answered};

const EVENTS: i64 = 60;

async fn fill(app: &App) {
    app.run(&format!(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select 'A', 'order', (n % 15)::text, to_jsonb(n) from generate_series(1, {EVENTS}) as n order by n"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_dies_at_any_point_loses_nothing() {
    for point in Point::ALL {
        for times in [1, 2, 5] {
            let mut app = App::start().await;
            app.config.relay = Some(RelayConfig { batch: 10, concurrency: 3, ..RelayConfig::default() });
            fill(&app).await;
            let sink = Arc::new(Scripted::default());
            let seen = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&seen);
            let dying = app.relay(sink.clone()).with_hook(move |reached| {
                let dies = reached == point && counted.fetch_add(1, Ordering::SeqCst) + 1 == times;
                if dies { Go::Die } else { Go::On }
            });
            let died = loop {
                match dying.tick().await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(died, SourceError::Stopped(point.name()));
            let delivered_before = sink.keys().len();
            if point != Point::Settled {
                assert_ne!(app.number("select count(*) from outbox where status = 'PROCESSING'").await, 0);
            }
            // Another one finds them stuck, not before their time is over.
            let relay = app.relay(sink.clone());
            while relay.tick().await.unwrap().claimed > 0 {}
            app.let_time_pass().await;
            let until = Instant::now() + Duration::from_secs(60);
            while app.number("select count(*) from outbox where status <> 'PROCESSED'").await > 0 {
                assert!(Instant::now() < until, "{point:?} {times}: {}", app.counts().await);
                relay.tick().await.unwrap();
            }
            let keys = sink.keys();
            let once: BTreeSet<&String> = keys.iter().collect();
            assert_eq!(once.len() as i64, EVENTS, "{point:?} {times}");
            // What came twice is what had been delivered and not written down: never more than one batch.
            assert!(keys.len() as i64 - EVENTS <= 10, "{point:?} {times}: {} {delivered_before}", keys.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_relay_that_works_are_not_taken_for_stuck() {
    let app = App::start().await;
    fill(&app).await;
    let claimed = app.relay(Arc::new(Scripted::default())).with_hook(|_| Go::Die);
    assert_eq!(claimed.tick().await, Err(SourceError::Stopped("claimed")));
    let other = app.relay(Arc::new(Scripted::default()));
    let worked = other.tick().await.unwrap();
    assert_eq!((worked.claimed, worked.taken_back), (0, 0));
    // It knows when they would be.
    assert!(worked.next_due_ms.is_some_and(|due| due > 1_000), "{worked:?}");
    app.let_time_pass().await;
    assert_eq!(other.tick().await.unwrap().taken_back, 60);
    // Nobody knows whether they were delivered: each counts as a try, or a row that kills its relay would do so for ever.
    let counted = "select count(*) from outbox where retry_count = 1 and last_error like 'ClaimExpired: %'";
    assert_eq!(app.number(counted).await, 60);
}

/// Ticks whatever happens, for as long as it is asked to.
async fn relay_on(relay: &Relay) {
    loop {
        match relay.tick().await {
            Ok(worked) => relay.wait(&worked).await,
            Err(error) => assert!(error.passes(), "{error:?}"),
        }
    }
}

async fn capture_on(outbox: &Outbox, captured: &Mutex<BTreeSet<String>>) {
    loop {
        match outbox.next().await {
            Ok(arrivals) => {
                let receipts: Vec<_> = arrivals.iter().map(|arrival| arrival.receipt.clone()).collect();
                captured
                    .lock()
                    .unwrap()
                    .extend(arrivals.iter().map(|arrival| arrival.captured.message_id.clone()));
                outbox.ack(&receipts).await.unwrap();
            }
            Err(error) => assert!(error.passes(), "{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_applications_postgresql_may_be_restarted_at_any_time() {
    let server = Arc::new(tokio::task::spawn_blocking(OwnServer::start).await.unwrap());
    let mut app = App::at(&server.url());
    app.config.poll_ms = 50;
    app.config.relay = Some(RelayConfig {
        batch: 5,
        concurrency: 2,
        stuck_after_ms: 1_000,
        poll_ms: 50,
        ..RelayConfig::default()
    });
    app.make_table().await;
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload, max_retries)
         select 'A', 'order', (n % 40)::text, to_jsonb(n), case n % 40 when 7 then 1 else 5 end
           from generate_series(1, 400) as n order by n",
    )
    .await;
    let sink = Arc::new(Scripted::default());
    // Events of one aggregate die, every one of them, at their first try.
    sink.always("7", answered(422));
    let outbox = app.outbox();
    let relay = Relay::new(app.outbox(), sink.clone(), ClassRules::default()).unwrap();
    let captured = Mutex::new(BTreeSet::new());
    let restarting = async {
        for how in [Stop::Fast, Stop::Immediate, Stop::Immediate] {
            let server = Arc::clone(&server);
            let restart = move || {
                server.stop(how);
                server.start_again();
            };
            tokio::task::spawn_blocking(restart).await.unwrap();
        }
        let until = Instant::now() + Duration::from_secs(120);
        let left = "select count(*) from outbox where status not in ('PROCESSED', 'DEAD_LETTER')";
        while app.number(left).await > 0 || captured.lock().unwrap().len() < 10 {
            assert!(Instant::now() < until, "{} {:?}", app.counts().await, captured.lock().unwrap());
        }
    };
    tokio::select! {
        () = restarting => {}
        () = capture_on(&outbox, &captured) => {}
        () = relay_on(&relay) => {}
    }
    let dead = app.rows("select id::text from outbox where status = 'DEAD_LETTER'", &[]).await;
    let dead: BTreeSet<String> = dead.iter().map(|row| row.get(0)).collect();
    assert_eq!((dead.len(), &dead), (10, &*captured.lock().unwrap()));
    let keys: BTreeSet<String> = sink.keys().into_iter().collect();
    assert_eq!(keys.len(), 400);
}
