//! The state of a connection to a broker, for health.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_core::time::Time;

/// The state of a connection.
#[derive(Clone, Default)]
pub(crate) struct Standing {
    pub connected: bool,
    pub since: Option<Time>,
    pub last_error: Option<String>,
    /// What the server's permissions refused.
    pub denied: BTreeSet<String>,
}

impl Standing {
    pub fn turned(&mut self, connected: bool) {
        if self.connected != connected || self.since.is_none() {
            (self.connected, self.since) = (connected, Some(now()));
        }
    }
}

/// What a thread that panicked has left behind is a cache: nothing in it can be half done.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
