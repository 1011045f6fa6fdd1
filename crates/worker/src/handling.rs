//! One run of a handler, whichever broker the message came from.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lazaret_core::attempt::Attempt;
use lazaret_core::time::Time;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::failure::Failure;

pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
pub(crate) type Handler<D> = Arc<dyn Fn(D) -> Handling + Send + Sync>;

/// How the handler ended.
pub(crate) enum Outcome {
    Succeeded,
    Failed(Failed),
    /// The shutdown did not wait for it.
    Abandoned,
}

/// A run that failed.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) started: Time,
    pub(crate) took: Duration,
}

impl Failed {
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt {
            at: Some(self.started),
            duration_ms: Some(u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX)),
            error: self.failure.error().clone(),
            extra: None,
        }
    }
}

/// Runs the handler in a task of its own: a panic ends that task alone, and dropping this future aborts it.
pub(crate) async fn run<D>(handler: &Handler<D>, delivery: D, mut abandoned: watch::Receiver<bool>) -> Outcome
where
    D: Send + 'static,
{
    let (started, begun) = (now(), Instant::now());
    let handler = Arc::clone(handler);
    let mut task = JoinSet::new();
    task.spawn(async move { handler(delivery).await });
    let failure = tokio::select! {
        ended = task.join_next() => match ended {
            Some(Ok(Ok(()))) => return Outcome::Succeeded,
            Some(Ok(Err(failure))) => failure,
            Some(Err(error)) if error.is_panic() => panicked(error.into_panic().as_ref()),
            // The runtime is going down.
            Some(Err(_)) | None => return Outcome::Abandoned,
        },
        // An error means that the worker is gone, and this run with it.
        _ = abandoned.wait_for(|abandoned| *abandoned) => return Outcome::Abandoned,
    };
    Outcome::Failed(Failed { failure, started, took: begun.elapsed() })
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> Failure {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the handler panicked");
    Failure::new("panic", message)
}

/// A handler's panic is a failure of its message; this one is ours.
pub(crate) fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(
            "a job of the worker ended unexpectedly: {error}; its message will be delivered again"
        );
    }
}

/// Waits for the jobs up to `limit`, then tells them that nobody waits any longer.
pub(crate) async fn finish_jobs(mut jobs: JoinSet<()>, limit: Duration, abandon: &watch::Sender<bool>) {
    let all_ended = async {
        while let Some(ended) = jobs.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(limit, all_ended).await.is_err() {
        abandon.send_replace(true);
        while let Some(ended) = jobs.join_next().await {
            log_panic(ended);
        }
    }
}

pub(crate) fn time(time: SystemTime) -> Time {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn now() -> Time {
    time(SystemTime::now())
}
