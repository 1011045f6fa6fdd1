//! An application on a virtual host of a real RabbitMQ, as the tests use it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicRejectOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use lazaret_brokers::rabbitmq::{Server, Vhost};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::destination::{Content, Outgoing};
use lazaret_sources::rabbitmq::{Auth, DeadLetterQueue, MessageField, RabbitMq, RabbitMqConfig};
use lazaret_sources::{Arrival, Secret, Source};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long something that has to happen may take on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The queue of the application and its dead-letter queue.
pub const QUEUE: &str = "orders";
pub const DLQ: &str = "orders-dlq";

/// A queue `orders` that dead-letters to `orders-dlq`.
pub struct RabbitApp {
    pub vhost: Vhost,
    pub config: RabbitMqConfig,
    /// The application's own connection, which a cut does not end.
    pub connection: Connection,
    pub channel: Channel,
    pub cable: Cable,
    consumer: tokio::sync::Mutex<Option<Consumer>>,
}

impl RabbitApp {
    /// An application on a virtual host of its own at the node that all tests share.
    pub async fn start() -> RabbitApp {
        let (vhost, port) = tokio::task::spawn_blocking(|| {
            let server = Server::shared();
            (server.vhost(), server.port())
        })
        .await
        .unwrap();
        RabbitApp::at(vhost, port).await
    }

    pub async fn at(vhost: Vhost, port: u16) -> RabbitApp {
        let cable = Cable::start(port).await;
        let connection = connect(&vhost.url).await;
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let config = config(&vhost, cable.port);
        let app =
            RabbitApp { vhost, config, connection, channel, cable, consumer: tokio::sync::Mutex::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
        arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(DLQ.into()));
        app.declare(QUEUE, arguments).await;
        app.source().declare(lazaret_sources::Declare::Apply).await.unwrap();
        app
    }

    pub async fn declare(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions::durable();
        self.channel.queue_declare(queue.into(), options, arguments).await.unwrap();
    }

    /// The source as a process that starts has it.
    pub fn source(&self) -> Arc<RabbitMq> {
        Arc::new(RabbitMq::new(self.config.clone()).unwrap())
    }

