//! The archive as the store knows it. Letters are put there and come back in batches, which each database does its own way.

pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod late;
mod waiting;

use async_trait::async_trait;
use lazaret_core::id::{FileId, LetterId};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::archive::{Archive, ArchiveFile, Archived, Entry, FileRow, Waiting, WaitingLetter, WrittenFile};
use crate::page::LifeAttempt;
use crate::seam::{Backend, Lane, View};

#[async_trait]
impl<S: Backend> Archive for S {
    async fn archive_waiting(&self) -> Result<Waiting, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(waiting::waiting(conn))).await
    }

    async fn waiting_letters(
        &self,
        after: Option<Entry>,
        limit: usize,
    ) -> Result<Vec<WaitingLetter>, StoreError> {
        self.read(View::Snapshot, (after, limit), |conn, (after, limit)| {
            Box::pin(waiting::page(conn, *after, *limit))
        })
        .await
    }

    async fn waiting_letter(&self, letter: LetterId) -> Result<Option<WaitingLetter>, StoreError> {
        self.read(View::Snapshot, letter, |conn, letter| Box::pin(waiting::letter(conn, *letter))).await
    }

    async fn open_file(&self, id: FileId, path: String, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Long(1), (id, path, at), |tx, (id, path, at)| {
            Box::pin(files::open(tx, *id, path, *at))
        })
        .await
    }

    async fn file_written(&self, id: FileId, file: WrittenFile, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Long(1), (id, file, at), |tx, (id, file, at)| {
            Box::pin(files::written(tx, *id, file, *at))
        })
        .await
    }

    async fn file_kept(&self, id: FileId) -> Result<(), StoreError> {
        self.write(Lane::Long(1), id, |tx, id| Box::pin(files::kept(tx, *id))).await
    }

    async fn drop_file(&self, id: FileId) -> Result<bool, StoreError> {
        self.write(Lane::Long(1), id, |tx, id| Box::pin(files::drop_unrecorded(tx, *id))).await
    }

    async fn file_checked(&self, id: FileId, problem: Option<String>, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Long(1), (id, problem, at), |tx, (id, problem, at)| {
            Box::pin(files::checked(tx, *id, problem.as_deref(), *at))
        })
        .await
    }

    async fn files(&self, after: Option<FileId>, limit: usize) -> Result<Vec<ArchiveFile>, StoreError> {
        self.read(View::Newest, (after, limit), |conn, (after, limit)| {
            Box::pin(files::page(conn, *after, *limit))
        })
        .await
    }

    async fn file(&self, id: FileId) -> Result<Option<ArchiveFile>, StoreError> {
        self.read(View::Newest, id, |conn, id| Box::pin(files::file(conn, *id))).await
    }

    async fn unfinished_files(&self) -> Result<Vec<ArchiveFile>, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(files::unfinished(conn))).await
    }

    async fn file_rows(&self, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError> {
        self.read(View::Newest, id, |conn, id| Box::pin(files::rows(conn, *id))).await
    }

    async fn archived_letter(&self, letter: LetterId) -> Result<Option<Archived>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(index::letter(conn, *letter))).await
    }

    async fn older_lives(&self, letter: LetterId) -> Result<Vec<FileRow>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(index::older_lives(conn, *letter))).await
    }

    async fn late_attempts(&self, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(late::attempts(conn, *letter))).await
    }
}
