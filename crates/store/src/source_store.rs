//! The part of the seam for sources that live elsewhere: what they have to know of letters, and what they may say of them.

use async_trait::async_trait;
use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::decision::Decided;
use crate::packing::{PreparedAttempt, pack_attempt};

/// A live letter as its source has to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownLetter {
    pub letter: LetterId,
    pub status: Status,
    pub life: u32,
    /// What was reported with its present life and not obeyed.
    pub reported: Option<String>,
}

/// The work of a pending letter was done without us, as its source shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettledElsewhere {
    pub letter: LetterId,
    /// As it was when the source was looked at: a letter that died again since is another matter.
    pub life: u32,
    /// `source:<name>`
    pub by: String,
    pub notes: String,
    pub at: Time,
}

/// A delivery of an outbox row that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedTry {
    /// Of the row: made of the source's name and the row's id.
    pub key: CaptureKey,
    pub attempt: Attempt,
}

/// A failed try that is ready to be written.
pub(crate) struct PackedTry {
    pub key: CaptureKey,
    pub at: Time,
    pub attempt: PreparedAttempt,
}

/// Packs tries; one without a time is not a try.
pub(crate) fn pack_tries(tries: &[FailedTry]) -> Result<Vec<PackedTry>, StoreError> {
    let mut packed = Vec::with_capacity(tries.len());
    for FailedTry { key, attempt } in tries {
        let (Some(at), Some(identity)) = (attempt.at, identities(std::slice::from_ref(attempt)).pop()) else {
            continue;
        };
        packed.push(PackedTry { key: *key, at, attempt: pack_attempt(attempt, identity)? });
    }
    Ok(packed)
}

/// What a store does for sources. Every `Store` is one.
#[async_trait]
pub trait SourceStore: Send + Sync {
    /// The live letters under these keys, in order.
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError>;

    /// Resolves a pending letter in the name of its source. One that does not wait in that life stays as it is.
    async fn settle_elsewhere(&self, settled: SettledElsewhere) -> Result<Decided, StoreError>;

    /// Keeps failed tries of outbox relays until their rows are delivered, and forgets those of before a time. One that
    /// is kept already stays as it is.
    async fn keep_tries(&self, tries: Vec<FailedTry>, forget_before: Time) -> Result<(), StoreError>;

    /// Forgets the failed tries of rows that were delivered.
    async fn forget_tries(&self, keys: Vec<CaptureKey>) -> Result<(), StoreError>;

    /// The failed tries of rows, in the order of the keys; of each row oldest first.
    async fn tries_of(&self, keys: Vec<CaptureKey>) -> Result<Vec<Vec<Attempt>>, StoreError>;
}
