//! A worker for a durable pull consumer of NATS JetStream.
//!
//! The loop here pulls as many messages as there are free slots, so a message never waits in a buffer while its time to be
//! acknowledged runs out. What becomes of one message is decided in `job`.

mod ack;
mod consumer;
mod dead_letter;
mod delivery;
mod history;
mod job;
mod pulls;

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use lazaret_core::broker::RECEIPTS_SUBJECT;
use lazaret_core::class::ClassRules;
use lazaret_core::retry::{Preset, RetryPolicy};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use self::consumer::Bound;
pub use self::delivery::Delivery;
use self::history::Histories;
use self::job::{Job, Shared};
use self::pulls::{Pulled, Pulls};
use crate::failure::Failure;
use crate::handling::{self, Handler, Handling, log_panic};
use crate::settings::{BadSettings, Settings};

const CONCURRENCY_DEFAULT: usize = 16;

const SHUTDOWN_DEFAULT: Duration = Duration::from_secs(30);

/// Between two looks for a consumer that went away: soon at first, then as patiently as one waits for an operator.
const REBIND_MIN: Duration = Duration::from_millis(500);
const REBIND_MAX: Duration = Duration::from_secs(10);

/// Why a worker cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// The stream or consumer does not exist, or the server did not answer.
    #[error("cannot use consumer {consumer} of stream {stream}")]
    Consumer {
        stream: String,
        consumer: String,
        #[source]
        source: async_nats::Error,
    },
    /// The consumer is set up so that this worker would lose messages.
    #[error("consumer {consumer} of stream {stream} does not fit: {reason}")]
    Unfit { stream: String, consumer: String, reason: &'static str },
    /// The program closed the connection under the worker.
    #[error("the connection to NATS was closed")]
    Closed,
}

/// Runs a handler for the messages of one consumer. See the [crate's documentation](crate) for what it does with failures.
#[derive(Debug, Clone)]
pub struct Worker {
    client: Client,
    stream: String,
    consumer: String,
    domain: Option<String>,
    concurrency: usize,
    shutdown_limit: Duration,
    receipts_subject: String,
    settings: Settings,
}

impl Worker {
    /// A worker for a consumer that exists already: durable, pull-based, with explicit acknowledgements.
    pub fn new(client: Client, stream: impl Into<String>, consumer: impl Into<String>) -> Worker {
        Worker {
            client,
            stream: stream.into(),
            consumer: consumer.into(),
            domain: None,
            concurrency: CONCURRENCY_DEFAULT,
            shutdown_limit: SHUTDOWN_DEFAULT,
            receipts_subject: RECEIPTS_SUBJECT.to_owned(),
            settings: Settings::new(Preset::Jetstream),
        }
    }

