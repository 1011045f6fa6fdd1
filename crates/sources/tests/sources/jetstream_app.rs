//! An application on a real NATS server of its own, as the tests use it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use async_nats::jetstream::{AckKind, Context, Message, stream};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt as _;
use lazaret_brokers::nats::{Options, Server, Version};
use lazaret_core::broker::StreamOrigin;
use lazaret_core::time::Time;
use lazaret_sources::jetstream::{Bridge, JetStream, JetStreamConfig, WatchedConsumer};
use lazaret_sources::{Arrival, Declare, Duty, Source};

/// Deliveries before a message of the application is exhausted.
pub const MAX_DELIVER: u32 = 3;

/// How long something that has to happen may take on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// A stream ORDERS with a consumer `worker`.
pub struct NatsApp {
    pub server: Arc<Mutex<Server>>,
    pub config: JetStreamConfig,
    pub client: Client,
    pub context: Context,
    /// When ORDERS was created.
    pub created: Time,
}

impl NatsApp {
    /// An application whose stream keeps messages by limits, with our topology declared.
    pub async fn start(version: Version) -> NatsApp {
        NatsApp::with_retention(version, RetentionPolicy::Limits).await
    }

    pub async fn with_retention(version: Version, retention: RetentionPolicy) -> NatsApp {
        let app = NatsApp::bare(version, retention).await;
        app.source().declare(Declare::Apply).await.unwrap();
        app
    }

    /// An application without our topology.
    pub async fn bare(version: Version, retention: RetentionPolicy) -> NatsApp {
        let options = Options { version, ..Options::default() };
        let server = tokio::task::spawn_blocking(|| Server::start_with(options)).await.unwrap();
        let client = async_nats::ConnectOptions::new()
            .request_timeout(Some(Duration::from_secs(30)))
            .connect(server.url())
            .await
            .unwrap();
        let context = async_nats::jetstream::new(client.clone());
        let subjects = vec!["orders.>".to_owned(), "OrderCreated".to_owned()];
        let stream = Config { name: "ORDERS".to_owned(), subjects, retention, ..Config::default() };
        let mut stream = context.create_stream(stream).await.unwrap();
        let worker = pull::Config {
            durable_name: Some("worker".to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_deliver: i64::from(MAX_DELIVER),
            backoff: vec![Duration::from_millis(1_000), Duration::from_millis(1_500)],
            ..pull::Config::default()
        };
        stream.create_consumer(worker).await.unwrap();
        let created = stream.info().await.unwrap().created.unix_timestamp_nanos() / 1_000_000;
        let created = Time::from_ms(i64::try_from(created).unwrap());
        let mut config = JetStreamConfig::new("shop", [server.url()]);
        config.consumers = vec![WatchedConsumer {
            backoff_ms: vec![1_000, 1_500],
            ..WatchedConsumer::with_max_deliver("ORDERS", "worker", MAX_DELIVER)
        }];
        config.aggregate_header = Some("Aggregate".to_owned());
        config.ack_wait_ms = 2_000;
        NatsApp { server: Arc::new(Mutex::new(server)), config, client, context, created }
    }

    pub fn source(&self) -> Arc<JetStream> {
        Arc::new(JetStream::new(self.config.clone()).unwrap())
    }

    pub async fn worker(&self) -> PullConsumer {
        self.context.get_consumer_from_stream("worker", "ORDERS").await.unwrap()
    }

    /// Publishes a message of the application; gives its sequence.
    pub async fn publish(&self, subject: &str, headers: HeaderMap, body: &str) -> u64 {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, body.to_owned().into());
        sent.await.unwrap().await.unwrap().sequence
    }

    /// What the worker is given, waiting for at most this long for the first.
    pub async fn pull(&self, max: usize, wait: Duration) -> Vec<Message> {
        let worker = self.worker().await;
        let mut messages = worker.batch().max_messages(max).expires(wait).messages().await.unwrap();
        let mut all = Vec::new();
        while let Some(message) = messages.next().await {
            all.push(message.unwrap());
        }
        all
    }

    /// Lets the worker refuse whatever is there until the server gives it up.
    pub async fn exhaust(&self) {
        for _ in 0..MAX_DELIVER {
            for message in self.pull(500, Duration::from_millis(500)).await {
                message.ack_with(AckKind::Nak(None)).await.unwrap();
            }
        }
        // The advisory is sent when somebody pulls.
        assert!(self.pull(1, Duration::from_millis(300)).await.is_empty());
    }

    /// Publishes a message and exhausts it; gives its sequence.
    pub async fn exhausted(&self, subject: &str, body: &str) -> u64 {
        let sequence = self.publish(subject, HeaderMap::new(), body).await;
        self.exhaust().await;
        sequence
    }

    /// The origin of a message of the worker.
    pub fn origin(&self, sequence: u64) -> StreamOrigin {
        StreamOrigin {
            stream: "ORDERS".to_owned(),
            stream_created: self.created,
            sequence,
            consumer: "worker".to_owned(),
        }
    }

    /// The id under which a message of ORDERS is captured.
    pub fn message_id(&self, sequence: u64) -> String {
        format!("ORDERS:{}:{sequence}", self.created.ms())
    }

    /// How many messages a stream has.
    pub async fn count(&self, stream: &str) -> u64 {
        self.context.get_stream(stream).await.unwrap().info().await.unwrap().state.messages
    }

    pub async fn stream(&self, name: &str) -> stream::Stream {
        self.context.get_stream(name).await.unwrap()
    }

    pub async fn kill(&self) {
        let server = Arc::clone(&self.server);
        tokio::task::spawn_blocking(move || server.lock().unwrap().kill()).await.unwrap();
    }

    pub async fn start_again(&self) {
        let server = Arc::clone(&self.server);
        tokio::task::spawn_blocking(move || server.lock().unwrap().start_again()).await.unwrap();
    }
}

/// Bridges until the dead-letter stream has so many messages.
pub async fn bridge_until(app: &NatsApp, bridge: &Bridge, count: u64) {
    let until = Instant::now() + WAIT_MAX;
    while app.count("DLQ").await < count {
        assert!(
            Instant::now() < until,
            "{} of {count} are bridged: {:?}",
            app.count("DLQ").await,
            bridge.counts()
        );
        bridge.run_once().await.unwrap();
    }
}

/// The next arrivals, of which there have to be some.
pub async fn some_letters(source: &JetStream) -> Vec<Arrival> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        assert!(Instant::now() < until, "nothing arrives");
        let arrivals = source.next().await.unwrap();
        if !arrivals.is_empty() {
            return arrivals;
        }
    }
}
