//! NATS JetStream when something fails in between: a store that does not store, a node that dies during a redrive, a worker that
//! is done after its message was given up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::{self, Message, consumer::PullConsumer};
use futures_util::StreamExt as _;
use lazaret_brokers::nats::Version;
use lazaret_server::sources;
use lazaret_sources::jetstream::WatchedConsumer;
use lazaret_store::failure::{Failure, FailurePoint};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::jetstream::{Shop, WAIT_MAX, until};
use super::redriving::drive;

async fn publish_dead(shop: &Shop, numbers: std::ops::Range<u64>) {
    let context = jetstream::new(shop.client.clone());
    for n in numbers {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", n.to_string().as_str());
        let sent = context.publish_with_headers("dlq.ORDERS.billing", headers, format!("order {n}").into());
        sent.await.unwrap().await.unwrap();
    }
}

async fn letters(shop: &Shop) -> Vec<Value> {
    let list = shop.app.get("/api/v1/dead-letters?source=nats&limit=500").await.expect(200);
    list["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pulled_while_the_store_failed_is_released_and_comes_again() {
    const EACH: u64 = 20;
    for failure in [Failure::Unavailable, Failure::DiskFull, Failure::Panic] {
        // What is not released does not come again within this test.
        let shop = Shop::open_with(Version::Current, |config| config.ack_wait_ms = 3_600_000).await;
        let (app, running) = (&shop.app.app, shop.running());
        publish_dead(&shop, 0..EACH).await;
        let first = sources::capture_and_pull(app, &running, Vec::new()).await.unwrap();
        assert_eq!(first.len() as u64, EACH);
        publish_dead(&shop, EACH..2 * EACH).await;
        shop.app.store.failures().plan(FailurePoint::Commit, failure, 1);
        sources::capture_and_pull(app, &running, first).await.unwrap_err();
        assert_eq!(shop.count().await, 0, "{failure:?}");
        let (mut arrivals, end) = (Vec::new(), Instant::now() + WAIT_MAX);
        while shop.count().await < 2 * EACH {
            assert!(Instant::now() < end, "{failure:?}: {} letters", shop.count().await);
            arrivals = sources::capture_and_pull(app, &running, arrivals).await.unwrap();
        }
        assert!(arrivals.is_empty(), "{failure:?}");
        let bodies: BTreeSet<String> =
            letters(&shop).await.iter().map(|it| it["eventId"].as_str().unwrap().to_owned()).collect();
        assert_eq!(bodies.len() as u64, 2 * EACH);
        assert!(letters(&shop).await.iter().all(|letter| letter["life"] == 1), "{failure:?}");
        // Both halves were delivered twice: those that could not be stored, and those that were pulled meanwhile.
        let context = jetstream::new(shop.client.clone());
        let capture: PullConsumer = context.get_consumer_from_stream("lazaret-nats", "DLQ").await.unwrap();
        let info = capture.cached_info();
        assert_eq!((info.delivered.consumer_sequence, info.num_ack_pending), (4 * EACH, 0), "{failure:?}");
        shop.app.check().await;
    }
}

/// Kills the node that leads ORDERS once some of the redriven messages are in it; returns how many were by then.
fn kill_leader_after(shop: &Shop, before: u64) -> JoinHandle<u64> {
    let (client, nodes) = (shop.client.clone(), shop.nodes.clone());
    tokio::spawn(async move {
        let context = jetstream::new(client);
        let end = Instant::now() + WAIT_MAX;
        loop {
            assert!(Instant::now() < end, "nothing is redriven");
            let Ok(stream) = context.get_stream("ORDERS").await else { continue };
            let info = stream.cached_info();
            if info.state.last_sequence > before {
                let leader = info.cluster.as_ref().and_then(|it| it.leader.clone()).unwrap();
                let sent = info.state.last_sequence - before;
                let kill = move || {
                    let mut nodes = nodes.lock().unwrap();
                    let leads = |port: u16| leader.ends_with(&format!("-{port}"));
                    nodes.iter_mut().find(|node| leads(node.port())).unwrap().kill();
                };
                tokio::task::spawn_blocking(kill).await.unwrap();
                return sent;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_during_a_redrive_loses_and_doubles_nothing() {
    const DEAD: u64 = 400;
    for version in Version::ALL {
        let shop = Shop::on_cluster(version).await;
        let context = jetstream::new(shop.client.clone());
        for n in 0..DEAD {
            // The nodes learn of a new stream one after the other.
            until("the stream takes nothing", async || {
                let mut headers = HeaderMap::new();
                headers.insert("Nats-Msg-Id", format!("order-{n}").as_str());
                let sent = context.publish_with_headers("orders.new", headers, format!("order {n}").into());
                sent.await.unwrap().await.is_ok()
            })
            .await;
        }
        let mut tasks = shop.supervise();
        tasks.push(shop.work_plainly());
        until("not every exhausted message is a letter", async || shop.count().await == DEAD).await;
        let letter = letters(&shop).await[0]["id"].as_str().unwrap().to_owned();
        let killed = kill_leader_after(&shop, DEAD);
        let run = shop.redrive(&letter).await;
        let end = Instant::now() + 2 * WAIT_MAX;
        loop {
            drive(&shop.app).await;
            shop.app.pass(1_000);
            let state = shop.app.get(&run).await.expect(200);
            let count = |outcome: &str| state["letters"][outcome].as_u64().unwrap();
            if count("succeeded") + count("assumed") == DEAD {
                break;
            }
            assert!(Instant::now() < end, "{version:?}: {state}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let sent_before = killed.await.unwrap();
        assert!(sent_before < DEAD, "{version:?}: the node died after the redrive");
        // The node stays down. Every letter is in the stream once more, and once only. A cluster of 2.9 that changes its leader may
        // store a message twice that was repeated under its id; then both have the same idempotency key.
        let mut redriven = Vec::new();
        let stream = context.get_stream("ORDERS").await.unwrap();
        for sequence in DEAD + 1..=stream.cached_info().state.last_sequence {
            let headers = stream.get_raw_message(sequence).await.unwrap().headers;
            redriven.push(
                ["Lazaret-Letter-Id", "Idempotency-Key"].map(|name| headers.get(name).unwrap().to_string()),
            );
        }
        let letters_sent: BTreeSet<&String> = redriven.iter().map(|[letter, _]| letter).collect();
        let keys_sent: BTreeSet<&String> = redriven.iter().map(|[_, key]| key).collect();
        assert_eq!((letters_sent.len() as u64, keys_sent.len() as u64), (DEAD, DEAD), "{version:?}");
        if version == Version::Current {
            assert_eq!(redriven.len() as u64, DEAD, "{version:?}");
        }
        assert_eq!(shop.count().await, DEAD, "a redriven message became another letter");
        assert!(letters(&shop).await.iter().all(|letter| letter["status"] == "resolved"), "{version:?}");
        tasks.iter().for_each(JoinHandle::abort);
        shop.app.check().await;
    }
}

/// Takes deliveries and acknowledges none until the shop has a letter; returns the last delivery.
async fn work_too_slowly(shop: &Shop) -> Message {
    let context = jetstream::new(shop.client.clone());
    let billing: PullConsumer = context.get_consumer_from_stream("billing", "ORDERS").await.unwrap();
    let (mut last, end) = (None, Instant::now() + WAIT_MAX);
    while shop.count().await == 0 {
        assert!(Instant::now() < end, "no letter");
        let batch = billing.batch().max_messages(1).expires(Duration::from_millis(500));
        let mut messages = batch.messages().await.unwrap();
        while let Some(message) = messages.next().await {
            last = Some(message.unwrap());
        }
    }
    last.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_worker_that_acknowledges_late_resolves_its_letter() {
    for version in Version::ALL {
        let shop = Shop::open_with(version, |config| {
            let watched = WatchedConsumer::with_max_deliver("ORDERS", "billing", 2);
            config.consumers = vec![WatchedConsumer { backoff_ms: vec![500], ..watched }];
        })
        .await;
        let tasks = shop.supervise();
        let context = jetstream::new(shop.client.clone());
        context.publish("orders.new", "order 7".into()).await.unwrap().await.unwrap();
        let slow = work_too_slowly(&shop).await;
        assert_eq!(letters(&shop).await[0]["status"], "pending");
        slow.ack().await.unwrap();
        until("the letter stays pending", async || letters(&shop).await[0]["status"] == "resolved").await;
        let id = letters(&shop).await[0]["id"].as_str().unwrap().to_owned();
        let letter = shop.app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
        assert_eq!(letter["resolution"]["resolvedBy"], "source:nats", "{letter}");
        tasks.iter().for_each(JoinHandle::abort);
        shop.app.check().await;
    }
}
