//! A virtual host for one test, and a worker that runs on it.

use std::time::{Duration, Instant};

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use lazaret_brokers::rabbitmq::{Server, Vhost};
use lazaret_core::broker::rabbitmq::DlqMessage;
use lazaret_worker::rabbitmq::{Delivery, Worker, WorkerError};
use lazaret_worker::{Failure, Preset, RetryPolicy};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// For what has to come, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

pub const SERVICE: &str = "billing";
pub const QUEUE: &str = "orders";
pub const DLQ: &str = "billing-dlq";

/// The preset at a twentieth of its delays: 100, 200 and 400 ms.
pub const POLICY: RetryPolicy = RetryPolicy { first_ms: 100, cap_ms: 1_500, ..Preset::Rabbitmq.policy() };

pub struct Rig {
    pub vhost: Vhost,
    pub channel: Channel,
    _connection: Connection,
}

impl Rig {
    /// An empty virtual host of the node that all tests share.
    pub async fn start() -> Rig {
        // Starting the node blocks, and so does the management API.
        let vhost = tokio::task::spawn_blocking(|| Server::shared().vhost()).await.unwrap();
        let (connection, channel) = connect(&vhost.url).await;
        Rig { vhost, channel, _connection: connection }
    }

    pub fn worker(&self) -> Worker {
        worker(&self.vhost.url)
    }

    pub async fn publish(&self, body: &str) {
        self.publish_with(BasicProperties::default().with_delivery_mode(2), body).await;
    }

    pub async fn publish_with(&self, properties: BasicProperties, body: &str) {
        self.declare_work_queue().await;
        publish(&self.channel, QUEUE, properties, body).await;
    }

    /// As the application would that sends messages before any worker has started.
    pub async fn declare_work_queue(&self) {
        declare(&self.channel, QUEUE, FieldTable::default()).await;
    }

    pub async fn delete_queue(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// The dead letters, once there are this many; they are taken from the queue.
    pub async fn dead_letters(&self, count: usize) -> Vec<BasicGetMessage> {
        // Asking for messages of a queue that is not there closes the channel.
        wait_for("the dead-letter queue", async || self.queue(DLQ).await.is_some()).await;
        let until = Instant::now() + PATIENCE;
        let mut letters = Vec::new();
        while letters.len() < count {
            match take(&self.channel, DLQ).await {
                Some(letter) => letters.push(letter),
                None => {
                    assert!(Instant::now() < until, "{} dead letters of {count}", letters.len());
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
        assert!(take(&self.channel, DLQ).await.is_none(), "more than {count} dead letters");
        letters
    }

    /// What the management API says of a queue, with fresh numbers.
    pub async fn queue(&self, name: &str) -> Option<Value> {
        self.api("GET", &format!("/api/queues/{}/{name}", self.vhost.name), "").await
    }

    pub async fn api(&self, method: &'static str, path: &str, body: &str) -> Option<Value> {
        let (path, body) = (path.to_owned(), body.to_owned());
        let answer = tokio::task::spawn_blocking(move || Server::shared().api(method, &path, &body));
        answer.await.unwrap().map(|text| serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// The messages that are ready in a queue. Takes no part in its statistics, which are late.
    pub async fn ready(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        found.message_count()
    }

    /// Waits until the work queue has nothing to deliver and nothing to hear of.
    pub async fn wait_until_idle(&self) {
        wait_for("the work queue to be empty", async || {
            let queue = self.queue(QUEUE).await.unwrap_or_default();
            queue["messages"] == 0 && self.ready(QUEUE).await == 0
        })
        .await;
    }
}

impl Drop for Rig {
    /// Its queues would cost the node of all tests memory and time.
    fn drop(&mut self) {
        let path = format!("/api/vhosts/{}", self.vhost.name);
        // Not awaited and not needed: the node goes away with the tests.
        std::thread::spawn(move || Server::shared().api("DELETE", &path, ""));
    }
}

pub fn worker(url: &str) -> Worker {
    Worker::new(url, SERVICE, QUEUE).retry_policy(POLICY)
}

pub async fn connect(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    (connection, channel)
}

pub async fn declare(channel: &Channel, queue: &str, arguments: FieldTable) {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, arguments).await.unwrap();
}

pub async fn publish(channel: &Channel, queue: &str, properties: BasicProperties, body: &str) {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
    let confirmation = sent.await.unwrap().await.unwrap();
    assert!(matches!(confirmation, Confirmation::Ack(None)), "{confirmation:?}");
}

/// The next message of a queue, acknowledged.
pub async fn take(channel: &Channel, queue: &str) -> Option<BasicGetMessage> {
    let message = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap()?;
    message.ack(BasicAckOptions::default()).await.unwrap();
    Some(message)
}

/// Asks until the answer is yes.
pub async fn wait_for(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(Instant::now() < until, "waited in vain for {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A worker that runs in the background.
pub struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    pub fn start<H, F>(worker: Worker, handler: H) -> Running
    where
        H: Fn(Delivery) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            stopped.await.ok();
        };
        Running { stop, task: tokio::spawn(worker.run(handler, shutdown)) }
    }

    /// Starts a worker whose handler tells of every delivery and ends as `outcome` says.
    pub fn start_telling<O>(worker: Worker, outcome: O) -> (Running, UnboundedReceiver<Delivery>)
    where
        O: Fn(&Delivery) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let (told, deliveries): (UnboundedSender<Delivery>, _) = unbounded_channel();
        let running = Running::start(worker, move |delivery| {
            let outcome = outcome(&delivery);
            told.send(delivery).ok();
            async move { outcome }
        });
        (running, deliveries)
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
    }

    /// Ends it as if its process had ended.
    pub async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub async fn next<T>(events: &mut UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, events.recv())
        .await
        .expect("nothing came")
        .expect("nobody is left to send")
}

pub fn timed_out() -> Failure {
    Failure::new("TimeoutError", "the bank timed out").with_code("ETIMEDOUT")
}

pub fn invalid() -> Failure {
    Failure::new("ValidationError", "amount is missing")
}

pub fn parse(letter: &BasicGetMessage) -> DlqMessage {
    DlqMessage::parse(&letter.data).unwrap()
}

pub fn header<'m>(message: &'m BasicGetMessage, name: &str) -> Option<&'m AMQPValue> {
    message.properties.headers().as_ref()?.inner().get(name)
}

pub fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

pub fn table<const N: usize>(fields: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in fields {
        table.insert(name.into(), value);
    }
    table
}
