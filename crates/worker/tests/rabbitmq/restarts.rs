//! A broker that stops or crashes in every phase of a message's way, over TLS.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lapin::tcp::OwnedTLSConfig;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use lazaret_brokers::Certificates;
use lazaret_brokers::rabbitmq::{Options, Server};
use lazaret_worker::rabbitmq::Delivery;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use crate::rig::{
    self, DLQ, POLICY, QUEUE, Running, declare, invalid, next, parse, publish, take, timed_out,
};

/// Long enough for messages to be in their delay queues when the broker goes down.
const SLOW: lazaret_worker::RetryPolicy =
    lazaret_worker::RetryPolicy { attempts: 2, first_ms: 4_000, cap_ms: 10_000, ..POLICY };

/// A quorum queue repeats an unconfirmed hand-over to another queue after three minutes.
const HAND_OVER_MAX: Duration = Duration::from_secs(240);

struct Node {
    server: Server,
    channel: Option<(Connection, Channel)>,
}

impl Node {
    async fn channel(&mut self) -> &Channel {
        let is_connected = self.channel.as_ref().is_some_and(|(_, channel)| channel.status().connected());
        if !is_connected {
            let connection = Connection::connect(&self.server.url(), ConnectionProperties::default()).await;
            let connection = connection.unwrap();
            let channel = connection.create_channel().await.unwrap();
            channel.confirm_select(Default::default()).await.unwrap();
            self.channel = Some((connection, channel));
        }
        &self.channel.as_ref().unwrap().1
    }

    async fn publish(&mut self, body: &str, published: &mut BTreeSet<String>) {
        let properties = BasicProperties::default().with_delivery_mode(2);
        publish(self.channel().await, QUEUE, properties, body).await;
        published.insert(body.to_owned());
    }

    /// As after a power failure, or as an operator does it.
    async fn restart(mut self, end: fn(&mut Server)) -> Node {
        tokio::task::spawn_blocking(move || {
            end(&mut self.server);
            self.server.start_again();
            self
        })
        .await
        .unwrap()
    }

    async fn ready(&mut self, queue: &str) -> u32 {
        let options = lapin::options::QueueDeclareOptions { passive: true, ..Default::default() };
        let found = self.channel().await.queue_declare(queue.into(), options, Default::default()).await;
        found.unwrap().message_count()
    }

    async fn waiting(&mut self) -> u32 {
        let mut waiting = 0;
        for delay_ms in [3_200, 3_600, 4_000, 4_400, 4_800] {
            waiting += self.ready(&format!("{QUEUE}.retry.{delay_ms}ms")).await;
        }
        waiting
    }
}

/// `stay` waits for `go` and then fails, `late` times out, anything else is invalid.
#[tokio::test]
async fn no_message_is_lost_when_the_broker_restarts_in_any_phase() {
    let certificates = Certificates::generate();
    let ca = std::fs::read_to_string(certificates.ca()).unwrap();
    let options = Options { tls: Some(certificates), ..Options::default() };
    let server = tokio::task::spawn_blocking(|| Server::start_with(options)).await.unwrap();
    let mut node = Node { server, channel: None };
    declare(node.channel().await, QUEUE, Default::default()).await;
    let (handled, mut deliveries) = unbounded_channel();
    let (go, gone) = watch::channel(false);
    let tls = OwnedTLSConfig { cert_chain: Some(ca), identity: None };
    let worker = rig::worker(&node.server.tls_url()).retry_policy(SLOW).tls(tls);
    let running = Running::start(worker, move |delivery: Delivery| {
        let (handled, mut gone) = (handled.clone(), gone.clone());
        async move {
            handled.send((delivery.body().to_vec(), delivery.retry_count())).ok();
            match delivery.body().as_ref() {
                body if body.starts_with(b"stay") => {
                    gone.wait_for(|gone| *gone).await.ok();
                    Err(invalid())
                }
                body if body.starts_with(b"late") => Err(timed_out()),
                _ => Err(invalid()),
            }
        }
    });
    let mut expected = BTreeSet::new();

    // While a handler runs, messages wait for their retry, and dead letters wait for somebody. The handler's outcome comes too
    // late, so its message is delivered again.
    for n in 0..5 {
        node.publish(&format!("bad-{n}"), &mut expected).await;
    }
    node.publish("stay", &mut expected).await;
    for n in 0..20 {
        node.publish(&format!("late-{n}"), &mut expected).await;
    }
    for _ in 0..26 {
        assert_eq!(next(&mut deliveries).await.1, 0);
    }
    rig::wait_for("the first dead letters", async || node.ready(DLQ).await == 5).await;
    assert!(node.waiting().await > 0, "nothing waits for its retry any more");
    node = node.restart(Server::kill).await;
    assert_eq!(node.ready(DLQ).await, 5);
    while next(&mut deliveries).await.0 != b"stay" {}
    go.send_replace(true);

    // While messages are handed over to the DLQ.
    for n in 5..65 {
        node.publish(&format!("bad-{n}"), &mut expected).await;
    }
    rig::wait_for("more dead letters", async || node.ready(DLQ).await >= 10).await;
    node = node.restart(Server::stop).await;

    let mut missing = expected;
    let until = Instant::now() + HAND_OVER_MAX;
    while !missing.is_empty() {
        while let Some(letter) = take(node.channel().await, DLQ).await {
            assert_eq!(*letter.properties.delivery_mode(), Some(2));
            missing.remove(std::str::from_utf8(&parse(&letter).original).unwrap());
        }
        assert!(
            Instant::now() < until,
            "not in the DLQ: {missing:?}; {} wait for their retry, {} are in the work queue",
            node.waiting().await,
            node.ready(QUEUE).await
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig::wait_for("an empty queue", async || node.ready(QUEUE).await == 0).await;
    running.stop().await;
}
