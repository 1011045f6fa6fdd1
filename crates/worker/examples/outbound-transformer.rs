//! The service `outbound-transformer`, and the acceptance list of its retry strategy run against a broker:
//!
//! ```sh
//! AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2f cargo run --example outbound-transformer --features rabbitmq
//! ```
//!
//! Takes about 20 seconds, because it waits 2, 4 and 8 seconds as the service would. Its queues (`outbound-transformer`,
//! `outbound-transformer-dlq` and the delay queues) have to be empty and stay behind. `MAX_RETRIES` must not be set.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::{Duration, Instant};

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use lazaret_worker::rabbitmq::{Delivery, Worker};
use lazaret_worker::{ErrorClass, Failure};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SERVICE: &str = "outbound-transformer";
const QUEUE: &str = "outbound-transformer";
const DLQ: &str = "outbound-transformer-dlq";

const MESSAGES_PER_KIND: usize = 10;

/// Four attempts and the waits between them, and some more for a busy machine.
const PATIENCE: Duration = Duration::from_secs(45);

/// Handing a message over takes a moment beside the time in its delay queue, and some on a busy machine.
const LATE_MAX_MS: u64 = 5_000;

/// One criterion, and whether the service meets it.
#[derive(Debug)]
pub struct Check {
    pub criterion: &'static str,
    pub is_met: bool,
    pub found: String,
}

/// Prepares a message for its receiver. Any error is a failure; the rules know which ones can pass.
async fn transform(delivery: Delivery) -> Result<(), Failure> {
    let message: Value = serde_json::from_slice(delivery.body())?;
    for field in ["tenantId", "internalId", "mimeType"] {
        if message.get(field).is_none() {
            return Err(Failure::new("ValidationError", format!("missing required field: {field}")));
        }
    }
    if message["mimeType"] != "application/json" {
        return Err(Failure::new("UnsupportedMimeTypeError", "unsupported MIME type"));
    }
    match message["storage"].as_str() {
        Some("down") => Err(Failure::new("StorageError", "Redis unavailable").with_code("ECONNREFUSED")),
        // A service may also say it itself.
        Some("unset") => {
            Err(Failure::new("StorageError", "no credentials").with_class(ErrorClass::Configuration))
        }
        _ => Ok(()),
    }
}

/// One attempt of the service.
struct Seen {
    id: String,
    retry_count: u32,
    /// The delay queue's time to live, of a retry.
    delay_ms: Option<u64>,
    at: Instant,
}

/// Runs the service with messages that succeed and fail, and checks what became of them.
pub async fn check_acceptance(url: &str) -> Result<Vec<Check>, Box<dyn Error>> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let (seen, mut attempts): (UnboundedSender<Seen>, _) = unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = tokio::spawn(Worker::new(url, SERVICE, QUEUE).concurrency(64).run(
        move |delivery| {
            let id = delivery.message_id().unwrap_or_default().to_owned();
            let (retry_count, delay_ms) = (delivery.retry_count(), delay_ms(&delivery));
            seen.send(Seen { id, retry_count, delay_ms, at: Instant::now() }).ok();
            transform(delivery)
        },
        async {
            stopped.await.ok();
        },
    ));
    let asserted = wait_for_queue(&channel, &connection).await?;
    let mut ids = BTreeSet::new();
    for n in 0..MESSAGES_PER_KIND {
        for (kind, body) in messages() {
            let id = format!("{kind}-{n}");
            publish(&channel, &id, &body).await?;
            ids.insert(id);
        }
    }
    let (history, letters) = watch(&channel, &mut attempts, &ids).await?;
    stop.send(()).ok();
    service.await??;
    Ok(vec![
        max_retries(&history, &letters),
        backoff(&history),
        permanent_errors(&history, &letters),
        transient_errors(&history, &letters),
        contents(&letters),
        Check {
            criterion: "DLQ queue outbound-transformer-dlq asserted on startup",
            is_met: asserted,
            found: DLQ.into(),
        },
        persistence(&letters),
        nothing_dropped(&ids, &history, &letters),
    ])
}

/// The broker tells which queue has expired the message; its name ends with the delay.
fn delay_ms(delivery: &Delivery) -> Option<u64> {
    let queue = delivery.header_text("x-first-death-queue")?;
    queue.rsplit('.').next()?.strip_suffix("ms")?.parse().ok()
}

