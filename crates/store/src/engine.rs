//! Operations that are written once, over the seam. What the two databases do apart stays in `sqlite` and `postgres`.

mod access;
mod sessions;
mod tokens;
mod workers;

#[cfg(feature = "testing")]
use crate::seam::Table;

/// Every table whose columns are stated here; a test compares them with both schemas.
#[cfg(feature = "testing")]
pub(crate) const TABLES: [Table; 3] = [sessions::SESSIONS, tokens::TOKENS, workers::WORKERS];
