//! Limits and the archive.

mod index;
pub(super) mod meet;
mod prune;
pub(super) mod restore;
mod shelve;

use async_trait::async_trait;
use lazaret_core::id::FileId;
use lazaret_core::limits;

use super::PostgresStore;
use crate::RetentionStore;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::decision::{Decided, Decision};
use crate::retention::{Prunable, PrunableQuery, PruneBatch, Pruned, QueueStanding};
use crate::transfer::Import;

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn queue_standings(&self) -> Result<Vec<QueueStanding>, StoreError> {
        self.readers.read((), |conn, _| Box::pin(prune::queue_standings(conn))).await
    }

    async fn prunable(&self, query: PrunableQuery) -> Result<Vec<Prunable>, StoreError> {
        self.readers.read(query, |conn, asked| Box::pin(prune::prunable(conn, asked))).await
    }

    async fn prune(&self, batch: PruneBatch) -> Result<Pruned, StoreError> {
        let letters = batch.letters.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer.write_long(letters, batch, |write, asked| Box::pin(prune::prune(write, asked))).await
    }

    async fn shelve(&self, file: FileId, rows: Vec<ShelvedRow>) -> Result<u64, StoreError> {
        let letters = rows.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer
            .write_long(letters, (file, rows), |write, asked| {
                Box::pin(shelve::shelve(write, asked.0, &asked.1))
            })
            .await
    }

    async fn archived(&self, query: ArchiveQuery) -> Result<ArchivePage, StoreError> {
        self.readers.snapshot(query, |conn, asked| Box::pin(index::page(conn, asked))).await
    }

    async fn restore_from_file(
        &self,
        letter: Import,
        entry: Entry,
        decision: Decision,
    ) -> Result<Decided, StoreError> {
        restore::restore_from_file(self, letter, entry, decision).await
    }
}
