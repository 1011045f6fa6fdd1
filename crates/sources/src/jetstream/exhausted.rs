//! Exhausted messages of work-queue and interest streams, which the server would keep for ever: deleted once their letters are
//! committed. A message that another consumer still needs waits.

use std::collections::VecDeque;
use std::fmt;

use lazaret_core::limits;

use super::JetStream;
use super::api::Retention;
use super::letter::{DeadLetter, Whence};
use crate::SourceError;
use crate::standing::locked;

/// An exhausted message in its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Exhausted {
    stream: String,
    /// When the stream was created, in Unix milliseconds: a later stream of the same name has other messages.
    created_ms: i64,
    sequence: u64,
    consumer: String,
}

/// What waits to be deleted, oldest first.
#[derive(Default)]
pub(super) struct Waiting {
    originals: VecDeque<Exhausted>,
    pub deleted: u64,
    /// Those that were not kept in mind because there were too many.
    pub forgotten: u64,
}

enum Deletion {
    Deleted,
    /// There is nothing to delete.
    NotNeeded,
    /// Another consumer has not finished it.
    Wait,
}

impl Exhausted {
    pub fn of(dead: &DeadLetter<'_>, whence: &Whence) -> Option<Exhausted> {
        if !dead.is_exhausted_original() {
            return None;
        }
        Some(Exhausted {
            stream: whence.stream.clone()?,
            created_ms: whence.stream_created?.ms(),
            sequence: whence.sequence?,
            consumer: whence.consumer.clone()?,
        })
    }

    /// Reads the text form, which has no spaces within its parts because stream and consumer names have none.
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
    /// Deletes an exhausted original, or keeps in mind to try again.
    pub(super) async fn delete_exhausted(&self, exhausted: Exhausted) {
        match self.try_delete(&exhausted).await {
            Ok(Deletion::Deleted) => locked(&self.waiting).deleted += 1,
            Ok(Deletion::NotNeeded) => {}
            Ok(Deletion::Wait) => self.wait_for(exhausted),
            Err(error) => {
                tracing::warn!(
                    source = self.config.name,
                    "exhausted message {exhausted} cannot be deleted now: {error}"
                );
                self.wait_for(exhausted);
            }
        }
    }

    fn wait_for(&self, exhausted: Exhausted) {
        let mut waiting = locked(&self.waiting);
        if waiting.originals.contains(&exhausted) {
            return;
        }
        if waiting.originals.len() >= limits::JETSTREAM_DELETES_WAITING_MAX {
            waiting.forgotten += 1;
            return;
        }
        waiting.originals.push_back(exhausted);
    }

    /// Tries everything that waits once more.
    pub(super) async fn delete_waiting(&self) {
        let originals = std::mem::take(&mut locked(&self.waiting).originals);
        for exhausted in originals {
            self.delete_exhausted(exhausted).await;
        }
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
                let needs = others.iter().filter(|it| it.name() != consumer && it.takes(&message.subject));
                if needs.into_iter().any(|it| it.ack_floor() < *sequence) {
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

impl Waiting {
    pub fn len(&self) -> usize {
        self.originals.len()
    }
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