    /// Publishes through the default exchange and waits for the confirm.
    pub async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        publish(&self.channel, "", queue, properties, body).await;
    }

    /// Rejects the next message of a queue, so that RabbitMQ dead-letters it.
    pub async fn reject(&self, queue: &str) {
        let delivery = self.get(queue).await;
        delivery.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    }

    /// The next message of a queue, not acknowledged.
    pub async fn get(&self, queue: &str) -> Delivery {
        let until = Instant::now() + WAIT_MAX;
        loop {
            assert!(Instant::now() < until, "nothing arrives in {queue}");
            let got = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap();
            if let Some(got) = got {
                return got.delivery;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Messages in a queue that nobody has.
    pub async fn ready(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.unwrap().message_count()
    }

    pub async fn wait_ready(&self, queue: &str, count: u32) {
        let until = Instant::now() + WAIT_MAX;
        while self.ready(queue).await != count {
            assert!(Instant::now() < until, "{} ready in {queue}, not {count}", self.ready(queue).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Consumes from `orders` from now on.
    pub async fn consume(&self) {
        let mut consumer = self.consumer.lock().await;
        if consumer.is_none() {
            let channel = self.connection.create_channel().await.unwrap();
            let options = BasicConsumeOptions::default();
            let consuming = channel.basic_consume(QUEUE.into(), "app".into(), options, FieldTable::default());
            *consumer = Some(consuming.await.unwrap());
        }
    }

    /// Takes and acknowledges what is in `orders`, until nothing comes for a while.
    pub async fn take(&self) -> Vec<Delivery> {
        self.consume().await;
        let (mut slot, mut all) = (self.consumer.lock().await, Vec::new());
        let consumer = slot.as_mut().unwrap();
        while let Ok(next) = tokio::time::timeout(Duration::from_millis(700), consumer.next()).await {
            let delivery = next.unwrap().unwrap();
            delivery.ack(BasicAckOptions::default()).await.unwrap();
            all.push(delivery);
        }
        all
    }
}

pub async fn connect(url: &str) -> Connection {
    Connection::connect(url, ConnectionProperties::default()).await.unwrap()
}

pub async fn publish(
    channel: &Channel,
    exchange: &str,
    routing_key: &str,
    properties: BasicProperties,
    body: &[u8],
) {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirm = channel.basic_publish(exchange.into(), routing_key.into(), options, body, properties).await;
    let confirmation = confirm.unwrap().await.unwrap();
    assert!(
        confirmation.is_ack() && confirmation.take_message().is_none(),
        "{routing_key} takes no messages"
    );
}

pub fn config(vhost: &Vhost, port: u16) -> RabbitMqConfig {
    let mut config = RabbitMqConfig::new("orders", [format!("amqp://127.0.0.1:{port}")]);
    config.vhost.clone_from(&vhost.name);
    config.auth = Auth::User { user: "guest".to_owned(), password: Secret::new("guest") };
    config.queues = vec![DeadLetterQueue::new(DLQ)];
    config.aggregate = MessageField::parse("x-aggregate").ok();
    config
}

/// Asks until so many arrived, each receipt once.
pub async fn arrivals(source: &RabbitMq, count: usize) -> Vec<Arrival> {
    let until = Instant::now() + WAIT_MAX;
    let mut all: Vec<Arrival> = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < until, "{} of {count} arrived", all.len());
        match source.next().await {
            Ok(arrivals) => {
                for new in arrivals {
                    if !all.iter().any(|it| it.receipt == new.receipt) {
                        all.push(new);
                    }
                }
            }
            Err(error) => assert!(error.passes(), "{error}"),
        }
    }
    all
}

pub async fn ack(source: &RabbitMq, arrivals: &[Arrival]) {
    let receipts: Vec<_> = arrivals.iter().map(|arrival| arrival.receipt.clone()).collect();
    source.ack(&receipts).await.unwrap();
}

/// A captured letter on its way back.
pub fn outgoing(arrival: &Arrival) -> Outgoing {
    let (at, captured) = (Time::from_ms(1_763_175_600_000), &arrival.captured);
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: captured.message_id.clone(),
        idempotency_key: "the-letter:1:1".to_owned(),
        content_type: captured.envelope.content_type().to_owned(),
        headers: captured.envelope.headers().to_vec(),
        body: captured.envelope.body().clone(),
        content: Content::Original,
        origin: captured.envelope.origin().cloned(),
    }
}

/// A text among the headers of a message.
pub fn header(delivery: &Delivery, name: &str) -> Option<String> {
    match delivery.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// A connection between the source and its broker that can be cut.
pub struct Cable {
    pub port: u16,
    broker: u16,
    passing: Mutex<Option<JoinHandle<()>>>,
    /// Whether answers of the broker are passed on.
    answers: watch::Sender<bool>,
}

impl Cable {
    async fn start(broker: u16) -> Cable {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = watch::Sender::new(true);
        let passing = Mutex::new(Some(pass_on(listener, broker, answers.subscribe())));
        Cable { port, broker, passing, answers }
    }

    /// Ends every connection and refuses new ones.
    pub async fn cut(&self) {
        let passing = self.passing.lock().unwrap().take();
        if let Some(passing) = passing {
            passing.abort();
            // The listener is closed once its task has ended.
            assert!(passing.await.unwrap_err().is_cancelled());
        }
    }

    pub async fn heal(&self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        *self.passing.lock().unwrap() = Some(pass_on(listener, self.broker, self.answers.subscribe()));
    }

    /// Keeps what the broker answers from now on; what is sent to it is passed on.
    pub fn mute(&self) {
        self.answers.send_replace(false);
    }
}

fn pass_on(listener: TcpListener, broker: u16, answers: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut passing = tokio::task::JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let mut answers = answers.clone();
            passing.spawn(async move {
                let Ok(server) = TcpStream::connect(("127.0.0.1", broker)).await else { return };
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                let there = async move {
                    tokio::io::copy(&mut from_client, &mut to_server).await.ok();
                };
                let back = async move {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                        let is_heard = answers.wait_for(|is_heard| *is_heard).await.is_ok();
                        if !is_heard || to_client.write_all(&bytes[..count]).await.is_err() {
                            break;
                        }
                    }
                };
                // Either end closes both.
                tokio::select! {
                    () = there => {}
                    () = back => {}
                }
            });
        }
    })
}
