//! The acceptance criteria of the requirement, one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use lazaret_core::broker::{ATTEMPTS, attempts_from_json};
use lazaret_worker::Preset;
use lazaret_worker::rabbitmq::Delivery;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use crate::kills::Child;
use crate::rig::{DLQ, QUEUE, Rig, Running, header, invalid, next, parse, table, text, timed_out, wait_for};

fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn at_most_three_retries_before_the_dlq_and_max_retries_sets_another_number() {
    for (max_retries, deliveries) in [(None, 4), (Some("0"), 1), (Some("1"), 2)] {
        let rig = Rig::start().await;
        rig.publish("late").await;
        let mut environment = vec![("SERVICE_VERSION", "7.1.0")];
        environment.extend(max_retries.map(|retries| ("MAX_RETRIES", retries)));
        let child = Child::start(&rig.vhost.url, &environment);
        let letters = rig.dead_letters(1).await;
        let letter = parse(&letters[0]);
        assert_eq!((letter.retry_count, &*letter.service_version), (deliveries - 1, "7.1.0"));
        let AMQPValue::LongString(attempts) = header(&letters[0], ATTEMPTS).unwrap() else { panic!() };
        let attempts = attempts_from_json(&attempts.to_string());
        assert_eq!(attempts.len(), usize::try_from(deliveries).unwrap());
        assert!(attempts.iter().all(|attempt| attempt.error.code.as_deref() == Some("ETIMEDOUT")));
        assert!(attempts.is_sorted_by_key(|attempt| attempt.at));
        drop(child);
    }
}

/// At real scale, from one delivery by the broker to the next.
#[tokio::test]
async fn retries_wait_two_four_and_eight_seconds_give_or_take_a_fifth() {
    const MESSAGES: usize = 40;
    let rig = Rig::start().await;
    let (told, mut deliveries) = unbounded_channel();
    let worker = rig.worker().retry_policy(Preset::Rabbitmq.policy()).concurrency(MESSAGES);
    let running = Running::start(worker, move |delivery: Delivery| {
        told.send((delivery, Instant::now())).ok();
        async { Err(timed_out()) }
    });
    for n in 0..MESSAGES {
        rig.publish(&n.to_string()).await;
    }
    let mut last: BTreeMap<Vec<u8>, Instant> = BTreeMap::new();
    let mut waits: BTreeMap<u32, Vec<(Duration, Duration)>> = BTreeMap::new();
    for _ in 0..MESSAGES * 4 {
        let (delivery, at) = next(&mut deliveries).await;
        if let Some(before) = last.insert(delivery.body().to_vec(), at) {
            let waited = (delay(&delivery), at - before);
            waits.entry(delivery.retry_count()).or_default().push(waited);
        }
    }
    rig.dead_letters(MESSAGES).await;
    for (retry, seconds) in [(1, 2.0), (2, 4.0), (3, 8.0)] {
        let (low, high) = (Duration::from_secs_f64(seconds * 0.8), Duration::from_secs_f64(seconds * 1.2));
        let waits = &waits[&retry];
        assert_eq!(waits.len(), MESSAGES);
        assert!(
            waits.iter().all(|(delay, waited)| (low..=high).contains(delay) && waited >= delay),
            "{waits:?}"
        );
        // Handing a message over takes a moment, and on a busy machine some take long.
        let mut late: Vec<Duration> = waits.iter().map(|(delay, waited)| *waited - *delay).collect();
        late.sort();
        assert!(late[MESSAGES / 2] < Duration::from_millis(700), "retry {retry} is late: {late:?}");
        let used: BTreeSet<Duration> = waits.iter().map(|(delay, _)| *delay).collect();
        // 40 draws of one queue in five leave two of them out once in 100,000,000 times.
        assert!(used.len() >= 4, "retry {retry} used only {used:?}");
    }
    running.stop().await;
}

