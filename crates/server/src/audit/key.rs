//! The key of the chain, and the note beside it that tells how far the chain had come.
//!
//! The key never reaches the database, a log or an answer.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lazaret_store::entropy::Entropy;
use lazaret_store::{Store, StoreError};

use super::Link;
use crate::config::{Config, StoreUrl};

const KEY_BYTES: usize = 32;

/// More than any form of a key has: a file that is none is not read to its end.
const FILE_BYTES_MAX: u64 = 1_024;

/// The key that links are made with.
#[derive(Clone)]
pub struct AuditKey {
    secret: [u8; KEY_BYTES],
    path: PathBuf,
}

/// The newest entry that was linked, as far as this machine knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    pub position: u64,
    pub link: Link,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key of the audit log cannot be read from {path}", path = .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the key of the audit log cannot be written to {path}", path = .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} holds no key: it has to be 32 bytes, or 64 hexadecimal digits", path = .0.display())]
    Malformed(PathBuf),
    #[error("no key is configured for the audit log of this store")]
    Unset,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KeyError {
    pub fn hint(&self) -> Option<String> {
        match self {
            KeyError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => Some(MAKE.into()),
            KeyError::Malformed(_) | KeyError::Unset => Some(MAKE.into()),
            KeyError::Unreadable { .. } | KeyError::Unwritable { .. } => {
                Some("let the server's user read and write it, or set audit.key_file".into())
            }
            KeyError::Store(_) => None,
        }
    }
}

const MAKE: &str =
    "make one with `openssl rand -hex 32 > audit.key`, give every server the same, and set audit.key_file";

/// Never shows the key.
impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditKey").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AuditKey {
    /// Reads the key that a configuration names, for whoever verifies without serving.
    pub fn read(config: &Config) -> Result<AuditKey, KeyError> {
        let path = config.audit_key_file().ok_or(KeyError::Unset)?;
        AuditKey::read_from(&path)
    }

    pub fn read_from(path: &Path) -> Result<AuditKey, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        if mode & 0o077 != 0 {
            let path = path.display();
            tracing::warn!("{path} can be read by others on this machine; it should have mode 0600");
        }
        let secret = decode(&bytes).ok_or_else(|| KeyError::Malformed(path.to_owned()))?;
        Ok(AuditKey { secret, path: path.to_owned() })
    }

    /// Makes a key of random bytes that only this user can read. A file that is there already is an error.
    pub fn make(path: &Path) -> Result<AuditKey, KeyError> {
        let unwritable = |source| KeyError::Unwritable { path: path.to_owned(), source };
        let secret: [u8; KEY_BYTES] = Entropy::default().take()?;
        if path.exists() {
            return Err(unwritable(ErrorKind::AlreadyExists.into()));
        }
        write_whole(path, format!("{}\n", hex(&secret)).as_bytes()).map_err(unwritable)?;
        Ok(AuditKey { secret, path: path.to_owned() })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the key and the note beside it to another place, unless a key is there.
    pub fn copy_to(&self, path: &Path) -> Result<AuditKey, KeyError> {
        let unwritable = |source| KeyError::Unwritable { path: path.to_owned(), source };
        if path.exists() {
            return Err(unwritable(ErrorKind::AlreadyExists.into()));
        }
        write_whole(path, format!("{}\n", hex(&self.secret)).as_bytes()).map_err(unwritable)?;
        let copy = AuditKey { secret: self.secret, path: path.to_owned() };
        if let Some(head) = self.head() {
            copy.note(&head);
        }
        Ok(copy)
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The note beside the key.
    fn note_path(&self) -> PathBuf {
        self.path.with_extension("head")
    }

    /// How far the chain had come when this machine linked last. Without it a log that ends too early looks whole.
    pub fn head(&self) -> Option<Head> {
        let mut text = String::new();
        File::open(self.note_path()).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let (position, link) = text.trim().split_once(' ')?;
        Some(Head { position: position.parse().ok()?, link: decode(link.as_bytes())? })
    }

    /// Writes the note. A failure costs only that a later cut would not be seen.
    pub(super) fn note(&self, head: &Head) {
        let path = self.note_path();
        let text = format!("{} {}\n", head.position, hex(&head.link));
        if let Err(error) = write_whole(&path, text.as_bytes()) {
            tracing::warn!(%error, "{} could not be written", path.display());
        }
    }
}

/// The whole file or none of it, for this user alone.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes as they are, or as 64 hexadecimal digits with blanks around.
fn decode(bytes: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if let Ok(secret) = bytes.try_into() {
        return Some(secret);
    }
    let digits = std::str::from_utf8(bytes).ok()?.trim();
    if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut secret = [0; KEY_BYTES];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(secret)
}

/// The key that a server links with; nothing if there is none, which is told in the log. An embedded store gets one at
/// its first start.
pub async fn prepare(config: &Config, store: &dyn Store) -> Result<Option<AuditKey>, KeyError> {
    let Some(path) = config.audit_key_file() else {
        tracing::warn!(
            "audit.key_file is not set: the audit log is kept and not linked, so a change of it cannot be proved; {MAKE}"
        );
        return Ok(None);
    };
    match AuditKey::read_from(&path) {
        Ok(key) => return Ok(Some(key)),
        Err(KeyError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match config.store {
        // Others share the store: a key that only this server knows would break their chain.
        StoreUrl::Postgres(_) => AuditKey::read_from(&path).map(Some),
        StoreUrl::Embedded if is_linked(store).await? => {
            tracing::error!(
                "{} is missing, and the audit log is linked with it: put it back; until then nothing is linked",
                path.display()
            );
            Ok(None)
        }
        StoreUrl::Embedded => AuditKey::make(&path).map(Some),
    }
}

/// Whether a chain has begun.
async fn is_linked(store: &dyn Store) -> Result<bool, StoreError> {
    let first = store.audit_links(0, 1).await?;
    Ok(first.first().is_some_and(|(_, link)| link.is_some()))
}
