//! Three servers with three replicas of everything: one of them dies during capture, another during a redrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::Config;
use lazaret_brokers::nats::{Cluster, Version};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::destination::{Content, Destination, Outgoing, Sent};
use lazaret_sources::jetstream::{JetStream, JetStreamConfig};
use lazaret_sources::{Declare, Source};

use crate::jetstream_app::WAIT_MAX;

const LETTERS: usize = 40;

async fn on_node(cluster: &Arc<Mutex<Cluster>>, node: usize, act: fn(&mut lazaret_brokers::nats::Server)) {
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || act(&mut cluster.lock().unwrap().nodes[node])).await.unwrap();
}

/// The nodes learn of a new stream one after the other.
async fn publish(context: &Context, n: usize) {
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "the stream takes nothing");
        let mut headers = HeaderMap::new();
        headers.insert("Lazaret-Original-Subject", "orders.new");
        headers.insert("Nats-Msg-Id", n.to_string().as_str());
        let sent = context.publish_with_headers("dlq.ORDERS.worker", headers, n.to_string().into());
        if sent.await.unwrap().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_costs_no_letter_and_sends_nothing_twice() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(Version::Current)).await.unwrap();
    let urls: Vec<String> = cluster.url().split(',').map(str::to_owned).collect();
    let client = async_nats::connect(urls.clone()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let orders = Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.>".to_owned()],
        num_replicas: 3,
        ..Config::default()
    };
    context.create_stream(orders).await.unwrap();
    let mut config = JetStreamConfig::new("shop", urls);
    (config.replicas, config.ack_wait_ms) = (3, 2_000);
    let source = JetStream::new(config).unwrap();
    source.declare(Declare::Apply).await.unwrap();
    for n in 0..LETTERS {
        publish(&context, n).await;
    }
    let cluster = Arc::new(Mutex::new(cluster));
    let (until, mut got) = (Instant::now() + 2 * WAIT_MAX, BTreeMap::new());
    let mut is_whole = true;
    while got.len() < LETTERS {
        assert!(Instant::now() < until, "{} of {LETTERS}", got.len());
        let Ok(arrivals) = source.next().await else { continue };
        for (n, arrival) in arrivals.into_iter().enumerate() {
            if n == 5 && std::mem::take(&mut is_whole) {
                on_node(&cluster, 0, lazaret_brokers::nats::Server::kill).await;
            }
            // What is not acknowledged comes again, as the same message.
            if source.ack(std::slice::from_ref(&arrival.receipt)).await.is_ok() {
                got.insert(arrival.captured.message_id.clone(), arrival);
            }
        }
    }
    assert!(!is_whole, "no node was killed");
    on_node(&cluster, 0, lazaret_brokers::nats::Server::start_again).await;
    let at = Time::from_ms(1_763_175_600_000);
    for (n, arrival) in (0_u8..).zip(got.values().take(10)) {
        if n == 3 {
            on_node(&cluster, 1, lazaret_brokers::nats::Server::kill).await;
        }
        let letter = LetterId::mint(at, [n; 10]);
        let outgoing = Outgoing {
            letter,
            life: 1,
            redrive: RedriveId::mint(at, [2; 10]),
            message_id: arrival.captured.message_id.clone(),
            idempotency_key: format!("{letter}:1:1"),
            content_type: String::new(),
            headers: Vec::new(),
            body: arrival.captured.envelope.body().clone(),
            content: Content::Original,
            origin: arrival.captured.envelope.origin().cloned(),
        };
        // An unknown outcome is repeated under the same key.
        loop {
            assert!(Instant::now() < until + WAIT_MAX, "letter {n} cannot be sent");
            match source.send(&outgoing).await {
                Sent::Taken { .. } => break,
                Sent::Unknown(_) | Sent::Unsent(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                other => panic!("{other:?}"),
            }
        }
    }
    let until = Instant::now() + WAIT_MAX;
    let messages = loop {
        assert!(Instant::now() < until, "the stream has no leader");
        if let Ok(stream) = context.get_stream("ORDERS").await {
            break stream.cached_info().state.messages;
        }
    };
    assert_eq!(messages, 10);
}
