//! Limits and the archive.

pub(super) mod index;
pub(super) mod meet;
mod prune;
mod restore;
mod room;
mod shelve;

use async_trait::async_trait;
use lazaret_core::id::FileId;

use super::SqliteStore;
use super::readers::READ_MAX;
use super::transfer::Packed;
use crate::RetentionStore;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::decision::{Decided, Decision, Verb};
use crate::retention::{Prunable, PrunableQuery, PruneBatch, Pruned, QueueStanding};
use crate::transfer::Import;

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn queue_standings(&self) -> Result<Vec<QueueStanding>, StoreError> {
        self.read_lists(READ_MAX, |conn| prune::standings(conn)).await
    }

    async fn prunable(&self, query: PrunableQuery) -> Result<Vec<Prunable>, StoreError> {
        self.read_lists(READ_MAX, move |conn| prune::prunable(conn, &query)).await
    }

    async fn prune(&self, batch: PruneBatch) -> Result<Pruned, StoreError> {
        self.writer.write(batch.letters.len(), move |write| prune::prune(write, &batch)).await
    }

    async fn give_room_back(&self) -> Result<bool, StoreError> {
        if !self.readers.read(|conn| room::is_any(conn)).await? {
            return Ok(false);
        }
        self.writer.write(1, |write| room::give_back(write)).await
    }

    /// Large letters are shelved in several commits.
    async fn shelve(&self, file: FileId, rows: Vec<ShelvedRow>) -> Result<u64, StoreError> {
        let (mut rows, mut letters) = (rows, 0);
        while !rows.is_empty() {
            let (weight, next) = (rows.len(), rows.clone());
            let shelved = self.writer.write(weight, move |write| shelve::shelve(write, file, &next)).await?;
            letters += shelved.letters;
            rows.drain(..shelved.looked_at);
        }
        Ok(letters)
    }

    async fn archived(&self, query: ArchiveQuery) -> Result<ArchivePage, StoreError> {
        self.readers.read(move |conn| index::page(conn, &query)).await
    }

    async fn restore_from_file(
        &self,
        letter: Import,
        entry: Entry,
        decision: Decision,
    ) -> Result<Decided, StoreError> {
        let packed = super::off_thread(move || Ok(vec![Packed::new(letter)?])).await?;
        let weight = packed.iter().map(Packed::weight).sum();
        let decided = self
            .writer
            .write(weight, move |write| match packed.as_slice() {
                [one] => restore::restore_from_file(write, one, entry, &decision),
                _ => Err(StoreError::Corrupt("one letter was packed into several".into())),
            })
            .await?;
        self.rounds.after(Verb::Restore);
        Ok(decided)
    }
}
