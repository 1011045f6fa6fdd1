//! The part of the seam for sources that live elsewhere: what they have to know of letters, and what they may say of them.

use async_trait::async_trait;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::decision::Decided;

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

/// What a store does for sources. Every `Store` is one.
#[async_trait]
pub trait SourceStore: Send + Sync {
    /// The live letters under these keys, in order.
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError>;

    /// Resolves a pending letter in the name of its source. One that does not wait in that life stays as it is.
    async fn settle_elsewhere(&self, settled: SettledElsewhere) -> Result<Decided, StoreError>;
}
