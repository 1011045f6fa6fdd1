//! Failing messages through the worker library, the dead-letter queue, capture and the embedded store, beside a bare consumer
//! that republishes them to a dead-letter queue with confirms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use lazaret_brokers::rabbitmq::{Server, Vhost};
use lazaret_server::config::{RabbitMqConfig, SourceConfig, SourceKind};
use lazaret_server::sources::{capture_and_pull, capture_arrivals};
use lazaret_sources::Declare;
use lazaret_sources::rabbitmq::DeadLetterQueue;
use lazaret_worker::rabbitmq::{Delivery, Worker};
use lazaret_worker::{ErrorClass, Failure};
use tokio::sync::oneshot;

use super::sample::bed;

const MESSAGES: usize = 20_000;
const BODY_BYTES: usize = 1_024;

/// Messages that are handled at once, by the library and by the bare consumer.
const AT_ONCE: usize = 64;

/// Each is measured this often, by turns, and the best is taken.
const TURNS: usize = 3;

pub async fn run() {
    let server = Server::start();
    let mut best: [Option<Duration>; 3] = [None; 3];
    for _ in 0..TURNS {
        let took = [bare(&server).await, library(&server).await, captured(&server).await];
        for (best, took) in best.iter_mut().zip(took) {
            *best = Some(best.map_or(took, |best| best.min(took)));
        }
    }
    let rate = |took: Option<Duration>| MESSAGES as f64 / took.unwrap_or_default().as_secs_f64();
    let floor = rate(best[0]);
    println!("## {MESSAGES} failing messages on RabbitMQ\n");
    println!("Messages of {BODY_BYTES} bytes, persistent; {AT_ONCE} at once; best of {TURNS} turns.\n");
    println!("| what | messages/s | of the bare consumer |\n|---|---|---|");
    for (name, took) in [
        "bare consumer: republish to the dead-letter queue with confirms, then ack",
        "worker library: classify, publish the dead-letter message with confirms, then ack",
        "worker library, capture and store with fsync, side by side",
    ]
    .into_iter()
    .zip(best)
    {
        println!("| {name} | {:.0} | {:.2} |", rate(took), rate(took) / floor);
    }
    println!();
}

async fn connect(vhost: &Vhost) -> (Connection, Channel) {
    let connection = Connection::connect(&vhost.url, ConnectionProperties::default()).await;
    let connection = connection.expect("the broker lets guest in");
    let channel = connection.create_channel().await.expect("a channel opens");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms are known");
    (connection, channel)
}

/// A virtual host whose queue `orders` holds all messages.
async fn filled(server: &Server) -> Vhost {
    let vhost = server.vhost();
    let (_connection, channel) = connect(&vhost).await;
    declare(&channel, "orders").await;
    let channel = &channel;
    let published = stream::iter(0..MESSAGES).map(|n| async move {
        let body = format!("{{\"order\":{n:>8},\"note\":\"{:x<width$}\"}}", "", width = BODY_BYTES - 30);
        let properties =
            BasicProperties::default().with_delivery_mode(2).with_message_id(format!("order-{n}").into());
        publish(channel, "orders", body.as_bytes(), properties).await
    });
    published.buffer_unordered(512).try_collect::<Vec<()>>().await.expect("messages are published");
    vhost
}

async fn declare(channel: &Channel, queue: &str) {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, FieldTable::default()).await.expect("the queue is new");
}

async fn publish(
    channel: &Channel,
    queue: &str,
    body: &[u8],
    properties: BasicProperties,
) -> lapin::Result<()> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    channel.basic_publish("".into(), queue.into(), options, body, properties).await?.await?;
    Ok(())
}

async fn bare(server: &Server) -> Duration {
    let vhost = filled(server).await;
    let (_connection, channel) = connect(&vhost).await;
    declare(&channel, "orders-dlq").await;
    let prefetch = u16::try_from(2 * AT_ONCE).expect("it is small");
    channel.basic_qos(prefetch, BasicQosOptions::default()).await.expect("it is small");
    let begun = Instant::now();
    let consumer = channel
        .basic_consume("orders".into(), "bare".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .expect("the queue is there");
    let channel = &channel;
    let moved = consumer.take(MESSAGES).map(|delivery| async move {
        let delivery = delivery?;
        publish(channel, "orders-dlq", &delivery.data, delivery.properties.clone()).await?;
        delivery.ack(BasicAckOptions::default()).await
    });
    moved.buffer_unordered(AT_ONCE).map_ok(|_| ()).try_collect::<Vec<()>>().await.expect("they are moved");
    begun.elapsed()
}

async fn fail(_: Delivery) -> Result<(), Failure> {
    let backtrace: String = (0..20).map(|frame| format!("{frame}: shop::orders::step{frame}\n")).collect();
    Err(Failure::new("shop::OutOfStock", "the order cannot be booked")
        .with_class(ErrorClass::Validation)
        .with_backtrace(backtrace))
}

/// Starts a worker that fails on every message; it ends when the sender is dropped.
fn work(vhost: &Vhost) -> oneshot::Sender<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(vhost.url.clone(), "orders", "orders").concurrency(AT_ONCE);
    tokio::spawn(async move {
        let stopped = async {
            stopped.await.ok();
        };
        worker.run(fail, stopped).await.expect("the worker starts");
    });
    stop
}

async fn library(server: &Server) -> Duration {
    let vhost = filled(server).await;
    let (_connection, channel) = connect(&vhost).await;
    declare(&channel, "orders-dlq").await;
    let begun = Instant::now();
    let _stop = work(&vhost);
    loop {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("orders-dlq".into(), passive, FieldTable::default()).await;
        if queue.expect("it is there").message_count() as usize >= MESSAGES {
            return begun.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn captured(server: &Server) -> Duration {
    let vhost = filled(server).await;
    let bed = bed().await;
    let mut config = bed.app.config.clone();
    let mut rabbitmq = RabbitMqConfig::new("orders", [format!("amqp://127.0.0.1:{}", server.port())]);
    rabbitmq.vhost = vhost.name.clone();
    rabbitmq.queues = vec![DeadLetterQueue::new("orders-dlq")];
    let mut source = SourceConfig::new("orders", SourceKind::RabbitMq);
    source.rabbitmq = Some(rabbitmq);
    config.sources.insert("orders".to_owned(), source);
    let app = bed.app.under(config);
    let running = Arc::clone(app.sources.get("orders").expect("it is configured"));
    running.source.declare(Declare::Apply).await.expect("queues are declared");
    let begun = Instant::now();
    let _stop = work(&vhost);
    let (mut arrivals, mut taken) = (Vec::new(), 0);
    while taken < MESSAGES {
        arrivals = capture_and_pull(&app, &running, arrivals).await.expect("they are stored");
        taken += arrivals.len();
    }
    capture_arrivals(&app, &running, arrivals).await.expect("they are stored");
    let took = begun.elapsed();
    bed.app.store.close().await.expect("the store closes");
    took
}
