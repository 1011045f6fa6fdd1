//! The consumer that a worker is bound to, as it was found.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, Config};
use lazaret_core::time::Time;

use super::WorkerError;
use crate::handling::time;

/// The server's own, where a consumer names none.
const ACK_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// A consumer and what of its configuration matters to a worker.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) stream: String,
    pub(crate) stream_created: Time,
    pub(crate) consumer: String,
    /// The subject that messages are requested on.
    pub(crate) next_subject: String,
    /// Messages that one request may ask for.
    pub(crate) batch_max: Option<usize>,
    /// How long a request may wait for messages.
    pub(crate) expires_max: Option<Duration>,
    /// Deliveries of one message; `None` where there is no limit.
    pub(crate) deliveries_max: Option<u32>,
    ack_wait: Duration,
    /// The server takes these in place of `ack_wait`, one for each delivery.
    backoff: Vec<Duration>,
}

impl Bound {
    pub(crate) async fn find(
        client: &Client,
        domain: Option<&str>,
        stream: &str,
        consumer: &str,
    ) -> Result<Bound, WorkerError> {
        let context = match domain {
            Some(domain) => async_nats::jetstream::with_domain(client.clone(), domain),
            None => async_nats::jetstream::new(client.clone()),
        };
        let failed = |source: async_nats::Error| WorkerError::Consumer {
            stream: stream.to_owned(),
            consumer: consumer.to_owned(),
            source,
        };
        let found = context.get_stream(stream).await.map_err(|error| failed(error.into()))?;
        let stream_created = time(found.cached_info().created.into());
        let info = found.consumer_info(consumer).await.map_err(|error| failed(error.into()))?;
        if let Some(reason) = unfit(&info.config) {
            return Err(WorkerError::Unfit { stream: info.stream_name, consumer: info.name, reason });
        }
        let config = info.config;
        let prefix = domain.map_or("$JS.API".to_owned(), |domain| format!("$JS.{domain}.API"));
        Ok(Bound {
            next_subject: format!("{prefix}.CONSUMER.MSG.NEXT.{}.{}", info.stream_name, info.name),
            stream: info.stream_name,
            stream_created,
            consumer: info.name,
            batch_max: usize::try_from(config.max_batch).ok().filter(|max| *max > 0),
            expires_max: Some(config.max_expires).filter(|max| !max.is_zero()),
            deliveries_max: u32::try_from(config.max_deliver).ok().filter(|max| *max > 0),
            ack_wait: if config.ack_wait.is_zero() { ACK_WAIT_DEFAULT } else { config.ack_wait },
            backoff: config.backoff,
        })
    }

    pub(crate) async fn find_again(
        &self,
        client: &Client,
        domain: Option<&str>,
    ) -> Result<Bound, WorkerError> {
        Bound::find(client, domain, &self.stream, &self.consumer).await
    }

    /// How long the server waits for a sign of life of delivery number `delivered`.
    pub(crate) fn ack_wait(&self, delivered: u32) -> Duration {
        let at = usize::try_from(delivered).unwrap_or(usize::MAX).saturating_sub(1);
        self.backoff.get(at).or(self.backoff.last()).copied().unwrap_or(self.ack_wait)
    }
}

/// What would make the worker lose messages or never get any.
fn unfit(config: &Config) -> Option<&'static str> {
    if config.deliver_subject.is_some() {
        return Some("it pushes its messages; create a pull consumer, without deliver_subject");
    }
    if config.durable_name.is_none() {
        return Some("it is not durable: the server deletes it with its progress; set durable_name");
    }
    if config.ack_policy != AckPolicy::Explicit {
        return Some("messages are not acknowledged one by one; set ack_policy to explicit");
    }
    if config.headers_only {
        return Some("it delivers headers only, so that dead letters would have no body; unset headers_only");
    }
    if !config.priority_groups.is_empty() {
        return Some(
            "it has priority groups, which this worker does not take part in; unset priority_groups",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_is_what_the_server_waits() {
        let mut bound = Bound {
            stream: String::new(),
            stream_created: Time::default(),
            consumer: String::new(),
            next_subject: String::new(),
            batch_max: None,
            expires_max: None,
            deliveries_max: None,
            ack_wait: Duration::from_secs(30),
            backoff: Vec::new(),
        };
        assert_eq!(bound.ack_wait(1), Duration::from_secs(30));
        bound.backoff = vec![Duration::from_secs(1), Duration::from_secs(2)];
        let waits = [0, 1, 2, 3, u32::MAX].map(|delivered| bound.ack_wait(delivered).as_secs());
        assert_eq!(waits, [1, 1, 2, 2, 2]);
    }

    #[test]
    fn a_consumer_that_would_lose_messages_does_not_fit() {
        let good = || Config {
            durable_name: Some("worker".into()),
            ack_policy: AckPolicy::Explicit,
            ..Config::default()
        };
        assert_eq!(unfit(&good()), None);
        let bad = [
            Config { deliver_subject: Some("push".into()), ..good() },
            Config { durable_name: None, ..good() },
            Config { ack_policy: AckPolicy::None, ..good() },
            Config { headers_only: true, ..good() },
            Config { priority_groups: vec!["a".into()], ..good() },
        ];
        for config in bad {
            assert!(unfit(&config).is_some(), "{config:?}");
        }
    }
}
