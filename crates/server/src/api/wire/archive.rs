//! The archive as the API shows it: letters, files, and what became of a restore or a check.

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Action;
use lazaret_store::archive::{ArchiveFile, Archived, FileRow, Waiting};
use serde::Serialize;
use utoipa::ToSchema;

use super::entry::LetterEntry;
use super::{LetterSummary, ScanBody, SkippedBody, hex};
use crate::archive::ArchiveState;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArchiveList {
    /// The last removed first.
    pub items: Vec<ArchivedBody>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Present when letters or files had to be opened to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanBody>,
}

/// A letter of the archive, as its index tells of it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArchivedBody {
    #[serde(flatten)]
    pub letter: LetterSummary,
    pub archive: RemovalBody,
}

/// A letter of the archive, whole.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArchivedEntry {
    #[serde(flatten)]
    pub letter: LetterEntry,
    pub archive: RemovalBody,
}

/// How a letter came into the archive, and where it is there.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovalBody {
    pub removed_at: String,
    pub removed_by: String,
    /// max_age, max_count, deleted or archived
    pub reason: String,
    /// Null while it waits in the store for a file.
    pub file: Option<FileRowBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileRowBody {
    pub file_id: String,
    /// Counted from 0.
    pub row: u64,
    pub first_life: u32,
    pub last_life: u32,
}

/// Older lives of a live letter, which stand in a file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OlderLivesBody {
    #[serde(flatten)]
    pub place: FileRowBody,
    /// Gives the letter with them.
    pub url: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileList {
    /// The oldest first.
    pub items: Vec<FileBody>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
    pub waiting: WaitingBody,
    /// Where files go, without credentials; null if there is no place for them.
    pub place: Option<String>,
    /// Since when no file could be written.
    pub failing_since: Option<String>,
    /// Why none could be written.
    pub problem: Option<String>,
    pub next_try_at: Option<String>,
}

/// What waits in the store for a file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingBody {
    pub letters: u64,
    /// Of their originals.
    pub bytes: u64,
    pub since: Option<String>,
}

#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileBody {
    pub id: String,
    /// Below the place of the archive.
    pub path: String,
    /// writing, written or kept
    #[schema(value_type = String)]
    pub state: &'static str,
    pub letters: u64,
    pub bytes: u64,
    pub sha256: String,
    pub first_died_at: Option<String>,
    pub last_died_at: Option<String>,
    pub opened_at: String,
    /// When it was read and verified last.
    pub checked_at: Option<String>,
    /// What was wrong with it then.
    pub problem: Option<String>,
}

/// One line of a check: a file and what was found.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckedLine {
    pub file: FileBody,
    /// What is wrong with it, now.
    pub problem: Option<String>,
    pub done: u64,
    pub of: u64,
}

/// The last line of a check.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerifiedBody {
    pub files: u64,
    /// Of the files that are as they were written.
    pub letters: u64,
    pub damaged: Vec<DamagedBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DamagedBody {
    pub file_id: String,
    pub path: String,
    pub problem: String,
}

/// What became of a restore by filter.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestoredBody {
    pub restored: u64,
    pub skipped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_letters: Vec<SkippedBody>,
}

impl From<Archived> for ArchivedBody {
    fn from(archived: Archived) -> ArchivedBody {
        ArchivedBody { letter: summary(&archived), archive: archived.into() }
    }
}

/// A letter of the archive in short, with what may be done with it there.
pub(crate) fn summary(archived: &Archived) -> LetterSummary {
    let mut letter = LetterSummary::from(&archived.letter);
    letter.allowed_actions.insert(0, Action::Restore.name());
    letter
}

impl From<Archived> for RemovalBody {
    fn from(archived: Archived) -> RemovalBody {
        RemovalBody {
            removed_at: archived.removed_at.to_string(),
            removed_by: archived.removed_by,
            reason: archived.reason,
            file: archived.file.map(FileRowBody::from),
        }
    }
}

impl From<FileRow> for FileRowBody {
    fn from(row: FileRow) -> FileRowBody {
        FileRowBody {
            file_id: row.file.to_string(),
            row: row.row,
            first_life: row.first_life,
            last_life: row.last_life,
        }
    }
}

impl OlderLivesBody {
    pub fn new(letter: LetterId, row: FileRow) -> OlderLivesBody {
        OlderLivesBody { place: row.into(), url: format!("/api/v1/dead-letters/{letter}?older=true") }
    }
}

impl FileList {
    pub fn new(
        files: Vec<ArchiveFile>,
        next_cursor: Option<String>,
        waiting: Waiting,
        state: ArchiveState,
    ) -> FileList {
        FileList {
            items: files.into_iter().map(FileBody::from).collect(),
            next_cursor,
            waiting: WaitingBody {
                letters: waiting.letters,
                bytes: waiting.bytes,
                since: waiting.since.map(|at| at.to_string()),
            },
            place: state.place,
            failing_since: state.failing_since.map(|at| at.to_string()),
            problem: state.problem,
            next_try_at: state.next_try_at.map(|at| at.to_string()),
        }
    }
}

impl From<ArchiveFile> for FileBody {
    fn from(file: ArchiveFile) -> FileBody {
        FileBody {
            id: file.id.to_string(),
            path: file.path,
            state: file.state.name(),
            letters: file.letters,
            bytes: file.bytes,
            sha256: hex(&file.sha256),
            first_died_at: file.first_died_at.map(|at| at.to_string()),
            last_died_at: file.last_died_at.map(|at| at.to_string()),
            opened_at: file.opened_at.to_string(),
            checked_at: file.checked_at.map(|at| at.to_string()),
            problem: file.problem,
        }
    }
}
