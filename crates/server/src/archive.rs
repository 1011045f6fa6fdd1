//! The archive: letters that limits pushed out, or that were deleted inside the floor, in files on a folder or on object
//! storage.
//!
//! The store knows which letters are archived and keeps them until they stand in a file. A file is written, read back and
//! compared with what was to be in it before anything leaves the store; after a crash whatever was begun is ended or taken
//! back. Nothing here ever removes a file that letters stand in.

mod files;
mod parse;
mod place;
mod read;
mod restore;
mod row;
mod schema;
mod search;
mod verify;
mod write;

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lazaret_core::id::FileId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;

use crate::app::App;
use crate::config::Config;
use place::ArchivePlace;

pub use files::tick;
pub use read::{read_letter, read_many, read_older};
pub use restore::{restore, restore_many};
pub use search::search;
pub use verify::verify_file;

/// Why something of the archive could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the archive has no place: `archive.url` is not set")]
    NoPlace,
    #[error("the archive could not be used, {doing} failed: {why}")]
    Away { doing: &'static str, why: String },
    #[error("file {file} of the archive is missing: {path}")]
    Missing { file: FileId, path: String },
    #[error("file {file} of the archive is damaged: {path}: {problem}")]
    Damaged { file: FileId, path: String, problem: String },
}

impl ArchiveError {
    /// The same for another letter of the same file; an error of the store is for all of them.
    fn again(&self) -> Option<ArchiveError> {
        match self {
            ArchiveError::Store(_) => None,
            ArchiveError::NoPlace => Some(ArchiveError::NoPlace),
            ArchiveError::Away { doing, why } => Some(ArchiveError::Away { doing, why: why.clone() }),
            ArchiveError::Missing { file, path } => {
                Some(ArchiveError::Missing { file: *file, path: path.clone() })
            }
            ArchiveError::Damaged { file, path, problem } => {
                Some(ArchiveError::Damaged { file: *file, path: path.clone(), problem: problem.clone() })
            }
        }
    }
}

/// The archive of a server under one configuration: its place, and how it goes with it.
#[derive(Debug)]
pub struct Archive {
    /// Nothing where letters have to wait in the store.
    place: Option<Result<ArchivePlace, String>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failing: Option<Failing>,
    /// Whether it was told that letters wait and have no place to go to.
    told_homeless: bool,
}

#[derive(Clone, Debug)]
struct Failing {
    problem: String,
    since: Time,
    times: u32,
    next_try_at: Time,
}

/// How it goes with the archive, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveState {
    /// Where files go; nothing where letters wait in the store.
    pub place: Option<String>,
    /// Why no file could be written last time.
    pub problem: Option<String>,
    pub failing_since: Option<Time>,
    pub next_try_at: Option<Time>,
}

/// How it goes with the archive.
pub fn state(app: &App) -> ArchiveState {
    let failing = app.archive.state().failing.clone();
    ArchiveState {
        place: app.config.archive_url().map(|url| url.to_string()),
        failing_since: failing.as_ref().map(|failing| failing.since),
        next_try_at: failing.as_ref().map(|failing| failing.next_try_at),
        problem: failing.map(|failing| failing.problem),
    }
}

/// How long it is until the archive is tried again after a failure.
pub(crate) fn until_next_try(app: &App) -> Option<Duration> {
    let failing = app.archive.state().failing.clone()?;
    let wait_ms = failing.next_try_at.since(app.clock.now()).max(1);
    Some(Duration::from_millis(wait_ms.unsigned_abs()))
}

impl Archive {
    pub(crate) fn new(config: &Config) -> Archive {
        Archive::with_environment(config, &[])
    }

    /// The same with variables as if they stood in the environment of the process, which cannot be changed while it runs.
    pub fn with_environment(config: &Config, more: &[(&str, &str)]) -> Archive {
        let place = config.archive_url().map(|url| ArchivePlace::new(url, &config.archive, more));
        Archive { place, state: Mutex::default() }
    }

    fn place(&self) -> Result<&ArchivePlace, ArchiveError> {
        match &self.place {
            Some(Ok(place)) => Ok(place),
            Some(Err(why)) => Err(ArchiveError::Away { doing: "setting up connections", why: why.clone() }),
            None => Err(ArchiveError::NoPlace),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is too early to try again.
    fn rests(&self, now: Time) -> bool {
        self.state().failing.as_ref().is_some_and(|failing| now < failing.next_try_at)
    }

    /// Takes down a failure. The log hears of it once, until it goes well again or another thing goes wrong.
    fn failed(&self, error: &ArchiveError, now: Time) {
        let problem = error.to_string();
        let mut state = self.state();
        let (since, times) = state.failing.as_ref().map_or((now, 0), |before| (before.since, before.times));
        let rest_ms = limits::ARCHIVE_REST_MS.saturating_mul(1 << times.min(20));
        let next_try_at = now.plus_ms(rest_ms.min(limits::ARCHIVE_REST_MS_MAX));
        if state.failing.as_ref().is_none_or(|before| before.problem != problem) {
            tracing::warn!("no file of the archive could be written, letters wait in the store: {problem}");
        }
        state.failing = Some(Failing { problem, since, times: times + 1, next_try_at });
    }

    fn went_well(&self) {
        if self.state().failing.take().is_some() {
            tracing::info!("the archive can be written again");
        }
    }

    /// Says once that letters wait and have no place to go to.
    fn tell_homeless(&self, letters: u64) {
        let mut state = self.state();
        if letters > 0 && !state.told_homeless {
            state.told_homeless = true;
            tracing::warn!(
                letters,
                "{letters} archived letters wait in the database: set archive.url to a place that all servers share"
            );
        }
    }
}
