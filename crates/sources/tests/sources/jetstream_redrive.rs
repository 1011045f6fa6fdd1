//! The way back: published to the original subject, and verified by the consumer's acknowledgement.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::RetentionPolicy;
use lazaret_brokers::nats::Version;
use lazaret_core::header::HeaderValue;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::destination::{Content, Destination, Outgoing, Sent, Silence, Verified};
use lazaret_sources::jetstream::{Bridge, JetStream};
use lazaret_sources::testing::suite::verify;
use lazaret_sources::{Arrival, Source};

use crate::jetstream_app::{NatsApp, WAIT_MAX, bridge_until, some_letters};

/// A letter on its way back, as the claim of a run makes it.
pub fn outgoing(arrival: &Arrival) -> Outgoing {
    let at = Time::from_ms(1_763_175_600_000);
    let captured = &arrival.captured;
    let letter = LetterId::mint(at, [1; 10]);
    Outgoing {
        letter,
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: captured.message_id.clone(),
        idempotency_key: format!("{letter}:1:1"),
        content_type: captured.envelope.content_type().to_owned(),
        headers: captured.envelope.headers().to_vec(),
        body: captured.envelope.body().clone(),
        content: Content::Original,
        origin: captured.envelope.origin().cloned(),
    }
}

/// Captures the letter of a message that was exhausted.
async fn captured(app: &NatsApp, source: &std::sync::Arc<JetStream>, headers: HeaderMap) -> Arrival {
    app.publish("orders.new", headers, "{\"order\": 7}").await;
    app.exhaust().await;
    bridge_until(app, &Bridge::new(source.clone()), 1).await;
    let letters = some_letters(source).await;
    source.ack(&[letters[0].receipt.clone()]).await.unwrap();
    letters[0].clone()
}

async fn send(source: &JetStream, letter: &Outgoing) -> Option<String> {
    let Sent::Taken { handle } = source.send(letter).await else { panic!("not taken") };
    handle
}

