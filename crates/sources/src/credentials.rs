//! What sources authenticate with. None of it is ever shown.

use std::fmt;
use std::path::PathBuf;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Certificates in PEM files. The roots of the machine are trusted as well.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tls {
    pub is_required: bool,
    pub ca: Option<PathBuf>,
    /// The client's certificate with its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for whoever connects or compares.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
