//! A broker that stops or crashes in every phase of a message's way, over TLS.

use std::collections::BTreeSet;

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

/// Longer than a restart, so that messages wait in their delay queues meanwhile.
const SLOW: lazaret_worker::RetryPolicy =
    lazaret_worker::RetryPolicy { attempts: 2, first_ms: 2_000, cap_ms: 10_000, ..POLICY };

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

    async fn publish(&mut self, body: &str) {
        let properties = BasicProperties::default().with_delivery_mode(2);
        publish(self.channel().await, QUEUE, properties, body).await;
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
        for delay_ms in [1_600, 1_800, 2_000, 2_200, 2_400] {
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

    // While a handler runs: its outcome comes too late, and the message is delivered again.
    node.publish("stay").await;
    expected.insert("stay".to_owned());
    assert_eq!(next(&mut deliveries).await, (b"stay".to_vec(), 0));
    node = node.restart(Server::kill).await;
    assert_eq!(next(&mut deliveries).await, (b"stay".to_vec(), 0));
    go.send_replace(true);

    // While messages wait for their retry.
    for n in 0..20 {
        node.publish(&format!("late-{n}")).await;
        expected.insert(format!("late-{n}"));
    }
    for _ in 0..20 {
        assert_eq!(next(&mut deliveries).await.1, 0);
    }
    rig::wait_for("the delay queues to fill", async || node.waiting().await >= 15).await;
    node = node.restart(Server::kill).await;

    // While retries are handed over to the DLQ, and with dead letters in it already.
    for n in 0..60 {
        node.publish(&format!("bad-{n}")).await;
        expected.insert(format!("bad-{n}"));
    }
    rig::wait_for("dead letters", async || node.ready(DLQ).await >= 10).await;
    node = node.restart(Server::stop).await;

    let mut dead = BTreeSet::new();
    rig::wait_for("all dead letters", async || {
        while let Some(letter) = take(node.channel().await, DLQ).await {
            assert_eq!(*letter.properties.delivery_mode(), Some(2));
            dead.insert(String::from_utf8(parse(&letter).original.to_vec()).unwrap());
        }
        dead.len() >= expected.len()
    })
    .await;
    assert_eq!(dead, expected);
    rig::wait_for("an empty queue", async || node.ready(QUEUE).await == 0).await;
    running.stop().await;
}
