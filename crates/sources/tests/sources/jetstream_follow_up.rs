//! What happens to exhausted messages after their letters are stored: late acknowledgements, and originals that other consumers
//! need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::stream::RetentionPolicy;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use lazaret_brokers::nats::Version;
use lazaret_core::broker::Receipt;
use lazaret_sources::destination::{Destination, Sent};
use lazaret_sources::jetstream::{Bridge, FollowUp, JetStream};
use lazaret_sources::{Arrival, Duty, Source, WorkerReceipt};

use crate::jetstream_app::{MAX_DELIVER, NatsApp, WAIT_MAX, bridge_until, some_letters};
use crate::jetstream_redrive::outgoing;

fn count(duty: &FollowUp, name: &str) -> u64 {
    duty.counts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Lets the deliveries of one message time out, as a slow worker does; returns the last delivery.
async fn time_out(app: &NatsApp) -> Message {
    let until = Instant::now() + WAIT_MAX;
    let mut last = None;
    let mut deliveries = 0;
    while deliveries < MAX_DELIVER {
        assert!(Instant::now() < until, "{deliveries} deliveries");
        for message in app.pull(1, Duration::from_secs(2)).await {
            deliveries += 1;
            last = Some(message);
        }
    }
    // The server gives the message up when somebody pulls after its last wait.
    while app.count("LAZARET_ADVISORIES").await == 0 {
        assert!(Instant::now() < until, "no advisory");
        assert!(app.pull(1, Duration::from_millis(500)).await.is_empty());
    }
    last.unwrap()
}

/// Bridges, captures and acknowledges what the dead-letter stream has as its nth message.
async fn capture(app: &NatsApp, source: &Arc<JetStream>, nth: u64) -> Arrival {
    bridge_until(app, &Bridge::new(source.clone()), nth).await;
    let letters = some_letters(source).await;
    source.ack(&[letters[0].receipt.clone()]).await.unwrap();
    letters[0].clone()
}

async fn follow_up_until(duty: &FollowUp, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !is_so().await {
        assert!(Instant::now() < until, "{what}: {:?}", duty.counts());
        duty.run_once().await.unwrap();
    }
}

async fn receipts(source: &JetStream) -> Vec<WorkerReceipt> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "no receipt");
        let receipts = source.next_receipts().await.unwrap();
        if !receipts.is_empty() {
            return receipts;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_of_any_client_is_a_receipt() {
    for version in Version::ALL {
        for retention in [RetentionPolicy::Limits, RetentionPolicy::WorkQueue, RetentionPolicy::Interest] {
            let app = NatsApp::with_retention(version, retention).await;
            let sequence = app.publish("orders.new", HeaderMap::new(), "{}").await;
            let slow = time_out(&app).await;
            let source = app.source();
            let duty = FollowUp::new(source.clone());
            capture(&app, &source, 1).await;
            follow_up_until(&duty, "the message is not followed", async || count(&duty, "following") == 1)
                .await;
            assert_eq!(count(&duty, "late_acks"), 0, "{version:?} {retention:?}");
            slow.double_ack().await.unwrap();
            // Another process goes on.
            let source = app.source();
            let duty = FollowUp::new(source.clone());
            follow_up_until(&duty, "the acknowledgement is not seen", async || {
                count(&duty, "late_acks") == 1 && count(&duty, "following") == 0
            })
            .await;
            let receipts = receipts(&source).await;
            assert_eq!(receipts.len(), 1, "{version:?} {retention:?}: {receipts:?}");
            assert_eq!(receipts[0].receipt, Receipt::Late(app.origin(sequence)));
            assert!(receipts[0].at.is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_before_capture_is_seen_as_well() {
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::WorkQueue).await;
        let sequence = app.publish("orders.new", HeaderMap::new(), "{}").await;
        time_out(&app).await.double_ack().await.unwrap();
        let source = app.source();
        let duty = FollowUp::new(source.clone());
        // The acknowledgement removed the message before it could be copied.
        let letter = capture(&app, &source, 1).await;
        assert!(letter.captured.envelope.body_missing().is_some(), "{version:?}");
        follow_up_until(&duty, "the acknowledgement is not seen", async || count(&duty, "late_acks") == 1)
            .await;
        assert_eq!(receipts(&source).await[0].receipt, Receipt::Late(app.origin(sequence)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_message_that_is_acknowledged_late_settles_its_letter() {
    let app = NatsApp::start(Version::Current).await;
    let first = app.publish("orders.new", HeaderMap::new(), "{}").await;
    app.exhaust().await;
    let source = app.source();
    let letter = outgoing(&capture(&app, &source, 1).await);
    assert!(matches!(source.send(&letter).await, Sent::Taken { .. }));
    let advisories = app.count("LAZARET_ADVISORIES").await;
    let mut last = None;
    let until = Instant::now() + WAIT_MAX;
    // Sampling was written down in the same stream.
    while app.count("LAZARET_ADVISORIES").await == advisories {
        assert!(Instant::now() < until, "no advisory");
        last = app.pull(1, Duration::from_secs(2)).await.pop().or(last);
    }
    let relapse = capture(&app, &source, 2).await;
    assert_eq!(relapse.captured.mark.unwrap().letter, letter.letter);
    last.unwrap().double_ack().await.unwrap();
    let duty = FollowUp::new(source.clone());
    follow_up_until(&duty, "the acknowledgement is not seen", async || count(&duty, "late_acks") == 1).await;
    assert_eq!(receipts(&source).await[0].receipt, Receipt::Late(app.origin(first)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_late_is_no_success() {
    for version in Version::ALL {
        for late in [AckKind::Nak(None), AckKind::Progress, AckKind::Term] {
            let app = NatsApp::start(version).await;
            app.publish("orders.new", HeaderMap::new(), "{}").await;
            let slow = time_out(&app).await;
            let source = app.source();
            capture(&app, &source, 1).await;
            slow.ack_with(late).await.unwrap();
            app.client.flush().await.unwrap();
            let duty = FollowUp::new(source.clone());
            follow_up_until(&duty, "the message is not followed", async || count(&duty, "following") == 1)
                .await;
            // What was said late is kept by now, and looked at.
            assert_eq!(app.count("LAZARET_METRICS").await, 1);
            duty.run_once().await.unwrap();
            assert_eq!(
                (count(&duty, "late_acks"), count(&duty, "following")),
                (0, 1),
                "{version:?} {late:?}"
            );
        }
    }
}

async fn consumer(app: &NatsApp, name: &str) -> PullConsumer {
    let config = pull::Config {
        durable_name: Some(name.to_owned()),
        max_deliver: i64::from(MAX_DELIVER),
        ..pull::Config::default()
    };
    app.stream("ORDERS").await.create_consumer(config).await.unwrap()
}

async fn next(consumer: &PullConsumer) -> Option<Message> {
    let mut messages =
        consumer.batch().max_messages(1).expires(Duration::from_millis(500)).messages().await.unwrap();
    messages.next().await.map(|message| message.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_message_that_another_consumer_needs_is_deleted_after_a_restart() {
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::Interest).await;
        let billing = consumer(&app, "billing").await;
        app.exhausted("orders.new", "{}").await;
        let source = app.source();
        bridge_until(&app, &Bridge::new(source.clone()), 1).await;
        let letters = some_letters(&source).await;
        // Nothing is deleted that is not stored.
        let duty = FollowUp::new(source.clone());
        follow_up_until(&duty, "the message is not followed", async || count(&duty, "following") == 1).await;
        source.ack(&[letters[0].receipt.clone()]).await.unwrap();
        duty.run_once().await.unwrap();
        assert_eq!(app.count("ORDERS").await, 1, "{version:?}");
        drop((duty, source));
        app.kill().await;
        app.start_again().await;
        let until = Instant::now() + WAIT_MAX;
        while app.context.get_stream("ORDERS").await.is_err() {
            assert!(Instant::now() < until, "the application does not connect again");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let duty = FollowUp::new(app.source());
        follow_up_until(&duty, "the message is forgotten", async || count(&duty, "following") == 1).await;
        assert_eq!(app.count("ORDERS").await, 1, "{version:?}");
        next(&billing).await.unwrap().double_ack().await.unwrap();
        follow_up_until(&duty, "the message stays", async || app.count("ORDERS").await == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_all_consumers_exhausted_is_deleted() {
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::Interest).await;
        let billing = consumer(&app, "billing").await;
        app.exhausted("orders.new", "{}").await;
        while let Some(message) = next(&billing).await {
            message.ack_with(AckKind::Nak(None)).await.unwrap();
        }
        let source = app.source();
        bridge_until(&app, &Bridge::new(source.clone()), 2).await;
        let mut receipts = Vec::new();
        while receipts.len() < 2 {
            receipts.extend(some_letters(&source).await.into_iter().map(|it| it.receipt));
        }
        source.ack(&receipts).await.unwrap();
        let duty = FollowUp::new(source);
        follow_up_until(&duty, "the message stays", async || app.count("ORDERS").await == 0).await;
    }
}