/// The time to live of the one delay queue that the message came through since it was published last.
fn delay(delivery: &Delivery) -> Duration {
    let Some(AMQPValue::FieldArray(deaths)) = delivery.header("x-death") else { panic!("{delivery:?}") };
    let [AMQPValue::FieldTable(death)] = deaths.as_slice() else { panic!("{deaths:?}") };
    let Some(AMQPValue::LongString(queue)) = death.inner().get("queue") else { panic!("{death:?}") };
    let queue = queue.to_string();
    let ms = queue.strip_prefix("orders.retry.").and_then(|rest| rest.strip_suffix("ms")).unwrap();
    Duration::from_millis(ms.parse().unwrap())
}

#[tokio::test]
async fn client_and_validation_errors_go_straight_to_the_dlq_and_are_acknowledged() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Err(invalid()));
    rig.publish("nonsense").await;
    assert_eq!(next(&mut deliveries).await.retry_count(), 0);
    let letter = parse(&rig.dead_letters(1).await[0]);
    assert_eq!((&letter.original[..], letter.retry_count), (&b"nonsense"[..], 0));
    assert_eq!((&*letter.error_type, &*letter.error_message), ("ValidationError", "amount is missing"));
    rig.wait_until_idle().await;
    running.stop().await;
    assert!(deliveries.recv().await.is_none(), "it was tried again");
}

#[tokio::test]
async fn transient_errors_are_retried_and_succeed_or_go_to_the_dlq_when_exhausted() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |delivery| {
        let is_up_again = delivery.body().as_ref() == b"passes" && delivery.retry_count() == 2;
        if is_up_again { Ok(()) } else { Err(timed_out()) }
    });
    rig.publish("passes").await;
    for retry_count in 0..=2 {
        assert_eq!(next(&mut deliveries).await.retry_count(), retry_count);
    }
    rig.wait_until_idle().await;
    assert_eq!(rig.ready(DLQ).await, 0);
    rig.publish("fails").await;
    for retry_count in 0..=3 {
        assert_eq!(next(&mut deliveries).await.retry_count(), retry_count);
    }
    let letter = parse(&rig.dead_letters(1).await[0]);
    assert_eq!((&letter.original[..], letter.retry_count), (&b"fails"[..], 3));
    rig.wait_until_idle().await;
    running.stop().await;
    assert!(deliveries.recv().await.is_none(), "it was tried once more");
}

#[tokio::test]
async fn the_dlq_message_has_the_format_of_the_requirement() {
    let rig = Rig::start().await;
    let before = unix_now();
    let worker = rig.worker().service_version("2.3.4");
    let (running, _deliveries) =
        Running::start_telling(worker, |_| Err(timed_out().with_backtrace("at send (bank.rs:7)\n  at main")));
    // Not as a JSON writer would write it: order, spaces and digits have to survive.
    let original = r#"{"tenantId": "t-1",  "internalId":"i-9", "amount": 1.50, "n": 12345678901234567890}"#;
    rig.publish(original).await;
    let letters = rig.dead_letters(1).await;
    let body = std::str::from_utf8(&letters[0].data).unwrap();
    let read: Value = serde_json::from_str(body).unwrap();
    let (details, metadata) = (&read["error_details"], &read["metadata"]);
    let time = |value: &Value| {
        let seconds = value.as_u64().unwrap();
        assert!((before..=unix_now()).contains(&seconds), "{seconds}");
        seconds
    };
    let first = time(&details["first_attempt_timestamp"]);
    let last = time(&details["last_attempt_timestamp"]);
    let died = time(&metadata["dlq_timestamp"]);
    assert!(first <= last && last <= died);
    assert_eq!(
        body,
        format!(
            "{{\"original_message\":{original},\"error_details\":{{\"error_type\":\"TimeoutError\",\
             \"error_message\":\"the bank timed out\",\"stack_trace\":\"at send (bank.rs:7)\\n  at main\",\
             \"retry_count\":3,\"first_attempt_timestamp\":{first},\"last_attempt_timestamp\":{last}}},\
             \"metadata\":{{\"tenant_id\":\"t-1\",\"internal_id\":\"i-9\",\"dlq_timestamp\":{died},\
             \"service\":\"billing\",\"service_version\":\"2.3.4\"}}}}"
        )
    );
    let seconds = |name: &str| header(&letters[0], name).cloned();
    let timestamp = |at: u64| Some(AMQPValue::LongLongInt(i64::try_from(at).unwrap()));
    assert_eq!(seconds("x-first-attempt-timestamp"), timestamp(first));
    assert_eq!(seconds("x-last-attempt-timestamp"), timestamp(last));
    assert_eq!(seconds("x-retry-count"), Some(AMQPValue::LongInt(3)));
    assert_eq!(*letters[0].properties.timestamp(), Some(died));
    assert_eq!(letters[0].properties.content_type().as_ref().unwrap().as_str(), "application/json");
    running.stop().await;
}

