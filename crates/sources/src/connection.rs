//! The state of a connection to a broker, for health.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_core::time::Time;

/// The state of a connection.
#[derive(Clone, Default)]
pub(crate) struct ConnectionState {
    pub connected: bool,
    pub since: Option<Time>,
    pub last_error: Option<String>,
    /// Permission violations that the server reported.
    pub denied: BTreeSet<String>,
}

impl ConnectionState {
    pub fn set_connected(&mut self, connected: bool) {
        if self.connected != connected || self.since.is_none() {
            (self.connected, self.since) = (connected, Some(now()));
        }
    }
}

/// Locks a mutex. A poisoned one is used as it is: it guards caches and counters that a panic cannot leave inconsistent.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
