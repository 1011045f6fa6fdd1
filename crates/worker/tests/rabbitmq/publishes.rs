//! Retries and dead letters that cannot be published: the message is never lost.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::rig::{
    DLQ, POLICY, QUEUE, Rig, Running, header, invalid, next, parse, table, text, timed_out, wait_for,
};

#[tokio::test]
async fn a_dlq_and_a_delay_queue_that_were_deleted_are_declared_again() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |delivery| {
        Err(if delivery.body().as_ref() == b"late" { timed_out() } else { invalid() })
    });
    rig.publish("first").await;
    rig.dead_letters(1).await;
    rig.delete_queue(DLQ).await;
    rig.publish("second").await;
    wait_for("the queue to be declared again", async || rig.queue(DLQ).await.is_some()).await;
    assert_eq!(parse(&rig.dead_letters(1).await[0]).original, "second");
    for _ in 0..2 {
        next(&mut deliveries).await;
    }
    for delay_ms in [100, 110, 120, 130, 140] {
        rig.delete_queue(&format!("{QUEUE}.retry.{delay_ms}ms")).await;
    }
    rig.publish("late").await;
    let letters = rig.dead_letters(1).await;
    assert_eq!((&parse(&letters[0]).original[..], parse(&letters[0]).retry_count), (&b"late"[..], 3));
    rig.wait_until_idle().await;
    running.stop().await;
}

#[tokio::test]
async fn what_the_dlq_refuses_stays_in_the_work_queue() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Err(invalid()));
    rig.publish("first").await;
    next(&mut deliveries).await;
    wait_for("the first dead letter", async || rig.ready(DLQ).await == 1).await;
    // The queue is full now and refuses more.
    let policy = format!("/api/policies/{}/full", rig.vhost.name);
    let full = r#"{"pattern": "-dlq$", "definition": {"max-length": 1, "overflow": "reject-publish"}}"#;
    assert!(rig.api("PUT", &policy, full).await.is_some());
    wait_for("the policy", async || {
        rig.queue(DLQ).await.is_some_and(|queue| queue["effective_policy_definition"]["max-length"] == 1)
    })
    .await;
    rig.publish("second").await;
    // Tried, refused and delivered again, with a pause in between: no message goes round in a busy loop.
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(next(&mut deliveries).await.body().as_ref(), b"second");
    }
    assert!(begun.elapsed() >= Duration::from_millis(2 * POLICY.first_ms));
    assert_eq!(rig.ready(DLQ).await, 1);
    assert!(rig.api("DELETE", &policy, "").await.is_some());
    wait_for("the second dead letter", async || rig.ready(DLQ).await == 2).await;
    let letters = rig.dead_letters(2).await;
    assert_eq!(parse(&letters[1]).original, "second");
    rig.wait_until_idle().await;
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_may_not_publish_leaves_the_message_where_it_is() {
    let rig = Rig::start().await;
    let user = format!("mute-{}", rig.vhost.name);
    let permissions = |write: &str| format!(r#"{{"configure": ".*", "write": "{write}", "read": ".*"}}"#);
    let path = format!("/api/permissions/{}/{user}", rig.vhost.name);
    rig.api("PUT", &format!("/api/users/{user}"), r#"{"password": "geheim", "tags": ""}"#).await.unwrap();
    // May declare the queues, which needs writing to the exchange that they dead-letter to, but not publish.
    rig.api("PUT", &path, &permissions(".*")).await.unwrap();
    let url = rig.vhost.url.replace("guest:guest", &format!("{user}:geheim"));
    let (running, mut deliveries) = Running::start_telling(crate::rig::worker(&url), |_| Err(invalid()));
    rig.publish("first").await;
    next(&mut deliveries).await;
    rig.dead_letters(1).await;
    rig.api("PUT", &path, &permissions("^$")).await.unwrap();
    // The broker remembers permissions for each channel; connections made anew ask again.
    close_connections(&rig, &user).await;
    rig.publish("second").await;
    for _ in 0..2 {
        assert_eq!(next(&mut deliveries).await.body().as_ref(), b"second");
    }
    assert_eq!(rig.ready(DLQ).await, 0);
    rig.api("PUT", &path, &permissions(".*")).await.unwrap();
    assert_eq!(parse(&rig.dead_letters(1).await[0]).original, "second");
    rig.wait_until_idle().await;
    running.stop().await;
}

/// Ends the connections of a user, as an operator can.
async fn close_connections(rig: &Rig, user: &str) {
    let mut closed = 0;
    wait_for("both connections to be listed", async || {
        let all = rig.api("GET", &format!("/api/vhosts/{}/connections", rig.vhost.name), "").await.unwrap();
        let names: Vec<String> = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|connection| connection["user"] == *user)
            .map(|connection| connection["name"].as_str().unwrap().replace(' ', "%20").replace('>', "%3E"))
            .collect();
        for name in names {
            if rig.api("DELETE", &format!("/api/connections/{name}"), "").await.is_some() {
                closed += 1;
            }
        }
        closed >= 2
    })
    .await;
}

#[tokio::test]
async fn a_short_delay_does_not_wait_behind_a_long_one() {
    let rig = Rig::start().await;
    let policy = lazaret_worker::RetryPolicy { first_ms: 200, factor: 20.0, cap_ms: 10_000, ..POLICY };
    let (running, mut deliveries) = Running::start_telling(rig.worker().retry_policy(policy), |delivery| {
        match (delivery.body().as_ref(), delivery.retry_count()) {
            (b"fast", 1) | (b"slow", 2) => Ok(()),
            _ => Err(timed_out()),
        }
    });
    // On its second retry, it waits about 4 s.
    let retried = table([("x-retry-count", AMQPValue::LongInt(1))]);
    rig.publish_with(BasicProperties::default().with_headers(retried), "slow").await;
    assert_eq!(next(&mut deliveries).await.body().as_ref(), b"slow");
    rig.publish("fast").await;
    for retry_count in 0..=1 {
        let delivery = next(&mut deliveries).await;
        assert_eq!((delivery.body().as_ref(), delivery.retry_count()), (&b"fast"[..], retry_count));
    }
    assert_eq!(next(&mut deliveries).await.body().as_ref(), b"slow");
    running.stop().await;
}

#[tokio::test]
async fn headers_as_large_as_the_broker_allows_leave_less_room_for_attempts() {
    let rig = Rig::start().await;
    let (running, _deliveries) = Running::start_telling(rig.worker(), |_| {
        Err(lazaret_worker::Failure::new("TimeoutError", "timed out ".repeat(2_000)))
    });
    let large = table([("large", text(&"x".repeat(118_000)))]);
    rig.publish_with(BasicProperties::default().with_headers(large.clone()), "12").await;
    let letters = rig.dead_letters(1).await;
    assert_eq!(header(&letters[0], "large"), large.inner().get("large"));
    let letter = parse(&letters[0]);
    assert_eq!((letter.retry_count, letter.error_message.len()), (3, 20_000));
    running.stop().await;
}
