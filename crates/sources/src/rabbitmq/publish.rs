//! Publishing with confirms, each message on a channel of its own.
//!
//! The client tells that a message was returned with the next confirm of the channel, whichever message that belongs to.
//! With one message out per channel it can only be the right one. It also keeps a missing exchange, which closes the channel,
//! from ending what others have under way.

use std::sync::Mutex;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use lazaret_core::limits;
use tokio::sync::Semaphore;

use super::link::Link;
use crate::SourceError;
use crate::connection::locked;

/// What became of a message that was published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Published {
    Confirmed,
    /// No queue took it.
    Unroutable(String),
    /// The broker said no, with this code where it gave one.
    Refused {
        code: Option<String>,
        why: String,
    },
    /// Nothing was written.
    Unsent(String),
    /// It was written, and nobody knows whether it was taken.
    Unknown(String),
}

/// A message to publish.
pub(super) struct Message<'a> {
    pub exchange: ShortString,
    pub routing_key: ShortString,
    pub properties: BasicProperties,
    /// What the properties need in their frame.
    pub frame_bytes: usize,
    pub body: &'a [u8],
}

/// Channels in confirm mode on which nothing is out.
pub(super) struct Publisher {
    idle: Mutex<Vec<Channel>>,
    permits: Semaphore,
}

impl Publisher {
    pub fn new() -> Publisher {
        Publisher { idle: Mutex::default(), permits: Semaphore::new(limits::RABBITMQ_PUBLISHING_MAX) }
    }

    /// Publishes as mandatory and waits for the confirm.
    pub async fn publish(&self, link: &Link, message: Message<'_>) -> Published {
        let Ok(_permit) = self.permits.acquire().await else {
            return Published::Unsent("the source is closed".to_owned());
        };
        let (channel, frame_max) = match self.channel(link).await {
            Ok(ready) => ready,
            Err(error) => return Published::Unsent(error.to_string()),
        };
        // Zero stands for any size.
        if frame_max > 0 && message.frame_bytes > frame_max {
            locked(&self.idle).push(channel);
            let why = format!("its headers need {} bytes, and a frame has {frame_max}", message.frame_bytes);
            return Published::Refused { code: None, why };
        }
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let Message { exchange, routing_key, properties, body, .. } = message;
        let confirmed = async {
            let confirm = channel.basic_publish(exchange, routing_key, options, body, properties).await;
            match confirm {
                Ok(confirm) => confirm.await,
                Err(error) => Err(error),
            }
        };
        let wait = Duration::from_millis(link.request_ms_max());
        let published = match tokio::time::timeout(wait, confirmed).await {
            // The channel is dropped with what it still owes.
            Err(_) => return Published::Unknown("the broker did not confirm in time".to_owned()),
            Ok(Err(error)) => return failed(&error),
            Ok(Ok(Confirmation::Ack(None))) => Published::Confirmed,
            // An unroutable message is returned first and acknowledged then.
            Ok(Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)))) => {
                Published::Unroutable(format!("{} ({})", returned.reply_text, returned.reply_code))
            }
            Ok(Ok(Confirmation::Nack(None))) => Published::Refused {
                code: None,
                why: "the broker refused it (nack): the queue is full and rejects, or could not store it"
                    .to_owned(),
            },
            Ok(Ok(Confirmation::NotRequested)) => {
                return Published::Unknown("the channel does not confirm".to_owned());
            }
        };
        locked(&self.idle).push(channel);
        published
    }

    /// A channel on which nothing is out, kept from before or new, and how large its frames may be.
    async fn channel(&self, link: &Link) -> Result<(Channel, usize), SourceError> {
        let connection = link.connection().await?;
        if connection.status().blocked() {
            let why = "the broker takes no messages: it is short of memory or disk".to_owned();
            return Err(SourceError::Unavailable { doing: "publishing", why });
        }
        let frame_max = usize::try_from(connection.configuration().frame_max()).unwrap_or(usize::MAX);
        loop {
            let idle = locked(&self.idle).pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok((channel, frame_max)),
                Some(_) => {}
                None => break,
            }
        }
        let channel = link.channel().await?;
        let selected = channel.confirm_select(ConfirmSelectOptions::default());
        link.answered("asking for confirms", selected).await?;
        Ok((channel, frame_max))
    }
}

/// The broker closes the channel over what it does not take: nothing was stored then. Anything else may have happened after.
fn failed(error: &lapin::Error) -> Published {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(protocol) if error.is_amqp_soft_error() => Published::Refused {
            code: Some(protocol.get_id().to_string()),
            why: protocol.get_message().to_string(),
        },
        lapin::ErrorKind::InvalidChannelState(..) | lapin::ErrorKind::InvalidConnectionState(_) => {
            Published::Unsent(error.to_string())
        }
        _ => Published::Unknown(error.to_string()),
    }
}
