//! Operations that are written once, over the seam. What the two databases do apart stays in `sqlite` and `postgres`.

mod access;
mod alerts;
pub(crate) mod archive;
mod audit;
pub(crate) mod decisions;
pub(crate) mod dimension;
pub(crate) mod holds;
pub(crate) mod incidents;
pub(crate) mod letters;
pub(crate) mod numbers;
pub(crate) mod operations;
pub(crate) mod queues;
pub(crate) mod redrives;
pub(crate) mod regroup;
pub(crate) mod replays;
mod sessions;
pub(crate) mod sources;
mod tokens;
pub(crate) mod verdicts;
mod workers;

#[cfg(feature = "testing")]
use crate::seam::Table;

/// Every table whose columns are stated here; a test compares them with both schemas.
#[cfg(feature = "testing")]
pub(crate) const TABLES: [Table; 27] = [
    alerts::ALERTS,
    alerts::GROUPS,
    alerts::PROGRESS,
    alerts::notifications::NOTIFICATIONS,
    alerts::silences::SILENCES,
    archive::files::FILES,
    archive::index::ARCHIVE,
    archive::index::FILE_ROWS,
    archive::late::LATE,
    audit::AUDIT,
    holds::HOLDS,
    incidents::FIXES,
    incidents::INCIDENTS,
    incidents::RCAS,
    incidents::TIMELINE,
    letters::ATTEMPTS,
    letters::LETTERS,
    letters::LIVES,
    operations::OPERATIONS,
    queues::QUEUES,
    redrives::EDITS,
    redrives::row::REDRIVES,
    redrives::row::REDRIVE_LETTERS,
    sessions::SESSIONS,
    sources::TRIES,
    tokens::TOKENS,
    workers::WORKERS,
];
