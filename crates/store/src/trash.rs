//! Deleted letters whose content is kept for a while, so that a delete by mistake can be undone.

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

/// One deleted letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trashed {
    pub letter: LetterId,
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    pub event_id: String,
    pub error_type: String,
    pub error_message: String,
    /// What it was when it was deleted, and will be again.
    pub status: Status,
    pub died_at: Time,
    pub deleted_at: Time,
    pub deleted_by: String,
    /// Its content is kept until then at least.
    pub kept_until: Time,
}
