//! Answers to the server: what became of a delivery, and signs of life until then.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::AckKind;
use async_nats::{Client, Request, Subject};
use tokio::time::{Instant, MissedTickBehavior};

/// For the server to confirm an answer.
const CONFIRM_MAX: Duration = Duration::from_secs(5);

/// An answer that was not confirmed is sent again; the server takes it once. Together they outlast a restart of the server.
const TRIES: u32 = 6;

/// Between two of them: a server that has no leader refuses at once.
const PAUSE: Duration = Duration::from_millis(500);

/// Signs of life for each time that the server waits for one.
const SIGNS_PER_WAIT: u32 = 3;

/// However short the server waits, more signs than this would be load and no help.
const SIGN_EVERY_MIN: Duration = Duration::from_millis(50);

/// How one delivery is answered.
#[derive(Debug, Clone)]
pub(crate) struct Acker {
    pub(crate) client: Client,
    pub(crate) subject: Subject,
    /// How long the server waits for a sign of life.
    pub(crate) wait: Duration,
}

impl Acker {
    /// Answers, and returns true when the server has confirmed it.
    pub(crate) async fn answer(&self, kind: AckKind) -> bool {
        for tried in 1..=TRIES {
            if self.try_answer(kind).await {
                return true;
            }
            if tried < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        false
    }

    /// Answers once, and returns true when the server has confirmed it.
    pub(crate) async fn try_answer(&self, kind: AckKind) -> bool {
        let request = Request::new().payload(kind.into()).timeout(Some(CONFIRM_MAX));
        match self.client.send_request(self.subject.clone(), request).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!("{kind:?} was not confirmed: {error}");
                false
            }
        }
    }

    /// Does `work` and tells the server meanwhile that it is going on. Also returns whether the server may have stopped
    /// waiting in between.
    pub(crate) async fn keep_alive<T>(&self, work: impl Future<Output = T>) -> (T, Lapse) {
        tokio::pin!(work);
        let mut signs = tokio::time::interval((self.wait / SIGNS_PER_WAIT).max(SIGN_EVERY_MIN));
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate; the delivery itself was the first sign.
        signs.tick().await;
        let mut heard_at = Instant::now();
        let mut lapse = Lapse::No;
        loop {
            tokio::select! {
                output = &mut work => {
                    if heard_at.elapsed() > self.wait {
                        lapse = Lapse::Possible;
                    }
                    return (output, lapse);
                }
                _ = signs.tick() => {
                    if heard_at.elapsed() > self.wait {
                        lapse = Lapse::Possible;
                    }
                    // What is sent while disconnected waits in the client, and when that is full, we do.
                    if self.client.connection_state() == State::Connected {
                        let sent = self.client.publish(self.subject.clone(), AckKind::Progress.into()).await;
                        if sent.is_ok() {
                            heard_at = Instant::now();
                        }
                    }
                }
            }
        }
    }
}

/// Whether the server may have given a delivery up before its work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    No,
    Possible,
}
