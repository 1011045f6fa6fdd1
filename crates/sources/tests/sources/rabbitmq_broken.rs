//! Brokers that stop, are killed and send what cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use lapin::BasicProperties;
use lapin::options::BasicGetOptions;
use lazaret_brokers::rabbitmq::Server;
use lazaret_core::header::HeaderValue;
use lazaret_core::origin::{Origin, RabbitMqOrigin};
use lazaret_sources::destination::{Content, Destination as _, Outgoing, Sent};
use lazaret_sources::rabbitmq::RabbitMq;
use lazaret_sources::testing::suite;
use lazaret_sources::{Level, Source as _};

use crate::rabbitmq_app::{DLQ, QUEUE, RabbitApp, WAIT_MAX, ack, arrivals, connect, header};

const MANY: usize = 300;

/// How long a node may take to stop and start again, several times.
const RESTART_MAX: Duration = Duration::from_secs(180);

type Node = Arc<Mutex<Server>>;

/// An application on a node of its own.
async fn own_node() -> (Node, RabbitApp) {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let (vhost, port) = (server.vhost(), server.port());
    let app = RabbitApp::at(vhost, port).await;
    (Arc::new(Mutex::new(server)), app)
}

/// Ends the node, as an operator and as a power failure do, and starts it again each time.
fn restart(node: &Node) -> tokio::task::JoinHandle<()> {
    let node = Arc::clone(node);
    tokio::task::spawn_blocking(move || {
        for end in [Server::stop, Server::kill] {
            std::thread::sleep(Duration::from_millis(300));
            let mut server = node.lock().unwrap();
            end(&mut server);
            server.start_again();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_outlives_restarts_of_the_broker() {
    let (node, app) = own_node().await;
    let expected: BTreeSet<String> = (0..MANY).map(|number| format!("m-{number}")).collect();
    for id in &expected {
        let properties = BasicProperties::default().with_message_id(id.as_str().into()).with_delivery_mode(2);
        app.publish(DLQ, properties, b"{}").await;
    }
    let mut config = app.config.clone();
    config.prefetch = 20;
    let source = RabbitMq::new(config).unwrap();
    let restarting = restart(&node);
    let (until, mut got, mut failures) = (Instant::now() + RESTART_MAX, BTreeSet::new(), 0);
    while got.len() < MANY || !restarting.is_finished() {
        assert!(Instant::now() < until, "{} of {MANY}, {failures} failures", got.len());
        match source.next().await {
            Ok(arrived) => {
                got.extend(arrived.iter().map(|it| it.captured.message_id.clone()));
                // What cannot be acknowledged comes again.
                let receipts: Vec<_> = arrived.into_iter().map(|it| it.receipt).collect();
                source.ack(&receipts).await.ok();
            }
            Err(error) => {
                assert!(error.passes(), "{error}");
                failures += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    restarting.await.unwrap();
    assert!(failures > 0);
    assert_eq!(got, expected);
    // What came again is acknowledged in the end, and nothing is left.
    let connection = connect(&app.vhost.url).await;
    let channel = connection.create_channel().await.unwrap();
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "something is left");
        let arrived = source.next().await.unwrap();
        ack(&source, &arrived).await;
        let left = channel.basic_get(DLQ.into(), BasicGetOptions { no_ack: false }).await.unwrap();
        if arrived.is_empty() && left.is_none() {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_redrive_says_is_true_over_restarts_of_the_broker() {
    let (node, app) = own_node().await;
    let source = app.source();
    let restarting = restart(&node);
    let until = Instant::now() + RESTART_MAX;
    let number = Mutex::new(0_usize);
    let mut outcomes: BTreeMap<String, Sent> = BTreeMap::new();
    while !restarting.is_finished() || outcomes.len() < MANY {
        assert!(Instant::now() < until, "{} sent", outcomes.len());
        let letters: Vec<Outgoing> = (0..32).map(|_| letter(&number)).collect();
        let answers: Vec<Sent> =
            stream::iter(&letters).map(|it| source.send(it)).buffered(32).collect().await;
        for (letter, sent) in letters.into_iter().zip(answers) {
            assert!(!matches!(sent, Sent::Refused(_) | Sent::Unfit(_)), "{sent:?}");
            outcomes.insert(letter.idempotency_key, sent);
        }
        if outcomes.len() > 50_000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    restarting.await.unwrap();
    let connection = connect(&app.vhost.url).await;
    let channel = connection.create_channel().await.unwrap();
    let mut there = BTreeSet::new();
    while let Some(got) = channel.basic_get(QUEUE.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
        assert!(there.insert(header(&got.delivery, "Idempotency-Key").unwrap()), "sent once and there twice");
    }
    let (mut taken, mut other) = (0, 0);
    for (key, sent) in &outcomes {
        match sent {
            Sent::Taken { .. } => {
                taken += 1;
                assert!(there.contains(key), "{key} was confirmed and is lost");
            }
            Sent::Unsent(_) => {
                other += 1;
                assert!(!there.contains(key), "{key} was not sent and is there");
            }
            // It may be there, and may not.
            _ => other += 1,
        }
    }
    assert!(taken > 0 && other > 0, "{taken} taken, {other} not");
}

fn letter(number: &Mutex<usize>) -> Outgoing {
    let mut number = number.lock().unwrap();
    *number += 1;
    let origin = RabbitMqOrigin { queue: Some(QUEUE.to_owned()), ..RabbitMqOrigin::default() };
    Outgoing {
        idempotency_key: format!("l:1:{number}"),
        headers: vec![("amqp.delivery-mode".to_owned(), HeaderValue::UInt8(2))],
        origin: Some(Origin::RabbitMq(origin)),
        ..suite::outgoing("m", "{}", Content::Original)
    }
}

/// A name of a header that is not UTF-8, which our client cannot read.
const POISON: &str = r#"
import sys, pika
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
properties = pika.BasicProperties(message_id="poison", headers={b"\xff\xfe": "x"})
channel.basic_publish("", sys.argv[2], b"{}", properties)
channel.connection.close()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_is_told_until_it_is_taken_out() {
    let app = RabbitApp::start().await;
    let url = app.vhost.url.clone();
    let ran = tokio::task::spawn_blocking(move || {
        Command::new(lazaret_brokers::python()).args(["-c", POISON, &url, DLQ]).output().unwrap()
    });
    let ran = ran.await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let source = app.source();
    for _ in 0..2 {
        let until = Instant::now() + WAIT_MAX;
        let error = loop {
            assert!(Instant::now() < until, "nothing is told");
            if let Err(error) = source.next().await {
                break error;
            }
        };
        assert!(error.passes() && error.to_string().contains("cannot be read"), "{error}");
        let findings = source.check().await;
        let told = findings.iter().find(|it| it.level == Level::Error).unwrap();
        assert!(told.what.contains("cannot be read") && told.hint.is_some(), "{findings:#?}");
    }
    let path = format!("/api/queues/{}/{DLQ}/contents", app.vhost.name);
    let purged =
        tokio::task::spawn_blocking(move || Server::shared().api("DELETE", &path, "")).await.unwrap();
    assert!(purged.is_some());
    app.publish(DLQ, BasicProperties::default().with_message_id("good".into()), b"{}").await;
    assert_eq!(arrivals(&source, 1).await[0].captured.message_id, "good");
    assert!(source.state().connected);
}
