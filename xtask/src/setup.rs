//! Brings onto the machine what the tests need: lists what is missing, then installs it where that is
//! possible and says what to type where it is not. Never starts a service.

use std::ffi::OsStr;
use std::fmt::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::needs::{self, Need};

/// Run as root with the policy file and then the packages as arguments. Debian starts a service when it
/// installs one, unless `policy-rc.d` forbids it; the shell removes ours again even when it is
/// interrupted, and leaves alone one that was there before.
const INSTALL_SCRIPT: &str = r#"set -eu
policy=$1
shift
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update || echo 'apt-get update failed; trying with the package lists at hand' >&2
apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
"#;

const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";

/// What to do about a need that is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Install,
    Refuse,
}

pub(crate) fn ensure(needs: &[Need], on_missing: Missing) -> Result<()> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let missing = needs::missing(needs, &search_path);
    if missing.is_empty() {
        return Ok(());
    }
    eprint!("{}", list(&missing));
    match plan(&missing, on_missing, Machine::at_hand(&search_path)) {
        Plan::Install(argv) => install(&argv)?,
        Plan::Ask(why) => {
            bail!("{why}; on Debian, run this as root and try again:\n  {}", line_to_type(&missing))
        }
    }
    let still_missing = needs::missing(needs, &search_path);
    if !still_missing.is_empty() {
        bail!("installed, and yet not found:\n{}", list(&still_missing));
    }
    Ok(())
}

/// The ways in which machines differ here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    DebianRoot,
    DebianSudo,
    DebianUser,
    Other,
}

impl Machine {
    fn at_hand(search_path: &OsStr) -> Self {
        if !needs::is_on_path("apt-get", search_path) {
            Self::Other
        } else if prints("id", &["-u"], "0") {
            Self::DebianRoot
        } else if prints("sudo", &["-n", "id", "-u"], "0") {
            Self::DebianSudo
        } else {
            Self::DebianUser
        }
    }
}

/// A program that is not there prints nothing.
fn prints(program: &str, args: &[&str], expected: &str) -> bool {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && output.stdout.trim_ascii() == expected.as_bytes())
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Install(Vec<String>),
    /// Leave it to the person, for this reason.
    Ask(&'static str),
}

fn plan(missing: &[&Need], on_missing: Missing, machine: Machine) -> Plan {
    match (on_missing, machine) {
        (Missing::Refuse, _) => Plan::Ask("not installing anything, because of --no-setup"),
        (Missing::Install, Machine::DebianRoot) => Plan::Install(install_argv(&[], missing)),
        (Missing::Install, Machine::DebianSudo) => Plan::Install(install_argv(&["sudo", "-n"], missing)),
        (Missing::Install, Machine::DebianUser) => {
            Plan::Ask("cannot install: neither root nor allowed to sudo without a password")
        }
        (Missing::Install, Machine::Other) => Plan::Ask("cannot install: no apt-get here"),
    }
}

fn install_argv(become_root: &[&str], missing: &[&Need]) -> Vec<String> {
    let shell = ["sh", "-c", INSTALL_SCRIPT, "install", POLICY_FILE];
    [become_root, &shell, &packages(missing)].concat().into_iter().map(str::to_owned).collect()
}

fn install(argv: &[String]) -> Result<()> {
    let (program, args) = argv.split_first().context("nothing to run")?;
    let status =
        Command::new(program).args(args).stdin(Stdio::null()).status().context("cannot start apt-get")?;
    if !status.success() {
        bail!("the installation failed: {status}");
    }
    Ok(())
}

fn line_to_type(missing: &[&Need]) -> String {
    let packages = packages(missing).join(" ");
    format!("apt-get update && apt-get install -y --no-install-recommends {packages}")
}

fn packages(missing: &[&Need]) -> Vec<&'static str> {
    missing.iter().flat_map(|need| need.debian_packages).copied().collect()
}

