//! Limits, the archive and holds.

pub(super) mod index;
pub(super) mod meet;
mod prune;
pub(super) mod recount;
mod restore;
mod room;
mod shelve;

use async_trait::async_trait;
use lazaret_core::id::{FileId, HoldId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::SqliteStore;
use super::holds;
use super::transfer::Packed;
use crate::RetentionStore;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Entry, ShelvedRow};
use crate::audit::Actor;
use crate::decision::{Decided, Decision, Verb};
use crate::hold::{HoldPlaced, HoldRecord, NewHold};
use crate::retention::{Prunable, PrunableQuery, PruneBatch, Pruned, QueueStanding};
use crate::transfer::Import;

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn queue_standings(&self) -> Result<Vec<QueueStanding>, StoreError> {
        self.catch_up().await?;
        self.readers.read(|conn| prune::standings(conn)).await
    }

    async fn prunable(&self, query: PrunableQuery) -> Result<Vec<Prunable>, StoreError> {
        self.catch_up().await?;
        self.readers.read(move |conn| prune::prunable(conn, &query)).await
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

    async fn place_hold(&self, hold: NewHold) -> Result<HoldPlaced, StoreError> {
        holds::place(self, hold).await
    }

    async fn work_hold(&self, id: HoldId, at: Time) -> Result<bool, StoreError> {
        let weight = limits::DECISION_ROWS_PER_WRITE;
        let more = self.writer.write(weight, move |write| holds::work::work(write, id, at)).await?;
        self.rounds.after(Verb::Release);
        Ok(more)
    }

    async fn release_hold(
        &self,
        id: HoldId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.writer.write(1, move |write| holds::work::release(write, id, reason.as_deref(), &by, at)).await
    }

    async fn due_holds(&self, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers.read(move |conn| holds::record::due(conn, at)).await
    }

    async fn holds(
        &self,
        before: Option<HoldId>,
        ended: bool,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers.read(move |conn| holds::record::page(conn, before, ended, limit)).await
    }

    async fn hold(&self, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
        self.readers.read(move |conn| holds::record::one(conn, id)).await
    }

    async fn hold_letters(
        &self,
        id: HoldId,
        after: Option<LetterId>,
        limit: usize,
    ) -> Result<Vec<LetterId>, StoreError> {
        self.readers.read(move |conn| holds::record::letters(conn, id, after, limit)).await
    }

    async fn holds_of(&self, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError> {
        self.readers.read(move |conn| holds::record::of_letter(conn, letter)).await
    }
}
