//! Limits, the archive and holds.

mod files;
mod index;
mod late;
pub(super) mod meet;
mod prune;
pub(super) mod restore;
mod waiting;

use async_trait::async_trait;
use lazaret_core::id::{FileId, HoldId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::PostgresStore;
use super::holds::{self, record, work};
use crate::RetentionStore;
use crate::StoreError;
use crate::archive::{
    ArchiveFile, ArchivePage, ArchiveQuery, Archived, Entry, FileRow, ShelvedRow, Waiting, WaitingLetter,
    WrittenFile,
};
use crate::audit::Actor;
use crate::decision::{Decided, Decision};
use crate::hold::{HoldPlaced, HoldRecord, NewHold};
use crate::page::LifeAttempt;
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

    async fn archive_waiting(&self) -> Result<Waiting, StoreError> {
        self.readers.read((), |conn, _| Box::pin(waiting::waiting(conn))).await
    }

    async fn waiting_letters(
        &self,
        after: Option<Entry>,
        limit: usize,
    ) -> Result<Vec<WaitingLetter>, StoreError> {
        self.readers
            .snapshot((after, limit), |conn, asked| Box::pin(waiting::page(conn, asked.0, asked.1)))
            .await
    }

    async fn waiting_letter(&self, letter: LetterId) -> Result<Option<WaitingLetter>, StoreError> {
        self.readers.snapshot(letter, |conn, asked| Box::pin(waiting::one(conn, *asked))).await
    }

    async fn open_file(&self, id: FileId, path: String, at: Time) -> Result<(), StoreError> {
        self.writer
            .write_long(1, (id, path, at), |write, asked| {
                Box::pin(files::open(write, asked.0, &asked.1, asked.2))
            })
            .await
    }

    async fn file_written(&self, id: FileId, file: WrittenFile, at: Time) -> Result<(), StoreError> {
        self.writer
            .write_long(1, (id, file, at), |write, asked| {
                Box::pin(files::written(write, asked.0, &asked.1, asked.2))
            })
            .await
    }

    async fn shelve(&self, file: FileId, rows: Vec<ShelvedRow>) -> Result<u64, StoreError> {
        let letters = rows.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer
            .write_long(letters, (file, rows), |write, asked| {
                Box::pin(files::shelve(write, asked.0, &asked.1))
            })
            .await
    }

    async fn file_kept(&self, id: FileId) -> Result<(), StoreError> {
        self.writer.write_long(1, id, |write, asked| Box::pin(files::kept(write, *asked))).await
    }

    async fn drop_file(&self, id: FileId) -> Result<bool, StoreError> {
        self.writer.write_long(1, id, |write, asked| Box::pin(files::forget(write, *asked))).await
    }

    async fn file_checked(&self, id: FileId, problem: Option<String>, at: Time) -> Result<(), StoreError> {
        self.writer
            .write_long(1, (id, problem, at), |write, asked| {
                Box::pin(files::checked(write, asked.0, asked.1.as_deref(), asked.2))
            })
            .await
    }

    async fn files(&self, after: Option<FileId>, limit: usize) -> Result<Vec<ArchiveFile>, StoreError> {
        self.readers.read((after, limit), |conn, asked| Box::pin(files::page(conn, asked.0, asked.1))).await
    }

    async fn file(&self, id: FileId) -> Result<Option<ArchiveFile>, StoreError> {
        self.readers.read(id, |conn, asked| Box::pin(files::file(conn, *asked))).await
    }

    async fn unfinished_files(&self) -> Result<Vec<ArchiveFile>, StoreError> {
        self.readers.read((), |conn, _| Box::pin(files::unfinished(conn))).await
    }

    async fn file_rows(&self, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError> {
        self.readers.read(id, |conn, asked| Box::pin(files::rows(conn, *asked))).await
    }

    async fn archived(&self, query: ArchiveQuery) -> Result<ArchivePage, StoreError> {
        self.readers.snapshot(query, |conn, asked| Box::pin(index::page(conn, asked))).await
    }

    async fn archived_letter(&self, letter: LetterId) -> Result<Option<Archived>, StoreError> {
        self.readers.read(letter, |conn, asked| Box::pin(index::letter(conn, *asked))).await
    }

    async fn older_lives(&self, letter: LetterId) -> Result<Vec<FileRow>, StoreError> {
        self.readers.read(letter, |conn, asked| Box::pin(index::older_lives(conn, *asked))).await
    }

    async fn late_attempts(&self, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
        self.readers.read(letter, |conn, asked| Box::pin(late::read(conn, *asked))).await
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
