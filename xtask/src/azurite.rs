//! Azurite, which stands in for Azure's object storage: one version from npm with what it depends on, in the user's cache. Never
//! part of the repository or of the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::python::cache;
use crate::setup::Missing;

/// A fixed version: a test that fails tomorrow fails because of us.
const VERSION: &str = "3.37.0";

/// Nothing is built and nothing of the packages is run when they are installed.
const INSTALL: [&str; 6] =
    ["install", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts", "--loglevel=error"];

/// Installs it if it is not there. `crates/server/tests/server/storages.rs` looks for it in the same place.
pub(crate) fn ensure(on_missing: Missing) -> Result<()> {
    let cache = cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for the tests' Azurite")?;
    let folder = folder(&cache);
    if folder.is_dir() {
        return Ok(());
    }
    let by_hand = format!("npm {} --prefix {} azurite@{VERSION}", INSTALL.join(" "), folder.display());
    match on_missing {
        Missing::Refuse => {
            bail!("the tests need Azurite {VERSION} and --no-setup forbids to install it; type:\n  {by_hand}")
        }
        Missing::Install => {
            eprintln!("installing Azurite {VERSION} in {}", folder.display());
            install(&folder).with_context(|| format!("cannot install it; by hand it is:\n  {by_hand}"))
        }
    }
}

fn folder(cache: &Path) -> PathBuf {
    cache.join(format!("lazaret-azurite/{VERSION}"))
}

/// Under another name until it is whole.
fn install(folder: &Path) -> Result<()> {
    let new = folder.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    std::fs::create_dir_all(&new)?;
    let status = Command::new("npm")
        .args(INSTALL)
        .arg("--prefix")
        .arg(&new)
        .arg(format!("azurite@{VERSION}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot start npm")?;
    if !status.success() {
        bail!("npm failed: {status}");
    }
    std::fs::rename(&new, folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_look_where_it_is_installed() {
        let looking = crate::cargo::workspace_root().join("crates/server/tests/server/storages.rs");
        let name = folder(Path::new(""));
        let expected = format!("\"{}/node_modules/", name.display());
        assert!(std::fs::read_to_string(looking).unwrap().contains(&expected), "{expected}");
    }
}
