//! What stores do for retention: limits, and letters on their way into the archive and back. One method is one commit, times and ids are bound in.

use async_trait::async_trait;
use lazaret_core::id::FileId;

use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::decision::{Decided, Decision};
use crate::retention::{Prunable, PrunableQuery, PruneBatch, Pruned, QueueStanding};
use crate::transfer::Import;

/// What a store does for whoever keeps it from growing. Every `Store` is one.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Every queue of every source that has live letters, by status.
    async fn queue_standings(&self) -> Result<Vec<QueueStanding>, StoreError>;

    /// Letters that may go, in the order of going; none that is held. Reads only.
    async fn prunable(&self, query: PrunableQuery) -> Result<Vec<Prunable>, StoreError>;

    /// Takes letters away, into the archive or for good, with their jobs, and tells of it in one event for each queue.
    async fn prune(&self, batch: PruneBatch) -> Result<Pruned, StoreError>;

    /// Gives room that nothing stands in back to the machine, a little at a time; true while there is more.
    async fn give_room_back(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Drops the content of letters that stand in a verified file, and says where they are now. Those that came back, or
    /// came back and went again, are left as they are. Says how many were shelved.
    async fn shelve(&self, file: FileId, rows: Vec<ShelvedRow>) -> Result<u64, StoreError>;

    /// A page of the archive, the last removed first.
    async fn archived(&self, query: ArchiveQuery) -> Result<ArchivePage, StoreError>;

    /// Brings a letter back from a file, as it was; `entry` says which archiving of it was read. One that still waits is
    /// restored by `decide`.
    async fn restore_from_file(
        &self,
        letter: Import,
        entry: Entry,
        decision: Decision,
    ) -> Result<Decided, StoreError>;
}
