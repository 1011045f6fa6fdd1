//! Letters from dead-letter queues: consumed, handed over, acknowledged after the commit.
//!
//! What is not acknowledged stays at the broker and comes again when the channel ends. A message that could not be stored is
//! handed over again from memory instead of being requeued: requeueing counts against the delivery limit of a quorum queue,
//! which then drops the message.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::RabbitMq;
use super::letter::DeadMessage;
use super::link::{Link, explained};
use super::properties;
use super::topology::{name, passive};
use crate::connection::{locked, now};
use crate::growth::Sizes;
use crate::{Arrival, Receipt, SourceError, SourceHealth};

const CONSUMING: &str = "consuming dead letters";

/// Deliveries of several queues on one channel. Dropping it gives back what was not acknowledged.
pub(super) struct Consuming {
    pub generation: u64,
    channel: Channel,
    deliveries: SelectAll<BoxStream<'static, Delivered>>,
}

/// What a consumer yields, with the number of its queue.
enum Delivered {
    Message(usize, Box<Delivery>),
    Failed(lapin::Error),
    /// The broker ended the consumer: its queue was deleted, or its node went away.
    Cancelled(usize),
}

/// What is known of the capture.
#[derive(Default)]
pub(super) struct Captures {
    /// The channel that the tags belong to: what was delivered on an earlier one comes again.
    generation: u64,
    /// The channel, for acknowledgements.
    channel: Option<Channel>,
    /// What was handed over and not acknowledged, by delivery tag.
    handed: BTreeMap<u64, Handed>,
    acks: Acks,
    twins: Twins,
    looked_at: Option<Time>,
    ready: Option<u64>,
    sizes: Sizes,
}

struct Handed {
    captured: Captured,
    releases: u32,
    /// When it is handed over again, after a release.
    due: Option<Instant>,
}

/// Messages without an id that have the same content: each gets a number behind the id that is made of it, so that none is
/// taken for another. A process that starts again and is handed the same messages gives them the same numbers.
#[derive(Default)]
struct Twins {
    /// Delivered for the first time, since the start of the process.
    first: HashMap<String, u32>,
    /// Delivered again, on the present channel.
    again: HashMap<String, u32>,
}

/// Tags that were acknowledged. Tags of a channel count from 1 on.
#[derive(Default)]
struct Acks {
    /// Everything up to it is acknowledged.
    floor: u64,
    /// Acknowledged beyond the floor, one by one.
    beyond: BTreeSet<u64>,
}

