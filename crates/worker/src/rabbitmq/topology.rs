//! The queues that a worker needs: the work queue, the delay queues of its retries, and the dead-letter queue.
//!
//! A message that is retried waits in a delay queue until its time to live is over; the queue then dead-letters it to the work
//! queue. Each delay has a queue of its own, because a queue expires messages at its head only: behind a long delay a short one
//! would be late.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, ErrorKind};
use lazaret_core::retry::RetryPolicy;

use super::WorkerError;
use crate::settings::random_unit;

/// Delays of one retry, evenly spread over the policy's jitter.
const DELAYS_PER_RETRY: u32 = 5;

/// More are a mistake: a policy that grows without a cap, and many retries.
const DELAY_QUEUES_MAX: usize = 200;

/// Deliveries without an answer after which a quorum queue takes a message for one that ends its worker. The default of
/// RabbitMQ 4, set because older versions have none.
const DELIVERIES_WITHOUT_ANSWER_MAX: i32 = 20;

/// For the broker to declare one queue.
const DECLARE_MAX: Duration = Duration::from_secs(30);

/// The type of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueType {
    Classic,
    /// Replicated, and needs RabbitMQ 3.10 or newer.
    Quorum,
}

impl QueueType {
    const fn name(self) -> &'static str {
        match self {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
        }
    }
}

/// What the program chose about its queues.
#[derive(Debug, Clone)]
pub(super) struct QueueOptions {
    /// Of the work queue and the dead-letter queue; `None` leaves it to the broker.
    pub(super) queue_type: Option<QueueType>,
    pub(super) delay_queue_type: QueueType,
    /// In place of the work queue's own arguments.
    pub(super) arguments: Option<FieldTable>,
}

#[derive(Debug, Clone)]
struct DeclaredQueue {
    name: ShortString,
    arguments: FieldTable,
}

/// The queues of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    work: DeclaredQueue,
    dead_letters: DeclaredQueue,
    /// By their time to live, shortest first.
    delays: Vec<(u64, DeclaredQueue)>,
    policy: RetryPolicy,
}

impl Topology {
    pub(super) fn new(
        service: &str,
        queue: &str,
        policy: RetryPolicy,
        options: QueueOptions,
    ) -> Result<Topology, WorkerError> {
        let dead_letters = DeclaredQueue {
            name: queue_name(format!("{service}-dlq"))?,
            arguments: table(options.queue_type.map(type_argument)),
        };
        let own_arguments = || work_arguments(options.queue_type, &dead_letters.name);
        let work = DeclaredQueue {
            name: queue_name(queue.to_owned())?,
            arguments: options.arguments.clone().unwrap_or_else(own_arguments),
        };
        let all_ms: BTreeSet<u64> = (1..policy.attempts).flat_map(|n| delays_ms(&policy, n)).collect();
        if all_ms.len() > DELAY_QUEUES_MAX {
            return Err(WorkerError::TooManyDelays { delays: all_ms.len(), max: DELAY_QUEUES_MAX });
        }
        let mut delays = Vec::with_capacity(all_ms.len());
        for delay_ms in all_ms {
            let name = queue_name(format!("{queue}.retry.{delay_ms}ms"))?;
            let arguments = delay_arguments(options.delay_queue_type, delay_ms, &work.name);
            delays.push((delay_ms, DeclaredQueue { name, arguments }));
        }
        Ok(Topology { work, dead_letters, delays, policy })
    }

    pub(crate) fn work_queue(&self) -> &ShortString {
        &self.work.name
    }

    pub(crate) fn dead_letter_queue(&self) -> &ShortString {
        &self.dead_letters.name
    }

    /// The delay queue for the retry after failed attempt `number`, one of five at random.
    pub(crate) fn delay_queue(&self, number: u32) -> &ShortString {
        let choices = delays_ms(&self.policy, number);
        let at = (random_unit() * choices.len() as f64) as usize;
        let delay_ms = choices[at.min(choices.len() - 1)];
        let found = self.delays.binary_search_by_key(&delay_ms, |(ms, _)| *ms);
        let index = found.expect("every attempt that may be retried has its delays");
        &self.delays[index].1.name
    }

    pub(crate) fn is_delay_queue(&self, name: &str) -> bool {
        self.delays.iter().any(|(_, queue)| queue.name.as_str() == name)
    }

    /// Declares every queue. One that exists with other arguments is refused.
    pub(crate) async fn declare(&self, connection: &Connection) -> Result<(), WorkerError> {
        let queues = [&self.dead_letters, &self.work].into_iter();
        let queues = queues.chain(self.delays.iter().map(|(_, queue)| queue));
        let mut channel = None;
        for queue in queues {
            let declared = tokio::time::timeout(DECLARE_MAX, queue.declare(connection, &mut channel)).await;
            let answered = declared.map_err(|_| WorkerError::TimedOut { queue: queue.name.to_string() })?;
            answered.map_err(|error| refused(queue.name.as_str(), error))?;
        }
        Ok(())
    }
}

impl DeclaredQueue {
    async fn declare(&self, connection: &Connection, channel: &mut Option<Channel>) -> lapin::Result<()> {
        let channel = match channel {
            Some(channel) => channel,
            None => channel.insert(connection.create_channel().await?),
        };
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(self.name.clone(), options, self.arguments.clone()).await?;
        Ok(())
    }
}

/// The delays after failed attempt `number`, shortest first and each once.
fn delays_ms(policy: &RetryPolicy, number: u32) -> Vec<u64> {
    let unit = |n: u32| f64::from(n) / f64::from(DELAYS_PER_RETRY - 1);
    let delays: BTreeSet<u64> = (0..DELAYS_PER_RETRY).map(|n| policy.delay_ms(number, unit(n))).collect();
    delays.into_iter().collect()
}

