//! The part of the seam for sources that live elsewhere: what they have to know of letters, and what they may say of them.

use async_trait::async_trait;
use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::decision::Decided;
use crate::packing::{PreparedAttempt, pack_attempt};

/// The letter under a key as its source has to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownLetter {
    pub letter: LetterId,
    pub place: Place,
    /// The death that the source told last (`remember_deaths`).
    pub death: Option<String>,
    /// What was reported with the present life of a live letter and not obeyed.
    pub reported: Option<String>,
    /// Whether the message may have left the dead letters of its source since: the letter is reprocessing, or was resolved
    /// by a redrive or by the source. Always false for a letter that is not live.
    pub left_source: bool,
}

/// SQL that says whether the message of letter `l` may have left the dead letters of its source.
pub(crate) fn left_source() -> String {
    format!(
        "(l.status = '{reprocessing}'
          or l.status = '{resolved}' and (l.resolution_strategy <> '{by_hand}' or l.resolved_by like 'source:%'))",
        reprocessing = Status::Reprocessing.name(),
        resolved = Status::Resolved.name(),
        by_hand = Strategy::ManualResolution.name(),
    )
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
    /// The newest letters under these keys, in order, also those that are archived or deleted.
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError>;

    /// Keeps which death the source told last of each key. Outlives the letter, unless that is removed after its message
    /// had left the dead letters of the source.
    async fn remember_deaths(&self, deaths: Vec<(CaptureKey, String)>) -> Result<(), StoreError>;

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
