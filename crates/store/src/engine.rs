//! Operations that are written once, over the seam. What the two databases do apart stays in `sqlite` and `postgres`.

mod access;
pub(crate) mod incidents;
pub(crate) mod operations;
pub(crate) mod redrives;
mod sessions;
mod tokens;
mod workers;

#[cfg(feature = "testing")]
use crate::seam::Table;

/// Every table whose columns are stated here; a test compares them with both schemas.
#[cfg(feature = "testing")]
pub(crate) const TABLES: [Table; 11] = [
    incidents::FIXES,
    incidents::INCIDENTS,
    incidents::RCAS,
    incidents::TIMELINE,
    operations::OPERATIONS,
    redrives::EDITS,
    redrives::row::REDRIVES,
    redrives::row::REDRIVE_LETTERS,
    sessions::SESSIONS,
    tokens::TOKENS,
    workers::WORKERS,
];
