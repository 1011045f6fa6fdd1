//! From advisories to the dead-letter stream, on both versions of the server.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::stream::RetentionPolicy;
use lazaret_brokers::nats::Version;
use lazaret_core::broker::DeathReason;
use lazaret_sources::jetstream::{Bridge, BridgePoint};
use lazaret_sources::{Duty, Source, SourceError};

use crate::jetstream_app::{MAX_DELIVER, NatsApp, WAIT_MAX, bridge_until, some_letters};

fn count(bridge: &Bridge, name: &str) -> u64 {
    bridge.counts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_message_becomes_a_letter_with_all_that_it_had() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let mut headers = HeaderMap::new();
        headers.append("Tag", "one");
        headers.append("Tag", "two");
        headers.insert("Nats-Msg-Id", "order-7");
        headers.insert("Aggregate", "customer-1");
        headers.insert("Content-Type", "application/vnd.order+json");
        let sequence = app.publish("orders.new", headers, "{\"order\": 7}").await;
        app.exhaust().await;
        let source = app.source();
        bridge_until(&app, &Bridge::new(source.clone()), 1).await;
        let letters = some_letters(&source).await;
        let captured = &letters[0].captured;
        assert_eq!(captured.message_id, app.message_id(sequence));
        assert_eq!((captured.letter_type.as_str(), captured.queue.as_str()), ("orders.new", "ORDERS.worker"));
        assert_eq!(captured.subscriber.as_deref(), Some("worker"));
        assert_eq!(captured.aggregate.as_deref(), Some("customer-1"));
        assert_eq!((captured.retry_count, captured.max_retries), (MAX_DELIVER, Some(MAX_DELIVER)));
        assert_eq!(captured.error.error_type, "MaxDeliveriesExceeded");
        assert!(
            captured.error.message.contains("delivered 3 times to ORDERS.worker"),
            "{}",
            captured.error.message
        );
        assert!(captured.died_at.is_some());
        let envelope = &captured.envelope;
        assert_eq!(&envelope.body()[..], b"{\"order\": 7}");
        assert_eq!(envelope.content_type(), "application/vnd.order+json");
        let mut kept: Vec<(&str, &str)> = envelope
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_text().unwrap()))
            .collect();
        kept.sort_unstable();
        assert_eq!(
            kept,
            [
                ("Aggregate", "customer-1"),
                ("Content-Type", "application/vnd.order+json"),
                ("Nats-Msg-Id", "order-7"),
                ("Tag", "one"),
                ("Tag", "two"),
            ]
        );
        source.ack(&[letters[0].receipt.clone()]).await.unwrap();
        // A stream that keeps messages by limits keeps this one.
        assert_eq!(app.count("ORDERS").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_the_bridge_copies_a_message_once() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        for (n, point) in (1..).zip(BridgePoint::ALL) {
            app.exhausted("orders.new", "{}").await;
            let source = app.source();
            let first = Bridge::new(source.clone());
            first.stop_at(point);
            let until = Instant::now() + WAIT_MAX;
            let stopped = loop {
                assert!(Instant::now() < until, "the advisory does not come");
                if let Err(error) = first.run_once().await {
                    break error;
                }
            };
            assert_eq!(stopped, SourceError::Stopped(point.name()));
            let second = Bridge::new(app.source());
            while count(&second, "bridged") + count(&second, "duplicates") == 0 {
                assert!(Instant::now() < until, "the advisory does not come again: {:?}", second.counts());
                second.run_once().await.unwrap();
            }
            assert_eq!(app.count("DLQ").await, n, "{version:?} {}", point.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_message_leaves_its_work_queue_once_its_letter_is_committed() {
    for version in Version::ALL {
        for retention in [RetentionPolicy::WorkQueue, RetentionPolicy::Interest] {
            let app = NatsApp::with_retention(version, retention).await;
            app.exhausted("orders.new", "{}").await;
            let source = app.source();
            let bridge = Bridge::new(source.clone());
            bridge_until(&app, &bridge, 1).await;
            let letters = some_letters(&source).await;
            assert_eq!(app.count("ORDERS").await, 1, "{version:?} {retention:?}");
            source.ack(&[letters[0].receipt.clone()]).await.unwrap();
            assert_eq!(app.count("ORDERS").await, 0, "{version:?} {retention:?}");
            // The deletion may be told of as a termination: it is the same death.
            bridge.run_once().await.unwrap();
            assert_eq!(app.count("DLQ").await, 1, "{version:?} {retention:?}: {:?}", bridge.counts());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_message_whose_body_is_gone_is_a_letter_that_says_so() {
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::WorkQueue).await;
        let sequence = app.publish("orders.new", HeaderMap::new(), "{}").await;
        let messages = app.pull(1, Duration::from_secs(5)).await;
        messages[0].double_ack_with(AckKind::Term).await.unwrap();
        let source = app.source();
        let bridge = Bridge::new(source.clone());
        bridge_until(&app, &bridge, 1).await;
        assert_eq!(count(&bridge, "without_body"), 1);
        let letters = some_letters(&source).await;
        let captured = &letters[0].captured;
        assert_eq!(captured.message_id, app.message_id(sequence));
        assert_eq!(captured.error.error_type, "MessageTerminated");
        assert!(captured.envelope.body_missing().is_some_and(|why| why.contains("terminated")));
        assert_eq!(captured.queue, "ORDERS.worker");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workers_own_copy_and_the_advisory_are_one_letter() {
    use lazaret_core::broker::{BrokerDeath, HEADER_BYTES_MAX, MESSAGE_ID};
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::WorkQueue).await;
        let sequence = app.publish("orders.new", HeaderMap::new(), "{\"n\":1}").await;
        let messages = app.pull(1, Duration::from_secs(5)).await;
        let origin = app.origin(sequence);
        let death = BrokerDeath {
            origin: Some(origin.clone()),
            reason: Some(DeathReason::Permanent),
            ..BrokerDeath::default()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in death.headers(HEADER_BYTES_MAX) {
            headers.insert(name, value.as_str());
        }
        headers.insert(MESSAGE_ID, origin.message_id().as_str());
        app.publish(&origin.dead_letter_subject(), headers, "{\"n\":1}").await;
        messages[0].double_ack_with(AckKind::Term).await.unwrap();
        let source = app.source();
        let bridge = Bridge::new(source.clone());
        let until = Instant::now() + WAIT_MAX;
        while count(&bridge, "duplicates") == 0 {
            assert!(Instant::now() < until, "the advisory does not come: {:?}", bridge.counts());
            bridge.run_once().await.unwrap();
        }
        assert_eq!(app.count("DLQ").await, 1);
        let letters = some_letters(&source).await;
        assert_eq!(&letters[0].captured.envelope.body()[..], b"{\"n\":1}");
        assert_eq!(letters[0].captured.envelope.body_missing(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_advisory_is_kept_as_a_letter_and_blocks_nothing() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.worker";
        app.client.publish(subject, "not JSON".into()).await.unwrap();
        app.client.publish(subject, "{\"stream\":\"ORDERS\"}".into()).await.unwrap();
        // A stream that this account does not have.
        let strange = r#"{"stream":"STRANGE","consumer":"c","stream_seq":7,"deliveries":3}"#;
        app.client
            .publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.STRANGE.c", strange.into())
            .await
            .unwrap();
        app.exhausted("orders.new", "{}").await;
        let source = app.source();
        let bridge = Bridge::new(source.clone());
        bridge_until(&app, &bridge, 4).await;
        assert_eq!(
            (count(&bridge, "parked"), count(&bridge, "without_body"), count(&bridge, "bridged")),
            (2, 1, 1)
        );
        let letters = some_letters(&source).await;
        let parked = letters.iter().find(|it| &it.captured.envelope.body()[..] == b"not JSON").unwrap();
        assert_eq!(parked.captured.error.error_type, "AdvisoryNotBridged");
        assert_eq!(parked.captured.letter_type, subject);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_poison_message_among_a_thousand_good_ones_holds_up_nothing() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        for n in 0..1_001 {
            let body = if n == 500 { "poison" } else { "{}" };
            app.publish("orders.new", HeaderMap::new(), body).await;
        }
        let (mut good, mut refused, until) = (0, 0, Instant::now() + WAIT_MAX);
        while good < 1_000 || refused < MAX_DELIVER {
            assert!(Instant::now() < until, "{good} good, {refused} refused");
            for message in app.pull(100, Duration::from_millis(500)).await {
                if &message.payload[..] == b"poison" {
                    refused += 1;
                    message.ack_with(AckKind::Nak(None)).await.unwrap();
                } else {
                    good += 1;
                    message.ack().await.unwrap();
                }
            }
        }
        assert!(app.pull(1, Duration::from_millis(300)).await.is_empty());
        let source = app.source();
        bridge_until(&app, &Bridge::new(source.clone()), 1).await;
        let letters = some_letters(&source).await;
        assert_eq!(letters.len(), 1);
        assert_eq!(&letters[0].captured.envelope.body()[..], b"poison");
        assert_eq!(letters[0].captured.message_id, app.message_id(501));
    }
}
