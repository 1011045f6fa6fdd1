//! The npm packages that the tests use: Azurite, which stands in for Azure's object storage, and a NATS client that is not
//! ours. Each set is installed in fixed versions, with what it depends on, in the user's cache. Never part of the repository
//! or of the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::python::cache;
use crate::setup::Missing;

/// Packages that are installed together in one folder.
#[derive(Debug)]
struct Set {
    name: &'static str,
    /// Below the user's cache; holds the version, so that another version is another folder.
    folder: &'static str,
    /// Fixed versions: a test that fails tomorrow fails because of us.
    packages: &'static [&'static str],
}

const SETS: [Set; 2] = [
    Set { name: "Azurite", folder: "lazaret-azurite/3.37.0", packages: &["azurite@3.37.0"] },
    Set {
        name: "the JavaScript client of NATS",
        folder: "lazaret-nats-js/3.4.0",
        packages: &["@nats-io/transport-node@3.4.0", "@nats-io/jetstream@3.4.0"],
    },
];

/// Nothing is built and nothing of the packages is run when they are installed.
const INSTALL: [&str; 6] =
    ["install", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts", "--loglevel=error"];

/// Installs what is not there.
pub(crate) fn ensure(on_missing: Missing) -> Result<()> {
    let cache = cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for the tests' npm packages")?;
    SETS.iter().try_for_each(|set| ensure_set(set, &cache.join(set.folder), on_missing))
}

fn ensure_set(set: &Set, folder: &Path, on_missing: Missing) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let (name, packages) = (set.name, set.packages.join(" "));
    let by_hand = format!("npm {} --prefix {} {packages}", INSTALL.join(" "), folder.display());
    match on_missing {
        Missing::Refuse => {
            bail!("the tests need {name} and --no-setup forbids to install it; type:\n  {by_hand}")
        }
        Missing::Install => {
            eprintln!("installing {name} ({packages}) in {}", folder.display());
            install(set, folder).with_context(|| format!("cannot install it; by hand it is:\n  {by_hand}"))
        }
    }
}

/// Under another name until it is whole.
fn install(set: &Set, folder: &Path) -> Result<()> {
    let new: PathBuf = folder.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    std::fs::create_dir_all(&new)?;
    let status = Command::new("npm")
        .args(INSTALL)
        .arg("--prefix")
        .arg(&new)
        .args(set.packages)
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
    fn the_tests_look_where_packages_are_installed() {
        let users = ["crates/server/tests/server/storages.rs", "crates/brokers/src/programs.rs"];
        for (set, user) in SETS.iter().zip(users) {
            let looking = crate::cargo::workspace_root().join(user);
            let expected = format!("\"{}/node_modules", set.folder);
            assert!(std::fs::read_to_string(looking).unwrap().contains(&expected), "{expected}");
        }
    }
}