impl Consuming {
    /// Consumes from `queues` on a channel of its own, with so many unacknowledged messages of each at most.
    pub async fn start(
        link: &Link,
        queues: &[String],
        prefetch: u16,
        generation: u64,
    ) -> Result<Consuming, SourceError> {
        let channel = link.channel().await?;
        let qos = channel.basic_qos(prefetch, BasicQosOptions::default());
        link.answered("limiting deliveries", qos).await?;
        let mut deliveries = SelectAll::new();
        if queues.is_empty() {
            // Nothing comes, and the connection is looked at all the same.
            deliveries.push(stream::pending().boxed());
        }
        for (index, queue) in queues.iter().enumerate() {
            let tag = format!("lazaret.{index}");
            let consumer = channel.basic_consume(
                name(queue)?,
                name(&tag)?,
                BasicConsumeOptions::default(),
                FieldTable::default(),
            );
            let consumer = link.answered("consuming", consumer).await.map_err(|error| about(queue, error))?;
            let yielded = consumer.map(move |delivery| match delivery {
                Ok(delivery) => Delivered::Message(index, Box::new(delivery)),
                Err(error) => Delivered::Failed(error),
            });
            let ended = stream::once(async move { Delivered::Cancelled(index) });
            deliveries.push(yielded.chain(ended).boxed());
        }
        Ok(Consuming { generation, channel, deliveries })
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Waits for messages until `until` and takes what is there then. Stopped while it waits, it has taken nothing.
    pub async fn next(
        &mut self,
        queues: &[String],
        until: Instant,
        messages_max: usize,
    ) -> Result<Vec<(usize, Delivery)>, SourceError> {
        let mut all = Vec::new();
        let Ok(first) = tokio::time::timeout_at(until.into(), self.deliveries.next()).await else {
            return match self.channel.status().connected() {
                true => Ok(all),
                false => Err(lost("the connection was lost".to_owned())),
            };
        };
        let (mut next, mut bytes) = (first, 0);
        loop {
            match next {
                Some(Delivered::Message(index, delivery)) => {
                    bytes += delivery.data.len();
                    all.push((index, *delivery));
                }
                // What was taken before is lost with the channel and comes again.
                Some(Delivered::Failed(error)) => return Err(explained(CONSUMING, &error)),
                Some(Delivered::Cancelled(index)) => {
                    let queue = queues.get(index).map_or("", String::as_str);
                    return Err(lost(format!(
                        "the broker ended the consumer of queue {queue}: see that it exists"
                    )));
                }
                None => return Err(lost("no queue is consumed".to_owned())),
            }
            if all.len() >= messages_max || bytes >= limits::RABBITMQ_CAPTURE_BYTES_MAX {
                return Ok(all);
            }
            match self.deliveries.next().now_or_never() {
                Some(more) => next = more,
                None => return Ok(all),
            }
        }
    }
}

fn lost(why: String) -> SourceError {
    SourceError::Unavailable { doing: CONSUMING, why }
}

/// A queue that is missing now may be declared later: the caller asks again.
fn about(queue: &str, error: SourceError) -> SourceError {
    match error {
        SourceError::Refused { code: Some(code), .. } if code == "404" => {
            lost(format!("queue {queue} is missing: declare it (lazaret rabbitmq apply)"))
        }
        SourceError::Refused { code: Some(code), why } if code == "403" => {
            lost(format!("queue {queue}: {why}: permit the user to read it"))
        }
        other => lost(format!("queue {queue}: {other}")),
    }
}

pub(super) async fn next(rabbitmq: &RabbitMq) -> Result<Vec<Arrival>, SourceError> {
    let answer = match arrivals(rabbitmq).await {
        Err(error) => Err(rabbitmq.consume_link.cause(error).await),
        arrived => arrived,
    };
    rabbitmq.consume_link.note(answer.as_ref().err());
    if answer.as_ref().is_ok_and(Vec::is_empty) {
        locked(&rabbitmq.captures).looked_at = Some(now());
    }
    answer
}

async fn arrivals(rabbitmq: &RabbitMq) -> Result<Vec<Arrival>, SourceError> {
    let queues: Vec<String> = rabbitmq.config.queues.iter().map(|it| it.queue.clone()).collect();
    let mut slot = rabbitmq.consuming.lock().await;
    if slot.as_ref().is_none_or(|it| !it.channel.status().connected()) {
        *slot = None;
        let generation = rabbitmq.next_generation();
        let consuming =
            Consuming::start(&rabbitmq.consume_link, &queues, rabbitmq.config.prefetch, generation).await?;
        locked(&rabbitmq.captures).began(&consuming);
        *slot = Some(consuming);
    }
    let Some(consuming) = slot.as_mut() else { return Ok(Vec::new()) };
    measure(rabbitmq).await?;
    let until = Instant::now() + Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
    let (due, until) = locked(&rabbitmq.captures).take_due(until);
    if !due.is_empty() {
        return Ok(due);
    }
    match consuming.next(&queues, until, limits::RABBITMQ_CAPTURE_MESSAGES_MAX).await {
        Ok(delivered) => Ok(hand_over(rabbitmq, delivered)),
        Err(error) => {
            *slot = None;
            locked(&rabbitmq.captures).ended();
            Err(error)
        }
    }
}

fn hand_over(rabbitmq: &RabbitMq, delivered: Vec<(usize, Delivery)>) -> Vec<Arrival> {
    let mut arrivals = Vec::with_capacity(delivered.len());
    for (index, delivery) in delivered {
        let Some(queue) = rabbitmq.config.queues.get(index) else { continue };
        let tag = delivery.delivery_tag;
        let redelivered = delivery.redelivered;
        let captured = dead_message(delivery).captured(&rabbitmq.config, queue);
        arrivals.push((tag, redelivered, captured));
    }
    locked(&rabbitmq.captures).hand(arrivals)
}

fn dead_message(delivery: Delivery) -> DeadMessage {
    DeadMessage {
        exchange: delivery.exchange.to_string(),
        routing_key: delivery.routing_key.to_string(),
        redelivered: delivery.redelivered,
        headers: properties::to_headers(&delivery.properties),
        body: Bytes::from(delivery.data),
    }
}

pub(super) async fn ack(rabbitmq: &RabbitMq, receipts: &[Receipt]) -> Result<(), SourceError> {
    let (channel, up_to, single) = {
        let mut captures = locked(&rabbitmq.captures);
        let tags = captures.tags(receipts);
        for tag in &tags {
            captures.handed.remove(tag);
        }
        let (up_to, single) = captures.acks.settle(tags);
        // What a lost channel had delivered comes again, and is recognised then.
        let Some(channel) = captures.channel.clone() else { return Ok(()) };
        (channel, up_to, single)
    };
    for tag in single {
        acknowledge(&rabbitmq.consume_link, &channel, tag, BasicAckOptions { multiple: false }).await?;
    }
    match up_to {
        Some(tag) => {
            acknowledge(&rabbitmq.consume_link, &channel, tag, BasicAckOptions { multiple: true }).await
        }
        None => Ok(()),
    }
}

/// AMQP does not answer acknowledgements: one that is lost with the connection makes the message come again.
pub(super) async fn acknowledge(
    link: &Link,
    channel: &Channel,
    tag: u64,
    options: BasicAckOptions,
) -> Result<(), SourceError> {
    link.answered("acknowledging", channel.basic_ack(tag, options)).await
}

/// Keeps messages back for a while, longer each time, so that a store that is away is not asked in circles.
pub(super) fn release(rabbitmq: &RabbitMq, receipts: &[Receipt]) {
    let mut captures = locked(&rabbitmq.captures);
    for tag in captures.tags(receipts) {
        if let Some(handed) = captures.handed.get_mut(&tag) {
            let pause = limits::SOURCE_RELEASE_MS.saturating_mul(1 << handed.releases.min(16));
            let pause = Duration::from_millis(pause.min(limits::SOURCE_RELEASE_MS_MAX));
            handed.releases = handed.releases.saturating_add(1);
            handed.due = Some(Instant::now() + pause);
        }
    }
}

impl Captures {
    fn began(&mut self, consuming: &Consuming) {
        self.generation = consuming.generation;
        self.channel = Some(consuming.channel.clone());
        self.handed.clear();
        self.acks = Acks::default();
        self.twins.again.clear();
    }