async fn sampling(app: &NatsApp) -> i64 {
    let consumer = app.worker().await;
    i64::from(consumer.cached_info().config.sample_frequency)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_message_is_proved_by_its_consumers_acknowledgement() {
    for version in Version::ALL {
        for retention in [RetentionPolicy::Limits, RetentionPolicy::WorkQueue] {
            let app = NatsApp::with_retention(version, retention).await;
            let source = app.source();
            let mut headers = HeaderMap::new();
            headers.append("Tag", "one");
            headers.append("Tag", "two");
            headers.insert("Nats-Msg-Id", "order-7");
            let letter = captured(&app, &source, headers).await;
            let letter = outgoing(&letter);
            assert_eq!(source.route(&letter).await.unwrap().also_reaches, Vec::<String>::new());
            assert_eq!(sampling(&app).await, 0);
            let handle = send(&source, &letter).await;
            assert_eq!(sampling(&app).await, 100);
            assert_eq!(verify(source.as_ref(), &letter, handle.clone()).await, Verified::NotYet);
            let taken = app.pull(1, Duration::from_secs(5)).await;
            let headers = taken[0].headers.as_ref().unwrap();
            let tags: Vec<String> = headers.get_all("Tag").map(ToString::to_string).collect();
            assert_eq!(tags, ["one", "two"]);
            assert_eq!(headers.get("Lazaret-Letter-Id").unwrap().as_str(), letter.letter.to_string());
            assert_eq!(headers.get("Idempotency-Key").unwrap().as_str(), letter.idempotency_key);
            assert_eq!(headers.get("Nats-Msg-Id").unwrap().as_str(), letter.idempotency_key);
            assert_eq!(
                (&taken[0].subject[..], &taken[0].payload[..]),
                ("orders.new", &b"{\"order\": 7}"[..])
            );
            let before = verify(source.as_ref(), &letter, handle.clone()).await;
            assert!(matches!(before, Verified::Taken(Silence::Succeeds { .. })), "{before:?}");
            taken[0].double_ack().await.unwrap();
            let until = Instant::now() + WAIT_MAX;
            // Another process verifies: nothing of it is in memory.
            let other = app.source();
            loop {
                assert!(Instant::now() < until, "the acknowledgement is not seen");
                match verify(other.as_ref(), &letter, handle.clone()).await {
                    Verified::Succeeded { evidence, .. } => break assert_eq!(evidence, "acked"),
                    Verified::Taken(Silence::Succeeds { .. }) => {}
                    odd => panic!("{odd:?}"),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // The application's setting comes back once nobody sends any more.
            assert_eq!(other.restore_sampling(Duration::from_secs(60)).await.unwrap(), 0);
            assert_eq!(sampling(&app).await, 100);
            assert_eq!(other.restore_sampling(Duration::ZERO).await.unwrap(), 1);
            assert_eq!(sampling(&app).await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_message_that_dies_again_is_the_same_letter() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", "order-7");
        let first = captured(&app, &source, headers).await;
        let letter = outgoing(&first);
        let handle = send(&source, &letter).await;
        app.exhaust().await;
        let verified = verify(source.as_ref(), &letter, handle.clone()).await;
        assert!(!matches!(verified, Verified::Succeeded { .. }), "{version:?}: {verified:?}");
        bridge_until(&app, &Bridge::new(source.clone()), 2).await;
        let again = some_letters(&source).await;
        let captured = &again[0].captured;
        assert_eq!(captured.message_id, first.captured.message_id);
        let mark = captured.mark.unwrap();
        assert_eq!((mark.letter, mark.life, mark.redrive), (letter.letter, 1, letter.redrive));
        // What the redrive added is not part of the message.
        assert_eq!(captured.envelope.headers(), first.captured.envelope.headers());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_names_other_consumers_of_the_subject() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        for (name, filter) in
            [("audit", "orders.>"), ("billing", "orders.new"), ("returns", "orders.returned")]
        {
            let consumer = pull::Config {
                durable_name: Some(name.to_owned()),
                filter_subject: filter.to_owned(),
                ..pull::Config::default()
            };
            app.stream("ORDERS").await.create_consumer(consumer).await.unwrap();
        }
        let letter = outgoing(&captured(&app, &source, HeaderMap::new()).await);
        let mut route = source.route(&letter).await.unwrap();
        route.also_reaches.sort();
        assert_eq!(route.also_reaches, ["ORDERS.audit", "ORDERS.billing"]);
        assert!(route.address.ends_with(" orders.new"), "{}", route.address);
        assert!(source.deduplicates());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_is_refused_with_the_reason() {
    let app = NatsApp::start(Version::Current).await;
    let source = app.source();
    let letter = outgoing(&captured(&app, &source, HeaderMap::new()).await);
    let refusal = async |letter: &Outgoing| match source.send(letter).await {
        Sent::Refused(refusal) => format!("{}: {}", refusal.error.error_type, refusal.error.message),
        other => panic!("{other:?}"),
    };
    let binary = ("Raw".to_owned(), HeaderValue::RawText(vec![0xff].into()));
    let with_binary = Outgoing { headers: vec![binary], ..letter.clone() };
    assert!(refusal(&with_binary).await.starts_with("HeaderNotSendable: header \"Raw\""));
    assert!(refusal(&Outgoing { origin: None, ..letter.clone() }).await.starts_with("NoOrigin"));
    let large = Outgoing { body: vec![b'x'; 2 * 1024 * 1024].into(), ..letter.clone() };
    assert!(refusal(&large).await.starts_with("MessageTooLarge"));
    app.context.delete_stream("ORDERS").await.unwrap();
    assert!(refusal(&letter).await.starts_with("NoStream: no stream captures orders.new"));
    assert!(source.route(&letter).await.unwrap_err().contains("no stream captures"));
    app.kill().await;
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "the loss of the connection is not noticed");
        match source.send(&letter).await {
            Sent::Unsent(_) => break,
            Sent::Unknown(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_redrive_is_no_success() {
    for version in Version::ALL {
        let app = NatsApp::with_retention(version, RetentionPolicy::WorkQueue).await;
        let source = app.source();
        let letter = outgoing(&captured(&app, &source, HeaderMap::new()).await);
        let handle = send(&source, &letter).await;
        let taken = app.pull(1, Duration::from_secs(5)).await;
        taken[0].double_ack_with(AckKind::Term).await.unwrap();
        // Not even a quiet window may settle it once the advisory is there.
        let until = Instant::now() + WAIT_MAX;
        loop {
            assert!(Instant::now() < until, "the advisory is not seen");
            match verify(source.as_ref(), &letter, handle.clone()).await {
                Verified::NotYet => break,
                Verified::Taken(_) => {}
                verified @ (Verified::Succeeded { .. } | Verified::Lost(_)) => {
                    panic!("{version:?}: {verified:?}")
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_workers_are_handed_over_until_they_are_acknowledged() {
    use lazaret_core::broker::{RECEIPTS_SUBJECT, Receipt};
    use lazaret_sources::jetstream::captured_id;
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        let at = Time::from_ms(1_763_175_600_000);
        let late = Receipt::Late(app.origin(7));
        app.publish(RECEIPTS_SUBJECT, HeaderMap::new(), "{\"outcome\": \"failed\"}").await;
        app.publish(RECEIPTS_SUBJECT, HeaderMap::new(), &late.json(at)).await;
        for _ in 0..2 {
            let (until, mut receipts) = (Instant::now() + WAIT_MAX, Vec::new());
            while receipts.is_empty() {
                assert!(Instant::now() < until, "the receipt does not come");
                receipts = source.next_receipts().await.unwrap();
            }
            assert_eq!((receipts.len(), &receipts[0].receipt, receipts[0].at), (1, &late, Some(at)));
        }
        assert_eq!(captured_id(&app.origin(7)), app.message_id(7));
        let receipts = loop {
            let receipts = source.next_receipts().await.unwrap();
            if !receipts.is_empty() {
                break receipts;
            }
        };
        source.ack(&[receipts[0].ack.clone()]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(app.config.ack_wait_ms)).await;
        assert_eq!(source.next_receipts().await.unwrap(), []);
    }
}
