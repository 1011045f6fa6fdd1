//! Deletion of exhausted messages from work-queue and interest streams, which would keep them for ever. A message is deleted once
//! its letter is committed and no other consumer needs it.

use std::fmt;
use std::sync::atomic::Ordering;

use super::JetStream;
use super::api::{ConsumerInfo, Retention};
use super::letter::{DeadLetter, KnownOrigin};
use crate::SourceError;

/// An exhausted message in its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Exhausted {
    stream: String,
    /// When the stream was created, in Unix milliseconds: a later stream of the same name has other messages.
    created_ms: i64,
    sequence: u64,
    consumer: String,
}

/// The result of a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deletion {
    Deleted,
    /// The message does not exist, or its stream drops it by its limits.
    NotNeeded,
    /// Another consumer has not finished the message.
    Wait,
}

impl Exhausted {
    pub fn from_dead_letter(dead: &DeadLetter<'_>, origin: &KnownOrigin) -> Option<Exhausted> {
        if !(dead.is_exhausted() && dead.has_body()) {
            return None;
        }
        Some(Exhausted {
            stream: origin.stream.clone()?,
            created_ms: origin.stream_created?.ms(),
            sequence: origin.sequence?,
            consumer: origin.consumer.clone()?,
        })
    }

    /// Parses the text form. Names of streams and consumers have no spaces.
    pub fn parse(text: &str) -> Option<Exhausted> {
        let mut parts = text.split(' ');
        let exhausted = Exhausted {
            stream: parts.next()?.to_owned(),
            created_ms: parts.next()?.parse().ok()?,
            sequence: parts.next()?.parse().ok()?,
            consumer: parts.next()?.to_owned(),
        };
        parts.next().is_none().then_some(exhausted)
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.stream, self.created_ms, self.sequence, self.consumer)
    }
}

impl JetStream {
    /// Deletes an exhausted original whose letter has just been stored. The follow-up repeats what fails or has to wait.
    pub(super) async fn delete_stored(&self, exhausted: &Exhausted) {
        if let Err(error) = self.delete_exhausted(exhausted).await {
            tracing::warn!(
                source = self.config.name,
                "exhausted message {exhausted} cannot be deleted now: {error}"
            );
        }
    }

    /// Deletes an exhausted original unless its stream drops it by itself or another consumer has not finished it.
    pub(super) async fn delete_exhausted(&self, exhausted: &Exhausted) -> Result<Deletion, SourceError> {
        let deletion = self.try_delete(exhausted).await?;
        if deletion == Deletion::Deleted {
            self.deleted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(deletion)
    }

    async fn try_delete(&self, exhausted: &Exhausted) -> Result<Deletion, SourceError> {
        let Exhausted { stream, created_ms, sequence, consumer } = exhausted;
        let Some(info) = self.stream(stream).await? else { return Ok(Deletion::NotNeeded) };
        if info.created().is_none_or(|created| created.ms() != *created_ms) {
            return Ok(Deletion::NotNeeded);
        }
        match info.retention() {
            Retention::Limits => return Ok(Deletion::NotNeeded),
            Retention::WorkQueue => {}
            Retention::Interest => {
                let Some(message) = self.link.message(stream, *sequence).await? else {
                    return Ok(Deletion::NotNeeded);
                };
                let others = self.link.consumers(stream).await?;
                let mut others =
                    others.iter().filter(|it| it.name() != consumer && it.matches_subject(&message.subject));
                if !others.all(|it| has_finished(it, *sequence)) {
                    return Ok(Deletion::Wait);
                }
            }
        }
        Ok(match self.link.delete_message(stream, *sequence).await? {
            true => Deletion::Deleted,
            false => Deletion::NotNeeded,
        })
    }
}

/// Returns true if a consumer will not be delivered this message again. An exhausted message may hold the ack floor back for
/// ever, but is not pending.
fn has_finished(consumer: &ConsumerInfo, sequence: u64) -> bool {
    let has_nothing_pending = consumer.delivered() >= sequence && consumer.number("num_ack_pending") == 0;
    consumer.ack_floor() >= sequence || has_nothing_pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_message_is_read_as_it_was_written() {
        let exhausted =
            Exhausted { stream: "ORDERS".into(), created_ms: 7, sequence: 42, consumer: "worker".into() };
        assert_eq!(Exhausted::parse(&exhausted.to_string()), Some(exhausted));
        for text in ["", "ORDERS", "ORDERS x 1 w", "ORDERS 1 2 w more"] {
            assert_eq!(Exhausted::parse(text), None, "{text}");
        }
    }
}