    /// The channel ended: what it delivered comes again.
    fn ended(&mut self) {
        self.channel = None;
        self.handed.clear();
    }

    fn hand(&mut self, arrived: Vec<(u64, bool, Captured)>) -> Vec<Arrival> {
        let mut arrivals = Vec::with_capacity(arrived.len());
        for (tag, redelivered, mut captured) in arrived {
            // A message that has an id may be told again in another way, so nothing is said about it.
            if captured.word != SourceWord::Silent {
                captured.message_id = self.twins.numbered(captured.message_id, redelivered);
            }
            arrivals.push(Arrival { captured: captured.clone(), receipt: self.receipt(tag) });
            self.handed.insert(tag, Handed { captured, releases: 0, due: None });
        }
        arrivals
    }

    /// What was released and has waited long enough, and until when to wait for others at most.
    fn take_due(&mut self, until: Instant) -> (Vec<Arrival>, Instant) {
        let (now, mut until, mut tags) = (Instant::now(), until, Vec::new());
        for (tag, handed) in &mut self.handed {
            match handed.due {
                Some(due) if due <= now && tags.len() < limits::RABBITMQ_CAPTURE_MESSAGES_MAX => {
                    handed.due = None;
                    tags.push((*tag, handed.captured.clone()));
                }
                Some(due) => until = until.min(due),
                None => {}
            }
        }
        let due = tags.into_iter().map(|(tag, captured)| Arrival { captured, receipt: self.receipt(tag) });
        (due.collect(), until)
    }

    fn receipt(&self, tag: u64) -> Receipt {
        Receipt::new(format!("{}:{tag}", self.generation))
    }

