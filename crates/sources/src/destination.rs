//! Where a letter goes back to. The seam that every redrive works through.
//!
//! A destination only sends and looks; it never moves a letter. Claims do, in the store, before and after.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::header::Headers;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;

/// A letter on its way out: the bytes of one life, with what lets the receiver recognise a repetition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    pub letter: LetterId,
    pub life: u32,
    pub redrive: RedriveId,
    /// The id that the message has at its source; empty unless the destination is `by_message_id`.
    pub message_id: String,
    /// Stays the same over repetitions of one send.
    pub idempotency_key: String,
    pub content_type: String,
    pub headers: Headers,
    pub body: Bytes,
    pub content: Content,
    /// Where the message came from at its broker: what a destination of that broker routes by.
    pub origin: Option<Origin>,
}

/// A letter that was sent, as its destination may recognise it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentCopy {
    pub letter: LetterId,
    pub life: u32,
    pub redrive: RedriveId,
    /// The id that the message has at its source; empty unless the destination is `by_message_id`.
    pub message_id: String,
    pub idempotency_key: String,
    /// What the destination handed out when it took the letter.
    pub handle: Option<String>,
    pub sent_at: Option<Time>,
}

/// Whose bytes they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// As they were captured.
    Original,
    /// A person changed them for this redrive.
    Edited,
}

/// Where a letter would go, for the plan and the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The address as people know it, without credentials.
    pub address: String,
    /// Consumers that did not fail and would get it all the same.
    pub also_reaches: Vec<String>,
}

/// What became of a send. No text in it holds a credential of the destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The work is done, on this evidence.
    Delivered {
        evidence: &'static str,
        /// What the destination handed out for it, for people who look for it there.
        handle: Option<String>,
    },
    /// The destination has it; whether the work succeeds shows later.
    Taken {
        /// What the destination handed out for it: a published sequence, a delivery tag. It is kept with the letter's row
        /// of the redrive and given back in `Outgoing::handle` when `verify` is asked, also after a restart.
        handle: Option<String>,
    },
    /// It definitely has not, or it answered that the work failed.
    Refused(Box<Refusal>),
    /// Nobody knows: never shown as success.
    Unknown(String),
    /// Nothing was tried, because too much was under way already: the letter's turn comes again.
    Unsent(String),
    /// Nothing was tried, because the destination is not what the configuration says: no letter can be sent there until
    /// somebody has changed one of the two.
    Unfit(String),
}

/// Why a destination does not have a letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    pub error: LetterError,
}

/// What a look at the destination showed of a letter that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// The work succeeded, on this evidence.
    Succeeded {
        evidence: &'static str,
        at: Time,
    },
    /// It was taken, and the destination cannot tell more.
    Taken(Silence),
    NotYet,
    /// The destination has no trace of it any more: nobody can tell whether the work was done.
    Lost(String),
}

/// What it means when nothing more is heard of a letter that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// Nothing: only a receipt tells that the work is done.
    SaysNothing,
    /// The work is done if the letter does not die again for so long (`quiet_window`).
    Succeeds { after_ms: u64 },
}

#[async_trait]
pub trait Destination: fmt::Debug + Send + Sync {
    /// The address as people know it, without credentials.
    fn address(&self) -> String;

    /// Whether a letter that comes twice under one key is taken once: then what is unknown may be sent again. Where the
    /// destination remembers keys for a while only, this holds within that window; an implementation says how long it is.
    fn deduplicates(&self) -> bool;

    /// For how long it recognises a key; nothing if for ever. What is older is not sent again.
    fn dedup_window_ms(&self) -> Option<u64> {
        None
    }

    /// Whether it finds a letter by the id that its message has at the source. Whoever sends has to look that up.
    fn by_message_id(&self) -> bool {
        false
    }

    /// The headers that the letter is sent with, by name and readable value, for the plan; nothing where a letter has no
    /// headers there. An original header that is not among them is left out when the letter is sent.
    fn headers(&self, _: &Outgoing) -> Option<Vec<(String, String)>> {
        None
    }

    /// Says where the letter would go, or why it would not get there, without sending anything.
    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String>;

    /// Sends once. Must not retry by itself, because a repetition is the claim's decision, unless it recognises the repetition
    /// (`deduplicates`). Ends well before a claim's lease does.
    async fn send(&self, outgoing: &Outgoing) -> Sent;

    /// Looks letters up that were sent, at most `limits::PAGE_ROWS_MAX` at a time; answers in their order.
    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified>;
}

impl Refusal {
    /// The failed run that it was.
    pub fn attempt(self, at: Time, duration_ms: Option<u64>) -> Attempt {
        Attempt { at: Some(at), duration_ms, error: self.error, extra: None }
    }
}
