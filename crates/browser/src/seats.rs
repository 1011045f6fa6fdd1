//! How many Chromium run at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Each takes a core while a page loads and some hundred megabytes; with more of them every one is only slower.
const SEATS: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// The right to run one; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(());

impl Seat {
    /// Waits until one is free.
    pub(crate) fn take() -> Seat {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken =
            FREED.wait_while(taken, |taken| *taken >= SEATS).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Seat(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}
