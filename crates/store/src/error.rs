//! What can go wrong with a store, named by what the caller can do about it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Come back later: too many writes are waiting.
    #[error("the store has too much to write right now")]
    Busy,
    /// Make room: nothing of the request was kept.
    #[error("the disk is full: nothing more can be stored")]
    Full,
    /// Make it writable.
    #[error("the store is read-only")]
    ReadOnly,
    /// Narrow the filter: the read was stopped.
    #[error("the search took too long and was stopped")]
    TooSlow,
    /// Update the binary.
    #[error(
        "the store has format {found}, this binary knows formats up to {known}: it was written by a newer Lazaret"
    )]
    TooNew { found: u32, known: u32 },
    /// Restore a backup: something of the schema is gone.
    #[error("the store is damaged: it has format {format} and lacks {missing}")]
    Damaged { format: u32, missing: String },
    /// Choose another folder, or stop the holder.
    #[error("{folder} is in use by {holder}", folder = .folder.display())]
    Held { folder: PathBuf, holder: String },
    /// Choose another file: this one is not ours.
    #[error("{path} is not a Lazaret store", path = .0.display())]
    Foreign(PathBuf),
    /// Choose another database, or write its address as it is.
    #[error("this database cannot be used: {0}")]
    Unfit(String),
    /// Test mode and real use never share a store.
    #[error("{0}")]
    WrongMode(&'static str),
    /// The folder or file cannot be used at all.
    #[error("cannot use {path}", path = .path.display())]
    Path {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The store does not answer, or answered with a failure that we have no better word for.
    #[error("the store failed while {doing}")]
    Unavailable {
        doing: &'static str,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// What is stored contradicts itself; a person has to look.
    #[error("the store holds something that cannot be: {0}")]
    Corrupt(String),
}

/// What to do about a damaged store.
pub const DAMAGED_HINT: &str = "restore the last backup of the whole store and start again: the upgrade is repeated at the \
start, or by `lazaret store migrate`";

impl StoreError {
    /// The same failure for another caller of the same commit; causes cannot be shared, so only the first keeps it.
    pub(crate) fn again(&self) -> StoreError {
        match self {
            StoreError::Busy => StoreError::Busy,
            StoreError::Full => StoreError::Full,
            StoreError::ReadOnly => StoreError::ReadOnly,
            StoreError::TooSlow => StoreError::TooSlow,
            StoreError::Unavailable { doing, .. } => StoreError::Unavailable { doing, source: None },
            StoreError::Corrupt(what) => StoreError::Corrupt(what.clone()),
            StoreError::Unfit(what) => StoreError::Unfit(what.clone()),
            StoreError::WrongMode(what) => StoreError::WrongMode(what),
            StoreError::TooNew { found, known } => StoreError::TooNew { found: *found, known: *known },
            StoreError::Damaged { format, missing } => {
                StoreError::Damaged { format: *format, missing: missing.clone() }
            }
            StoreError::Held { folder, holder } => {
                StoreError::Held { folder: folder.clone(), holder: holder.clone() }
            }
            StoreError::Foreign(path) => StoreError::Foreign(path.clone()),
            StoreError::Path { .. } => StoreError::Unavailable { doing: "reaching its files", source: None },
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly,
            Some(ErrorCode::OperationInterrupted) => StoreError::TooSlow,
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(error.to_string()),
            _ => StoreError::Unavailable { doing: "running a statement", source: Some(Box::new(error)) },
        }
    }
}
