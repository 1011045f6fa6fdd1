//! What becomes of messages that succeed, fail for a while, or fail for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use futures_util::StreamExt as _;
use lazaret_brokers::nats::Version;
use lazaret_core::broker::{self, DeathReason};
use lazaret_core::class::ErrorClass;
use lazaret_worker::Failure;
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{Rig, Running, all_values, death, invalid, next, timed_out};

#[tokio::test]
async fn messages_that_succeed_are_acknowledged_and_at_most_four_run_at_a_time() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let (now, most, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), 60);
        let (handled, mut events) = unbounded_channel();
        let counted = (Arc::clone(&now), Arc::clone(&most));
        let running = Running::start(rig.worker().concurrency(4), move |delivery| {
            let ((now, most), handled) = (counted.clone(), handled.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                handled.send((delivery.sequence(), delivery.number()))?;
                Ok(())
            }
        });
        for n in 0..all {
            rig.publish(&n.to_string()).await;
        }
        let mut seen = Vec::new();
        for _ in 0..all {
            seen.push(next(&mut events).await);
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=all).map(|sequence| (sequence, 1)).collect::<Vec<_>>());
        rig.wait_until_idle().await;
        assert_eq!(rig.consumer().await.ack_floor.stream_sequence, all);
        assert!(most.load(Ordering::SeqCst) <= 4, "{most:?}");
        assert!(rig.messages("DLQ").await.is_empty());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_transient_failure_is_retried_after_the_policys_delays() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send((delivery.number(), Instant::now()))?;
                if delivery.number() < 3 { Err(timed_out()) } else { Ok(()) }
            }
        });
        rig.publish("12").await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(next(&mut events).await);
        }
        assert_eq!(seen.iter().map(|delivery| delivery.0).collect::<Vec<_>>(), [1, 2, 3]);
        let waits = [seen[1].1 - seen[0].1, seen[2].1 - seen[1].1];
        assert!(waits[0] >= Duration::from_millis(200), "{waits:?}");
        assert!(waits[1] >= Duration::from_millis(400), "{waits:?}");
        rig.wait_until_idle().await;
        assert!(rig.messages("DLQ").await.is_empty());
        running.stop().await;
    }
}

