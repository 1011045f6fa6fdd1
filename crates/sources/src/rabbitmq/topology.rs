//! The queues that a source needs: compared with those that are there, and declared where they are missing. Queues that exist
//! are never changed.

use lapin::options::QueueDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Queue};

use super::RabbitMq;
use super::link::Link;
use crate::{Change, ChangeKind, Declare, SourceError};

/// A name of a queue, an exchange or a routing key as the protocol takes it.
pub(super) fn name(text: &str) -> Result<ShortString, SourceError> {
    ShortString::try_new(text)
        .map_err(|_| SourceError::Unfit(format!("the name {text:?} has more than 255 bytes")))
}

/// Looks at a queue; nothing if there is none, and the channel is closed then.
pub(super) async fn passive(
    link: &Link,
    channel: &Channel,
    queue: &str,
) -> Result<Option<Queue>, SourceError> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(name(queue)?, options, FieldTable::default());
    match link.answered("looking at a queue", declared).await {
        Ok(queue) => Ok(Some(queue)),
        Err(SourceError::Refused { code: Some(code), .. }) if code == "404" => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks at a queue on a channel of its own.
pub(super) async fn look_at(link: &Link, queue: &str) -> Result<Option<Queue>, SourceError> {
    let channel = link.channel().await?;
    passive(link, &channel, queue).await
}

pub(super) async fn declare(rabbitmq: &RabbitMq, how: Declare) -> Result<Vec<Change>, SourceError> {
    let link = &rabbitmq.consume_link;
    let dead_letters = rabbitmq.config.queues.iter().map(|it| it.queue.as_str());
    let mut changes = Vec::new();
    for queue in dead_letters.chain([rabbitmq.config.receipts_queue.as_str()]) {
        if look_at(link, queue).await?.is_some() {
            continue;
        }
        let mut kind = ChangeKind::Create;
        if how == Declare::Apply {
            let channel = link.channel().await?;
            // What a service asserts itself, so that whoever comes second is not refused.
            let declared =
                channel.queue_declare(name(queue)?, QueueDeclareOptions::durable(), FieldTable::default());
            match link.answered("declaring a queue", declared).await {
                Ok(_) => {}
                Err(SourceError::Refused { why, .. }) => kind = ChangeKind::Blocked(why),
                Err(error) => return Err(error),
            }
        }
        let details = vec!["durable: true".to_owned()];
        changes.push(Change { subject: format!("queue {queue}"), kind, details });
    }
    Ok(changes)
}