/// Kinds of messages, each with a body.
fn messages() -> [(&'static str, String); 6] {
    let message = |mime_type: &str, storage: &str| {
        json!({"tenantId": "t-1", "internalId": "i-1", "mimeType": mime_type, "storage": storage}).to_string()
    };
    [
        ("good", message("application/json", "up")),
        ("transient", message("application/json", "down")),
        ("configuration", message("application/json", "unset")),
        ("mime", message("image/x-icon", "up")),
        ("missing", r#"{"tenantId": "t-1"}"#.to_owned()),
        ("malformed", "{".to_owned()),
    ]
}

/// The DLQ has to be there before any message has failed. A passive declaration of a missing queue closes its channel.
async fn wait_for_queue(channel: &Channel, connection: &Connection) -> Result<bool, lapin::Error> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let until = Instant::now() + PATIENCE;
    loop {
        let asking = connection.create_channel().await?;
        let has_consumer = asking
            .queue_declare(QUEUE.into(), passive, FieldTable::default())
            .await
            .is_ok_and(|queue| queue.consumer_count() > 0);
        if has_consumer {
            return Ok(channel.queue_declare(DLQ.into(), passive, FieldTable::default()).await.is_ok());
        }
        if Instant::now() > until {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn publish(channel: &Channel, id: &str, body: &str) -> Result<(), Box<dyn Error>> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2);
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, body.as_bytes(), properties).await?;
    match sent.await? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(format!("message {id} was not taken: {other:?}").into()),
    }
}

type History = BTreeMap<String, Vec<Seen>>;
type Letters = BTreeMap<String, BasicGetMessage>;

