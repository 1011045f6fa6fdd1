//! Operations that are written once, over the seam. What the two databases do apart stays in `sqlite` and `postgres`.

mod access;
pub(crate) mod archive;
pub(crate) mod decisions;
pub(crate) mod letters;
mod sessions;
mod tokens;

#[cfg(feature = "testing")]
use crate::seam::Table;

/// Every table whose columns are stated here; a test compares them with both schemas.
#[cfg(feature = "testing")]
pub(crate) const TABLES: [Table; 9] = [
    archive::files::FILES,
    archive::index::ARCHIVE,
    archive::index::FILE_ROWS,
    archive::late::LATE,
    letters::ATTEMPTS,
    letters::LETTERS,
    letters::LIVES,
    sessions::SESSIONS,
    tokens::TOKENS,
];