    /// Messages that are handled at a time, 16 unless set; 0 is taken as 1.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Worker {
        self.concurrency = messages.max(1);
        self
    }

    /// How often and how late a failed message is tried again. Where the consumer's `max_deliver` is lower than the policy's
    /// attempts, it counts.
    #[must_use]
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Worker {
        self.settings.policy = policy;
        self
    }

    /// Rules of the program's own that say what kind of error is what; the built-in ones come after them.
    #[must_use]
    pub fn class_rules(mut self, rules: ClassRules) -> Worker {
        self.settings.rules = rules;
        self
    }

    /// The program's version, written on dead letters; the environment's `SERVICE_VERSION` unless set.
    #[must_use]
    pub fn service_version(mut self, version: impl Into<String>) -> Worker {
        self.settings.service_version = Some(version.into());
        self
    }

    /// The JetStream domain of the stream, if it is not the connection's own.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Worker {
        self.domain = Some(domain.into());
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
    pub fn receipts_subject(mut self, subject: impl Into<String>) -> Worker {
        self.receipts_subject = subject.into();
        self
    }

    /// Handles messages until `shutdown` completes, then stops pulling, waits for what runs and gives the rest back.
    ///
    /// Returns an error if the worker cannot start; later on it waits for a server or consumer that went away. Dropping the
    /// future aborts all handlers; their messages are delivered again when their time is up.
    pub async fn run<H, F>(self, handler: H, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError>
    where
        H: Fn(Delivery) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let handler: Handler<Delivery> =
            Arc::new(move |delivery| -> Handling { Box::pin(handler(delivery)) });
        let settings = self.settings.resolve(|name| std::env::var(name).ok())?;
        let bound = Bound::find(&self.client, self.domain.as_deref(), &self.stream, &self.consumer).await?;
        let (abandon, abandoned) = watch::channel(false);
        let shared = Arc::new(Shared {
            client: self.client.clone(),
            handler,
            settings,
            receipts_subject: self.receipts_subject,
            histories: Histories::default(),
            slots: Semaphore::new(self.concurrency.min(Semaphore::MAX_PERMITS)),
            abandoned,
        });
        let mut run = Run {
            client: self.client,
            domain: self.domain,
            concurrency: self.concurrency,
            shared,
            jobs: JoinSet::new(),
        };
        let mut pulls = Pulls::open(&run.client, Arc::new(bound)).await?;
        tokio::pin!(shutdown);
        let ended = loop {
            tokio::select! {
                () = &mut shutdown => break Ok(()),
                ended = run.handle_messages(&mut pulls) => match ended {
                    Ended::Closed => break Err(WorkerError::Closed),
                    Ended::Gone(reason) => {
                        tracing::warn!(stream = self.stream, consumer = self.consumer, "consumer is gone: {reason}");
                    }
                },
            }
            tokio::select! {
                () = &mut shutdown => break Ok(()),
                reopened = run.reopen(pulls.bound()) => pulls = reopened,
            }
        };
        run.finish(pulls, self.shutdown_limit, &abandon).await;
        ended
    }
}

/// Why messages stopped coming.
enum Ended {
    /// The consumer was deleted, or nobody answers for it.
    Gone(String),
    Closed,
}

/// A worker that runs.
struct Run {
    client: Client,
    domain: Option<String>,
    concurrency: usize,
    shared: Arc<Shared>,
    jobs: JoinSet<()>,
}

impl Run {
    /// Starts a job for each message until no more come.
    async fn handle_messages(&mut self, pulls: &mut Pulls) -> Ended {
        loop {
            let free = self.concurrency.saturating_sub(self.jobs.len());
            tokio::select! {
                pulled = pulls.next(free) => match pulled {
                    Pulled::Message(message) => {
                        if let Some(job) = Job::new(&self.shared, pulls.bound(), message) {
                            self.jobs.spawn(job.run());
                        }
                    }
                    Pulled::Gone(reason) => return Ended::Gone(reason),
                    Pulled::Closed => return Ended::Closed,
                },
                Some(ended) = self.jobs.join_next() => log_panic(ended),
            }
        }
    }

    /// Waits until the consumer is there again. Jobs go on meanwhile.
    async fn reopen(&mut self, before: &Bound) -> Pulls {
        let mut wait = REBIND_MIN;
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(REBIND_MAX);
            while let Some(ended) = self.jobs.try_join_next() {
                log_panic(ended);
            }
            let opened = match before.find_again(&self.client, self.domain.as_deref()).await {
                Ok(bound) => {
                    if bound.stream_created != before.stream_created {
                        // Sequences begin anew, and so do histories.
                        self.shared.histories.clear();
                    }
                    Pulls::open(&self.client, Arc::new(bound)).await
                }
                Err(error) => Err(error),
            };
            match opened {
                Ok(pulls) => return pulls,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "{error}; trying again")
                }
            }
        }
    }

    /// Stops pulling, gives back what was not begun, waits for what runs, and then gives that back too.
    async fn finish(self, pulls: Pulls, limit: Duration, abandon: &watch::Sender<bool>) {
        let bound = Arc::clone(pulls.bound());
        for message in pulls.drain().await {
            if let Some(job) = Job::new(&self.shared, &bound, message) {
                job.give_back().await;
            }
        }
        handling::finish_jobs(self.jobs, limit, abandon).await;
        if let Err(error) = self.client.flush().await {
            tracing::debug!("cannot flush: {error}");
        }
    }
}