#[tokio::test]
async fn an_original_that_is_not_json_is_kept_as_text_or_base64() {
    let rig = Rig::start().await;
    let (running, _deliveries) = Running::start_telling(rig.worker(), |_| Err(invalid()));
    rig.declare_work_queue().await;
    let options = lapin::options::BasicPublishOptions::default();
    for body in [&b"plain text"[..], &[0xff, 0x00, 0x7b]] {
        let sent =
            rig.channel.basic_publish("".into(), QUEUE.into(), options, body, BasicProperties::default());
        sent.await.unwrap().await.unwrap();
    }
    let letters = rig.dead_letters(2).await;
    let mut originals: Vec<Vec<u8>> = letters.iter().map(|letter| parse(letter).original.to_vec()).collect();
    originals.sort();
    assert_eq!(originals, [b"plain text".to_vec(), vec![0xff, 0x00, 0x7b]]);
    let metadata = |letter: &lapin::message::BasicGetMessage| {
        serde_json::from_slice::<Value>(&letter.data).unwrap()["metadata"].clone()
    };
    assert!(letters.iter().all(|letter| metadata(letter)["tenant_id"].is_null()));
    running.stop().await;
}

#[tokio::test]
async fn the_dlq_and_all_other_queues_are_durable_and_there_from_the_start() {
    let rig = Rig::start().await;
    let (running, _deliveries) = Running::start_telling(rig.worker(), |_| Ok(()));
    wait_for("a consumer", async || rig.queue(QUEUE).await.is_some_and(|queue| queue["consumers"] == 1))
        .await;
    let names = [
        "billing-dlq",
        "orders",
        // 100 ms is the shortest delay there is, so the first step begins there.
        "orders.retry.100ms",
        "orders.retry.110ms",
        "orders.retry.120ms",
        "orders.retry.130ms",
        "orders.retry.140ms",
        "orders.retry.160ms",
        "orders.retry.180ms",
        "orders.retry.200ms",
        "orders.retry.220ms",
        "orders.retry.240ms",
        "orders.retry.320ms",
        "orders.retry.360ms",
        "orders.retry.400ms",
        "orders.retry.440ms",
        "orders.retry.480ms",
    ];
    let all = rig.api("GET", &format!("/api/queues/{}", rig.vhost.name), "").await.unwrap();
    let mut found: Vec<&str> = Vec::new();
    for queue in all.as_array().unwrap() {
        assert_eq!((&queue["durable"], &queue["auto_delete"]), (&true.into(), &false.into()), "{queue}");
        found.push(queue["name"].as_str().unwrap());
    }
    found.sort_by_key(|name| (name.len(), *name));
    let mut expected = names.to_vec();
    expected.sort_by_key(|name| (name.len(), *name));
    assert_eq!(found, expected);
    let delay = rig.queue("orders.retry.440ms").await.unwrap();
    let arguments = &delay["arguments"];
    assert_eq!(
        (&arguments["x-message-ttl"], &arguments["x-dead-letter-exchange"]),
        (&440.into(), &"".into())
    );
    assert_eq!(arguments["x-dead-letter-routing-key"], "orders");
    assert_eq!(delay["type"], "quorum");
    running.stop().await;
}

