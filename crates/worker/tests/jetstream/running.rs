//! A worker that is stopped, and a server or consumer that goes away under it.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use lazaret_brokers::nats::Version;
use lazaret_core::broker::Receipt;
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{Rig, Running, billing, next};

#[tokio::test]
async fn a_shutdown_waits_for_what_runs_and_gives_the_rest_back() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let (handled, mut events) = unbounded_channel();
        let worker = rig.worker().concurrency(2).shutdown_limit(Duration::from_secs(1));
        let running = Running::start(worker, move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send("begun")?;
                let is_endless = delivery.payload().as_ref() == b"endless";
                tokio::time::sleep(Duration::from_millis(if is_endless { 600_000 } else { 300 })).await;
                handled.send("ended")?;
                Ok(())
            }
        });
        rig.publish("endless").await;
        rig.publish("short").await;
        assert_eq!((next(&mut events).await, next(&mut events).await), ("begun", "begun"));
        // Not begun: both slots are taken.
        rig.publish("waiting").await;
        let stopped = Instant::now();
        running.stop().await;
        assert_eq!(next(&mut events).await, "ended");
        assert!(events.recv().await.is_none(), "a handler runs on");
        assert!(stopped.elapsed() >= Duration::from_secs(1));
        // The consumer waits 30 seconds for an answer, but it got one.
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send((delivery.payload().clone(), delivery.number()))?;
                Ok(())
            }
        });
        let mut rest = [next(&mut events).await, next(&mut events).await];
        rest.sort();
        assert_eq!(rest, [("endless".into(), 2), ("waiting".into(), 1)]);
        assert!(stopped.elapsed() < Duration::from_secs(25), "it was not given back");
        rig.wait_until_idle().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_restarted_server_and_a_consumer_created_anew_are_found_again() {
    for version in Version::ALL {
        let mut rig = Rig::start(version).await;
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send(delivery.payload().clone())?;
                Ok(())
            }
        });
        rig.publish("1").await;
        assert_eq!(next(&mut events).await, "1");
        rig.wait_until_idle().await;
        rig.server.stop();
        rig.server.start_again();
        rig.wait_until_connected().await;
        rig.publish("2").await;
        assert_eq!(next(&mut events).await, "2");
        rig.wait_until_idle().await;
        rig.context.delete_consumer_from_stream("billing", "ORDERS").await.unwrap();
        rig.create_consumer(billing()).await;
        for expected in ["1", "2"] {
            assert_eq!(next(&mut events).await, expected);
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_success_that_came_after_the_last_delivery_timed_out_is_receipted() {
    for version in Version::ALL {
        let mut rig = Rig::start(version).await;
        let config = pull::Config { max_deliver: 1, ack_wait: Duration::from_secs(1), ..billing() };
        rig.context.delete_consumer_from_stream("billing", "ORDERS").await.unwrap();
        rig.create_consumer(config).await;
        let (handled, mut events) = unbounded_channel();
        let (go, gone) = tokio::sync::watch::channel(false);
        let running = Running::start(rig.worker(), move |_| {
            let (handled, mut gone) = (handled.clone(), gone.clone());
            async move {
                handled.send(())?;
                gone.wait_for(|gone| *gone).await?;
                Ok(())
            }
        });
        rig.publish("12").await;
        next(&mut events).await;
        rig.server.stop();
        tokio::time::sleep(Duration::from_secs(2)).await;
        rig.server.start_again();
        rig.wait_until_connected().await;
        go.send_replace(true);
        let receipts = rig.wait_for_messages("RECEIPTS", 1).await;
        let text = String::from_utf8(receipts[0].payload.to_vec()).unwrap();
        let Some((Receipt::Late(origin), Some(_))) = Receipt::parse(&text) else { panic!("{text}") };
        assert_eq!((&*origin.stream, origin.sequence, &*origin.consumer), ("ORDERS", 1, "billing"));
        assert!(rig.messages("DLQ").await.is_empty());
        running.stop().await;
    }
}
