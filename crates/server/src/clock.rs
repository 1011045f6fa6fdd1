//! The one clock. Tests stop it and move it by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_core::time::Time;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Stands still at these Unix milliseconds until it is moved.
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    pub fn fixed(at: Time) -> Clock {
        Clock::Fixed(Arc::new(AtomicI64::new(at.ms())))
    }

    pub fn now(&self) -> Time {
        match self {
            Clock::System => {
                // A machine whose clock stands before 1970 gets the epoch: nothing sensible is earlier.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Clock::Fixed(ms) => Time::from_ms(ms.load(Ordering::SeqCst)),
        }
    }
}
