//! Named failure points: places where a test can make the store fail as the world would.
//!
//! They cost one atomic load when none is set.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;

/// Where a failure can be planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailurePoint {
    /// Before a transaction begins.
    Begin,
    /// In the middle of inserting a letter, after its key was written.
    InsertLetter,
    /// After a letter was copied into the trash and put on record there, before it leaves the live ones.
    Archive,
    /// After a letter of a batch was taken away by a limit, before the next one is.
    Prune,
    /// After a letter was put on record as one of a file, before its content leaves the trash.
    Shelve,
    /// After a letter was put among the live ones again, before it leaves the archive.
    Restore,
    /// After a letter that is in a file died again and was put among the live ones, before it leaves the archive.
    Meet,
    /// After new letters were put into the lists, before the commit.
    List,
    /// After keys were put into their index, before the commit.
    IndexKeys,
    /// At the commit, after all work was done.
    Commit,
}

/// What happens there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    DiskFull,
    ReadOnly,
    Unavailable,
    Panic,
}

/// Failures planned for a store; each happens the given number of times.
#[derive(Debug, Default)]
pub struct Failures {
    any: AtomicBool,
    planned: Mutex<HashMap<FailurePoint, (Failure, u32)>>,
}

impl Failures {
    pub fn plan(&self, point: FailurePoint, failure: Failure, times: u32) {
        let mut planned = self.planned.lock().unwrap_or_else(|broken| broken.into_inner());
        planned.insert(point, (failure, times));
        self.any.store(true, Ordering::SeqCst);
    }

    pub(crate) fn at(&self, point: FailurePoint) -> Result<(), StoreError> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let failure = {
            let mut planned = self.planned.lock().unwrap_or_else(|broken| broken.into_inner());
            match planned.get_mut(&point) {
                Some((failure, times)) if *times > 0 => {
                    *times -= 1;
                    *failure
                }
                Some(_) | None => return Ok(()),
            }
        };
        match failure {
            Failure::DiskFull => Err(StoreError::Full),
            Failure::ReadOnly => Err(StoreError::ReadOnly),
            Failure::Unavailable => {
                Err(StoreError::Unavailable { doing: "failing as planned", source: None })
            }
            #[allow(clippy::panic, reason = "the test planned exactly this")]
            Failure::Panic => panic!("failing as planned"),
        }
    }
}