#[tokio::test]
async fn retries_and_dlq_messages_are_persistent_whatever_the_original_was() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Err(timed_out()));
    rig.publish_with(BasicProperties::default().with_delivery_mode(1), "12").await;
    assert_eq!(*next(&mut deliveries).await.properties().delivery_mode(), Some(1));
    for _ in 0..3 {
        assert_eq!(*next(&mut deliveries).await.properties().delivery_mode(), Some(2));
    }
    assert_eq!(*rig.dead_letters(1).await[0].properties.delivery_mode(), Some(2));
    running.stop().await;
}

/// What the application published travels through all retries to the dead letter.
#[tokio::test]
async fn properties_and_headers_survive_retries_and_the_dlq() {
    let rig = Rig::start().await;
    let (running, mut deliveries) = Running::start_telling(rig.worker(), |_| Err(timed_out()));
    let own = table([
        ("trace", text("abc")),
        ("CC", AMQPValue::FieldArray(vec![text("elsewhere")].into())),
        ("nested", AMQPValue::FieldTable(table([("at", AMQPValue::Timestamp(7))]))),
        ("Lazaret-Letter-Id", text("018f")),
        ("Lazaret-Life", text("2")),
        ("Lazaret-Redrive-Id", text("r1")),
        ("Idempotency-Key", text("018f:2:1")),
    ]);
    let properties = BasicProperties::default()
        .with_headers(own.clone())
        .with_content_type("application/xml".into())
        .with_content_encoding("gzip".into())
        .with_correlation_id("c".into())
        .with_reply_to("answers".into())
        .with_message_id("m-1".into())
        .with_type("order".into())
        .with_app_id("shop".into())
        .with_user_id("guest".into())
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_expiration("30000".into());
    crate::rig::declare(&rig.channel, "elsewhere", Default::default()).await;
    rig.publish_with(properties.clone(), "<a/>").await;
    let first = next(&mut deliveries).await;
    assert_eq!(first.idempotency_key().as_deref(), Some("018f:2:1"));
    for _ in 0..3 {
        let retried = next(&mut deliveries).await;
        assert_eq!((&*retried.exchange(), &*retried.routing_key()), ("", QUEUE));
        let got = retried.properties();
        assert_eq!(got.content_type(), properties.content_type());
        assert_eq!(got.content_encoding(), properties.content_encoding());
        assert_eq!(got.timestamp(), properties.timestamp());
        assert_eq!((got.message_id(), got.kind()), (properties.message_id(), properties.kind()));
        assert_eq!(got.expiration(), &None);
    }
    let letters = rig.dead_letters(1).await;
    let got = &letters[0].properties;
    for (got, expected) in [
        (got.correlation_id(), properties.correlation_id()),
        (got.reply_to(), properties.reply_to()),
        (got.message_id(), properties.message_id()),
        (got.kind(), properties.kind()),
        (got.app_id(), properties.app_id()),
    ] {
        assert_eq!(got, expected);
    }
    assert_eq!((got.priority(), got.expiration(), got.user_id()), (properties.priority(), &None, &None));
    assert_eq!(got.content_encoding(), &None);
    for (name, value) in &own {
        let name = if name.as_str() == "CC" { "x-original-cc" } else { name.as_str() };
        assert_eq!(header(&letters[0], name), Some(value), "{name}");
    }
    for (name, value) in [
        ("x-original-exchange", text("")),
        ("x-original-routing-key", text(QUEUE)),
        ("x-original-queue", text(QUEUE)),
        ("x-original-content-type", text("application/xml")),
        ("x-original-content-encoding", text("gzip")),
        ("x-original-timestamp", AMQPValue::Timestamp(1_700_000_000)),
        ("x-original-expiration", text("30000")),
        ("x-original-user-id", text("guest")),
    ] {
        assert_eq!(header(&letters[0], name), Some(&value), "{name}");
    }
    // The broker's own words about our delay queues are not the application's.
    assert_eq!(header(&letters[0], "x-death"), None);
    assert_eq!(header(&letters[0], "x-first-death-queue"), None);
    assert_eq!(rig.ready("elsewhere").await, 1, "a retry was routed to CC again");
    running.stop().await;
}
