//! The third part of the seam: limits, the archive and holds. One method is one commit, times and ids are bound in.

use async_trait::async_trait;
use lazaret_core::id::{FileId, HoldId, LetterId};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::audit::Actor;
use crate::decision::{Decided, Decision};
use crate::hold::{HoldPlaced, HoldRecord, NewHold};
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

    /// Places a hold. One on a letter is complete at once; of another the letters are counted and the hold is in force,
    /// and `work_hold` marks them.
    async fn place_hold(&self, hold: NewHold) -> Result<HoldPlaced, StoreError>;

    /// Marks or frees the next letters of a hold; true while there are more. One whose time is over by then is ended
    /// first.
    async fn work_hold(&self, id: HoldId, at: Time) -> Result<bool, StoreError>;

    /// Ends a hold; `work_hold` frees its letters. False if there is none, or it ended before.
    async fn release_hold(
        &self,
        id: HoldId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError>;

    /// Holds that end by themselves by then, and those that have letters left to mark or free.
    async fn due_holds(&self, at: Time) -> Result<Vec<HoldRecord>, StoreError>;

    /// Holds, the last placed first, behind an id; those that ended only when asked for.
    async fn holds(
        &self,
        before: Option<HoldId>,
        ended: bool,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError>;

    async fn hold(&self, id: HoldId) -> Result<Option<HoldRecord>, StoreError>;

    /// Letters under a hold, by id, behind one.
    async fn hold_letters(
        &self,
        id: HoldId,
        after: Option<LetterId>,
        limit: usize,
    ) -> Result<Vec<LetterId>, StoreError>;

    /// The holds that a letter is under, oldest first.
    async fn holds_of(&self, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError>;
}
