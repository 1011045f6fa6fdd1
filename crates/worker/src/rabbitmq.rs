//! A worker for a queue of RabbitMQ.
//!
//! The loop here takes a message from the consumer when a slot is free; more of them wait in the client, up to the prefetch
//! count. What becomes of one message is decided in `job`.

mod category;
mod connect;
mod delivery;
mod job;
mod message;
mod publisher;
mod topology;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Connection, Consumer};
use lazaret_core::broker::rabbitmq::RECEIPTS_QUEUE;
use lazaret_core::class::ClassRules;
use lazaret_core::retry::{Preset, RetryPolicy};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use self::category::ErrorCategory;
use self::connect::Connector;
pub use self::delivery::Delivery;
use self::job::{Job, Shared};
use self::message::Service;
use self::publisher::Publisher;
pub use self::topology::QueueType;
use self::topology::{QueueOptions, Topology};
use crate::failure::Failure;
use crate::handling::{self, Handler, Handling, log_panic};
use crate::settings::{BadSettings, Settings};

const CONCURRENCY_DEFAULT: usize = 16;

const SHUTDOWN_DEFAULT: Duration = Duration::from_secs(30);

/// The version of a service that does not say which one it is.
const SERVICE_VERSION_DEFAULT: &str = "1.0.0";

/// Between two attempts to connect.
const RECONNECT_MIN: Duration = Duration::from_millis(500);
const RECONNECT_MAX: Duration = Duration::from_secs(10);

/// For the broker to answer a request.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    #[error(transparent)]
    Settings(#[from] BadSettings),
    #[error(
        "the address is no AMQP URL; write amqp://user:password@host:port/vhost with special characters as %XX"
    )]
    Url,
    #[error("cannot connect to {address}")]
    Connect {
        address: String,
        #[source]
        source: lapin::Error,
    },
    /// A queue exists, but is not what this worker needs.
    #[error(
        "queue {queue} exists with another `{argument}`: {difference}; delete the queue, or set the worker up like it"
    )]
    QueueDiffers { queue: String, argument: String, difference: String },
    #[error("cannot use queue {queue}")]
    Queue {
        queue: String,
        #[source]
        source: lapin::Error,
    },
    #[error("cannot use queue {queue}: the broker does not answer")]
    TimedOut { queue: String },
    #[error("a queue cannot be named `{0}`: names have 1 to 255 bytes")]
    QueueName(String),
    #[error(
        "the retry policy needs {delays} delay queues, at most {max} are allowed; give it a lower cap or fewer attempts"
    )]
    TooManyDelays { delays: usize, max: usize },
}

/// Runs a handler for the messages of one queue. See the [crate's documentation](crate) for what it does with failures.
#[derive(Clone)]
pub struct Worker {
    url: String,
    tls: OwnedTLSConfig,
    service: String,
    queue: String,
    queues: QueueOptions,
    prefetch: Option<u16>,
    concurrency: usize,
    shutdown_limit: Duration,
    receipts_queue: String,
    settings: Settings,
}

impl Worker {
    /// A worker of a service for a queue. Dead letters go to `<service>-dlq`. The URL is like
    /// `amqp://user:password@host:5672/vhost`, or `amqps` for TLS.
    pub fn new(url: impl Into<String>, service: impl Into<String>, queue: impl Into<String>) -> Worker {
        Worker {
            url: url.into(),
            tls: OwnedTLSConfig::default(),
            service: service.into(),
            queue: queue.into(),
            queues: QueueOptions { queue_type: None, delay_queue_type: QueueType::Quorum, arguments: None },
            prefetch: None,
            concurrency: CONCURRENCY_DEFAULT,
            shutdown_limit: SHUTDOWN_DEFAULT,
            receipts_queue: RECEIPTS_QUEUE.to_owned(),
            settings: Settings::new(Preset::Rabbitmq),
        }
    }

    /// Certificates for `amqps` beside those of the system: an authority of one's own, and a client certificate.
    #[must_use]
    pub fn tls(mut self, tls: OwnedTLSConfig) -> Worker {
        self.tls = tls;
        self
    }

