//! Limits, the archive and holds.

mod index;
pub(super) mod meet;
mod prune;
pub(super) mod restore;
mod shelve;

use async_trait::async_trait;
use lazaret_core::id::{FileId, HoldId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::PostgresStore;
use super::holds::{self, record, work};
use crate::RetentionStore;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::audit::Actor;
use crate::decision::{Decided, Decision};
use crate::hold::{HoldPlaced, HoldRecord, NewHold};
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

    async fn place_hold(&self, hold: NewHold) -> Result<HoldPlaced, StoreError> {
        holds::place(self, hold).await
    }

    async fn work_hold(&self, id: HoldId, at: Time) -> Result<bool, StoreError> {
        work::work(self, id, at).await
    }

    async fn release_hold(
        &self,
        id: HoldId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError> {
        work::release(self, id, reason, by, at).await
    }

    async fn due_holds(&self, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers.read(at, |conn, asked| Box::pin(record::due(conn, *asked))).await
    }

    async fn holds(
        &self,
        before: Option<HoldId>,
        ended: bool,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers
            .read((before, ended, limit), |conn, asked| {
                Box::pin(record::page(conn, asked.0, asked.1, asked.2))
            })
            .await
    }

    async fn hold(&self, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
        self.readers.read(id, |conn, asked| Box::pin(record::one(conn, *asked))).await
    }

    async fn hold_letters(
        &self,
        id: HoldId,
        after: Option<LetterId>,
        limit: usize,
    ) -> Result<Vec<LetterId>, StoreError> {
        self.readers
            .read((id, after, limit), |conn, asked| {
                Box::pin(record::letters(conn, asked.0, asked.1, asked.2))
            })
            .await
    }

    async fn holds_of(&self, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers.read(letter, |conn, asked| Box::pin(record::of_letter(conn, *asked))).await
    }
}
