//! How fast messages become dead letters: 20,000 that fail for good, through the worker or through a bare consumer that
//! republishes to the dead-letter queue with confirms.
//!
//! ```sh
//! cargo run --release --example dead-letters --features rabbitmq -- worker amqp://guest:guest@127.0.0.1:5672/%2f 20000
//! cargo run --release --example dead-letters --features rabbitmq -- bare amqp://guest:guest@127.0.0.1:5672/%2f 20000
//! ```
//!
//! The dead letters stay in `bench-dlq`, for whoever captures them. The queue `bench` has to be empty.

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use lazaret_worker::Failure;
use lazaret_worker::rabbitmq::Worker;

const QUEUE: &str = "bench";
const DLQ: &str = "bench-dlq";

/// In flight at a time, in both cases.
const CONCURRENCY: u16 = 128;

/// Published before the clock starts, each about 1 KiB.
async fn fill(channel: &Channel, messages: usize) -> Result<(), Box<dyn Error>> {
    for queue in [QUEUE, DLQ] {
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), durable, FieldTable::default()).await?;
    }
    let mut confirms = Vec::with_capacity(messages);
    for n in 0..messages {
        let body = format!(r#"{{"tenantId":"t-1","internalId":"i-{n}","text":"{}"}}"#, "x".repeat(960));
        let properties =
            BasicProperties::default().with_message_id(format!("m-{n}").into()).with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        confirms.push(
            channel.basic_publish("".into(), QUEUE.into(), options, body.as_bytes(), properties).await?,
        );
    }
    for confirm in confirms {
        require_ack(confirm.await?)?;
    }
    Ok(())
}

fn require_ack(confirmation: Confirmation) -> Result<(), Box<dyn Error>> {
    match confirmation {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => {
            Err("a message was not taken".into())
        }
    }
}

async fn count(channel: &Channel, queue: &str) -> Result<usize, lapin::Error> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(ShortString::from(queue), passive, FieldTable::default()).await?;
    Ok(found.message_count() as usize)
}

async fn wait_for(channel: &Channel, dead: usize) -> Result<(), lapin::Error> {
    while count(channel, DLQ).await? < dead {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The worker of this crate, with a handler that fails for good.
async fn run_worker(url: &str, channel: &Channel, dead: usize) -> Result<(), Box<dyn Error>> {
    let concurrency = CONCURRENCY.into();
    let worker = Worker::new(url, "bench", QUEUE).concurrency(concurrency).prefetch(CONCURRENCY * 2);
    let fail = |_| async { Err(Failure::new("ValidationError", "missing required field: amount")) };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        stopped.await.ok();
    };
    let running = tokio::spawn(worker.run(fail, shutdown));
    wait_for(channel, dead).await?;
    stop.send(()).ok();
    Ok(running.await??)
}

/// A consumer that republishes what it gets, waits for the confirm and acknowledges; many at a time on one channel.
async fn run_bare(connection: &Connection, channel: &Channel, messages: usize) -> Result<(), Box<dyn Error>> {
    let publishing = connection.create_channel().await?;
    publishing.confirm_select(ConfirmSelectOptions::default()).await?;
    channel.basic_qos(CONCURRENCY * 2, BasicQosOptions::default()).await?;
    let consumer = channel
        .basic_consume(QUEUE.into(), "bare".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await?;
    let moved = consumer.take(messages).map(|delivered| async {
        let delivery = delivered?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = delivery.properties.clone().with_delivery_mode(2);
        let sent =
            publishing.basic_publish("".into(), DLQ.into(), options, &delivery.data, properties).await?;
        require_ack(sent.await?)?;
        delivery.ack(BasicAckOptions::default()).await?;
        Ok::<_, Box<dyn Error>>(())
    });
    let mut moved = std::pin::pin!(moved.buffer_unordered(CONCURRENCY.into()));
    while let Some(outcome) = moved.next().await {
        outcome?;
    }
    Ok(())
}

/// Who moves the messages to the dead-letter queue.
#[derive(Debug, Clone, Copy)]
pub enum Mover {
    Worker,
    Bare,
}

/// Dead letters per second, for this many messages.
pub async fn measure(mover: Mover, url: &str, messages: usize) -> Result<f64, Box<dyn Error>> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    fill(&channel, messages).await?;
    let dead = count(&channel, DLQ).await? + messages;
    let begun = Instant::now();
    match mover {
        Mover::Worker => run_worker(url, &channel, dead).await?,
        Mover::Bare => run_bare(&connection, &channel, messages).await?,
    }
    let rate = messages as f64 / begun.elapsed().as_secs_f64();
    wait_for(&channel, dead).await?;
    Ok(rate)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mover, url, messages] = &args[..] else { return Err("use: worker|bare URL MESSAGES".into()) };
    let mover = match mover.as_str() {
        "worker" => Mover::Worker,
        "bare" => Mover::Bare,
        other => return Err(format!("unknown mode {other}: worker or bare").into()),
    };
    let rate = measure(mover, url, messages.parse()?).await?;
    println!("{mover:?}: {messages} dead letters, {rate:.0}/s");
    Ok(())
}
