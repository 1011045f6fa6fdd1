//! The way back to RabbitMQ: what arrives, what is refused, and when a letter counts as done.

use std::time::Instant;

use futures_util::future::join_all;
use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use lazaret_core::broker::{IDEMPOTENCY_KEY, LETTER_ID, LIFE, REDRIVE_ID};
use lazaret_core::header::HeaderValue;
use lazaret_core::origin::{Origin, RabbitMqOrigin};
use lazaret_sources::destination::{Destination as _, Outgoing, Sent, Silence, Verified};
use lazaret_sources::rabbitmq::{ManagementConfig, RabbitMq, RedriveTo};
use lazaret_sources::testing::suite::verify;
use lazaret_sources::{Arrival, Source as _};

use crate::rabbitmq_app::{QUEUE, RabbitApp, WAIT_MAX, ack, arrivals, header, outgoing, publish};

/// A message that was published to an exchange and rejected.
async fn rejected(app: &RabbitApp, properties: BasicProperties) -> Arrival {
    let exchange = ExchangeDeclareOptions::default();
    let kind = lapin::ExchangeKind::Topic;
    app.channel.exchange_declare("shop".into(), kind, exchange, FieldTable::default()).await.unwrap();
    bind(app, QUEUE).await;
    publish(&app.channel, "shop", "order.created", properties, b"{}").await;
    app.reject(QUEUE).await;
    capture(app).await
}

async fn bind(app: &RabbitApp, queue: &str) {
    let options = QueueBindOptions::default();
    let bound =
        app.channel.queue_bind(queue.into(), "shop".into(), "order.*".into(), options, FieldTable::default());
    bound.await.unwrap();
}

async fn capture(app: &RabbitApp) -> Arrival {
    let source = app.source();
    let mut all = arrivals(&source, 1).await;
    ack(&source, &all).await;
    // The broker answers in order, so it has the acknowledgement by then.
    assert!(!source.check().await.is_empty());
    all.remove(0)
}

fn refusal(sent: &Sent) -> (&str, Option<&str>, &str) {
    match sent {
        Sent::Refused(refusal) => {
            let error = &refusal.error;
            (error.error_type.as_str(), error.code.as_deref(), error.message.as_str())
        }
        other => panic!("{other:?}"),
    }
}

