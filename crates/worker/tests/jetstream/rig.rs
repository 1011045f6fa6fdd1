//! A server with the streams that a service has, and a worker that runs on it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{self, Consumer, pull};
use async_nats::jetstream::{Context, message::StreamMessage, stream};
use async_nats::{Client, ConnectOptions, HeaderMap};
use lazaret_brokers::nats::{Options, Server, Version};
use lazaret_core::broker::BrokerDeath;
use lazaret_worker::jetstream::{Delivery, Worker, WorkerError};
use lazaret_worker::{Failure, Jitter, Preset, RetryPolicy};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// For what has to come, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three attempts, 200 and 400 ms apart.
pub const POLICY: RetryPolicy = RetryPolicy {
    attempts: 3,
    first_ms: 200,
    jitter: Jitter::Up { ratio: 0.1 },
    ..Preset::Jetstream.policy()
};

pub struct Rig {
    pub server: Server,
    pub client: Client,
    pub context: Context,
}

impl Rig {
    /// A server with the stream `ORDERS`, its consumer `billing`, and the streams `DLQ` and `RECEIPTS`.
    pub async fn start(version: Version) -> Rig {
        let rig = Rig::bare(Options { version, ..Options::default() }, ConnectOptions::new()).await;
        rig.create_stream("ORDERS", "orders.>").await;
        rig.create_stream("DLQ", "dlq.>").await;
        rig.create_stream("RECEIPTS", "lazaret.receipts").await;
        rig.create_consumer(billing()).await;
        rig
    }

    /// A server without any stream.
    pub async fn bare(options: Options, connect: ConnectOptions) -> Rig {
        let server = Server::start_with(options);
        let client = connect.connect(server.url()).await.unwrap();
        let context = async_nats::jetstream::new(client.clone());
        Rig { server, client, context }
    }

    pub async fn create_stream(&self, name: &str, subject: &str) {
        let config =
            stream::Config { name: name.into(), subjects: vec![subject.into()], ..stream::Config::default() };
        self.context.create_stream(config).await.unwrap();
    }

    pub async fn create_consumer(&self, config: pull::Config) {
        self.context.create_consumer_on_stream(config, "ORDERS").await.unwrap();
    }

    pub async fn publish(&self, body: &str) {
        self.publish_with(HeaderMap::new(), body).await;
    }

    pub async fn publish_with(&self, headers: HeaderMap, body: &str) {
        let sent = self.context.publish_with_headers("orders.new", headers, body.to_owned().into());
        sent.await.unwrap().await.unwrap();
    }

    pub fn worker(&self) -> Worker {
        Worker::new(self.client.clone(), "ORDERS", "billing").retry_policy(POLICY)
    }

    pub async fn consumer(&self) -> consumer::Info {
        let mut consumer: Consumer<pull::Config> =
            self.context.get_consumer_from_stream("billing", "ORDERS").await.unwrap();
        consumer.info().await.unwrap().clone()
    }

    /// Waits until the client has found a restarted server again.
    pub async fn wait_until_connected(&self) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.context.get_stream("ORDERS").await {
            assert!(Instant::now() < until, "{error}");
        }
    }

    /// All messages of a stream. Of a repeated header the client returns the last value alone.
    pub async fn messages(&self, stream: &str) -> Vec<StreamMessage> {
        let stream = self.context.get_stream(stream).await.unwrap();
        let state = &stream.cached_info().state;
        let mut messages = Vec::new();
        // An empty stream begins at 0.
        for sequence in state.first_sequence.max(1)..=state.last_sequence {
            messages.push(stream.get_raw_message(sequence).await.unwrap());
        }
        messages
    }

    /// The dead letters, once there are this many.
    pub async fn dead_letters(&self, count: usize) -> Vec<StreamMessage> {
        self.wait_for_messages("DLQ", count).await
    }

    pub async fn wait_for_messages(&self, stream: &str, count: usize) -> Vec<StreamMessage> {
        let until = Instant::now() + PATIENCE;
        loop {
            let messages = self.messages(stream).await;
            if messages.len() >= count {
                assert_eq!(messages.len(), count, "{messages:?}");
                return messages;
            }
            assert!(Instant::now() < until, "{stream} has {} messages of {count}", messages.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the consumer has nothing left to deliver or to hear of.
    pub async fn wait_until_idle(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let info = self.consumer().await;
            if info.num_pending == 0 && info.num_ack_pending == 0 {
                return;
            }
            assert!(Instant::now() < until, "{info:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub fn billing() -> pull::Config {
    pull::Config { durable_name: Some("billing".into()), ..pull::Config::default() }
}

/// A worker that runs in the background.
pub struct Running {
    stop: oneshot::Sender<()>,
    pub task: JoinHandle<Result<(), WorkerError>>,
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

pub async fn next<T>(events: &mut tokio::sync::mpsc::UnboundedReceiver<T>) -> T {
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

/// Every header with all its values.
pub fn all_values(headers: &HeaderMap) -> HashMap<String, Vec<String>> {
    let values = |values: &Vec<async_nats::HeaderValue>| values.iter().map(ToString::to_string).collect();
    headers.iter().map(|(name, all)| (name.to_string(), values(all))).collect()
}

pub fn death(message: &StreamMessage) -> BrokerDeath {
    BrokerDeath::read(|name| message.headers.get(name).map(|value| value.as_str()))
}
