//! What is captured from dead-letter queues, in every format, and how it is acknowledged.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::QueueDeleteOptions;
use lapin::types::{AMQPValue, FieldTable};
use lazaret_core::broker::rabbitmq::{self, DlqMessage};
use lazaret_core::broker::{self, Receipt};
use lazaret_core::header::HeaderValue;
use lazaret_core::letter::SourceWord;
use lazaret_core::origin::{Origin, RabbitMqOrigin};
use lazaret_core::time::Time;
use lazaret_sources::rabbitmq::{DeadLetterQueue, MessageField, RabbitMq};
use lazaret_sources::{Arrival, ChangeKind, Declare, Level, Source as _};

use crate::rabbitmq_app::{DLQ, QUEUE, RabbitApp, WAIT_MAX, ack, arrivals, publish};

fn table(entries: &[(&str, &str)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert((*name).into(), AMQPValue::LongString((*value).into()));
    }
    table
}

fn with_id(id: &str) -> BasicProperties {
    BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2)
}

async fn captured(source: &RabbitMq) -> Arrival {
    let mut all = arrivals(source, 1).await;
    assert_eq!(all.len(), 1);
    ack(source, &all).await;
    all.remove(0)
}

fn origin(app: &RabbitApp, exchange: &str, routing_key: &str) -> Origin {
    Origin::RabbitMq(RabbitMqOrigin {
        vhost: app.vhost.name.clone(),
        exchange: exchange.to_owned(),
        routing_key: routing_key.to_owned(),
        queue: Some(QUEUE.to_owned()),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_message_tells_where_and_why_it_died() {
    let app = RabbitApp::start().await;
    let exchange = "shop";
    let options = lapin::options::ExchangeDeclareOptions::default();
    let kind = lapin::ExchangeKind::Topic;
    app.channel.exchange_declare(exchange.into(), kind, options, FieldTable::default()).await.unwrap();
    let bind = lapin::options::QueueBindOptions::default();
    app.channel
        .queue_bind(QUEUE.into(), exchange.into(), "order.*".into(), bind, FieldTable::default())
        .await
        .unwrap();
    let properties = with_id("m-1").with_headers(table(&[("traceparent", "00-1")]));
    let before = Time::from_ms(lazaret_core_now() - 2_000);
    publish(&app.channel, exchange, "order.created", properties, br#"{"tenantId": "acme"}"#).await;
    app.reject(QUEUE).await;
    let source = app.source();
    let arrival = captured(&source).await;
    let letter = &arrival.captured;
    assert_eq!((letter.message_id.as_str(), letter.queue.as_str()), ("m-1", QUEUE));
    assert_eq!((letter.letter_type.as_str(), letter.tenant.as_deref()), ("order.created", Some("acme")));
    // The dead-letter queue is named after its service.
    assert_eq!((letter.subscriber.as_deref(), letter.retry_count), (Some("orders"), 0));
    assert_eq!(letter.error.error_type, "rejected");
    assert!(letter.error.message.contains(QUEUE), "{}", letter.error.message);
    assert!(letter.died_at.unwrap() >= before, "{:?}", letter.died_at);
    assert_eq!(letter.envelope.origin(), Some(&origin(&app, exchange, "order.created")));
    assert_eq!(&letter.envelope.body()[..], br#"{"tenantId": "acme"}"#);
    let names: Vec<&str> = letter.envelope.headers().iter().map(|(name, _)| name.as_str()).collect();
    for name in ["amqp.message-id", "amqp.delivery-mode", "traceparent", "x-death", "x-first-death-queue"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    app.wait_ready(DLQ, 0).await;
}

fn lazaret_core_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_of_the_broker_is_told() {
    let app = RabbitApp::start().await;
    let long = |text: &str| AMQPValue::LongString(text.into());
    for (queue, name, value) in [
        ("expiring", "x-message-ttl", AMQPValue::LongInt(10)),
        ("short", "x-max-length", AMQPValue::LongInt(0)),
        ("limited", "x-delivery-limit", AMQPValue::LongInt(0)),
    ] {
        let mut arguments = table(&[("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", DLQ)]);
        arguments.insert(name.into(), value);
        if queue == "limited" {
            arguments.insert("x-queue-type".into(), long("quorum"));
        }
        app.declare(queue, arguments).await;
        app.publish(queue, with_id(queue), b"x").await;
    }
    let limited = app.get("limited").await;
    limited.nack(lapin::options::BasicNackOptions { multiple: false, requeue: true }).await.unwrap();
    let source = app.source();
    let all = arrivals(&source, 3).await;
    let told: BTreeSet<(&str, &str)> =
        all.iter().map(|it| (it.captured.queue.as_str(), it.captured.error.error_type.as_str())).collect();
    let expected = [("expiring", "expired"), ("limited", "delivery_limit"), ("short", "maxlen")];
    assert_eq!(told, BTreeSet::from(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_worker_library_becomes_the_original_again() {
    let app = RabbitApp::start().await;
    let original = b" {\"tenantId\": 7, \"internalId\": \"i-1\", \"amount\": 1.50}\n";
    let dead = DlqMessage {
        error_type: "TimeoutError".to_owned(),
        error_message: "no answer".to_owned(),
        stack_trace: Some("at send (a.ts:1)".to_owned()),
        retry_count: 3,
        first_attempt_at: Some(Time::from_ms(1_763_175_600_000)),
        last_attempt_at: Some(Time::from_ms(1_763_175_614_000)),
        service: "billing".to_owned(),
        service_version: "1.2.3".to_owned(),
        ..DlqMessage::new(original.as_slice().into())
    };
    let attempts = r#"[{"at":"2025-11-15T03:00:00.250Z","type":"TimeoutError","message":"first"},
        {"at":"2025-11-15T03:00:14.750Z","durationMs":12,"type":"TimeoutError","message":"no answer"}]"#;
    let mut headers = table(&[
        (rabbitmq::ORIGINAL_QUEUE, QUEUE),
        (rabbitmq::ORIGINAL_EXCHANGE, "shop"),
        (rabbitmq::ORIGINAL_ROUTING_KEY, "order.created"),
        (rabbitmq::ORIGINAL_CONTENT_TYPE, "application/vnd.order+json"),
        (rabbitmq::ORIGINAL_EXPIRATION, "60000"),
        (broker::ATTEMPTS, attempts),
        ("traceparent", "00-1"),
    ]);
    headers.insert(rabbitmq::RETRY_COUNT.into(), AMQPValue::LongInt(3));
    let properties = with_id("m-1")
        .with_content_type("application/json".into())
        .with_timestamp(1_763_175_614)
        .with_correlation_id("c-1".into())
        .with_headers(headers);
    app.publish(DLQ, properties, &dead.to_json()).await;
    let arrival = captured(&app.source()).await;
    let letter = &arrival.captured;
    assert_eq!(&letter.envelope.body()[..], original);
    assert_eq!(letter.envelope.content_type(), "application/vnd.order+json");
    let shown: Vec<(&str, String)> = letter
        .envelope
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.shown().into_owned()))
        .collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        shown,
        [
            ("amqp.content-type", text("application/vnd.order+json")),
            ("amqp.expiration", text("60000")),
            ("amqp.correlation-id", text("c-1")),
            ("amqp.delivery-mode", text("2")),
            ("amqp.message-id", text("m-1")),
            ("traceparent", text("00-1")),
        ]
    );
    assert_eq!(letter.envelope.origin(), Some(&origin(&app, "shop", "order.created")));
    assert_eq!((letter.tenant.as_deref(), letter.subscriber.as_deref()), (Some("7"), Some("billing")));
    assert_eq!((letter.retry_count, letter.attempts.len()), (3, 2));
    assert_eq!(letter.died_at.unwrap().to_string(), "2025-11-15T03:00:14.750Z");
    assert_eq!(letter.error.backtrace.as_deref(), Some("at send (a.ts:1)"));
    let reported = letter.reported.as_deref().unwrap();
    for told in ["\"serviceVersion\":\"1.2.3\"", "\"internalId\":\"i-1\"", "\"firstAttemptAt\":\"2025-"] {
        assert!(reported.contains(told), "{told}: {reported}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_frameworks_and_raw_bytes_are_understood() {
    let mut app = RabbitApp::start().await;
    app.config.queues[0].original_queue = Some(QUEUE.to_owned());
    app.config.queues[0].service = Some("shop".to_owned());
    app.config.schema_version = MessageField::parse("$.meta.version").ok();
    let spring = table(&[
        ("x-exception-message", "no answer"),
        ("x-exception-stacktrace", "java.io.IOException: no answer\n\tat a.B.c(B.java:1)"),
        ("x-original-exchange", "shop"),
        ("x-original-routingKey", "order.created"),
    ]);
    app.publish(DLQ, with_id("spring").with_headers(spring), br#"{"meta": {"version": 2}}"#).await;
    let mass_transit = table(&[
        ("MT-Fault-ExceptionType", "System.TimeoutException"),
        ("MT-Fault-Message", "late"),
        ("MT-Fault-InputAddress", "rabbitmq://h/v/submit-order"),
        ("MT-Fault-ConsumerType", "Shop.SubmitOrder"),
    ]);
    app.publish(DLQ, with_id("masstransit").with_headers(mass_transit), b"{}").await;
    let dramatiq = br#"{"queue_name": "default", "actor_name": "charge", "args": [1], "kwargs": {}, "message_id": "d-1",
        "message_timestamp": 1, "options": {"retries": 4, "traceback": "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no card\n"}}"#;
    app.publish(DLQ, with_id("dramatiq"), dramatiq).await;
    app.publish(DLQ, with_id("raw"), &[0xff, 0x00, b'{']).await;
    let source = app.source();
    let all = arrivals(&source, 4).await;
    let by_id = |id: &str| &all.iter().find(|it| it.captured.message_id == id).unwrap().captured;
    let spring = by_id("spring");
    assert_eq!((spring.error.error_type.as_str(), spring.queue.as_str()), ("java.io.IOException", QUEUE));
    assert_eq!((spring.subscriber.as_deref(), spring.schema_version.as_deref()), (Some("shop"), Some("2")));
    assert_eq!(spring.envelope.origin(), Some(&origin(&app, "shop", "order.created")));
    let mass_transit = by_id("masstransit");
    assert_eq!(mass_transit.queue, "submit-order");
    assert_eq!(mass_transit.subscriber.as_deref(), Some("Shop.SubmitOrder"));
    let dramatiq = by_id("dramatiq");
    assert_eq!(
        (dramatiq.error.error_type.as_str(), dramatiq.error.message.as_str()),
        ("ValueError", "no card")
    );
    assert_eq!((dramatiq.letter_type.as_str(), dramatiq.retry_count), ("charge", 4));
    let raw = by_id("raw");
    assert_eq!(&raw.envelope.body()[..], [0xff, 0x00, b'{']);
    assert_eq!(raw.envelope.content_type(), "application/octet-stream");
    assert!(raw.error.message.contains("without an error") && raw.died_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_without_an_id_are_told_apart_by_delivery() {
    let app = RabbitApp::start().await;
    for _ in 0..2 {
        app.publish(DLQ, BasicProperties::default(), b"same").await;
    }
    app.publish(DLQ, BasicProperties::default(), b"other").await;
    let first = arrivals(&app.source(), 3).await;
    // Never delivered before: each is a message of its own, whatever it looks like.
    assert!(first.iter().all(|it| it.captured.word == SourceWord::NewDeath && it.captured.died_at.is_some()));
    let ids = |all: &[Arrival]| -> Vec<String> {
        let mut ids: Vec<_> = all.iter().map(|it| it.captured.message_id.clone()).collect();
        ids.sort();
        ids
    };
    let distinct: BTreeSet<String> = ids(&first).into_iter().collect();
    assert_eq!(distinct.len(), 3, "{distinct:?}");
    // The process ended between commit and acknowledgement: the same deaths are told again.
    let again = arrivals(&app.source(), 3).await;
    assert!(again.iter().all(|it| it.captured.word == SourceWord::SameDeath));
    assert_eq!(ids(&first), ids(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_a_queue_and_lose_nothing() {
    const MANY: usize = 200;
    let mut app = RabbitApp::start().await;
    app.config.prefetch = 20;
    let (one, other) = (app.source(), app.source());
    // Both consume before anything is there.
    tokio::try_join!(one.next(), other.next()).unwrap();
    for number in 0..MANY {
        app.publish(DLQ, with_id(&format!("m-{number}")), b"{}").await;
    }
    let mut got = BTreeSet::new();
    let from_one = one.next().await.unwrap();
    let from_other = other.next().await.unwrap();
    assert!(!from_one.is_empty() && !from_other.is_empty());
    got.extend(from_one.iter().map(|it| it.captured.message_id.clone()));
    ack(&one, &from_one).await;
    // What the other one has is given back with its connection.
    drop(other);
    let until = Instant::now() + WAIT_MAX;
    while got.len() < MANY {
        assert!(Instant::now() < until, "{} of {MANY}", got.len());
        let arrived = one.next().await.unwrap();
        ack(&one, &arrived).await;
        for arrival in arrived {
            assert!(got.insert(arrival.captured.message_id), "acknowledged and handed over again");
        }
    }
    app.wait_ready(DLQ, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_is_bounded_and_counted() {
    let mut app = RabbitApp::start().await;
    app.config.prefetch = 10;
    for number in 0..30 {
        app.publish(DLQ, with_id(&format!("m-{number}")), b"{}").await;
    }
    let source = app.source();
    let first = arrivals(&source, 10).await;
    assert_eq!(first.len(), 10);
    assert_eq!(source.next().await.unwrap(), Vec::new());
    let state = source.state();
    assert!(state.depth.is_some_and(|depth| (20..=30).contains(&depth)), "{state:?}");
    // In any order.
    let mut backwards = first;
    backwards.reverse();
    for arrival in &backwards {
        ack(&source, std::slice::from_ref(arrival)).await;
    }
    let rest = arrivals(&source, 10).await;
    assert!(
        rest.iter().all(|it| !backwards.iter().any(|had| had.captured.message_id == it.captured.message_id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_message_does_not_count_as_delivered_again() {
    let app = RabbitApp::start().await;
    // Such a queue drops what was returned more often than it allows.
    let arguments = table(&[("x-queue-type", "quorum")]);
    let mut limited = arguments.clone();
    limited.insert("x-delivery-limit".into(), AMQPValue::LongInt(1));
    app.declare("limited-dlq", limited).await;
    let mut config = app.config.clone();
    config.queues = vec![DeadLetterQueue::new("limited-dlq")];
    let source = RabbitMq::new(config).unwrap();
    app.publish("limited-dlq", with_id("m-1"), b"{}").await;
    for _ in 0..3 {
        let arrived = arrivals(&source, 1).await;
        source.release(&[arrived[0].receipt.clone()]).await.unwrap();
    }
    let arrived = arrivals(&source, 1).await;
    assert_eq!(arrived[0].captured.message_id, "m-1");
    ack(&source, &arrived).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_queue_is_told_and_consumed_again_once_it_is_there() {
    let app = RabbitApp::start().await;
    let source = app.source();
    assert_eq!(source.next().await.unwrap(), Vec::new());
    app.channel.queue_delete(DLQ.into(), QueueDeleteOptions::default()).await.unwrap();
    let until = Instant::now() + WAIT_MAX;
    let error = loop {
        assert!(Instant::now() < until, "the deletion is not noticed");
        match source.next().await {
            Err(error) if error.to_string().contains("missing") => break error,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert!(error.passes() && error.to_string().contains(DLQ), "{error}");
    let findings = source.check().await;
    assert!(findings.iter().any(|it| it.level == Level::Error && it.what.contains(DLQ)), "{findings:#?}");
    source.declare(Declare::Apply).await.unwrap();
    app.publish(DLQ, with_id("m-1"), b"{}").await;
    assert_eq!(captured(&source).await.captured.message_id, "m-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_queues_are_declared_once_and_existing_ones_left_alone() {
    let mut app = RabbitApp::start().await;
    app.declare("parking", table(&[("x-queue-type", "quorum")])).await;
    app.config.queues.push(DeadLetterQueue::new("parking"));
    app.config.queues.push(DeadLetterQueue::new("new-dlq"));
    let source = app.source();
    for how in [Declare::DryRun, Declare::Apply] {
        let changes = source.declare(how).await.unwrap();
        let told: Vec<_> = changes.iter().map(|it| (it.subject.as_str(), &it.kind)).collect();
        assert_eq!(told, [("queue new-dlq", &ChangeKind::Create)], "{how:?}");
    }
    assert_eq!(source.declare(Declare::DryRun).await.unwrap(), []);
    assert_eq!(app.ready("new-dlq").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_workers_are_handed_over_until_they_are_acknowledged() {
    let app = RabbitApp::start().await;
    let receipt =
        Receipt::Redriven { letter_id: "l-1".to_owned(), life: 2, redrive_id: Some("r-1".to_owned()) };
    let at = Time::from_ms(1_763_175_600_000);
    for body in [receipt.json(at).as_bytes(), b"no receipt", br#"{"letterId": "l-2", "outcome": "failed"}"#] {
        app.publish(rabbitmq::RECEIPTS_QUEUE, BasicProperties::default(), body).await;
    }
    for _ in 0..2 {
        // Not acknowledged, it comes again to the next process.
        let source = app.source();
        let mut got = Vec::new();
        let until = Instant::now() + WAIT_MAX;
        while got.is_empty() {
            assert!(Instant::now() < until, "no receipt");
            got = source.next_receipts().await.unwrap();
        }
        assert_eq!((got.len(), &got[0].receipt, got[0].at), (1, &receipt, Some(at)));
    }
    let source = app.source();
    let got = source.next_receipts().await.unwrap();
    source.ack(&[got[0].ack.clone()]).await.unwrap();
    drop(source);
    app.wait_ready(rabbitmq::RECEIPTS_QUEUE, 0).await;
    assert_eq!(app.source().next_receipts().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_looks_like_a_property_is_kept_apart() {
    let app = RabbitApp::start().await;
    let headers = table(&[("amqp.message-id", "mine"), ("amqp.header.x", "too")]);
    app.publish(DLQ, with_id("m-1").with_headers(headers), b"{}").await;
    let arrival = captured(&app.source()).await;
    let kept = arrival.captured.envelope.headers();
    for (name, value) in [
        ("amqp.message-id", "m-1"),
        ("amqp.header.amqp.message-id", "mine"),
        ("amqp.header.amqp.header.x", "too"),
    ] {
        assert!(kept.contains(&(name.to_owned(), HeaderValue::from(value))), "{name}: {kept:?}");
    }
}