/// Follows the messages until all that fail are dead letters.
async fn watch(
    channel: &Channel,
    attempts: &mut UnboundedReceiver<Seen>,
    ids: &BTreeSet<String>,
) -> Result<(History, Letters), lapin::Error> {
    let (mut history, mut letters) = (History::new(), Letters::new());
    let until = Instant::now() + PATIENCE;
    let failing = ids.iter().filter(|id| !id.starts_with("good")).count();
    while (letters.len() < failing || history.len() < ids.len()) && Instant::now() < until {
        while let Ok(seen) = attempts.try_recv() {
            history.entry(seen.id.clone()).or_default().push(seen);
        }
        while let Some(letter) = channel.basic_get(DLQ.into(), BasicGetOptions::default()).await? {
            letter.ack(BasicAckOptions::default()).await?;
            let id = letter.properties.message_id().as_ref().map(ToString::to_string);
            letters.insert(id.unwrap_or_default(), letter);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((history, letters))
}

fn of_kind<'a, T>(all: &'a BTreeMap<String, T>, kinds: &'a [&str]) -> impl Iterator<Item = &'a T> {
    let is_wanted = move |id: &str| kinds.iter().any(|kind| id.starts_with(&format!("{kind}-")));
    all.iter().filter(move |(id, _)| is_wanted(id)).map(|(_, value)| value)
}

fn retry_count(letter: &BasicGetMessage) -> Option<u64> {
    body(letter)["error_details"]["retry_count"].as_u64()
}

fn body(letter: &BasicGetMessage) -> Value {
    serde_json::from_slice(&letter.data).unwrap_or_default()
}

fn max_retries(history: &History, letters: &Letters) -> Check {
    let most = history.values().flatten().map(|seen| seen.retry_count).max();
    let is_met = most == Some(3) && letters.values().all(|letter| retry_count(letter) <= Some(3));
    let criterion = "Max 3 retries before DLQ (configurable via MAX_RETRIES)";
    Check { criterion, is_met, found: format!("most retries of a message: {}", most.unwrap_or(0)) }
}

fn backoff(history: &History) -> Check {
    let mut is_met = true;
    let mut found = [(u64::MAX, 0); 3];
    for seen in of_kind(history, &["transient"]) {
        is_met &= seen.len() == 4;
        for (step, pair) in seen.windows(2).take(3).enumerate() {
            let delay_ms = pair[1].delay_ms.unwrap_or(0);
            let waited_ms = u64::try_from((pair[1].at - pair[0].at).as_millis()).unwrap_or(u64::MAX);
            let plain_ms = 2_000 << step;
            is_met &= (plain_ms * 8 / 10..=plain_ms * 12 / 10).contains(&delay_ms);
            is_met &= (delay_ms..=delay_ms + LATE_MAX_MS).contains(&waited_ms);
            found[step] = (found[step].0.min(waited_ms), found[step].1.max(waited_ms));
        }
    }
    let found = found.map(|(low, high)| format!("{low} to {high} ms")).join(", ");
    Check { criterion: "Exponential backoff: 2s, 4s, 8s with ±20% jitter", is_met, found }
}

fn permanent_errors(history: &History, letters: &Letters) -> Check {
    let kinds = ["mime", "missing", "malformed", "configuration"];
    let attempts: Vec<usize> = of_kind(history, &kinds).map(Vec::len).collect();
    let dead: Vec<_> = of_kind(letters, &kinds).map(retry_count).collect();
    let all = kinds.len() * MESSAGES_PER_KIND;
    let is_met = attempts == vec![1; all] && dead == vec![Some(0); all];
    let criterion = "Client/validation errors skip retry, go directly to DLQ";
    Check { criterion, is_met, found: format!("{} messages, {} dead letters", attempts.len(), dead.len()) }
}

fn transient_errors(history: &History, letters: &Letters) -> Check {
    let attempts: Vec<usize> = of_kind(history, &["transient"]).map(Vec::len).collect();
    let dead: Vec<_> = of_kind(letters, &["transient"]).map(retry_count).collect();
    let is_met = attempts == vec![4; MESSAGES_PER_KIND] && dead == vec![Some(3); MESSAGES_PER_KIND];
    let criterion = "Transient errors retry, then DLQ after max attempts";
    Check { criterion, is_met, found: format!("attempts: {attempts:?}") }
}

fn contents(letters: &Letters) -> Check {
    let bodies: BTreeMap<_, _> = messages().into_iter().collect();
    let is_complete = |(id, letter): (&String, &BasicGetMessage)| {
        let body = body(letter);
        let (details, metadata) = (&body["error_details"], &body["metadata"]);
        let kind = id.split('-').next().unwrap_or_default();
        let original = match serde_json::from_str::<Value>(&bodies[kind]) {
            Ok(json) => json,
            Err(_) => Value::from(bodies[kind].as_str()),
        };
        let times = ["first_attempt_timestamp", "last_attempt_timestamp"];
        body["original_message"] == original
            && details["error_type"].as_str().is_some_and(|name| !name.is_empty())
            && details["error_message"].as_str().is_some_and(|text| !text.is_empty())
            && details.get("stack_trace").is_some()
            && details["retry_count"].is_u64()
            && times.iter().all(|name| details[name].is_u64())
            && metadata["dlq_timestamp"].is_u64()
            && metadata["service"] == SERVICE
            && metadata["service_version"].is_string()
    };
    let criterion =
        "DLQ message contains: original message, error type/message/stack, retry count, timestamps";
    let is_met = !letters.is_empty() && letters.iter().all(is_complete);
    Check { criterion, is_met, found: format!("{} dead letters read", letters.len()) }
}

fn persistence(letters: &Letters) -> Check {
    let is_met = letters.values().all(|letter| *letter.properties.delivery_mode() == Some(2));
    let criterion = "DLQ messages published with persistent delivery mode";
    Check { criterion, is_met: is_met && !letters.is_empty(), found: "delivery mode 2".to_owned() }
}

fn nothing_dropped(ids: &BTreeSet<String>, history: &History, letters: &Letters) -> Check {
    let ended =
        |id: &&String| letters.contains_key(*id) != (id.starts_with("good") && history.contains_key(*id));
    let missing: Vec<&String> = ids.iter().filter(|id| !ended(id)).collect();
    let criterion = "No message is silently dropped -- every message succeeds or goes to DLQ";
    Check {
        criterion,
        is_met: missing.is_empty(),
        found: format!("{} messages, {} missing", ids.len(), missing.len()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url =
        std::env::var("AMQP_URL").unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned());
    let checks = check_acceptance(&url).await?;
    for Check { criterion, is_met, found } in &checks {
        println!("- [{}] {criterion} ({found})", if *is_met { 'x' } else { ' ' });
    }
    match checks.iter().all(|check| check.is_met) {
        true => Ok(()),
        false => Err("not every criterion is met".into()),
    }
}