#[tokio::test]
async fn an_exhausted_message_becomes_a_dead_letter_with_its_history_and_holds_up_nobody() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let (handled, mut events) = unbounded_channel();
        let worker = rig.worker().concurrency(2).service_version("1.4.2");
        let running = Running::start(worker, move |delivery| {
            let handled = handled.clone();
            async move {
                if delivery.payload().as_ref() == b"poison" {
                    let message = format!("attempt {}\nfailed", delivery.number());
                    return Err(Failure::new("TimeoutError", message).with_backtrace("at bank\nat main"));
                }
                handled.send(delivery.sequence())?;
                Ok(())
            }
        });
        let mut copies = rig.client.subscribe("dlq.>").await.unwrap();
        let mut original = HeaderMap::new();
        original.append("Trace", "a");
        original.append("Trace", "b");
        original.append("Nats-Msg-Id", "order-1");
        original.append("Lazaret-Stream", "theirs");
        rig.publish_with(original, "poison").await;
        for n in 0..100 {
            rig.publish(&n.to_string()).await;
        }
        for _ in 0..100 {
            next(&mut events).await;
        }
        let letters = rig.dead_letters(1).await;
        let letter = &letters[0];
        assert_eq!(letter.subject.as_str(), "dlq.ORDERS.billing");
        assert_eq!(letter.payload.as_ref(), b"poison");
        let published = tokio::time::timeout(Duration::from_secs(60), copies.next()).await.unwrap().unwrap();
        let headers = all_values(published.headers.as_ref().unwrap());
        assert_eq!(headers["Trace"], ["a", "b"]);
        assert_eq!(headers["Lazaret-Original-Nats-Msg-Id"], ["order-1"]);
        assert_eq!(headers["Lazaret-Original-Lazaret-Stream"], ["theirs"]);
        let death = death(letter);
        let origin = death.origin.clone().unwrap();
        assert_eq!(headers["Nats-Msg-Id"], [origin.message_id()]);
        assert_eq!((&*origin.stream, origin.sequence, &*origin.consumer), ("ORDERS", 1, "billing"));
        let stream = rig.context.get_stream("ORDERS").await.unwrap();
        let created = stream.cached_info().created.unix_timestamp_nanos().div_euclid(1_000_000);
        assert_eq!(i128::from(origin.stream_created.ms()), created);
        assert_eq!(death.original_subject.as_deref(), Some("orders.new"));
        assert_eq!((death.deliveries, death.reason), (Some(3), Some(DeathReason::Exhausted)));
        assert_eq!(death.class, Some(ErrorClass::Transient));
        assert_eq!(death.service_version.as_deref(), Some("1.4.2"));
        let error = death.error.unwrap();
        assert_eq!((&*error.error_type, &*error.message), ("TimeoutError", "attempt 3\nfailed"));
        assert_eq!(error.backtrace.as_deref(), Some("at bank\nat main"));
        let told: Vec<&str> = death.attempts.iter().map(|attempt| &*attempt.error.message).collect();
        assert_eq!(told, ["attempt 1\nfailed", "attempt 2\nfailed", "attempt 3\nfailed"]);
        assert_eq!(death.first_attempt_at, death.attempts[0].at);
        assert_eq!(death.last_attempt_at, death.attempts[2].at);
        let waited = death.last_attempt_at.unwrap().since(death.first_attempt_at.unwrap());
        assert!(waited >= 600, "{waited} ms");
        rig.wait_until_idle().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_permanent_failure_is_published_first_and_terminated_second() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let mut all = rig.client.subscribe(">").await.unwrap();
        let running = Running::start(rig.worker(), |_| async { Err(invalid()) });
        rig.publish("nonsense").await;
        let mut order = Vec::new();
        while order.len() < 2 {
            let message = tokio::time::timeout(Duration::from_secs(60), all.next()).await.unwrap().unwrap();
            if message.subject.as_str() == "dlq.ORDERS.billing" {
                order.push("published");
            } else if message.subject.contains("MSG_TERMINATED.ORDERS.billing") {
                order.push("terminated");
            }
        }
        assert_eq!(order, ["published", "terminated"]);
        let letters = rig.dead_letters(1).await;
        let death = death(&letters[0]);
        assert_eq!((death.deliveries, death.reason), (Some(1), Some(DeathReason::Permanent)));
        assert_eq!(death.class, Some(ErrorClass::Validation));
        rig.wait_until_idle().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_panic_is_a_failure_of_its_message_alone() {
    let rig = Rig::start(Version::Current).await;
    let (handled, mut events) = unbounded_channel();
    let running = Running::start(rig.worker().concurrency(1), move |delivery| {
        let handled = handled.clone();
        async move {
            assert_ne!(delivery.payload().as_ref(), b"poison", "cannot bill this");
            handled.send(delivery.number())?;
            Ok(())
        }
    });
    rig.publish("poison").await;
    rig.publish("12").await;
    assert_eq!(next(&mut events).await, 1);
    let letters = rig.dead_letters(1).await;
    let death = death(&letters[0]);
    let error = death.error.unwrap();
    assert_eq!(error.error_type, "panic");
    assert!(error.message.contains("cannot bill this"), "{}", error.message);
    assert_eq!((death.deliveries, death.attempts.len()), (Some(3), 3));
    running.stop().await;
}

#[tokio::test]
async fn a_redriven_message_is_receipted_and_a_relapse_keeps_its_headers() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        let running = Running::start(rig.worker(), |delivery| async move {
            assert_eq!(delivery.idempotency_key(), Some("letter:2:1"));
            if delivery.payload().as_ref() == b"poison" { Err(invalid()) } else { Ok(()) }
        });
        let marks = [
            (broker::LETTER_ID, "0192e4a0-0000-7000-8000-000000000001"),
            (broker::LIFE, "2"),
            (broker::REDRIVE_ID, "0192e4a0-0000-7000-8000-000000000002"),
            (broker::IDEMPOTENCY_KEY, "letter:2:1"),
        ];
        let mut redriven = HeaderMap::new();
        for (name, value) in marks {
            redriven.append(name, value);
        }
        rig.publish_with(redriven.clone(), "poison").await;
        let letters = rig.dead_letters(1).await;
        let kept = all_values(&letters[0].headers);
        for (name, value) in marks {
            assert_eq!(kept[name], [value], "{name}");
        }
        assert!(rig.messages("RECEIPTS").await.is_empty());
        rig.publish_with(redriven, "12").await;
        let receipts = rig.wait_for_messages("RECEIPTS", 1).await;
        let receipt: serde_json::Value = serde_json::from_slice(&receipts[0].payload).unwrap();
        assert!(receipt["at"].as_str().unwrap().ends_with('Z'), "{receipt}");
        let mut names: Vec<&String> = receipt.as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(names, ["at", "letterId", "life", "outcome", "redriveId"]);
        assert_eq!((&receipt["letterId"], &receipt["redriveId"]), (&marks[0].1.into(), &marks[2].1.into()));
        assert_eq!((&receipt["life"], &receipt["outcome"]), (&2.into(), &"succeeded".into()));
        running.stop().await;
    }
}