    /// Messages that are handled at a time, 16 unless set; 0 is taken as 1.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Worker {
        self.concurrency = messages.max(1);
        self
    }

    /// Messages that the broker sends ahead of their acknowledgement, twice the concurrency unless set; 0 is taken as 1. With
    /// fewer than the concurrency, that many are handled at a time.
    #[must_use]
    pub fn prefetch(mut self, messages: u16) -> Worker {
        self.prefetch = Some(messages.max(1));
        self
    }

    /// How often and how late a failed message is tried again. The delays are queues, so a policy with other delays uses other
    /// queues; what waits in the old ones comes back all the same.
    #[must_use]
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Worker {
        self.settings.policy = policy;
        self
    }

    /// Retries after the first attempt, 3 unless set. The environment's `MAX_RETRIES` beats it.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Worker {
        self.settings.policy.attempts = retries.saturating_add(1);
        self
    }

    /// Rules of the program's own that say what kind of error is what; the built-in ones come after them.
    #[must_use]
    pub fn class_rules(mut self, rules: ClassRules) -> Worker {
        self.settings.rules = rules;
        self
    }

    /// The program's version, written on dead letters; unless set the environment's `SERVICE_VERSION`, else 1.0.0.
    #[must_use]
    pub fn service_version(mut self, version: impl Into<String>) -> Worker {
        self.settings.service_version = Some(version.into());
        self
    }

    /// The type of the work queue and of the dead-letter queue; unless set the broker decides, which is classic by default.
    ///
    /// A work queue of type quorum also gets a delivery limit and dead-letters to `<service>-dlq` at least once: a message that
    /// ends its worker every time goes there too.
    #[must_use]
    pub fn queue_type(mut self, queue_type: QueueType) -> Worker {
        self.queues.queue_type = Some(queue_type);
        self
    }

    /// The type of the delay queues, quorum unless set. Classic ones are lighter and work with RabbitMQ before 3.10, but a node
    /// that crashes at the moment when a delay ends may lose the message.
    #[must_use]
    pub fn delay_queue_type(mut self, queue_type: QueueType) -> Worker {
        self.queues.delay_queue_type = queue_type;
        self
    }

    /// The arguments that the work queue is declared with, in place of those that follow from its type: they have to be the same
    /// as those of everybody else who declares it.
    #[must_use]
    pub fn queue_arguments(mut self, arguments: FieldTable) -> Worker {
        self.queues.arguments = Some(arguments);
        self
    }

    /// How long a shutdown waits for handlers that run, 30 seconds unless set. What takes longer is aborted and given back.
    #[must_use]
    pub fn shutdown_limit(mut self, limit: Duration) -> Worker {
        self.shutdown_limit = limit;
        self
    }

    /// Where receipts of redriven messages are published, `lazaret.receipts` unless set.
    #[must_use]
    pub fn receipts_queue(mut self, queue: impl Into<String>) -> Worker {
        self.receipts_queue = queue.into();
        self
    }

    /// Declares the queues and handles messages until `shutdown` completes; then stops consuming, waits for what runs and gives
    /// the rest back.
    ///
    /// Returns an error if the worker cannot start; later on it waits for a broker that went away. Dropping the future aborts
    /// all handlers; their messages are delivered again.
    pub async fn run<H, F>(self, handler: H, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError>
    where
        H: Fn(Delivery) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let handler: Handler<Delivery> =
            Arc::new(move |delivery| -> Handling { Box::pin(handler(delivery)) });
        let settings = self.settings.resolve(|name| std::env::var(name).ok())?;
        let topology = Topology::new(&self.service, &self.queue, settings.policy, self.queues)?;
        let connector = Connector::new(&self.url, self.tls, &self.service)?;
        let receipts_queue = ShortString::try_new(self.receipts_queue.clone())
            .map_err(|_| WorkerError::QueueName(self.receipts_queue))?;
        let version = settings.service_version.clone();
        let version = version.unwrap_or_else(|| SERVICE_VERSION_DEFAULT.to_owned());
        let (stop, stopping) = watch::channel(false);
        let (abandon, abandoned) = watch::channel(false);
        let shared = Arc::new(Shared {
            handler,
            settings,
            topology,
            service: Service { name: self.service, version },
            publisher: Publisher::new(connector.clone()),
            receipts_queue,
            stopping,
            abandoned,
        });
        let prefetch_default = u16::try_from(self.concurrency.saturating_mul(2)).unwrap_or(u16::MAX);
        let mut run = Run {
            connector,
            prefetch: self.prefetch.unwrap_or(prefetch_default),
            slots: Arc::new(Semaphore::new(self.concurrency.min(Semaphore::MAX_PERMITS))),
            shared,
            jobs: JoinSet::new(),
        };
        let mut session = run.open().await?;
        tokio::pin!(shutdown);
        let last = loop {
            tokio::select! {
                () = &mut shutdown => break Some(session),
                reason = run.handle_messages(&mut session) => {
                    tracing::warn!(queue = %run.shared.topology.work_queue(), "no more messages: {reason}; connecting again");
                }
            }
            // Whatever the reason: the broker shall deliver to others what was prefetched here.
            drop(session);
            tokio::select! {
                () = &mut shutdown => break None,
                reopened = run.reopen() => session = reopened,
            }
        };
        stop.send_replace(true);
        run.finish(last, self.shutdown_limit, &abandon).await;
        Ok(())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL, which holds a password.
        f.debug_struct("Worker")
            .field("service", &self.service)
            .field("queue", &self.queue)
            .field("concurrency", &self.concurrency)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A worker that runs.
struct Run {
    connector: Connector,
    prefetch: u16,
    /// One for each handler that may run.
    slots: Arc<Semaphore>,
    shared: Arc<Shared>,
    jobs: JoinSet<()>,
}

/// A connection that messages come by.
struct Session {
    consumer: Consumer,
    channel: Channel,
    connection: Connection,
}

impl Run {
    async fn open(&self) -> Result<Session, WorkerError> {
        let connection = self.connector.connect("consume").await?;
        self.shared.topology.declare(&connection).await?;
        let queue = self.shared.topology.work_queue();
        let consuming = async {
            let channel = connection.create_channel().await?;
            channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
            let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
            let consumer = channel.basic_consume(queue.clone(), "".into(), options, arguments).await?;
            Ok((channel, consumer))
        };
        match tokio::time::timeout(ANSWER_MAX, consuming).await {
            Ok(Ok((channel, consumer))) => Ok(Session { consumer, channel, connection }),
            Ok(Err(source)) => Err(WorkerError::Queue { queue: queue.to_string(), source }),
            Err(_) => Err(WorkerError::TimedOut { queue: queue.to_string() }),
        }
    }

    /// Starts a job for each message until no more come, and returns the reason.
    async fn handle_messages(&mut self, session: &mut Session) -> String {
        loop {
            let slots = Arc::clone(&self.slots);
            let next = async { (slots.acquire_owned().await, session.consumer.next().await) };
            tokio::select! {
                (slot, delivered) = next => match (slot, delivered) {
                    (Ok(slot), Some(Ok(delivery))) => {
                        self.jobs.spawn(Job::new(&self.shared, delivery).run(slot));
                    }
                    (Ok(_), Some(Err(error))) => return error.to_string(),
                    (Ok(_), None) => return "the broker ended the consumer, as when the queue is deleted".to_owned(),
                    (Err(closed), _) => return closed.to_string(),
                },
                Some(ended) = self.jobs.join_next() => log_panic(ended),
            }
        }
    }

    /// Waits until the broker is there again. Jobs go on meanwhile, but their deliveries are void.
    async fn reopen(&mut self) -> Session {
        let mut wait = RECONNECT_MIN;
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RECONNECT_MAX);
            while let Some(ended) = self.jobs.try_join_next() {
                log_panic(ended);
            }
            match self.open().await {
                Ok(session) => return session,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "{error}; trying again");
                }
            }
        }
    }

    /// Stops consuming, gives back what was not begun, waits for what runs, and then gives that back too.
    async fn finish(self, session: Option<Session>, limit: Duration, abandon: &watch::Sender<bool>) {
        let mut connection = None;
        if let Some(mut session) = session {
            let drained = self.give_back_the_rest(&mut session);
            if tokio::time::timeout(ANSWER_MAX, drained).await.is_err() {
                tracing::debug!("the broker did not confirm the end of the consumer");
            }
            // The channel stays open: running jobs answer on it.
            connection = Some((session.connection, session.channel));
        }
        handling::finish_jobs(self.jobs, limit, abandon).await;
        self.shared.publisher.close().await;
        if let Some((connection, _channel)) = connection {
            connect::close(&connection).await;
        }
    }

    async fn give_back_the_rest(&self, session: &mut Session) {
        let tag = session.consumer.tag();
        if let Err(error) = session.channel.basic_cancel(tag, BasicCancelOptions::default()).await {
            tracing::debug!("cannot end the consumer: {error}");
            return;
        }
        while let Some(Ok(delivery)) = session.consumer.next().await {
            Job::new(&self.shared, delivery).give_back().await;
        }
    }
}