    /// The tags of receipts of the present channel.
    fn tags(&self, receipts: &[Receipt]) -> Vec<u64> {
        receipts.iter().filter_map(|receipt| tag(receipt, self.generation)).collect()
    }
}

/// The delivery tag of a receipt; nothing if it is of another channel.
pub(super) fn tag(receipt: &Receipt, generation: u64) -> Option<u64> {
    let (of, tag) = receipt.text().split_once(':')?;
    (of.parse() == Ok(generation)).then(|| tag.parse().ok())?
}

impl Twins {
    fn numbered(&mut self, id: String, redelivered: bool) -> String {
        let seen = if redelivered { &mut self.again } else { &mut self.first };
        if seen.len() >= limits::RABBITMQ_REMEMBERED_MAX {
            seen.clear();
        }
        let number = seen.entry(id.clone()).or_default();
        *number += 1;
        match *number {
            1 => id,
            number => format!("{id}#{number}"),
        }
    }
}

impl Acks {
    /// Takes tags as acknowledged: the one up to which all are, if there is a new one, and those that are acknowledged by
    /// themselves.
    fn settle(&mut self, tags: Vec<u64>) -> (Option<u64>, Vec<u64>) {
        let fresh: BTreeSet<u64> =
            tags.into_iter().filter(|tag| *tag > self.floor && !self.beyond.contains(tag)).collect();
        self.beyond.extend(&fresh);
        let mut up_to = None;
        while self.beyond.remove(&(self.floor + 1)) {
            self.floor += 1;
            if fresh.contains(&self.floor) {
                up_to = Some(self.floor);
            }
        }
        let single = fresh.into_iter().filter(|tag| up_to.is_none_or(|up_to| *tag > up_to)).collect();
        (up_to, single)
    }
}

/// Reads how much waits and how the queues grow, every few seconds.
async fn measure(rabbitmq: &RabbitMq) -> Result<(), SourceError> {
    let every = Duration::from_millis(limits::RABBITMQ_INFO_MS);
    if locked(&rabbitmq.captures).sizes.is_newer_than(every) {
        return Ok(());
    }
    let channel = rabbitmq.consume_link.channel().await?;
    let mut ready = 0_u64;
    for queue in &rabbitmq.config.queues {
        let counted = passive(&rabbitmq.consume_link, &channel, &queue.queue).await?;
        ready = ready.saturating_add(counted.map_or(0, |it| u64::from(it.message_count())));
    }
    let mut captures = locked(&rabbitmq.captures);
    captures.ready = Some(ready);
    let size = ready.saturating_add(captures.handed.len() as u64);
    captures.sizes.add(size);
    Ok(())
}

pub(super) fn health(rabbitmq: &RabbitMq) -> SourceHealth {
    let standing = rabbitmq.consume_link.state();
    let captures = locked(&rabbitmq.captures);
    let now = now();
    let lag_ms = captures.handed.values().map(|it| now.since(it.captured.died_at.unwrap_or(now))).max();
    SourceHealth {
        connected: standing.connected,
        since: standing.since,
        last_error: standing.last_error,
        lag_ms: lag_ms.and_then(|lag| u64::try_from(lag).ok()).unwrap_or(0),
        looked_at: captures.looked_at,
        depth: captures.ready.map(|ready| ready.saturating_add(captures.handed.len() as u64)),
        growth_per_min: captures.sizes.growth_per_min(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{collection, prop_assert, proptest};

    use super::*;

    proptest! {
        /// A broker acknowledges what it is told, and closes the channel if a tag is not out.
        #[test]
        fn exactly_what_was_settled_is_acknowledged(
            batches in collection::vec(collection::vec(1_u64..40, 0..8), 0..20),
            again in any::<bool>(),
        ) {
            let mut acks = Acks::default();
            let (mut out, mut settled): (BTreeSet<u64>, BTreeSet<u64>) = ((1..40).collect(), BTreeSet::new());
            for batch in batches {
                let batch: Vec<u64> = match again {
                    true => batch,
                    false => batch.into_iter().filter(|tag| !settled.contains(tag)).collect(),
                };
                settled.extend(&batch);
                let (up_to, single) = acks.settle(batch);
                for tag in single {
                    prop_assert!(out.remove(&tag), "{} is not out", tag);
                }
                if let Some(up_to) = up_to {
                    prop_assert!(out.contains(&up_to), "{} is not out", up_to);
                    out.retain(|tag| *tag > up_to);
                }
                let left: BTreeSet<u64> = (1..40).filter(|tag| !settled.contains(tag)).collect();
                prop_assert!(out == left, "{:?} {:?}", out, left);
            }
        }
    }

    #[test]
    fn messages_of_the_same_content_are_numbered_as_they_are_delivered() {
        let mut twins = Twins::default();
        let mut number = |redelivered| twins.numbered("sha256:1".to_owned(), redelivered);
        assert_eq!([number(false), number(false), number(false)], ["sha256:1", "sha256:1#2", "sha256:1#3"]);
        assert_eq!([number(true), number(true)], ["sha256:1", "sha256:1#2"]);
    }

    #[test]
    fn receipts_of_other_channels_are_not_ours() {
        assert_eq!(tag(&Receipt::new("3:7".to_owned()), 3), Some(7));
        for text in ["2:7", "3:", "3", "", "x:7"] {
            assert_eq!(tag(&Receipt::new(text.to_owned()), 3), None, "{text}");
        }
    }
}
