//! A worker at work: concurrency, panics, receipts, shutdown, and a broker that drops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions};
use lapin::{ExchangeKind, types::FieldTable};
use lazaret_core::broker::Receipt;
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{
    QUEUE, Rig, Running, declare, header, invalid, next, parse, table, take, text, timed_out, wait_for,
};

#[tokio::test]
async fn at_most_four_messages_are_handled_at_a_time() {
    let rig = Rig::start().await;
    let (now, most, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), 60);
    let (handled, mut events) = unbounded_channel();
    let counted = (Arc::clone(&now), Arc::clone(&most));
    for n in 0..all {
        rig.publish(&n.to_string()).await;
    }
    let running = Running::start(rig.worker().concurrency(4).prefetch(20), move |_| {
        let ((now, most), handled) = (counted.clone(), handled.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            handled.send(()).ok();
            Ok(())
        }
    });
    for _ in 0..all {
        next(&mut events).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 4);
    rig.wait_until_idle().await;
    running.stop().await;
}

#[tokio::test]
async fn the_broker_sends_no_more_ahead_than_the_prefetch_count() {
    let rig = Rig::start().await;
    for n in 0..10 {
        rig.publish(&n.to_string()).await;
    }
    let (handled, mut events) = unbounded_channel();
    let worker = rig.worker().concurrency(8).prefetch(3).shutdown_limit(Duration::from_millis(10));
    let running = Running::start(worker, move |_| {
        handled.send(()).ok();
        std::future::pending()
    });
    for _ in 0..3 {
        next(&mut events).await;
    }
    assert_eq!(rig.ready(QUEUE).await, 7);
    assert!(events.try_recv().is_err());
    running.stop().await;
    wait_for("all messages to be back", async || rig.ready(QUEUE).await == 10).await;
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_others_go_on() {
    let rig = Rig::start().await;
    let running = Running::start(rig.worker().concurrency(1), |delivery| async move {
        match delivery.body().as_ref() {
            b"panic" => panic!("no such luck"),
            _ => Err(invalid()),
        }
    });
    rig.publish("panic").await;
    rig.publish("other").await;
    let letters = rig.dead_letters(2).await;
    let letters: Vec<_> = letters.iter().map(parse).collect();
    assert_eq!(letters[0].original, "other");
    let panicked = &letters[1];
    assert_eq!((&*panicked.error_type, &*panicked.error_message), ("panic", "no such luck"));
    assert_eq!(panicked.retry_count, 3);
    running.stop().await;
}

#[tokio::test]
async fn a_redriven_message_that_succeeds_is_receipted() {
    let rig = Rig::start().await;
    declare(&rig.channel, "lazaret.receipts", FieldTable::default()).await;
    let (running, _deliveries) = Running::start_telling(rig.worker(), |delivery| {
        if delivery.retry_count() == 0 { Err(timed_out()) } else { Ok(()) }
    });
    rig.publish("not redriven").await;
    let redriven = table([
        ("Lazaret-Letter-Id", text("018f")),
        ("Lazaret-Life", text("2")),
        ("Lazaret-Redrive-Id", text("r1")),
    ]);
    rig.publish_with(BasicProperties::default().with_headers(redriven), "redriven").await;
    wait_for("the receipt", async || rig.ready("lazaret.receipts").await == 1).await;
    rig.wait_until_idle().await;
    let receipt = take(&rig.channel, "lazaret.receipts").await.unwrap();
    let text = std::str::from_utf8(&receipt.data).unwrap();
    let (letter_id, redrive_id) = ("018f".to_owned(), Some("r1".to_owned()));
    let Some((receipt, Some(_))) = Receipt::parse(text) else { panic!("{text}") };
    assert_eq!(receipt, Receipt::Redriven { letter_id, life: 2, redrive_id });
    assert!(take(&rig.channel, "lazaret.receipts").await.is_none());
    running.stop().await;
}

/// Without Lazaret there is no queue for receipts.
#[tokio::test]
async fn a_receipt_that_nobody_wants_is_dropped_without_harm() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Ok(()));
    for _ in 0..3 {
        let redriven = table([("Lazaret-Letter-Id", text("018f")), ("Lazaret-Life", text("2"))]);
        rig.publish_with(BasicProperties::default().with_headers(redriven), "redriven").await;
        next(&mut deliveries).await;
    }
    rig.wait_until_idle().await;
    running.stop().await;
}