fn queue_name(name: String) -> Result<ShortString, WorkerError> {
    // A name without characters would be chosen by the broker.
    let name = if name.is_empty() { Err(WorkerError::QueueName(name)) } else { Ok(name) }?;
    ShortString::try_new(name.clone()).map_err(|_| WorkerError::QueueName(name))
}

fn work_arguments(queue_type: Option<QueueType>, dead_letters: &ShortString) -> FieldTable {
    let limited = (queue_type == Some(QueueType::Quorum)).then(|| {
        [
            ("x-delivery-limit", AMQPValue::LongInt(DELIVERIES_WITHOUT_ANSWER_MAX)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(dead_letters.as_str())),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-overflow", text("reject-publish")),
        ]
    });
    table(queue_type.map(type_argument).into_iter().chain(limited.into_iter().flatten()))
}

/// Only a quorum queue can wait until the work queue has confirmed the message before it gives its own copy up.
fn delay_arguments(queue_type: QueueType, delay_ms: u64, work_queue: &ShortString) -> FieldTable {
    let delay_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
    let safe = (queue_type == QueueType::Quorum)
        .then(|| [("x-dead-letter-strategy", text("at-least-once")), ("x-overflow", text("reject-publish"))]);
    let all = [
        type_argument(queue_type),
        ("x-message-ttl", AMQPValue::LongLongInt(delay_ms)),
        ("x-dead-letter-exchange", text("")),
        // Without it the message would come back with the delay queue's name, for which there is no other queue.
        ("x-dead-letter-routing-key", text(work_queue.as_str())),
    ];
    table(all.into_iter().chain(safe.into_iter().flatten()))
}

fn type_argument(queue_type: QueueType) -> (&'static str, AMQPValue) {
    ("x-queue-type", text(queue_type.name()))
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn table(arguments: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    table
}

/// Names the argument that differs, which the broker tells in words:
/// `PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'orders' in vhost '/': received 'true' but current is 'false'`.
fn refused(queue: &str, error: lapin::Error) -> WorkerError {
    let queue = queue.to_owned();
    if let ErrorKind::ProtocolError(problem) = error.kind()
        && *problem.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
        && let Some((_, rest)) = problem.get_message().as_str().split_once("inequivalent arg '")
        && let Some((argument, rest)) = rest.split_once('\'')
    {
        let difference = rest.rsplit_once("': ").map_or(rest, |(_, difference)| difference);
        return WorkerError::QueueDiffers {
            queue,
            argument: argument.to_owned(),
            difference: difference.to_owned(),
        };
    }
    WorkerError::Queue { queue, source: error }
}

#[cfg(test)]
mod tests {
    use lazaret_core::retry::{Growth, Jitter, Preset};

    use super::*;

    const OPTIONS: QueueOptions =
        QueueOptions { queue_type: None, delay_queue_type: QueueType::Quorum, arguments: None };

    fn topology(policy: RetryPolicy) -> Result<Topology, WorkerError> {
        Topology::new("outbound-transformer", "orders", policy, OPTIONS)
    }

    #[test]
    fn every_retry_has_five_delays_over_the_whole_jitter() {
        let topology = topology(Preset::Rabbitmq.policy()).unwrap();
        let names: Vec<&str> = topology.delays.iter().map(|(_, queue)| queue.name.as_str()).collect();
        let expected = [
            1_600, 1_800, 2_000, 2_200, 2_400, 3_200, 3_600, 4_000, 4_400, 4_800, 6_400, 7_200, 8_000, 8_800,
            9_600,
        ];
        assert_eq!(names, expected.map(|ms| format!("orders.retry.{ms}ms")));
        assert_eq!(topology.dead_letter_queue().as_str(), "outbound-transformer-dlq");
        for (number, range) in [(1, 1_600..=2_400), (2, 3_200..=4_800), (3, 6_400..=9_600)] {
            let mut picked = BTreeSet::new();
            for _ in 0..500 {
                picked.insert(topology.delay_queue(number).to_string());
            }
            let delays: Vec<u64> = topology
                .delays
                .iter()
                .filter(|(_, queue)| picked.contains(queue.name.as_str()))
                .map(|(ms, _)| *ms)
                .collect();
            assert!(delays.len() == 5 && delays.iter().all(|ms| range.contains(ms)), "{delays:?}");
        }
    }

    #[test]
    fn equal_delays_share_a_queue_and_too_many_are_refused() {
        let constant = RetryPolicy {
            attempts: 1_000,
            growth: Growth::Constant,
            jitter: Jitter::None,
            ..Preset::Rabbitmq.policy()
        };
        assert_eq!(topology(constant).unwrap().delays.len(), 1);
        let once = RetryPolicy { attempts: 1, ..constant };
        assert_eq!(topology(once).unwrap().delays.len(), 0);
        let linear = RetryPolicy { growth: Growth::Linear, cap_ms: 86_400_000, ..constant };
        let error = topology(linear).unwrap_err();
        assert!(matches!(error, WorkerError::TooManyDelays { delays: 999, .. }), "{error}");
    }

    #[test]
    fn names_that_the_broker_would_refuse_are_refused_here() {
        for (service, queue) in [("a", ""), ("a", &*"q".repeat(250)), (&*"s".repeat(252), "a")] {
            let refused = Topology::new(service, queue, Preset::Rabbitmq.policy(), OPTIONS);
            assert!(matches!(refused, Err(WorkerError::QueueName(_))), "{service} {queue}");
        }
    }
}
