//! Dead letters that are hard to publish: nothing is lost, and what does not fit is cut.

use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::pull;
use lazaret_brokers::nats::{Options, Version};
use lazaret_core::broker::DeathReason;
use lazaret_worker::jetstream::{Worker, WorkerError};
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{Rig, Running, billing, death, invalid, next};

#[tokio::test]
async fn a_dead_letter_that_no_stream_takes_is_not_lost() {
    for version in Version::ALL {
        let rig = Rig::bare(Options { version, ..Options::default() }, ConnectOptions::new()).await;
        rig.create_stream("ORDERS", "orders.>").await;
        rig.create_consumer(billing()).await;
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send(delivery.number())?;
                Err(invalid())
            }
        });
        rig.publish("nonsense").await;
        assert_eq!(next(&mut events).await, 1);
        // Still with the consumer, and delivered again after a delay.
        assert_eq!(next(&mut events).await, 2);
        assert_eq!(rig.consumer().await.num_ack_pending, 1);
        rig.create_stream("DLQ", "dlq.>").await;
        let letters = rig.dead_letters(1).await;
        assert_eq!(letters[0].payload.as_ref(), b"nonsense");
        assert!(death(&letters[0]).deliveries >= Some(2));
        rig.wait_until_idle().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_dead_letter_that_no_stream_takes_on_the_last_delivery_is_left_to_the_advisory() {
    for version in Version::ALL {
        let rig = Rig::bare(Options { version, ..Options::default() }, ConnectOptions::new()).await;
        rig.create_stream("ORDERS", "orders.>").await;
        rig.create_stream("ADVISORIES", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>").await;
        rig.create_consumer(pull::Config { max_deliver: 1, ..billing() }).await;
        let running = Running::start(rig.worker(), |_| async { Err(invalid()) });
        rig.publish("nonsense").await;
        let advisories = rig.wait_for_messages("ADVISORIES", 1).await;
        let advisory: serde_json::Value = serde_json::from_slice(&advisories[0].payload).unwrap();
        assert_eq!((&advisory["stream_seq"], &advisory["consumer"]), (&1.into(), &"billing".into()));
        assert_eq!(rig.messages("ORDERS").await[0].payload.as_ref(), b"nonsense");
        running.stop().await;
    }
}

#[tokio::test]
async fn the_servers_limit_of_deliveries_counts_where_it_is_lower() {
    let rig = Rig::start(Version::Current).await;
    rig.create_consumer(pull::Config { max_deliver: 2, ..billing() }).await;
    let running = Running::start(rig.worker(), |_| async { Err(crate::rig::timed_out()) });
    rig.publish("12").await;
    let letters = rig.dead_letters(1).await;
    let death = death(&letters[0]);
    assert_eq!((death.deliveries, death.reason), (Some(2), Some(DeathReason::Exhausted)));
    rig.wait_until_idle().await;
    running.stop().await;
}

#[tokio::test]
async fn a_message_as_large_as_the_server_allows_still_becomes_a_dead_letter() {
    for version in Version::ALL {
        let options = Options { version, settings: "max_payload: 200000".into(), ..Options::default() };
        let rig = Rig::bare(options, ConnectOptions::new()).await;
        rig.create_stream("ORDERS", "orders.>").await;
        rig.create_stream("DLQ", "dlq.>").await;
        rig.create_consumer(billing()).await;
        let running = Running::start(rig.worker(), |_| async {
            Err(invalid().with_backtrace("at bank\n".repeat(50_000)))
        });
        // Room for the headers that have to be there and a little more, first; then room for the most that JetStream stores.
        for body_bytes in [198_000, 10] {
            rig.publish(&"x".repeat(body_bytes)).await;
        }
        let letters = rig.dead_letters(2).await;
        for (letter, backtrace_bytes) in letters.iter().zip([100..2_000, 30_000..65_536]) {
            let backtrace = death(letter).error.unwrap().backtrace.unwrap();
            assert!(backtrace.starts_with("at bank\nat bank\n"));
            assert!(backtrace_bytes.contains(&backtrace.len()), "{}", backtrace.len());
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_consumer_that_does_not_fit_is_refused_by_name() {
    let rig = Rig::start(Version::Current).await;
    let start = |stream: &str, consumer: &str| {
        Worker::new(rig.client.clone(), stream, consumer).run(|_| async { Ok(()) }, std::future::pending())
    };
    let error = start("NONE", "billing").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot use consumer billing of stream NONE");
    let error = start("ORDERS", "none").await.unwrap_err();
    assert!(matches!(error, WorkerError::Consumer { .. }), "{error:?}");
    let headers_only =
        pull::Config { durable_name: Some("heads".into()), headers_only: true, ..pull::Config::default() };
    rig.create_consumer(headers_only).await;
    let error = start("ORDERS", "heads").await.unwrap_err();
    assert!(error.to_string().contains("unset headers_only"), "{error}");
}

#[tokio::test]
async fn long_work_is_kept_alive() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let second = Duration::from_secs(1);
        // The server waits one second for the first delivery, whatever else is configured.
        let config = pull::Config { max_deliver: 5, backoff: vec![second, 2 * second], ..billing() };
        rig.context.delete_consumer_from_stream("billing", "ORDERS").await.unwrap();
        rig.create_consumer(config).await;
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                tokio::time::sleep(4 * second).await;
                handled.send(delivery.number())?;
                Ok(())
            }
        });
        rig.publish("12").await;
        assert_eq!(next(&mut events).await, 1);
        rig.wait_until_idle().await;
        let info = rig.consumer().await;
        assert_eq!((info.delivered.consumer_sequence, info.num_redelivered), (1, 0));
        running.stop().await;
    }
}
