//! Where a letter goes back to. The seam that every redrive works through.
//!
//! A destination only sends and looks; it never moves a letter. Claims do, in the store, before and after.

use async_trait::async_trait;
use bytes::Bytes;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;

/// A letter on its way out: the bytes of one life, with what lets the receiver recognise a repetition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    pub letter: LetterId,
    pub life: u32,
    pub redrive: RedriveId,
    /// Stays the same over repetitions of one send.
    pub idempotency_key: String,
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// Where a letter would go, for the plan and the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The address as people know it, without credentials.
    pub address: String,
    /// Consumers that did not fail and would get it all the same.
    pub also_reaches: Vec<String>,
}

/// What became of a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The destination has it.
    Confirmed,
    /// It definitely has not, and said why.
    Refused(String),
    /// Nobody knows: never shown as success.
    Unknown(String),
}

/// What a look at the destination showed of a letter that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// The work succeeded, on this evidence.
    Succeeded {
        evidence: &'static str,
        at: Time,
    },
    /// It was taken, and nothing more is known.
    Taken,
    NotYet,
}

#[async_trait]
pub trait Destination: Send + Sync {
    /// Says where the letter would go, without sending anything.
    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String>;

    /// Sends once. Must not retry by itself: a repetition is the claim's decision.
    async fn send(&self, outgoing: &Outgoing) -> Sent;

    async fn verify(&self, outgoing: &Outgoing) -> Verified;
}
