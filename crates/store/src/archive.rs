//! The archive as the store knows it: which letters are there, in which file each is, and which wait for their file.
//!
//! A letter that is archived, or deleted inside the floor, leaves the tables of live letters in one commit and waits in the
//! trash, whole. When enough wait, they are written to a file; once that was read back and verified their content leaves
//! the trash. So a letter is in one place at any moment, and the file never matters before it is proved.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{FileId, LetterId};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::page::LifeAttempt;
use crate::search::Scan;
use crate::transfer::Exported;

/// What a store knows of the archive, and how far each file has come. One method is one commit. Every `Store` is one.
#[async_trait]
pub trait Archive: Send + Sync {
    /// What waits in the store for a file of the archive.
    async fn archive_waiting(&self) -> Result<Waiting, StoreError>;

    /// Waiting letters whole, in the order in which they went, behind an entry; fewer than asked for if they are large.
    async fn waiting_letters(
        &self,
        after: Option<Entry>,
        limit: usize,
    ) -> Result<Vec<WaitingLetter>, StoreError>;

    /// One waiting letter whole.
    async fn waiting_letter(&self, letter: LetterId) -> Result<Option<WaitingLetter>, StoreError>;

    /// Takes down the name of a file before anything of it is written.
    async fn open_file(&self, id: FileId, path: String, at: Time) -> Result<(), StoreError>;

    /// Says what a file holds, after it was read back and verified.
    async fn file_written(&self, id: FileId, file: WrittenFile, at: Time) -> Result<(), StoreError>;

    /// Says that all letters of a file have left the store.
    async fn file_kept(&self, id: FileId) -> Result<(), StoreError>;

    /// Forgets a file of which nothing is on record; false if something is.
    async fn drop_file(&self, id: FileId) -> Result<bool, StoreError>;

    /// Notes that a file was read again, and what was wrong with it.
    async fn file_checked(&self, id: FileId, problem: Option<String>, at: Time) -> Result<(), StoreError>;

    /// Files in the order in which they were opened, behind an id.
    async fn files(&self, after: Option<FileId>, limit: usize) -> Result<Vec<ArchiveFile>, StoreError>;

    async fn file(&self, id: FileId) -> Result<Option<ArchiveFile>, StoreError>;

    /// Files that are not kept yet, oldest first.
    async fn unfinished_files(&self) -> Result<Vec<ArchiveFile>, StoreError>;

    /// The rows of a file that are on record, by row: a letter that is archived there, or older lives of one.
    async fn file_rows(&self, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError>;

    async fn archived_letter(&self, letter: LetterId) -> Result<Option<Archived>, StoreError>;

    /// Where older lives of a letter are, whatever its place; oldest first. Those of an archived letter include its last.
    async fn older_lives(&self, letter: LetterId) -> Result<Vec<FileRow>, StoreError>;

    /// Attempts that were reported of a letter while it was archived, in the order in which they came, numbered from 1.
    /// They are added to the letter when it comes back.
    async fn late_attempts(&self, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError>;
}

/// Names one archiving of a letter: a letter that comes back and goes again has another one.
pub type Entry = i64;

/// A letter of the archive, as its index tells of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Archived {
    pub entry: Entry,
    /// As it was when it went. Its `place` is `archived`, or `deleted` if a person removed it inside the floor.
    pub letter: Letter,
    pub removed_at: Time,
    pub removed_by: String,
    /// `max_age`, `max_count`, `deleted` or `archived` by hand.
    pub reason: String,
    /// Where its last lives are; nothing while they wait in the store.
    pub file: Option<FileRow>,
}

/// Some lives of a letter that stand in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRow {
    pub file: FileId,
    /// Counted from 0.
    pub row: u64,
    pub first_life: u32,
    pub last_life: u32,
}

/// What is asked of the index.
#[derive(Clone, Debug)]
pub struct ArchiveQuery {
    /// Fields that the index holds; content is for whoever opens the files.
    pub filter: Filter,
    /// Only what stands in this place.
    pub place: Option<Place>,
    pub now: Time,
    /// Behind the last one of the page before; the last removed come first.
    pub before: Option<Entry>,
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct ArchivePage {
    pub letters: Vec<Archived>,
    /// The last row that was looked at, if there are more behind it.
    pub next: Option<Entry>,
    /// What had to be looked at row by row; nothing if indexes answered.
    pub scan: Option<Scan>,
}

/// What waits for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    pub letters: u64,
    /// Of their originals, unpacked.
    pub bytes: u64,
    /// When the first of them went.
    pub since: Option<Time>,
}

/// A waiting letter, whole.
#[derive(Clone, Debug)]
pub struct WaitingLetter {
    pub archived: Archived,
    pub exported: Exported,
}

/// A file of the archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveFile {
    pub id: FileId,
    /// Where it is, below the place of the archive.
    pub path: String,
    pub state: FileState,
    pub letters: u64,
    pub bytes: u64,
    pub sha256: [u8; 32],
    pub first_died_at: Option<Time>,
    pub last_died_at: Option<Time>,
    pub opened_at: Time,
    /// When it was read and verified last.
    pub checked_at: Option<Time>,
    /// What was wrong with it then.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileState {
    /// Its name is taken down, and nothing is known of it: it may be there, in part, or not.
    Writing,
    /// It was read back and verified. Some of its letters may still wait in the store.
    Written,
    /// Every letter of it has left the store.
    Kept,
}

impl FileState {
    pub const ALL: [FileState; 3] = [FileState::Writing, FileState::Written, FileState::Kept];

    pub const fn name(self) -> &'static str {
        match self {
            FileState::Writing => "writing",
            FileState::Written => "written",
            FileState::Kept => "kept",
        }
    }

    pub fn parse(text: &str) -> Option<FileState> {
        FileState::ALL.into_iter().find(|state| state.name() == text)
    }
}

/// What verified file holds, when it is told to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenFile {
    pub letters: u64,
    pub bytes: u64,
    pub sha256: [u8; 32],
    pub first_died_at: Option<Time>,
    pub last_died_at: Option<Time>,
}

/// A row of a verified file, to be put on record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShelvedRow {
    pub letter: LetterId,
    pub entry: Entry,
    pub row: u64,
    pub first_life: u32,
    pub last_life: u32,
}
