//! Operations that are written once, over the seam. What the two databases do apart stays in `sqlite` and `postgres`.

mod access;
mod alerts;
pub(crate) mod archive;
pub(crate) mod decisions;
pub(crate) mod incidents;
pub(crate) mod letters;
pub(crate) mod operations;
pub(crate) mod redrives;
mod sessions;
mod tokens;
mod workers;

#[cfg(feature = "testing")]
use crate::seam::Table;

/// Every table whose columns are stated here; a test compares them with both schemas.
#[cfg(feature = "testing")]
pub(crate) const TABLES: [Table; 23] = [
    alerts::ALERTS,
    alerts::GROUPS,
    alerts::PROGRESS,
    alerts::notifications::NOTIFICATIONS,
    alerts::silences::SILENCES,
    archive::files::FILES,
    archive::index::ARCHIVE,
    archive::index::FILE_ROWS,
    archive::late::LATE,
    incidents::FIXES,
    incidents::INCIDENTS,
    incidents::RCAS,
    incidents::TIMELINE,
    letters::ATTEMPTS,
    letters::LETTERS,
    letters::LIVES,
    operations::OPERATIONS,
    redrives::EDITS,
    redrives::row::REDRIVES,
    redrives::row::REDRIVE_LETTERS,
    sessions::SESSIONS,
    tokens::TOKENS,
    workers::WORKERS,
];
