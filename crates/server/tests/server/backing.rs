//! What the rig's store is kept in: a folder.

use std::path::PathBuf;

use lazaret_store::sqlite::{Mode, SqliteStore};
use tempfile::TempDir;

pub type Kept = SqliteStore;

pub struct Backing(TempDir);

impl Backing {
    pub fn new(_mode: Mode) -> Backing {
        Backing(tempfile::tempdir().unwrap())
    }

    pub async fn open(&self, mode: Mode) -> Kept {
        SqliteStore::open(self.0.path(), mode).unwrap()
    }

    /// The database's file, for tests that damage it.
    pub fn database(&self) -> PathBuf {
        self.0.path().join("lazaret.db")
    }
}