#[tokio::test]
async fn a_shutdown_waits_for_what_runs_and_gives_the_rest_back() {
    let rig = Rig::start().await;
    let (handled, mut events) = unbounded_channel();
    let worker = rig.worker().concurrency(2).prefetch(10).shutdown_limit(Duration::from_secs(1));
    for body in ["endless", "short", "waiting"] {
        rig.publish(body).await;
    }
    let running = Running::start(worker, move |delivery| {
        let handled = handled.clone();
        async move {
            handled.send("begun").ok();
            let is_endless = delivery.body().as_ref() == b"endless";
            tokio::time::sleep(Duration::from_millis(if is_endless { 600_000 } else { 300 })).await;
            handled.send("ended").ok();
            // Fails, so that the shutdown also waits for the dead letter.
            Err(invalid())
        }
    });
    assert_eq!((next(&mut events).await, next(&mut events).await), ("begun", "begun"));
    let stopped = Instant::now();
    running.stop().await;
    assert_eq!(next(&mut events).await, "ended");
    assert!(events.recv().await.is_none(), "a handler runs on, or one was begun");
    assert!(stopped.elapsed() >= Duration::from_secs(1));
    assert_eq!(parse(&rig.dead_letters(1).await[0]).original, "short");
    wait_for("the rest to be back", async || rig.ready(QUEUE).await == 2).await;
    let mut rest = Vec::new();
    while let Some(message) = take(&rig.channel, QUEUE).await {
        rest.push((
            String::from_utf8(message.data.clone()).unwrap(),
            header(&message, "x-retry-count").is_some(),
        ));
    }
    rest.sort();
    assert_eq!(rest, [("endless".to_owned(), false), ("waiting".to_owned(), false)]);
}

#[tokio::test]
async fn a_worker_whose_queue_was_deleted_declares_it_again() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Ok(()));
    rig.publish("1").await;
    assert_eq!(next(&mut deliveries).await.body().as_ref(), b"1");
    rig.wait_until_idle().await;
    rig.delete_queue(QUEUE).await;
    wait_for("a consumer", async || rig.queue(QUEUE).await.is_some_and(|queue| queue["consumers"] == 1))
        .await;
    rig.publish("2").await;
    assert_eq!(next(&mut deliveries).await.body().as_ref(), b"2");
    running.stop().await;
}

#[tokio::test]
async fn a_message_keeps_the_exchange_and_routing_key_that_it_was_published_with() {
    let rig = Rig::start().await;
    rig.declare_work_queue().await;
    let channel = &rig.channel;
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    channel.exchange_declare("shop".into(), ExchangeKind::Topic, options, none.clone()).await.unwrap();
    channel
        .queue_bind(QUEUE.into(), "shop".into(), "1.orders.*".into(), QueueBindOptions::default(), none)
        .await
        .unwrap();
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Err(timed_out()));
    let sent = channel.basic_publish(
        "shop".into(),
        "1.orders.new".into(),
        Default::default(),
        b"12",
        BasicProperties::default(),
    );
    sent.await.unwrap().await.unwrap();
    for _ in 0..=3 {
        let delivery = next(&mut deliveries).await;
        assert_eq!((&*delivery.exchange(), &*delivery.routing_key()), ("shop", "1.orders.new"));
    }
    let letters = rig.dead_letters(1).await;
    assert_eq!(header(&letters[0], "x-original-exchange"), Some(&text("shop")));
    assert_eq!(header(&letters[0], "x-original-routing-key"), Some(&text("1.orders.new")));
    running.stop().await;
}
