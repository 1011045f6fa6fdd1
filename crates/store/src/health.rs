//! Whether writes go through, as the last ones showed.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;

/// Remembers that a write failed in a way in which others would fail too.
///
/// A small write can succeed where no letter can be stored: on a full disk it fits into what is allocated already. So
/// after such a failure a store counts as ready only once it has taken a probe as large as a batch of letters.
#[derive(Debug, Default)]
pub(crate) struct WriteHealth {
    doubted: AtomicBool,
}

impl WriteHealth {
    /// Notes how a write failed.
    pub fn note(&self, error: &StoreError) {
        match error {
            StoreError::Full | StoreError::ReadOnly | StoreError::Unavailable { .. } => self.doubt(),
            StoreError::Busy
            | StoreError::TooSlow
            | StoreError::TooNew { .. }
            | StoreError::Damaged { .. }
            | StoreError::Held { .. }
            | StoreError::Foreign(_)
            | StoreError::Unfit(_)
            | StoreError::WrongMode(_)
            | StoreError::Path { .. }
            | StoreError::Corrupt(_) => {}
        }
    }

    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::SeqCst);
    }

    /// Returns whether a write failed since the last large probe, and forgets it. The caller probes now: a failure from
    /// here on raises the doubt again.
    pub fn take_doubt(&self) -> bool {
        self.doubted.swap(false, Ordering::SeqCst)
    }
}
