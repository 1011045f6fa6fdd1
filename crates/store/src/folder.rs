//! The data folder: one process at a time, readable by its owner alone.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// How the server that holds a data folder can be asked by whoever may read the folder.
#[derive(Clone, PartialEq, Eq)]
pub struct ServedAt {
    pub url: String,
    /// Proves to that server that its folder was read, and to the reader that this is the server that holds it.
    pub key: String,
}

/// The key is a secret and stays out of logs.
impl std::fmt::Debug for ServedAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedAt").field("url", &self.url).finish_non_exhaustive()
    }
}

const URL: &str = "url ";
const KEY: &str = "key ";

impl ServedAt {
    /// Reads what the holder of a data folder wrote down; nothing if it serves nobody.
    pub fn read(folder: &Path) -> Option<ServedAt> {
        let text = fs::read_to_string(folder.join(LOCK)).ok()?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Some(ServedAt { url: value(URL)?, key: value(KEY)? })
    }
}

const LOCK: &str = "lock";

/// A data folder held by this process until it is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    lock: File,
}

/// Says it instead of only closing the file: a process that is being started at this moment has it open as well.
impl Drop for DataFolder {
    fn drop(&mut self) {
        self.lock.unlock().ok();
    }
}

impl DataFolder {
    /// Makes the folder if need be and locks it. The lock is the kernel's: it goes with the process, however that ends.
    pub fn hold(path: &Path) -> Result<DataFolder, StoreError> {
        let failed = |source| StoreError::Path { path: path.to_owned(), source };
        if !path.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        }
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                lock.read_to_string(&mut text).map_err(failed)?;
                // The lines below the first one hold a secret.
                let holder = match text.lines().next().unwrap_or_default().trim() {
                    "" => "another process".to_owned(),
                    known => known.to_owned(),
                };
                return Err(StoreError::Held { folder: path.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let folder = DataFolder { path: path.to_owned(), lock };
        folder.describe(&format!("process {}", std::process::id()))?;
        Ok(folder)
    }

    /// Writes down who holds the folder and where it can be asked, for whoever comes second.
    pub fn describe_server(&self, holder: &str, served: &ServedAt) -> Result<(), StoreError> {
        let ServedAt { url, key } = served;
        self.describe(&format!("{holder}\n{URL}{url}\n{KEY}{key}\n"))
    }

    /// Writes down who holds the folder, for whoever comes second.
    pub fn describe(&self, holder: &str) -> Result<(), StoreError> {
        let write = |mut file: &File| -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(holder.as_bytes())
        };
        write(&self.lock).map_err(|source| match source.kind() {
            std::io::ErrorKind::StorageFull => StoreError::Full,
            std::io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly,
            _ => StoreError::Path { path: self.path.clone(), source },
        })
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("lazaret.db")
    }

    /// The body index, which can be deleted: it is filled again.
    pub fn search_index(&self) -> PathBuf {
        self.path.join("search.db")
    }
}