fn list(missing: &[&Need]) -> String {
    let mut text = "the tests need what is not on this machine:\n".to_owned();
    for need in missing {
        let Need { name, debian_packages, purpose, .. } = need;
        writeln!(text, "  {name}: {purpose} (Debian: {})", debian_packages.join(" "))
            .expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const ABACUS: Need = Need {
        name: "abacus",
        found_at: &["lazaret-no-such-program"],
        debian_packages: &["abacus", "beads"],
        purpose: "counts letters",
    };

    #[test]
    fn what_is_there_is_not_installed() {
        let shell = Need { found_at: &["sh"], ..ABACUS };
        ensure(&[shell], Missing::Refuse).unwrap();
    }

    #[test]
    fn declined_it_fails_with_the_line_to_type() {
        let error = ensure(&[ABACUS], Missing::Refuse).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not installing anything, because of --no-setup; on Debian, run this as root and try again:\n  \
             apt-get update && apt-get install -y --no-install-recommends abacus beads"
        );
    }

    #[test]
    fn what_is_missing_is_listed_with_what_it_is_for() {
        assert_eq!(
            list(&[&ABACUS]),
            "the tests need what is not on this machine:\n  abacus: counts letters (Debian: abacus beads)\n"
        );
    }

    #[track_caller]
    fn check_plan(on_missing: Missing, machine: Machine, expected: &str) {
        let planned = match plan(&[&ABACUS], on_missing, machine) {
            Plan::Install(argv) => argv.join(" ").replace(INSTALL_SCRIPT, "SCRIPT"),
            Plan::Ask(why) => format!("ask: {why}"),
        };
        assert_eq!(planned, expected, "{on_missing:?} {machine:?}");
    }

    #[test]
    fn root_installs_directly_and_others_through_sudo() {
        let as_root = "sh -c SCRIPT install /usr/sbin/policy-rc.d abacus beads";
        check_plan(Missing::Install, Machine::DebianRoot, as_root);
        check_plan(Missing::Install, Machine::DebianSudo, &format!("sudo -n {as_root}"));
    }

    #[test]
    fn nothing_is_installed_where_it_cannot_or_must_not_be() {
        let no_root = "ask: cannot install: neither root nor allowed to sudo without a password";
        check_plan(Missing::Install, Machine::DebianUser, no_root);
        let no_apt = "ask: cannot install: no apt-get here";
        check_plan(Missing::Install, Machine::Other, no_apt);
        for machine in [Machine::DebianRoot, Machine::DebianSudo, Machine::DebianUser, Machine::Other] {
            check_plan(Missing::Refuse, machine, "ask: not installing anything, because of --no-setup");
        }
    }

    /// A folder with an `apt-get` of our own, in which the real script runs without being root.
    struct Sandbox {
        folder: PathBuf,
    }

    impl Sandbox {
        fn new(name: &str, apt_get: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("lazaret-setup-{name}-{}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            // Written by a shell, because a program that another thread's new child still holds open for
            // writing cannot be executed.
            let script = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).arg(folder.join("apt-get")).arg(apt_get);
            assert!(shell.status().unwrap().success());
            Self { folder }
        }

        fn policy_file(&self) -> PathBuf {
            self.folder.join("policy-rc.d")
        }

        /// Runs the script and returns whether it succeeded, and what it printed.
        fn install(&self) -> (bool, String) {
            let output = Command::new("sh")
                .args(["-c", INSTALL_SCRIPT, "install"])
                .arg(self.policy_file())
                .args(ABACUS.debian_packages)
                .env("PATH", format!("{}:/usr/bin:/bin", self.folder.display()))
                .env("POLICY", self.policy_file())
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        }
    }

    impl Drop for Sandbox {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    const INSTALL_LINE: &str =
        "noninteractive install -y --no-install-recommends -o DPkg::Lock::Timeout=300 abacus beads";

    #[test]
    fn services_are_forbidden_to_start_only_while_it_installs() {
        let sandbox = Sandbox::new(
            "policy",
            r#"code=0; "$POLICY" || code=$?; echo "$DEBIAN_FRONTEND $*, policy says $code""#,
        );
        let (succeeded, said) = sandbox.install();
        assert!(succeeded);
        let expected = format!("noninteractive update, policy says 101\n{INSTALL_LINE}, policy says 101\n");
        assert_eq!(said, expected);
        assert!(!sandbox.policy_file().exists());
    }

    #[test]
    fn the_policy_is_taken_back_when_the_installation_fails() {
        let sandbox = Sandbox::new("failure", "exit 100");
        assert!(!sandbox.install().0);
        assert!(!sandbox.policy_file().exists());
    }

    #[test]
    fn the_policy_is_taken_back_when_it_is_interrupted() {
        let sandbox = Sandbox::new("interrupt", "kill -TERM $PPID");
        assert!(!sandbox.install().0);
        assert!(!sandbox.policy_file().exists());
    }

    #[test]
    fn a_policy_that_was_there_before_stays() {
        let sandbox = Sandbox::new("kept", "exit 0");
        fs::write(sandbox.policy_file(), "theirs").unwrap();
        assert!(sandbox.install().0);
        assert_eq!(fs::read_to_string(sandbox.policy_file()).unwrap(), "theirs");
    }

    #[test]
    fn stale_package_lists_do_not_stop_it() {
        let sandbox = Sandbox::new("stale", r#"[ "$1" != update ] || exit 100; echo "$DEBIAN_FRONTEND $*""#);
        assert_eq!(sandbox.install(), (true, format!("{INSTALL_LINE}\n")));
    }
}
