//! Messages of other clients: published, dead-lettered by RabbitMQ, captured, redriven and received again, with what they were
//! published with.

use std::process::{Command, Stdio};

use lapin::BasicProperties;
use lapin::options::BasicAckOptions;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lazaret_sources::destination::{Destination as _, Sent};

use crate::rabbitmq_app::{QUEUE, RabbitApp, ack, arrivals, outgoing};

/// The headers that a redrive adds.
const ADDED: [&str; 7] = [
    "Idempotency-Key",
    "Lazaret-Event-Id",
    "Lazaret-Letter-Id",
    "Lazaret-Life",
    "Lazaret-Original-Exchange",
    "Lazaret-Original-Routing-Key",
    "Lazaret-Redrive-Id",
];

/// Publishes, rejects what it gets, and later gets the same again. Prints what it received, with the types of all values.
const PIKA: &str = r#"
import datetime, decimal, sys, pika
url, queue, step = sys.argv[1:]
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
if step == "publish":
    channel.confirm_delivery()
    headers = {
        "text": "plain", "unicode": "zażółć", "empty": "", "bytes": b"\x00\xff\xfe", "true": True, "false": False,
        "zero": 0, "small": -5, "medium": 70000, "large": 2**40, "negative": -(2**40), "void": None,
        "decimal": decimal.Decimal("12.50"), "when": datetime.datetime(2026, 11, 15, 3, 0, 7),
        "array": [1, "two", None, [True, {"deep": decimal.Decimal("0.001")}]],
        "table": {"b": 1, "a": {"c": [b"x"], "when": datetime.datetime(1999, 12, 31)}},
        "x-retry": "application's own", "amqp.message-id": "looks like a property",
    }
    properties = pika.BasicProperties(
        content_type="application/vnd.shop+json; charset=utf-8", content_encoding="identity", headers=headers,
        delivery_mode=2, priority=7, correlation_id="corr-1", reply_to="replies", message_id="msg-1",
        timestamp=1763175600, type="order.created", user_id="guest", app_id="shop", cluster_id="c")
    channel.basic_publish("", queue, b'{"a": 1.50,\r\n "\xc5\x82": 2}\x00\xff', properties, mandatory=True)
def ordered(value):
    # Clients do not keep the order of a table.
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(it) for it in value] if isinstance(value, list) else value
if step != "publish":
    for method, properties, body in channel.consume(queue, inactivity_timeout=30):
        assert method is not None, "nothing arrives"
        table = properties.headers
        properties.headers = None
        print(sorted(vars(properties).items(), key=lambda it: it[0]))
        print(sorted(ordered(table).items()))
        print(body)
        if step == "reject":
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
channel.connection.close()
"#;

