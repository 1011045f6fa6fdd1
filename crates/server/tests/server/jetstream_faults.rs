//! NATS JetStream when something fails in between: a worker that is done after its message was given up.

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, Message, consumer::PullConsumer};
use futures_util::StreamExt as _;
use lazaret_nats::Version;
use lazaret_sources::jetstream::WatchedConsumer;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::jetstream::{Shop, WAIT_MAX, until};

async fn letters(shop: &Shop) -> Vec<Value> {
    let list = shop.app.get("/api/v1/dead-letters?source=nats&limit=500").await.expect(200);
    list["items"].as_array().unwrap().clone()
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