fn to(queue: &str) -> Outgoing {
    let origin = RabbitMqOrigin { queue: Some(queue.to_owned()), ..RabbitMqOrigin::default() };
    Outgoing {
        origin: Some(Origin::RabbitMq(origin)),
        ..lazaret_sources::testing::suite::outgoing(
            "m-1",
            "{}",
            lazaret_sources::destination::Content::Original,
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_goes_back_to_its_queue_alone_and_a_relapse_is_recognised() {
    let app = RabbitApp::start().await;
    let mut headers = FieldTable::default();
    headers.insert("x-retry-count".into(), AMQPValue::LongInt(3));
    headers.insert("mine".into(), AMQPValue::LongString("kept".into()));
    let properties = BasicProperties::default()
        .with_expiration("600000".into())
        .with_user_id("guest".into())
        .with_delivery_mode(2)
        .with_headers(headers);
    let first = rejected(&app, properties).await;
    app.declare("audit", FieldTable::default()).await;
    bind(&app, "audit").await;
    let source = app.source();
    let mut letter = outgoing(&first);
    // The broker would route it there as well.
    letter.headers.push(("CC".to_owned(), HeaderValue::Array(vec![HeaderValue::from("audit")])));
    let route = source.route(&letter).await.unwrap();
    assert!(route.address.ends_with(&format!("{} queue {QUEUE}", app.vhost.name)), "{route:?}");
    assert_eq!(route.also_reaches, Vec::<String>::new());
    assert_eq!(source.send(&letter).await, Sent::Taken { handle: Some(QUEUE.to_owned()) });
    let back = app.get(QUEUE).await;
    assert_eq!(app.ready("audit").await, 0);
    let names: Vec<&str> =
        back.properties.headers().as_ref().unwrap().inner().keys().map(|name| name.as_str()).collect();
    let ours = [
        IDEMPOTENCY_KEY,
        "Lazaret-Event-Id",
        LETTER_ID,
        LIFE,
        "Lazaret-Original-Exchange",
        "Lazaret-Original-Routing-Key",
        REDRIVE_ID,
        "mine",
    ];
    assert_eq!(names, ours);
    assert_eq!((back.properties.expiration(), back.properties.message_id()), (&None, &None));
    assert_eq!(back.properties.user_id().as_ref().map(|it| it.as_str()), Some("guest"));
    let shown = source.headers(&letter).unwrap();
    assert!(shown.contains(&("mine".to_owned(), "kept".to_owned())), "{shown:?}");
    assert!(!shown.iter().any(|(name, _)| name == "x-death" || name == "x-retry-count"), "{shown:?}");

    // It dies again.
    back.reject(lapin::options::BasicRejectOptions { requeue: false }).await.unwrap();
    let again = capture(&app).await;
    let (one, other) = (&first.captured, &again.captured);
    assert_eq!(
        (&one.message_id, &one.subscriber, &one.tenant),
        (&other.message_id, &other.subscriber, &other.tenant)
    );
    let mark = other.mark.unwrap();
    assert_eq!((mark.letter, mark.life, mark.redrive), (letter.letter, letter.life, letter.redrive));
    // The first origin is kept, and nothing of the redrive is part of the message.
    assert_eq!(one.envelope.origin(), other.envelope.origin());
    let without_death = |arrival: &Arrival| -> Vec<(String, HeaderValue)> {
        let headers = arrival.captured.envelope.headers().iter();
        headers.filter(|(name, _)| !name.starts_with("x-") && name != "amqp.expiration").cloned().collect()
    };
    assert_eq!(without_death(&first), without_death(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_goes_back_to_its_exchange_by_choice() {
    let mut app = RabbitApp::start().await;
    let arrival = rejected(&app, BasicProperties::default().with_expiration("600000".into())).await;
    app.declare("audit", FieldTable::default()).await;
    bind(&app, "audit").await;
    app.config.redrive_to = RedriveTo::Exchange;
    app.config.restore_expiration = true;
    let source = app.source();
    let letter = outgoing(&arrival);
    let route = source.route(&letter).await.unwrap();
    assert!(route.address.contains("exchange shop"), "{route:?}");
    assert!(route.also_reaches[0].contains("not known without the management API"), "{route:?}");
    app.config.management = Some(ManagementConfig { url: app.vhost.management_url.clone() });
    assert_eq!(app.source().route(&letter).await.unwrap().also_reaches, ["audit"]);
    assert_eq!(source.send(&letter).await, Sent::Taken { handle: Some(QUEUE.to_owned()) });
    for queue in [QUEUE, "audit"] {
        let back = app.get(queue).await;
        assert_eq!((back.exchange.as_str(), back.routing_key.as_str()), ("shop", "order.created"));
        assert_eq!(back.properties.expiration().as_ref().map(|it| it.as_str()), Some("600000"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_does_not_take_is_refused_with_the_reason() {
    let mut app = RabbitApp::start().await;
    let source = app.source();
    let sent = source.send(&to("nowhere")).await;
    assert_eq!((refusal(&sent).0, refusal(&sent).1), ("Unroutable", Some("312")));
    assert!(refusal(&sent).2.contains("queue nowhere"), "{sent:?}");
    assert!(source.route(&to("nowhere")).await.unwrap_err().contains("does not exist"));

    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(0));
    full.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    app.declare("full", full).await;
    let sent = source.send(&to("full")).await;
    assert_eq!(refusal(&sent).0, "BrokerRefused");
    assert!(refusal(&sent).2.contains("nack"), "{sent:?}");

    let no_queue = Outgoing { origin: Some(Origin::RabbitMq(RabbitMqOrigin::default())), ..to("x") };
    let sent = source.send(&no_queue).await;
    assert_eq!(refusal(&sent).0, "NoOrigin");
    assert!(refusal(&sent).2.contains("original_queue"), "{sent:?}");
    let sent = source.send(&Outgoing { origin: None, ..to("x") }).await;
    assert_eq!(refusal(&sent).0, "NoOrigin");

    let mut long = to(QUEUE);
    long.headers = vec![("n".repeat(256), HeaderValue::Void)];
    assert_eq!(refusal(&source.send(&long).await).0, "HeaderNotSendable");
    let mut large = to(QUEUE);
    large.headers = vec![("large".to_owned(), HeaderValue::Text("x".repeat(200_000)))];
    let sent = source.send(&large).await;
    assert!(matches!(sent, Sent::Refused(_)), "{sent:?}");

    app.config.redrive_to = RedriveTo::Exchange;
    let source = app.source();
    let missing = RabbitMqOrigin { exchange: "gone".to_owned(), ..RabbitMqOrigin::default() };
    let missing = Outgoing { origin: Some(Origin::RabbitMq(missing)), ..to("x") };
    let sent = source.send(&missing).await;
    assert_eq!((refusal(&sent).0, refusal(&sent).1), ("BrokerRefused", Some("404")));
    assert!(source.route(&missing).await.is_err());
    // The channel that the broker closed is replaced.
    let there = RabbitMqOrigin { routing_key: QUEUE.to_owned(), ..RabbitMqOrigin::default() };
    let there = Outgoing { origin: Some(Origin::RabbitMq(there)), ..to("x") };
    assert!(matches!(source.send(&there).await, Sent::Taken { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_sends_at_once_gets_its_own_answer() {
    const MANY: usize = 400;
    let app = RabbitApp::start().await;
    let source = app.source();
    let letters: Vec<Outgoing> = (0..MANY)
        .map(|number| Outgoing {
            idempotency_key: format!("l:1:{number}"),
            ..to(if number % 3 == 0 { "nowhere" } else { QUEUE })
        })
        .collect();
    let began = Instant::now();
    let answers = join_all(letters.iter().map(|letter| source.send(letter))).await;
    println!("{MANY} letters in {:?}", began.elapsed());
    for (number, sent) in answers.iter().enumerate() {
        match number % 3 {
            0 => assert_eq!(refusal(sent).0, "Unroutable", "{number}"),
            _ => assert_eq!(*sent, Sent::Taken { handle: Some(QUEUE.to_owned()) }, "{number}"),
        }
    }
    let keys: std::collections::BTreeSet<String> =
        app.take().await.iter().map(|it| header(it, IDEMPOTENCY_KEY).unwrap()).collect();
    let expected = (0..MANY).filter(|number| number % 3 != 0).map(|number| format!("l:1:{number}"));
    assert_eq!(keys, expected.collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_nothing_is_sent() {
    let app = RabbitApp::start().await;
    let source = app.source();
    app.cable.cut().await;
    let sent = source.send(&to(QUEUE)).await;
    assert!(matches!(sent, Sent::Unsent(_)), "{sent:?}");
    app.cable.heal().await;
    assert!(matches!(source.send(&to(QUEUE)).await, Sent::Taken { .. }));
    // Lost while nothing is under way.
    app.cable.cut().await;
    let sent = source.send(&to(QUEUE)).await;
    assert!(matches!(sent, Sent::Unsent(_) | Sent::Unknown(_)), "{sent:?}");
    app.cable.heal().await;
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "the connection is not made again");
        if matches!(source.send(&to(QUEUE)).await, Sent::Taken { .. }) {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirm_that_does_not_come_is_unknown() {
    let app = RabbitApp::start().await;
    let mut config = app.config.clone();
    config.request_ms_max = 700;
    let source = RabbitMq::new(config).unwrap();
    assert!(matches!(source.send(&to(QUEUE)).await, Sent::Taken { .. }));
    app.cable.mute();
    let sent = source.send(&to(QUEUE)).await;
    assert!(matches!(sent, Sent::Unknown(_)), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quiet_window_begins_once_the_queue_was_drained_by_a_consumer() {
    let app = RabbitApp::start().await;
    let source = app.source();
    let letter = to(QUEUE);
    let Sent::Taken { handle } = source.send(&letter).await else { panic!("not taken") };
    let look = async || verify(source.as_ref(), &letter, handle.clone()).await;
    // It waits, and nobody is there to take it.
    assert_eq!(look().await, Verified::NotYet);
    let channel = app.connection.create_channel().await.unwrap();
    channel.basic_qos(1, lapin::options::BasicQosOptions::default()).await.unwrap();
    app.publish(QUEUE, BasicProperties::default(), b"later").await;
    let options = BasicConsumeOptions::default();
    let mut consumer =
        channel.basic_consume(QUEUE.into(), "app".into(), options, FieldTable::default()).await.unwrap();
    let delivery = futures_util::StreamExt::next(&mut consumer).await.unwrap().unwrap();
    // The letter is out, but another message waits: nobody can tell which of the two.
    assert_eq!(look().await, Verified::NotYet);
    delivery.ack(lapin::options::BasicAckOptions::default()).await.unwrap();
    app.wait_ready(QUEUE, 0).await;
    let taken = Verified::Taken(Silence::Succeeds { after_ms: app.config.quiet_ms });
    assert_eq!(look().await, taken);
    // What comes later does not matter.
    app.publish(QUEUE, BasicProperties::default(), b"much later").await;
    assert_eq!(look().await, taken);
    // With its consumer the message is given back.
    channel.close(200, "bye".into()).await.unwrap();
    app.wait_ready(QUEUE, 2).await;
    assert_eq!(look().await, Verified::NotYet);
    let unknown = verify(source.as_ref(), &letter, None).await;
    assert_eq!(unknown, Verified::Taken(Silence::SaysNothing));
}
