//! Queues that do not fit, and queues of other types.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lazaret_worker::rabbitmq::{QueueType, Worker, WorkerError};
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{DLQ, QUEUE, Rig, Running, declare, next, parse, table, text, timed_out, wait_for};

async fn start(worker: Worker) -> WorkerError {
    worker.run(|_| async { Ok(()) }, std::future::pending()).await.unwrap_err()
}

#[tokio::test]
async fn a_queue_that_differs_is_refused_with_the_argument_that_differs() {
    let rig = Rig::start().await;
    let ttl = table([("x-message-ttl", AMQPValue::LongInt(5_000))]);
    declare(&rig.channel, DLQ, ttl).await;
    let error = start(rig.worker()).await;
    assert_eq!(
        error.to_string(),
        "queue billing-dlq exists with another `x-message-ttl`: received none but current is the value '5000' of \
         type 'signedint'; delete the queue, or set the worker up like it"
    );
    rig.delete_queue(DLQ).await;
    let transient = QueueDeclareOptions::default();
    rig.channel.queue_declare(QUEUE.into(), transient, FieldTable::default()).await.unwrap();
    let error = start(rig.worker()).await;
    assert!(matches!(&error, WorkerError::QueueDiffers { argument, .. } if argument == "durable"), "{error}");
    rig.delete_queue(QUEUE).await;
    // A delay queue that somebody else made.
    declare(&rig.channel, "orders.retry.200ms", FieldTable::default()).await;
    let error = start(rig.worker()).await;
    assert!(
        matches!(&error, WorkerError::QueueDiffers { queue, .. } if queue == "orders.retry.200ms"),
        "{error}"
    );
}

#[tokio::test]
async fn a_queue_with_arguments_of_its_own_is_used_as_it_is() {
    let rig = Rig::start().await;
    let arguments = table([("x-max-priority", AMQPValue::LongInt(5)), ("x-queue-mode", text("lazy"))]);
    declare(&rig.channel, QUEUE, arguments.clone()).await;
    let error = start(rig.worker()).await;
    assert!(matches!(error, WorkerError::QueueDiffers { .. }), "{error}");
    let worker = rig.worker().queue_arguments(arguments);
    let (running, mut deliveries) = Running::start_telling(worker, |_| Ok(()));
    crate::rig::publish(&rig.channel, QUEUE, Default::default(), "12").await;
    assert_eq!(next(&mut deliveries).await.body().as_ref(), b"12");
    running.stop().await;
}

#[tokio::test]
async fn a_broker_that_does_not_let_us_in_is_named_without_credentials() {
    let rig = Rig::start().await;
    for url in [
        rig.vhost.url.replace("guest:guest", "guest:geheim"),
        "amqp://guest:geheim@127.0.0.1:1/%2f".to_owned(),
        rig.vhost.url.replace("guest:guest", "guest:geheim") + "-missing",
    ] {
        let error = start(Worker::new(url, "billing", QUEUE)).await;
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(matches!(error, WorkerError::Connect { .. }), "{error}");
        assert!(error.to_string().starts_with("cannot connect to amqp://127.0.0.1:"), "{error}");
        assert!(!format!("{error} {error:?} {source:?}").contains("geheim"), "{error:?}");
    }
    let worker = Worker::new("amqp://guest:geheim@host/%2f", "billing", QUEUE);
    assert!(!format!("{worker:?}").contains("geheim"));
}

#[tokio::test]
async fn classic_and_quorum_queues_all_retry_and_bury() {
    for (queue_type, delay_queue_type, name) in [
        (QueueType::Classic, QueueType::Classic, "classic"),
        (QueueType::Quorum, QueueType::Quorum, "quorum"),
    ] {
        let rig = Rig::start().await;
        let worker = rig.worker().queue_type(queue_type).delay_queue_type(delay_queue_type);
        let (running, mut deliveries) = Running::start_telling(worker, |_| Err(timed_out()));
        wait_for("a consumer", async || rig.queue(QUEUE).await.is_some_and(|queue| queue["consumers"] == 1))
            .await;
        for queue in [QUEUE, DLQ, "orders.retry.200ms"] {
            assert_eq!(rig.queue(queue).await.unwrap()["type"], name, "{queue}");
        }
        crate::rig::publish(&rig.channel, QUEUE, Default::default(), "12").await;
        for retry_count in 0..=3 {
            assert_eq!(next(&mut deliveries).await.retry_count(), retry_count);
        }
        let letters = rig.dead_letters(1).await;
        assert_eq!((&parse(&letters[0]).original[..], parse(&letters[0]).retry_count), (&b"12"[..], 3));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_ends_its_worker_every_time_leaves_a_quorum_queue_for_the_dlq() {
    let rig = Rig::start().await;
    // Created by the first worker.
    for delivery in 1..=21 {
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker().queue_type(QueueType::Quorum), move |_| {
            handled.send(()).ok();
            std::future::pending()
        });
        if delivery == 1 {
            wait_for("the queue", async || rig.queue(QUEUE).await.is_some()).await;
            crate::rig::publish(&rig.channel, QUEUE, Default::default(), "poison").await;
        }
        next(&mut events).await;
        running.abort().await;
    }
    // As the broker dead-letters it: the message itself, with its reason.
    let letters = rig.dead_letters(1).await;
    assert_eq!(letters[0].data, b"poison");
    assert_eq!(crate::rig::header(&letters[0], "x-first-death-reason"), Some(&text("delivery_limit")));
}