async fn python(app: &RabbitApp, step: &'static str) -> String {
    let url = app.vhost.url.clone();
    let ran = tokio::task::spawn_blocking(move || {
        Command::new(lazaret_brokers::python()).args(["-c", PIKA, &url, QUEUE, step]).output().unwrap()
    });
    let ran = ran.await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

async fn round_trip(app: &RabbitApp) {
    let source = app.source();
    let all = arrivals(&source, 1).await;
    ack(&source, &all).await;
    let sent = source.send(&outgoing(&all[0])).await;
    assert!(matches!(sent, Sent::Taken { .. }), "{sent:?}");
}

/// The printed headers without those that a redrive adds.
fn without_ours(printed: &str) -> String {
    let is_ours = |line: &str| ADDED.iter().any(|name| line.starts_with(&format!("'{name}', ")));
    let mut lines: Vec<&str> = printed.lines().collect();
    let headers = lines[1].trim_start_matches("[(").trim_end_matches(")]").to_owned();
    let kept: Vec<&str> = headers.split("), (").filter(|line| !is_ours(line)).collect();
    let kept = format!("[({})]", kept.join("), ("));
    lines[1] = &kept;
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_pika_comes_back_as_it_was() {
    let app = RabbitApp::start().await;
    python(&app, "publish").await;
    let first = python(&app, "reject").await;
    round_trip(&app).await;
    let again = python(&app, "take").await;
    assert!(again.contains("Lazaret-Letter-Id"), "{again}");
    assert_eq!(first.trim(), without_ours(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_amqp_tools_comes_back_as_it_was() {
    let app = RabbitApp::start().await;
    let url = app.vhost.url.clone();
    let run = |program: &'static str, words: Vec<String>| {
        let url = url.clone();
        tokio::task::spawn_blocking(move || {
            let ran = Command::new(program)
                .args(["--url", &url])
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it"));
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            ran.stdout
        })
    };
    let body = "{\"a\": 1.50}  \n\t";
    let words = ["-r", QUEUE, "-p", "-C", "application/json", "-b", body].map(str::to_owned);
    run("amqp-publish", words.to_vec()).await.unwrap();
    let first = app.get(QUEUE).await;
    let (properties, bytes) = (first.properties.clone(), first.data.clone());
    first.reject(lapin::options::BasicRejectOptions { requeue: false }).await.unwrap();
    round_trip(&app).await;
    app.wait_ready(QUEUE, 1).await;
    let received = app.get(QUEUE).await;
    let table = FieldTable::default();
    assert_eq!(
        received.properties.clone().with_headers(table.clone()),
        properties.with_headers(table),
        "{:?}",
        received.properties
    );
    assert_eq!(received.data, bytes);
    received.nack(lapin::options::BasicNackOptions { multiple: false, requeue: true }).await.unwrap();
    let got = run("amqp-get", vec!["-q".to_owned(), QUEUE.to_owned()]).await.unwrap();
    assert_eq!(got, body.as_bytes());
}

/// What pika cannot write: every type of RabbitMQ's table.
#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_header_comes_back_as_it_was() {
    let app = RabbitApp::start().await;
    let mut inner = FieldTable::default();
    inner.insert("x".into(), AMQPValue::ShortInt(-3));
    let mut array = FieldArray::default();
    array.push(AMQPValue::FieldTable(inner));
    array.push(AMQPValue::Void);
    let mut table = FieldTable::default();
    for (name, value) in [
        ("boolean", AMQPValue::Boolean(true)),
        ("int8", AMQPValue::ShortShortInt(-128)),
        ("uint8", AMQPValue::ShortShortUInt(255)),
        ("int16", AMQPValue::ShortInt(i16::MIN)),
        ("uint16", AMQPValue::ShortUInt(u16::MAX)),
        ("int32", AMQPValue::LongInt(i32::MIN)),
        ("uint32", AMQPValue::LongUInt(u32::MAX)),
        ("int64", AMQPValue::LongLongInt(i64::MIN)),
        ("float32", AMQPValue::Float(1.5e-40)),
        ("float64", AMQPValue::Double(-0.0)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 9, value: u32::MAX })),
        ("text", AMQPValue::LongString("zażółć".into())),
        ("not utf-8", AMQPValue::LongString(vec![0xff, 0x00].into())),
        ("timestamp", AMQPValue::Timestamp(1 << 40)),
        ("bytes", AMQPValue::ByteArray(vec![0, 0xff].into())),
        ("array", AMQPValue::FieldArray(array)),
        ("void", AMQPValue::Void),
    ] {
        table.insert(name.into(), value);
    }
    let properties = BasicProperties::default().with_headers(table.clone());
    app.publish(QUEUE, properties, &[0, 1, 0xff]).await;
    app.reject(QUEUE).await;
    round_trip(&app).await;
    let received = app.get(QUEUE).await;
    assert_eq!(received.data, [0, 1, 0xff]);
    received.ack(BasicAckOptions::default()).await.unwrap();
    let headers = received.properties.headers().clone().unwrap();
    let kept = headers.inner().iter().filter(|(name, _)| !ADDED.contains(&name.as_str()));
    let expected: Vec<_> = table.inner().iter().collect();
    assert_eq!(kept.collect::<Vec<_>>(), expected);
}
